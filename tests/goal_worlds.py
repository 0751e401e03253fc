"""Small Gymnasium environments with goals, good and bad, which worker processes open by module:Id."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LOW, HIGH = np.array([-1.0, 0.0], np.float32), np.array([3.0, 2.0], np.float32)
CENTRE = (LOW + HIGH) / 2
MOVES = np.array([[0.2, 0.0], [-0.2, 0.0], [0.0, 0.2], [0.0, -0.2]], np.float32)


def vector(size: int, dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), dtype)


class Point(gymnasium.Env):
    """A point in the square [−1, 1]²; the action's middle rests. Observed: how long it ran, then where it is.

    ends: what terminates an episode, out of "success" and "edge" (to touch the right one).
    says_dead: whether info["dead"] tells that the edge was touched.
    reward: what is paid elsewhere and at the goal.
    radius: how near is at the goal; claims: the radius by which info["is_success"] goes.
    flag: a file; while it exists, the environment fails as the file's text says.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(
        self,
        ends: str = "",
        says_dead: bool = False,
        discrete: bool = False,
        reward: tuple[float, float] = (-1.0, 0.0),
        radius: float = 0.3,
        claims: float = 0.3,
        start: float = 0.0,
        forgetful: bool = False,
        extra: int = 0,
        flag: str = "",
    ):
        self.ends, self.says_dead, self.discrete, self.reward = ends, says_dead, discrete, reward
        self.radius, self.claims, self.start, self.forgetful = radius, claims, start, forgetful
        self.extra, self.flag = extra, flag
        self.observation_space: Any = spaces.Dict(
            observation=vector(3 + extra), achieved_goal=vector(2), desired_goal=vector(2)
        )
        self.action_space: Any = spaces.Discrete(4) if discrete else spaces.Box(LOW, HIGH)
        self.received: list[Any] = []
        self.resets = 0
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        self.steps = 0
        self.at = np.full(2, self.start, np.float32)
        self.goal = self.np_random.uniform(-0.9, 0.9, 2).astype(np.float32)
        if self.forgetful:  # of its seed
            self.goal[0] = 0.001 * (self.resets % 900)
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), f"{action!r} is no action"
        self.received.append(action)
        self.steps += 1
        move = MOVES[action] if self.discrete else 0.2 * (action - CENTRE) / (HIGH - CENTRE)
        slip = 0.01 * self.np_random.normal(size=2)
        self.at = np.clip(self.at + move + slip, -1, 1).astype(np.float32)
        edge = bool(self.at[0] >= 1)
        distance = float(np.linalg.norm(self.at - self.goal))
        terminated = ("success" in self.ends and distance <= self.radius) or ("edge" in self.ends and edge)
        info = {"is_success": distance <= self.claims, **({"dead": edge} if self.says_dead else {})}
        observation = self.observe()
        if self.flag and Path(self.flag).exists():
            self.fail(Path(self.flag).read_text(), observation)
        return observation, float(self.compute_reward(self.at, self.goal, {})), terminated, False, info

    def observe(self) -> dict[str, np.ndarray]:
        rest = np.zeros(self.extra, np.float32)
        return {
            "observation": np.array([0.1 * self.steps, *self.at, *rest], np.float32),
            "achieved_goal": self.at.copy(),
            "desired_goal": self.goal.copy(),
        }

    def fail(self, how: str, observation: dict[str, np.ndarray]) -> None:
        if how == "nan":
            observation["achieved_goal"][0] = np.nan
        elif how == "size":
            observation["observation"] = np.zeros(7, np.float32)
        elif how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "hang":
            time.sleep(600)
        elif how == "hang up":
            os.closerange(3, 64)
            time.sleep(600)
        elif how == "raise":
            raise RuntimeError("the motor is hot")

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        large = np.ndim(achieved) == 2 and len(achieved) >= 16  # as in an update
        if large and self.flag and Path(self.flag).exists() and Path(self.flag).read_text() == "reward":
            raise RuntimeError("no reward today")
        near = np.linalg.norm(np.asarray(achieved) - np.asarray(desired), axis=-1) <= self.radius
        return np.where(near, self.reward[1], self.reward[0])


class NoGoals(Point):
    def __init__(self):
        super().__init__()
        self.observation_space = vector(3)


class NoCheck(gymnasium.Env):
    """Has everything but compute_reward, and actions that cannot be scaled."""

    observation_space = spaces.Dict(observation=vector(1), achieved_goal=vector(1), desired_goal=vector(1))
    action_space = vector(1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return {part: np.zeros(1, np.float32) for part in self.observation_space.spaces}, {}

    def step(self, action: Any) -> Any:
        return self.reset()[0], 0.0, False, False, {}


class OneAtATime(Point):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return 0.0 if np.hypot(*(achieved - desired)) < 0.3 else -1.0


class Dense(Point):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return -np.linalg.norm(np.asarray(achieved) - np.asarray(desired), axis=-1)


class Nested(Point):
    def __init__(self):
        super().__init__()
        inner = spaces.Dict(arm=vector(2), hand=vector(1))
        self.observation_space = spaces.Dict(
            observation=inner, achieved_goal=vector(2), desired_goal=vector(2)
        )

    def observe(self) -> Any:
        return super().observe() | {"observation": {"arm": self.at, "hand": self.at[:1]}}


class Image(Point):
    def __init__(self):
        super().__init__()
        image = spaces.Box(0, 255, (8, 8, 3), np.uint8)
        self.observation_space = spaces.Dict(
            observation=image, achieved_goal=vector(2), desired_goal=vector(2)
        )

    def observe(self) -> Any:
        return super().observe() | {"observation": np.zeros((8, 8, 3), np.uint8)}


class ManyHands(Point):
    """Several objections at once: actions of several kinds, and dense rewards without a batch."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.MultiDiscrete([2, 3])

    compute_reward = None  # pyright: ignore[reportAssignmentType]


class Liar(Point):
    """Shows more than its space says, and NaN."""

    def observe(self) -> Any:
        shown = super().observe()
        return shown | {
            "observation": np.zeros(9, np.float32),
            "achieved_goal": shown["achieved_goal"] * np.nan,
        }


class Owned(Point):
    """Opens in one process only, as what holds a device might."""

    def __init__(self, owner: int):
        super().__init__()
        if os.getpid() != owner:
            raise OSError("the robot is another's")


def broken(why: str) -> Any:
    """Cannot be opened."""
    raise {
        "dependency": gymnasium.error.DependencyNotInstalled("the arm is not installed"),
        "assertion": AssertionError("the table has three legs"),
        "bare": AssertionError(),
        "camera": OSError("no camera"),
    }[why]


for world in (Point, NoGoals, NoCheck, OneAtATime, Dense, Nested, Image, ManyHands, Liar, Owned):
    if f"{world.__name__}-v0" not in gymnasium.registry:
        gymnasium.register(f"{world.__name__}-v0", entry_point=world, max_episode_steps=12)
gymnasium.register("Endless-v0", entry_point=Point)
gymnasium.register("Long-v0", entry_point=Point, max_episode_steps=300)
gymnasium.register("Broken-v0", entry_point=broken)
gymnasium.register("FetchBroken-v0", entry_point=broken)  # by its name one of gymnasium-robotics
gymnasium.register("Homeless-v0", entry_point="no_such_house:Room")
