"""What a Gymnasium environment must have to be trained on, and what in it would not work, in plain words."""

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from clearning.envs.worker import PARTS, fitting, told

PROBE_EPISODES, PROBE_STEPS = 4, 8


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
            "episode's own are judged, as a success in its info cannot: add it, or set reached_within to the "
            "distance at which a goal counts as reached"
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
    return lambda achieved, goal: np.asarray(compute(achieved, goal, {}), float)


def independent_rewards(env: gymnasium.Env[Any, Any], probe: Probe) -> Callable[[Any, Any], np.ndarray]:
    """compute_reward over batches, or pair by pair where it mixes the rows of a batch up.

    HandManipulatePen's does (gymnasium-robotics 1.4.2), and is right for single pairs only, which takes
    hundreds of times as long. A way around is taken where it gives the same.
    """
    batched, single = rewards_of(env), env.get_wrapper_attr("compute_reward")
    one_by_one = lambda a, g: np.array([single(x, y, {}) for x, y in zip(a, g, strict=True)], float)  # noqa: E731
    # Goals beside themselves, from near enough to too far, and what was really shown.
    rng = np.random.default_rng(0)
    apart = np.geomspace(1e-3, 1, len(probe.desired))[:, None] * rng.normal(size=probe.desired.shape)
    achieved = np.concatenate([probe.achieved, probe.desired + apart.astype(np.float32)])
    goal = np.concatenate([probe.desired, probe.desired])
    try:
        right = one_by_one(achieved, goal)
    except Exception:
        return batched
    if right.shape != (len(goal),):
        return batched  # it knows batches only
    for rewards in (batched, _rewards_turned_alike(env, batched)):
        with contextlib.suppress(Exception):  # the pen's raises at a batch of one
            if (
                rewards
                and np.array_equal(rewards(achieved, goal), right)
                and len(rewards(goal[:1], goal[:1]))
            ):
                return rewards
    return one_by_one


def _rewards_turned_alike(env: gymnasium.Env[Any, Any], batched: Callable) -> Callable | None:
    """Rewards of batches from a hand of gymnasium-robotics that leaves the turn around z out of account.

    It gives the two rotations of a pair the same turn, and this is what mixes rows up. Done here before, and
    with that switched off, the rest of its check does take batches.
    """
    hand: Any = env.unwrapped
    if not getattr(hand, "ignore_z_target_rotation", False):
        return None  # something else mixes its rows up
    from gymnasium_robotics.utils.rotations import euler2quat, quat2euler

    def rewards(achieved: Any, goal: Any) -> np.ndarray:
        angles = quat2euler(achieved[..., 3:])
        angles[..., 2] = quat2euler(goal[..., 3:])[..., 2]
        hand.ignore_z_target_rotation = False
        try:
            return batched(np.concatenate([achieved[..., :3], euler2quat(angles)], -1), goal)
        finally:
            hand.ignore_z_target_rotation = True

    return rewards


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
