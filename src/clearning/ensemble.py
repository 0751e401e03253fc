"""Several agents asked at once: their mean answer, and how far they disagree."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from clearning.agent import Agent, Choice, check_share, found_or_none, masked
from clearning.core.horizons import minimum_horizon
from clearning.errors import UsageError


class Estimate(NamedTuple):
    """A probability, or many."""

    probability: Any
    """The mean over the agents."""
    disagreement: Any
    """Their standard deviation: what one training says and another does not is not known."""


class Ensemble:
    """Agents for the same observations and goals, such as several seeds of one preset.

    It answers questions as one agent does, and acts as its first one does.
    """

    def __init__(self, agents: Sequence[Agent]):
        if not agents:
            raise UsageError("An ensemble needs at least one agent.")
        sizes = {(a.spec.observation_size, a.spec.goal_size, a.max_horizon) for a in agents}
        if len(sizes) > 1:
            raise UsageError("The agents of an ensemble must share observations, goals and max_horizon.")
        self.agents = tuple(agents)

    @property
    def max_horizon(self) -> int:
        return self.agents[0].max_horizon

    def act(
        self,
        obs: ArrayLike,
        goal: ArrayLike,
        horizon: int | ArrayLike | None = None,
        alpha: float | None = None,
        *,
        return_info: bool = False,
        abstain_below: float | None = None,
    ) -> Any:
        """The first agent's action, as `Agent.act`; how surely it succeeds, and so whether to abstain, is
        the mean of all, and `Choice.disagreement` tells how far they are apart."""
        chosen, info = self.agents[0].act(obs, goal, horizon, alpha, return_info=True)
        curve = self.reach_curve(obs, goal)
        at = np.asarray(info.horizon)[..., None] - 1
        mean, apart = (np.take_along_axis(x, at, -1)[..., 0] for x in curve)
        abstained = np.zeros(mean.shape, bool)
        if abstain_below is not None:
            largest = mean if horizon is not None else curve.probability.max(-1)
            abstained = largest < check_share(abstain_below, "abstain_below")
            chosen = masked(chosen, abstained)
        told = (x if x.ndim else x.item() for x in (mean, np.asarray(abstained), apart))
        return (chosen, Choice(info.horizon, *told)) if return_info else chosen

    def reach_probability(
        self, obs: ArrayLike, goal: ArrayLike, horizon: int | ArrayLike, monotone: bool = False
    ) -> Estimate:
        """How surely the goal can be reached in at most `horizon` steps."""
        return _estimate(a.reach_probability(obs, goal, horizon, monotone) for a in self.agents)

    def reach_curve(self, obs: ArrayLike, goal: ArrayLike, monotone: bool = False) -> Estimate:
        """The reach probability for every horizon 1..H, on a last axis."""
        return _estimate(a.reach_curve(obs, goal, monotone) for a in self.agents)

    def min_horizon(
        self, obs: ArrayLike, goal: ArrayLike, probability: float = 0.9, monotone: bool = False
    ) -> Any:
        """The smallest horizon with at least this mean probability; None (in a batch: masked) if none has."""
        check_share(probability, "probability")
        mean = self.reach_curve(obs, goal, monotone).probability
        return found_or_none(np.asarray(minimum_horizon(mean, probability)))

    def reachable(
        self, obs: ArrayLike, goals: ArrayLike, horizon: int | ArrayLike, probability: float = 0.5
    ) -> Any:
        """Whether goals can be reached in time with at least this mean probability."""
        check_share(probability, "probability")
        return self.reach_probability(obs, goals, horizon).probability >= probability


def _estimate(answers: Iterable[Any]) -> Estimate:
    """Mean and standard deviation, one answer at a time: all at once would not fit for large batches."""
    count, mean, squares = 0, 0.0, 0.0
    for answer in answers:
        count += 1
        shift = answer - mean
        mean = mean + shift / count
        squares = squares + shift * (answer - mean)
    return Estimate(mean, (squares / count) ** 0.5)
