"""What `clearning check-env` tells of a Gymnasium environment before any training."""

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from clearning.config import Config
from clearning.envs.external import (
    ExternalEnv,
    ReachedWithin,
    UnsuitableEnvironment,
    episode_limit,
    find_achieved,
    name_of,
    open_by_name,
)
from clearning.envs.objections import (
    Probe,
    find_objections,
    independent_rewards,
    observation_objections,
    random_action,
    sample_rewards,
)
from clearning.envs.worker import told

RESETS = 50
EPISODES = 5
STEPS = 1000  # over those episodes, at most
LONG = 2 * Config.max_horizon  # steps of an episode that call for action repeat


@dataclass
class EnvReport:
    """What was found: objections rule a training out, warnings do not."""

    name: str
    objections: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    findings: dict[str, str] = field(default_factory=dict)

    @property
    def trainable(self) -> bool:
        return not self.objections


class Walk(NamedTuple):
    """Episodes of random actions, all rows in a line."""

    observations: list[dict[str, Any]]
    claims: list[bool | None]  # what the environment's info said of success, where it did
    terminated: list[bool]
    dead: list[bool | None]
    seconds: float


def check_env(
    env: str | gymnasium.Env[Any, Any],
    options: Mapping[str, Any] | None = None,
    max_episode_steps: int = 0,
    reached_within: float = 0.0,
) -> EnvReport:
    """Everything that would not work in an environment, by its id or as an object, and what it is like."""
    report = EnvReport(env if isinstance(env, str) else name_of(env))
    limits = {"max_episode_steps": max_episode_steps} if max_episode_steps else {}
    if isinstance(env, str):
        opened = open_by_name(report.name, {**(options or {}), **limits})
    else:
        opened = TimeLimit(env, max_episode_steps) if max_episode_steps else env
    if reached_within:
        opened = ReachedWithin(opened, reached_within)
    try:
        report.objections, probe = find_objections(opened)
        limit = max_episode_steps or episode_limit(opened)
        if not limit:
            report.objections.append("it does not say how long an episode is: set --max-episode-steps")
        _describe(report, opened, limit)
        if probe is not None:
            where = find_achieved(probe)
            report.findings["achieved goal"] = (
                f"found in the observation, at {', '.join(map(str, where))}"
                if where
                else "not part of the observation as it is; distances to the goal are then learned"
            )
        if report.trainable and probe is not None:
            try:
                _walk_and_look(report, opened, limit or STEPS, probe)
            except Exception as error:
                report.objections.append(f"it raised {told(error)}")
    finally:
        if isinstance(env, str):
            opened.close()  # an object is the user's to close
    if report.trainable and isinstance(env, str):
        _try_worker(report, env, options, max_episode_steps, reached_within)
    return report


def _describe(report: EnvReport, env: gymnasium.Env[Any, Any], limit: int | None) -> None:
    """Sizes, actions and length, as far as the spaces tell."""
    space, action = env.observation_space, env.action_space
    if isinstance(space, spaces.Dict):
        for part, words in (("observation", "observation"), ("desired_goal", "goal")):
            inner = space.spaces.get(part)
            if isinstance(inner, spaces.Box) and len(inner.shape) == 1:
                report.findings[words] = f"{inner.shape[0]} numbers"
    if isinstance(action, spaces.Discrete):
        report.findings["actions"] = f"discrete, {int(action.n)} of them"
    elif isinstance(action, spaces.Box) and len(action.shape) == 1:
        report.findings["actions"] = f"continuous, {action.shape[0]} numbers in {_bounds(action)}"
    if limit:
        report.findings["episode"] = f"{limit} steps"
        if limit > LONG:
            repeat = -(-limit // Config.max_horizon)
            report.warnings.append(
                f"an episode of {limit} steps is much longer than the default max_horizon of "
                f"{Config.max_horizon}: --action-repeat {repeat} makes it {-(-limit // repeat)} steps of "
                f"{repeat} each"
            )


def _bounds(space: spaces.Box) -> str:
    pairs = dict.fromkeys((float(a), float(b)) for a, b in zip(space.low, space.high, strict=True))
    return " and ".join(f"{a:g}..{b:g}" for a, b in pairs)


def _walk_and_look(report: EnvReport, env: gymnasium.Env[Any, Any], limit: int, probe: Probe) -> None:
    rewards = independent_rewards(env, probe)
    starts = [copy.deepcopy(env.reset(seed=seed)[0]) for seed in range(RESETS)]
    walk = _walk(env, limit)
    report.objections += observation_objections(env, starts + walk.observations)
    if report.objections:
        return
    reached = _reached(rewards, starts)
    values = sample_rewards(rewards, probe)[1]
    report.findings["rewards"] = f"{values.min():g}, and {values.max():g} where the goal is reached"
    report.findings["goals reached at reset"] = f"{100 * reached.mean():.0f} % of {RESETS}"
    if reached.mean() > 0.5:
        report.warnings.append("most goals are reached at reset: there is little to learn from them")
    _look_at_ends(report, walk, _reached(rewards, walk.observations))
    if np.ptp(_column(walk.observations, "achieved_goal"), axis=0).max() == 0:
        report.warnings.append("random actions never changed the achieved goal: hindsight finds no goals")
    if not all(_inside(env, o) for o in starts + walk.observations):
        report.warnings.append("observations leave the bounds that their space states")
    if not _repeats(env, walk, limit):
        report.warnings.append(
            "the same seed and actions do not repeat an episode: a resumed run, or one with other "
            "--processes, would not be the same bits"
        )
    report.findings["speed"] = (
        f"{len(walk.claims) / max(walk.seconds, 1e-9):,.0f} steps per second on one core"
    )


def _walk(env: gymnasium.Env[Any, Any], limit: int, episodes: int = EPISODES) -> Walk:
    rng = np.random.default_rng(1)
    walk = Walk([], [], [], [], 0.0)
    seconds, per_episode = 0.0, min(limit, max(STEPS // EPISODES, 1))
    for seed in range(episodes):
        env.reset(seed=seed)
        for _ in range(per_episode):
            action = random_action(env.action_space, rng)
            began = time.perf_counter()
            observation, _, terminated, truncated, info = env.step(action)
            seconds += time.perf_counter() - began
            walk.observations.append(copy.deepcopy(observation))
            claim = info.get("is_success", info.get("success"))
            walk.claims.append(None if claim is None else bool(claim))
            walk.terminated.append(bool(terminated))
            walk.dead.append(bool(info["dead"]) if "dead" in info else None)
            if terminated or truncated:
                break
    return walk._replace(seconds=seconds)


def _look_at_ends(report: EnvReport, walk: Walk, reached: np.ndarray) -> None:
    """What the environment says of success, death and ends, against its own check."""
    told_of_death = any(d is not None for d in walk.dead)
    ends = np.array(walk.terminated)
    if told_of_death:
        report.findings["dead states"] = 'reported in info["dead"]'
    elif (ends & ~reached).any():
        report.findings["dead states"] = "every end without success counts as one"
    else:
        report.findings["dead states"] = "none reported, none seen"
    claimed = np.array([r if c is None else c for c, r in zip(walk.claims, reached, strict=True)])
    if (claimed != reached).any():
        report.warnings.append(
            f"compute_reward and the success in its info disagree at {(claimed != reached).sum()} of "
            f"{len(reached)} steps; training goes by compute_reward"
        )


def _reached(rewards: Any, shown: list[dict[str, Any]]) -> np.ndarray:
    achieved, desired = _column(shown, "achieved_goal"), _column(shown, "desired_goal")
    best = float(rewards(desired[:1], desired[:1])[0])
    return rewards(achieved, desired) >= best - 1e-6


def _column(shown: list[dict[str, Any]], part: str) -> np.ndarray:
    return np.stack([np.asarray(s[part], np.float32) for s in shown])


def _inside(env: gymnasium.Env[Any, Any], observation: dict[str, Any]) -> bool:
    space: Any = env.observation_space
    return all(
        (observation[part] >= inner.low).all() and (observation[part] <= inner.high).all()
        for part, inner in space.spaces.items()
        if isinstance(inner, spaces.Box)
    )


def _repeats(env: gymnasium.Env[Any, Any], walk: Walk, limit: int) -> bool:
    """Whether the first two episodes come out the same again, after others were walked in between."""
    again = _walk(env, limit, episodes=2).observations
    return len(again) <= len(walk.observations) and all(
        np.array_equal(mine[part], theirs[part])
        for mine, theirs in zip(again, walk.observations, strict=False)
        for part in ("observation", "achieved_goal", "desired_goal")
    )


def _try_worker(
    report: EnvReport, name: str, options: Mapping[str, Any] | None, max_steps: int, reached_within: float
) -> None:
    """Training steps environments in processes of their own; one more place where something can go wrong."""
    world = None
    try:
        world = ExternalEnv(name, options, max_steps, processes=1, reached_within=reached_within)
        world.pool(1).reset(np.arange(1))
    except UnsuitableEnvironment as error:
        report.objections.append(str(error).rstrip("."))
    except Exception as error:
        report.objections.append(f"it does not open in a process of its own: {error}")
    finally:
        if world:
            world.close()
