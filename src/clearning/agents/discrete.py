"""The learner for discrete actions: algorithm 1 with a double-Q target, in both forms."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from clearning.config import Config
from clearning.core.recursions import Rule, rule_out
from clearning.types import Batch, Metrics, Network

ADAM = optax.scale_by_adam()


class Learner(eqx.Module):
    """The network in training, its target, and the optimiser's state."""

    network: Any
    target: Any
    optimiser: Any
    updates: Array

    @classmethod
    def start(cls, network: Any) -> "Learner":
        weights = eqx.filter(network, eqx.is_inexact_array)
        return cls(network, network, ADAM.init(weights), jnp.int32(0))


def example_loss(rule: Rule, network: Network, target: Network, mask_reached: bool, x: Batch) -> Array:
    """Mean loss of one example over the horizons it backs up."""
    outputs = network.at(x.observation, x.goal, network.backed_up(x.horizon))  # (actions, K)
    chosen = jnp.arange(len(outputs)) == x.action
    output = jnp.where(chosen[:, None], outputs, 0.0).sum(0)  # (K,); a look-up would be slow to differentiate
    goal_target = example_target(rule, network, target, x)
    if not rule.goal_is_terminal:
        return rule.loss(output, goal_target).mean()
    if mask_reached:
        return jnp.where(x.reached_before, 0.0, rule.loss(output, goal_target).mean())
    return rule.loss(output, jnp.where(x.reached_before, 1.0, goal_target)).mean()


def example_target(rule: Rule, network: Network, target: Network, x: Batch) -> Array:
    """The rule's targets of one example, (K,): the network picks the next action, the target values it."""
    horizon = network.backed_up(x.horizon)
    choice = jax.lax.stop_gradient(network.before(x.next_observation, x.goal, horizon))
    output = target.before(x.next_observation, x.goal, horizon)  # (actions, K)
    greedy = choice >= choice.max(0)
    next_value = network.shift(rule.link(jnp.where(greedy, output, -jnp.inf).max(0)))
    reached = x.reached.astype(next_value.dtype)
    next_value = jnp.where(horizon == 1, reached, next_value)
    next_value = rule_out(next_value, horizon, x.min_steps)
    return jax.lax.stop_gradient(rule.target(reached, x.dead, next_value))


def update(
    learner: Learner, batch: Batch, rule: Rule, config: Config, rate: Array, mask_reached: bool
) -> tuple[Learner, Metrics]:
    """One step of gradient descent on a batch, and of the target towards the network."""

    def loss_of(network: Any) -> Array:
        one = lambda x: example_loss(rule, network, learner.target, mask_reached, x)  # noqa: E731
        return jax.vmap(one)(batch).mean()

    loss, gradient = eqx.filter_value_and_grad(loss_of)(learner.network)
    step, optimiser = ADAM.update(gradient, learner.optimiser)
    network = eqx.apply_updates(learner.network, jax.tree.map(lambda d: -rate * d, step))
    updates = learner.updates + 1
    if config.target_period:
        share = (updates % config.target_period == 0).astype(jnp.float32)
    else:
        share = config.target_rate
    target = optax.incremental_update(
        eqx.filter(network, eqx.is_inexact_array), eqx.filter(learner.target, eqx.is_inexact_array), share
    )
    target = eqx.combine(target, learner.target)
    return Learner(network, target, optimiser, updates), {"loss": loss}
