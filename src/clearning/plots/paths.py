"""Ways that the policy takes: to goals all over a map, and on the frozen lake for several horizons."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch

from clearning.agent import Agent
from clearning.envs import DubinsCar, FrozenLake, MiniMaze, frozen_lake
from clearning.envs.draw import AGENT, GOAL, draw_goal, draw_map, draw_state
from clearning.errors import UsageError
from clearning.evaluate import run_episodes
from clearning.plots.curves import true_curve
from clearning.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LAKE_HORIZONS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    WIDTH,
    kind,
    styled,
    ticks,
    title_of,
    within,
)
from clearning.rollout import own_dial

LAKES_IN_A_ROW = 4

# Trajectories -------------------------------------------------------------------------------------


def trajectories(agent: Agent, env: Any, count: int = 12) -> Figure:
    """The policy's ways from the test start to goals spread over the map, with the agent's own dial."""
    dial = own_dial(agent.config)
    policy = f"the policy with α = {dial.alpha:g}" if agent.knows_c else agent.config.method
    return compare_trajectories({f"{title_of(env)}: {policy}": agent}, env, count)


def compare_trajectories(agents: Mapping[str, Agent], env: Any, count: int = 12) -> Figure:
    """The ways of several agents to the same goals, side by side (figure 3c)."""
    alone = len(agents) == 1
    with styled():
        size = (WIDTH * 0.62, WIDTH * 0.7) if alone else (WIDTH, WIDTH / len(agents) + 0.75)
        figure = Figure(size, layout="constrained")
        missed = False
        for ax, (name, agent) in zip(
            figure.subplots(1, len(agents), squeeze=False)[0], agents.items(), strict=True
        ):
            success = _ways_to_goals(ax, agent, env, count)
            missed |= not success.all()
            share = f"{success.sum()} of {len(success)} goals reached"
            ax.set_title(f"{name}, {share}" if alone else f"{name}\n{share}", pad=10)
        handles = _way_legend(env, missed)
        figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.2)
    return figure


def _ways_to_goals(ax: Axes, agent: Agent, env: Any, count: int) -> np.ndarray:
    """Draw an agent's ways on a map; returns which goals it reached."""
    test = env.test_set()
    start, goals = test.state[0], spread_out(test.goal, np.asarray(env.achieved_goal(test.state[0])), count)
    starts = np.tile(start, (len(goals), 1))
    dial = own_dial(agent.config)
    episodes = run_episodes(agent.network, env, agent.config, dial, 0, starts, goals)
    length, success = np.asarray(episodes.length), np.asarray(episodes.success)
    ways = [np.asarray(o)[: n + 1] for o, n in zip(episodes.observation, length, strict=True)]
    draw_map(ax, env)
    for i, (way, goal) in enumerate(zip(ways, goals, strict=True)):
        faint = 1.0 if success[i] else 0.45
        if isinstance(env, DubinsCar):
            _car_way(ax, way, np.asarray(episodes.action[i]), faint)
            draw_goal(ax, env, goal, GOAL if success[i] else GREY)
        else:
            color = _grid_way(ax, way, i, len(goals), faint)
            draw_goal(ax, env, goal, color)
        if not success[i]:
            ax.plot(*goal, "x", color=BLACK, ms=6, mew=1.4, zorder=5, clip_on=False)
    draw_state(ax, env, start, BLACK if isinstance(env, MiniMaze) else AGENT)
    ticks(ax, env)
    ax.set(xlabel="x", ylabel="y")
    return success


def spread_out(goals: np.ndarray, start: np.ndarray, count: int) -> np.ndarray:
    """So many goals, each as far as can be from the start and those chosen before it."""
    distance = np.linalg.norm(goals - start, axis=-1)
    chosen: list[int] = []
    while len(chosen) < min(count, len(goals)):
        chosen.append(int(distance.argmax()))
        distance = np.minimum(distance, np.linalg.norm(goals - goals[chosen[-1]], axis=-1))
    return goals[chosen]


def _car_way(ax: Axes, way: np.ndarray, action: np.ndarray, alpha: float) -> None:
    pieces = np.stack([way[:-1, :2], way[1:, :2]], axis=1)  # (moves, 2 ends, 2)
    back, forth = action[: len(pieces)] < 3, (action[: len(pieces)] >= 3) & (action[: len(pieces)] < 6)
    common: dict[str, Any] = {"alpha": alpha, "zorder": 3.5, "clip_on": False}
    ax.add_collection(LineCollection(list(pieces[forth]), colors=BLUE, linewidths=1.3, **common))
    ax.add_collection(LineCollection(list(pieces[back]), colors=VERMILION, linewidths=1.9, **common))
    ax.plot(*way[1:, :2].T, ".", color="0.15", ms=1.8, alpha=alpha, zorder=3.6, clip_on=False)


def _grid_way(ax: Axes, way: np.ndarray, i: int, count: int, alpha: float) -> str:
    """Draw one way over cells, shifted a little so that ways through the same cells lie side by side."""
    colors = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
    color, dashes = colors[i % len(colors)], "-" if i // len(colors) % 2 == 0 else (0, (3, 1))
    shift = 0.6 * (i / max(count - 1, 1) - 0.5)
    ax.plot(way[:, 0] + shift, way[:, 1] + shift, color=color, ls=dashes, lw=1.2, alpha=alpha, zorder=2.5)
    return color


def _way_legend(env: Any, missed: bool) -> list[Any]:
    if isinstance(env, DubinsCar):
        handles = [
            Line2D([], [], color=AGENT, marker=">", ls="", ms=6, label="start"),
            Line2D([], [], color=BLUE, lw=1.3, marker=".", ms=3, label="forward"),
            Line2D([], [], color=VERMILION, lw=1.9, marker=".", ms=3, label="backward"),
            Line2D([], [], color=GOAL, marker="s", mfc="none", ls="", ms=6, label="goal"),
        ]
    else:
        handles = [
            Line2D([], [], color=BLACK, marker="o", ls="", ms=5, label="start"),
            Line2D([], [], color=BLUE, marker="*", lw=1.2, ms=8, label="a goal and the way to it"),
        ]
    if missed:
        handles.append(Line2D([], [], color=BLACK, marker="x", ls="", ms=6, mew=1.4, label="not reached"))
    return handles


# Frozen lake: the policy by horizon ---------------------------------------------------------------


LAKE_STEPS = 50  # of an agent without a horizon, at most


def most_likely_way(agent: Any, env: FrozenLake, start: Any, goal: Any, horizon: int | None) -> np.ndarray:
    """The cells of the greedy way when no move slips: (steps + 1, 2).

    The horizon is counted down; None for an agent that acts without one.
    """
    state, goal = np.asarray(start, np.float32), np.asarray(goal, np.float32)
    way = [state]
    for left in range(horizon or LAKE_STEPS, 0, -1):
        action = agent.act(state, goal, horizon=left) if horizon else agent.act(state, goal)
        landing, _ = env.outcomes(jnp.asarray(state), jnp.asarray(action))
        state = np.asarray(landing[0])  # the intended move comes first
        way.append(state)
        if bool(env.reached(jnp.asarray(state), jnp.asarray(goal))) or bool(env.is_dead(jnp.asarray(state))):
            break
    return np.stack(way)


def policy_by_horizon(agent: Any, env: Any, horizons: Sequence[int] = LAKE_HORIZONS) -> Figure:
    """Frozen lake: the most likely way from S to G for several horizons (figure 3a)."""
    if not isinstance(env, FrozenLake):
        raise UsageError(f"policy_by_horizon shows the frozen lake, not {kind(env)}.")
    horizons = within(agent, horizons)
    start, goal = _ends()
    truth = true_curve(env, start, goal[None], max(horizons))[0]
    panels = []
    for h in horizons:
        learned = agent.reach_probability(start, goal, h)
        title = f"h = {h}\nlearned {learned:.2f}\noptimal {truth[h - 1]:.2f}"
        panels.append((title, most_likely_way(agent, env, start, goal, h)))
    return _lake_ways(
        env, panels, "Frozen lake: most likely way from S to G, and chance of arriving within h steps"
    )


RING = {"mfc": "none", "mec": AGENT, "ms": 16, "mew": 1.4}  # around the letter of a start, too


def compare_lake_ways(agents: Sequence[tuple[str, Any, int | None]], env: FrozenLake) -> Figure:
    """The most likely ways of several agents from S to G, each with a horizon or none (figure 3a)."""
    panels = [(name, most_likely_way(agent, env, *_ends(), h)) for name, agent, h in agents]
    return _lake_ways(env, panels, "Frozen lake: most likely way from S to G by method")


def _ends() -> tuple[np.ndarray, np.ndarray]:
    return np.array(frozen_lake.START, np.float32), np.array(frozen_lake.FAR_GOAL, np.float32)


def _lake_ways(env: FrozenLake, panels: Sequence[tuple[str, np.ndarray]], title: str) -> Figure:
    columns = min(len(panels), LAKES_IN_A_ROW)
    rows = math.ceil(len(panels) / columns)
    with styled():
        figure = Figure((WIDTH, 3.1 * rows), layout="constrained")
        pushed = False
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        for ax, (name, way) in zip(axes, panels, strict=False):
            draw_map(ax, env)
            for tail, head in pairwise(way):
                _arrow(ax, tail, head)
                pushed = pushed or bool((tail == head).all())
            for letter, cell in zip("SG", _ends(), strict=True):
                disc = {"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": BLACK, "lw": 0.8}
                ax.text(*cell, letter, ha="center", va="center", weight="bold", zorder=6, bbox=disc)
            ax.set_title(name)
        if pushed:
            ring = Line2D([], [], marker="o", ls="", **RING)
            figure.set_figheight(3.1 * rows + 0.3)  # the legend must not push the titles together
            figure.legend([ring], ["a step against the border"], loc="outside lower center")
        figure.suptitle(title)
    return figure


def _arrow(ax: Axes, tail: np.ndarray, head: np.ndarray) -> None:
    if (tail == head).all():  # pushing against the border: no way to draw, but a step spent
        ax.plot(*tail, "o", **RING, zorder=7)
        return
    along = head - tail
    aside = 0.08 * np.array([along[1], -along[0]])  # a way there and back shows as two arrows
    ends = tuple(tail + 0.1 * along + aside), tuple(head - 0.1 * along + aside)
    shape = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(*ends, **shape, color=AGENT, lw=1.6, zorder=5))
