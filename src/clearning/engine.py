"""The two programs that a training alternates: collect episodes, and update K times."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning import buffer as ring
from clearning.agents import learner_kind
from clearning.agents.learner import Learner, Pace
from clearning.batches import Checked, Pairs, check_pairs, draw_pairs, make_batch
from clearning.buffer import Buffer
from clearning.config import Config
from clearning.core.horizons import episode_horizon
from clearning.core.recursions import rule_for
from clearning.envs.external import ExternalEnv
from clearning.networks import with_statistics
from clearning.rollout import (
    Dial,
    batched_policy,
    collect,
    collect_external,
    dial_policy,
    frontier_goals,
    own_dial,
    rare_goal,
    training_starts,
)
from clearning.types import Batch, Episodes, Metrics

NO_EPISODES = Episodes(*(np.zeros(0) for _ in Episodes._fields))  # pyright: ignore[reportArgumentType]


class Engine(NamedTuple):
    """The compiled halves of an iteration, and how many updates the second makes."""

    collect: Callable[[Learner, Buffer, Array, Any], tuple[Buffer, Episodes]]
    update: Callable[[Learner, Buffer, Array, Any, Any], tuple[Learner, Metrics]]  # metrics of each update
    chunk: int


def build_engine(env: Any, config: Config) -> Engine:
    """Compile an environment and a config into the two programs."""
    external = isinstance(env, ExternalEnv)
    mask_reached = env.spec.goal_check is not None
    update = learner_kind(env.spec, config).update
    rule = rule_for(config.method, config.discount)
    chunk = (
        config.update_chunk if config.updates_per_step else config.updates_per_episode * config.parallel_envs
    )

    def draw(buffer: Buffer, key: Array, progress: Array) -> Pairs:
        # All batches are drawn at once: many small draws would cost more than the updates of a small network.
        keys = jax.random.split(key, chunk)
        return jax.vmap(lambda k: draw_pairs(k, buffer, env, config, progress))(keys)

    def learn(
        learner: Learner,
        buffer: Buffer,
        pairs: Pairs,
        checked: Checked,
        progress: Array,
        rate_progress: Array,
    ) -> tuple[Learner, Metrics]:
        pace = Pace(learning_rate(config, rate_progress), action_penalty(config, progress))
        weights, rest = eqx.partition(learner, eqx.is_array)

        def body(weights: Any, batch: Batch) -> tuple[Any, Metrics]:
            now, metrics = update(eqx.combine(weights, rest), batch, rule, config, pace, mask_reached)
            return eqx.filter(now, eqx.is_array), metrics

        batches = jax.vmap(lambda p, c: make_batch(buffer, env, config, p, c))(pairs, checked)
        weights, metrics = jax.lax.scan(body, weights, batches)
        return eqx.combine(weights, rest), metrics

    check = jnp.vectorize(env.reached, signature="(g),(g)->()")
    if external:  # its check is no JAX and stands between two programs
        check, draw, learn = env.reached, eqx.filter_jit(draw), eqx.filter_jit(learn)

    def update_many(
        learner: Learner, buffer: Buffer, key: Array, progress: Array, rate_progress: Array
    ) -> tuple[Learner, Metrics]:
        pairs = draw(buffer, key, progress)
        checked = check_pairs(check, pairs)
        return learn(learner, buffer, pairs, checked, progress, rate_progress)

    collector = external_collector if external else functional_collector
    collect_episodes = collect_nothing if config.from_episodes else collector(env, config)
    return Engine(collect_episodes, update_many if external else eqx.filter_jit(update_many), chunk)


@eqx.filter_jit
def observe(learner: Learner, episodes: Episodes) -> Learner:
    """A learner whose inputs have seen new episodes, where they are normalised."""
    if not len(episodes.length):
        return learner
    network = with_statistics(learner.network, episodes)
    if network is learner.network:
        return learner
    return eqx.tree_at(
        lambda l: (l.network, l.target), learner, (network, with_statistics(learner.target, episodes))
    )


def collect_nothing(learner: Learner, buffer: Buffer, key: Array, epsilon: Any) -> tuple[Buffer, Episodes]:
    """Where all episodes are recorded ones, which a training begins with."""
    return buffer, NO_EPISODES


def collecting_dial(config: Config, buffer: Buffer) -> Dial:
    """The dial of the next episodes. GCSL collects by its policy as it is, which is no single action."""
    dial = own_dial(config)._replace(drawn=config.method == "gcsl")
    if config.method != "naive-q":
        return dial
    iteration = buffer.episodes_used // config.parallel_envs
    return dial._replace(horizon=episode_horizon(iteration, config.max_horizon), again=True)


def functional_collector(env: Any, config: Config) -> Callable[..., tuple[Buffer, Episodes]]:
    """Collect episodes of a functional environment, all inside one program."""
    spec = env.spec

    def collect_episodes(
        learner: Learner, buffer: Buffer, key: Array, epsilon: Array
    ) -> tuple[Buffer, Episodes]:
        key_start, key_act = jax.random.split(key)
        dial = collecting_dial(config, buffer)
        if config.explore_alpha:
            careful = jax.random.uniform(jax.random.fold_in(key, 0), minval=config.explore_alpha, maxval=1.0)
            dial = dial._replace(alpha=careful)
        draw_goal = rare_goal(env, buffer, config.goal_candidates)
        state, goal = training_starts(env, key_start, config.parallel_envs, draw_goal)
        policy = dial_policy(learner.network, spec, dial, epsilon, config.skip_ruled_out, config.noise)
        new_goal = draw_goal if config.new_goal_at_success else None
        episodes = collect(
            env, policy, key_act, state, goal, spec.max_episode_steps, new_goal, config.end_at_success
        )
        return ring.add(buffer, episodes), episodes

    # The buffer is written in place; a copy of it per episode would cost more than the episode.
    return eqx.filter_jit(collect_episodes, donate="all-except-first")


def external_collector(env: ExternalEnv, config: Config) -> Callable[..., tuple[Buffer, Episodes]]:
    """Collect episodes of Gymnasium environments, the policy's forward pass batched over them."""
    env.pool(config.parallel_envs)  # its processes come up while the networks are built
    add = jax.jit(ring.add, donate_argnums=0)
    choose = frontier_goals(env.reached, config.frontier)
    draw_seeds = jax.jit(lambda key: jax.random.randint(key, (config.parallel_envs,), 0, 2**31 - 1))

    def collect_episodes(
        learner: Learner, buffer: Buffer, key: Array, epsilon: Array
    ) -> tuple[Buffer, Episodes]:
        key_start, key_act = jax.random.split(key)
        dial = collecting_dial(config, buffer)
        policy = batched_policy(learner.network, env.spec, config, dial, key_act, epsilon, config.noise)
        choose_goals = None
        if config.frontier and buffer.transitions_used > 0:
            key_goals = jax.random.fold_in(key_start, 0)
            choose_goals = partial(choose, learner.network, buffer, key_goals)
        seeds, steps = np.asarray(draw_seeds(key_start)), env.spec.max_episode_steps
        episodes = collect_external(env, policy, seeds, steps, config.end_at_success, choose_goals)
        return add(buffer, episodes), episodes

    return collect_episodes


def learning_rate(config: Config, progress: Any) -> Array:
    """The learning rate, `progress` of the way through the training."""
    if config.learning_rate_decay == "cosine":
        return config.learning_rate * 0.5 * (1 + jnp.cos(jnp.pi * progress))
    if config.learning_rate_decay == "step":
        return config.learning_rate * jnp.where(progress < config.decay_at, 1.0, 0.1)
    return jnp.asarray(config.learning_rate)


def action_penalty(config: Config, progress: Any) -> Any:
    """The price of an action, `progress` of the way through the training."""
    begins = config.action_penalty_from
    falling = jnp.maximum(progress - begins, 0.0) / (1 - begins)
    left = jnp.maximum(1 - config.action_penalty_decay * falling, config.action_penalty_least)
    return config.action_penalty * left


def exploration(config: Config, episodes: int) -> float:
    """Probability of a random action after so many episodes."""
    if episodes < config.random_episodes:
        return 1.0
    if config.epsilon_decay:
        return config.epsilon / (1 + (episodes - config.random_episodes) / config.epsilon_decay)
    return config.epsilon
