"""The paper's figures that need no training: what accuracy Q* and C* ask for, the worlds, the test goals."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

from clearning.core.tabular import FiniteMDP, optimal_c_by_horizon, optimal_c_last, optimal_q
from clearning.envs import DubinsCar, FrozenLake, MiniMaze, frozen_lake
from clearning.envs.draw import AGENT, GOAL, draw_goal, draw_map, draw_state
from clearning.envs.grid import DIRECTIONS
from clearning.plots.style import BLACK, BLUE, GREEN, GREY, TITLES, VERMILION, WIDTH, styled

SAME = 1e-9  # values nearer than this are those of equally good actions
EXAMPLE_STEPS = 5  # of figure 1b: the goal is five steps away, and a wrong first step costs two more
DISCOUNTS = (0.99, 0.9)
GOALS = 64
SHOWN_GOALS = {"frozen-lake": frozen_lake.FAR_GOAL, "mini-maze": (18, 17), "dubins-car": (13, 9)}
DIFFICULTY = {"easy": "#4daf6a", "medium": "#f2c14e", "hard": "#d1495b", "doorway": "#c9c4b8"}


# How accurately values must be known (figure 1b) --------------------------------------------------


def tolerated_error(values: np.ndarray) -> np.ndarray:
    """The largest error of any value (s, a, g) with which a greedy action is still a best one, (s, g).

    Half the distance from the best value to the best one of an action that is worse; NaN where none is.
    """
    best = values.max(1, keepdims=True)
    worse = np.where(values < best - SAME, values, -np.inf).max(1)
    return np.where(np.isfinite(worse), (best[:, 0] - worse) / 2, np.nan)


def tolerated_by_c(mdp: FiniteMDP, horizons: int, alpha: float, best: np.ndarray) -> np.ndarray:
    """`tolerated_error` of C* for each (s, g) at h_α, the smallest horizon that is safe enough.

    best: max_a C* at the largest horizon, (s, g).
    """
    found = np.full(best.shape, np.nan)
    open_ = np.ones(best.shape, bool)
    for value in optimal_c_by_horizon(mdp, horizons):
        now = open_ & (value.max(1) >= alpha * best - SAME)
        found[now] = tolerated_error(value)[now]
        open_ &= ~now
    return found


def tolerances(env: Any, alpha: float = 0.9, horizons: int = 50) -> dict[str, np.ndarray]:
    """Errors that C* and Q* tolerate in a grid world, over pairs of states and goals with a wrong action.

    All states, and goals spread evenly over the cells: no more than tell something new.
    """
    whole: FiniteMDP = env.mdp
    goals = np.linspace(0, whole.reached.shape[1] - 1, min(GOALS, whole.reached.shape[1])).astype(int)
    mdp = replace(whole, reached=whole.reached[:, goals])
    best = optimal_c_last(mdp, horizons).max(1)
    # What cannot be reached has no best action, and where one is dead or there already none is needed.
    asked = ~mdp.reached & ~mdp.dead[:, None] & (best > SAME)
    found = {f"C* at $h_α$, α = {alpha:g}": tolerated_by_c(mdp, horizons, alpha, best)}
    for gamma in DISCOUNTS:
        found[f"Q*, γ = {gamma:g}"] = tolerated_error(optimal_q(mdp, gamma))
    return {name: error[asked & np.isfinite(error)] for name, error in found.items()}


def accuracy_needed(found: Mapping[str, Mapping[str, np.ndarray]]) -> Figure:
    """The paper's example, and the errors that C* and Q* tolerate in whole worlds (figure 1b).

    found: `tolerances` by the name of the world.
    """
    with styled():
        figure = Figure((WIDTH, 2.9), layout="constrained")
        first, *others = figure.subplots(1, 1 + len(found), width_ratios=(1.05, *[1.0] * len(found)))
        _example(first)
        for ax, (name, errors) in zip(others, found.items(), strict=True):
            _tolerance_curves(ax, errors)
            ax.set_title(TITLES[name])
        others[0].set_ylabel("state-goal pairs (%) whose\nbest action survives the error")
        handles, labels = others[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower right", ncols=len(labels), columnspacing=1.2)
        figure.suptitle("How accurately C* and Q* must be known to act optimally")
    return figure


def _example(ax: Axes) -> None:
    """Values of the best action and of one that takes two steps more, for C* at h* and for Q*."""
    gamma, steps = DISCOUNTS[0], EXAMPLE_STEPS
    pairs = {"C*, h = 5": (1.0, 0.0), f"Q*, γ = {gamma:g}": (gamma**steps, gamma ** (steps + 2))}
    for place, (best, worse) in enumerate(pairs.values()):
        ax.bar(place - 0.2, best, 0.36, color=GREEN)
        ax.bar(place + 0.2, worse, 0.36, color=GREY)
        for shift, value in ((-0.2, best), (0.2, worse)):
            ax.text(place + shift, value + 0.02, f"{value:.3f}", ha="center", va="bottom", fontsize=7)
        ax.text(place, 1.16, f"tolerates {(best - worse) / 2:.3f}", ha="center", fontsize=7.5)
    ax.set(xticks=range(len(pairs)), xticklabels=list(pairs), ylim=(0, 1.28), yticks=(0, 0.5, 1))
    ax.set(ylabel="value", title=f"A goal {steps} steps away")
    handles = [Rectangle((0, 0), 1, 1, color=GREEN), Rectangle((0, 0), 1, 1, color=GREY)]
    ax.legend(
        handles, ["a best action", "one 2 steps longer"], loc="upper center", bbox_to_anchor=(0.5, -0.14)
    )


def _tolerance_curves(ax: Axes, errors: Mapping[str, np.ndarray]) -> None:
    looks = ((BLUE, "-"), (VERMILION, "-"), (VERMILION, "--"))
    for (name, values), (color, dashes) in zip(errors.items(), looks, strict=False):
        ordered = np.sort(values)
        share = 100 * (1 - np.arange(len(ordered)) / len(ordered))
        # From the left edge, where every pair survives, down to none beyond the largest.
        x = np.concatenate([[1e-5], ordered, ordered[-1:]])
        ax.step(x, np.concatenate([[100.0], share, [0.0]]), color=color, ls=dashes, lw=1.6, label=name)
    ax.set(xscale="log", xlim=(1e-4, 1.0), ylim=(-3, 105), xlabel="largest error of a value")
    ax.grid(color="0.9", lw=0.6)


# The worlds ---------------------------------------------------------------------------------------


def environments(pictures: Mapping[str, np.ndarray] | None = None) -> Figure:
    """The experiments' worlds with a start, a goal and the actions; pictures of robots below."""
    pictures = pictures or {}
    with styled():
        rows = 1 + bool(pictures)
        figure = Figure((WIDTH, 2.75 + 2.5 * (rows - 1)), layout="constrained")
        parts: Any = figure.subfigures(rows, 1, height_ratios=(1.1, 1.0)[:rows], squeeze=False)[:, 0]
        worlds = {"frozen-lake": FrozenLake(), "mini-maze": MiniMaze(), "dubins-car": DubinsCar()}
        axes = parts[0].subplots(1, 3, width_ratios=(0.72, 1, 1))
        for ax, (name, env) in zip(axes, worlds.items(), strict=True):
            draw_map(ax, env)
            test = env.test_set()
            draw_goal(ax, env, SHOWN_GOALS[name])
            draw_state(ax, env, test.state[0])
            _actions(ax, env, np.asarray(test.state[0]))
            ax.set_title(TITLES[name], pad=9)
        if pictures:
            beside = parts[1].subplots(1, len(pictures), squeeze=False)[0]
            for ax, (name, picture) in zip(beside, pictures.items(), strict=True):
                ax.imshow(picture)
                ax.set(xticks=[], yticks=[], title=name)
                ax.spines[:].set_visible(False)
        handles = [
            Line2D([], [], color=AGENT, marker="o", ls="", ms=5, label="test start"),
            Line2D([], [], color=GOAL, marker="*", ls="", ms=8, label="a goal"),
            Line2D([], [], color=BLACK, marker=r"$\rightarrow$", ls="", ms=10, label="an action"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
    return figure


def _actions(ax: Axes, env: Any, state: np.ndarray) -> None:
    """Arrows around the agent; on the map of many cells larger than a step, which would not show."""
    if isinstance(env, DubinsCar):
        centre, reach = np.array([8.0, 8.0]), 2.6
        draw_state(ax, env, (*centre, 1.0, 0.0), alpha=0.55)
        turns = np.deg2rad(3 * np.array([-10.0, 0.0, 10.0]))  # three times as far, to be told apart
        ends = [reach * sign * np.array([np.cos(t), np.sin(t)]) for sign in (1, -1) for t in turns]
        near = 0.75
    else:
        centre, near = state[:2], 0.32 if isinstance(env, FrozenLake) else 0.55
        reach = 0.95 if isinstance(env, FrozenLake) else 2.6
        ends = [reach * np.asarray(d, float) for d in DIRECTIONS]
    for end in ends:
        tail = centre + near * end / np.linalg.norm(end)
        arrow = FancyArrowPatch(
            tuple(tail), tuple(centre + end), arrowstyle="-|>", mutation_scale=8, shrinkA=0, shrinkB=0,
            color=BLACK, lw=1.1, zorder=5, clip_on=False,
        )  # fmt: skip
        ax.add_patch(arrow)


def difficulties() -> Figure:
    """Which test goals count as easy, medium and hard (appendix)."""
    with styled():
        figure = Figure((WIDTH, 4.45), layout="constrained")
        for ax, env in zip(figure.subplots(1, 2), (MiniMaze(), DubinsCar()), strict=True):
            draw_map(ax, env)
            test = env.test_set()
            car = isinstance(env, DubinsCar)
            for goal, stratum in zip(test.goal, test.stratum, strict=True):
                look = {"facecolor": DIFFICULTY[stratum], "edgecolor": "white", "lw": 0.4, "zorder": 1}
                if car:
                    ax.add_patch(Circle(tuple(goal), 0.3, clip_on=False, **{**look, "zorder": 3}))
                else:
                    ax.add_patch(Rectangle(tuple(goal - 0.5), 1, 1, **look))
            draw_state(ax, env, test.state[0], BLUE)
            strata = np.array(test.stratum)
            counts = ", ".join(f"{(strata == s).sum()} {s}" for s in DIFFICULTY if (strata == s).any())
            ax.set_title(f"{TITLES[env.spec.name]}\n{counts}", pad=9)
        handles = [
            Line2D([], [], color=color, marker="s", ls="", ms=7, label=name)
            for name, color in DIFFICULTY.items()
        ]
        handles[-1].set_label("doorway (not in the paper's test)")
        handles.append(Line2D([], [], color=BLUE, marker="o", ls="", ms=6, label="test start"))
        figure.legend(handles=handles, loc="outside lower center", ncols=5, columnspacing=1.2)
    return figure
