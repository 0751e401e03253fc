"""Horizons: how training draws them, and how a policy picks one."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

# Below this, the largest probability over all horizons is noise and no horizon is better than another.
NOISE_FLOOR = 1e-3


def horizon_log_weights(horizons: int, kappa: Any, progress: Any) -> Array:
    """Unnormalised log p(h) for h = 1..H: p(h) ∝ h^(−κ(1 − n/N)).

    Section 4, "reachability-guided sampling", with the exponent's sign as its words say: small h first.
    """
    return -kappa * (1.0 - progress) * jnp.log(jnp.arange(1, horizons + 1))


def sample_horizon(key: Array, horizons: int, kappa: Any, progress: Any) -> Array:
    """One horizon in 1..H, by inverting the distribution function: one random number, not H."""
    passed = jnp.cumsum(jax.nn.softmax(horizon_log_weights(horizons, kappa, progress)))
    return 1 + (jax.random.uniform(key) >= passed[:-1]).sum()


def episode_horizon(iteration: Any, horizons: int) -> Array:
    """The horizon that naive horizon-aware Q gives to the episodes of an iteration, uniform in 1..H."""
    return jax.random.randint(jax.random.fold_in(jax.random.key(0), iteration), (), 1, horizons + 1)


def smallest_safe_horizon(best: Array, alpha: Any, min_steps: Any = 0) -> Array:
    """h_α: the smallest h whose value is at least α times the largest over all h (section 3.2).

    `best` is max_a C(s, a, g, h) for h = 1..H. Horizons below `min_steps` are left out. Where the largest
    value is noise, the answer is H: with nothing to choose by, take the time there is.
    """
    horizons = jnp.arange(1, best.shape[-1] + 1)
    best = jnp.where(horizons < min_steps, 0.0, best)
    largest = best.max(-1)
    first = 1 + jnp.argmax(best >= alpha * largest, axis=-1)
    return jnp.where(largest < NOISE_FLOOR, best.shape[-1], first)


def voted_action(values: Array, horizon: Any, reach: int) -> Array:
    """The action with the largest value summed over the horizons within `reach` of one; (actions, H) in.

    Neighbouring horizons nearly agree on the best action but not on their errors, so a small reach takes out
    noise. With reach 0 it is the greedy action at the horizon (eq. 4).
    """
    horizons = jnp.arange(1, values.shape[-1] + 1)
    votes = jnp.abs(horizons - horizon) <= reach
    return jnp.where(votes, values, 0.0).sum(-1).argmax()


def horizon_left(horizon: Any, step: Any) -> Any:
    """The fixed-h policy's horizon at a step: h falls by one each step and never below 1."""
    return jnp.maximum(horizon - step, 1)


def cycled_horizon(horizon: Any, step: Any, horizons: int) -> Any:
    """The same where an episode goes on when its horizon has run out: the next step starts again from H."""
    return 1 + (horizon - 1 - step) % horizons


def minimum_horizon(best: Array, probability: Any) -> Array:
    """The smallest h whose value is at least `probability`, or 0 where no h up to H has it."""
    enough = best >= probability
    return jnp.where(enough.any(-1), 1 + jnp.argmax(enough, axis=-1), 0)
