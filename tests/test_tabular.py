"""Exact dynamic programming: the paper's propositions, brute force, and worlds with known answers."""

import itertools
from dataclasses import FrozenInstanceError
from functools import cache

import numpy as np
import pytest
from conftest import finite_mdps
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from clearning.core import tabular
from clearning.core.tabular import (
    FiniteMDP,
    estimate_mdp,
    optimal_a,
    optimal_c,
    optimal_d,
    optimal_q,
    policy_c,
)
from clearning.envs import FrozenLake

H = 6
SMALL = {"states": (2, 3), "actions": (1, 2)}


def reached_within(mdp: FiniteMDP, s: int, a: int, g: int, policy: np.ndarray, horizon: int) -> float:
    """P(some s_t with t <= h reaches g) under π[h − 1, s, g, a], by pushing probability forward in time."""
    going = np.eye(len(mdp.dead))[s] * ~mdp.reached[:, g]
    arrived = 1.0 - going.sum()
    choice = np.tile(np.eye(mdp.transition.shape[1])[a], (len(mdp.dead), 1))
    for left in range(horizon - 1, -1, -1):
        going = np.einsum("i,ia,iaj->j", going, choice, mdp.transition)
        arrived += going[mdp.reached[:, g]].sum()
        going = np.where(mdp.reached[:, g], 0.0, going)
        choice = policy[left - 1, :, g]
    return arrived


def greedy(values: np.ndarray) -> np.ndarray:
    """One-hot π[h − 1, s, g, a] that maximises values [h − 1, s, a, g]."""
    return np.eye(values.shape[2])[values.argmax(2)]


def test_as_many_rounds_as_given_look_as_many_steps_ahead():
    """A row of five cells along which one goes right: after k rounds, k cells know of its end."""
    row = FiniteMDP(np.eye(5)[[[1], [2], [3], [4], [4]]], np.eye(5, dtype=bool), np.zeros(5, bool))
    known = [optimal_d(row, 0.5, rounds=rounds)[:, 0, 4].tolist() for rounds in (1, 2, 9)]
    assert known == [[0, 0, 0, 1, 1], [0, 0, 0.5, 1, 1], [0.125, 0.25, 0.5, 1, 1]]


def first_arrival(mdp: FiniteMDP, g: int) -> np.ndarray:
    """T(s, a): steps to g in a deterministic world when a is taken first; breadth-first from the goal."""
    successor = mdp.transition.argmax(-1)
    distance = np.where(mdp.reached[:, g], 0.0, np.inf)
    frontier = set(np.flatnonzero(mdp.reached[:, g]).tolist())
    steps = 0
    while frontier:
        steps += 1
        found = [s for s in range(len(distance)) if np.isinf(distance[s]) and frontier & {*successor[s]}]
        distance[found] = steps
        frontier = set(found)
    return 1 + distance[successor]


@given(finite_mdps())
def test_proposition_1_fixed_point(mdp):
    c = optimal_c(mdp, H)
    for (s, g), h in itertools.product(np.ndindex(*mdp.reached.shape), range(1, H + 1)):
        next_best = mdp.reached[:, g] if h == 1 else c[h - 2, :, :, g].max(1)
        for a in range(mdp.transition.shape[1]):
            expected = 1.0 if mdp.reached[s, g] else mdp.transition[s, a] @ next_best
            assert c[h - 1, s, a, g] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=15)
@given(finite_mdps(**SMALL))
def test_proposition_1_best_of_all_policies(mdp):
    """C* is the best over every deterministic policy that may depend on the state and the steps left."""
    states, actions, _ = mdp.transition.shape
    horizon = 3
    c = optimal_c(mdp, horizon)
    best = np.zeros(c[-1].shape)
    for choice in itertools.product(range(actions), repeat=states * (horizon - 1)):
        one_hot = np.eye(actions)[np.reshape(choice, (horizon - 1, states))]
        policy = np.repeat(one_hot[:, :, None], mdp.reached.shape[1], axis=2)
        for s, a, g in np.ndindex(*best.shape):
            best[s, a, g] = max(best[s, a, g], reached_within(mdp, s, a, g, policy, horizon))
    np.testing.assert_allclose(c[-1], best, atol=1e-12)


@given(finite_mdps())
def test_proposition_2_and_bounds(mdp):
    c, a = optimal_c(mdp, H), optimal_a(mdp, H)
    assert c.shape == (H, *mdp.transition.shape[:2], mdp.reached.shape[1])
    assert c.min() >= 0.0
    assert c.max() <= 1.0 + 1e-12
    assert np.diff(c, axis=0).min() >= -1e-12
    assert (c - a).min() >= -1e-12
    assert a.min() >= 0.0


@given(finite_mdps())
def test_dead_states_reach_only_what_they_are(mdp):
    c, a = optimal_c(mdp, H), optimal_a(mdp, H)
    expected = np.broadcast_to(mdp.reached[mdp.dead][None, :, None, :], c[:, mdp.dead].shape)
    np.testing.assert_array_equal(c[:, mdp.dead], expected)
    np.testing.assert_array_equal(a[:, mdp.dead], expected)


@settings(max_examples=15)
@given(finite_mdps(**SMALL))
def test_optimal_a_is_the_best_exact_arrival(mdp):
    """A* against every policy of the steps left, the law of s_h pushed forward; reaching ends nothing."""
    states, actions, _ = mdp.transition.shape
    horizon = 3
    a_star = optimal_a(mdp, horizon)
    best = np.zeros(a_star[-1].shape)
    for choice in itertools.product(range(actions), repeat=states * (horizon - 1)):
        one_hot = np.eye(actions)[np.reshape(choice, (horizon - 1, states))]
        step = np.einsum("hia,iaj->hij", one_hot, mdp.transition)
        law = mdp.transition @ step[1] @ step[0]
        best = np.maximum(best, law @ mdp.reached)
    np.testing.assert_allclose(a_star[-1], best, atol=1e-12)


@given(finite_mdps(deterministic=True))
def test_deterministic_worlds_are_shortest_paths(mdp):
    c, gamma = optimal_c(mdp, H), 0.8
    d, q = optimal_d(mdp, gamma), optimal_q(mdp, gamma)
    for g in range(mdp.reached.shape[1]):
        steps = first_arrival(mdp, g)
        here = mdp.reached[:, g, None]
        for h in range(1, H + 1):
            np.testing.assert_array_equal(c[h - 1, :, :, g], np.where(here, 1.0, steps <= h))
        np.testing.assert_allclose(d[:, :, g], np.where(here, 1.0, gamma ** (steps - 1)), atol=1e-10)
        np.testing.assert_allclose(q[:, :, g], np.where(here, 1.0, gamma**steps), atol=1e-10)


@given(finite_mdps(), st.sampled_from([0.5, 0.9, 0.99]))
def test_q_is_gamma_d(mdp, gamma):
    d, q = optimal_d(mdp, gamma), optimal_q(mdp, gamma)
    here = np.broadcast_to(mdp.reached[:, None, :], d.shape)
    np.testing.assert_allclose(q[~here], gamma * d[~here], atol=1e-8)
    assert (q[here] == 1.0).all()
    assert (d[here] == 1.0).all()


@given(finite_mdps(), st.data())
def test_policy_c_of_any_policy(mdp, data):
    states, actions, _ = mdp.transition.shape
    shape = (4, states, mdp.reached.shape[1], actions)
    weight = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(1, 4))).astype(np.float64)
    policy = weight / weight.sum(-1, keepdims=True)
    values = policy_c(mdp, policy)
    assert values.shape == (4, states, actions, mdp.reached.shape[1])
    for h, s, a, g in np.ndindex(*values.shape):
        expected = reached_within(mdp, s, a, g, policy, h + 1)
        assert values[h, s, a, g] == pytest.approx(expected, abs=1e-12)
    assert (optimal_c(mdp, 4) - values).min() >= -1e-12


@given(finite_mdps())
def test_greedy_policy_attains_the_optimum(mdp):
    c = optimal_c(mdp, H)
    np.testing.assert_allclose(policy_c(mdp, greedy(c)), c, atol=1e-12)


def line(cells: int) -> FiniteMDP:
    """Cells in a row; action 0 steps left, action 1 right, and the ends hold."""
    successor = np.clip(np.arange(cells)[:, None] + [-1, 1], 0, cells - 1)
    return FiniteMDP(np.eye(cells)[successor], np.eye(cells, dtype=bool), np.zeros(cells, bool))


def test_a_perverse_policy_does_worse_with_more_time():
    """The three-state example of appendix A: C^π(0, +1, 2, ·) is 1 at h = 2 and 0 at h = 3."""
    policy = np.zeros((3, 3, 3, 2))
    policy[..., 1] = 1.0  # right by default; π(· | s, g, 3) is never asked for C^π up to h = 3
    policy[1, 1, 2] = [1.0, 0.0]  # but left at s = 1 with two steps left
    values = policy_c(line(3), policy)
    np.testing.assert_array_equal(values[:, 0, 1, 2], [0.0, 1.0, 0.0])
    np.testing.assert_array_equal(optimal_c(line(3), 3)[:, 0, 1, 2], [0.0, 1.0, 1.0])


def test_a_fluctuates_where_c_does_not():
    # On a line one comes back only after an even number of steps, or by leaning on an end.
    a = optimal_a(line(9), 4)[:, 4, :, 5].max(1)
    np.testing.assert_array_equal(a, [1.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(optimal_c(line(9), 4)[:, 4, :, 5].max(1), 1.0)


def grid(width: int, height: int) -> FiniteMDP:
    """A deterministic grid, cell (x, y) numbered x·height + y; up, right, down, left."""
    x, y = np.divmod(np.arange(width * height), height)
    to_x = np.clip(x[:, None] + [0, 1, 0, -1], 0, width - 1)
    to_y = np.clip(y[:, None] + [1, 0, -1, 0], 0, height - 1)
    n = width * height
    return FiniteMDP(np.eye(n)[to_x * height + to_y], np.eye(n, dtype=bool), np.zeros(n, bool))


def test_figure_1b():
    """Five steps to the goal: Q* hardly tells a step away from a step towards it, and C* does at h = 5."""
    mdp = grid(6, 4)
    s, g = 1 * 4 + 1, 4 * 4 + 3  # (1, 1) and (4, 3): |4 − 1| + |3 − 1| = 5
    q = optimal_q(mdp, 0.99)[s, :, g]
    np.testing.assert_allclose(q, [0.99**5, 0.99**5, 0.99**7, 0.99**7], rtol=1e-10)
    c = optimal_c(mdp, 7)[:, s, :, g]
    np.testing.assert_array_equal(c[4], [1.0, 1.0, 0.0, 0.0])
    np.testing.assert_array_equal(c[3], 0.0)
    np.testing.assert_array_equal(c[6], 1.0)


def test_one_stochastic_step_by_hand():
    """Each try succeeds with 1/4, kills with 1/4, stays with 1/2: C(h) = 1/4 Σ_{t<h} 2^−t."""
    table = np.array([[[0.5, 0.25, 0.25]], [[0, 1, 0]], [[0, 0, 1]]], float)
    mdp = FiniteMDP(table, np.eye(3, dtype=bool), np.array([False, False, True]))
    np.testing.assert_allclose(optimal_c(mdp, 3)[:, 0, 0, 1], [0.25, 0.375, 0.4375])
    np.testing.assert_allclose(optimal_c(mdp, 3)[:, 0, 0, 2], [0.25, 0.375, 0.4375])  # the hole as the goal
    assert optimal_d(mdp, 0.5)[0, 0, 1] == pytest.approx(0.25 / (1 - 0.25), abs=1e-9)
    assert optimal_q(mdp, 0.5)[0, 0, 1] == pytest.approx(0.125 / (1 - 0.25), abs=1e-9)


@cache
def lake_curve() -> np.ndarray:
    """C*(S, ·, G, ·) of the frozen lake, (h, actions)."""
    env = FrozenLake()
    number = {tuple(cell): i for i, cell in enumerate(env.cells.tolist())}
    return optimal_c(env.mdp, 30)[:, number[1, 0], :, number[1, 6]]


@pytest.mark.parametrize(
    ("h", "value"),
    [
        (6, 0.2621),
        (8, 0.3985),
        (12, 0.4889),
        (14, 0.6224),
        (16, 0.7757),
        (20, 0.9373),
        (24, 0.9873),
        (30, 0.9992),
    ],
)
def test_frozen_lake_values(h, value):
    assert lake_curve()[h - 1].max() == pytest.approx(value, abs=6e-5)


def test_frozen_lake_trades_speed_for_safety():
    """The best first action: up, between the holes, while h <= 12; right, around them, from h = 13."""
    up, right = 0, 1
    assert (lake_curve()[:5] == 0).all()  # six rows away
    assert lake_curve()[5:12].argmax(1).tolist() == [up] * 7
    assert lake_curve()[12:].argmax(1).tolist() == [right] * 18


def test_frozen_lake_table():
    env = FrozenLake()
    mdp = env.mdp
    np.testing.assert_allclose(mdp.transition.sum(-1), 1.0, atol=1e-12)
    assert mdp.dead.sum() == 6
    np.testing.assert_array_equal(mdp.transition[mdp.dead], np.eye(35)[mdp.dead][:, None].repeat(4, 1))
    number = {tuple(cell): i for i, cell in enumerate(env.cells.tolist())}
    corner_up = {number[0, 1]: 0.8, number[1, 0]: 0.1, number[0, 0]: 0.1}
    expected = np.zeros(35)
    expected[list(corner_up)] = list(corner_up.values())
    np.testing.assert_allclose(mdp.transition[number[0, 0], 0], expected, atol=1e-6)


@given(st.data())
def test_estimated_table_is_the_frequencies(data):
    shape = (3, 2, 3)
    counts = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 4)))
    order = data.draw(st.permutations(range(int(counts.sum()))))
    visits = np.repeat(np.argwhere(counts >= 0), counts.ravel(), axis=0)[order]
    reached, dead = np.eye(3, dtype=bool), np.array([False, True, False])
    world = FiniteMDP(np.full(shape, 1 / 3), reached, dead)
    estimate = estimate_mdp(world, *visits.T)
    for s, a in np.ndindex(3, 2):
        total = counts[s, a].sum()
        expected = counts[s, a] / total if total else np.eye(3)[s]
        np.testing.assert_allclose(estimate.transition[s, a], expected)
    np.testing.assert_array_equal(estimate.reached, reached)
    np.testing.assert_array_equal(estimate.dead, dead)


def test_estimate_from_exact_frequencies_is_the_world():
    table = np.array([[[0.5, 0.25, 0.25], [0, 0, 1]], [[0.25, 0.75, 0], [1, 0, 0]], [[0, 0, 1], [0, 0, 1]]])
    mdp = FiniteMDP(table, np.eye(3, dtype=bool), np.array([False, False, True]))
    visits = np.repeat(np.argwhere(table >= 0), (4 * table).astype(int).ravel(), axis=0)
    np.testing.assert_array_equal(estimate_mdp(mdp, *visits.T).transition, table)
    seen = visits[(visits[:, 0] != 1) | (visits[:, 1] != 0)]
    np.testing.assert_array_equal(estimate_mdp(mdp, *seen.T).transition[1, 0], [0.0, 1.0, 0.0])
    nothing = np.zeros(0, int)
    np.testing.assert_array_equal(
        estimate_mdp(mdp, nothing, nothing, nothing).transition, np.eye(3)[:, None].repeat(2, 1)
    )


def test_a_world_is_not_changed_by_assignment():
    mdp = tabular.FiniteMDP(np.ones((1, 1, 1)), np.ones((1, 1), bool), np.zeros(1, bool))
    with pytest.raises(FrozenInstanceError):
        mdp.dead = np.ones(1, bool)  # pyright: ignore[reportAttributeAccessIssue]
