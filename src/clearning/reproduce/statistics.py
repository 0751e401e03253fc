"""Statistics of few seeds: interquartile means, the paper's rule for bold, differences with an interval."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from clearning.evaluate import bootstrap_interval

DRAWS = 4000
ENOUGH_SEEDS = 3  # with fewer, a bootstrap over seeds is too narrow to call anything different


def interquartile_mean(values: Any, axis: int = -1) -> Any:
    """The mean of the middle half: the lowest and the highest quarter (rounded down) are left out."""
    return stats.trim_mean(np.asarray(values, float), 0.25, axis=axis)


@dataclass(frozen=True)
class Spread:
    """One number of every seed, and what they come to."""

    values: tuple[float, ...]
    mean: float
    deviation: float  # population, as in the paper
    middle: float  # interquartile mean
    interval: tuple[float, float]  # of the interquartile mean, 95 % bootstrap over seeds


def spread(values: Sequence[float | None], scale: float = 1.0) -> Spread | None:
    """The spread over seeds; seeds without a value (no path where no goal was reached) are left out."""
    known = scale * np.array([v for v in values if v is not None], float)
    if not len(known):
        return None
    middle, interval = float(interquartile_mean(known)), bootstrap_interval(known, interquartile_mean)
    return Spread(tuple(known.tolist()), float(known.mean()), float(known.std()), middle, interval)


def best_or_near(means: Sequence[tuple[float, float] | None], largest: bool = True) -> list[bool]:
    """Which (mean, deviation) pairs the paper prints in bold.

    "Either the best on the given metric, or a mean score within the error bars of the best" (table 1); none
    where there is nothing to be better than.
    """
    known = [m for m in means if m is not None]
    if len(known) < 2:
        return [False] * len(means)
    mean, deviation = (max if largest else min)(known, key=lambda m: m[0])
    # The edge of the bar counts as within, whatever the rounding of a decimal number.
    return [m is not None and abs(m[0] - mean) <= deviation + 1e-9 for m in means]


@dataclass(frozen=True)
class Difference:
    """How much larger the first of two methods' means is, with a 95 % interval."""

    value: float
    low: float
    high: float
    enough_seeds: bool

    @property
    def sign(self) -> int:
        """1 or −1 where the methods are told apart, else 0."""
        if not self.enough_seeds or self.low <= 0 <= self.high:
            return 0
        return 1 if self.value > 0 else -1


def difference(first: np.ndarray, second: np.ndarray, draws: int = DRAWS, seed: int = 0) -> Difference:
    """Difference of two methods' means by a hierarchical bootstrap over seeds and goals.

    first, second: what came of each goal, (seeds, goals), on the same goals in the same order; NaN where
        nothing did, as the path to a goal that was not reached. Each draw takes seeds anew from either
        method, and goals anew once for both: a goal that is hard is hard for both.
    """
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"The methods were tested on {first.shape[1]} and {second.shape[1]} goals.")
    rng = np.random.default_rng(seed)
    goals = first.shape[1]
    weight = rng.multinomial(goals, np.full(goals, 1 / goals), draws).astype(float)  # (draws, goals)

    def means(values: np.ndarray) -> np.ndarray:
        known = np.isfinite(values)
        total = weight @ np.where(known, values, 0.0).T  # (draws, seeds)
        count = weight @ known.astype(float).T
        with np.errstate(invalid="ignore"):
            of_seeds = total / count
        return _mean_of_known(of_seeds[np.arange(draws)[:, None], picks_of_seeds(rng, len(values), draws)])

    drawn = means(first) - means(second)
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    enough = min(len(first), len(second)) >= ENOUGH_SEEDS
    value = _mean_of_known(_mean_of_known(first)) - _mean_of_known(_mean_of_known(second))
    return Difference(float(value), float(low), float(high), enough)


def _mean_of_known(values: np.ndarray) -> Any:
    """The mean over the last axis of what is there; NaN where nothing is."""
    known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.where(known, values, 0.0).sum(-1) / known.sum(-1)


def picks_of_seeds(rng: np.random.Generator, seeds: int, draws: int) -> np.ndarray:
    """Seeds drawn anew, (draws, seeds)."""
    return rng.integers(0, seeds, (draws, seeds))


class Ratio(NamedTuple):
    """How many times as long the second of two methods takes, with a 95 % interval."""

    value: float
    low: float
    high: float


def ratio_of_steps(
    first: np.ndarray, second: np.ndarray, mark: float, draws: int = DRAWS, seed: int = 0
) -> Ratio:
    """Steps until the mean of the second method's curves is at a mark, over the first's, seeds drawn anew.

    first, second: (1 + seeds, points), the steps and each seed's success there. Who does not get there in
        a draw takes for ever.
    """
    rng = np.random.default_rng(seed)

    def steps(curves: np.ndarray, picks: np.ndarray) -> np.ndarray:
        there = curves[1:][picks].mean(1) >= mark  # (draws, points)
        return np.where(there.any(1), curves[0][there.argmax(1)], np.inf)

    def ratio(pick: Callable[[int], np.ndarray]) -> np.ndarray:
        with np.errstate(invalid="ignore", divide="ignore"):
            return steps(second, pick(len(second) - 1)) / steps(first, pick(len(first) - 1))

    value = float(ratio(lambda seeds: np.arange(seeds)[None])[0])
    drawn = ratio(lambda seeds: picks_of_seeds(rng, seeds, draws))
    # Not interpolated: between a number and for ever there is none.
    low, high = np.nanpercentile(drawn, [2.5, 97.5], method="nearest")
    return Ratio(value, float(low), float(high))
