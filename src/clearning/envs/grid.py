"""What the two grid worlds share: cells, their goals by distance, and exact transition tables."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning.core.tabular import FiniteMDP
from clearning.types import EnvSpec, GoalCheck, StepBound

DIRECTIONS = np.array([[0, 1], [1, 0], [0, -1], [-1, 0]], np.int32)
DIRECTION_NAMES = ("up", "right", "down", "left")
# Two cells are the same when they differ by less than half a cell.
SAME_CELL = GoalCheck(coordinates=(0, 1), norm="linf", radius=0.5)


class NearbyGoals(NamedTuple):
    """Goal cells ordered by L1 distance from every cell, so that a goal within a distance is one look-up."""

    order: np.ndarray  # (width, height, goals), indices into the goals
    within: np.ndarray  # (width, height, longest distance + 1), how many lie within a distance
    goals: np.ndarray  # (goals, 2)

    def sample(self, key: Array, cell: Array, distance: Array) -> Array:
        x, y = cell.astype(jnp.int32)
        steps = jnp.clip(distance.astype(jnp.int32), 0, self.within.shape[-1] - 1)
        rank = jax.random.randint(key, (), 0, jnp.asarray(self.within)[x, y, steps])
        return jnp.asarray(self.goals, jnp.float32)[jnp.asarray(self.order)[x, y, rank]]


def nearby_goals(width: int, height: int, goals: np.ndarray) -> NearbyGoals:
    """Tables of the goals other than the cell itself, by L1 distance."""
    cells = np.stack(np.meshgrid(np.arange(width), np.arange(height), indexing="ij"), -1)
    distance = np.abs(cells[:, :, None, :] - goals).sum(-1)  # (width, height, goals)
    distance = np.where(distance == 0, width + height, distance)  # the cell itself comes last, uncounted
    order = np.argsort(distance, axis=-1, kind="stable").astype(np.int32)
    steps = np.arange(width + height)
    count = (distance[..., None] <= steps).sum(-2).astype(np.int32)
    return NearbyGoals(order, np.maximum(count, 1), goals)


def cells_of(allowed: np.ndarray) -> np.ndarray:
    """Coordinates (n, 2) of the true entries of a [x, y] map, in a fixed order."""
    return np.argwhere(allowed).astype(np.int32)


def cell_numbers(cells: np.ndarray) -> dict[tuple[float, ...], int]:
    """Every cell's place in the list, which is its state and its goal in the transition table."""
    return {tuple(c): i for i, c in enumerate(cells.tolist())}


def transition_table(env, cells: np.ndarray) -> FiniteMDP:
    """Exact MDP over the given cells, from the environment's own list of outcomes of a step."""
    number = cell_numbers(cells)
    outcome, probability = jax.vmap(lambda s: jax.vmap(lambda a: env.outcomes(s, a))(jnp.arange(4)))(
        jnp.asarray(cells, jnp.float32)
    )
    table = np.zeros((len(cells), 4, len(cells)))
    for s, a, k in np.ndindex(*probability.shape):
        table[s, a, number[tuple(np.asarray(outcome[s, a, k], int).tolist())]] += float(probability[s, a, k])
    dead = np.asarray(jax.vmap(env.is_dead)(jnp.asarray(cells, jnp.float32)))
    table /= table.sum(-1, keepdims=True)
    return FiniteMDP(table, np.eye(len(cells), dtype=bool), dead)


class GridWorld(ABC):
    """A world whose state, observation and goal are the cell one is in."""

    name: ClassVar[str]
    map: ClassVar[np.ndarray]
    """The cells that can be stood on, [x, y]."""
    max_episode_steps: int

    @property
    @abstractmethod
    def step_bound(self) -> StepBound:
        """How far one step leads at most."""

    @property
    def spec(self) -> EnvSpec:
        low, high = (0.0, 0.0), tuple(size - 1.0 for size in self.map.shape)
        return EnvSpec(
            name=self.name,
            observation_low=low,
            observation_high=high,
            goal_low=low,
            goal_high=high,
            action_names=DIRECTION_NAMES,
            max_episode_steps=self.max_episode_steps,
            goal_check=SAME_CELL,
            step_bound=self.step_bound,
        )

    @cached_property
    def cells(self) -> np.ndarray:
        return cells_of(self.map)

    @cached_property
    def mdp(self) -> FiniteMDP:
        """The exact MDP; states and goals are numbered as `cells`."""
        return transition_table(self, self.cells)

    @cached_property
    def _nearby(self) -> NearbyGoals:
        width, height = self.map.shape
        return nearby_goals(width, height, self.cells)

    def sample_goal(self, key: Array) -> Array:
        return jax.random.choice(key, jnp.asarray(self.cells, jnp.float32))

    def sample_goal_within(self, key: Array, achieved: Array, distance: Array) -> Array:
        return self._nearby.sample(key, achieved, distance)

    def observe(self, state: Array) -> Array:
        return state

    def achieved_goal(self, state: Array) -> Array:
        return state

    def is_dead(self, state: Array) -> Array:
        return jnp.zeros((), bool)

    def reached(self, achieved: Array, goal: Array) -> Array:
        return SAME_CELL.reached(achieved, goal)

    def refuse(self, state: np.ndarray) -> str | None:
        """Why a state cannot be a start, or None."""
        x, y = (float(v) for v in state)
        width, height = self.map.shape
        if x != round(x) or y != round(y):
            return f"state ({x:g}, {y:g}) is not a cell: both coordinates must be whole numbers"
        if not (0 <= x < width and 0 <= y < height):
            return (
                f"state ({x:g}, {y:g}) is off the map: x must be in 0..{width - 1} and y in 0..{height - 1}"
            )
        if not self.map[int(x), int(y)]:
            return f"state ({x:g}, {y:g}) is inside a wall: choose a free cell"
        return None
