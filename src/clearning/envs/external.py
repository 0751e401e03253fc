"""Any Gymnasium goal environment: what it must have, its spec, and its own check of what is reached."""

import contextlib
import importlib.util
import io
import json
import os
import re
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from clearning.envs import worker
from clearning.envs.objections import Probe, find_objections, independent_rewards
from clearning.envs.pool import EnvironmentFailed, LocalGroup, Pool, RemoteGroup
from clearning.envs.worker import EnvGroup, told
from clearning.errors import ClearningError, UsageError
from clearning.types import EnvSpec

__all__ = ["EnvironmentFailed", "ExternalEnv", "UnsuitableEnvironment"]

LARGEST = float(np.finfo(np.float32).max)  # stands for "no bound"
ROBOTICS = re.compile(r"(Fetch|Hand|PointMaze|AntMaze|Adroit|FrankaKitchen)")


class UnsuitableEnvironment(ClearningError):
    """An environment lacks something that training on it needs, or it cannot be opened."""


class ReachedWithin(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment whose goals count as reached within a distance that the user gives."""

    def __init__(self, env: gymnasium.Env[Any, Any], distance: float):
        super().__init__(env)
        self.distance = distance

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return (np.linalg.norm(achieved - desired, axis=-1) <= self.distance) - 1.0


class ExternalEnv:
    """A Gymnasium environment with goals, by its id or as an object.

    By its id it is opened as often as needed, in processes of their own. An object is stepped in this
    process, one episode at a time.
    """

    def __init__(
        self,
        env: str | gymnasium.Env[Any, Any],
        options: Mapping[str, Any] | None = None,
        max_episode_steps: int = 0,
        action_repeat: int = 1,
        processes: int = 0,
        timeout: float = 300.0,
        reached_within: float = 0.0,
    ):
        self.name = env if isinstance(env, str) else name_of(env)
        self.options = dict(options or {})
        if max_episode_steps and isinstance(env, str):
            self.options["max_episode_steps"] = max_episode_steps
        self.by_name = isinstance(env, str)
        if isinstance(env, str):
            _refuse_complex(self.options)
            self.env = open_by_name(self.name, self.options)
        else:
            self.env = TimeLimit(env, max_episode_steps) if max_episode_steps else env
        if reached_within:
            self.env = ReachedWithin(self.env, reached_within)
        self.action_repeat, self.processes, self.timeout = action_repeat, processes, timeout
        objections, probe = find_objections(self.env)
        if objections or probe is None:
            more = f", and {len(objections) - 1} more objections" if len(objections) > 1 else ""
            hint = f" (`clearning check-env {self.name}` lists them)" if more and self.by_name else ""
            raise UnsuitableEnvironment(f"{self.name} cannot be trained on: {objections[0]}{more}{hint}.")
        self.spec = spec_of(self.env, self.name, max_episode_steps, action_repeat, probe)
        self.rewards = independent_rewards(self.env, probe)
        self.best_reward = float(self.rewards(probe.desired[:1], probe.desired[:1])[0])
        self._pool: Pool | None = None
        self._finish: Callable[[], Any] = lambda: None

    # What is reached ----------------------------------------------------------------------------

    def reached(self, achieved: Any, goal: Any) -> np.ndarray:
        """The environment's own check, for whole batches at once; not callable inside JAX."""
        achieved, goal = np.broadcast_arrays(np.asarray(achieved), np.asarray(goal))
        size = achieved.shape[-1]
        try:
            reward = self.rewards(achieved.reshape(-1, size), goal.reshape(-1, size))
        except Exception as error:
            raise EnvironmentFailed(f"{self.name}: its compute_reward raised {told(error)}") from error
        if not np.isfinite(reward).all():
            raise EnvironmentFailed(f"{self.name}: its compute_reward gave NaN or infinity")
        return (reward >= self.best_reward - 1e-6).reshape(achieved.shape[:-1])

    # Stepping -----------------------------------------------------------------------------------

    def pool(self, count: int) -> Pool:
        """`count` copies to step; opened at the first call and kept."""
        self.refuse_more_than_one(count)
        if self._pool is None or self._pool.count < count:
            self.close()
            self._pool = self._open(count)
            # Whoever forgets to close leaves no processes behind either.
            self._finish = weakref.finalize(self, self._pool.close)
        return self._pool

    def refuse_more_than_one(self, count: int) -> None:
        """An object cannot be copied."""
        if not self.by_name and count > 1:
            raise UsageError(
                f"{self.name} is one object, so one episode at a time: set parallel_envs to 1, or give the "
                f"environment by its id."
            )

    def _open(self, count: int) -> Pool:
        if not self.by_name:
            return Pool(self.spec, 1, [LocalGroup(EnvGroup([self.env], self.action_repeat))])
        processes = min(self.processes or os.cpu_count() or 1, count)
        sizes = [len(part) for part in np.array_split(np.arange(count), processes)]
        groups = [RemoteGroup(self.name, self.options, n, self.action_repeat, self.timeout) for n in sizes]
        return Pool(self.spec, count, groups)

    def close(self) -> None:
        self._finish()
        self._pool = None


def _refuse_complex(options: Mapping[str, Any]) -> None:
    """Options travel to other processes, and into the run folder, as JSON."""
    for name, value in options.items():
        try:
            json.dumps(value)
        except TypeError:
            raise UsageError(
                f"The environment's option '{name}' is a {type(value).__name__}: with an id, options must be "
                f"numbers, texts or lists of them; else give the environment as an object."
            ) from None


def open_by_name(name: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """An environment by its Gymnasium id; why it could not be opened is told in one sentence."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # gymnasium-robotics greets with a notice
            return worker.open_env(name, dict(options))
    except gymnasium.error.UnregisteredEnv as error:
        if ROBOTICS.match(name) and importlib.util.find_spec("gymnasium_robotics") is None:
            raise UnsuitableEnvironment(
                f"{name} needs gymnasium-robotics, which is not installed: `pip install clearning[robotics]`."
            ) from error
        raise UsageError(
            f"There is no environment '{name}': {_line(error)} Your own goes by module:Id, as in "
            f"my_package:Robot-v0."
        ) from error
    except ModuleNotFoundError as error:
        if ":" in name:
            raise UsageError(f"There is no environment '{name}': {_line(error)}") from error
        raise UnsuitableEnvironment(f"{name} could not be opened: {_line(error)}") from error
    except gymnasium.error.DependencyNotInstalled as error:
        hint = " `pip install clearning[robotics]` installs what Fetch, Hand and PointMaze need."
        raise UnsuitableEnvironment(f"{name} could not be opened: {_line(error)}{hint}") from error
    except AssertionError as error:
        hint = ""
        if ROBOTICS.match(name):
            hint = (
                " MuJoCo 3.12 or later does this to gymnasium-robotics: `pip install clearning[robotics]` "
                "installs a version that works."
            )
        text = _line(error) if str(error) else "a bare assertion failed."
        raise UnsuitableEnvironment(f"{name} could not be opened: {text}{hint}") from error
    except TypeError as error:  # gymnasium's way to tell of options that do not exist
        raise UsageError(f"{name} could not be opened: {_line(error)}") from error
    except Exception as error:
        raise UnsuitableEnvironment(f"{name} could not be opened: {told(error)}.") from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".") + "."


# What a learner must know of it -----------------------------------------------------------------


def episode_limit(env: gymnasium.Env[Any, Any]) -> int | None:
    """The steps after which an environment ends an episode, where it says so."""
    if env.spec and env.spec.max_episode_steps:
        return env.spec.max_episode_steps
    if env.has_wrapper_attr("_max_episode_steps"):  # a TimeLimit around an object that is not registered
        return env.get_wrapper_attr("_max_episode_steps")
    return None


def spec_of(
    env: gymnasium.Env[Any, Any], name: str, max_episode_steps: int, action_repeat: int, probe: Probe
) -> EnvSpec:
    limit = max_episode_steps or episode_limit(env)
    if not limit:
        raise UsageError(f"{name} does not say how long an episode is: set max_episode_steps.")
    box: Any = env.observation_space
    bound = lambda x: tuple(np.clip(np.asarray(x, float), -LARGEST, LARGEST).tolist())  # noqa: E731
    action: Any = env.action_space
    discrete = isinstance(action, spaces.Discrete)
    return EnvSpec(
        name=name,
        observation_low=bound(box["observation"].low),
        observation_high=bound(box["observation"].high),
        goal_low=bound(box["desired_goal"].low),
        goal_high=bound(box["desired_goal"].high),
        action_names=tuple(str(i) for i in range(int(action.n))) if discrete else (),
        max_episode_steps=-(-limit // action_repeat),
        achieved_at=find_achieved(probe),
        action_low=() if discrete else bound(action.low),
        action_high=() if discrete else bound(action.high),
    )


def find_achieved(probe: Probe) -> tuple[int, ...]:
    """The coordinates of the observation that repeat the achieved goal in all samples; () if none surely do.

    What did not move in the samples may look like another coordinate that did not: those side by side go
    first, and after that only what is like no other.
    """
    same = (probe.observation[:, :, None] == probe.achieved[:, None, :]).all(0)  # (observation, goal)
    size = same.shape[1]
    for first in range(len(same) - size + 1):
        if same[first : first + size].diagonal().all():
            return tuple(range(first, first + size))
    return tuple(int(i) for i in same.argmax(0)) if (same.sum(0) == 1).all() else ()


def name_of(env: gymnasium.Env[Any, Any]) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
