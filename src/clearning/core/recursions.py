"""The target rules, each a few lines on one unbatched example.

A rule turns what is known of the next state s' into a target for (s, a, g, h). Its arguments are

- `reached`: G(s', g), 0 or 1;
- `dead`: whether s' is absorbing, 0 or 1;
- `next_value`: the greedy value at s' with one step less. With no step left this is G(s', g) itself.

The rules are plain arithmetic, so they serve learners (jax arrays), exact dynamic programming (float64
numpy arrays) and any leading shape alike.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

Target = Callable[[Any, Any, Any], Any]


class Rule(NamedTuple):
    """A method's target, the link from network output to value, and the loss between output and target."""

    target: Target
    link: Callable[[Array], Array]
    loss: Callable[[Array, Array], Array]
    goal_is_terminal: bool
    """Whether the value at a state that reaches the goal is known (1) and needs no learning."""


def cumulative(reached: Any, dead: Any, next_value: Any) -> Any:
    """C: the probability of reaching the goal in at most h steps (eq. 3)."""
    return reached + (1 - reached) * (1 - dead) * next_value


def exact(reached: Any, dead: Any, next_value: Any) -> Any:
    """A: the probability of being at the goal after exactly h steps (appendix C); reaching ends nothing."""
    return dead * reached + (1 - dead) * next_value


def discounted(gamma: Any) -> Target:
    """D: γ^(T−1) for a first arrival at step T (appendix D)."""

    def target(reached: Any, dead: Any, next_value: Any) -> Any:
        return reached + gamma * (1 - reached) * (1 - dead) * next_value

    return target


def q_value(gamma: Any) -> Target:
    """Q: γ^T for a first arrival at step T (eq. 1 with the reward paid on arrival, as in figure 1b)."""

    def target(reached: Any, dead: Any, next_value: Any) -> Any:
        return gamma * cumulative(reached, dead, next_value)

    return target


C_RULE = Rule(cumulative, jax.nn.sigmoid, optax.sigmoid_binary_cross_entropy, goal_is_terminal=True)


def rule_out(next_value: Any, horizon: Any, min_steps: Any) -> Any:
    """Set the next value to 0 where h − 1 steps are known not to suffice (appendix F, stochastic scheme)."""
    return jnp.where(horizon - 1 < min_steps, 0.0, next_value)
