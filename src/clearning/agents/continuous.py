"""The learner for continuous actions: algorithm 2, twin critics and a delayed actor, in both forms."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from clearning.agents.learner import ADAM, Learner, Pace, averaged_target, descend, masked_loss, target_from
from clearning.config import Config
from clearning.core.recursions import Rule
from clearning.networks.layers import ROWS
from clearning.types import ActorCritic, Batch, Metrics


def start(network: Any) -> Learner:
    """A learner before its first update; critics and actor have an optimiser each."""
    optimiser = tuple(
        ADAM.init(eqx.filter(m, eqx.is_inexact_array)) for m in (network.critics, network.actor)
    )
    return Learner(network, network, optimiser, jnp.int32(0))


def example_target(rule: Rule, target: ActorCritic, x: Batch) -> Array:
    """The targets of one example, (K,): the best proposal at each horizon by the more doubtful critic."""
    horizon = target.backed_up(x.horizon)
    outputs = target.before(x.next_observation, x.goal, horizon)  # (critics, proposals, K)
    next_value = target.shift(rule.link(outputs.min(0).max(0)))
    return target_from(rule, horizon, next_value, x)


def critic_loss(rule: Rule, network: ActorCritic, mask_reached: bool, x: Batch, target: Array) -> Array:
    """Loss of one example, summed over the critics."""
    outputs = network.at(x.observation, x.goal, x.action, network.backed_up(x.horizon))  # (critics, K)
    return sum(masked_loss(rule, o, target, mask_reached, x) for o in outputs)  # pyright: ignore[reportReturnType]


def actor_loss(rule: Rule, network: ActorCritic, config: Config, penalty: Any, x: Batch) -> Array:
    """How little C the actor's proposals have at the horizons they are for."""
    outputs, weights, free = network.proposals(x.observation, x.goal, network.backed_up(x.horizon))
    # Adam follows the smallest slope to the bounds, whence tanh lets nothing back: a price before tanh does.
    return penalty * (free**2).mean() - objective(rule, config, outputs, weights).mean()


def objective(rule: Rule, config: Config, outputs: Array, weights: Array) -> Array:
    """What each proposal is to maximise, (proposals,), from its outputs at the horizons that it is for."""
    name = config.actor_objective
    if name == "value":
        outputs = rule.link(outputs)
    elif rule.link is jax.nn.sigmoid:  # others are no logits
        if name == "log-mean":
            return jax.nn.logsumexp(jax.nn.log_sigmoid(outputs), 1, weights)
        if name == "log":
            outputs = jax.nn.log_sigmoid(outputs)
    return (weights * outputs).sum(1)


def update(
    learner: Learner, batch: Batch, rule: Rule, config: Config, pace: Pace, mask_reached: bool
) -> tuple[Learner, Metrics]:
    """One step of the critics, one of the actor every so often, and of the targets towards both."""
    network = learner.network
    portion = max(ROWS // (config.actor_heads + config.spread_in_targets), 1)
    targets = jax.lax.map(lambda x: example_target(rule, learner.target, x), batch, batch_size=portion)

    def loss_of_critics(critics: Any) -> Array:
        now = eqx.tree_at(lambda n: n.critics, network, critics)
        return jax.vmap(lambda x, y: critic_loss(rule, now, mask_reached, x, y))(batch, targets).mean()

    def loss_of_actor(actor: Any, network: Any) -> Array:
        now = eqx.tree_at(lambda n: n.actor, network, actor)
        return jax.vmap(lambda x: actor_loss(rule, now, config, pace.penalty, x))(batch).mean()

    loss, gradient = eqx.filter_value_and_grad(loss_of_critics)(network.critics)
    critics, critic_optimiser = descend(network.critics, gradient, learner.optimiser[0], pace.rate)
    network = eqx.tree_at(lambda n: n.critics, network, critics)
    updates = learner.updates + 1

    def step_actor(actor: Any, optimiser: Any) -> Any:
        gradient = eqx.filter_grad(loss_of_actor)(eqx.combine(actor, rest), network)
        moved, optimiser = descend(eqx.combine(actor, rest), gradient, optimiser, pace.rate)
        return eqx.filter(moved, eqx.is_array), optimiser

    weights, rest = eqx.partition(network.actor, eqx.is_array)
    weights, actor_optimiser = jax.lax.cond(
        updates % config.actor_delay == 0, step_actor, lambda *now: now, weights, learner.optimiser[1]
    )
    network = eqx.tree_at(lambda n: n.actor, network, eqx.combine(weights, rest))
    target = averaged_target(network, learner.target, updates, config)
    return Learner(network, target, (critic_optimiser, actor_optimiser), updates), {"loss": loss}
