"""Networks of C for numbered actions: the horizon as an output (ours) or as an input (the paper's)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from clearning.networks.layers import MLP

NEVER = -1e9  # an output that no other falls short of: as a logit, a probability of 0


class AllHorizons(eqx.Module):
    """(s, g) to logits for every horizon and action at once."""

    inputs: Any
    mlp: Any
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
    """(s, g, h) to logits for every action, one horizon at a time.

    With a discount in place of the horizon, `max_horizon` is 1 and `step` 0: no step changes it.
    """

    inputs: Any
    mlp: Any
    max_horizon: int = eqx.field(static=True)
    step: int = eqx.field(static=True, default=1)

    def backed_up(self, horizon: Array) -> Array:
        return horizon[None]

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        return jax.vmap(lambda h: self.mlp(jnp.append(x, h / self.max_horizon)), out_axes=1)(horizon)

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.at(observation, goal, horizon - self.step)

    def shift(self, values: Array) -> Array:
        return values

    def curve(self, observation: Array, goal: Array) -> Array:
        return self.at(observation, goal, jnp.arange(1, self.max_horizon + 1))


class Supported(eqx.Module):
    """C of actions that were taken; those hardly ever taken in such a state count as failing.

    As in batch-constrained Q-learning (Fujimoto et al., 2019): a network of the behaviour, which knows no
    goal, tells how likely each action was, and those below a share of the likeliest are left out.
    """

    network: Any
    behaviour: MLP
    goal_size: int = eqx.field(static=True)
    share: float = eqx.field(static=True)

    def taken(self, observation: Array) -> Array:
        """Logits of the actions that the data took, (actions,)."""
        return self.behaviour(self.network.inputs(observation, jnp.zeros(self.goal_size)))

    def curve(self, observation: Array, goal: Array) -> Array:
        return self._masked(observation, self.network.curve(observation, goal))

    def backed_up(self, horizon: Array) -> Array:
        return self.network.backed_up(horizon)

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.network.at(observation, goal, horizon)  # of an action that was taken

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self._masked(observation, self.network.before(observation, goal, horizon))

    def shift(self, values: Array) -> Array:
        return self.network.shift(values)

    def _masked(self, observation: Array, outputs: Array) -> Array:
        taken = jax.nn.softmax(self.taken(observation))
        return jnp.where((taken >= self.share * taken.max())[:, None], outputs, NEVER)
