"""How training draws horizons, and how a policy picks one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_frequencies
from hypothesis import given
from hypothesis import strategies as st

from clearning.core.horizons import (
    NOISE_FLOOR,
    cycled_horizon,
    episode_horizon,
    horizon_left,
    horizon_log_weights,
    minimum_horizon,
    sample_horizon,
    smallest_safe_horizon,
    voted_action,
)

PROGRESS = [0.0, 0.25, 0.5, 0.9, 1.0]


def distribution(horizons: int, kappa: float, progress: float) -> np.ndarray:
    weight = np.arange(1, horizons + 1, dtype=np.float64) ** (-kappa * (1 - progress))
    return weight / weight.sum()


def counted(key: int, draws: int, horizons: int, kappa: float, progress: float) -> np.ndarray:
    keys = jax.random.split(jax.random.key(key), draws)
    drawn = jax.jit(jax.vmap(lambda k: sample_horizon(k, horizons, kappa, progress)))(keys)
    assert drawn.min() >= 1
    assert drawn.max() <= horizons
    return np.bincount(np.asarray(drawn), minlength=horizons + 1)[1:]


@pytest.mark.parametrize("progress", PROGRESS)
@pytest.mark.parametrize("kappa", [0.0, 2.3, 3.0])
def test_weights(kappa, progress):
    weights = jax.nn.softmax(horizon_log_weights(50, kappa, progress))
    np.testing.assert_allclose(weights, distribution(50, kappa, progress), rtol=1e-5)


def test_weights_by_hand():
    # κ = 3 at the start: 1, 1/8, 1/27; half-way with κ = 2: 1, 1/2, 1/3.
    np.testing.assert_allclose(jnp.exp(horizon_log_weights(3, 3.0, 0.0)), [1, 1 / 8, 1 / 27], rtol=1e-5)
    np.testing.assert_allclose(jnp.exp(horizon_log_weights(3, 2.0, 0.5)), [1, 1 / 2, 1 / 3], rtol=1e-5)


def test_weights_favour_small_horizons_early_and_none_late():
    spread = [float(jnp.ptp(horizon_log_weights(50, 3.0, p))) for p in PROGRESS]
    assert spread == sorted(spread, reverse=True)
    assert spread[-1] == 0.0


@pytest.mark.parametrize(
    ("horizons", "kappa", "progress"),
    [(10, 3.0, 0.0), (10, 3.0, 0.5), (50, 3.0, 0.5), (50, 3.0, 1.0), (50, 0.0, 0.0), (5, 2.3, 0.25)],
)
def test_sample_frequencies(horizons, kappa, progress):
    counts = counted(0, 40_000, horizons, kappa, progress)
    assert_frequencies(counts, distribution(horizons, kappa, progress))


def test_one_horizon_is_all_there_is_to_draw():
    assert counted(1, 100, 1, 3.0, 0.0).tolist() == [100]


SAFE = [
    # curve, α, min_steps, h_α
    ([0.0, 0.0, 0.5, 0.9, 1.0], 1.0, 0, 5),
    ([0.0, 0.0, 0.5, 0.9, 1.0], 0.9, 0, 4),
    ([0.0, 0.0, 0.5, 0.9, 1.0], 0.5, 0, 3),
    ([0.0, 0.0, 0.5, 0.9, 1.0], 0.01, 0, 3),  # a zero is never safe enough
    ([0.1, 0.2, 0.4, 0.4], 0.9, 0, 3),  # α is a share of the largest value, not a probability
    ([0.2, 0.8, 0.8, 0.8], 1.0, 0, 2),  # ties: the smallest
    ([0.7, 0.7, 0.7], 1.0, 0, 1),
    ([0.1, 0.9, 0.3, 1.0, 0.5], 0.9, 0, 2),  # a learned curve need not be monotone
    ([0.1, 0.9, 0.3, 1.0, 0.5], 0.95, 0, 4),
    ([9e-4, 5e-4, 9e-4, 1e-4], 0.5, 0, 4),  # noise: all the time there is
    ([0.0, 0.0, 0.0], 0.9, 0, 3),
    ([0.0, 2e-3, 0.0], 0.9, 0, 2),  # small but above the floor
    ([0.9, 0.95, 0.96, 1.0], 0.9, 3, 3),  # below three steps it cannot be, whatever is claimed
    ([0.9, 0.95, 0.96, 1.0], 0.9, 4, 4),
    ([1.0, 0.1, 0.4, 0.5], 0.9, 2, 4),  # what is left out does not set the standard either
    ([1.0, 1.0, 1e-4, 1e-4], 0.9, 3, 4),
    ([1.0, 1.0, 1.0], 0.9, 7, 3),
    ([0.8], 0.9, 0, 1),
]


@pytest.mark.parametrize(("curve", "alpha", "min_steps", "expected"), SAFE)
def test_smallest_safe_horizon(curve, alpha, min_steps, expected):
    assert int(smallest_safe_horizon(jnp.array(curve), alpha, min_steps)) == expected


def test_smallest_safe_horizon_jitted_and_vmapped():
    rows = [row for row in SAFE if len(row[0]) == 4]
    curves, alphas, bounds, expected = (jnp.array(column) for column in zip(*rows, strict=True))
    np.testing.assert_array_equal(jax.vmap(smallest_safe_horizon)(curves, alphas, bounds), expected)
    np.testing.assert_array_equal(jax.jit(jax.vmap(smallest_safe_horizon))(curves, alphas, bounds), expected)


@given(
    st.lists(st.floats(0, 1, width=32), min_size=6, max_size=6),
    st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    st.integers(0, 7),
)
def test_smallest_safe_horizon_is_its_definition(curve, alpha, min_steps):
    curve = np.array(curve, np.float32)
    allowed = [h for h in range(1, 7) if h >= min_steps]
    largest = max((curve[h - 1] for h in allowed), default=np.float32(0))
    safe = [h for h in allowed if curve[h - 1] >= np.float32(alpha) * largest]
    expected = 6 if largest < np.float32(NOISE_FLOOR) else safe[0]
    assert int(smallest_safe_horizon(jnp.asarray(curve), alpha, min_steps)) == expected


def test_horizon_left_counts_down_and_stops_at_one():
    assert [int(horizon_left(3, step)) for step in range(6)] == [3, 2, 1, 1, 1, 1]
    np.testing.assert_array_equal(jax.jit(horizon_left)(4, jnp.arange(5)), [4, 3, 2, 1, 1])


def test_a_cycled_horizon_starts_again_from_the_longest():
    assert [cycled_horizon(2, step, 4) for step in range(8)] == [2, 1, 4, 3, 2, 1, 4, 3]
    np.testing.assert_array_equal(
        jax.jit(lambda t: cycled_horizon(4, t, 4))(jnp.arange(6)), [4, 3, 2, 1, 4, 3]
    )


@pytest.mark.parametrize(
    ("curve", "probability", "expected"),
    [
        ([0.125, 0.5, 0.5, 0.875], 0.5, 2),  # just enough is enough
        ([0.125, 0.5, 0.5, 0.875], 0.1, 1),
        ([0.125, 0.5, 0.5, 0.875], 0.6, 4),
        ([0.125, 0.5, 0.5, 0.875], 0.9, 0),  # none
        ([0.6, 0.2, 0.7], 0.5, 1),
        ([0.0, 0.0], 0.001, 0),
        ([0.0, 1.0], 1.0, 2),
    ],
)
def test_minimum_horizon(curve, probability, expected):
    assert int(minimum_horizon(jnp.array(curve), probability)) == expected
    assert int(jax.jit(minimum_horizon)(jnp.array(curve), probability)) == expected


def test_minimum_horizon_of_many_curves():
    curves = jnp.array([[0.0, 0.5, 1.0], [0.0, 0.0, 0.4], [0.9, 0.9, 0.9]])
    np.testing.assert_array_equal(minimum_horizon(curves, 0.5), [2, 0, 1])
    np.testing.assert_array_equal(jax.vmap(minimum_horizon, in_axes=(0, None))(curves, 0.5), [2, 0, 1])


def test_episode_horizons_are_uniform_and_repeatable():
    drawn = np.asarray(jax.vmap(lambda i: episode_horizon(i, 5))(jnp.arange(2000)))
    assert_frequencies(np.bincount(drawn, minlength=6)[1:], np.ones(5))
    assert len(drawn) == np.bincount(drawn)[1:6].sum()
    assert int(episode_horizon(7, 5)) == drawn[7]


@pytest.mark.parametrize(
    ("horizon", "reach", "expected"),
    [(3, 0, 0), (3, 1, 1), (1, 0, 1), (1, 2, 1), (5, 0, 0), (5, 1, 0), (4, 5, 1)],
)
def test_neighbours_vote(horizon, reach, expected):
    #                    h = 1    2    3    4    5
    values = jnp.array([[0.25, 0.0, 1.0, 0.0, 1.0], [0.5, 0.75, 0.5, 0.5, 0.375]])
    # At h = 3 alone action 0; with one on either side 1.75 against 1; at h = 5 with one 0.875 against 1.
    assert int(voted_action(values, horizon, reach)) == expected


def test_a_largest_value_at_the_floor_is_no_noise():
    floor = np.float32(NOISE_FLOOR)
    assert int(smallest_safe_horizon(jnp.array([floor, floor, 0.0]), 0.9)) == 1
    assert int(smallest_safe_horizon(jnp.array([floor * 0.99, 0.0, 0.0]), 0.9)) == 3
    assert int(smallest_safe_horizon(jnp.array([0.5, 0.5, 0.5]), 0.9)) == 1  # no bound unless given
