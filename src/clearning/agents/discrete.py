"""The learner for discrete actions: algorithm 1 with a double-Q target, in both forms."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import Array

from clearning.agents.learner import ADAM, Learner, Pace, masked_loss, step_on, target_from
from clearning.config import Config
from clearning.core.recursions import Rule
from clearning.networks.numbered import Supported
from clearning.types import Batch, Metrics, Network


def start(network: Any) -> Learner:
    """A learner before its first update."""
    return Learner(network, network, ADAM.init(eqx.filter(network, eqx.is_inexact_array)), jnp.int32(0))


def example_loss(rule: Rule, network: Network, target: Network, mask_reached: bool, x: Batch) -> Array:
    """Mean loss of one example over the horizons it backs up."""
    outputs = network.at(x.observation, x.goal, network.backed_up(x.horizon))  # (actions, K)
    chosen = jnp.arange(len(outputs)) == x.action
    output = jnp.where(chosen[:, None], outputs, 0.0).sum(0)  # (K,); a look-up would be slow to differentiate
    loss = masked_loss(rule, output, example_target(rule, network, target, x), mask_reached, x)
    if isinstance(network, Supported):
        loss += optax.softmax_cross_entropy_with_integer_labels(network.taken(x.observation), x.action)
    return loss


def example_target(rule: Rule, network: Network, target: Network, x: Batch) -> Array:
    """The rule's targets of one example, (K,): the network picks the next action, the target values it."""
    horizon = network.backed_up(x.horizon)
    choice = jax.lax.stop_gradient(network.before(x.next_observation, x.goal, horizon))
    output = target.before(x.next_observation, x.goal, horizon)  # (actions, K)
    greedy = choice >= choice.max(0)
    next_value = network.shift(rule.link(jnp.where(greedy, output, -jnp.inf).max(0)))
    return target_from(rule, horizon, next_value, x)


def update(
    learner: Learner, batch: Batch, rule: Rule, config: Config, pace: Pace, mask_reached: bool
) -> tuple[Learner, Metrics]:
    """One step of gradient descent on a batch, and of the target towards the network."""
    loss = lambda network, x: example_loss(rule, network, learner.target, mask_reached, x)  # noqa: E731
    return step_on(learner, loss, batch, config, pace)
