"""The learner's own code on lookup tables: it reaches the exact values, and each part does what it says."""

import itertools
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from clearning.agents.discrete import example_loss, example_target, start, update
from clearning.agents.learner import Learner, Pace
from clearning.config import Config
from clearning.core.recursions import A_RULE, C_RULE, Rule
from clearning.core.tabular import FiniteMDP, optimal_a, optimal_c
from clearning.types import Batch


class Table(eqx.Module):
    """Logits (states, goals, actions, H) looked up by one-hot states and goals; all horizons at once."""

    logits: Array

    def curve(self, observation: Array, goal: Array) -> Array:
        return jnp.einsum("s,g,sgah->ah", observation, goal, self.logits)

    def backed_up(self, horizon: Array) -> Array:
        return jnp.arange(1, self.logits.shape[-1] + 1)

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.curve(observation, goal)

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.curve(observation, goal)

    def shift(self, values: Array) -> Array:
        return jnp.roll(values, 1)


class SampledTable(eqx.Module):
    """The same table, asked at one horizon at a time. Horizon 0 is not in it and must never matter."""

    logits: Array

    def curve(self, observation: Array, goal: Array) -> Array:
        return jnp.einsum("s,g,sgah->ah", observation, goal, self.logits)

    def backed_up(self, horizon: Array) -> Array:
        return horizon[None]

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return jnp.where(horizon == 0, 1e3, self.curve(observation, goal)[:, horizon - 1])

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.at(observation, goal, horizon - 1)

    def shift(self, values: Array) -> Array:
        return values


# Small worlds with probabilities in quarters, so that four copies of each (s, a) are its exact law.


def corridor() -> FiniteMDP:
    """Four cells in a row and a pit (4) below cell 1; left, right, and down. All goals, the pit too."""
    successor = np.array([[0, 1, 0], [0, 2, 4], [1, 3, 2], [2, 3, 3], [4, 4, 4]])
    return FiniteMDP(np.eye(5)[successor], np.eye(5, dtype=bool), np.arange(5) == 4)


def risky_or_safe() -> FiniteMDP:
    """From 0 to goal 3: at once with 1/2, else death (4); or by 1 and 2, each step succeeding with 3/4."""
    risky, safe = 0, 1
    table = np.zeros((5, 2, 5))
    table[0, risky, [3, 4]] = 0.5
    for s in range(3):
        table[s, safe, [s, s + 1]] = 0.25, 0.75
    table[[1, 2, 3, 4], risky, [1, 2, 3, 4]] = 1.0
    table[[3, 4], safe, [0, 4]] = 1.0
    return FiniteMDP(table, np.eye(5, dtype=bool), np.arange(5) == 4)


def every_example(mdp: FiniteMDP, horizons: int) -> Batch:
    """All (s, a, s', g, h), each s' as often as it is likely. Episodes end in dead states: no s is dead."""
    copies = (4 * mdp.transition * ~mdp.dead[:, None, None]).astype(int)
    visits = np.repeat(np.argwhere(copies >= 0), copies.ravel(), axis=0)
    goals, h = mdp.reached.shape[1], np.arange(1, horizons + 1)
    rows = np.array([(*v, g, k) for v in visits for g in range(goals) for k in h])
    s, a, after, g, k = rows.T
    one_hot_state, one_hot_goal = np.eye(len(mdp.dead), dtype=np.float32), np.eye(goals, dtype=np.float32)
    return Batch(
        observation=jnp.asarray(one_hot_state[s]),
        action=jnp.asarray(a, jnp.int32),
        next_observation=jnp.asarray(one_hot_state[after]),
        goal=jnp.asarray(one_hot_goal[g]),
        horizon=jnp.asarray(k, jnp.int32),
        reached_before=jnp.asarray(mdp.reached[s, g]),
        reached=jnp.asarray(mdp.reached[after, g]),
        dead=jnp.asarray(mdp.dead[after]),
        min_steps=jnp.zeros(len(rows)),
        distance=jnp.zeros(len(rows)),
    )


def train(network, batch: Batch, rule: Rule, config: Config, mask_reached: bool, updates: int = 500):
    """Full-batch training by `update`, at a rate that falls to 0."""

    def body(learner, rate):
        return update(learner, batch, rule, config, Pace(rate), mask_reached)

    rates = 0.3 * jnp.linspace(1, 0, updates) ** 2
    return jax.jit(lambda x: jax.lax.scan(body, x, rates))(start(network))


def start_table(mdp: FiniteMDP, horizons: int, seed: int = 0) -> Array:
    """Random logits. Dead states claim to reach everything: if that leaks anywhere, it shows."""
    shape = (len(mdp.dead), mdp.reached.shape[1], mdp.transition.shape[1], horizons)
    logits = 2 * jax.random.normal(jax.random.key(seed), shape)
    return jnp.where(jnp.asarray(mdp.dead)[:, None, None, None], 20.0, logits)


def as_oracle(network) -> np.ndarray:
    """Probabilities indexed as the oracle's, [h − 1, s, a, g]."""
    return np.asarray(jax.nn.sigmoid(network.logits)).transpose(3, 0, 2, 1)


AVERAGED, COPIED = Config(target_rate=0.1), Config(target_period=10)


HORIZONS = 5


@cache
def trained(world, kind, config_name: str):
    """The learner and its losses after full-batch training on every example of a world."""
    mdp = world()
    config = {"averaged": AVERAGED, "copied": COPIED}[config_name]
    examples = every_example(mdp, {Table: 1, SampledTable: HORIZONS}[kind])
    return train(kind(start_table(mdp, HORIZONS)), examples, C_RULE, config, mask_reached=True)


@pytest.mark.parametrize(
    ("world", "kind", "config_name"),
    [
        (corridor, Table, "averaged"),
        (risky_or_safe, Table, "copied"),
        (corridor, SampledTable, "copied"),
        (risky_or_safe, SampledTable, "averaged"),
    ],
)
def test_table_reaches_the_oracle(world, kind, config_name):
    mdp = world()
    learner, metrics = trained(world, kind, config_name)
    oracle = optimal_c(mdp, HORIZONS)
    asked = np.broadcast_to(~mdp.reached[:, None, :] & ~mdp.dead[:, None, None], oracle.shape)
    learned, start = as_oracle(learner.network), as_oracle(kind(start_table(mdp, HORIZONS)))
    np.testing.assert_allclose(learned[asked], oracle[asked], atol=0.02)
    np.testing.assert_array_equal(learned[~asked], start[~asked])
    assert np.isfinite(np.asarray(metrics["loss"])).all()
    assert metrics["loss"][-1] < metrics["loss"][0]


def test_learned_best_action_flips_with_the_horizon():
    """Risky while time is short; from h = 3 on safe, where even a slip leaves the risky move for later."""
    learner, _ = trained(risky_or_safe, Table, "copied")
    curve = as_oracle(learner.network)[:, 0, :, 3]
    assert curve.argmax(1).tolist() == [0, 0, 1, 1, 1]
    assert curve[2, 1] == pytest.approx(0.75**3 + 0.25 * 0.5, abs=0.02)


def test_reached_pairs_are_trained_towards_one_where_not_masked():
    mdp, horizons = risky_or_safe(), 4
    learner, _ = train(
        Table(start_table(mdp, horizons)), every_example(mdp, 1), C_RULE, AVERAGED, mask_reached=False
    )
    alive = ~mdp.dead
    np.testing.assert_allclose(
        as_oracle(learner.network)[:, alive], optimal_c(mdp, horizons)[:, alive], atol=0.02
    )


def test_exact_arrival_learned_by_the_same_learner():
    """The A rule trains on pairs whose goal is reached too, and does not stop there."""
    mdp, horizons = risky_or_safe(), 4
    learner, _ = train(
        Table(start_table(mdp, horizons)), every_example(mdp, 1), A_RULE, AVERAGED, mask_reached=True
    )
    alive = ~mdp.dead
    np.testing.assert_allclose(
        as_oracle(learner.network)[:, alive], optimal_a(mdp, horizons)[:, alive], atol=0.02
    )


# One example at a time: state 0, next state 1, one goal, three actions, three horizons.


def example(**changes) -> Batch:
    plain = Batch(
        observation=jnp.array([1.0, 0.0]),
        action=jnp.int32(0),
        next_observation=jnp.array([0.0, 1.0]),
        goal=jnp.ones(1),
        horizon=jnp.int32(3),
        reached_before=jnp.bool_(False),
        reached=jnp.bool_(False),
        dead=jnp.bool_(False),
        min_steps=jnp.float32(0),
        distance=jnp.float32(0),
    )
    return plain._replace(**changes)


def logit(p):
    p = np.asarray(p, np.float64)
    return jnp.asarray(np.log(p / (1 - p)), jnp.float32)


def table_at_next(values) -> Array:
    """A table whose values (actions, H) at the next state are given; those at the state itself are 1/2."""
    return jnp.stack([jnp.zeros((1, 3, 3)), logit(values)[None]])


#         h = 1    2    3
ONLINE = [[0.9, 0.1, 0.3], [0.2, 0.8, 0.3], [0.1, 0.3, 0.4]]
VALUED = [[0.15, 0.9, 0.7], [0.95, 0.25, 0.7], [0.6, 0.6, 0.7]]


def test_double_target_in_the_all_horizon_form():
    """The online table picks action 0 at h = 1 and 1 at h = 2; the target, which disagrees, values them."""
    online, target = Table(table_at_next(ONLINE)), Table(table_at_next(VALUED))
    np.testing.assert_allclose(
        example_target(C_RULE, online, target, example()), [0.0, 0.15, 0.25], rtol=1e-5
    )
    swapped = example_target(C_RULE, target, online, example())
    np.testing.assert_allclose(swapped, [0.0, 0.2, 0.1], rtol=1e-5)


@pytest.mark.parametrize(("h", "expected"), [(1, 0.0), (2, 0.15), (3, 0.25)])
def test_double_target_in_the_sampled_form(h, expected):
    online, target = SampledTable(table_at_next(ONLINE)), SampledTable(table_at_next(VALUED))
    y = example_target(C_RULE, online, target, example(horizon=jnp.int32(h)))
    np.testing.assert_allclose(y, [expected], rtol=1e-5)


@pytest.mark.parametrize(
    ("rule", "reached", "dead", "expected"),
    [
        (C_RULE, False, False, [0.0, 0.15, 0.25]),
        (C_RULE, True, False, [1.0, 1.0, 1.0]),
        (C_RULE, False, True, [0.0, 0.0, 0.0]),
        (C_RULE, True, True, [1.0, 1.0, 1.0]),
        (A_RULE, False, False, [0.0, 0.15, 0.25]),
        (A_RULE, True, False, [1.0, 0.15, 0.25]),
        (A_RULE, False, True, [0.0, 0.0, 0.0]),
        (A_RULE, True, True, [1.0, 1.0, 1.0]),
    ],
)
def test_targets_by_hand(rule, reached, dead, expected):
    x = example(reached=jnp.bool_(reached), dead=jnp.bool_(dead))
    online, target = table_at_next(ONLINE), table_at_next(VALUED)
    y = example_target(rule, Table(online), Table(target), x)
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    for h in (1, 2, 3):
        one = example_target(
            rule, SampledTable(online), SampledTable(target), x._replace(horizon=jnp.int32(h))
        )
        np.testing.assert_allclose(one, [expected[h - 1]], rtol=1e-5)


@pytest.mark.parametrize(
    ("min_steps", "reached", "expected"),
    [
        (0.0, False, [0.0, 0.15, 0.25]),
        (1.0, False, [0.0, 0.15, 0.25]),
        (2.0, False, [0.0, 0.0, 0.25]),
        (3.0, False, [0.0, 0.0, 0.0]),
        (0.0, True, [1.0, 1.0, 1.0]),
    ],
)
def test_targets_ruled_out(min_steps, reached, expected):
    x = example(min_steps=jnp.float32(min_steps), reached=jnp.bool_(reached))
    online, target = table_at_next(ONLINE), table_at_next(VALUED)
    np.testing.assert_allclose(example_target(C_RULE, Table(online), Table(target), x), expected, rtol=1e-5)
    for h in (1, 2, 3):
        one = x._replace(horizon=jnp.int32(h))
        y = example_target(C_RULE, SampledTable(online), SampledTable(target), one)
        np.testing.assert_allclose(y, [expected[h - 1]], rtol=1e-5)


def gradient(network, target, mask_reached: bool, x: Batch, rule: Rule = C_RULE) -> np.ndarray:
    return np.asarray(jax.grad(lambda n: example_loss(rule, n, target, mask_reached, x))(network).logits)


def test_gradient_is_the_error_of_the_chosen_action_only():
    online, target = Table(table_at_next(ONLINE)), Table(table_at_next(VALUED))
    expected = np.zeros((2, 1, 3, 3))
    expected[0, 0, 2] = (0.5 - np.array([0.0, 0.15, 0.25])) / 3  # ∂/∂logit = C − y, mean over h
    x = example(action=jnp.int32(2))
    np.testing.assert_allclose(gradient(online, target, True, x), expected, atol=1e-6)


def test_no_gradient_flows_through_the_target():
    table = Table(table_at_next(ONLINE))
    both = jax.grad(lambda n: example_loss(C_RULE, n, n, True, example()))(table).logits
    np.testing.assert_array_equal(both, gradient(table, table, True, example()))
    assert np.abs(both[0]).max() > 0.01
    np.testing.assert_array_equal(both[1], 0.0)


def test_reached_pair_masked_or_trained_towards_one():
    online, target = Table(table_at_next(ONLINE)), Table(table_at_next(VALUED))
    x = example(reached_before=jnp.bool_(True), dead=jnp.bool_(True))
    assert float(example_loss(C_RULE, online, target, True, x)) == 0.0
    np.testing.assert_array_equal(gradient(online, target, True, x), 0.0)
    expected = np.zeros((2, 1, 3, 3))
    expected[0, 0, 0] = (0.5 - 1.0) / 3
    np.testing.assert_allclose(gradient(online, target, False, x), expected, atol=1e-6)
    assert float(example_loss(C_RULE, online, target, False, x)) == pytest.approx(np.log(2), rel=1e-6)
    # Where reaching ends nothing there is nothing to mask.
    assert float(example_loss(A_RULE, online, target, True, x)) > 0.0


def test_masked_pairs_leave_the_network_as_it_is():
    one = example(reached_before=jnp.bool_(True))
    batch = jax.tree.map(lambda v: jnp.stack([v, v]), one)
    table = Table(table_at_next(ONLINE))
    step = jax.jit(lambda x: update(x, batch, C_RULE, AVERAGED, Pace(jnp.float32(0.1)), True))
    learner, metrics = step(start(table))
    np.testing.assert_array_equal(learner.network.logits, table.logits)
    assert float(metrics["loss"]) == 0.0


def repeated_updates(config: Config, count: int) -> list[Learner]:
    batch = jax.tree.map(lambda v: v[None], example())
    step = jax.jit(lambda x: update(x, batch, C_RULE, config, Pace(jnp.float32(0.1)), True)[0])
    learners = [start(Table(table_at_next(ONLINE)))]
    for _ in range(count):
        learners.append(step(learners[-1]))
    return learners


def test_target_copied_every_so_many_updates():
    learners = repeated_updates(Config(target_period=3), 7)
    assert [int(x.updates) for x in learners] == list(range(8))
    assert len({float(x.network.logits[0, 0, 0, 0]) for x in learners}) == 8  # the network moves each time
    for n, source in enumerate([0, 0, 0, 3, 3, 3, 6, 6]):
        np.testing.assert_array_equal(learners[n].target.logits, learners[source].network.logits)


def test_target_averaged_at_every_update():
    learners = repeated_updates(Config(target_rate=0.25), 4)
    for before, after in itertools.pairwise(learners):
        expected = 0.75 * before.target.logits + 0.25 * after.network.logits
        np.testing.assert_allclose(after.target.logits, expected, rtol=1e-5, atol=1e-6)
    assert np.abs(learners[-1].target.logits - learners[-1].network.logits).max() > 0.01


def test_first_step_of_adam_has_the_size_of_the_rate():
    start, after = repeated_updates(Config(), 1)
    moved = np.asarray(after.network.logits - start.network.logits)
    expected = np.zeros((2, 1, 3, 3))
    expected[0, 0, 0] = [-0.1, 0.1, 0.1]  # from 1/2 towards the targets 0, 0.9 and 0.8
    np.testing.assert_allclose(moved, expected, atol=1e-5)
