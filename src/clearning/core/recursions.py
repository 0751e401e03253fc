"""The target rules, each a few lines on one unbatched example.

A rule turns what is known of the next state s' into a target for (s, a, g, h). Its arguments are

- `reached`: G(s', g), 0 or 1 (or what a rule puts in its place, see `Rule.at_end`);
- `dead`: whether s' is absorbing, 0 or 1;
- `next_value`: the greedy value at s' with one step less. With no step left this is G(s', g) itself.

The rules are plain arithmetic, so they serve learners (jax arrays), exact dynamic programming (float64
numpy arrays) and any leading shape alike.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from clearning.types import Batch, Method

Target = Callable[[Any, Any, Any], Any]


class Rule(NamedTuple):
    """A method's target, the link from network output to value, and the loss between output and target."""

    target: Target | None
    """None where nothing is looked up at s': the action itself is what is learned."""
    link: Callable[[Array], Array]
    loss: Callable[[Array, Array], Array]
    at_goal: float | None
    """The value at a state that reaches the goal, where it is known and needs no learning."""
    at_end: Callable[[Batch], Array] = lambda x: x.reached
    """What counts when no step is left: whether s' reaches g, unless a method says otherwise."""
    dial: Literal["horizon", "discount", "none"] = "horizon"
    """What values depend on beside s, a and g; where it is no horizon, every target looks ahead."""
    bounds: tuple[float, float] | None = None
    """What a value can be, where the link does not see to it: next values beyond are brought back, or a
    maximum over what is learned of itself may grow without end."""


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


def never(gamma: Any) -> Any:
    """What it costs not to arrive at all, 1 for each step."""
    return -1 / (1 - gamma)


def steps_to_go(gamma: Any) -> Target:
    """Q of hindsight replay: each step costs 1 until the goal is reached, and being dead costs for ever."""

    def target(reached: Any, dead: Any, next_value: Any) -> Any:
        left = (1 - dead) * next_value + dead * never(gamma)
        return (1 - reached) * (gamma * left - 1)

    return target


def _same(output: Array) -> Array:
    return output


C_RULE = Rule(cumulative, jax.nn.sigmoid, optax.sigmoid_binary_cross_entropy, at_goal=1.0)
A_RULE = C_RULE._replace(target=exact, at_goal=None)
D_RULE = C_RULE._replace(dial="discount")
"""The network takes γ in place of h, and `discounted(γ)` is `cumulative` of γ times the next value."""
NAIVE_RULE = Rule(cumulative, _same, optax.squared_error, at_goal=1.0, bounds=(0.0, 1.0))
"""Naive horizon-aware Q (appendix F): the same values by the squared loss."""
TDM_RULE = Rule(
    exact, _same, optax.squared_error, at_goal=None, at_end=lambda x: -x.distance, bounds=(-math.inf, 0.0)
)
"""Temporal difference models: minus the distance from the goal after exactly h steps."""
GCSL_RULE = Rule(None, _same, optax.softmax_cross_entropy_with_integer_labels, at_goal=None)
"""Goal-conditioned supervised learning: logits of the action that was taken on the way to a goal."""


def cost_rule(gamma: float) -> Rule:
    """Q-learning with hindsight, rewards −1 and 0."""
    bounds = never(gamma), 0.0
    return Rule(steps_to_go(gamma), _same, optax.squared_error, at_goal=0.0, dial="none", bounds=bounds)


def rule_for(method: Method, discount: float) -> Rule:
    """The rule of a method by its name in a config."""
    rules: dict[Method, Rule] = {
        "c-learning": C_RULE,
        "a-learning": A_RULE,
        "d-learning": D_RULE,
        "naive-q": NAIVE_RULE,
        "gcsl": GCSL_RULE,
        "her": cost_rule(discount),
        "td3": cost_rule(discount),
        "tdm": TDM_RULE,
    }
    return rules[method]


def rule_out(next_value: Any, horizon: Any, min_steps: Any) -> Any:
    """Set the next value to 0 where h − 1 steps are known not to suffice (appendix F, stochastic scheme)."""
    return jnp.where(horizon - 1 < min_steps, 0.0, next_value)
