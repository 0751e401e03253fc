"""Run folders -> figures; never trains.

- learning_curves: test success and path length while training, every seed
- trajectories: the policy's ways to goals spread over the map
- policy_by_horizon: frozen lake, the most likely way for several horizons (figure 3a)
- heat_maps: how surely each goal is reached in time, beside the truth (figure 3b)
- horizon_curve: C against the horizon, beside the truth
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from clearning.agent import Agent
from clearning.config import Config
from clearning.envs import DubinsCar, FrozenLake, MiniMaze, dubins_car, frozen_lake, make
from clearning.envs.draw import AGENT, GOAL, WALL, draw_goal, draw_map, draw_state
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import ClearningError, UsageError
from clearning.evaluate import exact_c, run_episodes
from clearning.report import paper_results
from clearning.rollout import Dial, dial_horizon
from clearning.runs import RunFolder, run_folders

DPI = 160
WIDTH = 7.0  # inches: the width of a page's text, so that 8 points stay 8 points
TITLES = {"frozen-lake": "Frozen lake", "mini-maze": "Mini maze", "dubins-car": "Dubins' car"}

# Okabe and Ito's colours, told apart with any kind of colour vision.
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK, GREY = "#CC79A7", "#56B4E9", "#000000", "#777777"

STYLE: dict[Any, Any] = {
    "font.size": 8.0,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.0,
    "legend.fontsize": 7.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "figure.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
}

LAKE_HORIZONS = (6, 12, 16, 24)
MAZE_HORIZONS = (5, 10, 20, 30)
CAR_HORIZONS = (7, 15, 25)
GRID_SIDE = 61  # the car's goals on a square grid, four to a unit
REACHABLE = 0.5  # a goal counts as reachable from this probability on
CENTRE = (7.5, 7.5, 1.0, 0.0)


def plot_run(run: str | Path, out: str | Path | None = None) -> list[Path]:
    """Write every figure that makes sense for a run, or for a folder of seeds; returns their paths.

    Figures of a single agent show the first seed's. Without `out` they go to `figures` inside the folder.
    """
    folders = run_folders(run)
    config, record = _shared_config(folders)
    path = Path(out) if out else Path(run) / "figures"
    with _style():
        drawn = {"learning_curves": learning_curves(folders)}
        agent_file = folders[0].agent_file
        # Maps and exact answers need our environments; a network of one's own cannot be built from here.
        if not record.get("custom_env") and not record.get("custom_network") and agent_file.is_file():
            agent, env = Agent.load(agent_file), make(config.env, config.env_options)
            drawn |= agent_figures(agent, env)
        return [_save(figure, path / f"{name}.png") for name, figure in drawn.items()]


def agent_figures(agent: Agent, env: Any) -> dict[str, Figure]:
    """The figures of one agent by name: those that its environment calls for."""
    figures = {"heat_maps": heat_maps, "horizon_curve": horizon_curve}
    if isinstance(env, FrozenLake):
        figures["policy_by_horizon"] = policy_by_horizon
    else:
        figures["trajectories"] = trajectories
    return {name: figures[name](agent, env) for name in sorted(figures)}


# Learning curves -----------------------------------------------------------------------------------


def learning_curves(runs: Sequence[RunFolder]) -> Figure:
    """Success and steps on the test goals against environment steps: every seed, the mean, its interval."""
    config, record = _shared_config(runs)
    metrics = [_finished_rows(run) for run in runs]
    custom = bool(record.get("custom_env"))
    env = None if custom else make(config.env, config.env_options)
    with _style():
        figure = Figure((WIDTH, 3.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        _curves(left, metrics, "train_success", GREY, "training", scale=100, faint=True)
        _curves(left, metrics, "eval_success", BLUE, "test", scale=100)
        paper = None if env is None else _paper_success(config.env, env)
        if paper is not None:
            label = "paper's final, its 483 goals" if config.env == "mini-maze" else "paper's final"
            left.axhline(paper, color=VERMILION, ls="--", lw=1.1, label=label)
        left.set(title="Goals reached", ylabel="success (%)", ylim=(-2, 102))
        _curves(right, metrics, "eval_steps", BLUE, None)
        optimum = None if env is None else _mean_optimum(env)
        if optimum is not None:
            what = "fewest possible steps" if _is_stochastic(env) else "optimum"
            line = {"color": GREEN, "ls": (0, (4, 1.5, 1, 1.5)), "lw": 1.2}
            right.axhline(optimum, label=f"{what}, all test goals", **line)
        right.set(title="Path length", ylabel="mean steps to goals reached")
        right.set_ylim(bottom=0, top=1.08 * max(right.get_ylim()[1], optimum or 0.0))
        for ax in (left, right):
            ax.set_xlabel("environment steps")
            if ax.get_legend_handles_labels()[0]:
                ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2)
            ax.grid(color="0.9", lw=0.6)
            ax.set_axisbelow(True)
            ax.xaxis.set_major_formatter(_thousands)
            ax.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        seeds = "1 seed" if len(runs) == 1 else f"{len(runs)} seeds"
        name = record.get("preset") or ("custom environment" if custom else config.env)
        figure.suptitle(f"Learning curves: {name}, {seeds}")
    return figure


def _curves(
    ax: Axes,
    metrics: Sequence[Mapping[str, np.ndarray]],
    column: str,
    color: str,
    label: str | None,
    scale: float = 1.0,
    faint: bool = False,
) -> None:
    """Every seed thin, the mean thick, and a bootstrap interval of the mean around it."""
    seeds = []
    for rows in metrics:
        known = np.isfinite(rows[column])
        if known.any():
            seeds.append((rows["env_steps"][known], scale * rows[column][known]))
    if not seeds:
        return
    style: dict[str, Any] = {"color": color, "lw": 0.9 if faint else 1.8, "ls": ":" if faint else "-"}
    if len(seeds) == 1:
        marker = "o" if len(seeds[0][0]) == 1 else None  # a line of one point would not show
        ax.plot(*seeds[0], label=label, marker=marker, ms=3, zorder=2 if faint else 3, **style)
        return
    # Evaluations fall on other steps in other seeds: compare where all of them have been.
    start, end = max(x[0] for x, _ in seeds), min(x[-1] for x, _ in seeds)
    grid = np.linspace(start, max(start, end), 200)
    values = np.stack([np.interp(grid, x, y) for x, y in seeds])
    mean_label = None if label is None else f"{label}, mean"
    ax.plot(grid, values.mean(0), label=mean_label, zorder=3, **style)
    if faint:
        return
    for i, (x, y) in enumerate(seeds):
        ax.plot(x, y, color=color, lw=0.6, alpha=0.6, label="each seed" if label and i == 0 else None)
    low, high = _bootstrap(values)
    band = "mean's 95 % bootstrap interval" if label else None
    ax.fill_between(grid, low, high, color=color, alpha=0.18, lw=0, label=band)


def _bootstrap(values: np.ndarray, draws: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """A 95 % percentile interval of the mean over seeds, at each of many points; values (seeds, points)."""
    picks = np.random.default_rng(0).integers(0, len(values), (draws, len(values)))
    weight = np.stack([(picks == i).mean(1) for i in range(len(values))], axis=1)  # (draws, seeds)
    low, high = np.percentile(weight @ values, [2.5, 97.5], axis=0)
    return low, high


def _finished_rows(run: RunFolder) -> dict[str, np.ndarray]:
    rows = run.metrics()
    if not len(rows["env_steps"]):
        raise ClearningError(f"{run.path} has no metrics yet: the first row comes with the first evaluation.")
    return rows


def _paper_success(name: str, env: Any) -> float | None:
    """The paper's final success in percent, where the world is the paper's."""
    if isinstance(env, DubinsCar):
        same = env.walls and env.turn_degrees == DubinsCar().turn_degrees
    else:
        same = not _is_stochastic(env)
    found = paper_results().get(name, {}).get("c-learning", {}).get("success", {}).get("all")
    return found[0] if found and same else None


def _mean_optimum(env: Any) -> float | None:
    """The fewest steps to a test goal, on average."""
    test = env.test_set()
    steps = _true_steps(env, test.state[0], test.goal)
    return float(steps[steps != NEVER].mean())


def _thousands(value: float, _position: int) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


# Trajectories --------------------------------------------------------------------------------------


def trajectories(agent: Agent, env: Any, count: int = 12) -> Figure:
    """The policy's ways from the test start to goals spread over the map, with the agent's own alpha."""
    test = env.test_set()
    start, goals = test.state[0], spread_out(test.goal, np.asarray(env.achieved_goal(test.state[0])), count)
    starts = np.tile(start, (len(goals), 1))
    dial = Dial(agent.config.alpha)
    episodes = run_episodes(agent.network, env, agent.config, dial, 0, starts, goals)
    length, success = np.asarray(episodes.length), np.asarray(episodes.success)
    ways = [np.asarray(o)[: n + 1] for o, n in zip(episodes.observation, length, strict=True)]
    with _style():
        figure = Figure((WIDTH * 0.62, WIDTH * 0.7), layout="constrained")
        ax = figure.subplots()
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
        _ticks(ax, env)
        ax.set(xlabel="x", ylabel="y")
        share = f"{success.sum()} of {len(goals)} goals reached"
        ax.set_title(f"{TITLES[env.spec.name]}: the policy with α = {dial.alpha:g}, {share}", pad=10)
        handles = _way_legend(env, not success.all())
        figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.2)
    return figure


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


# Frozen lake: the policy by horizon ----------------------------------------------------------------


def most_likely_way(agent: Any, env: FrozenLake, start: Any, goal: Any, horizon: int) -> np.ndarray:
    """The cells of the greedy way when no move slips, with the horizon counted down: (steps + 1, 2)."""
    state, goal = np.asarray(start, np.float32), np.asarray(goal, np.float32)
    way = [state]
    for left in range(horizon, 0, -1):
        action = agent.act(state, goal, horizon=left)
        landing, _ = env.outcomes(jnp.asarray(state), jnp.asarray(action))
        state = np.asarray(landing[0])  # the intended move comes first
        way.append(state)
        if bool(env.reached(jnp.asarray(state), jnp.asarray(goal))) or bool(env.is_dead(jnp.asarray(state))):
            break
    return np.stack(way)


def policy_by_horizon(agent: Any, env: Any, horizons: Sequence[int] = LAKE_HORIZONS) -> Figure:
    """Frozen lake: the most likely way from S to G for several horizons (figure 3a)."""
    if not isinstance(env, FrozenLake):
        raise UsageError(f"policy_by_horizon shows the frozen lake, not {_kind(env)}.")
    horizons = _within(agent, horizons)
    start, goal = np.array(frozen_lake.START, np.float32), np.array(frozen_lake.FAR_GOAL, np.float32)
    truth = _true_curve(env, start, goal[None], max(horizons))[0]
    with _style():
        figure = Figure((WIDTH, 3.1), layout="constrained")
        pushed = False
        for ax, h in zip(figure.subplots(1, len(horizons), squeeze=False)[0], horizons, strict=True):
            draw_map(ax, env)
            way = most_likely_way(agent, env, start, goal, h)
            for tail, head in pairwise(way):
                _arrow(ax, tail, head)
                pushed = pushed or bool((tail == head).all())
            for name, cell in (("S", start), ("G", goal)):
                disc = {"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": BLACK, "lw": 0.8}
                ax.text(*cell, name, ha="center", va="center", weight="bold", zorder=6, bbox=disc)
            learned = agent.reach_probability(start, goal, h)
            ax.set_title(f"h = {h}\nlearned {learned:.2f}\noptimal {truth[h - 1]:.2f}")
        if pushed:
            ring = Line2D([], [], marker="o", mfc="none", mec=AGENT, ls="", ms=9, mew=1.2)
            figure.legend([ring], ["a step against the border"], loc="outside lower center")
        figure.suptitle("Frozen lake: most likely way from S to G, and chance of arriving within h steps")
    return figure


def _arrow(ax: Axes, tail: np.ndarray, head: np.ndarray) -> None:
    if (tail == head).all():  # pushing against the border: no way to draw, but a step spent
        ax.plot(*tail, "o", mfc="none", mec=AGENT, ms=9, mew=1.2, zorder=5)
        return
    along = head - tail
    aside = 0.08 * np.array([along[1], -along[0]])  # a way there and back shows as two arrows
    ends = tuple(tail + 0.1 * along + aside), tuple(head - 0.1 * along + aside)
    shape = {"arrowstyle": "-|>", "mutation_scale": 9, "shrinkA": 0, "shrinkB": 0}
    ax.add_patch(FancyArrowPatch(*ends, **shape, color=AGENT, lw=1.6, zorder=5))


# Heat maps -----------------------------------------------------------------------------------------


def reachability_overlap(agent: Any, env: Any, horizons: Sequence[int]) -> dict[int, float]:
    """Intersection over union of the goals that the agent and the truth call reachable, by horizon.

    Reachable is a probability of 0.5 and more. The state is `viewpoint(env)`, the goals `goals_of(env)`.
    """
    goals, state = goals_of(env), viewpoint(env)
    horizons = _within(agent, horizons)
    truth = _true_curve(env, state, goals, max(horizons)) >= REACHABLE
    overlap = {}
    for h in horizons:
        said, true = agent.reach_probability(state, goals, h) >= REACHABLE, truth[:, h - 1]
        either = (said | true).sum()
        overlap[h] = float((said & true).sum() / either) if either else 1.0
    return overlap


def viewpoint(env: Any) -> np.ndarray:
    """The state from which reachability is shown: the test start, or the centre in the world of figure 3b."""
    if isinstance(env, DubinsCar) and not env.walls and env.turn_degrees == 5.0:
        return np.array(CENTRE, np.float32)
    if not isinstance(env, DubinsCar | FrozenLake | MiniMaze):
        raise UsageError(f"There is no map of {_kind(env)} to show reachability on.")
    return np.asarray(env.test_set().state[0], np.float32)


def goals_of(env: Any) -> np.ndarray:
    """The goals of a heat map, (n, 2): all cells, or the free points of a 61 by 61 grid for the car."""
    if isinstance(env, DubinsCar):
        along = np.linspace(0.0, dubins_car.SIZE, GRID_SIDE)
        points = np.stack(np.meshgrid(along, along, indexing="ij"), -1).reshape(-1, 2).astype(np.float32)
        return points[~np.asarray(env.is_blocked(jnp.asarray(points)))]
    return np.asarray(env.cells, np.float32)


def heat_maps(agent: Any, env: Any, horizons: Sequence[int] | None = None) -> Figure:
    """max_a C over all goals from one state for several horizons, beside what is true (figure 3b)."""
    default = {DubinsCar: CAR_HORIZONS, MiniMaze: MAZE_HORIZONS, FrozenLake: LAKE_HORIZONS}
    state = viewpoint(env)
    horizons = _within(agent, horizons or default[type(env)])
    goals = goals_of(env)
    truth = _true_curve(env, state, goals, max(horizons))
    # Both (goals, horizons).
    learned = np.stack([agent.reach_probability(state, goals, h) for h in horizons], axis=1)
    exact = truth[:, [h - 1 for h in horizons]]
    with _style():
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
        _ticks(ax, env, x=True, y=i == 0)
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
            _ticks(ax, env, x=row == 1, y=i == 0)
            ax.set(xlabel="goal x" if row == 1 else "", ylabel=f"{name}\ngoal y" if i == 0 else "")
    bar = figure.colorbar(axes[0, 0].images[0], ax=axes, shrink=0.6, pad=0.015)
    bar.set_label(r"$\max_a\, C(s, a, g, h)$")
    figure.suptitle(f"{TITLES[env.spec.name]}: probability of reaching each goal within h steps")
    handles: list[Any] = [Line2D([], [], color=AGENT, marker="o", ls="", ms=6, label="state s")]
    if lake:
        handles.append(Patch(facecolor="0.35", edgecolor="white", hatch="////", lw=0, label="hole"))
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _ticks(ax: Axes, env: Any, x: bool = True, y: bool = True) -> None:
    """Coordinates along the sides of a map where they are wanted."""
    between = {DubinsCar: 5, MiniMaze: 6, FrozenLake: 1}[type(env)]
    width, height = env.spec.goal_high
    ax.set_xticks(np.arange(0, width + 1, between) if x else [])
    ax.set_yticks(np.arange(0, height + 1, between) if y else [])
    # A car or a goal at the edge of the box reaches over it.
    ax.tick_params(length=2, pad=9 if isinstance(env, DubinsCar) else 3)


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
    picture = np.ma.masked_all(side)
    picture[y, x] = values
    return picture


# Curves over the horizon ---------------------------------------------------------------------------


def horizon_curve(agent: Any, env: Any, alpha: float = 0.9) -> Figure:
    """C against the horizon from one state to three goals, with h_α marked (section 3.2)."""
    state = viewpoint(env)
    goals = _near_middle_far(env, state)
    curves = agent.reach_curve(state, goals)  # (goals, H)
    truth = _true_curve(env, state, goals, curves.shape[-1])
    horizons = np.arange(1, curves.shape[-1] + 1)
    with _style():
        figure = Figure((WIDTH * 0.7, 3.2), layout="constrained")
        ax = figure.subplots()
        names = ("near", "middle", "far")
        handles: list[Any] = []
        for name, color, goal, curve, true in zip(
            names, (BLUE, VERMILION, GREEN), goals, curves, truth, strict=True
        ):
            place = ", ".join(f"{v:g}" for v in goal)
            handles += ax.plot(horizons, curve, color=color, lw=1.8, label=f"{name} goal ({place})")
            sharp = "steps-mid" if not _is_stochastic(env) else "default"
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
        ax.set_title(f"{TITLES[env.spec.name]}: probability of reaching a goal in time from ({place})")
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
    steps = _true_steps(env, state, goals)
    goals, steps = goals[steps > 0], steps[steps > 0]
    order = np.argsort(steps, kind="stable")
    return goals[[order[int(q * (len(order) - 1))] for q in (0.1, 0.5, 1.0)]]


# What is true --------------------------------------------------------------------------------------


def _true_curve(env: Any, state: np.ndarray, goals: np.ndarray, horizons: int) -> np.ndarray:
    """max_a C*(state, a, g, h) for h = 1..H, (goals, H).

    By dynamic programming; where nothing is left to chance a search says the same, and sooner.
    """
    if _is_stochastic(env):
        number = {tuple(c): i for i, c in enumerate(env.cells.tolist())}
        places = [number[tuple(g)] for g in goals.astype(int).tolist()]
        values = exact_c(env, horizons)[:, number[tuple(state.astype(int).tolist())]].max(1)  # (H, goals)
        return values[:, places].T
    steps = _true_steps(env, state, goals)[:, None]
    return ((steps != NEVER) & (steps <= np.arange(1, horizons + 1))).astype(float)


def _true_steps(env: Any, state: np.ndarray, goals: np.ndarray) -> np.ndarray:
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


def _is_stochastic(env: Any) -> bool:
    return isinstance(env, FrozenLake) or (isinstance(env, MiniMaze) and env.stochastic)


# Common --------------------------------------------------------------------------------------------


def _shared_config(runs: Sequence[RunFolder]) -> tuple[Config, dict[str, Any]]:
    """The config that all runs were trained with; seeds of different trainings have no mean."""
    if not runs:
        raise UsageError("There are no runs to plot.")
    read = [run.read() for run in runs]
    config, _, record = read[0]
    for run, (other, _, other_record) in zip(runs, read, strict=True):
        if other != config or other_record.get("custom_env") != record.get("custom_env"):
            raise UsageError(
                f"{runs[0].path} and {run.path} are not seeds of one training, as their settings differ: "
                f"plot them one by one."
            )
    return config, record


def _within(agent: Any, horizons: Sequence[int]) -> tuple[int, ...]:
    """The horizons that the agent knows."""
    if any(h < 1 for h in horizons):
        raise UsageError(f"horizons must be at least 1, not {min(horizons)}.")
    known = tuple(h for h in horizons if h <= agent.max_horizon)
    # An agent with a short sight still has one picture to show.
    return known or (agent.max_horizon,)


def _kind(env: Any) -> str:
    return getattr(getattr(env, "spec", None), "name", type(env).__name__)


@contextmanager
def _style() -> Iterator[None]:
    """Our settings for as long as a figure is drawn: a user's own figures keep theirs."""
    with matplotlib.rc_context(STYLE):
        yield


def _save(figure: Figure, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI)
    except OSError as error:
        raise ClearningError(f"Could not write {path}: {error.strerror}.") from error
    return path
