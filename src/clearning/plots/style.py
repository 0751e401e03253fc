"""What the figures share: sizes, colours, settings, coordinates along a map, and the way to disk."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clearning.envs import DubinsCar, FrozenLake, MiniMaze
from clearning.errors import ClearningError, UsageError

DPI = 160
WIDTH = 7.0  # inches: the width of a page's text, so that 8 points stay 8 points
TITLES = {
    "frozen-lake": "Frozen lake",
    "mini-maze": "Mini maze",
    "dubins-car": "Dubins' car",
    "cat-and-mouse": "Cat and mouse",
}

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

LAKE_HORIZONS = (6, 12, 16, 24)  # of the policy by horizon and of the heat maps


@contextmanager
def styled() -> Iterator[None]:
    """Our settings for as long as a figure is drawn: a user's own figures keep theirs."""
    with matplotlib.rc_context(STYLE):
        yield


def save(figure: Figure, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI)
    except OSError as error:
        raise ClearningError(f"Could not write {path}: {error.strerror}.") from error
    return path


def ticks(ax: Axes, env: Any, x: bool = True, y: bool = True) -> None:
    """Coordinates along the sides of a map where they are wanted."""
    between = {DubinsCar: 5, MiniMaze: 6, FrozenLake: 1}[type(env)]
    width, height = env.spec.goal_high
    ax.set_xticks(np.arange(0, width + 1, between) if x else [])
    ax.set_yticks(np.arange(0, height + 1, between) if y else [])
    # A car or a goal at the edge of the box reaches over it.
    ax.tick_params(length=2, pad=9 if isinstance(env, DubinsCar) else 3)


def within(agent: Any, horizons: Sequence[int]) -> tuple[int, ...]:
    """The horizons that the agent knows."""
    if any(h < 1 for h in horizons):
        raise UsageError(f"horizons must be at least 1, not {min(horizons)}.")
    known = tuple(h for h in horizons if h <= agent.max_horizon)
    # An agent with a short sight still has one picture to show.
    return known or (agent.max_horizon,)


def title_of(env: Any) -> str:
    """What a world of ours is called, and that it is the variant whose moves slip or skid."""
    title = TITLES[env.spec.name]
    return f"{title}, stochastic" if isinstance(env, MiniMaze) and env.stochastic else title


def kind(env: Any) -> str:
    return getattr(getattr(env, "spec", None), "name", type(env).__name__)
