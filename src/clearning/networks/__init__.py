"""Networks of C, built as a config asks."""

from typing import Any

import equinox as eqx
import jax
from jax import Array

from clearning.config import Config
from clearning.networks.actor_critic import HeadsActorCritic, HorizonActorCritic
from clearning.networks.inputs import Inputs, NormalisedInputs
from clearning.networks.layers import GROUPS, MLP, PLANES, Hazards, MinMax
from clearning.networks.numbered import AllHorizons, SampledHorizon, Supported
from clearning.types import EnvSpec, Episodes


def build_network(spec: EnvSpec, config: Config, key: Array) -> Any:
    """The network that a config asks for: a `Network`, or an `ActorCritic` where actions are continuous."""
    normalised = config.features == "normalised"
    inputs = NormalisedInputs(spec) if normalised else Inputs(spec, config.features)
    horizons = config.max_horizon
    as_input = int(config.form == "sampled-horizon")
    size = inputs.size() + as_input

    def mlp(key: Array, size: int, outputs: int) -> MLP:
        return MLP((size, *config.hidden, outputs), config.layer_norm, key)

    def of_c(key: Array, size: int, outputs: int) -> Any:
        """From inputs (with the horizon last, where it is one) to logits of C."""
        if config.monotone and as_input:
            return MinMax(mlp(key, size - 1, outputs * GROUPS * PLANES), outputs, horizons)
        plain = mlp(key, size, outputs)
        return Hazards(plain, horizons) if config.monotone else plain

    def numbered() -> Any:
        if config.method == "d-learning":
            return SampledHorizon(inputs, mlp(key, size, spec.num_actions), 1, step=0)
        if as_input:
            return SampledHorizon(inputs, of_c(key, size, spec.num_actions), horizons)
        shape = (spec.num_actions, horizons)
        return AllHorizons(inputs, of_c(key, size, shape[0] * shape[1]), shape)

    if not spec.continuous:
        if not config.support:
            return numbered()
        behaviour = mlp(jax.random.fold_in(key, 0), inputs.size(), spec.num_actions)
        return Supported(numbered(), behaviour, spec.goal_size, config.support)
    key_actor, *keys = jax.random.split(key, 1 + config.critics)
    outputs = 1 if as_input else horizons
    critics = tuple(of_c(k, size + len(spec.action_low), outputs) for k in keys)
    heads = 1 if as_input else config.actor_heads
    actor = mlp(key_actor, size, heads * len(spec.action_low))
    if as_input:
        return HorizonActorCritic(inputs, actor, critics, horizons)
    spread = (config.spread_actions, config.spread_in_targets)
    return HeadsActorCritic(inputs, actor, critics, heads, horizons, *spread)


def with_statistics(network: Any, episodes: Episodes) -> Any:
    """A network whose inputs have seen new episodes; one that does not normalise stays as it is."""
    if isinstance(network, Supported):
        return eqx.tree_at(lambda n: n.network, network, with_statistics(network.network, episodes))
    inputs = getattr(network, "inputs", None)
    if not isinstance(inputs, NormalisedInputs):
        return network
    return eqx.tree_at(lambda n: n.inputs, network, inputs.updated(episodes))
