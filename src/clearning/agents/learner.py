"""What the learners share: their state, targets from next values, losses, and averaged targets."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from clearning.config import Config
from clearning.core.recursions import Rule, rule_out
from clearning.types import Batch, Metrics

ADAM = optax.scale_by_adam()


class Learner(eqx.Module):
    """The network in training, its target, and the optimiser's state."""

    network: Any
    target: Any
    optimiser: Any
    updates: Array


class Pace(NamedTuple):
    """What changes along a training."""

    rate: Array  # of learning
    penalty: Any = 0.0  # the price of an action


def target_from(rule: Rule, horizon: Array, next_value: Array, x: Batch) -> Array:
    """The rule's targets of one example, (K,), from the greedy values at s' with one step less.

    `horizon` is what the network was asked at: for D-learning, the discount.
    """
    assert rule.target
    at_end = rule.at_end(x).astype(next_value.dtype)
    if rule.bounds:
        next_value = jnp.clip(next_value, *rule.bounds)
    if rule.dial == "horizon":
        next_value = jnp.where(horizon == 1, at_end, next_value)
        next_value = rule_out(next_value, horizon, x.min_steps)
    elif rule.dial == "discount":
        next_value = horizon * next_value
    return jax.lax.stop_gradient(rule.target(at_end, x.dead, next_value))


def masked_loss(rule: Rule, output: Array, target: Array, mask_reached: bool, x: Batch) -> Array:
    """Mean loss over the horizons; where s reaches g already, C is 1: left out, or trained to be 1."""
    if rule.at_goal is None:
        return rule.loss(output, target).mean()
    if mask_reached:
        return jnp.where(x.reached_before, 0.0, rule.loss(output, target).mean())
    return rule.loss(output, jnp.where(x.reached_before, rule.at_goal, target)).mean()


def step_on(
    learner: Learner, loss: Callable[[Any, Batch], Array], batch: Batch, config: Config, pace: Pace
) -> tuple[Learner, Metrics]:
    """One step of the whole network on the mean loss of a batch, and of the target towards the network."""
    mean_loss = lambda network: jax.vmap(lambda x: loss(network, x))(batch).mean()  # noqa: E731
    value, gradient = eqx.filter_value_and_grad(mean_loss)(learner.network)
    network, optimiser = descend(learner.network, gradient, learner.optimiser, pace.rate)
    updates = learner.updates + 1
    target = averaged_target(network, learner.target, updates, config)
    return Learner(network, target, optimiser, updates), {"loss": value}


def descend(module: Any, gradient: Any, optimiser: Any, rate: Array) -> tuple[Any, Any]:
    """One step of Adam."""
    step, optimiser = ADAM.update(gradient, optimiser)
    return eqx.apply_updates(module, jax.tree.map(lambda d: -rate * d, step)), optimiser


def averaged_target(network: Any, target: Any, updates: Array, config: Config) -> Any:
    """The target moved towards the network: a copy now and then, or a little at each update."""
    if config.target_period:
        share: Any = (updates % config.target_period == 0).astype(jnp.float32)
    else:
        share = config.target_rate
    new, old = (eqx.filter(n, eqx.is_inexact_array) for n in (network, target))
    return eqx.combine(optax.incremental_update(new, old, share), target)
