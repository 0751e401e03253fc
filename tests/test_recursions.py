"""The target rules against numbers worked by hand, and what appendix B says of the loss."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearning.core.recursions import C_RULE, cumulative, discounted, exact, q_value, rule_out

RULES = {
    "C": cumulative,
    "A": exact,
    "D": lambda *given: discounted(0.5)(*given),
    "Q": lambda *given: q_value(0.5)(*given),
}

# reached, dead, next value, and the targets of C, A, D and Q with γ = 1/2.
MORE_STEPS_LEFT = [
    (0, 0, 0.4, 0.4, 0.4, 0.2, 0.2),
    (1, 0, 0.4, 1.0, 0.4, 1.0, 0.5),
    (0, 1, 0.4, 0.0, 0.0, 0.0, 0.0),
    (1, 1, 0.4, 1.0, 1.0, 1.0, 0.5),
]
# With h = 1 no step is left at s', and the next value is G(s', g).
LAST_STEP = [
    (0, 0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (1, 0, 1.0, 1.0, 1.0, 1.0, 0.5),
    (0, 1, 0.0, 0.0, 0.0, 0.0, 0.0),
    (1, 1, 1.0, 1.0, 1.0, 1.0, 0.5),
]
TABLE = np.array(MORE_STEPS_LEFT + LAST_STEP)
CASES = [(name, *row[:3], row[3 + i]) for row in TABLE.tolist() for i, name in enumerate(RULES)]


@pytest.mark.parametrize(("name", "reached", "dead", "next_value", "target"), CASES)
def test_rule_by_hand(name, reached, dead, next_value, target):
    rule = RULES[name]
    as_arrays = [jnp.float32(v) for v in (reached, dead, next_value)]
    assert rule(reached, dead, next_value) == pytest.approx(target, abs=1e-7)
    assert float(rule(*as_arrays)) == pytest.approx(target, abs=1e-7)
    # A learner's dead flag is a bool.
    assert float(rule(as_arrays[0], jnp.bool_(dead), as_arrays[2])) == pytest.approx(target, abs=1e-7)


@pytest.mark.parametrize("name", RULES)
def test_rule_jitted_and_vmapped(name):
    expected = TABLE[:, 3 + list(RULES).index(name)]
    columns = jnp.asarray(TABLE[:, :3].T, jnp.float32)
    one_by_one = [jax.jit(RULES[name])(*column) for column in columns.T]
    np.testing.assert_allclose(one_by_one, expected, atol=1e-7)
    np.testing.assert_allclose(jax.vmap(RULES[name])(*columns), expected, atol=1e-7)
    np.testing.assert_allclose(jax.jit(jax.vmap(RULES[name]))(*columns), expected, atol=1e-7)
    np.testing.assert_allclose(RULES[name](*TABLE[:, :3].T), expected, atol=1e-15)


def test_discount_is_the_rules_own():
    assert discounted(0.9)(0.0, 0.0, 0.5) == pytest.approx(0.45)
    assert q_value(0.9)(1.0, 0.0, 0.0) == pytest.approx(0.9)
    assert q_value(0.9)(0.0, 0.0, 0.5) == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("min_steps", "expected"),
    [
        (0.0, [0.1, 0.2, 0.3, 0.4, 0.5]),
        (1.0, [0.0, 0.2, 0.3, 0.4, 0.5]),
        (2.0, [0.0, 0.0, 0.3, 0.4, 0.5]),  # with h = 3, two steps are left at s': just enough
        (4.0, [0.0, 0.0, 0.0, 0.0, 0.5]),
        (5.0, [0.0, 0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_rule_out_by_hand(min_steps, expected):
    values, horizons = jnp.array([0.1, 0.2, 0.3, 0.4, 0.5]), jnp.arange(1, 6)
    np.testing.assert_array_equal(rule_out(values, horizons, min_steps), np.float32(expected))
    np.testing.assert_array_equal(jax.jit(rule_out)(values, horizons, min_steps), np.float32(expected))
    mapped = jax.vmap(rule_out, in_axes=(0, 0, None))(values, horizons, min_steps)
    np.testing.assert_array_equal(mapped, np.float32(expected))


def test_ruled_out_horizon_still_counts_an_arrival():
    next_value = rule_out(jnp.float32(0.7), jnp.int32(1), jnp.float32(3.0))
    assert float(cumulative(1.0, 0.0, next_value)) == 1.0
    assert float(cumulative(0.0, 0.0, next_value)) == 0.0


@pytest.mark.parametrize("y", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("logit", [-3.0, 0.0, 0.5, 4.0])
def test_c_rule_cross_entropy(logit, y):
    c = 1 / (1 + np.exp(-logit))
    assert float(C_RULE.link(jnp.float32(logit))) == pytest.approx(c, rel=1e-6)
    expected = -y * np.log(c) - (1 - y) * np.log(1 - c)
    assert float(C_RULE.loss(jnp.float32(logit), jnp.float32(y))) == pytest.approx(expected, rel=1e-5)


def test_c_rule_at_extreme_logits():
    loss = C_RULE.loss(jnp.array([80.0, -80.0, 80.0, -80.0]), jnp.array([0.0, 1.0, 1.0, 0.0]))
    np.testing.assert_allclose(loss, [80.0, 80.0, 0.0, 0.0], rtol=1e-6, atol=1e-6)


def test_c_rule_is_the_cumulative_one():
    assert C_RULE.target is cumulative
    assert C_RULE.at_goal == 1.0


# Appendix B. s' is one of several outcomes; each gives a target y, and the true target is their mean.

outcomes = st.lists(
    st.tuples(st.integers(1, 5), st.sampled_from([0.0, 0.3, 0.7, 1.0]), st.booleans(), st.booleans()),
    min_size=2,
    max_size=4,
)
outputs = st.floats(-4, 4, width=32)


def targets_and_probabilities(drawn):
    weight = np.array([w for w, *_ in drawn], np.float64)
    y = np.array([cumulative(float(reached), float(dead), v) for _, v, reached, dead in drawn])
    return y.astype(np.float32), (weight / weight.sum()).astype(np.float32)


def squared(value, y):
    return (value - y) ** 2


@partial(jax.jit, static_argnums=0)
def loss_and_gradient(loss, output, y, p):
    """Mean over s' of the loss and its gradient, and both at the mean target."""
    each, gradients = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0))(output, y)
    return (p @ each, p @ gradients), jax.value_and_grad(loss)(output, p @ y)


@given(outcomes, outputs)
def test_cross_entropy_is_unbiased_in_value_and_gradient(drawn, logit):
    y, p = targets_and_probabilities(drawn)
    on_average, at_mean = loss_and_gradient(C_RULE.loss, jnp.float32(logit), y, p)
    np.testing.assert_allclose(on_average, at_mean, rtol=1e-4, atol=1e-6)


@given(outcomes, outputs)
def test_squared_loss_is_off_by_the_variance_and_its_gradient_is_not(drawn, value):
    y, p = targets_and_probabilities(drawn)
    on_average, at_mean = loss_and_gradient(squared, jnp.float32(value), y, p)
    variance = p @ (y - p @ y) ** 2
    np.testing.assert_allclose(on_average[0] - at_mean[0], variance, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(on_average[1], at_mean[1], rtol=1e-4, atol=1e-5)


def test_squared_loss_bias_by_hand():
    # A fair coin between 0 and 1: at v = 1/2 the loss is 1/4 on average and 0 at the mean target.
    y = jnp.array([0.0, 1.0])
    assert float(((0.5 - y) ** 2).mean() - (0.5 - y.mean()) ** 2) == 0.25
    assert float(C_RULE.loss(jnp.zeros(2), y).mean() - C_RULE.loss(jnp.zeros(()), y.mean())) == 0.0
