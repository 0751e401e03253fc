"""C against the horizon beside the truth, and what is true: for the other figures, too."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clearning.envs import DubinsCar, FrozenLake, MiniMaze, dubins_car, frozen_lake
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import UsageError
from clearning.evaluate import exact_c
from clearning.plots.style import BLUE, GREEN, VERMILION, WIDTH, kind, styled, title_of
from clearning.rollout import Dial, dial_horizon

GRID_SIDE = 61  # the car's goals on a square grid, four to a unit
CENTRE = (7.5, 7.5, 1.0, 0.0)


# Curves over the horizon --------------------------------------------------------------------------


def horizon_curve(agent: Any, env: Any, alpha: float = 0.9) -> Figure:
    """C against the horizon from one state to three goals, with h_α marked (section 3.2)."""
    state = viewpoint(env)
    goals = _near_middle_far(env, state)
    curves = agent.reach_curve(state, goals)  # (goals, H)
    truth = true_curve(env, state, goals, curves.shape[-1])
    horizons = np.arange(1, curves.shape[-1] + 1)
    with styled():
        figure = Figure((WIDTH * 0.7, 3.2), layout="constrained")
        ax = figure.subplots()
        names = ("near", "middle", "far")
        handles: list[Any] = []
        for name, color, goal, curve, true in zip(
            names, (BLUE, VERMILION, GREEN), goals, curves, truth, strict=True
        ):
            place = ", ".join(f"{v:g}" for v in goal)
            handles += ax.plot(horizons, curve, color=color, lw=1.8, label=f"{name} goal ({place})")
            sharp = "steps-mid" if not is_stochastic(env) else "default"
            ax.plot(horizons, true, color=color, lw=1.1, ls="--", drawstyle=sharp, alpha=0.9)
            h = int(
                dial_horizon(
                    jnp.asarray(curve)[None],
                    env.spec,
                    Dial(alpha),
                    jnp.asarray(state),
                    jnp.asarray(goal),
                    0,
                    agent.config.skip_ruled_out,
                )
            )
            ax.plot(h, curve[h - 1], "o", color=color, mec="white", ms=6.5, zorder=4, clip_on=False)
            ax.vlines(h, -0.02, curve[h - 1], color=color, lw=0.8, ls=":")
        dot = {"marker": "o", "mec": "white", "ms": 6.5, "ls": ":", "lw": 0.8}
        handles += [
            Line2D([], [], color="0.3", lw=1.8, label="learned"),
            Line2D([], [], color="0.3", lw=1.1, ls="--", label=_truth_name(env)),
            Line2D([], [], color="0.3", label=f"$h_α$ for α = {alpha:g}", **dot),
        ]
        ax.set(xlabel="horizon h (steps)", ylabel=r"$\max_a\, C(s, a, g, h)$", ylim=(-0.02, 1.03))
        ax.set_xlim(0, len(horizons) + 0.5)
        ax.grid(color="0.9", lw=0.6)
        place = ", ".join(f"{v:g}" for v in state)
        ax.set_title(f"{title_of(env)}: probability of reaching a goal in time from ({place})")
        # Legends fill column by column: the goals in one row, what the lines mean in the other.
        figure.legend(handles=[handles[i] for i in (0, 3, 1, 4, 2, 5)], loc="outside lower center", ncols=3)
    return figure


def _truth_name(env: Any) -> str:
    return "exact C*" if isinstance(env, FrozenLake | MiniMaze) else "truth (search)"


def _near_middle_far(env: Any, state: np.ndarray) -> np.ndarray:
    """Three test goals by the fewest steps to them; on the lake those around its narrow passage."""
    if isinstance(env, FrozenLake):
        return np.array([(1, 2), (3, 3), frozen_lake.FAR_GOAL], np.float32)
    goals = env.test_set().goal
    steps = true_steps(env, state, goals)
    goals, steps = goals[steps > 0], steps[steps > 0]
    order = np.argsort(steps, kind="stable")
    return goals[[order[int(q * (len(order) - 1))] for q in (0.1, 0.5, 1.0)]]


# From where, to which goals -----------------------------------------------------------------------


def viewpoint(env: Any) -> np.ndarray:
    """The state from which reachability is shown: the test start, or the centre in the world of figure 3b."""
    if isinstance(env, DubinsCar) and not env.walls and env.turn_degrees == 5.0:
        return np.array(CENTRE, np.float32)
    if not isinstance(env, DubinsCar | FrozenLake | MiniMaze):
        raise UsageError(f"There is no map of {kind(env)} to show reachability on.")
    return np.asarray(env.test_set().state[0], np.float32)


def goals_of(env: Any) -> np.ndarray:
    """The goals of a heat map, (n, 2): all cells, or the free points of a 61 by 61 grid for the car."""
    if isinstance(env, DubinsCar):
        along = np.linspace(0.0, dubins_car.SIZE, GRID_SIDE)
        points = np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
        return points[~np.asarray(env.is_blocked(jnp.asarray(points)))]
    return np.asarray(env.cells, np.float32)


# What is true -------------------------------------------------------------------------------------


def true_curve(env: Any, state: np.ndarray, goals: np.ndarray, horizons: int) -> np.ndarray:
    """max_a C*(state, a, g, h) for h = 1..H, (goals, H).

    By dynamic programming; where nothing is left to chance a search says the same, and sooner.
    """
    if is_stochastic(env):
        number = {tuple(c): i for i, c in enumerate(env.cells.tolist())}
        places = [number[tuple(g)] for g in goals.astype(int).tolist()]
        values = exact_c(env, horizons)[:, number[tuple(state.astype(int).tolist())]].max(1)  # (H, goals)
        return values[:, places].T
    steps = true_steps(env, state, goals)[:, None]
    return ((steps != NEVER) & (steps <= np.arange(1, horizons + 1))).astype(float)


def true_steps(env: Any, state: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """The fewest steps to each goal. For the car, one search serves all goals that figures ask for."""
    if not isinstance(env, DubinsCar):
        found = fewest_steps(env, state, goals)
        assert found is not None
        return found
    grid = goals_of(env)  # holds the test lattice, too
    steps = fewest_steps(env, state, grid)
    assert steps is not None
    by_goal = dict(zip(map(tuple, grid.tolist()), steps.tolist(), strict=True))
    return np.array([by_goal[tuple(g)] for g in np.asarray(goals, float).tolist()])


def is_stochastic(env: Any) -> bool:
    return isinstance(env, FrozenLake) or (isinstance(env, MiniMaze) and env.stochastic)
