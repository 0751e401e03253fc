"""Mini maze: four rooms on a 24 by 24 grid (appendix E), and a variant whose moves slip or skid."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning.envs.grid import DIRECTIONS, GridWorld
from clearning.envs.testset import TestSet
from clearning.types import StepBound

SIZE = 24
START = (6, 6)


def _free_cells() -> np.ndarray:
    free = np.ones((SIZE, SIZE), bool)
    gaps = [*range(4, 8), *range(16, 20)]
    for wall in (11, 12):
        free[wall, [i for i in range(SIZE) if i not in gaps]] = False
        free[[i for i in range(SIZE) if i not in gaps], wall] = False
    return free


FREE = _free_cells()


@dataclass(frozen=True)
class MiniMaze(GridWorld):
    """State (x, y), (0, 0) at the bottom left. Actions: up, right, down, left; blocked moves do nothing.

    In the stochastic variant a move is scaled by 0, 1 or 2 with probability 0.05, 0.8 and 0.15. Training
    starts at (6, 6); `random_starts` draws any free cell instead.
    """

    name: ClassVar = "mini-maze"
    map: ClassVar = FREE
    stochastic: bool = False
    random_starts: bool = False
    max_episode_steps: int = 200

    @property
    def step_bound(self) -> StepBound:
        return StepBound("l1", per_step=2.0 if self.stochastic else 1.0, slack=0.0)

    def initial_state(self, key: Array) -> Array:
        if self.random_starts:
            return self.sample_goal(key)
        return jnp.array(START, jnp.float32)

    def outcomes(self, state: Array, action: Array) -> tuple[Array, Array]:
        """The cells a step can lead to, (n, 2), and their probabilities."""
        scale = jnp.array([0.0, 1.0, 2.0] if self.stochastic else [1.0])
        landing = state + scale[:, None] * jnp.asarray(DIRECTIONS, jnp.float32)[action]
        x, y = landing.astype(jnp.int32).T
        inside = (landing >= 0).all(-1) & (landing < SIZE).all(-1)
        free = inside & jnp.asarray(FREE)[jnp.clip(x, 0, SIZE - 1), jnp.clip(y, 0, SIZE - 1)]
        probability = jnp.array([0.05, 0.8, 0.15] if self.stochastic else [1.0])
        return jnp.where(free[:, None], landing, state), probability

    def step(self, key: Array, state: Array, action: Array) -> Array:
        landing, probability = self.outcomes(state, action)
        if not self.stochastic:
            return landing[0]
        return landing[(jax.random.uniform(key) >= jnp.cumsum(probability)[:2]).sum()]

    def test_set(self) -> TestSet:
        """Every free cell but the start. The paper's set leaves out the doorways (stratum "doorway")."""
        goals = np.array([c for c in self.cells.tolist() if tuple(c) != START], np.float32)
        strata = tuple(map(_stratum, goals))
        in_paper = np.array([s != "doorway" for s in strata])
        return TestSet(
            np.tile(np.array(START, np.float32), (len(goals), 1)), goals, strata, _repeats(self), in_paper
        )


def _repeats(env: MiniMaze) -> int:
    return 20 if env.stochastic else 1


def _stratum(goal: np.ndarray) -> str:
    if (goal == 11).any() or (goal == 12).any():
        return "doorway"
    rooms_away = int((goal > 12).sum())  # the start's room is the one at the bottom left
    return ("easy", "medium", "hard")[rooms_away]
