"""Waypoints to goals that are too far for one look: C composed with itself.

A path over known states is worth the product of its legs' probabilities, which is optimistic: a waypoint is a
goal, and a goal may leave open what the next leg depends on (a car arrives with whatever heading). So a
planned episode plans anew at the end of each leg, from the state that it is in.
"""

from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from clearning.agent import Agent, check_share
from clearning.api import load
from clearning.core.horizons import smallest_safe_horizon
from clearning.core.planning import GOAL, Leg, first_leg, path_values
from clearning.errors import ClearningError, UsageError
from clearning.files import load_arrays
from clearning.runs import RunFolder

CANDIDATES = 200  # states of a run that a plan may lead over, unless told
DRAWN = 20_000  # states of the replay buffer among which they are picked


class Candidates(NamedTuple):
    """States that a path may lead over, and the goals that they are."""

    observation: np.ndarray  # (m, observation)
    achieved: np.ndarray  # (m, goal)


class Plan(NamedTuple):
    """A way to a goal, leg by leg."""

    waypoints: np.ndarray
    """Where each leg leads, (legs, goal); the last is the goal itself."""
    steps: np.ndarray
    """How many steps each leg may take; together at most the budget."""
    probability: float
    """The product of the legs' probabilities, which is optimistic."""


def plan(
    agent: Agent | str | Path,
    obs: ArrayLike,
    goal: ArrayLike,
    candidates: ArrayLike | Candidates | None = None,
    budget: int | None = None,
    alpha: float = 1.0,
) -> Plan:
    """The waypoints to a goal with the largest product of probabilities, and a split of the step budget.

    agent: an agent, or a run folder, whose replayed states are then the candidates unless others are given.
    candidates: observations that the path may lead over, (m, observation), or `Candidates`.
    budget: steps that all legs together may take; the length of an episode unless given.
    alpha: below 1, spend the fewest steps for this share of the largest product, as the dial of `Agent.act`.
    """
    return Planner(agent, candidates).plan(obs, goal, budget, alpha)


class Planner:
    """Plans over one set of candidates, for any number of goals; arguments as those of `plan`."""

    def __init__(self, agent: Agent | str | Path, candidates: ArrayLike | Candidates | None = None):
        if candidates is None:
            if isinstance(agent, Agent):
                raise UsageError("Give candidates to plan over, or a run folder in place of the agent.")
            candidates = replayed_states(agent)
        self.agent = agent if isinstance(agent, Agent) else load(agent)
        self.candidates = _checked(self.agent, candidates)
        observation, achieved = self.candidates
        # Isotonic, for one error in a curve must not make a long leg worse than a short one.
        self._legs = self._curves(observation[:, None], achieved[None])  # (m, m, H)

    def plan(self, obs: ArrayLike, goal: ArrayLike, budget: int | None = None, alpha: float = 1.0) -> Plan:
        """The best waypoints from an observation to a goal within a budget of steps."""
        return self.episode(goal, budget, alpha).plan(obs)

    def episode(
        self, goal: ArrayLike, budget: int | None = None, alpha: float | None = None
    ) -> "PlannedEpisode":
        """A policy that goes after a goal over waypoints, and plans anew at the end of each leg.

        It acts by the config's `alpha` unless told: one that spends all its steps has none left for errors.
        """
        alpha = self.agent.config.alpha if alpha is None else check_share(alpha, "alpha")
        return PlannedEpisode(self, goal, budget, alpha)

    def _curves(self, observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
        """How surely legs to waypoints succeed within 1..H steps, with none shorter than half of H.

        Each change from leg to leg may promise what nobody can do: a car turns to the heading of the
        waypoint's own state for nothing. Many short legs would be chosen for that alone.
        """
        curves = self.agent.reach_curve(observation, goal, monotone=True)
        curves[..., : self.agent.max_horizon // 2 - 1] = 0.0
        return np.where(self._is_there(observation, goal)[..., None], 0.0, curves)

    def _is_there(self, observation: np.ndarray, goal: np.ndarray) -> np.ndarray:
        check = self.agent.spec.goal_check
        if check is None:
            return np.zeros(np.broadcast_shapes(observation.shape[:-1], goal.shape[:-1]), bool)
        return np.asarray(check.reached(check.achieved(observation), goal))


class PlannedEpisode:
    """Goes after one goal within a budget of steps, and plans anew at the end of each leg."""

    def __init__(self, planner: Planner, goal: ArrayLike, budget: int | None, alpha: float):
        spec = planner.agent.spec
        steps = spec.max_episode_steps if budget is None else budget
        if not isinstance(steps, int | np.integer) or steps < 1:
            raise UsageError(f"budget must be a whole number of at least 1, not {budget}.")
        self.planner, self.goal, self.alpha = planner, np.asarray(goal, np.float32), alpha
        self.steps_left, self._leg_left, self._waypoint = int(steps), 0, self.goal
        self._tried: set[int] = set()  # waypoints gone after so far, and the goal if it was the last
        self._last = planner.agent.reach_curve(planner.candidates.observation, self.goal, monotone=True)
        self._values = path_values(planner._legs, self._last, self.steps_left)

    def plan(self, obs: ArrayLike) -> Plan:
        """The best waypoints from an observation with the steps that are left, of those not tried yet."""
        leg, budget = self._first_leg(obs)
        achieved, probability = self.planner.candidates.achieved, leg.probability
        waypoints, steps = [], []
        while leg.waypoint != GOAL:
            waypoints.append(achieved[leg.waypoint])
            steps.append(leg.steps)
            legs, last = self.planner._legs[leg.waypoint], self._last[leg.waypoint]
            leg = first_leg(legs, last, self._values, budget - sum(steps))
        return Plan(np.array([*waypoints, self.goal]), np.array([*steps, leg.steps]), probability)

    def act(self, obs: ArrayLike) -> Any:
        """An action towards the next waypoint: by the dial, or by the leg's steps where those are fewer.

        The dial looks anew at each step; a leg's steps counted down can repeat a mistake to their end.
        """
        agent, here = self.planner.agent, np.asarray(obs, np.float32)
        arrived = self.planner._is_there(here, self._waypoint)
        if arrived or not self._leg_left:
            leg, _ = self._first_leg(here)
            self._tried = (self._tried - {GOAL}) | {leg.waypoint}
            self._leg_left = leg.steps
            achieved = self.planner.candidates.achieved
            self._waypoint = self.goal if leg.waypoint == GOAL else achieved[leg.waypoint]
        in_time = agent.dialled_horizon(here, self._waypoint, self.alpha) <= self._leg_left
        dial: dict[str, Any] = {"alpha": self.alpha} if in_time else {"horizon": self._leg_left}
        action = agent.act(here, self._waypoint, **dial)
        self._leg_left -= 1
        self.steps_left -= 1
        return action

    def _first_leg(self, obs: ArrayLike) -> tuple[Leg, int]:
        """Where to go first, and the steps that the whole way may take."""
        if not self.steps_left:
            raise UsageError("The steps of this episode are used up: begin another.")
        here = np.asarray(obs, np.float32)
        legs = self.planner._curves(here, self.planner.candidates.achieved)
        last = self.planner.agent.reach_curve(here, self.goal, monotone=True)
        # What is promised of places hardly ever seen may be wrong: no way leads to and fro for ever.
        new = legs.copy()
        new[[w for w in self._tried if w != GOAL]] = 0.0
        leg, budget = self._within(new, last * (GOAL not in self._tried))
        return (leg, budget) if leg.probability else self._within(legs, last)

    def _within(self, legs: np.ndarray, last: np.ndarray) -> tuple[Leg, int]:
        """The best first leg within the fewest steps that are enough for alpha."""
        starts = [first_leg(legs, last, self._values, b) for b in range(1, self.steps_left + 1)]
        worth = np.zeros(len(self._values) - 1, np.float32)  # of one size, for JAX compiles for each anew
        worth[: self.steps_left] = [leg.probability for leg in starts]
        budget = min(int(smallest_safe_horizon(jnp.asarray(worth), self.alpha)), self.steps_left)
        return starts[budget - 1], budget


def replayed_states(run: str | Path, count: int = CANDIDATES) -> Candidates:
    """States of a run's replay buffer that lie far from each other; the same at every call."""
    folder = RunFolder(run)
    if not folder.checkpoint_file.is_file():
        raise UsageError(f"{run} has no checkpoint, so there are no replayed states: give candidates.")
    arrays, _ = load_arrays(folder.checkpoint_file)
    observation, achieved = arrays.get("buffer.observation"), arrays.get("buffer.achieved")
    rows = [x for x in (observation, achieved) if x is not None and x.ndim == 2 and np.isfinite(x).all()]
    if len(rows) < 2 or len(rows[0]) != len(rows[1]) or not len(rows[0]):
        raise ClearningError(f"{folder.checkpoint_file} holds no replayed states.")
    observation, achieved = rows
    if len(observation) > DRAWN:
        drawn = np.random.default_rng(0).choice(len(observation), DRAWN, replace=False)
        observation, achieved = observation[drawn], achieved[drawn]
    far = _far_apart(observation, count)
    return Candidates(observation[far], achieved[far])


def _far_apart(points: np.ndarray, count: int) -> np.ndarray:
    """Indices of points of which each is as far as can be from those before it, in units of their spread."""
    points = points.astype(np.float64)  # in which no sum of what a file may hold overflows
    scaled = (points - points.mean(0)) / np.maximum(points.std(0), 1e-6)
    chosen, distance = [0], np.full(len(points), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, ((scaled - scaled[chosen[-1]]) ** 2).sum(1))
        if distance.max() == 0:  # all that differ are taken
            break
        chosen.append(int(distance.argmax()))
    return np.array(chosen)


def _checked(agent: Agent, candidates: ArrayLike | Candidates) -> Candidates:
    """Candidates with the goals that they are, which an observation shows in most environments."""
    spec = agent.spec
    if isinstance(candidates, Candidates):
        observation, achieved = (np.asarray(x, np.float32) for x in candidates)
    else:
        observation = np.asarray(candidates, np.float32)
        shown_at = spec.goal_check.coordinates if spec.goal_check else spec.achieved_at
        if not shown_at:
            raise UsageError(
                f"An observation of {spec.name} does not show which goal it is: give clearning.Candidates."
            )
        achieved = observation[..., shown_at]
    shapes = (observation.shape[1:], achieved.shape[1:], len(achieved))
    if shapes != ((spec.observation_size,), (spec.goal_size,), len(observation)):
        raise UsageError(
            f"candidates must be (m, {spec.observation_size}) observations, and (m, {spec.goal_size}) goals "
            f"where given; their shapes are {observation.shape} and {achieved.shape}."
        )
    return Candidates(observation, achieved)
