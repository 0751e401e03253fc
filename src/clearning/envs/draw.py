"""Pictures of the maps, the agent and the goal, drawn onto Matplotlib axes.

Everything is drawn in the map's own units, so a picture looks alike at any size. Layers, for those who add
their own: floor 0, walls and holes 2, goals 3, agents 4. A heat map at 1 shows where one can be.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Polygon, Rectangle

from clearning.envs import cat_and_mouse, dubins_car, frozen_lake, mini_maze
from clearning.envs.cat_and_mouse import CatAndMouse
from clearning.envs.dubins_car import DubinsCar
from clearning.envs.frozen_lake import FrozenLake
from clearning.envs.mini_maze import MiniMaze
from clearning.errors import UsageError

FLOOR = "#f7f5f0"
DOOR = "#ebe3d2"
WALL = "#4d5360"
GRID = "#ded9ce"
ICE = "#dcebf5"
ICE_GRID = "#ffffff"
HOLE = "#1d3f6e"
CAT = "#3b2f4a"
DANGER = "#a03060"
AGENT = "#d9541e"
GOAL = "#1a8a5f"
OUTLINE = "#ffffff"

PIXELS = 480  # the longer side of a rendered image
DPI = 100
BORDER = 0.75  # map units of white around the rendered box: room for a car or a goal at the edge

# The car seen from above, heading along +x: a body with a pointed nose.
CAR_OUTLINE = np.array([[-0.6, -0.34], [0.22, -0.34], [0.68, 0.0], [0.22, 0.34], [-0.6, 0.34]])
# Radii of disc and star: on the many cells of the maze they may reach a little over their own.
DISC = {FrozenLake: 0.3, MiniMaze: 0.5, CatAndMouse: 0.22}
STAR = {FrozenLake: 0.46, MiniMaze: 0.85}


def draw_map(ax: Axes, env: Any) -> None:
    """Draw an environment's map, and fit the axes to it."""
    if isinstance(env, FrozenLake):
        _floor(ax, env, ICE)
        _cells(ax, frozen_lake.HOLES, HOLE)
        _grid_lines(ax, env, ICE_GRID, linewidth=1.2, zorder=2.1)
    elif isinstance(env, MiniMaze):
        _floor(ax, env, FLOOR)
        _cells(ax, _doorways(), DOOR, zorder=0.1)
        _grid_lines(ax, env, GRID, linewidth=0.4, zorder=0.2)
        _cells(ax, ~mini_maze.FREE, WALL)
        _frame(ax, env)
    elif isinstance(env, DubinsCar):
        _floor(ax, env, FLOOR)
        _grid_lines(ax, env, GRID, linewidth=0.4, zorder=0.2)
        if env.walls:
            for x_low, y_low, x_high, y_high in np.clip(dubins_car.WALLS, 0.0, dubins_car.SIZE):
                wall = Rectangle((x_low, y_low), x_high - x_low, y_high - y_low, color=WALL, lw=0, zorder=2)
                ax.add_patch(wall)
        _frame(ax, env)
    elif isinstance(env, CatAndMouse):
        _floor(ax, env, FLOOR)
        _cat(ax)
        _frame(ax, env)
    else:
        raise _no_picture(env)
    x_low, y_low, x_high, y_high = extent(env)
    ax.set(aspect="equal", xlim=(x_low, x_high), ylim=(y_low, y_high), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)


def draw_state(ax: Axes, env: Any, state: Any, color: str = AGENT, alpha: float = 1.0) -> None:
    """Draw the agent: a car with its heading, or a disc on a cell."""
    values = np.asarray(state, float)
    style = {"facecolor": color, "edgecolor": OUTLINE, "linewidth": 0.8, "alpha": alpha, "zorder": 4}
    if isinstance(env, DubinsCar):
        x, y, cos, sin = values
        turned = CAR_OUTLINE @ np.array([[cos, sin], [-sin, cos]]) + (x, y)
        # A car at the edge of the box reaches beyond it; cut off, its heading would be lost.
        ax.add_patch(Polygon(turned, closed=True, joinstyle="round", clip_on=False, **style))
    elif isinstance(env, FrozenLake | MiniMaze | CatAndMouse):
        ax.add_patch(Circle((values[0], values[1]), DISC[type(env)], clip_on=False, **style))
    else:
        raise _no_picture(env)


def draw_goal(ax: Axes, env: Any, goal: Any, color: str = GOAL, alpha: float = 1.0) -> None:
    """Draw a goal: the square within which it counts as reached by the car, or a star on a cell."""
    x, y = np.asarray(goal, float)
    # Clipping would hide half of a goal at the edge of the map.
    style = {"alpha": alpha, "zorder": 3, "clip_on": False}
    if isinstance(env, DubinsCar):
        radius = dubins_car.NEAR.radius
        corner, side = (x - radius, y - radius), 2 * radius
        ax.add_patch(Rectangle(corner, side, side, color=color, lw=0, **{**style, "alpha": 0.3 * alpha}))
        ax.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=color, lw=1.4, **style))
        ax.add_patch(Circle((x, y), 0.1, color=color, lw=0, **style))
    elif isinstance(env, CatAndMouse):
        radius = cat_and_mouse.NEAR.radius
        ax.add_patch(Circle((x, y), radius, color=color, lw=0, **{**style, "alpha": 0.3 * alpha}))
        ax.add_patch(Circle((x, y), radius, fill=False, edgecolor=color, lw=1.4, **style))
    elif isinstance(env, FrozenLake | MiniMaze):
        star = np.array([x, y]) + _star(STAR[type(env)])
        ax.add_patch(Polygon(star, closed=True, facecolor=color, edgecolor=OUTLINE, linewidth=0.8, **style))
    else:
        raise _no_picture(env)


def render_rgb(env: Any, state: Any, goal: Any) -> np.ndarray:
    """An image of the map with agent and goal, uint8 (height, width, 3)."""
    x_low, y_low, x_high, y_high = extent(env)
    width, height = x_high - x_low, y_high - y_low
    border = BORDER if isinstance(env, DubinsCar | CatAndMouse) else 0.02 * max(width, height)
    scale = PIXELS / DPI / (max(width, height) + 2 * border)
    figure = Figure(((width + 2 * border) * scale, (height + 2 * border) * scale), dpi=DPI, facecolor="white")
    canvas = FigureCanvasAgg(figure)  # no pyplot: its global state does not belong in an environment
    left, bottom = border / (width + 2 * border), border / (height + 2 * border)
    ax = figure.add_axes((left, bottom, 1 - 2 * left, 1 - 2 * bottom))
    draw_map(ax, env)
    draw_goal(ax, env, goal)
    draw_state(ax, env, state)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def extent(env: Any) -> tuple[float, float, float, float]:
    """The map's x_low, y_low, x_high, y_high; cells reach half a unit around their coordinates."""
    if isinstance(env, DubinsCar):
        return 0.0, 0.0, dubins_car.SIZE, dubins_car.SIZE
    if isinstance(env, CatAndMouse):
        return 0.0, 0.0, cat_and_mouse.SIZE, cat_and_mouse.SIZE
    if isinstance(env, FrozenLake | MiniMaze):
        width, height = env.spec.observation_high
        return -0.5, -0.5, width + 0.5, height + 0.5
    raise _no_picture(env)


def _floor(ax: Axes, env: Any, color: str) -> None:
    x_low, y_low, x_high, y_high = extent(env)
    ax.add_patch(Rectangle((x_low, y_low), x_high - x_low, y_high - y_low, color=color, lw=0, zorder=0))


def _frame(ax: Axes, env: Any) -> None:
    x_low, y_low, x_high, y_high = extent(env)
    corner, width, height = (x_low, y_low), x_high - x_low, y_high - y_low
    # Half of a line on the limits would be clipped.
    ax.add_patch(
        Rectangle(corner, width, height, fill=False, edgecolor=WALL, lw=1.4, zorder=2.2, clip_on=False)
    )


def _cells(ax: Axes, mask: np.ndarray, color: str, zorder: float = 2) -> None:
    squares = [Rectangle((x - 0.5, y - 0.5), 1, 1) for x, y in np.argwhere(mask)]
    # The thin edge closes the hairlines that antialiasing leaves between neighbours.
    style = {"facecolor": color, "edgecolor": color, "linewidth": 0.3, "zorder": zorder}
    ax.add_collection(PatchCollection(squares, **style))


def _grid_lines(ax: Axes, env: Any, color: str, linewidth: float, zorder: float) -> None:
    x_low, y_low, x_high, y_high = extent(env)
    upright = [[(x, y_low), (x, y_high)] for x in np.arange(x_low + 1, x_high)]
    level = [[(x_low, y), (x_high, y)] for y in np.arange(y_low + 1, y_high)]
    ax.add_collection(LineCollection(upright + level, colors=color, linewidths=linewidth, zorder=zorder))


def _cat(ax: Axes) -> None:
    """The risk around the cat as shades, and the cat itself: a disc with two ears."""
    x, y = cat_and_mouse.CAT
    for share in (0.02, 0.1, 0.3, 0.6):  # of the largest risk
        radius = cat_and_mouse.REACH * np.sqrt(-2 * np.log(share))
        ax.add_patch(Circle((x, y), radius, color=DANGER, lw=0, alpha=0.12, zorder=0.5))
    ears = [[(-0.34, 0.1), (-0.3, 0.56), (-0.04, 0.3)], [(0.34, 0.1), (0.3, 0.56), (0.04, 0.3)]]
    for ear in ears:
        ax.add_patch(Polygon(np.add(ear, (x, y)), closed=True, color=CAT, lw=0, zorder=2))
    ax.add_patch(Circle((x, y), 0.36, color=CAT, lw=0, zorder=2))


def _doorways() -> np.ndarray:
    between = np.zeros_like(mini_maze.FREE)
    between[11:13, :] = between[:, 11:13] = True
    return between & mini_maze.FREE


def _star(radius: float) -> np.ndarray:
    """The ten corners of a star that points up."""
    angle = np.pi / 2 + np.arange(10) * np.pi / 5
    reach = radius * np.where(np.arange(10) % 2 == 0, 1.0, 0.45)
    return reach[:, None] * np.stack([np.cos(angle), np.sin(angle)], -1)


def _no_picture(env: Any) -> UsageError:
    known = "FrozenLake, MiniMaze, DubinsCar and CatAndMouse"
    return UsageError(f"There is no picture of {type(env).__name__}: only {known} can be drawn.")
