"""Statistics of few seeds: interquartile means, the paper's rule for bold, differences with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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
        picks = rng.integers(0, len(values), (draws, len(values)))
        total = weight @ np.where(known, values, 0.0).T  # (draws, seeds)
        count = weight @ known.astype(float).T
        rows = np.arange(draws)[:, None]
        with np.errstate(invalid="ignore"):
            return total[rows, picks].sum(1) / count[rows, picks].sum(1)

    drawn = means(first) - means(second)
    low, high = np.nanpercentile(drawn, [2.5, 97.5])
    enough = min(len(first), len(second)) >= ENOUGH_SEEDS
    return Difference(float(np.nanmean(first) - np.nanmean(second)), float(low), float(high), enough)
