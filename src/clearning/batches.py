"""From the buffer to a batch: draw transitions, give each a goal and its horizons, check what is reached."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from clearning import buffer as ring
from clearning.buffer import Buffer, Sample
from clearning.config import Config
from clearning.core.horizons import episode_horizon, horizon_left, sample_horizon
from clearning.core.relabel import GoalMix, GoalSources, draw_goal, draw_unreached_goal
from clearning.types import Batch


def sample_batch(key: Array, buffer: Buffer, env: Any, config: Config, progress: Array) -> Batch:
    """One relabelled batch; `progress` runs from 0 to 1 over the training."""
    key_draw, key_each = jax.random.split(key)
    tries = config.pair_tries
    drawn = ring.sample(key_draw, buffer, config.batch_size * tries, config.choose)
    mix = GoalMix(config.goal_future, config.goal_episode, config.goal_random, config.goal_nearby)

    def sources(drawn: Sample, horizon: Array) -> GoalSources:
        achieved = buffer.achieved[drawn.place]
        return GoalSources(
            future=lambda k: buffer.achieved[
                ring.later(buffer, drawn.place, 1 + ring.below(k, (), drawn.remaining))
            ],
            episode=lambda k: buffer.episode_goal[drawn.episode],
            random=_random_source(env, buffer),
            nearby=_nearby_source(env, achieved, horizon),
        )

    def is_reached(drawn: Sample, goal: Array) -> Array:
        return env.reached(buffer.achieved[drawn.place], goal)

    def relabel(key: Array, drawn: Sample) -> Batch:
        key_horizon, key_goal = jax.random.split(key)
        horizon = _sampled_horizon(key_horizon, config, progress)
        if config.method == "naive-q":
            horizon = _episode_horizon_left(buffer, config, drawn)
        if tries == 1:
            goal = draw_unreached_goal(
                key_goal, mix, sources(drawn, horizon), lambda g: is_reached(drawn, g), config.goal_tries
            )
        else:
            # One source for all tries: the mix stays what it is, however rarely one source finds a goal.
            draw = lambda k, d: draw_goal(key_goal, mix, sources(d, horizon), k)  # noqa: E731
            goals = jax.vmap(draw)(jax.random.split(key_goal, tries), drawn)
            first = jnp.argmin(jax.vmap(is_reached)(drawn, goals))
            drawn, goal = jax.tree.map(lambda x: x[first], (drawn, goals))
        if config.method == "d-learning":
            horizon = jax.random.uniform(jax.random.fold_in(key_horizon, 0))  # the discount takes its place
        elif config.method == "gcsl":
            goal, horizon = _own_future(key_goal, buffer, config, drawn)
        return _example(buffer, env, config, drawn, goal, horizon)

    keys = jax.random.split(key_each, config.batch_size)
    if tries > 1:
        drawn = jax.tree.map(lambda x: x.reshape(config.batch_size, tries), drawn)
    return jax.vmap(relabel)(keys, drawn)


def _example(buffer: Buffer, env: Any, config: Config, drawn: Sample, goal: Array, horizon: Array) -> Batch:
    after = ring.later(buffer, drawn.place, jnp.int32(1))
    next_achieved = buffer.achieved[after]
    bound = env.spec.step_bound if config.rule_out else None
    return Batch(
        observation=buffer.observation[drawn.place],
        action=buffer.action[drawn.place],
        next_observation=buffer.observation[after],
        goal=goal,
        horizon=horizon,
        reached_before=env.reached(buffer.achieved[drawn.place], goal),
        reached=env.reached(next_achieved, goal),
        dead=ring.is_last_dead(buffer, drawn),
        min_steps=bound.min_steps(next_achieved, goal) if bound else jnp.zeros(()),
        distance=_scaled_distance(config, next_achieved, goal) if config.method == "tdm" else jnp.zeros(()),
    )


def _own_future(key: Array, buffer: Buffer, config: Config, drawn: Sample) -> tuple[Array, Array]:
    """A goal achieved later in the same episode, and in how many steps, where the network is told."""
    told = config.form == "sampled-horizon"
    most = jnp.minimum(drawn.remaining, config.max_horizon) if told else drawn.remaining
    steps = 1 + ring.below(key, (), most)
    return buffer.achieved[ring.later(buffer, drawn.place, steps)], steps


def _scaled_distance(config: Config, achieved: Array, goal: Array) -> Array:
    scale = jnp.array(config.goal_scale) if config.goal_scale else 1.0
    return jnp.sqrt((((achieved - goal) * scale) ** 2).sum())


def _sampled_horizon(key: Array, config: Config, progress: Array) -> Array:
    if config.form == "all-horizons":  # every horizon is backed up; one is drawn only to choose a goal
        return sample_horizon(key, config.max_horizon, config.goal_nearness, 0.0)
    return sample_horizon(key, config.max_horizon, config.kappa, progress)


def _episode_horizon_left(buffer: Buffer, config: Config, drawn: Sample) -> Array:
    """The horizon that the transition's own episode was given, less the steps it had taken."""
    iteration = buffer.episode[drawn.place] // config.parallel_envs
    step = (drawn.place - buffer.episode_start[drawn.episode]) % buffer.episode.size
    return horizon_left(episode_horizon(iteration, config.max_horizon), step).astype(jnp.int32)


def _random_source(env: Any, buffer: Buffer) -> Callable[[Array], Array]:
    """Goals as the environment draws them; from outside JAX, those that it drew for earlier episodes."""
    if hasattr(env, "sample_goal"):
        return env.sample_goal

    def source(key: Array) -> Array:
        number = buffer.first_episode + ring.below(key, (), buffer.episodes_used - buffer.first_episode)
        return buffer.episode_goal[number % len(buffer.episode_goal)]

    return source


def _nearby_source(env: Any, achieved: Array, horizon: Array) -> Callable[[Array], Array]:
    """Goals that `horizon` steps might reach by the environment's own distance."""

    def source(key: Array) -> Array:
        return env.sample_goal_within(key, achieved, env.spec.step_bound.per_step * horizon)

    return source
