"""How well probabilities agree with what happens, and maps that make them agree better."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import optimize, stats

from clearning.errors import ClearningError, UsageError
from clearning.records import record_from

BINS = 10
DROP = 0.01  # a fall of C from h to h + 1 by less than this is rounding, not a violation
EDGE = 1e-6  # probabilities are kept this far from 0 and 1 where their logit is taken


class Reliability(NamedTuple):
    """Predictions in bins of equal width, and how often what they predict happened; empty bins left out."""

    predicted: np.ndarray  # mean prediction of each bin
    observed: np.ndarray  # share that happened
    size: np.ndarray
    low: np.ndarray  # 95 % Wilson interval of the share
    high: np.ndarray


def reliability(predicted: np.ndarray, happened: np.ndarray, bins: int = BINS) -> Reliability:
    """The points of a reliability diagram."""
    place = np.minimum((np.asarray(predicted, float) * bins).astype(int), bins - 1)
    rows = []
    for b in np.unique(place):
        mine = happened[place == b]
        interval = stats.binomtest(int(mine.sum()), len(mine)).proportion_ci(method="wilson")
        rows.append((predicted[place == b].mean(), mine.mean(), len(mine), interval.low, interval.high))
    return Reliability(*(np.array(column) for column in zip(*rows, strict=True)))


def expected_calibration_error(predicted: np.ndarray, happened: np.ndarray, bins: int = BINS) -> float:
    """Mean distance between prediction and frequency over bins, weighted by how many fall into each."""
    found = reliability(predicted, happened, bins)
    return float(np.average(np.abs(found.predicted - found.observed), weights=found.size))


def brier(predicted: np.ndarray, happened: np.ndarray) -> float:
    """Mean squared distance between a probability and what happened."""
    return float(((np.asarray(predicted, float) - happened) ** 2).mean())


def brier_skill(predicted: np.ndarray, happened: np.ndarray) -> float | None:
    """1 − Brier / Brier of always saying the mean: 1 is perfect, 0 no better; None if nothing varied."""
    rate = float(np.mean(happened))
    return 1 - brier(predicted, happened) / (rate * (1 - rate)) if 0 < rate < 1 else None


def monotonicity_violations(curves: np.ndarray) -> float:
    """The share of steps from h to h + 1 in which curves (n, H) fall, which C* never does."""
    falls = -np.diff(np.asarray(curves, float), axis=-1)
    return float((falls > DROP).mean()) if falls.size else 0.0


def monotone_curves(curves: np.ndarray) -> np.ndarray:
    """The nearest non-decreasing curves (n, H) in least squares.

    A running maximum would keep the largest errors and push everything after them up; least squares averages
    what disagrees, and leaves a curve that does not fall as it is.
    """
    curves = np.array(curves)
    for i in np.flatnonzero((np.diff(curves, axis=-1) < 0).any(-1)):
        curves[i] = optimize.isotonic_regression(curves[i]).x
    return curves


@dataclass(frozen=True)
class Recalibration:
    """A non-decreasing map from the probability that a network gives to the one an agent tells.

    `temperature` divides the logit; `isotonic` interpolates between knots. Being hashable it can be part of
    a compiled function, and being plain numbers it can be stored as JSON.
    """

    kind: Literal["isotonic", "temperature"]
    temperature: float = 1.0
    knots: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def __call__(self, probability: Array) -> Array:
        if self.kind == "temperature":
            return jax.nn.sigmoid(_logit(jnp.asarray(probability)) / self.temperature)
        return jnp.interp(probability, jnp.array(self.knots), jnp.array(self.values))


def fit_recalibration(kind: str, predicted: np.ndarray, happened: np.ndarray) -> Recalibration:
    """The map of a kind that fits predictions to what happened best."""
    predicted, happened = np.asarray(predicted, float), np.asarray(happened, float)
    return _fit_isotonic(predicted, happened) if kind == "isotonic" else _fit_temperature(predicted, happened)


def _fit_isotonic(predicted: np.ndarray, happened: np.ndarray) -> Recalibration:
    """Least squares among non-decreasing maps; each level of the fit keeps the two ends of its stretch."""
    knots, place = np.unique(predicted, return_inverse=True)
    count = np.bincount(place)
    fitted = optimize.isotonic_regression(np.bincount(place, happened) / count, weights=count).x
    level = np.concatenate([[True], np.diff(fitted) > 1e-12])
    ends = level | np.append(level[1:], True)
    as_numbers = lambda x: tuple(float(v) for v in x[ends])  # noqa: E731
    return Recalibration("isotonic", knots=as_numbers(knots), values=as_numbers(np.clip(fitted, 0.0, 1.0)))


def _fit_temperature(predicted: np.ndarray, happened: np.ndarray) -> Recalibration:
    """The temperature under which what happened was likeliest, from a twentieth to twenty."""
    sign = 2 * happened - 1
    logit = np.asarray(_logit(predicted))

    def surprise(log_temperature: float) -> float:
        return float(np.logaddexp(0.0, -sign * logit / math.exp(log_temperature)).mean())

    found = optimize.minimize_scalar(surprise, bounds=(-math.log(20), math.log(20)), method="bounded")
    return Recalibration("temperature", temperature=math.exp(float(found.x)))


def _logit(probability: Any) -> Any:
    kept = probability.clip(EDGE, 1 - EDGE)
    log = np.log if isinstance(kept, np.ndarray) else jnp.log
    return log(kept) - log(1 - kept)


def recalibration_from_dict(record: Any) -> Recalibration | None:
    """A recalibration read back from JSON; None where there is none."""
    if record is None:
        return None
    try:
        found = record_from(Recalibration, record, "it")
    except UsageError as error:
        raise ClearningError(f"The file's recalibration is damaged ({error}); calibrate anew.") from error
    same = len(found.knots) == len(found.values) and (found.kind == "temperature" or found.knots)
    rises = (np.diff(found.knots) > 0).all() and (np.diff(found.values) >= 0).all()
    if not (same and rises and found.temperature > 0 and all(0 <= p <= 1 for p in found.values)):
        raise ClearningError("The file's recalibration is damaged; calibrate anew.")
    return found
