"""Cat and mouse: the shorter the way past a sleeping cat, the likelier it wakes (figure 1a as a world)."""

from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import ndimage

from clearning.envs.testset import TestSet
from clearning.types import EnvSpec, GoalCheck, StepBound

SIZE = 10.0
CAT = (5.0, 5.0)
START = (1.0, 5.0)
GOAL = (9.0, 5.0)
STEP = 1.6  # the longest move
RISK = 0.4  # probability per step of being caught on top of the cat
REACH = 1.8  # the risk falls with the distance from the cat as a Gaussian of this width
NEAR = GoalCheck(coordinates=(0, 1), norm="l2", radius=0.5)
GRID = 201  # points along a side on which the exact C* is computed
DIRECTIONS = 96  # moves that it tries
COARSE = 101  # points along a side where one start is asked about many goals


@dataclass(frozen=True)
class CatAndMouse:
    """State (x, y, caught). An action is a move in the plane, in units of the longest; the box stops it.

    After each move the mouse is caught with a probability that rises smoothly near the cat, and a caught
    mouse stays where it is. Training starts and goals lie anywhere; the test is to get from one side of the
    cat to the other.
    """

    random_starts: bool = True
    max_episode_steps: int = 20

    @property
    def spec(self) -> EnvSpec:
        return EnvSpec(
            name="cat-and-mouse",
            observation_low=(0.0, 0.0),
            observation_high=(SIZE, SIZE),
            goal_low=(0.0, 0.0),
            goal_high=(SIZE, SIZE),
            action_names=(),
            max_episode_steps=self.max_episode_steps,
            goal_check=NEAR,
            step_bound=StepBound("l2", per_step=STEP, slack=NEAR.radius),
            achieved_at=(0, 1),
            action_low=(-1.0, -1.0),
            action_high=(1.0, 1.0),
        )

    def initial_state(self, key: Array) -> Array:
        position = jax.random.uniform(key, (2,), maxval=SIZE) if self.random_starts else jnp.array(START)
        return jnp.append(position, 0.0)

    def sample_goal(self, key: Array) -> Array:
        return jax.random.uniform(key, (2,), maxval=SIZE)

    def sample_goal_within(self, key: Array, achieved: Array, distance: Array) -> Array:
        """A point of the box within a distance along each axis."""
        reach = distance + NEAR.radius
        low, high = jnp.maximum(achieved - reach, 0.0), jnp.minimum(achieved + reach, SIZE)
        return jax.random.uniform(key, (2,), minval=low, maxval=high)

    def step(self, key: Array, state: Array, action: Array) -> Array:
        position, caught = state[:2], state[2] > 0.5
        moved = jnp.clip(position + STEP * within_disc(action), 0.0, SIZE)
        moved = jnp.where(caught, position, moved)
        caught = caught | (jax.random.uniform(key) < risk(moved))
        return jnp.append(moved, caught.astype(state.dtype))

    def observe(self, state: Array) -> Array:
        return state[:2]

    def achieved_goal(self, state: Array) -> Array:
        return state[:2]

    def is_dead(self, state: Array) -> Array:
        return state[2] > 0.5

    def reached(self, achieved: Array, goal: Array) -> Array:
        return NEAR.reached(achieved, goal)

    def refuse(self, state: np.ndarray) -> str | None:
        """Why a state cannot be a start, or None."""
        x, y, caught = (float(v) for v in state)
        margin = 1.01e-4
        if not (-margin <= x <= SIZE + margin and -margin <= y <= SIZE + margin):
            return f"position ({x:g}, {y:g}) is outside the box: x and y must be in 0..{SIZE:g}"
        if caught not in (0.0, 1.0):
            return f"caught is {caught:g}: it must be 0 or 1"
        return None

    def test_set(self) -> TestSet:
        """Past the cat, many times over: what happens is random."""
        state = np.array([[*START, 0.0]], np.float32)
        return TestSet(state, np.array([GOAL], np.float32), ("past the cat",), repeats=1000)


def within_disc(action: Array) -> Array:
    """An action of a length of at most 1, in the same direction."""
    length = jnp.sqrt((action**2).sum(-1, keepdims=True) + 1e-12)
    return action / jnp.maximum(length, 1.0)


def risk(position: Array) -> Array:
    """The probability of being caught at a point."""
    square = ((position - jnp.array(CAT)) ** 2).sum(-1)
    return RISK * jnp.exp(-square / (2 * REACH**2))


def moves() -> np.ndarray:
    """Actions in many directions, whole and half: a whole move would overshoot a goal that is near."""
    angle = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
    whole = np.stack([np.cos(angle), np.sin(angle)], -1)
    return np.concatenate([whole, whole / 2])


@lru_cache(maxsize=4)
def exact_values(goal: tuple[float, float], horizons: int) -> np.ndarray:
    """max_a C*(s, a, g, h) on a grid of states, [h, x, y] with h from 0: what no policy can exceed.

    Dynamic programming on a fine grid with values interpolated between its points, over the moves below.
    Where a move ends, the goal and the risk are taken exactly.
    """
    axis = np.linspace(0.0, SIZE, GRID)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)  # (x, y, 2)
    ends = []
    for move in moves():
        after = np.clip(points + STEP * move, 0.0, SIZE).astype(np.float32)
        reached = np.asarray(NEAR.reached(after, np.array(goal)))
        safe = 1.0 - np.asarray(risk(jnp.asarray(after)))
        ends.append((after.transpose(2, 0, 1) * (GRID - 1) / SIZE, reached, safe))
    there = np.asarray(NEAR.reached(points, np.array(goal)), float)
    values = [there]
    for h in range(1, horizons + 1):
        best = there
        for at, reached, safe in ends:
            # A caught mouse in the goal's circle has reached it; elsewhere it never will.
            left = ndimage.map_coordinates(values[-1], at, order=1) if h > 1 else 0.0
            best = np.maximum(best, np.where(reached, 1.0, safe * left))
        values.append(best)
    return np.stack(values)


def exact_success(start: tuple[float, float], goal: tuple[float, float], horizons: int) -> np.ndarray:
    """max_a C*(start, a, g, h) for h = 1..H."""
    values = exact_values(goal, horizons)
    at = np.array(start)[:, None] * (GRID - 1) / SIZE
    return np.array([ndimage.map_coordinates(v, at, order=1)[0] for v in values[1:]])


def exact_reach(start: tuple[float, float], goals: np.ndarray, horizons: int) -> np.ndarray:
    """max_a C*(start, a, g, h) for many goals (n, 2) and h = 1..H, (n, H).

    Moves are certain and only being caught is not, so a way's success is the product of the risks evaded on
    it, and one pass forward from the start serves all goals. Ways go from point to point of a grid and can
    all be walked: the answer is never too large, and up to about 0.02 too small.
    """
    axis = np.linspace(0.0, SIZE, COARSE)
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)  # (x, y, 2)
    safe = 1.0 - np.asarray(risk(jnp.asarray(points)))
    middle = axis[COARSE // 2]
    moves_within = ((points - middle) ** 2).sum(-1) <= STEP**2 + 1e-9
    margin = int(STEP / (axis[1] - axis[0])) + 1
    inner = slice(COARSE // 2 - margin, COARSE // 2 + margin + 1)
    footprint = moves_within[inner, inner]
    reach = STEP + NEAR.radius  # from within this distance, the next move can end at the goal
    within = lambda place, distance: ((points - place) ** 2).sum(-1) <= distance**2 + 1e-6  # noqa: E731
    unharmed = [safe * within(np.array(start), STEP)]  # the largest probability of being somewhere, uncaught
    for _ in range(horizons - 2):
        unharmed.append(safe * ndimage.maximum_filter(unharmed[-1], footprint=footprint, mode="constant"))
    before_last = np.stack(unharmed)[: horizons - 1]  # (H − 1, x, y)
    found = np.zeros((len(goals), horizons))
    for i, goal in enumerate(np.asarray(goals, float)):
        apart = np.linalg.norm(goal - np.array(start))
        found[i, 0] = apart <= reach
        found[i, 1:] = before_last[:, within(goal, reach)].max(-1)
        if apart <= NEAR.radius:
            found[i] = 1.0
    return np.maximum.accumulate(found, axis=1)
