"""Waypoints: hand-worked graphs, every path enumerated, and an agent on a line."""

from dataclasses import replace
from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

import clearning
from clearning import Agent, Config, EnvSpec, GoalCheck, UsageError
from clearning.core.planning import first_leg, path_values
from clearning.files import save_arrays
from clearning.planning import DRAWN, Candidates, Planner, replayed_states
from clearning.runs import RunFolder


def followed(legs, last, start_legs, start_last, budget):
    """The waypoints, steps and probability of the best path from a start."""
    values = path_values(legs, last, budget)
    waypoints, steps, left = [], [], budget
    leg = first_leg(start_legs, start_last, values, left)
    probability = leg.probability
    while True:
        waypoints.append(leg.waypoint)
        steps.append(leg.steps)
        if leg.waypoint < 0:
            return waypoints, steps, probability
        left -= leg.steps
        leg = first_leg(legs[leg.waypoint], last[leg.waypoint], values, left)


def test_a_waypoint_is_worth_it_where_the_product_is_larger():
    # One waypoint: 0.9 in one step, and the goal from there 0.8 in one or two; straight on 0.5 in two.
    legs, last = np.zeros((1, 1, 2)), np.array([[0.8, 0.8]])
    start_legs = np.array([[0.9, 0.9]])
    assert followed(legs, last, start_legs, np.array([0.0, 0.5]), 2) == ([0, -1], [1, 1], pytest.approx(0.72))
    assert followed(legs, last, start_legs, np.array([0.0, 0.75]), 2) == ([-1], [2], pytest.approx(0.75))
    # With one step there is no time for a waypoint.
    assert followed(legs, last, start_legs, np.array([0.0, 0.5]), 1) == ([-1], [1], 0.0)


def test_two_steps_are_enough_for_two_legs():
    # From the first waypoint to the second in one step (0.9), and from there to the goal in another (0.8).
    legs = np.zeros((2, 2, 1))
    legs[0, 1] = 0.9
    np.testing.assert_allclose(
        path_values(legs, np.array([[0.0], [0.8]]), 2), [[0, 0], [0, 0.8], [0.72, 0.8]]
    )


def test_the_budget_goes_where_it_helps_most():
    # Two legs of up to three steps; the first gains little from time, the second much.
    legs, last = np.zeros((1, 1, 3)), np.array([[0.1, 0.5, 0.9]])
    start_legs, never = np.array([[0.8, 0.85, 0.9]]), np.zeros(3)
    assert followed(legs, last, start_legs, never, 4) == ([0, -1], [1, 3], pytest.approx(0.72))
    assert followed(legs, last, start_legs, never, 3) == ([0, -1], [1, 2], pytest.approx(0.4))
    assert followed(legs, last, start_legs, never, 6) == ([0, -1], [3, 3], pytest.approx(0.81))


def test_between_equals_there_is_no_waypoint():
    legs, last = np.zeros((1, 1, 2)), np.ones((1, 2))
    assert followed(legs, last, np.ones((1, 2)), np.ones(2), 4) == ([-1], [2], 1.0)


def test_without_candidates_the_goal_is_all_there_is():
    none = np.zeros((0, 0, 3)), np.zeros((0, 3))
    assert followed(*none, np.zeros((0, 3)), np.array([0.1, 0.2, 0.3]), 5) == ([-1], [3], pytest.approx(0.3))


def test_no_path_is_better():
    rng = np.random.default_rng(0)
    for _ in range(20):
        count, horizons, budget = 3, 2, 5
        legs = np.sort(rng.uniform(size=(count + 1, count, horizons)))  # the last row is the start's
        last = np.sort(rng.uniform(0, 0.3, size=(count + 1, horizons)))
        best = 0.0
        for length in range(budget):
            for path in product(range(count), repeat=length):
                for steps in product(range(1, horizons + 1), repeat=length + 1):
                    if sum(steps) > budget:
                        continue
                    stations = [count, *path]
                    worth = last[stations[-1], steps[-1] - 1]
                    for i, j, h in zip(stations, path, steps, strict=False):
                        worth = worth * legs[i, j, h - 1]
                    best = max(best, worth)
        assert path_values(legs[:-1], last[:-1], budget).shape == (budget + 1, count)
        _, steps, found = followed(legs[:-1], last[:-1], legs[-1], last[-1], budget)
        assert found == pytest.approx(best, rel=1e-5)
        assert sum(steps) <= budget


class LineNetwork:
    """C on a line where a step moves by one: sure within so many steps, hopeless further away.

    Actions: left, right, stay.
    """

    def __init__(self, horizons=3):
        self.horizons = horizons

    def curve(self, observation, goal):
        distance = (goal - observation)[0]
        after = jnp.abs(distance - jnp.array([-1.0, 1.0, 0.0]))[:, None]  # (actions, 1)
        horizons = jnp.arange(1, self.horizons + 1)
        return jnp.where(after <= horizons - 1, 8.0 - 0.1 * after, -8.0)  # the sooner the better


def on_a_line(horizons: int) -> Agent:
    check = GoalCheck((0,), "linf", 0.5)
    spec = EnvSpec("line", (0.0,), (20.0,), (0.0,), (20.0,), ("left", "right", "stay"), 30, check)
    return Agent(LineNetwork(horizons), spec, Config(max_horizon=horizons, alpha=0.9))


@pytest.fixture(scope="module")
def agent() -> Agent:
    return on_a_line(3)


def test_far_goals_are_reached_over_waypoints(agent):
    candidates = np.arange(0.0, 21.0)[:, None]
    planner = Planner(agent, candidates)
    assert agent.reach_probability([0.0], [10.0], 3) < 0.01
    found = planner.plan([0.0], [10.0], 10)
    assert found.probability > 0.99
    assert found.waypoints[-1].tolist() == [10.0]
    assert found.steps.sum() == 10
    assert (np.diff([0.0, *found.waypoints[:, 0]]) <= found.steps).all()
    assert planner.plan([0.0], [10.0], 9).probability < 0.01  # too far for nine steps
    assert clearning.plan(agent, [0.0], [10.0], candidates, 10).probability == found.probability


def test_an_episode_plans_anew_wherever_it_finds_itself(agent):
    episode = Planner(agent, np.arange(0.0, 21.0, 2.0)[:, None]).episode([9.0], budget=11)
    x, blown_back = 0.0, False
    while abs(x - 9.0) > 0.5:
        x += {0: -1.0, 1: 1.0, 2: 0.0}[episode.act([x])]
        if x == 4.0 and not blown_back:
            x, blown_back = 3.0, True
    assert episode.steps_left <= 1
    while episode.steps_left:
        episode.act([x])
    with pytest.raises(UsageError, match="used up"):
        episode.act([x])


def test_nothing_is_gone_after_twice_while_there_is_another_way(agent):
    episode = Planner(agent, np.arange(0.0, 21.0)[:, None]).episode([6.0], budget=20)
    gone_after: list[float] = []
    while episode.steps_left:
        leg_ends = not episode._leg_left
        episode.act([4.0])  # something that C knows nothing of holds it there
        if leg_ends:
            gone_after.append(float(episode._waypoint[0]))
    assert gone_after[0] == 6.0  # the goal itself, which is near
    waypoints = [x for x in gone_after if x != 6.0]
    assert len(waypoints) == len(set(waypoints)) >= 4


def test_a_near_goal_needs_no_waypoint(agent):
    found = clearning.plan(agent, [4.0], [6.0], [[0.0], [5.0], [6.0]], 5)
    assert found.waypoints.tolist() == [[6.0]]
    assert clearning.plan(agent, [4.0], [4.2], [[5.0]]).probability == 1.0  # there already


def test_candidates_of_a_run_lie_apart(agent, tmp_path):
    run = tmp_path / "run"
    places = np.repeat(np.arange(0.0, 13.0), 5)[:, None].astype(np.float32)
    run.mkdir()
    save_arrays(
        RunFolder(run).checkpoint_file,
        {"buffer.observation": places, "buffer.achieved": places},
        {"kind": "checkpoint"},
    )
    states = replayed_states(run, 3)
    assert sorted(states.observation[:, 0].tolist()) == [0.0, 6.0, 12.0]
    np.testing.assert_array_equal(states.observation, states.achieved)
    assert len(replayed_states(run).observation) == 13  # no state twice


def test_candidates_of_a_large_run_are_drawn_from_all_of_it(tmp_path):
    places = np.arange(2.0 * DRAWN, dtype=np.float32)[:, None]
    arrays = {"buffer.observation": places, "buffer.achieved": places}
    save_arrays(RunFolder(tmp_path).checkpoint_file, arrays, {"kind": "checkpoint"})
    found = np.sort(replayed_states(tmp_path, 3).observation[:, 0]) / (2 * DRAWN)
    np.testing.assert_allclose(found[[0, -1]], [0.0, 1.0], atol=0.02)  # far apart: both ends are among them
    np.testing.assert_array_equal(replayed_states(tmp_path, 3), replayed_states(tmp_path, 3))


def test_without_a_check_of_goals_there_are_waypoints_too(agent):
    """As of Gymnasium's: where the goal shows in an observation is known, what is near enough is not."""
    blind = Agent(agent.network, replace(agent.spec, goal_check=None, achieved_at=(0,)), agent.config)
    cells = np.arange(0.0, 13.0)[:, None]
    found = clearning.plan(blind, [0.0], [12.0], cells, 30)
    assert found.probability > 0.9
    assert found.waypoints[-1].tolist() == [12.0]


def test_a_run_is_planned_over_its_own_states(agent, tmp_path, monkeypatch):
    own = np.arange(0.0, 13.0)[:, None]
    monkeypatch.setattr("clearning.planning.load", lambda run: agent)
    monkeypatch.setattr("clearning.planning.replayed_states", lambda run: Candidates(own, own))
    found = clearning.plan(tmp_path, [0.0], [12.0])
    assert found.probability == clearning.plan(agent, [0.0], [12.0], own).probability > 0.9
    assert found.steps.sum() <= 30


def test_legs_to_waypoints_are_not_short():
    planner = Planner(on_a_line(8), np.arange(0.0, 9.0)[:, None])
    assert (planner._legs[..., :3] == 0).all()
    assert (planner._legs[..., 3:] > 0).any()


def test_bad_plans_get_a_clear_sentence(agent, tmp_path):
    with pytest.raises(UsageError, match="Give candidates"):
        clearning.plan(agent, [0.0], [1.0])
    with pytest.raises(UsageError, match=r"candidates must be \(m, 1\)"):
        clearning.plan(agent, [0.0], [1.0], [[0.0, 1.0]])
    with pytest.raises(UsageError, match="candidates must be"):
        clearning.plan(agent, [0.0], [1.0], Candidates(np.zeros((3, 1)), np.zeros((2, 1))))
    with pytest.raises(UsageError, match="budget must be"):
        clearning.plan(agent, [0.0], [1.0], [[0.0]], 0)
    with pytest.raises(UsageError, match="goal must have 1"):
        clearning.plan(agent, [0.0], [1.0, 2.0], [[0.0]], 4)
    with pytest.raises(UsageError, match="no checkpoint"):
        replayed_states(tmp_path)
    blind = Agent(agent.network, replace(agent.spec, goal_check=None), agent.config)
    with pytest.raises(UsageError, match="does not show which goal"):
        Planner(blind, [[0.0]])
