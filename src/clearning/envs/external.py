"""Any Gymnasium goal environment: its spec, its own check of what is reached, and many copies to step."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jax import Array

from clearning.envs import worker
from clearning.envs.worker import EnvGroup, Seen
from clearning.errors import ClearningError, UsageError
from clearning.types import EnvSpec

PARTS = ("observation", "achieved_goal", "desired_goal")
LARGEST = float(np.finfo(np.float32).max)  # stands for "no bound"


class EnvironmentFailed(ClearningError):
    """An environment raised, died or showed something that is not a number, in the middle of a training."""


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
    ):
        self.name = env if isinstance(env, str) else _name_of(env)
        self.options = dict(options or {})
        if max_episode_steps and isinstance(env, str):
            self.options["max_episode_steps"] = max_episode_steps
        self.by_name = isinstance(env, str)
        self.env = open_by_name(self.name, self.options) if isinstance(env, str) else env
        self.action_repeat, self.processes = action_repeat, processes
        objections = list(spaces_objections(self.env))
        if objections:
            raise UsageError(f"{self.name} cannot be trained on: {objections[0]}.")
        self.spec = spec_of(self.env, self.name, max_episode_steps, action_repeat)
        self._best_reward = self._reward_when_reached()
        self._pool: Pool | None = None

    # What is reached ----------------------------------------------------------------------------

    def reached(self, achieved: Array, goal: Array) -> Array:
        """The environment's own check, callable inside jit and vmap; it sees whole batches at once."""
        shape = jax.ShapeDtypeStruct(achieved.shape[:-1], bool)
        return jax.pure_callback(self.reached_now, shape, achieved, goal, vmap_method="broadcast_all")

    def reached_now(self, achieved: Any, goal: Any) -> np.ndarray:
        achieved, goal = np.broadcast_arrays(np.asarray(achieved), np.asarray(goal))
        size = achieved.shape[-1]
        reward = self._rewards(achieved.reshape(-1, size), goal.reshape(-1, size))
        return (reward >= self._best_reward - 1e-6).reshape(achieved.shape[:-1])

    def _rewards(self, achieved: np.ndarray, goal: np.ndarray) -> np.ndarray:
        return np.asarray(self.env.unwrapped.compute_reward(achieved, goal, {}))  # pyright: ignore[reportAttributeAccessIssue]

    def _reward_when_reached(self) -> float:
        """The reward of being exactly at a goal: 0 where others pay −1, 1 where others pay 0."""
        goals = np.stack([self.env.reset(seed=i)[0]["desired_goal"] for i in range(4)])
        problem = check_rewards(self._rewards, goals)
        if problem:
            raise UsageError(f"{self.name} cannot be trained on: {problem}.")
        return float(self._rewards(goals, goals)[0])

    # Stepping -----------------------------------------------------------------------------------

    def pool(self, count: int) -> "Pool":
        """`count` copies to step; opened at the first call and kept."""
        if not self.by_name and count > 1:
            raise UsageError(
                f"{self.name} is one object, so one episode at a time: set parallel_envs to 1, or give the "
                f"environment by its id."
            )
        if self._pool is None or self._pool.count < count:
            self.close()
            self._pool = self._open(count)
        return self._pool

    def _open(self, count: int) -> "Pool":
        if not self.by_name:
            return Pool(1, [LocalGroup(EnvGroup([self.env], self.action_repeat))])
        processes = min(self.processes or os.cpu_count() or 1, count)
        sizes = [len(part) for part in np.array_split(np.arange(count), processes)]
        groups = [RemoteGroup(self.name, self.options, n, self.action_repeat) for n in sizes]
        return Pool(count, groups)

    def close(self) -> None:
        if self._pool:
            self._pool.close()
            self._pool = None


class Pool:
    """Environments numbered 0..count−1, spread over groups that work at the same time."""

    def __init__(self, count: int, groups: "list[LocalGroup] | list[RemoteGroup]"):
        self.count, self.groups = count, groups
        self.owner = np.array_split(np.arange(count), len(groups))

    def reset(self, seeds: np.ndarray) -> Seen:
        """Start an episode in the first environments, one for each seed."""
        parts = [(g, seeds[mine[mine < len(seeds)]]) for g, mine in zip(self.groups, self.owner, strict=True)]
        return self._ask([(g, "reset", part.tolist()) for g, part in parts if len(part)])

    def step(self, which: np.ndarray, actions: np.ndarray) -> Seen:
        """Step some environments, whose numbers must ascend."""
        asked = []
        for group, mine in zip(self.groups, self.owner, strict=True):
            chosen = (which >= mine[0]) & (which <= mine[-1])
            if chosen.any():
                asked.append((group, "step", (which[chosen] - mine[0]).tolist(), actions[chosen]))
        return self._ask(asked)

    def _ask(self, requests: list[tuple]) -> Seen:
        for group, *request in requests:
            group.send(request)
        answers = [group.receive() for group, *_ in requests]
        seen = Seen(*(np.concatenate(column) for column in zip(*answers, strict=True)))
        for name in ("observation", "achieved", "desired"):
            if not np.isfinite(getattr(seen, name)).all():
                raise EnvironmentFailed(f"The environment showed NaN or infinity in its {name}")
        return seen

    def close(self) -> None:
        for group in self.groups:
            group.close()


class LocalGroup:
    """Environments stepped in this process."""

    def __init__(self, group: EnvGroup):
        self.group = group
        self.request: list[Any] = []

    def send(self, request: list[Any]) -> None:
        self.request = request

    def receive(self) -> Seen:
        name, *arguments = self.request
        try:
            return getattr(self.group, name)(*arguments)
        except Exception as error:
            raise EnvironmentFailed(f"The environment raised {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """The environment is the user's to close."""


class RemoteGroup:
    """Environments stepped in a process of their own."""

    def __init__(self, name: str, options: dict[str, Any], count: int, action_repeat: int):
        here, there = Pipe()
        recipe = {"file": there.fileno(), "name": name, "options": options, "count": count}
        command = [
            sys.executable,
            "-P",
            str(Path(worker.__file__)),
            json.dumps(recipe | {"action_repeat": action_repeat}),
        ]
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self.process = subprocess.Popen(
            command,
            pass_fds=[there.fileno()],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
        )
        there.close()
        self.connection: Connection = here  # pyright: ignore[reportAttributeAccessIssue]
        self.ready = False

    def send(self, request: list[Any]) -> None:
        if not self.ready:
            self.receive_ready()
        try:
            self.connection.send(tuple(request))
        except OSError:
            self._died()

    def receive_ready(self) -> None:
        answer = self._answer()
        if answer != "ready":
            raise EnvironmentFailed(f"A worker could not open the environment: {answer}")
        self.ready = True

    def receive(self) -> Seen:
        answer = self._answer()
        if isinstance(answer, str):
            raise EnvironmentFailed(f"The environment raised {answer}")
        return Seen(*answer)

    def _answer(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            return self._died()

    def _died(self) -> Any:
        code = self.process.wait(timeout=10)
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise EnvironmentFailed(f"A process that stepped the environment ended {how}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.send(("close",))
            self.connection.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def open_by_name(name: str, options: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # gymnasium-robotics greets with a notice
            return worker.open_env(name, dict(options))
    except gymnasium.error.UnregisteredEnv as error:
        raise UsageError(
            f"There is no environment '{name}': {str(error).rstrip('.')}. Fetch, Hand and PointMaze need "
            f"`pip install clearning[robotics]`; your own goes by module:Id, as in my_package:Robot-v0."
        ) from error
    except (ImportError, gymnasium.error.Error) as error:
        raise UsageError(f"{name} could not be opened: {error}") from error
    except AssertionError as error:
        raise UsageError(
            f"{name} could not be opened (a bare assertion failed). MuJoCo 3.12 or later does this to "
            f"gymnasium-robotics: `pip install clearning[robotics]` installs a version that works."
        ) from error


def spaces_objections(env: gymnasium.Env[Any, Any]) -> list[str]:
    """What in an environment's spaces and methods would not work, in plain words."""
    space = env.observation_space
    if not isinstance(space, spaces.Dict):
        return [
            "it is not a goal environment: its observations are not a dictionary with "
            "'observation', 'achieved_goal' and 'desired_goal'"
        ]
    objections = []
    for part in PARTS:
        inner = space.spaces.get(part)
        if inner is None:
            objections.append(f"its observations have no '{part}'")
        elif not isinstance(inner, spaces.Box):
            objections.append(f"its '{part}' is not a vector of numbers but a {type(inner).__name__} space")
        elif len(inner.shape) != 1:
            objections.append(
                f"its '{part}' has shape {inner.shape}: one axis is needed; images are not supported"
            )
    if not objections and space["achieved_goal"].shape != space["desired_goal"].shape:
        objections.append("its 'achieved_goal' and 'desired_goal' differ in shape")
    action = env.action_space
    if isinstance(action, spaces.Box):
        if len(action.shape) != 1:
            objections.append(f"its actions have shape {action.shape}: one axis is needed")
        elif not np.isfinite([action.low, action.high]).all():
            objections.append("its actions have no finite bounds")
    elif not isinstance(action, spaces.Discrete):
        objections.append(f"its actions are a {type(action).__name__} space: Box or Discrete is needed")
    elif action.start != 0:
        objections.append(f"its actions are numbered from {action.start}: from 0 is needed")
    if not hasattr(env.unwrapped, "compute_reward"):
        objections.append(
            "it has no compute_reward(achieved_goal, desired_goal, info), by which goals other than the "
            "episode's own are judged"
        )
    return objections


def check_rewards(rewards: Callable[[Any, Any], np.ndarray], goals: np.ndarray) -> str | None:
    """What is wrong with compute_reward as a batched check of what is reached; None if nothing."""
    try:
        same, other = rewards(goals, goals), rewards(goals, goals + 1e3)
        near = rewards(goals, goals + np.float32(1e-3))
        far = rewards(goals, goals + np.float32(10.0))
    except Exception as error:
        return f"its compute_reward does not take a batch of goals ({type(error).__name__}: {error})"
    if same.shape != (len(goals),):
        return (
            f"its compute_reward gives shape {same.shape} for {len(goals)} goals; one reward each is needed"
        )
    if (same <= other).any():
        return "its compute_reward does not pay more at a goal than far from it"
    if np.ptp(same) > 0 or (other != far).any() or len(np.unique(np.concatenate([same, near, other]))) > 2:
        return "its rewards are dense: two values are needed, one where the goal is reached and one elsewhere"
    return None


def spec_of(env: gymnasium.Env[Any, Any], name: str, max_episode_steps: int, action_repeat: int) -> EnvSpec:
    limit = max_episode_steps or (env.spec.max_episode_steps if env.spec else None)
    if not limit:
        raise UsageError(f"{name} does not say how long an episode is: set max_episode_steps.")
    box: Any = env.observation_space
    found = [env.reset(seed=i)[0] for i in range(4)]
    bound = lambda x: tuple(np.clip(np.asarray(x, float), -LARGEST, LARGEST).tolist())  # noqa: E731
    action = env.action_space
    discrete = isinstance(action, spaces.Discrete)
    return EnvSpec(
        name=name,
        observation_low=bound(box["observation"].low),
        observation_high=bound(box["observation"].high),
        goal_low=bound(box["desired_goal"].low),
        goal_high=bound(box["desired_goal"].high),
        action_names=tuple(str(i) for i in range(int(action.n))) if discrete else (),
        max_episode_steps=-(-limit // action_repeat),
        achieved_at=find_achieved(found),
        action_low=() if discrete else bound(action.low),  # pyright: ignore[reportAttributeAccessIssue]
        action_high=() if discrete else bound(action.high),  # pyright: ignore[reportAttributeAccessIssue]
    )


def find_achieved(seen: list[dict[str, np.ndarray]]) -> tuple[int, ...]:
    """The coordinates of the observation that repeat the achieved goal in all samples; () if none do."""
    observation = np.stack([s["observation"] for s in seen])
    achieved = np.stack([s["achieved_goal"] for s in seen])
    same = (observation[:, :, None] == achieved[:, None, :]).all(0)  # (observation, goal)
    return tuple(int(i) for i in same.argmax(0)) if same.any(0).all() else ()


def _name_of(env: gymnasium.Env[Any, Any]) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
