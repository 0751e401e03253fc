"""The goals an agent is judged on."""

from typing import NamedTuple

import numpy as np


class TestSet(NamedTuple):
    """Starting states, goals and the stratum each goal belongs to."""

    __test__ = False  # the name is the domain's; pytest must not collect it

    state: np.ndarray  # (n, ...)
    goal: np.ndarray  # (n, goal)
    stratum: tuple[str, ...]
    repeats: int = 1  # episodes per goal: one suffices in a deterministic world
    in_paper: np.ndarray | None = None  # (n,), which goals the paper's own test set holds; None for all
