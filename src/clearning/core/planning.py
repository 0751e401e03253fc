"""Shortest paths over waypoints where a path's worth is the product of its legs' probabilities.

From state i, a leg to waypoint j that may take h steps succeeds with probability `legs[i, j, h − 1]`, and one
to the goal itself with `last[i, h − 1]`. A budget of steps is split among the legs of a path.
"""

from typing import NamedTuple

import numpy as np

GOAL = -1  # in place of a waypoint's index


class Leg(NamedTuple):
    """The first leg of the best path from a state."""

    waypoint: int
    """Its index, or `GOAL` for the goal itself."""
    steps: int
    """How many it may take."""
    probability: float
    """Of the whole path."""


def path_values(legs: np.ndarray, last: np.ndarray, budget: int) -> np.ndarray:
    """The largest product of probabilities from every waypoint with 0..budget steps left, (budget + 1, m).

    V_b(i) = max(P(i → goal within b), max over j and h < b of P(i → j within h) · V_{b − h}(j)).
    """
    count = len(last)
    values = np.zeros((budget + 1, count), np.float32)
    for left in range(1, budget + 1):
        values[left] = _direct(last, left)[1]
        if left > 1 and count:
            through = legs[..., : left - 1] * _left_after(values, left, last.shape[-1])
            values[left] = np.maximum(values[left], through.max((1, 2)))
    return values


def first_leg(legs: np.ndarray, last: np.ndarray, values: np.ndarray, left: int) -> Leg:
    """Where to go first from a state with `left` steps; its own `legs` (m, H) and `last` (H,).

    Between equals the goal itself comes first: no waypoint without need.
    """
    steps, direct = _direct(last, left)
    if left > 1 and len(legs):
        through = legs[:, : left - 1] * _left_after(values, left, last.shape[-1])
        waypoint, taken = np.unravel_index(through.argmax(), through.shape)
        if through[waypoint, taken] > direct:
            return Leg(int(waypoint), int(taken) + 1, float(through[waypoint, taken]))
    return Leg(GOAL, steps, float(direct))


def _direct(last: np.ndarray, left: int) -> tuple[int, np.ndarray]:
    """The steps that the goal itself may take, and how surely they suffice."""
    steps = min(left, last.shape[-1])
    return steps, last[..., steps - 1]


def _left_after(values: np.ndarray, left: int, horizons: int) -> np.ndarray:
    """What each waypoint is worth after legs of 1, 2, ... steps, (m, fewer than left, at most H)."""
    taken = np.arange(1, min(left - 1, horizons) + 1)
    return values[left - taken].T
