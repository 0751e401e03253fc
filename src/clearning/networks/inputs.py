"""What a network is shown of an observation and a goal."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from clearning.types import EnvSpec, Episodes

Features = Literal["raw", "scaled", "relative", "one-hot", "normalised"]
SMALLEST_DEVIATION = 0.01  # a coordinate that hardly moves must not be blown up
CLIP = 5.0  # deviations from the mean that an input may show


class Inputs(eqx.Module):
    """Turns an observation and a goal into one input vector."""

    spec: EnvSpec = eqx.field(static=True)
    features: Features = eqx.field(static=True)

    def __call__(self, observation: Array, goal: Array) -> Array:
        if self.features == "raw":
            return jnp.concatenate([observation, goal])
        spec = self.spec
        if self.features == "one-hot":
            cells = zip([*observation, *goal], self.cell_counts(), strict=True)
            return jnp.concatenate([jax.nn.one_hot(jnp.round(v).astype(int), n) for v, n in cells])
        s = _scaled(observation, spec.observation_low, spec.observation_high)
        g = _scaled(goal, spec.goal_low, spec.goal_high)
        if self.features == "scaled" or spec.goal_check is None:
            return jnp.concatenate([s, g])
        relative = goal - spec.goal_check.achieved(observation)
        span = jnp.array(spec.goal_high) - jnp.array(spec.goal_low)
        return jnp.concatenate([s, g, relative / span])

    def size(self) -> int:
        spec = self.spec
        shape = jax.eval_shape(self.__call__, jnp.zeros(spec.observation_size), jnp.zeros(spec.goal_size))
        return shape.shape[0]

    def cell_counts(self) -> list[int]:
        """How many cells each coordinate of observation and goal has."""
        spec = self.spec
        return [round(high) + 1 for high in (*spec.observation_high, *spec.goal_high)]


class NormalisedInputs(eqx.Module):
    """Observation and goal by the running mean and deviation of what was collected.

    Where the observation shows the achieved goal, the goal's position relative to it is an input too.
    """

    count: Array
    mean: Array
    squares: Array  # sum of squared deviations
    achieved_at: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, spec: EnvSpec):
        self.achieved_at = spec.achieved_at
        size = spec.observation_size + spec.goal_size + len(spec.achieved_at)
        self.count, self.mean, self.squares = jnp.zeros(()), jnp.zeros(size), jnp.zeros(size)

    def __call__(self, observation: Array, goal: Array) -> Array:
        count, mean, squares = jax.lax.stop_gradient((self.count, self.mean, self.squares))
        deviation = jnp.where(count > 0, jnp.sqrt(squares / jnp.maximum(count, 1.0)), 1.0)
        x = self._together(observation, goal)
        return jnp.clip((x - mean) / jnp.maximum(deviation, SMALLEST_DEVIATION), -CLIP, CLIP)

    def _together(self, observation: Array, goal: Array) -> Array:
        relative = [goal - observation[..., self.achieved_at]] if self.achieved_at else []
        return jnp.concatenate([observation, goal, *relative], -1)

    def size(self) -> int:
        return self.mean.size

    def updated(self, episodes: Episodes) -> "NormalisedInputs":
        """With new episodes counted in; what they were after and what they ended in count alike as goals."""
        steps = episodes.observation.shape[1]
        desired = jnp.broadcast_to(episodes.goal[:, None], episodes.achieved.shape)
        last = jnp.take_along_axis(episodes.achieved, episodes.length[:, None, None], axis=1)
        hindsight = jnp.broadcast_to(last, episodes.achieved.shape)
        x = jnp.stack(
            [self._together(episodes.observation, g) for g in (hindsight, desired)]
        )  # (2, N, T + 1, inputs)
        weight = jnp.broadcast_to(jnp.arange(steps) <= episodes.length[:, None], x.shape[:-1])[..., None]
        count = weight.sum()
        mean = jnp.where(weight, x, 0.0).sum((0, 1, 2)) / count
        squares = jnp.where(weight, (x - mean) ** 2, 0.0).sum((0, 1, 2))
        total, shift = self.count + count, mean - self.mean
        return eqx.tree_at(
            lambda n: (n.count, n.mean, n.squares),
            self,
            (
                total,
                self.mean + shift * count / total,
                self.squares + squares + shift**2 * self.count * count / total,
            ),
        )


def _scaled(x: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    lo, hi = jnp.array(low), jnp.array(high)
    return 2.0 * (x - lo) / (hi - lo) - 1.0
