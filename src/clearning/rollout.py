"""Collectors: policies acting in environments, finished episodes out.

`collect` runs a functional environment inside jit, `collect_external` steps Gymnasium environments from
outside; both give the same arrays.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning import buffer as ring
from clearning.buffer import Buffer
from clearning.config import Config
from clearning.core.horizons import cycled_horizon, horizon_left, smallest_safe_horizon, voted_action
from clearning.core.recursions import rule_for
from clearning.envs.external import ExternalEnv
from clearning.errors import UsageError
from clearning.types import EnvSpec, Episodes, GoalEnv, Method

# (key, observation, goal, step) -> action, for one observation.
Policy = Callable[[Array, Array, Array, Array], Array]
GoalDraw = Callable[[Array], Array]  # key -> goal
CANDIDATES = 32  # goals among which an episode at the frontier chooses


class Dial(NamedTuple):
    """How a policy picks its horizon at each step.

    With `horizon` 0 it is h_α, chosen anew at each step, and the horizons within `vote` of it choose the
    action together. Otherwise it is `horizon`, held where `receding`, or counted down; having run out it
    stays at 1, or starts `again` from H. D-learning's is none of these but a `discount`. Actions are the best
    at that horizon, or `drawn`, for outputs that are logits of a policy.
    """

    alpha: Any = 0.9
    horizon: Any = 0
    receding: bool = False
    again: bool = False
    vote: int = 0
    method: Method = "c-learning"
    discount: Any = None
    drawn: bool = False


def dials(config: Config) -> tuple[str, ...]:
    """What can be asked of a config's agent when it acts."""
    if config.method == "d-learning":
        return ("discount",)
    if config.method == "tdm" or (config.method == "gcsl" and config.form == "sampled-horizon"):
        return ("horizon",)
    return () if config.method in ("her", "td3", "gcsl") else ("horizon", "alpha")


def check_dial(config: Config, name: str) -> None:
    """Refuse a dial that a config's agent does not have."""
    known = dials(config)
    if name not in known:
        by = f"it acts by {' or '.join(known)}" if known else "it acts in one way only"
        raise UsageError(f"An agent trained by {config.method} has no {name}: {by}.")


def own_dial(config: Config) -> Dial:
    """How a config's agent acts unless told otherwise.

    With a horizon but no alpha, it counts down from H, again and again.
    """
    known = dials(config)
    horizon = config.max_horizon if known == ("horizon",) else 0
    discount = config.discount if "discount" in known else None
    return Dial(
        config.alpha, horizon, again=horizon > 0, vote=config.vote, method=config.method, discount=discount
    )


def dial_policy(
    network: Any,
    spec: EnvSpec,
    dial: Dial,
    epsilon: Any = 0.0,
    skip_ruled_out: bool = False,
    noise: float = 0.0,
) -> Policy:
    """Greedy in C at the dial's horizon, with a random action now and then; with noise where continuous."""
    link = rule_for(dial.method, 0.5).link  # no link depends on the discount

    def act(key: Array, observation: Array, goal: Array, step: Array) -> Array:
        if dial.discount is None:
            outputs = network.curve(observation, goal)  # (actions or proposals, H)
        else:
            outputs = network.at(observation, goal, jnp.asarray(dial.discount)[None])  # (actions, 1)
        values = link(outputs)
        horizon = dial_horizon(values, spec, dial, observation, goal, step, skip_ruled_out)
        greedy = voted_action(values, horizon, dial.vote)
        key_coin, key_action = jax.random.split(key)
        if dial.drawn:
            greedy = jax.random.categorical(key_action, outputs[:, horizon - 1])
        explore = jax.random.uniform(key_coin) < epsilon
        if not spec.continuous:
            return jnp.where(explore, jax.random.randint(key_action, (), 0, len(values)), greedy)
        action = network.propose(observation, goal, greedy, horizon)
        key_action, key_noise = jax.random.split(key_action)
        noisy = jnp.clip(action + noise * jax.random.normal(key_noise, action.shape), -1.0, 1.0)
        return jnp.where(explore, jax.random.uniform(key_action, action.shape, minval=-1.0), noisy)

    return act


def batched_policy(
    network: Any,
    spec: EnvSpec,
    config: Config,
    dial: Dial,
    key: Array,
    epsilon: Any = 0.0,
    noise: float = 0.0,
) -> Callable[[np.ndarray, np.ndarray, int], np.ndarray]:
    """A dial's policy for many observations at a time, to be called from outside JAX."""
    weights, rest = eqx.partition(network, eqx.is_array)
    fixed = isinstance(dial.horizon, int)  # a horizon that varies from call to call must not recompile
    static = dial._replace(alpha=0.0, horizon=dial.horizon if fixed else -1)
    act = _compiled_policy(_Static(rest), spec, static, config.skip_ruled_out, noise)
    varying = (jnp.float32(dial.alpha), jnp.int32(dial.horizon))
    return lambda s, g, t: np.asarray(act(weights, key, epsilon, s, g, t, varying))


class _Static(NamedTuple):
    """The parts of a network that are not arrays, compared by their structure."""

    rest: Any

    def __hash__(self) -> int:
        return hash(jax.tree.structure(self.rest))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static) and eqx.tree_equal(self.rest, other.rest) is True


@lru_cache(maxsize=32)
def _compiled_policy(static: _Static, spec: EnvSpec, dial: Dial, skip: bool, noise: float) -> Callable:
    @jax.jit
    def act(weights: Any, key: Array, epsilon: Any, s: Array, g: Array, t: Array, varying: Any) -> Array:
        alpha, horizon = varying
        now = dial._replace(alpha=alpha, horizon=horizon if dial.horizon else 0)
        policy = dial_policy(eqx.combine(weights, static.rest), spec, now, epsilon, skip, noise)
        keys = jax.random.split(jax.random.fold_in(key, t), s.shape[0])
        return jax.vmap(policy, in_axes=(0, 0, 0, None))(keys, s, g, t)

    return act


def dial_horizon(
    values: Array,
    spec: EnvSpec,
    dial: Dial,
    observation: Array,
    goal: Array,
    step: Array | int,
    skip_ruled_out: bool,
) -> Array:
    """The horizon that a dial picks, given C for every horizon and action."""
    if not isinstance(dial.horizon, int) or dial.horizon:
        if dial.again:
            return jnp.asarray(cycled_horizon(dial.horizon, step, values.shape[-1]))
        return jnp.asarray(dial.horizon if dial.receding else horizon_left(dial.horizon, step))
    ruled_out: Any = 0
    if skip_ruled_out and spec.step_bound and spec.goal_check:
        ruled_out = spec.step_bound.min_steps(spec.goal_check.achieved(observation), goal)
    return smallest_safe_horizon(values.max(0), dial.alpha, ruled_out)


def collect(
    env: GoalEnv,
    policy: Policy,
    key: Array,
    state: Any,
    goal: Array,
    max_steps: int,
    new_goal: GoalDraw | None = None,
    end_at_success: bool = True,
) -> Episodes:
    """Run one episode from each of N states after its goal; all of it inside jit.

    An episode ends when it dies, has taken `max_steps` or has reached its goal, unless it then goes on, maybe
    after a `new_goal`. The loop ends with the longest.
    """
    count = goal.shape[0]
    spec = env.spec

    def body(carry: tuple) -> tuple:
        t, state, pursued, running, length, success, observations, achieved, actions = carry
        keys = jax.vmap(lambda i: jax.random.fold_in(jax.random.fold_in(key, t), i))(jnp.arange(count))
        key_act, key_step, key_goal = jax.vmap(lambda k: jax.random.split(k, 3), out_axes=1)(keys)
        observation = observations[t]
        action = jax.vmap(policy, in_axes=(0, 0, 0, None))(key_act, observation, pursued, t)
        moved = jax.vmap(env.step)(key_step, state, spec.in_bounds(action) if spec.continuous else action)
        state = jax.tree.map(lambda new, old: _where(running, new, old), moved, state)
        now = jax.vmap(env.achieved_goal)(state)
        observations = observations.at[t + 1].set(jax.vmap(env.observe)(state))
        achieved = achieved.at[t + 1].set(now)
        actions = actions.at[t].set(action)
        length = length + running
        hit = running & jax.vmap(env.reached)(now, pursued)
        success = success | hit
        running = running & ~jax.vmap(env.is_dead)(state)
        if new_goal:
            # Drawing may mean a look through the whole buffer: not at each step.
            redrawn = lambda draw=new_goal: _where(hit, jax.vmap(draw)(key_goal), pursued)  # noqa: E731
            pursued = jax.lax.cond(hit.any(), redrawn, lambda: pursued)
        elif end_at_success:
            running = running & ~hit
        return t + 1, state, pursued, running, length, success, observations, achieved, actions

    start_achieved = jax.vmap(env.achieved_goal)(state)
    start = (
        jnp.int32(0),
        state,
        goal,
        jnp.ones(count, bool),
        jnp.zeros(count, jnp.int32),
        jnp.zeros(count, bool),
        jnp.zeros((max_steps + 1, count, spec.observation_size)).at[0].set(jax.vmap(env.observe)(state)),
        jnp.zeros((max_steps + 1, count, spec.goal_size)).at[0].set(start_achieved),
        jnp.zeros((max_steps, count, *spec.action_shape), spec.action_dtype),
    )
    end = jax.lax.while_loop(lambda c: (c[0] < max_steps) & c[3].any(), body, start)
    _, state, _, _, length, success, observations, achieved, actions = end
    return Episodes(
        observation=observations.swapaxes(0, 1),
        achieved=achieved.swapaxes(0, 1),
        action=actions.swapaxes(0, 1),
        goal=goal,
        length=length,
        dead=jax.vmap(env.is_dead)(state),
        success=success,
    )


def collect_external(
    env: ExternalEnv,
    policy: Callable[[np.ndarray, np.ndarray, int], Any],
    seeds: np.ndarray,
    max_steps: int,
    end_at_success: bool = True,
    choose_goals: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> Episodes:
    """Run one episode for each seed, all from their start, and each to its own end.

    The policy sees all episodes at once; finished ones are no longer stepped, and a reset is never a step.
    Goals are the environment's unless `choose_goals` (observations, achieved, desired) gives others.
    """
    count, spec = len(seeds), env.spec
    pool = env.pool(count)
    seen = pool.reset(seeds)
    goal = choose_goals(seen.observation, seen.achieved, seen.desired) if choose_goals else seen.desired
    own = seen.desired  # what the environment itself ends an episode for
    observations = np.zeros((count, max_steps + 1, spec.observation_size), np.float32)
    achieved = np.zeros((count, max_steps + 1, spec.goal_size), np.float32)
    actions = np.zeros((count, max_steps, *spec.action_shape), spec.action_dtype)
    observations[:, 0], achieved[:, 0] = seen.observation, seen.achieved
    length = np.zeros(count, np.int32)
    success, dead, running = np.zeros(count, bool), np.zeros(count, bool), np.ones(count, bool)
    for t in range(max_steps):
        which = np.flatnonzero(running)
        if not len(which):
            break
        actions[:, t] = policy(observations[:, t], goal, t)
        chosen = actions[which, t]
        seen = pool.step(which, spec.in_bounds(chosen) if spec.continuous else chosen)
        observations[which, t + 1], achieved[which, t + 1] = seen.observation, seen.achieved
        length[which] += 1
        hit = env.reached(seen.achieved, goal[which])
        success[which] |= hit
        # An end without success is death, unless the environment says otherwise.
        failed = seen.terminated & ~hit
        if failed.any():
            failed &= ~env.reached(seen.achieved, own[which])
        dead[which] = np.where(seen.dead >= 0, seen.dead == 1, failed)
        running[which] = ~(seen.terminated | seen.truncated | dead[which] | (hit & end_at_success))
    return Episodes(observations, achieved, actions, goal, length, dead, success)  # pyright: ignore[reportArgumentType]


def _where(mask: Array, new: Array, old: Array) -> Array:
    return jnp.where(mask.reshape(mask.shape + (1,) * (new.ndim - mask.ndim)), new, old)


def rare_goal(env: GoalEnv, buffer: Buffer, candidates: int) -> GoalDraw:
    """Draws goals as the environment does and keeps the one that the buffer's transitions reached least."""
    if candidates == 1:
        return env.sample_goal
    achieved, held = ring.arrivals(buffer)

    def times_reached(goal: Array) -> Array:
        return (held & jax.vmap(lambda x: env.reached(x, goal))(achieved)).sum()

    def draw(key: Array) -> Array:
        goals = jax.vmap(env.sample_goal)(jax.random.split(key, candidates))
        return goals[jax.vmap(times_reached)(goals).argmin()]

    return draw


def frontier_goals(reached: Callable[[Any, Any], np.ndarray], share: float) -> Callable[..., np.ndarray]:
    """Goals at the edge of what can be reached, for a share of the episodes; the rest keep their own.

    A goal that C holds sure teaches nothing and one it holds hopeless is not reached: of some that were
    achieved before, the one with C nearest to a half. Where nothing is moved at random, this is where the
    first movements come from.
    """

    @eqx.filter_jit
    def candidates(network: Any, buffer: Buffer, key: Array, observation: Array) -> tuple[Array, ...]:
        def one(key: Array, s: Array) -> tuple[Array, Array, Array]:
            key_coin, key_goals = jax.random.split(key)
            goals = ring.sample_achieved(key_goals, buffer, CANDIDATES)
            chance = jax.nn.sigmoid(jax.vmap(lambda g: network.curve(s, g).max(0)[-1])(goals))
            return goals, jnp.abs(chance - 0.5), jax.random.uniform(key_coin) < share

        return jax.vmap(one)(jax.random.split(key, len(observation)), observation)

    def choose(
        network: Any, buffer: Buffer, key: Array, observation: Any, achieved: Any, desired: Any
    ) -> np.ndarray:
        goals, from_half, ventures = map(np.asarray, candidates(network, buffer, key, observation))
        here = reached(achieved[:, None], goals)  # (N, CANDIDATES)
        best = np.where(here, np.inf, from_half).argmin(1)
        return np.where(ventures[:, None], goals[np.arange(len(goals)), best], desired)

    return choose


def training_starts(
    env: GoalEnv, key: Array, count: int, draw_goal: GoalDraw | None = None
) -> tuple[Any, Array]:
    """States and goals, as the environment draws them unless told; a goal reached at the start is redrawn."""
    draw = draw_goal or env.sample_goal

    def one(key: Array) -> tuple[Any, Array]:
        key_state, *keys_goal = jax.random.split(key, 5)
        state = env.initial_state(key_state)
        achieved = env.achieved_goal(state)
        goal = draw(keys_goal[0])
        for k in keys_goal[1:]:
            goal = jnp.where(env.reached(achieved, goal), draw(k), goal)
        return state, goal

    return jax.vmap(one)(jax.random.split(key, count))
