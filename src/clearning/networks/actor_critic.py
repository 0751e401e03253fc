"""Critics and actors for continuous actions: all horizons at once (ours) or one at a time (the paper's)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.stats import qmc

from clearning.networks.layers import MLP

BEYOND = 1.25  # spread actions are drawn over so much more than their bounds, and brought back to them


class HeadsActorCritic(eqx.Module):
    """Critics from (s, a, g) to logits for every horizon; an actor with a few heads of different urgency.

    Head k of K maximises C over the k-th part of the horizons. One head serves every horizon, which is enough
    where the soonest way is the surest; H heads are one action per horizon, as in the paper. Beside the
    heads' actions stand some that are the same everywhere: where an action has few dimensions, the critic's
    best of them misses little, however far the heads are behind the critic. Targets choose from the first of
    these only: a few are enough for a value, and a best action takes more.
    """

    inputs: Any
    actor: MLP
    critics: tuple[Any, ...]
    heads: int = eqx.field(static=True)
    max_horizon: int = eqx.field(static=True)
    spread: int = eqx.field(static=True)
    spread_in_targets: int = eqx.field(static=True)

    def curve(self, observation: Array, goal: Array) -> Array:
        x = self.inputs(observation, goal)
        return _logits(self.critics[0], x, self._actions(x))

    def propose(self, observation: Array, goal: Array, index: Array, horizon: Array) -> Array:
        return self._actions(self.inputs(observation, goal))[index]

    def backed_up(self, horizon: Array) -> Array:
        return jnp.arange(1, self.max_horizon + 1)

    def at(self, observation: Array, goal: Array, action: Array, horizon: Array) -> Array:
        x = jnp.concatenate([self.inputs(observation, goal), action])
        return jnp.stack([critic(x) for critic in self.critics])

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        actions = self._actions(x)[: self.heads + self.spread_in_targets]
        return jnp.stack([_logits(critic, x, actions) for critic in self.critics])

    def shift(self, values: Array) -> Array:
        return jnp.roll(values, 1)

    def proposals(self, observation: Array, goal: Array, horizon: Array) -> tuple[Array, Array, Array]:
        x = self.inputs(observation, goal)
        free = self._free(x)
        return _logits(self.critics[0], x, jnp.tanh(free)), self._urgency(), free

    def _actions(self, x: Array) -> Array:
        proposed = jnp.tanh(self._free(x))
        return jnp.concatenate([proposed, spread_actions(self.spread, proposed.shape[-1])])

    def _free(self, x: Array) -> Array:
        """The heads' actions before tanh bounds them, (heads, action)."""
        return self.actor(x).reshape(self.heads, -1)

    def _urgency(self) -> Array:
        """The weight of each horizon in each head's objective, (heads, H)."""
        part = jnp.arange(self.max_horizon) * self.heads // self.max_horizon
        mine = (part == jnp.arange(self.heads)[:, None]).astype(jnp.float32)
        return mine / mine.sum(1, keepdims=True)


def spread_actions(count: int, dimensions: int) -> np.ndarray:
    """Actions spread evenly over [-1, 1] along each dimension, (count, dimensions); a fifth and more are at
    a bound, for the best often is."""
    points = qmc.Halton(dimensions, scramble=False).random(count) if count else np.zeros((0, dimensions))
    return np.clip(BEYOND * (2 * points - 1), -1.0, 1.0).astype(np.float32)


def _logits(critic: Any, x: Array, actions: Array) -> Array:
    same = jnp.broadcast_to(x, (len(actions), *x.shape))
    return critic(jnp.concatenate([same, actions], axis=1))  # (actions, H)


class HorizonActorCritic(eqx.Module):
    """Critics on (s, a, g, h) and an actor on (s, g, h), one horizon at a time (algorithm 2)."""

    inputs: Any
    actor: MLP
    critics: tuple[Any, ...]
    max_horizon: int = eqx.field(static=True)

    def curve(self, observation: Array, goal: Array) -> Array:
        x = self.inputs(observation, goal)
        return jax.vmap(lambda h: self._at(self.critics[0], x, self._action(x, h), h), out_axes=1)(
            jnp.arange(1, self.max_horizon + 1)
        )

    def propose(self, observation: Array, goal: Array, index: Array, horizon: Array) -> Array:
        return self._action(self.inputs(observation, goal), horizon)

    def backed_up(self, horizon: Array) -> Array:
        return horizon[None]

    def at(self, observation: Array, goal: Array, action: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        return jnp.stack([self._at(critic, x, action, horizon[0]) for critic in self.critics])

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        action = self._action(x, horizon[0] - 1)
        return jnp.stack([self._at(critic, x, action, horizon[0] - 1)[None] for critic in self.critics])

    def shift(self, values: Array) -> Array:
        return values

    def proposals(self, observation: Array, goal: Array, horizon: Array) -> tuple[Array, Array, Array]:
        x = self.inputs(observation, goal)
        free = self._free(x, horizon[0])
        return self._at(self.critics[0], x, jnp.tanh(free), horizon[0])[None], jnp.ones((1, 1)), free[None]

    def _action(self, x: Array, horizon: Array) -> Array:
        return jnp.tanh(self._free(x, horizon))

    def _free(self, x: Array, horizon: Array) -> Array:
        return self.actor(jnp.append(x, horizon / self.max_horizon))

    def _at(self, critic: Any, x: Array, action: Array, horizon: Array) -> Array:
        return critic(jnp.append(jnp.concatenate([x, action]), horizon / self.max_horizon))
