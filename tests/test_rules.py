"""The target rules on random worlds: in expectation over s', each gives the values that it stands for."""

import itertools
from types import SimpleNamespace
from typing import get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from conftest import finite_mdps
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from jax import Array

from clearning.agents.discrete import example_target
from clearning.agents.learner import target_from
from clearning.core.recursions import (
    A_RULE,
    C_RULE,
    D_RULE,
    NAIVE_RULE,
    TDM_RULE,
    cost_rule,
    exact,
    rule_for,
    steps_to_go,
)
from clearning.core.tabular import (
    FiniteMDP,
    optimal_a,
    optimal_c,
    optimal_c_at,
    optimal_c_from,
    optimal_c_last,
    optimal_d,
)
from clearning.types import Batch, Method

H, STATES, ACTIONS = 4, 4, 2
WORLDS = {
    "states": (STATES, STATES),
    "actions": (ACTIONS, ACTIONS),
    "identity": True,
}  # one shape: compiled once
GAMMAS = [0.3, 0.7, 0.95]


class Exact(eqx.Module):
    """A network that knows all values (states, goals, actions, H); states and goals are numbers."""

    values: Array

    def backed_up(self, horizon):
        return jnp.arange(1, H + 1)

    def before(self, observation, goal, horizon):
        return self.values[observation.astype(int)[0], goal.astype(int)[0]]

    def shift(self, values):
        return jnp.roll(values, 1)


def every_outcome(mdp: FiniteMDP, distance: np.ndarray | None = None) -> Batch:
    """An example for every s' and goal."""
    after, goal = (x.ravel() for x in np.meshgrid(np.arange(STATES), np.arange(STATES), indexing="ij"))
    none = np.zeros(len(after))
    return Batch(
        observation=none[:, None],
        action=none.astype(int),
        next_observation=after[:, None].astype(np.float32),
        goal=goal[:, None].astype(np.float32),
        horizon=none.astype(int),
        reached_before=none.astype(bool),
        reached=mdp.reached[after, goal],
        dead=mdp.dead[after],
        min_steps=none,
        distance=none if distance is None else distance[after, goal],
    )


@jax.jit
def c_targets(values, batch):
    return jax.vmap(lambda x: example_target(C_RULE, Exact(values), Exact(values), x))(batch)


@jax.jit
def a_targets(values, batch):
    return jax.vmap(lambda x: example_target(A_RULE, Exact(values), Exact(values), x))(batch)


def in_expectation(mdp: FiniteMDP, targets: Array) -> np.ndarray:
    """Targets (s' and goal, H) as values [h − 1, s, a, g]."""
    by_outcome = np.asarray(targets).reshape(STATES, STATES, H)
    return np.einsum("iaj,jgh->hiag", mdp.transition, by_outcome)


def logits(values: np.ndarray) -> np.ndarray:
    """Of values [h − 1, s, a, g], as (states, goals, actions, H)."""
    kept = np.clip(values, 1e-12, 1 - 1e-7)
    return np.log(kept / (1 - kept)).transpose(1, 3, 2, 0).astype(np.float32)


@given(finite_mdps(**WORLDS))
def test_targets_of_exact_values_are_the_exact_values(mdp):
    """What a learner is given, wherever its network is right already, leaves it right."""
    batch = every_outcome(mdp)
    c, a = optimal_c(mdp, H), optimal_a(mdp, H)
    there = np.broadcast_to(mdp.reached[:, None, :], c[0].shape)
    found = in_expectation(mdp, c_targets(logits(c), batch))
    np.testing.assert_allclose(found[:, ~there], c[:, ~there], atol=1e-5)
    np.testing.assert_allclose(in_expectation(mdp, a_targets(logits(a), batch)), a, atol=1e-5)


@given(finite_mdps(), st.sampled_from(GAMMAS))
def test_hindsight_costs_are_discounted_arrivals(mdp, gamma):
    """Q with rewards −1 and 0 is (D − 1) / (1 − γ), the best policy's in any world."""
    best, rule = np.zeros(mdp.reached.shape), steps_to_go(gamma)
    for _ in range(600):
        value = np.asarray(mdp.backup(rule, best))
        best = np.where(mdp.reached, 0.0, value.max(1))
    d = optimal_d(mdp, gamma)
    here = np.broadcast_to(mdp.reached[:, None, :], d.shape)
    np.testing.assert_allclose(value[~here], (d[~here] - 1) / (1 - gamma), atol=1e-4)
    assert rule_for("her", gamma).dial == rule_for("td3", gamma).dial == "none"


@settings(max_examples=15)
@given(finite_mdps(states=(2, 3), actions=(1, 2)), st.data())
def test_distance_rule_is_the_least_distance_after_h_steps(mdp, data):
    """Temporal difference models against every policy of the steps left."""
    states, actions, _ = mdp.transition.shape
    away = data.draw(hnp.arrays(np.float64, mdp.reached.shape, elements=st.integers(0, 5)))
    value = np.einsum("iaj,jg->iag", mdp.transition, -away)
    for _ in range(2):
        targets = exact(-away, mdp.dead[:, None], value.max(1))
        value = np.einsum("iaj,jg->iag", mdp.transition, targets)
    best = np.full(value.shape, -np.inf)
    for choice in itertools.product(range(actions), repeat=2 * states):
        one_hot = np.eye(actions)[np.reshape(choice, (2, states))]
        step = np.einsum("hia,iaj->hij", one_hot, mdp.transition)
        best = np.maximum(best, mdp.transition @ step[1] @ step[0] @ -away)
    np.testing.assert_allclose(value, best, atol=1e-9)
    assert TDM_RULE.target is exact
    assert TDM_RULE.at_goal is None


@given(finite_mdps(), st.sampled_from(GAMMAS))
def test_d_rule_takes_the_discount_as_its_horizon(mdp, gamma):
    """`D_RULE` is C's target of γ times the next value, which is D's."""
    best = optimal_d(mdp, gamma).max(1)
    found = np.where(mdp.reached[:, None], 1.0, mdp.backup(D_RULE.target, gamma * best))
    np.testing.assert_allclose(found, optimal_d(mdp, gamma), atol=1e-9)


@given(finite_mdps(), st.data())
def test_ways_to_ask_for_exact_values_agree(mdp, data):
    whole = optimal_c(mdp, H)
    state = data.draw(st.integers(0, len(mdp.dead) - 1))
    np.testing.assert_array_equal(optimal_c_from(mdp, state, H), whole[:, state].max(1))
    np.testing.assert_array_equal(optimal_c_last(mdp, H), whole[-1])
    questions = st.tuples(*(st.integers(0, n - 1) for n in (*mdp.reached.shape, H)))
    s, g, h = np.array(data.draw(st.lists(questions, min_size=1, max_size=5))).T
    np.testing.assert_array_equal(optimal_c_at(mdp, s, g, h + 1), whole[h, s, :, g].max(-1))


@given(finite_mdps(), st.sampled_from(GAMMAS))
def test_values_of_more_time_or_patience_are_larger(mdp, gamma):
    d, more = optimal_d(mdp, gamma), optimal_d(mdp, min(gamma + 0.04, 0.99))
    assert (more - d).min() >= -1e-9
    # An arrival within h steps is worth at least γ^(h−1).
    c = optimal_c(mdp, H)
    for h in range(1, H + 1):
        assert (d - gamma ** (h - 1) * c[h - 1]).min() >= -1e-9


def bounded_target(rule, next_value, **known):
    """A target four steps from the end."""
    x = SimpleNamespace(**{"reached": 0.0, "dead": 0.0, "distance": 3.0, "min_steps": 0.0, **known})
    x.reached, x.distance = jnp.float32(x.reached), jnp.float32(x.distance)
    return float(target_from(rule, jnp.int32(4), jnp.float32(next_value), x))


def test_targets_are_kept_to_what_values_can_be():
    """A learned value may leave it; its target does not."""
    costs = cost_rule(0.75)  # worst: −4
    for value, expected in ((5.0, -1.0), (-100.0, -4.0), (-2.0, -2.5)):
        assert bounded_target(costs, value) == expected
    assert bounded_target(costs, 0.0, dead=1.0) == -4.0
    assert bounded_target(costs, -2.0, reached=1.0, dead=1.0) == 0.0
    for value, expected in ((5.0, 1.0), (0.25, 0.25), (-2.0, 0.0)):
        assert bounded_target(NAIVE_RULE, value) == expected
    for value, expected in ((5.0, 0.0), (-0.25, -0.25), (-1e6, -1e6)):
        assert bounded_target(TDM_RULE, value) == expected


def test_what_is_known_at_a_reached_goal():
    known = {m: rule_for(m, 0.9).at_goal for m in get_args(Method)}
    assert known == {
        "c-learning": 1.0,
        "a-learning": None,
        "d-learning": 1.0,
        "naive-q": 1.0,
        "gcsl": None,
        "her": 0.0,
        "td3": 0.0,
        "tdm": None,
    }
    x = every_outcome(FiniteMDP(np.eye(4)[:, None], np.eye(4, dtype=bool), np.zeros(4, bool)), 2 * np.eye(4))
    np.testing.assert_array_equal(rule_for("tdm", 0.9).at_end(x), -x.distance)
    np.testing.assert_array_equal(rule_for("c-learning", 0.9).at_end(x), x.reached)
    assert (
        rule_for("tdm", 0.9).link(jnp.float32(-3.0)) == rule_for("her", 0.9).link(jnp.float32(-3.0)) == -3.0
    )
