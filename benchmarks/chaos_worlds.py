"""FetchReach as it is, until a file says how it is to break; workers open it as chaos_worlds:Breaking-v0."""

import contextlib
import io
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

with contextlib.redirect_stderr(io.StringIO()):  # gymnasium-robotics greets with a notice
    import gymnasium_robotics

    gymnasium.register_envs(gymnasium_robotics)


class Breaking(gymnasium.Wrapper):
    """Breaks at a step while the file `flag` exists, in the way that its text says."""

    def __init__(self, flag: str = ""):
        super().__init__(gymnasium.make("FetchReach-v4"))
        self.flag = Path(flag)

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        if self.flag.is_file():
            how = self.flag.read_text()
            if how == "raise":
                raise RuntimeError("the motor is hot")
            if how == "hang":
                time.sleep(600)
            observation["observation"] = np.full(10, np.nan) if how == "nan" else np.zeros(7)
        return observation, *rest

    def compute_reward(self, *arguments: Any) -> Any:
        return self.env.get_wrapper_attr("compute_reward")(*arguments)


gymnasium.register("Breaking-v0", entry_point=Breaking, max_episode_steps=50)
