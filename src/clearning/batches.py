"""From the buffer to a batch: draw transitions, give each a goal and its horizons, check what is reached."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning import buffer as ring
from clearning.buffer import Buffer, Sample
from clearning.config import Config
from clearning.core.horizons import cycled_horizon, episode_horizon, sample_horizon
from clearning.core.relabel import GoalMix, GoalSources, draw_goal
from clearning.types import Batch


class Pairs(NamedTuple):
    """Transitions, each with the goals it may be trained for; one of these tries is taken."""

    drawn: Sample  # (..., tries)
    achieved: Array  # (..., tries, goal), at s
    next_achieved: Array  # (..., tries, goal), at s'
    goal: Array  # (..., tries, goal)
    horizon: Array  # (..., tries)


class Checked(NamedTuple):
    """Which try of each pair is taken, and whether s and s' reach its goal."""

    taken: Any  # (...)
    before: Any
    after: Any


def draw_pairs(key: Array, buffer: Buffer, env: Any, config: Config, progress: Array) -> Pairs:
    """Transitions and goals for a batch; `progress` runs from 0 to 1 over the training."""
    key_draw, key_each = jax.random.split(key)
    together = config.pair_tries > 1  # or goals alone are drawn anew, for the same transition
    drawn = ring.sample(key_draw, buffer, config.batch_size * config.pair_tries, config.choose)
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

    def relabel(key: Array, drawn: Sample) -> Pairs:
        key_horizon, key_goal = jax.random.split(key)
        sampled = _sampled_horizon(key_horizon, config, progress)

        def attempt(key: Array, drawn: Sample) -> Pairs:
            horizon = _episode_horizon_left(buffer, config, drawn) if config.method == "naive-q" else sampled
            if config.method == "gcsl":
                goal, horizon = _own_future(key_goal, buffer, config, drawn)
            elif together:
                # One source for all tries: the mix stays what it is, however rarely a source finds a goal.
                goal = draw_goal(key_goal, mix, sources(drawn, horizon), key)
            else:
                goal = draw_goal(key, mix, sources(drawn, horizon))
            if config.method == "d-learning":
                horizon = jax.random.uniform(jax.random.fold_in(key_horizon, 0))  # the discount, in its place
            after = ring.later(buffer, drawn.place, jnp.int32(1))
            return Pairs(drawn, buffer.achieved[drawn.place], buffer.achieved[after], goal, horizon)

        if not together:
            drawn = jax.tree.map(lambda x: jnp.repeat(x, config.goal_tries), drawn)
        return jax.vmap(attempt)(jax.random.split(key_goal, len(drawn.place)), drawn)

    drawn = jax.tree.map(lambda x: x.reshape(config.batch_size, config.pair_tries), drawn)
    return jax.vmap(relabel)(jax.random.split(key_each, config.batch_size), drawn)


def check_pairs(reached: Callable[[Any, Any], Any], pairs: Pairs) -> Checked:
    """Take the first try whose goal is not reached at s; by a check inside JAX or outside.

    C is 1 by definition at a reached goal, and such pairs can be most of a batch (a block nobody touched).
    """
    before = reached(pairs.achieved, pairs.goal)  # (..., tries)
    taken = before.argmin(-1)
    array: Any = np if isinstance(before, np.ndarray) else jnp
    pick = lambda x: array.take_along_axis(array.asarray(x), taken[..., None, None], -2)  # noqa: E731
    after = reached(pick(pairs.next_achieved), pick(pairs.goal))
    return Checked(taken, before.all(-1), after[..., 0])


def make_batch(buffer: Buffer, env: Any, config: Config, pairs: Pairs, checked: Checked) -> Batch:
    """Whole examples of the tries that were taken."""

    def example(pairs: Pairs, checked: Checked) -> Batch:
        drawn, _, next_achieved, goal, horizon = jax.tree.map(lambda x: x[checked.taken], pairs)
        bound = env.spec.step_bound if config.rule_out else None
        tdm = config.method == "tdm"
        return Batch(
            observation=buffer.observation[drawn.place],
            action=buffer.action[drawn.place],
            next_observation=buffer.observation[ring.later(buffer, drawn.place, jnp.int32(1))],
            goal=goal,
            horizon=horizon,
            reached_before=checked.before,
            reached=checked.after,
            dead=ring.is_last_dead(buffer, drawn) & config.dead_ends,
            min_steps=bound.min_steps(next_achieved, goal) if bound else jnp.zeros(()),
            distance=_scaled_distance(config, next_achieved, goal) if tdm else jnp.zeros(()),
        )

    return jax.vmap(example)(pairs, checked)


def _own_future(key: Array, buffer: Buffer, config: Config, drawn: Sample) -> tuple[Array, Array]:
    """A goal achieved later in the same episode, and in how many steps, where the network is told."""
    told = config.form == "sampled-horizon"
    most = jnp.minimum(drawn.remaining, config.max_horizon) if told else drawn.remaining
    steps = 1 + ring.below(key, (), most)
    return buffer.achieved[ring.later(buffer, drawn.place, steps)], steps


def _scaled_distance(config: Config, achieved: Array, goal: Array) -> Array:
    """L1, as temporal difference models have it (section 4)."""
    scale = jnp.array(config.goal_scale) if config.goal_scale else 1.0
    return jnp.abs((achieved - goal) * scale).sum()


def _sampled_horizon(key: Array, config: Config, progress: Array) -> Array:
    if config.form == "all-horizons":  # every horizon is backed up; one is drawn only to choose a goal
        return sample_horizon(key, config.max_horizon, config.goal_nearness, 0.0)
    return sample_horizon(key, config.max_horizon, config.kappa, progress)


def _episode_horizon_left(buffer: Buffer, config: Config, drawn: Sample) -> Array:
    """The horizon that the transition's own episode was given, less the steps it had taken."""
    iteration = buffer.episode[drawn.place] // config.parallel_envs
    step = (drawn.place - buffer.episode_start[drawn.episode]) % buffer.episode.size
    given = episode_horizon(iteration, config.max_horizon)
    return cycled_horizon(given, step, config.max_horizon).astype(jnp.int32)


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
