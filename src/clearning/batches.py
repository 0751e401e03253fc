"""From the buffer to a batch: draw transitions, give each a goal and its horizons, check what is reached."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from clearning import buffer as ring
from clearning.buffer import Buffer
from clearning.config import Config
from clearning.core.horizons import sample_horizon
from clearning.core.relabel import GoalMix, GoalSources, draw_unreached_goal
from clearning.types import Batch


def sample_batch(key: Array, buffer: Buffer, env: Any, config: Config, progress: Array) -> Batch:
    """One relabelled batch; `progress` runs from 0 to 1 over the training."""
    key_draw, key_each = jax.random.split(key)
    drawn = ring.sample(key_draw, buffer, config.batch_size, config.choose)
    mix = GoalMix(config.goal_future, config.goal_episode, config.goal_random, config.goal_nearby)

    def relabel(key: Array, place: Array, episode: Array, remaining: Array, dead: Array) -> Batch:
        key_horizon, key_goal = jax.random.split(key)
        after = ring.later(buffer, place, jnp.int32(1))
        achieved = buffer.achieved[place]
        horizon = _sampled_horizon(key_horizon, config, progress)
        sources = GoalSources(
            future=lambda k: buffer.achieved[
                ring.later(buffer, place, jax.random.randint(k, (), 1, remaining + 1))
            ],
            episode=lambda k: buffer.episode_goal[episode],
            random=_random_source(env, buffer),
            nearby=_nearby_source(env, achieved, horizon),
        )
        goal = draw_unreached_goal(
            key_goal, mix, sources, lambda g: env.reached(achieved, g), config.goal_tries
        )
        next_achieved = buffer.achieved[after]
        bound = env.spec.step_bound if config.rule_out else None
        return Batch(
            observation=buffer.observation[place],
            action=buffer.action[place],
            next_observation=buffer.observation[after],
            goal=goal,
            horizon=horizon,
            reached_before=env.reached(achieved, goal),
            reached=env.reached(next_achieved, goal),
            dead=dead,
            min_steps=bound.min_steps(next_achieved, goal) if bound else jnp.zeros(()),
        )

    keys = jax.random.split(key_each, config.batch_size)
    return jax.vmap(relabel)(keys, *drawn, ring.is_last_dead(buffer, drawn))


def _sampled_horizon(key: Array, config: Config, progress: Array) -> Array:
    # Where every horizon is backed up, a horizon is drawn only to choose a goal: uniformly.
    kappa = 0.0 if config.form == "all-horizons" else config.kappa
    return sample_horizon(key, config.max_horizon, kappa, progress)


def _random_source(env: Any, buffer: Buffer) -> Callable[[Array], Array]:
    """Goals as the environment draws them; from outside JAX, those that it drew for earlier episodes."""
    if hasattr(env, "sample_goal"):
        return env.sample_goal

    def source(key: Array) -> Array:
        number = jax.random.randint(key, (), buffer.first_episode, buffer.episodes_used)
        return buffer.episode_goal[number % len(buffer.episode_goal)]

    return source


def _nearby_source(env: Any, achieved: Array, horizon: Array) -> Callable[[Array], Array]:
    """Goals that `horizon` steps might reach by the environment's own distance."""

    def source(key: Array) -> Array:
        return env.sample_goal_within(key, achieved, env.spec.step_bound.per_step * horizon)

    return source
