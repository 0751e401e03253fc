"""The fewest steps to a goal, by search: what learned paths are measured against."""

from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.spatial import KDTree

from clearning.envs.dubins_car import SIZE, DubinsCar
from clearning.envs.frozen_lake import FrozenLake
from clearning.envs.mini_maze import MiniMaze

NEVER = -1
CELL = 0.05  # the car's search keeps one state per square of this side and heading
CHUNK = 32_768  # states stepped at once


def fewest_steps(
    env: Any, start: np.ndarray, goals: np.ndarray, limit: int = 100, cell: float = CELL
) -> np.ndarray | None:
    """The fewest steps from one start to each goal, `NEVER` where the limit does not suffice.

    In a stochastic world: the fewest with which the goal can be reached at all. None for environments
    that have no search. A larger cell makes the car's search faster and less tight.
    """
    as_tuple = lambda a: tuple(map(tuple, np.asarray(a, float).tolist()))  # noqa: E731
    if isinstance(env, DubinsCar):
        return _car_steps(env, tuple(np.asarray(start, float).tolist()), as_tuple(goals), limit, cell)
    if isinstance(env, FrozenLake | MiniMaze):
        return _grid_steps(env, tuple(np.asarray(start, int).tolist()), as_tuple(goals), limit)
    return None


@lru_cache(maxsize=64)
def _grid_steps(env: FrozenLake | MiniMaze, start: tuple, goals: tuple, limit: int) -> np.ndarray:
    """Breadth-first search over cells; a dead cell leads nowhere else."""
    number = {tuple(c): i for i, c in enumerate(env.cells.tolist())}
    follows = np.any(env.mdp.transition > 0, axis=1)  # (states, states)
    steps = np.full(len(env.cells), NEVER)
    frontier = np.zeros(len(env.cells), bool)
    frontier[number[start]] = True
    for t in range(limit + 1):
        steps[frontier & (steps == NEVER)] = t
        frontier = follows[frontier].any(0) & (steps == NEVER)
        if not frontier.any():
            break
    return steps[[number[int(x), int(y)] for x, y in goals]]


@lru_cache(maxsize=16)
def _car_steps(env: DubinsCar, start: tuple, goals: tuple, limit: int, cell: float) -> np.ndarray:
    """Breadth-first search over real trajectories of the car, keeping the first state met in each cell.

    Every path it finds can be driven, so its lengths are upper bounds on the optimum, tight up to the cell.
    """
    goal = np.array(goals)
    steps = np.full(len(goal), NEVER)
    side, headings = int(SIZE / cell) + 1, round(360 / env.turn_degrees)
    seen = np.zeros(side * side * headings, bool)
    frontier = np.array([start], np.float32)
    for t in range(limit + 1):
        open_goals = np.flatnonzero(steps == NEVER)
        distance, _ = KDTree(frontier[:, :2]).query(goal[open_goals], p=np.inf)
        steps[open_goals[distance <= 0.5]] = t
        if (steps != NEVER).all():
            break
        fresh = []
        for i in range(0, len(frontier), CHUNK):
            chunk = frontier[i : i + CHUNK]
            size = 512 if len(chunk) <= 512 else CHUNK  # two shapes, two compilations
            padded = np.concatenate([chunk, np.repeat(chunk[:1], size - len(chunk), axis=0)])
            reached = np.asarray(_car_moves(env, padded)).reshape(-1, 4)
            number = _car_cell(reached, cell, side, headings, env.turn_degrees)
            _, first = np.unique(number, return_index=True)
            first = first[~seen[number[first]]]
            seen[number[first]] = True
            fresh.append(reached[first])
        frontier = np.concatenate(fresh)
        if not len(frontier):
            break
    return steps


@partial(jax.jit, static_argnums=0)
def _car_moves(env: DubinsCar, states: Array) -> Array:
    """Where every action but staying leads from each state, (n, actions, 4)."""
    key = jax.random.key(0)  # not used: the car is deterministic
    actions = jnp.arange(env.spec.num_actions - 1)
    return jax.vmap(lambda s: jax.vmap(lambda a: env.step(key, s, a))(actions))(states)


def _car_cell(state: np.ndarray, cell: float, side: int, headings: int, turn_degrees: float) -> np.ndarray:
    x, y = (state[:, :2] / cell).astype(int).T
    turn = np.round(np.rad2deg(np.arctan2(state[:, 3], state[:, 2])) / turn_degrees).astype(int) % headings
    return (x * side + y) * headings + turn
