"""Any Gymnasium goal environment: what it must have, its spec, and its own check of what is reached."""

import contextlib
import copy
import importlib.util
import io
import json
import os
import re
import weakref
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from jax import Array

from clearning.envs import worker
from clearning.envs.gymnasium_env import GymnasiumGoalEnv
from clearning.envs.pool import EnvironmentFailed, LocalGroup, Pool, RemoteGroup
from clearning.envs.worker import PARTS, EnvGroup, fitting, told
from clearning.errors import ClearningError, UsageError
from clearning.types import EnvSpec

__all__ = ["EnvironmentFailed", "ExternalEnv", "UnsuitableEnvironment"]

LARGEST = float(np.finfo(np.float32).max)  # stands for "no bound"
ROBOTICS = re.compile(r"(Fetch|Hand|PointMaze|AntMaze|Adroit|FrankaKitchen)")
PROBE_EPISODES, PROBE_STEPS = 4, 8


class UnsuitableEnvironment(ClearningError):
    """An environment lacks something that training on it needs, or it cannot be opened."""


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
        self.action_repeat, self.processes, self.timeout = action_repeat, processes, timeout
        objections, probe = find_objections(self.env)
        if objections or probe is None:
            more = f", and {len(objections) - 1} more objections" if len(objections) > 1 else ""
            hint = f" (`clearning check-env {self.name}` lists them)" if more and self.by_name else ""
            raise UnsuitableEnvironment(f"{self.name} cannot be trained on: {objections[0]}{more}{hint}.")
        self.spec = spec_of(self.env, self.name, max_episode_steps, action_repeat, probe)
        self.rewards = independent_rewards(self.env, probe)
        self.best_reward = float(self.rewards(probe.desired[:1], probe.desired[:1])[0])
        self.failure = ""  # what its check raised inside JAX
        self._pool: Pool | None = None
        self._finish: Callable[[], Any] = lambda: None

    # What is reached ----------------------------------------------------------------------------

    def reached(self, achieved: Array, goal: Array) -> Array:
        """The environment's own check, callable inside jit and vmap; it sees whole batches at once."""
        check = getattr(self.env.get_wrapper_attr("compute_reward"), "__self__", None)
        if isinstance(check, GymnasiumGoalEnv):  # it is JAX underneath
            return check.functional.reached(achieved, goal)
        shape = jax.ShapeDtypeStruct(achieved.shape[:-1], bool)
        return jax.pure_callback(self._reached_inside, shape, achieved, goal, vmap_method="broadcast_all")

    def _reached_inside(self, achieved: Any, goal: Any) -> np.ndarray:
        # JAX would print what a callback raises and hide it in an error of its own, so it is kept for later.
        try:
            return self.reached_now(achieved, goal)
        except EnvironmentFailed as error:
            self.failure = str(error)
            return np.zeros(np.shape(achieved)[:-1], bool)

    def reached_now(self, achieved: Any, goal: Any) -> np.ndarray:
        achieved, goal = np.broadcast_arrays(np.asarray(achieved), np.asarray(goal))
        size = achieved.shape[-1]
        try:
            reward = self.rewards(achieved.reshape(-1, size), goal.reshape(-1, size))
            return (reward >= self.best_reward - 1e-6).reshape(achieved.shape[:-1])
        except Exception as error:
            raise EnvironmentFailed(f"{self.name}: its compute_reward raised {told(error)}") from error

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


# What an environment must have ------------------------------------------------------------------


class Probe(NamedTuple):
    """What a few short episodes of random actions showed, one row for each observation."""

    observation: np.ndarray
    achieved: np.ndarray
    desired: np.ndarray


def find_objections(env: gymnasium.Env[Any, Any]) -> tuple[list[str], Probe | None]:
    """Everything that would not work in an environment, in plain words; and what a few episodes showed."""
    objections = spaces_objections(env)
    if not is_goal_env(env):
        return objections, None
    if objections and not isinstance(env.action_space, spaces.Box | spaces.Discrete):
        return objections, None  # there is no acting in it
    try:
        shown = probe_observations(env)
    except Exception as error:
        return [*objections, f"it raised {told(error)}"], None
    found = observation_objections(env, shown)
    if found or objections:
        return [*objections, *found], None
    columns = ([np.asarray(s[part], np.float32) for s in shown] for part in PARTS)
    probe = Probe(*map(np.stack, columns))
    problem = reward_objection(rewards_of(env), probe)
    return ([problem] if problem else []), probe


def is_goal_env(env: gymnasium.Env[Any, Any]) -> bool:
    space = env.observation_space
    return isinstance(space, spaces.Dict) and set(PARTS) <= set(space.spaces)


def spaces_objections(env: gymnasium.Env[Any, Any]) -> list[str]:
    """What in an environment's spaces and methods would not work."""
    space = env.observation_space
    objections = []
    if not isinstance(space, spaces.Dict):
        objections.append(
            "it is not a goal environment: its observations are not a dictionary with "
            "'observation', 'achieved_goal' and 'desired_goal'"
        )
    else:
        for part in PARTS:
            objections += _part_objections(part, space.spaces.get(part))
        if not objections and space["achieved_goal"].shape != space["desired_goal"].shape:
            objections.append("its 'achieved_goal' and 'desired_goal' differ in shape")
    objections += _action_objections(env.action_space)
    has_check = env.has_wrapper_attr("compute_reward")
    if not has_check or not callable(env.get_wrapper_attr("compute_reward")):
        objections.append(
            "it has no compute_reward(achieved_goal, desired_goal, info), by which goals other than the "
            "episode's own are judged"
        )
    return objections


def _part_objections(part: str, space: Any) -> list[str]:
    if space is None:
        return [f"its observations have no '{part}'"]
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return [f"its '{part}' is nested (a {type(space).__name__} space): one vector of numbers is needed"]
    if not isinstance(space, spaces.Box):
        return [f"its '{part}' is not a vector of numbers but a {type(space).__name__} space"]
    if len(space.shape) != 1:
        kind = "images are not supported" if len(space.shape) in (2, 3) else "one axis is needed"
        return [f"its '{part}' has shape {space.shape}, not one axis: {kind}"]
    return []


def _action_objections(space: Any) -> list[str]:
    if isinstance(space, spaces.Discrete):
        return [f"its actions are numbered from {space.start}: from 0 is needed"] if space.start else []
    if not isinstance(space, spaces.Box):
        return [f"its actions are a {type(space).__name__} space: Box or Discrete is needed"]
    if len(space.shape) != 1:
        return [f"its actions have shape {space.shape}: one axis is needed"]
    if not np.issubdtype(space.dtype, np.floating):
        return [f"its actions are a Box of {space.dtype}: floats, or a Discrete space, are needed"]
    if not np.isfinite([space.low, space.high]).all():
        return ["its actions have no finite bounds: give the action space a finite low and high"]
    if (space.low >= space.high).any():
        return ["its actions have a lower bound that is not below the upper one"]
    return []


def random_action(space: Any, rng: np.random.Generator) -> Any:
    """A random action by a generator of our own; an environment's own one is left as it is."""
    if isinstance(space, spaces.Box):
        finite = [np.nan_to_num(bound, posinf=1.0, neginf=-1.0) for bound in (space.low, space.high)]
        return fitting(space, rng.uniform(*finite))
    return int(space.start + rng.integers(space.n))


def probe_observations(env: gymnasium.Env[Any, Any]) -> list[dict[str, Any]]:
    """The observations of a few short episodes of random actions, always the same ones."""
    rng = np.random.default_rng(0)
    shown = []
    for seed in range(PROBE_EPISODES):
        # Copied, for an environment may show one array again and again.
        shown.append(copy.deepcopy(env.reset(seed=seed)[0]))
        for _ in range(PROBE_STEPS):
            observation, _, terminated, truncated, _ = env.step(random_action(env.action_space, rng))
            shown.append(copy.deepcopy(observation))
            if terminated or truncated:
                break
    return shown


def observation_objections(env: gymnasium.Env[Any, Any], shown: list[dict[str, Any]]) -> list[str]:
    """Where observations are not what the spaces say, each complaint once."""
    space: Any = env.observation_space
    found: dict[str, None] = {}
    for observation in shown:
        for part in (p for p in PARTS if isinstance(space[p], spaces.Box)):
            if not isinstance(observation, Mapping) or part not in observation:
                found[f"an observation came without '{part}'"] = None
                continue
            try:
                value = np.asarray(observation[part], np.float64)
            except (TypeError, ValueError):
                found[f"its '{part}' is not made of numbers"] = None
                continue
            if value.shape != space[part].shape:
                found[f"its '{part}' came in shape {value.shape}; its space says {space[part].shape}"] = None
            elif not np.isfinite(value).all():
                found[f"its '{part}' held NaN or infinity"] = None
    return list(found)


def rewards_of(env: gymnasium.Env[Any, Any]) -> Callable[[Any, Any], np.ndarray]:
    """compute_reward over batches; that of a wrapper comes before that of what it wraps."""
    compute = env.get_wrapper_attr("compute_reward")
    return lambda achieved, goal: np.asarray(compute(achieved, goal, {}))


def independent_rewards(env: gymnasium.Env[Any, Any], probe: Probe) -> Callable[[Any, Any], np.ndarray]:
    """compute_reward over batches, or pair by pair where a batch of one pair fails.

    HandManipulatePen's does: it mixes the rows of a batch up (gymnasium-robotics 1.4.2) and is right for
    single pairs only.
    """
    batched = rewards_of(env)
    try:
        batched(probe.desired[:1], probe.desired[:1])
    except Exception:
        compute = env.get_wrapper_attr("compute_reward")
        return lambda a, g: np.array([compute(x, y, {}) for x, y in zip(a, g, strict=True)])
    return batched


def reward_objection(rewards: Callable[[Any, Any], np.ndarray], probe: Probe) -> str | None:
    """What is wrong with compute_reward as a batched check of what is reached; None if nothing."""
    try:
        same, every = sample_rewards(rewards, probe)
    except Exception as error:
        return f"its compute_reward does not take a batch of goals with an empty info: {told(error)}"
    if every.ndim == 0:
        return "its compute_reward does not give one reward for each pair in a batch"
    if not np.isfinite(every).all():
        return "its compute_reward gives NaN or infinity"
    if len(np.unique(every)) > 2:
        return "its rewards are dense: two values are needed, one where the goal is reached and one elsewhere"
    if np.ptp(same) > 0 or same[0] < every.max() or np.ptp(every) == 0:
        return "its compute_reward does not pay more at a goal than far from it"
    return None


def sample_rewards(rewards: Callable[[Any, Any], np.ndarray], probe: Probe) -> tuple[np.ndarray, np.ndarray]:
    """Rewards of goals at themselves, and of all pairs tried; no axis where it is not one each."""
    goals = np.unique(probe.desired, axis=0)[:PROBE_EPISODES]
    count, at = len(goals), len(probe.achieved)
    same = rewards(goals, goals)
    tried = [
        (same, count),
        (rewards(np.repeat(probe.achieved, count, 0), np.tile(goals, (at, 1))), at * count),
    ]
    for shift in (1e-3, 1e3):
        with contextlib.suppress(Exception):  # a goal that cannot be may be refused
            tried.append((rewards(goals, goals + np.float32(shift)), count))
    if any(values.shape != (size,) for values, size in tried):
        return same, np.zeros(())
    return same, np.concatenate([values for values, _ in tried]).astype(float)


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
    """The coordinates of the observation that repeat the achieved goal in all samples; () if none do."""
    same = (probe.observation[:, :, None] == probe.achieved[:, None, :]).all(0)  # (observation, goal)
    return tuple(int(i) for i in same.argmax(0)) if same.any(0).all() else ()


def name_of(env: gymnasium.Env[Any, Any]) -> str:
    return env.spec.id if env.spec else type(env.unwrapped).__name__
