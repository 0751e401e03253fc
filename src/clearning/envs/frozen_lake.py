"""Frozen lake: a slippery 5 by 7 grid with two walls of holes (section 5.1, item 1)."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning.envs.grid import DIRECTIONS, GridWorld, cells_of
from clearning.envs.testset import TestSet
from clearning.types import StepBound

WIDTH, HEIGHT = 5, 7
START, FAR_GOAL = (1, 0), (1, 6)
HOLES = np.zeros((WIDTH, HEIGHT), bool)
HOLES[[0, 2], 2:5] = True


@dataclass(frozen=True)
class FrozenLake(GridWorld):
    """State (x, y), (0, 0) at the bottom left. Actions: up, right, down, left.

    The agent moves as intended with probability `1 - 2 * slip` and to each side with probability `slip`;
    a move off the grid does nothing. Holes are absorbing. Training starts anywhere but in a hole.
    """

    name: ClassVar = "frozen-lake"
    map: ClassVar = np.ones((WIDTH, HEIGHT), bool)
    slip: float = 0.1
    max_episode_steps: int = 50

    @property
    def step_bound(self) -> StepBound:
        return StepBound("l1", per_step=1.0, slack=0.0)  # ignores the holes, as the paper does

    def initial_state(self, key: Array) -> Array:
        return jax.random.choice(key, jnp.asarray(cells_of(~HOLES), jnp.float32))

    def outcomes(self, state: Array, action: Array) -> tuple[Array, Array]:
        """The cells a step can lead to, (3, 2), and their probabilities."""
        directions = jnp.asarray(DIRECTIONS, jnp.float32)[(action + jnp.array([0, 1, 3])) % 4]
        high = jnp.array([WIDTH - 1.0, HEIGHT - 1.0])
        moved = jnp.clip(state + directions, 0.0, high)
        landing = jnp.where(self.is_dead(state), state, moved)
        return landing, jnp.array([1.0 - 2 * self.slip, self.slip, self.slip])

    def step(self, key: Array, state: Array, action: Array) -> Array:
        landing, probability = self.outcomes(state, action)
        u = jax.random.uniform(key)
        first, second = probability[0], probability[0] + probability[1]
        return jnp.where(u < first, landing[0], jnp.where(u < second, landing[1], landing[2]))

    def is_dead(self, state: Array) -> Array:
        x, y = state.astype(jnp.int32)
        return jnp.asarray(HOLES)[x, y]

    def test_set(self) -> TestSet:
        """Every cell but the start, 200 times each; strata tell holes from ice."""
        goals = np.array([c for c in self.cells.tolist() if tuple(c) != START], np.float32)
        strata = tuple("hole" if HOLES[int(x), int(y)] else "ice" for x, y in goals)
        return TestSet(np.tile(np.array(START, np.float32), (len(goals), 1)), goals, strata, repeats=200)
