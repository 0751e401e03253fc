"""Which goal each sampled transition is trained for."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class GoalMix(NamedTuple):
    """Probabilities of the four sources of goals; they sum to one."""

    future: float  # achieved later in the same episode (hindsight)
    episode: float  # what the episode was after
    random: float  # drawn as the environment draws goals
    nearby: float  # drawn among goals not ruled out within the sampled horizon, whatever the episode


class GoalSources(NamedTuple):
    """How to draw a goal from each source for one transition, given a random key."""

    future: Callable[[Array], Array]
    episode: Callable[[Array], Array]
    random: Callable[[Array], Array]
    nearby: Callable[[Array], Array]


def draw_goal(key: Array, mix: GoalMix, sources: GoalSources, goal_key: Array | None = None) -> Array:
    """One goal from the mix. Only sources with a positive probability are evaluated.

    With a `goal_key` of its own, the goal varies while the source depends on `key` alone.
    """
    key_source, key_goal = jax.random.split(key)
    key_goal = key_goal if goal_key is None else goal_key
    named = [(p, source) for p, source in zip(mix, sources, strict=True) if p > 0]
    goal = named[0][1](key_goal)
    if len(named) == 1:
        return goal
    u = jax.random.uniform(key_source)
    passed = named[0][0]
    for p, source in named[1:]:
        goal = jnp.where(u < passed, goal, source(key_goal))
        passed += p
    return goal
