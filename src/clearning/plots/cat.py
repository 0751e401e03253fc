"""Cat and mouse: how the way past the cat, and its success, depend on the time there is."""

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from clearning.agent import Agent
from clearning.envs import CatAndMouse, cat_and_mouse
from clearning.envs.draw import AGENT, draw_goal, draw_map, draw_state
from clearning.errors import UsageError
from clearning.evaluate import first_steps, run_episodes, run_horizons
from clearning.plots.style import BLACK, BLUE, GREEN, VERMILION, WIDTH, kind, styled, title_of, within
from clearning.rollout import own_dial
from clearning.types import Episodes

WAY_HORIZONS = (5, 6, 7, 8, 10, 12)
SHOWN = 3  # ways drawn for each horizon
ROLLOUTS = 500


def ways_past_the_cat(
    agent: Agent, env: Any, horizons: Sequence[int] = WAY_HORIZONS, rollouts: int = ROLLOUTS
) -> Figure:
    """Ways for several horizons counted down; success and distance from the cat by horizon (figure 1a).

    An agent that knows no horizon has one way, and what of it is done in time counts for each.
    """
    if not isinstance(env, CatAndMouse):
        raise UsageError(f"ways_past_the_cat shows cat-and-mouse, not {kind(env)}.")
    test = env.test_set()
    start, goal = test.state[0], test.goal[0]
    asked = range(1, (agent.max_horizon if agent.knows_c else max(horizons)) + 1)
    starts, goals = np.tile(start, (rollouts, 1)), np.tile(goal, (rollouts, 1))
    if agent.knows_c:
        ran = dict(zip(asked, run_horizons(agent.network, env, 0, starts, goals, asked), strict=True))
        ways = {f"h = {h}": ran[h] for h in within(agent, horizons)}
        curve = agent.reach_curve(env.observe(start), goal)
    else:
        dial = own_dial(agent.config)
        one = run_episodes(agent.network, env, agent.config, dial, 0, starts, goals)
        ran = {h: first_steps(one, h) for h in asked}
        ways, curve = {"whatever the time": one}, None
    best = cat_and_mouse.exact_success(tuple(start[:2].tolist()), tuple(goal.tolist()), asked[-1])
    with styled():
        figure = Figure((WIDTH, 3.7), layout="constrained")
        parts: Any = figure.subfigures(1, 2, width_ratios=(1.15, 1))
        left, right = parts
        _ways(left, env, ways, start, goal)
        above, below = right.subplots(2, 1, sharex=True)
        _success(above, curve, best, ran)
        _closest(below, ran)
        told = "the way past the cat by the time there is"
        if not agent.knows_c:
            told = f"{agent.config.method.upper()} has one way past the cat, whatever the time"
        figure.suptitle(f"{title_of(env)}: {told}")
    return figure


def _ways(part: Any, env: CatAndMouse, ran: dict[str, Episodes], start: np.ndarray, goal: np.ndarray) -> None:
    ax = part.subplots()
    draw_map(ax, env)
    # Between the ends of the colour map, of which one is too pale for a line.
    colors = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.88, len(ran)))
    caught = False
    # Hasty ways lie above careful ones, and are thinner: where they coincide, both show.
    widths = np.linspace(1.1, 2.6, len(ran))
    for color, width, episodes in reversed(list(zip(colors, widths, ran.values(), strict=True))):
        for i in range(min(SHOWN, len(episodes.length))):
            length = int(episodes.length[i])
            way = np.asarray(episodes.achieved[i])[: length + 1]
            ax.plot(*way.T, color=color, lw=width, marker=".", ms=4, zorder=3.5)
            if bool(episodes.dead[i]) and not bool(episodes.success[i]):
                caught = True
                ax.plot(*way[-1], "x", color=BLACK, ms=6, mew=1.4, zorder=5)
    draw_goal(ax, env, goal)
    draw_state(ax, env, start)
    ax.set_title(f"{SHOWN} ways for each horizon, counted down" if len(ran) > 1 else f"{SHOWN} ways")
    handles = [Line2D([], [], color=c, lw=1.8, label=label) for c, label in zip(colors, ran, strict=True)]
    handles.append(Line2D([], [], color=AGENT, marker="o", ls="", ms=5, label="start"))
    if caught:
        handles.append(Line2D([], [], color=BLACK, marker="x", ls="", ms=6, mew=1.4, label="caught"))
    part.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1.2)


def _success(ax: Axes, curve: np.ndarray | None, best: np.ndarray, ran: dict[int, Episodes]) -> None:
    horizons = np.array(list(ran))
    success = np.array([np.asarray(e.success).mean() for e in ran.values()])
    ax.plot(horizons, 100 * best, color=GREEN, lw=1.2, ls="--", label="exact optimum")
    if curve is not None:
        ax.plot(horizons, 100 * curve, color=BLUE, lw=1.2, ls=":", label="C at the start")
    ax.plot(horizons, 100 * success, color=BLUE, lw=1.8, marker="o", ms=3, label="success")
    rollouts = len(next(iter(ran.values())).length)
    ax.set(ylabel="success (%)", ylim=(-3, 103), title=f"{rollouts} rollouts for each horizon")
    ax.legend(loc="upper left")
    ax.grid(color="0.9", lw=0.6)


def _closest(ax: Axes, ran: dict[int, Episodes]) -> None:
    """The distance from the cat at the nearest point of ways that arrived, on average."""
    known = {h: _approach(e) for h, e in ran.items() if np.asarray(e.success).any()}
    ax.plot(list(known), list(known.values()), color=VERMILION, lw=1.8, marker="o", ms=3)
    ax.set(xlabel="horizon h (steps)", ylabel="nearest to the cat", xlim=(0.5, len(ran) + 0.5))
    ax.set_ylim(bottom=0, top=max(3.0, *known.values()) * 1.1 if known else 3.0)
    ax.grid(color="0.9", lw=0.6)


def _approach(episodes: Episodes) -> float:
    achieved, length = np.asarray(episodes.achieved), np.asarray(episodes.length)
    distance = np.linalg.norm(achieved - np.array(cat_and_mouse.CAT), axis=-1)  # (n, T + 1)
    distance = np.where(np.arange(distance.shape[1]) <= length[:, None], distance, np.inf).min(1)
    return float(distance[np.asarray(episodes.success)].mean())
