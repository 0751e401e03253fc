"""Dubins' car: a car that turns by at most a few degrees a step, among walls (section 5.1, item 2)."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning.envs.testset import TestSet
from clearning.types import EnvSpec, GoalCheck, StepBound

SIZE = 15.0
START = (0.0, 0.0, 1.0, 0.0)
# Inner walls as x_low, y_low, x_high, y_high, boundary included.
WALLS = np.array([[4, -1, 6, 6], [4, 10, 6, 16], [10, 3, 13, 5], [9, 11, 12, 13]], np.float32)
SEGMENTS = 5  # a blocked move is walked in this many equal pieces
NEAR = GoalCheck(coordinates=(0, 1), norm="linf", radius=0.5)


@dataclass(frozen=True)
class DubinsCar:
    """State (x, y, cos θ, sin θ). Actions: turn right, not or left and move one back or forth; or stay.

    A move whose end point lies in a wall goes on in five pieces, sliding along x or else along y from the
    first blocked one. Training starts at (0, 0) heading along +x with goals on the integer lattice;
    `random_starts` draws any pose, and `any_goal` any free point of the box.
    """

    walls: bool = True
    turn_degrees: float = 10.0
    random_starts: bool = False
    any_goal: bool = False
    max_episode_steps: int = 100

    @property
    def spec(self) -> EnvSpec:
        names = tuple(
            f"{move} {turn}" for move in ("back", "forward") for turn in ("right", "straight", "left")
        )
        return EnvSpec(
            name="dubins-car",
            observation_low=(0.0, 0.0, -1.0, -1.0),
            observation_high=(SIZE, SIZE, 1.0, 1.0),
            goal_low=(0.0, 0.0),
            goal_high=(SIZE, SIZE),
            action_names=(*names, "stay"),
            max_episode_steps=self.max_episode_steps,
            goal_check=NEAR,
            step_bound=StepBound("linf", per_step=1.0, slack=NEAR.radius),
        )

    def is_blocked(self, position: Array) -> Array:
        """Whether a point lies outside the box or in a wall."""
        outside = ((position < 0.0) | (position > SIZE)).any(-1)
        if not self.walls:
            return outside
        low, high = jnp.asarray(WALLS[:, :2]), jnp.asarray(WALLS[:, 2:])
        point = position[..., None, :]
        return outside | ((point >= low) & (point <= high)).all(-1).any(-1)

    def initial_state(self, key: Array) -> Array:
        if not self.random_starts:
            return jnp.array(START)
        key_position, key_heading = jax.random.split(key)
        # Headings keep to the multiples of a turn, as they do from the fixed start.
        turns = jax.random.randint(key_heading, (), 0, round(360 / self.turn_degrees))
        heading = jnp.deg2rad(turns * self.turn_degrees)
        return jnp.concatenate(
            [self._free_point(key_position), jnp.array([jnp.cos(heading), jnp.sin(heading)])]
        )

    def sample_goal(self, key: Array) -> Array:
        if self.any_goal:
            return self._free_point(key)
        lattice = jnp.asarray(self._lattice(15), jnp.float32)
        return jax.random.choice(key, lattice)

    def sample_goal_within(self, key: Array, achieved: Array, distance: Array) -> Array:
        """A point of the box within an L∞ distance; walls are ignored."""
        reach = distance + NEAR.radius
        low, high = jnp.maximum(achieved - reach, 0.0), jnp.minimum(achieved + reach, SIZE)
        return jax.random.uniform(key, (2,), minval=low, maxval=high)

    def step(self, key: Array, state: Array, action: Array) -> Array:
        position, cos, sin = state[:2], state[2], state[3]
        turn = jnp.deg2rad(self.turn_degrees) * jnp.where(action == 6, 0, action % 3 - 1)
        length = jnp.where(action == 6, 0.0, jnp.where(action < 3, -1.0, 1.0))
        new_cos = cos * jnp.cos(turn) - sin * jnp.sin(turn)
        new_sin = sin * jnp.cos(turn) + cos * jnp.sin(turn)
        heading = jnp.stack([new_cos, new_sin])
        heading = heading / jnp.sqrt((heading**2).sum())  # rounding must not add up over a long episode
        move = length * heading
        end = position + move
        end = jnp.where(self.is_blocked(end), self._slide(position, move), end)
        return jnp.concatenate([end, heading])

    def _slide(self, position: Array, move: Array) -> Array:
        """Walk a blocked move piece by piece: straight, else along x, else along y, else no further."""
        piece = move / SEGMENTS
        along_x, along_y = piece * jnp.array([1.0, 0.0]), piece * jnp.array([0.0, 1.0])
        direction, moving = piece, jnp.ones((), bool)
        straight = jnp.ones((), bool)
        for _ in range(SEGMENTS):
            ahead = ~self.is_blocked(position + direction)
            x_free = straight & ~self.is_blocked(position + along_x)
            y_free = straight & ~self.is_blocked(position + along_y)
            direction = jnp.where(ahead, direction, jnp.where(x_free, along_x, along_y))
            moving = moving & (ahead | x_free | y_free)
            straight = straight & ahead
            position = jnp.where(moving, position + direction, position)
        return position

    def observe(self, state: Array) -> Array:
        return state

    def achieved_goal(self, state: Array) -> Array:
        return state[:2]

    def is_dead(self, state: Array) -> Array:
        return jnp.zeros((), bool)

    def reached(self, achieved: Array, goal: Array) -> Array:
        return NEAR.reached(achieved, goal)

    def refuse(self, state: np.ndarray) -> str | None:
        """Why a state cannot be a start, or None. A point at most 1e-4 inside a wall passes as rounding."""
        x, y, cos, sin = (float(v) for v in state)
        margin = 1.01e-4  # the hundredth is for positions that come as float32
        if not (-margin <= x <= SIZE + margin and -margin <= y <= SIZE + margin):
            return f"position ({x:g}, {y:g}) is outside the box: x and y must be in 0..{SIZE:g}"
        depth = np.minimum(np.array([x, y]) - WALLS[:, :2], WALLS[:, 2:] - np.array([x, y])).min(-1)
        if self.walls and (depth > margin).any():
            return f"position ({x:g}, {y:g}) is inside a wall: choose a free point"
        if abs(cos**2 + sin**2 - 1.0) > 1e-3:
            return f"heading ({cos:g}, {sin:g}) is not a direction: cos² + sin² must be 1"
        return None

    def _free_point(self, key: Array) -> Array:
        """A free point, uniformly: each of a few tries misses the walls with probability over 0.75."""
        points = jax.random.uniform(key, (16, 2), maxval=SIZE)
        return points[jnp.argmin(self.is_blocked(points))]

    def _lattice(self, size: int) -> np.ndarray:
        """The integer points below `size` that are free, without the start."""
        points = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), -1).reshape(-1, 2)
        free = np.ones(len(points), bool)
        if self.walls:
            inside = (points[:, None] >= WALLS[:, :2]) & (points[:, None] <= WALLS[:, 2:])
            free = ~inside.all(-1).any(-1)
        return points[free & (points != 0).any(-1)]

    def test_set(self) -> TestSet:
        """The lattice points with coordinates 0..15; the paper's three degrees of difficulty."""
        goals = self._lattice(16).astype(np.float32)
        strata = tuple("hard" if x >= 9 else "easy" if x < 4 and y < 10 else "medium" for x, y in goals)
        return TestSet(np.tile(np.array(START, np.float32), (len(goals), 1)), goals, strata)
