"""How surely each goal is reached in time, beside the truth: heat maps, and how far both agree."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from clearning.envs import DubinsCar, FrozenLake, MiniMaze, dubins_car, frozen_lake
from clearning.envs.draw import AGENT, WALL, draw_map, draw_state
from clearning.plots.curves import GRID_SIDE, goals_of, true_curve, viewpoint
from clearning.plots.style import LAKE_HORIZONS, WIDTH, styled, ticks, title_of, within

MAZE_HORIZONS = (5, 10, 20, 30)
CAR_HORIZONS = (7, 15, 25)
REACHABLE = 0.5  # a goal counts as reachable from this probability on


def reachability_overlap(agent: Any, env: Any, horizons: Sequence[int]) -> dict[int, float]:
    """Intersection over union of the goals that the agent and the truth call reachable, by horizon.

    Reachable is a probability of 0.5 and more. The state is `viewpoint(env)`, the goals `goals_of(env)`.
    """
    goals, state = goals_of(env), viewpoint(env)
    horizons = within(agent, horizons)
    truth = true_curve(env, state, goals, max(horizons)) >= REACHABLE
    overlap = {}
    for h in horizons:
        said, true = agent.reach_probability(state, goals, h) >= REACHABLE, truth[:, h - 1]
        either = (said | true).sum()
        overlap[h] = float((said & true).sum() / either) if either else 1.0
    return overlap


def reachable_share(env: Any, horizons: Sequence[int]) -> dict[int, float]:
    """The share of the goals that are truly reachable, by horizon.

    It is the overlap of whoever calls everything reachable: what is above it was learned.
    """
    truth = true_curve(env, viewpoint(env), goals_of(env), max(horizons)) >= REACHABLE
    return {h: float(truth[:, h - 1].mean()) for h in horizons}


def heat_maps(agent: Any, env: Any, horizons: Sequence[int] | None = None) -> Figure:
    """max_a C over all goals from one state for several horizons, beside what is true (figure 3b)."""
    default = {DubinsCar: CAR_HORIZONS, MiniMaze: MAZE_HORIZONS, FrozenLake: LAKE_HORIZONS}
    state = viewpoint(env)
    horizons = within(agent, horizons or default[type(env)])
    goals = goals_of(env)
    truth = true_curve(env, state, goals, max(horizons))
    # Both (goals, horizons).
    learned = np.stack([agent.reach_probability(state, goals, h) for h in horizons], axis=1)
    exact = truth[:, [h - 1 for h in horizons]]
    with styled():
        if isinstance(env, DubinsCar):
            overlap = reachability_overlap(agent, env, horizons)
            return _car_heat_maps(env, state, goals, horizons, learned, exact, overlap)
        return _grid_heat_maps(env, state, goals, horizons, learned, exact)


def _car_heat_maps(
    env: DubinsCar,
    state: np.ndarray,
    goals: np.ndarray,
    horizons: Sequence[int],
    learned: np.ndarray,
    exact: np.ndarray,
    overlap: Mapping[int, float],
) -> Figure:
    figure = Figure((WIDTH, 3.05), layout="constrained")
    axes = figure.subplots(1, len(horizons), squeeze=False)[0]
    along = np.linspace(0.0, dubins_car.SIZE, GRID_SIDE)
    pixel = along[1] - along[0]
    extent = (-pixel / 2, dubins_car.SIZE + pixel / 2) * 2
    halo = [patheffects.withStroke(linewidth=2.6, foreground="black")]
    for i, (ax, h) in enumerate(zip(axes, horizons, strict=True)):
        draw_map(ax, env)
        _show(ax, _as_image(env, goals, learned[:, i]), extent, bad=WALL)
        # Both outlines are drawn where the truth is known; they end at the walls.
        for values, style in ((exact[:, i], "solid"), (learned[:, i], (0, (1.5, 1.2)))):
            field = _as_image(env, goals, values)
            if field.min() < REACHABLE <= field.max():
                look = {"colors": "white", "linewidths": 1.2, "linestyles": [style], "zorder": 3}
                line = ax.contour(along, along, field, levels=[REACHABLE], **look)
                line.set_path_effects(halo if style == "solid" else [])
        draw_state(ax, env, state)
        ax.set_title(f"h = {h}, IoU = {overlap[h]:.2f}\n{100 * exact[:, i].mean():.0f} % truly reachable")
        ticks(ax, env, x=True, y=i == 0)
        ax.set(xlabel="goal x", ylabel="goal y" if i == 0 else "")
    bar = figure.colorbar(axes[0].images[0], ax=list(axes), shrink=0.75, pad=0.015)
    bar.set_label(r"learned $\max_a\, C(s, a, g, h)$")
    walls = "" if env.walls else ", no inner walls"
    figure.suptitle(f"Dubins' car{walls}: probability of reaching each goal within h steps")
    figure.legend(
        handles=[
            Line2D([], [], color="white", lw=1.2, path_effects=halo, label="truly reachable (search)"),
            Line2D([], [], color="white", lw=1.2, ls=(0, (1.5, 1.2)), label="learned, C = 0.5"),
            Line2D([], [], color=AGENT, marker=">", ls="", ms=6, label="the car"),
        ],
        loc="outside lower center",
        ncols=3,
        facecolor="0.55",
        frameon=True,
        edgecolor="none",
        labelcolor="white",
    )
    return figure


def _grid_heat_maps(
    env: FrozenLake | MiniMaze,
    state: np.ndarray,
    goals: np.ndarray,
    horizons: Sequence[int],
    learned: np.ndarray,
    exact: np.ndarray,
) -> Figure:
    lake = isinstance(env, FrozenLake)
    figure = Figure((WIDTH, 5.2 if lake else 4.1), layout="constrained")
    axes = figure.subplots(2, len(horizons), squeeze=False)
    width, height = env.spec.observation_high
    extent = (-0.5, width + 0.5, -0.5, height + 0.5)
    for row, (name, values) in enumerate((("learned C", learned), ("exact C*", exact))):
        for i, h in enumerate(horizons):
            ax = axes[row, i]
            draw_map(ax, env)
            # A hole can be a goal, so the lake's colours lie above its holes, which are hatched instead.
            _show(ax, _as_image(env, goals, values[:, i]), extent, zorder=2.05 if lake else 1)
            if lake:
                look = {"fill": False, "hatch": "////", "edgecolor": "white", "linewidth": 0, "zorder": 2.06}
                for corner in np.argwhere(frozen_lake.HOLES) - 0.5:
                    ax.add_patch(Rectangle(tuple(corner), 1, 1, **look))
            draw_state(ax, env, state)
            if row == 0:
                error = np.abs(learned[:, i] - exact[:, i]).mean()
                ax.set_title(f"h = {h}\nmean |C − C*| = {error:.2f}")
            ticks(ax, env, x=row == 1, y=i == 0)
            ax.set(xlabel="goal x" if row == 1 else "", ylabel=f"{name}\ngoal y" if i == 0 else "")
    bar = figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.6, pad=0.015)
    bar.set_label(r"$\max_a\, C(s, a, g, h)$")
    figure.suptitle(f"{title_of(env)}: probability of reaching each goal within h steps")
    handles: list[Any] = [Line2D([], [], color=AGENT, marker="o", ls="", ms=6, label="state s")]
    if lake:
        handles.append(Patch(facecolor="0.35", edgecolor="white", hatch="////", lw=0, label="hole"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _show(ax: Axes, values: Any, extent: Any, zorder: float = 1, bad: str | None = None) -> None:
    limits = ax.get_xlim(), ax.get_ylim()
    colors = matplotlib.colormaps["viridis"]
    if bad:
        colors = colors.with_extremes(bad=bad)
    ax.imshow(values, cmap=colors, vmin=0, vmax=1, origin="lower", extent=extent, zorder=zorder)
    ax.set(xlim=limits[0], ylim=limits[1])  # imshow fits them to its picture


def _as_image(env: Any, goals: np.ndarray, values: np.ndarray) -> np.ma.MaskedArray:
    """Values at goals as a picture, rows along y; masked where no goal is."""
    if isinstance(env, DubinsCar):
        side = (GRID_SIDE, GRID_SIDE)
        x, y = np.round(goals / dubins_car.SIZE * (GRID_SIDE - 1)).astype(int).T
    else:
        side = tuple(int(v) + 1 for v in reversed(env.spec.observation_high))
        x, y = goals.astype(int).T
    # Zeros below the mask: Matplotlib reckons with what lies there, and chance numbers can overflow.
    picture = np.ma.array(np.zeros(side), mask=True)
    picture[y, x] = values
    return picture
