"""Learning curves: test success and path length while training, every seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from clearning.config import Config
from clearning.envs import ENVIRONMENTS, DubinsCar, FrozenLake, MiniMaze, make
from clearning.envs.search import NEVER
from clearning.errors import UsageError
from clearning.plots.curves import is_stochastic, true_steps
from clearning.plots.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, WIDTH, styled
from clearning.report.tables import paper_results
from clearning.runs import RunFolder


def learning_curves(runs: Sequence[RunFolder]) -> Figure:
    """Success and steps on the test goals against environment steps: every seed, the mean, its interval."""
    config, record = shared_config(runs)
    metrics = [run.metrics() for run in runs]
    custom = bool(record.get("custom_env"))
    ours = config.env in ENVIRONMENTS and not custom
    env = make(config.env, config.env_options) if ours else None
    with styled():
        figure = Figure((WIDTH, 3.3), layout="constrained")
        left, right = figure.subplots(1, 2)
        _curves(left, metrics, "train_success", GREY, "training", scale=100, faint=True)
        held = any(np.isfinite(rows["eval_held"]).any() for rows in metrics)
        _curves(left, metrics, "eval_success", BLUE, "test, at any step" if held else "test", scale=100)
        if held:
            _curves(left, metrics, "eval_held", ORANGE, "test, at the last step", scale=100)
        paper = None if env is None else _paper_success(config, env)
        if paper is not None:
            label = "paper's final, its 483 goals" if config.env == "mini-maze" else "paper's final"
            left.axhline(paper, color=VERMILION, ls="--", lw=1.1, label=label)
        left.set(title="Goals reached", ylabel="success (%)", ylim=(-2, 102))
        _curves(right, metrics, "eval_steps", BLUE, None)
        optimum = None if env is None else _mean_optimum(env)
        if optimum is not None:
            what = "fewest possible steps" if is_stochastic(env) else "optimum"
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


COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)


def compare_curves(panels: Mapping[str, Mapping[str, Sequence[RunFolder]]], title: str) -> Figure:
    """Test success while training of several methods, every seed of each, a panel per world (figure 3d)."""
    methods = list(dict.fromkeys(name for by_method in panels.values() for name in by_method))
    colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(methods)}
    with styled():
        figure = Figure((WIDTH if len(panels) > 1 else WIDTH * 0.62, 3.1), layout="constrained")
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for ax, (world, by_method) in zip(axes, panels.items(), strict=True):
            for name, runs in by_method.items():
                _curves(ax, [r.metrics() for r in runs], "eval_success", colors[name], name, scale=100)
            ax.set(title=world, ylim=(-2, 102), xlabel="environment steps")
            ax.grid(color="0.9", lw=0.6)
            ax.xaxis.set_major_formatter(_thousands)
            ax.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes[0].set_ylabel("success on test goals (%)")
        handles: list[Any] = [Line2D([], [], color=colors[name], lw=1.8, label=name) for name in methods]
        if any(len(runs) > 1 for by_method in panels.values() for runs in by_method.values()):
            handles.append(Line2D([], [], color=GREY, lw=0.6, label="each seed"))
            handles.append(Patch(color=GREY, alpha=0.25, lw=0, label="mean's 95 % bootstrap interval"))
        figure.legend(handles=handles, loc="outside lower center", ncols=4 if len(panels) > 1 else 2)
        figure.suptitle(title)
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
        known = np.isfinite(rows.get(column, np.array([])))
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


def shared_config(runs: Sequence[RunFolder]) -> tuple[Config, dict[str, Any]]:
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


def _paper_success(config: Config, env: Any) -> float | None:
    """The paper's final success in percent, where the world is the paper's."""
    if isinstance(env, DubinsCar):
        same = env.walls and env.turn_degrees == DubinsCar().turn_degrees
    else:
        same = not is_stochastic(env)
    by_method = paper_results().get(config.env, {})
    found = by_method.get(config.method, {}).get("success", {}).get("all")
    return found[0] if found and same and not config.monotone else None


def _mean_optimum(env: Any) -> float | None:
    """The fewest steps to a test goal, on average."""
    if not isinstance(env, DubinsCar | FrozenLake | MiniMaze):
        return None
    test = env.test_set()
    steps = true_steps(env, test.state[0], test.goal)
    return float(steps[steps != NEVER].mean())


def _thousands(value: float, _position: int) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
