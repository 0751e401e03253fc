"""Maps as the page needs them: which points can be asked about, what stands in the way, and what it means."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import matplotlib
import numpy as np

from clearning.envs import (
    CatAndMouse,
    DubinsCar,
    FrozenLake,
    MiniMaze,
    cat_and_mouse,
    dubins_car,
    frozen_lake,
)
from clearning.envs.draw import extent
from clearning.errors import UsageError
from clearning.plots.curves import GRID_SIDE, goals_of, is_stochastic
from clearning.plots.style import TITLES

CAT_SIDE = 41  # goals of cat and mouse on a square grid, four to a unit
WALL, FREE, GOAL_ONLY = 0, 1, 2

ABOUT = {
    "frozen-lake": "Ice is slippery: one step in five goes sideways, and a hole (hatched) ends the walk.",
    "mini-maze": "Four rooms with doorways: each step goes one cell up, right, down or left.",
    "dubins-car": "A car moves one unit forth or back in a step and cannot turn on the spot.",
    "cat-and-mouse": "The nearer a mouse comes to the sleeping cat, the likelier it is caught.",
}
# Far enough apart that haste and caution differ, where the test set does not name a goal of its own.
FIRST_GOALS = {"frozen-lake": frozen_lake.FAR_GOAL, "mini-maze": (18, 18), "dubins-car": (12.0, 8.0)}


@dataclass(frozen=True)
class Lattice:
    """Points in columns and rows; those that are not in a wall are numbered column by column."""

    low: tuple[float, float]
    step: float
    columns: int
    rows: int
    goals: np.ndarray  # (n, 2)

    @cached_property
    def places(self) -> np.ndarray:
        """Where each goal lies among all points, (n,)."""
        column, row = np.rint((self.goals - np.array(self.low)) / self.step).astype(int).T
        return column * self.rows + row


def lattice_of(env: Any) -> Lattice:
    """The goals of a heat map: all cells, or points four to a unit."""
    if isinstance(env, CatAndMouse):
        along = np.linspace(0.0, cat_and_mouse.SIZE, CAT_SIDE)
        points = np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
        return Lattice((0.0, 0.0), float(along[1]), CAT_SIDE, CAT_SIDE, points)
    goals = goals_of(env)
    if isinstance(env, DubinsCar):
        return Lattice((0.0, 0.0), dubins_car.SIZE / (GRID_SIDE - 1), GRID_SIDE, GRID_SIDE, goals)
    width, height = (int(v) + 1 for v in env.spec.goal_high)
    return Lattice((0.0, 0.0), 1.0, width, height, goals)


def state_from(env: Any, start: Any) -> list[float]:
    """A state from a start as people give it: x, y, and the car's heading in degrees."""
    wanted = 3 if isinstance(env, DubinsCar) else 2
    if len(start) != wanted:
        names = "x, y and heading" if wanted == 3 else "x and y"
        raise UsageError(f"A start in {env.spec.name} is {names}: {wanted} numbers, not {len(start)}.")
    x, y, *rest = start
    if isinstance(env, DubinsCar):
        heading = np.deg2rad(rest[0])
        return [x, y, float(np.cos(heading)), float(np.sin(heading))]
    return [x, y, 0.0] if isinstance(env, CatAndMouse) else [x, y]


def by_chance(env: Any) -> bool:
    """Whether the same actions can end differently."""
    return isinstance(env, CatAndMouse) or is_stochastic(env)


def first_pair(env: Any) -> tuple[list[float], list[float]]:
    """The start and the goal that the page opens with."""
    test, name = env.test_set(), env.spec.name
    start = test.state[0, :2].tolist() + ([0.0] if isinstance(env, DubinsCar) else [])
    goal = FIRST_GOALS.get(name, test.goal[0].tolist())
    return start, list(map(float, goal))


def describe_world(env: Any) -> dict[str, Any]:
    """Everything about a map that the page draws, as JSON."""
    lattice, (start, goal) = lattice_of(env), first_pair(env)
    kind = np.full(lattice.columns * lattice.rows, WALL)
    kind[lattice.places] = FREE
    if isinstance(env, FrozenLake):
        kind[frozen_lake.HOLES.reshape(-1)] = GOAL_ONLY
    name, check = env.spec.name, env.spec.goal_check
    assert check is not None  # every world with a map has one
    chance = (
        "chance decides here, so several paths are drawn" if by_chance(env) else "nothing is left to chance"
    )
    return {
        "env": name,
        "title": TITLES[name],
        "about": f"{ABOUT[name]} In this world {chance}.",
        "extent": extent(env),
        "lattice": {
            "low": lattice.low,
            "step": lattice.step,
            "columns": lattice.columns,
            "rows": lattice.rows,
            "kind": "".join(map(str, kind.tolist())),
        },
        "cells": isinstance(env, FrozenLake | MiniMaze),
        "walls": _walls(env),
        "cat": _cat() if isinstance(env, CatAndMouse) else None,
        "turn": env.turn_degrees if isinstance(env, DubinsCar) else None,
        "goal_shape": {DubinsCar: "square", CatAndMouse: "disc"}.get(type(env), "star"),
        "goal_radius": check.radius,
        "chance": by_chance(env),
        "start": start,
        "goal": goal,
        "colours": _colours("viridis"),
        "difference_colours": _colours("RdBu_r"),
    }


def _walls(env: Any) -> list[list[float]]:
    """Rectangles as x_low, y_low, x_high, y_high that the lattice's own walls do not show exactly."""
    if not isinstance(env, DubinsCar) or not env.walls:
        return []
    return np.clip(dubins_car.WALLS, 0.0, dubins_car.SIZE).tolist()


def _cat() -> dict[str, Any]:
    """The cat's place, and the circles on which the risk is so many percent."""
    shares = (0.05, 0.25, 0.5)
    radii = [cat_and_mouse.REACH * float(np.sqrt(-2 * np.log(s))) for s in shares]
    percent = [round(100 * cat_and_mouse.RISK * s) for s in shares]
    return {"at": cat_and_mouse.CAT, "rings": [list(r) for r in zip(radii, percent, strict=True)]}


def _colours(name: str) -> list[list[int]]:
    """A perceptually ordered colour map as 256 triples."""
    return (255 * matplotlib.colormaps[name](np.arange(256))[:, :3]).round().astype(int).tolist()
