"""The two jitted programs that a training alternates: collect episodes, and update K times."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from clearning import buffer as ring
from clearning.agents.discrete import Learner, update
from clearning.batches import sample_batch
from clearning.buffer import Buffer
from clearning.config import Config
from clearning.core.recursions import C_RULE
from clearning.rollout import Dial, collect, dial_policy, rare_goal, training_starts
from clearning.types import Batch, Episodes, Metrics


class Engine(NamedTuple):
    """The compiled halves of an iteration."""

    collect: Callable[[Learner, Buffer, Array, Any], tuple[Buffer, Episodes]]
    update: Callable[[Learner, Buffer, Array, Any, Any], tuple[Learner, Metrics]]


def build_engine(env: Any, config: Config) -> Engine:
    """Compile an environment and a config into the two programs."""
    spec = env.spec
    mask_reached = spec.goal_check is not None

    def collect_episodes(
        learner: Learner, buffer: Buffer, key: Array, epsilon: Array
    ) -> tuple[Buffer, Episodes]:
        key_start, key_act = jax.random.split(key)
        dial = Dial(config.alpha, vote=config.vote)
        draw_goal = rare_goal(env, buffer, config.goal_candidates)
        state, goal = training_starts(env, key_start, config.parallel_envs, draw_goal)
        policy = dial_policy(learner.network, spec, dial, epsilon, config.skip_ruled_out)
        new_goal = draw_goal if config.new_goal_at_success else None
        episodes = collect(env, policy, key_act, state, goal, spec.max_episode_steps, new_goal)
        return ring.add(buffer, episodes), episodes

    def update_many(
        learner: Learner, buffer: Buffer, key: Array, progress: Array, rate_progress: Array
    ) -> tuple[Learner, Metrics]:
        rate = learning_rate(config, rate_progress)
        weights, rest = eqx.partition(learner, eqx.is_array)

        def body(weights: Any, batch: Batch) -> tuple[Any, Metrics]:
            now, metrics = update(eqx.combine(weights, rest), batch, C_RULE, config, rate, mask_reached)
            return eqx.filter(now, eqx.is_array), metrics

        # All batches are drawn at once: many small draws would cost more than the updates of a small network.
        keys = jax.random.split(key, config.updates_per_episode * config.parallel_envs)
        batches = jax.vmap(lambda k: sample_batch(k, buffer, env, config, progress))(keys)
        weights, metrics = jax.lax.scan(body, weights, batches)
        return eqx.combine(weights, rest), jax.tree.map(jnp.mean, metrics)

    return Engine(
        # The buffer is written in place; a copy of it per episode would cost more than the episode.
        collect=eqx.filter_jit(collect_episodes, donate="all-except-first"),
        update=eqx.filter_jit(update_many),
    )


def learning_rate(config: Config, progress: Any) -> Array:
    """The learning rate, `progress` of the way through the training."""
    if config.learning_rate_decay == "cosine":
        return config.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * progress))
    if config.learning_rate_decay == "step":
        return config.learning_rate * jnp.where(progress < config.decay_at, 1.0, 0.1)
    return jnp.asarray(config.learning_rate)


def exploration(config: Config, episodes: int) -> float:
    """Probability of a random action after so many episodes."""
    if episodes < config.random_episodes:
        return 1.0
    if config.epsilon_decay:
        return config.epsilon / (1 + (episodes - config.random_episodes) / config.epsilon_decay)
    return config.epsilon
