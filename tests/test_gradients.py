"""The gradient of every loss against finite differences in float64, along random directions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from clearning.agents import continuous, discrete, gcsl
from clearning.config import Config
from clearning.core.recursions import rule_for
from clearning.envs import CatAndMouse, FrozenLake
from clearning.networks import build_network
from clearning.types import Batch, EnvSpec

LAKE, MOUSE = FrozenLake().spec, CatAndMouse().spec
H, EXAMPLES, DIRECTIONS, STEP = 4, 6, 4, 1e-6


def config_of(method: str, form: str = "all-horizons", **settings) -> Config:
    horizons = 1 if method in ("her", "td3") else H
    return Config(
        method=method, form=form, hidden=(7, 5), max_horizon=horizons, features="scaled", **settings
    )


def batch_of(spec: EnvSpec, config: Config) -> Batch:
    """Random examples: some at their goal before, some after, some dead."""
    rng = np.random.default_rng(0)
    draw = lambda low, high: jnp.asarray(rng.uniform(low, high, (EXAMPLES, len(low))))  # noqa: E731
    discount = config.method == "d-learning"
    horizon = rng.uniform(size=EXAMPLES) if discount else rng.integers(1, config.max_horizon + 1, EXAMPLES)
    action = rng.uniform(-1, 1, (EXAMPLES, len(spec.action_low)))
    numbered = rng.integers(0, max(spec.num_actions, 1), EXAMPLES)
    return Batch(
        observation=draw(spec.observation_low, spec.observation_high),
        action=jnp.asarray(action if spec.continuous else numbered),
        next_observation=draw(spec.observation_low, spec.observation_high),
        goal=draw(spec.goal_low, spec.goal_high),
        horizon=jnp.asarray(horizon),
        reached_before=jnp.asarray([True, False, False, False, False, False]),
        reached=jnp.asarray([False, True, False, False, False, False]),
        dead=jnp.asarray([False, False, True, False, False, False]),
        min_steps=jnp.asarray([0.0, 0.0, 0.0, 2.0, 0.0, 0.0]),
        distance=jnp.asarray(rng.uniform(0, 3, EXAMPLES)),
    )


def check(loss, module) -> None:
    """`loss(module)` has the slope that it says it has, in each of the module's weights."""
    weights, static = eqx.partition(module, eqx.is_inexact_array)
    flat, restore = ravel_pytree(weights)
    of = lambda w: loss(eqx.combine(restore(w), static))  # noqa: E731
    rng = np.random.default_rng(1)
    # One direction for each array of weights, which moves it alone, and a few that move all.
    alone, at = [], 0
    for leaf in jax.tree.leaves(weights):
        direction = np.zeros(flat.size)
        direction[at : at + leaf.size] = rng.normal(size=leaf.size)
        alone.append(direction)
        at += leaf.size
    directions = np.concatenate([alone, rng.normal(size=(DIRECTIONS, flat.size))])
    value_and_slope = jax.jit(jax.value_and_grad(of))
    slope = np.asarray(value_and_slope(flat)[1])
    ahead, behind = (
        np.array([value_and_slope(np.asarray(flat) + sign * STEP * d)[0] for d in directions])
        for sign in (1, -1)
    )
    assert ahead.dtype == slope.dtype == np.float64
    analytic = directions @ slope
    assert np.abs(analytic[-DIRECTIONS:]).min() > 1e-6  # a loss that depends on nothing would pass, too
    np.testing.assert_allclose((ahead - behind) / (2 * STEP), analytic, rtol=1e-6, atol=2e-8)


def networks(spec: EnvSpec, config: Config) -> list:
    """An online network and another as its target, random weights in float64."""
    like = eqx.filter_eval_shape(build_network, spec, config, jax.random.key(0))
    rng = np.random.default_rng(2)
    filled = lambda x: jnp.asarray(rng.normal(0, 0.5, x.shape)) if hasattr(x, "dtype") else x  # noqa: E731
    return [jax.tree.map(filled, like) for _ in range(2)]


SAMPLED = "sampled-horizon"
NUMBERED = [
    config_of("c-learning"),
    config_of("c-learning", monotone=True),
    config_of("c-learning", SAMPLED),
    config_of("c-learning", SAMPLED, monotone=True),
    config_of("a-learning"),
    config_of("d-learning", SAMPLED),
    config_of("naive-q", SAMPLED),
    config_of("her"),
    config_of("tdm"),
    config_of("gcsl", SAMPLED),
]
CONTINUOUS = [
    config_of("c-learning", actor_objective="log", action_penalty=0.3, actor_heads=2),
    config_of("c-learning", actor_objective="log-mean", actor_heads=2),
    config_of("c-learning", SAMPLED, actor_objective="value"),
    config_of("a-learning", actor_objective="logit"),
    config_of("td3", action_penalty=0.3),
    config_of("tdm", SAMPLED),
]


def name(config: Config) -> str:
    kind = f"{config.method}, {config.form}{', monotone' if config.monotone else ''}"
    return f"{kind}, {config.actor_objective}"


@pytest.mark.parametrize("config", NUMBERED, ids=name)
def test_losses_of_numbered_actions(config):
    """Pairs that are at their goal are left out by one method's form and trained by another's."""
    rule = rule_for(config.method, 0.9)
    with jax.enable_x64(True):
        batch = batch_of(LAKE, config)
        online, target = networks(LAKE, config)

        def one(network, x):
            if config.method == "gcsl":
                return gcsl.example_loss(rule, network, x)
            return discrete.example_loss(rule, network, target, config.form == SAMPLED, x)

        check(lambda n: jax.vmap(lambda x: one(n, x))(batch).mean(), online)


@pytest.mark.parametrize("config", CONTINUOUS, ids=name)
def test_losses_of_continuous_actions(config):
    """The critics' and the actor's in one: each weight has the sum of both slopes."""
    rule = rule_for(config.method, 0.9)
    with jax.enable_x64(True):
        batch = batch_of(MOUSE, config)
        online, target = networks(MOUSE, config)

        def one(network, x):
            y = continuous.example_target(rule, target, x)
            critics = continuous.critic_loss(rule, network, False, x, y)
            return critics + continuous.actor_loss(rule, network, config, config.action_penalty, x)

        check(lambda n: jax.vmap(lambda x: one(n, x))(batch).mean(), online)
