"""Cat and mouse: its moves and risks, its exact values, and the trained agents that the results are of."""

import json
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_share
from gymnasium.utils.env_checker import check_env

from clearning.envs import CatAndMouse
from clearning.envs import cat_and_mouse as world
from clearning.errors import UsageError

ENV = CatAndMouse()
KEY = jax.random.key(0)


@pytest.mark.parametrize(
    ("state", "action", "end"),
    [
        ((1.0, 5.0, 0.0), (1.0, 0.0), (2.6, 5.0)),
        ((1.0, 5.0, 0.0), (0.0, -0.5), (1.0, 4.2)),
        ((1.0, 5.0, 0.0), (1.0, 1.0), (1.0 + 1.28**0.5, 5.0 + 1.28**0.5)),  # no move is longer than 1.6
        ((0.2, 9.9, 0.0), (-1.0, 1.0), (0.0, 10.0)),  # the box stops it
        ((3.0, 3.0, 1.0), (1.0, 0.0), (3.0, 3.0)),  # a caught mouse stays
    ],
)
def test_moves(state, action, end):
    after = ENV.step(KEY, jnp.array(state), jnp.array(action))
    np.testing.assert_allclose(after[:2], end, rtol=1e-5, atol=1e-6)


def test_risk_by_hand():
    at_cat, away = world.risk(jnp.array(world.CAT)), world.risk(jnp.array([5.0, 8.0]))
    assert float(at_cat) == pytest.approx(world.RISK)
    assert float(away) == pytest.approx(world.RISK * np.exp(-((3 / 1.8) ** 2) / 2), rel=1e-5)


def test_caught_as_often_as_the_risk_says_and_for_good():
    keys = jax.random.split(KEY, 20_000)
    state = jnp.array([4.0, 5.0, 0.0])
    after = jax.vmap(lambda k: ENV.step(k, state, jnp.array([0.0, 0.0])))(keys)
    caught = np.asarray(jax.vmap(ENV.is_dead)(after))
    assert_share(caught.sum(), len(keys), float(world.risk(state[:2])))
    still = jax.vmap(lambda k: ENV.step(k, jnp.array([0.0, 0.0, 1.0]), jnp.zeros(2)))(keys)
    assert np.asarray(jax.vmap(ENV.is_dead)(still)).all()


def test_gymnasium_form():
    env = gymnasium.make("clearning/CatAndMouse-v0")
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=0, options={"state": [1.0, 5.0, 0.0], "goal": [9.0, 5.0]})
    seen, reward, *_ = env.step(np.array([1.0, 0.0], np.float32))
    np.testing.assert_allclose(seen["observation"], [2.6, 5.0], rtol=1e-6)
    assert reward == -1.0
    with pytest.raises(UsageError, match="no action"):
        env.unwrapped.step(np.array([3.0, 0.0], np.float32))
    with pytest.raises(UsageError, match="outside the box"):
        env.reset(options={"state": [11.0, 5.0, 0.0]})


def test_exact_values_are_probabilities_that_grow_with_the_horizon():
    values = world.exact_values(world.GOAL, 12)
    assert values.min() >= 0.0
    assert values.max() <= 1.0
    assert (np.diff(values, axis=0) >= -1e-12).all()
    best = world.exact_success(world.START, world.GOAL, 12)
    assert (best[:4] == 0).all()  # 7.5 away from the goal's circle: four moves cannot do
    assert 0.3 < best[4] < 0.4
    assert best[11] > 0.94


def test_exact_values_are_not_exceeded_and_nearly_reached():
    """The greedy policy of the exact values does what they say; walking straight on does worse."""
    horizon, count = 8, 4000
    values = world.exact_values(world.GOAL, horizon)
    scale = (world.GRID - 1) / world.SIZE
    moves = jnp.asarray(world.moves(), jnp.float32)

    def worth(position, left):
        at = list(position.T * scale)
        after = jax.scipy.ndimage.map_coordinates(jnp.asarray(values[left]), at, order=1)
        alive = (1.0 - world.risk(position)) * after if left else 0.0
        return jnp.where(world.NEAR.reached(position, jnp.array(world.GOAL)), 1.0, alive)

    @jax.jit
    def success(key, greedy):
        state = jnp.tile(jnp.array([*world.START, 0.0]), (count, 1))
        reached = jnp.zeros(count, bool)
        for t in range(horizon):
            after = jnp.clip(state[:, None, :2] + world.STEP * moves, 0.0, world.SIZE)  # (count, moves, 2)
            scores = worth(after.reshape(-1, 2), horizon - t - 1).reshape(count, -1)
            action = jnp.where(greedy, moves[scores.argmax(1)], jnp.array([1.0, 0.0]))
            keys = jax.random.split(jax.random.fold_in(key, t), count)
            alive = state[:, 2] < 0.5
            state = jax.vmap(ENV.step)(keys, state, action)
            reached |= alive & world.NEAR.reached(state[:, :2], jnp.array(world.GOAL))
        return reached.mean()

    exact = world.exact_success(world.START, world.GOAL, horizon)[-1]
    best, straight = float(success(KEY, True)), float(success(KEY, False))
    assert abs(best - exact) < 0.03
    assert straight < exact - 0.2


def test_the_results_show_the_spectrum():
    """Five seeds within 0.05 of the optimum at each of at least six horizons, further away the more time."""
    record = json.loads((Path(__file__).parents[1] / "results" / "cat-and-mouse.json").read_text())
    assert len(record["runs"]) == 5
    for run in record["runs"]:
        found = run["by_horizon"]
        assert len(found) >= 6
        for h, row in found.items():
            exact = world.exact_success((1.0, 5.0), (9.0, 5.0), int(h))[-1]
            assert row["exact"] == pytest.approx(exact, abs=1e-6)
            assert row["success"] > exact - 0.05
