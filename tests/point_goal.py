"""A Gymnasium goal environment that costs nothing: a point on a square, moved by at most 0.5."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class PointGoal(gymnasium.Env[Any, Any]):
    """With `drawable` False it is one of those that have no picture; `extra` numbers can be observed too."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None, drawable: bool = True, extra: int = 0):
        self.render_mode = render_mode
        if not drawable:
            self.metadata = {"render_modes": []}
        box = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.extra = np.zeros(extra, np.float32)
        seen = spaces.Box(-1.0, 1.0, (2 + extra,), np.float32)
        self.observation_space = spaces.Dict(observation=seen, achieved_goal=box, desired_goal=box)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.place = self.goal = np.zeros(2, np.float32)

    def _seen(self) -> dict[str, np.ndarray]:
        seen = np.concatenate([self.place, self.extra])
        return {"observation": seen, "achieved_goal": self.place, "desired_goal": self.goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        return self._seen(), {}

    def step(self, action):
        self.place = np.clip(self.place + 0.5 * np.asarray(action, np.float32), -1, 1).astype(np.float32)
        reward = float(self.compute_reward(self.place, self.goal, {}))
        return self._seen(), reward, False, False, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        near = np.linalg.norm(np.asarray(achieved_goal) - np.asarray(desired_goal), axis=-1) < 0.3
        return near.astype(np.float32) - 1

    def render(self):
        picture = np.full((30, 60, 3), 255, np.uint8)
        picture[np.ix_(*((15 * (1 + self.place[::-1])).astype(int)[:, None].clip(0, 29)))] = 0
        return picture


gymnasium.register("PointGoal-v0", entry_point=PointGoal, max_episode_steps=6)
