"""Networks of C: the horizon as an output (ours) or as an input (the paper's)."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from clearning.config import Config
from clearning.types import EnvSpec, Network

Features = Literal["raw", "scaled", "relative", "one-hot"]


class MLP(eqx.Module):
    """Linear layers with ReLU between them, each optionally normalised before its ReLU."""

    layers: list[eqx.nn.Linear]
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, sizes: Sequence[int], layer_norm: bool, key: Array):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = [eqx.nn.Linear(a, b, key=k) for a, b, k in pairs]
        self.norms = [eqx.nn.LayerNorm(width) for width in sizes[1:-1]] if layer_norm else []

    def __call__(self, x: Array) -> Array:
        for i, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            if self.norms:
                x = self.norms[i](x)
            x = jax.nn.relu(x)
        return self.layers[-1](x)


class Inputs(eqx.Module):
    """Turns an observation and a goal into one input vector."""

    spec: EnvSpec = eqx.field(static=True)
    features: Features = eqx.field(static=True)

    def __call__(self, observation: Array, goal: Array) -> Array:
        if self.features == "raw":
            return jnp.concatenate([observation, goal])
        spec = self.spec
        if self.features == "one-hot":
            cells = zip([*observation, *goal], self._cell_counts(), strict=True)
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

    def _cell_counts(self) -> list[int]:
        spec = self.spec
        return [round(high) + 1 for high in (*spec.observation_high, *spec.goal_high)]


def _scaled(x: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    lo, hi = jnp.array(low), jnp.array(high)
    return 2.0 * (x - lo) / (hi - lo) - 1.0


class AllHorizons(eqx.Module):
    """(s, g) to logits for every horizon and action at once."""

    inputs: Inputs
    mlp: MLP
    shape: tuple[int, int] = eqx.field(static=True)

    def curve(self, observation: Array, goal: Array) -> Array:
        return self.mlp(self.inputs(observation, goal)).reshape(self.shape)

    def backed_up(self, horizon: Array) -> Array:
        return jnp.arange(1, self.shape[1] + 1)

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.curve(observation, goal)

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.curve(observation, goal)

    def shift(self, values: Array) -> Array:
        return jnp.roll(values, 1)


class SampledHorizon(eqx.Module):
    """(s, g, h) to logits for every action, one horizon at a time."""

    inputs: Inputs
    mlp: MLP
    max_horizon: int = eqx.field(static=True)

    def backed_up(self, horizon: Array) -> Array:
        return horizon[None]

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        return jax.vmap(lambda h: self.mlp(jnp.append(x, h / self.max_horizon)), out_axes=1)(horizon)

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.at(observation, goal, horizon - 1)

    def shift(self, values: Array) -> Array:
        return values

    def curve(self, observation: Array, goal: Array) -> Array:
        return self.at(observation, goal, jnp.arange(1, self.max_horizon + 1))


def build_network(spec: EnvSpec, config: Config, key: Array) -> Network:
    """The network that a config asks for."""
    inputs = Inputs(spec, config.features)
    if config.form == "all-horizons":
        shape = (spec.num_actions, config.max_horizon)
        sizes = (inputs.size(), *config.hidden, shape[0] * shape[1])
        return AllHorizons(inputs, MLP(sizes, config.layer_norm, key), shape)
    sizes = (inputs.size() + 1, *config.hidden, spec.num_actions)
    return SampledHorizon(inputs, MLP(sizes, config.layer_norm, key), config.max_horizon)
