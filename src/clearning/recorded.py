"""Recorded episodes: what they must hold, how they fit a world, and the world they show by themselves."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jax import Array

from clearning.config import Config
from clearning.envs.external import find_achieved
from clearning.envs.objections import Probe
from clearning.errors import ClearningError, UsageError
from clearning.types import EnvSpec, Episodes, GoalCheck, norm_distance

GROUP = 2**18  # states, padding included, that are handed over at a time


class Recording(NamedTuple):
    """Finished episodes laid end to end; one of L transitions has L + 1 states."""

    source: str
    observation: np.ndarray  # (states, observation)
    action: np.ndarray  # (transitions,) numbers, or (transitions, action) in the environment's own units
    length: np.ndarray  # (episodes,), transitions
    achieved_goal: np.ndarray | None = None  # (states, goal)
    desired_goal: np.ndarray | None = None  # (episodes, goal), what an episode was after
    dead: np.ndarray | None = None  # (episodes,), the last state is absorbing
    terminated: np.ndarray | None = None  # (episodes,), ended by itself: dead unless it reached its goal
    action_low: np.ndarray | None = None  # (action,)
    action_high: np.ndarray | None = None

    @property
    def continuous(self) -> bool:
        return self.action.ndim == 2

    @property
    def last(self) -> np.ndarray:
        """Which states are the last of their episodes."""
        return np.cumsum(self.length + 1) - 1


class RecordedWorld:
    """All that is known of an environment that is not there: sizes and bounds, and what counts as reached."""

    def __init__(self, spec: EnvSpec, reached_within: float):
        self.spec, self.reached_within = spec, reached_within

    def reached(self, achieved: Array, goal: Array) -> Array:
        return norm_distance("l2", achieved, goal) <= self.reached_within


def world_of(recording: Recording, reached_within: float) -> RecordedWorld:
    """The world that a recording shows: bounds are the least and largest values in it."""
    source, achieved = recording.source, recording.achieved_goal
    if not reached_within:
        raise UsageError(
            f"Nothing tells when a goal of {source} is reached: give the environment (a preset or --env), or "
            f"--reached-within D, the distance between goals at which one counts as the other."
        )
    if achieved is None:
        raise ClearningError(f"{source} has no achieved_goal, which is needed without an environment.")
    goals = achieved if recording.desired_goal is None else np.concatenate([achieved, recording.desired_goal])
    found = _achieved_at(recording.observation, achieved)
    spec = EnvSpec(
        name=source,
        **_bounds("observation", recording.observation),
        **_bounds("goal", goals),
        **_actions(recording),
        max_episode_steps=int(recording.length.max()),
        goal_check=GoalCheck(found, "l2", reached_within) if found else None,
        achieved_at=found,
    )
    return RecordedWorld(spec, reached_within)


def _achieved_at(observation: np.ndarray, achieved: np.ndarray) -> tuple[int, ...]:
    """The coordinates of the observation that repeat the achieved goal; () if none do."""
    some = slice(None, None, max(len(observation) // 1000, 1))
    found = find_achieved(Probe(observation[some], achieved[some], achieved[some]))
    return found if found and (observation[:, list(found)] == achieved).all() else ()


def _bounds(name: str, values: np.ndarray) -> dict[str, tuple[float, ...]]:
    low, high = values.min(0), values.max(0)
    high = np.where(high > low, high, low + 1)  # what never varies must not be divided by its spread
    return {f"{name}_low": tuple(low.tolist()), f"{name}_high": tuple(high.tolist())}


def _actions(recording: Recording) -> dict[str, Any]:
    if not recording.continuous:
        return {"action_names": tuple(str(i) for i in range(int(recording.action.max()) + 1))}
    if recording.action_low is not None and recording.action_high is not None:
        bounds = {"action_low": recording.action_low, "action_high": recording.action_high}
        return {"action_names": (), **{k: tuple(v.tolist()) for k, v in bounds.items()}}
    return {"action_names": (), **_bounds("action", recording.action)}


def fitted(recording: Recording, env: Any) -> Recording:
    """The recording as learners of a world see it, nothing left out; refused where it is of another world."""
    spec, source = env.spec, recording.source
    shown_at = spec.goal_check.coordinates if spec.goal_check else spec.achieved_at
    if recording.achieved_goal is None and not shown_at:
        raise ClearningError(
            f"{source} has no achieved_goal, and an observation of {spec.name} does not show it."
        )
    _refuse_size(source, "observations", recording.observation.shape[1], spec, spec.observation_size)
    achieved = recording.achieved_goal
    achieved = recording.observation[:, list(shown_at)] if achieved is None else achieved
    _refuse_size(source, "goals", achieved.shape[1], spec, spec.goal_size)
    goal = recording.desired_goal
    goal = achieved[recording.last] if goal is None else goal
    dead = np.zeros(len(goal), bool) if recording.dead is None else recording.dead
    if recording.terminated is not None:
        dead = recording.terminated & ~np.asarray(env.reached(achieved[recording.last], goal))
    return recording._replace(
        achieved_goal=achieved, desired_goal=goal, dead=dead, action=_fitted_actions(recording, spec)
    )


def _refuse_size(source: str, what: str, found: int, spec: EnvSpec, wanted: int) -> None:
    if found != wanted:
        raise ClearningError(f"The {what} of {source} have {found} numbers, those of {spec.name} {wanted}.")


def _fitted_actions(recording: Recording, spec: EnvSpec) -> np.ndarray:
    """Numbers as they are; vectors scaled from their bounds to [−1, 1]."""
    source, action = recording.source, recording.action
    if recording.continuous != spec.continuous:
        found = "vectors" if recording.continuous else "numbers"
        wanted = "vectors" if spec.continuous else "numbers"
        raise ClearningError(f"The actions of {source} are {found}, those of {spec.name} {wanted}.")
    if not spec.continuous:
        if action.max() >= spec.num_actions:
            raise ClearningError(
                f"{source} has an action {int(action.max())}; those of {spec.name} are "
                f"0..{spec.num_actions - 1}."
            )
        return action
    _refuse_size(source, "actions", action.shape[1], spec, len(spec.action_low))
    low, high = np.array(spec.action_low, np.float32), np.array(spec.action_high, np.float32)
    scaled = 2 * (action - low) / (high - low) - 1
    if np.abs(scaled).max() > 1 + 1e-4:
        at = int(np.abs(scaled).max(0).argmax())
        raise ClearningError(
            f"{source} has an action with coordinate {at} at {action[np.abs(scaled)[:, at].argmax(), at]:g}; "
            f"{spec.name} takes {low[at]:g}..{high[at]:g} there."
        )
    return np.clip(scaled, -1.0, 1.0)


def groups(recording: Recording) -> Iterator[Episodes]:
    """A fitted recording as padded episodes, a few at a time: one long episode does not pad all others."""
    first = 0
    while first < len(recording.length):
        longest = np.maximum.accumulate(recording.length[first : first + GROUP])
        padded = (longest + 1) * np.arange(1, len(longest) + 1)
        count = max(int(np.searchsorted(padded, GROUP, side="right")), 1)
        yield _padded(recording, first, first + count)
        first += count


def _padded(recording: Recording, first: int, end: int) -> Episodes:
    length = recording.length[first:end]
    before = int(recording.length[:first].sum())
    steps = np.arange(int(length.max()) + 1)
    start = (before + np.cumsum(length) - length)[:, None]  # of an episode, in transitions
    taken = start + np.minimum(steps[:-1], length[:, None] - 1)
    number = np.arange(first, end)[:, None]  # every episode before has one state more than transitions
    state = start + number + np.minimum(steps, length[:, None])
    r: Any = recording
    return Episodes(
        observation=r.observation[state],
        achieved=r.achieved_goal[state],
        action=r.action[taken],
        goal=r.desired_goal[first:end],
        length=length.astype(np.int32),  # pyright: ignore[reportArgumentType]
        dead=r.dead[first:end],
        success=np.zeros(end - first, bool),  # pyright: ignore[reportArgumentType]
    )


def offline_settings(config: Config, recording: Recording, spec: EnvSpec) -> Config:
    """A config that counts updates: as many, and as often looked at, as its episodes or steps would bring."""
    if config.method == "naive-q":
        raise UsageError("naive-q learns by the horizons that its own episodes were given: it needs those.")
    per_step = config.updates_per_step or config.updates_per_episode / spec.max_episode_steps
    per_episode = config.updates_per_step * spec.max_episode_steps or config.updates_per_episode
    budget = config.updates or min(
        round(spent * rate)
        for spent, rate in ((config.episodes, per_episode), (config.env_steps, per_step))
        if spent
    )
    rate = {"episodes": per_episode, "steps": per_step, "updates": 1}[config.every_counts]
    states, episodes = len(recording.observation), len(recording.length)
    return replace(
        config,
        updates=max(budget, 1),
        episodes=0,
        env_steps=0,
        random_episodes=0,
        every_counts="updates",
        evaluate_every=max(round(config.evaluate_every * rate), 1),
        checkpoint_every=max(round(config.checkpoint_every * rate), 1),
        buffer_capacity=max(states, 8 * episodes),  # the ring has a place for an eighth as many episodes
    )
