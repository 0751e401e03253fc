"""Evaluation: counts, strata, path lengths, optima and the error against C*."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from clearning import buffer as ring
from clearning.config import Config
from clearning.envs import DubinsCar, FrozenLake, MiniMaze
from clearning.envs.search import NEVER, fewest_steps
from clearning.evaluate import c_error, counted_c, evaluate, exact_c, learned_c, run_episodes
from clearning.rollout import Dial, collect


class Exact:
    """A network that knows C* of a grid world."""

    def __init__(self, env, horizons=50):
        c = np.clip(exact_c(env, horizons), 1e-7, 1 - 1e-7)
        self.logits = jnp.asarray(np.log(c / (1 - c)), jnp.float32)
        size = env.cells.max(0) + 1
        number = np.zeros(size, np.int32)
        number[tuple(env.cells.T)] = np.arange(len(env.cells))
        self.number = jnp.asarray(number)

    def curve(self, observation, goal):
        at = lambda x: self.number[tuple(jnp.round(x).astype(int))]  # noqa: E731
        return self.logits[:, at(observation), :, at(goal)].T


def test_with_the_exact_c_the_maze_is_solved_along_shortest_paths():
    env = MiniMaze()
    found = evaluate(Exact(env), env, Config(env="mini-maze"), Dial(0.9)).full_summary()
    assert found["success"] == 1.0
    assert found["steps"] == found["optimal_steps"] == pytest.approx(14.71, abs=0.01)
    assert found["distance"] == pytest.approx(found["steps"])
    assert found["paper_goals"]["goals"] == 483
    expected = {"easy": 5.68, "medium": 14.82, "hard": 24.23}
    for stratum, steps in expected.items():
        assert found["by_stratum"][stratum]["steps"] == pytest.approx(steps, abs=0.01)


def test_with_the_exact_c_fixed_horizons_succeed_as_often_as_c_says():
    env = FrozenLake()
    network = Exact(env)
    start, goal = np.tile(np.float32([1, 0]), (10_000, 1)), np.tile(np.float32([1, 6]), (10_000, 1))
    for horizon, probability in ((6, 0.2621), (16, 0.7757), (24, 0.9873)):
        episodes = run_episodes(network, env, Config(), Dial(horizon=horizon), 0, start, goal)
        error = 5 * np.sqrt(probability * (1 - probability) / 10_000)  # false alarm below 1e-6
        assert float(episodes.success.mean()) == pytest.approx(probability, abs=error)
        assert int(episodes.length.max()) <= horizon


def test_the_error_of_c_is_zero_for_the_truth_and_counts_only_what_is_asked():
    env = FrozenLake()
    truth = exact_c(env, 50)
    assert c_error(truth, env) == 0.0
    assert c_error(learned_c(Exact(env), env), env) < 1e-5
    unasked = truth.copy()
    unasked[:, env.mdp.dead] = 0.5  # dead states
    unasked[:, np.arange(35), :, np.arange(35)] = 0.5  # goals that are the state
    assert c_error(unasked, env) == 0.0
    assert c_error(truth + 0.1, env) == pytest.approx(0.1)


def test_counting_transitions_gives_c_star_in_the_limit():
    env = FrozenLake()
    random = lambda key, s, g, t: jax.random.randint(key, (), 0, 4)  # noqa: E731

    @jax.jit
    def walk(key):
        key_start, key_walk = jax.random.split(key)
        state = jax.vmap(env.initial_state)(jax.random.split(key_start, 3000))
        return collect(env, random, key_walk, state, jnp.full((3000, 2), -5.0), 50)

    buffer = ring.add(ring.init(env.spec, 160_000), walk(jax.random.key(0)))
    assert c_error(counted_c(env, buffer, 50), env) < 0.02


@pytest.mark.parametrize(("stratum", "steps"), [("easy", 7.67), ("medium", 14.94), ("hard", 19.15)])
def test_the_cars_search_finds_the_known_path_lengths(stratum, steps):
    env = DubinsCar()
    test = env.test_set()
    found = fewest_steps(env, test.state[0], test.goal)
    assert (found != NEVER).all()
    assert found.max() == 24
    assert found[np.array(test.stratum) == stratum].mean() == pytest.approx(steps, abs=0.03)


def test_the_search_says_never_beyond_its_limit():
    found = fewest_steps(DubinsCar(), np.array([0, 0, 1, 0]), np.array([[3.0, 0.0], [14.0, 14.0]]), limit=5)
    assert found.tolist() == [3, NEVER]
    lake = fewest_steps(FrozenLake(), np.array([1, 0]), np.array([[1.0, 0.0], [1.0, 6.0], [0.0, 3.0]]))
    assert lake.tolist() == [0, 6, 4]
    from_hole = fewest_steps(FrozenLake(), np.array([0, 3]), np.array([[0.0, 3.0], [1.0, 3.0]]))
    assert from_hole.tolist() == [0, NEVER]


@dataclass(frozen=True)
class Straight:
    """Always forward."""

    def curve(self, observation, goal):
        return jnp.zeros((7, 50)).at[4].set(1.0)


def test_distance_is_the_way_travelled_and_steps_count_from_one():
    env = DubinsCar()
    outcome = evaluate(Straight(), env, Config(), Dial(0.9))
    reached = {
        tuple(g): (int(n), float(d))
        for g, s, n, d in zip(
            outcome.goal.tolist(), outcome.success, outcome.steps, outcome.distance, strict=True
        )
        if s
    }
    # Along y = 0 the car stops at the wall at x = 4, having passed within 0.5 of (1, 0), (2, 0), (3, 0).
    assert reached == {(1.0, 0.0): (1, 1.0), (2.0, 0.0): (2, 2.0), (3.0, 0.0): (3, 3.0)}
    assert outcome.summary()["success"] == 3 / 192


def test_an_episode_that_goes_on_is_held_only_by_the_goal_where_it_ends():
    env = DubinsCar(walls=False)
    ending = evaluate(Straight(), env, Config(), Dial(0.9), optimum=False)
    going_on = evaluate(Straight(), env, Config(), Dial(0.9), optimum=False, to_the_end=True)
    assert ending.held is None
    for name in ("success", "steps", "distance", "final_distance"):
        np.testing.assert_array_equal(getattr(going_on, name), getattr(ending, name))
    # Along y = 0 it passes fifteen goals and stays at the last, at the edge of the box.
    assert going_on.success.sum() == 15
    assert going_on.goal[going_on.held].tolist() == [[15.0, 0.0]]
    assert going_on.summary()["held"] == 1 / len(going_on.goal)
