"""Calibration of agents: recalibration judged fairly, and rollouts beside exact values."""

import json
import shutil
from pathlib import Path

import goal_worlds
import jax
import numpy as np
import pytest
from conftest import assert_share

from clearning import ClearningError, calibrate
from clearning.agent import Agent
from clearning.calibrate import Trials, judge, mend, run_trials
from clearning.cli import main
from clearning.config import Config, replace_settings
from clearning.core.calibration import (
    Recalibration,
)
from clearning.core.tabular import optimal_c, optimal_c_at
from clearning.envs import DubinsCar, ExternalEnv, FrozenLake, MiniMaze, make_world
from clearning.envs.frozen_lake import HOLES
from clearning.evaluate import reached_in_time
from clearning.networks import build_network
from clearning.plots import reliability_diagram
from clearning.presets import gymnasium_defaults
from clearning.runs import RunFolder


class FixedLogit:
    """A network that says the same of everything."""

    def __init__(self, logit: float, actions: int, horizons: int):
        self.logits = np.full((actions, horizons), logit, np.float32)

    def curve(self, observation, goal):
        return jax.numpy.asarray(self.logits)


HELD_OUT = (["held"], ["temperature"])  # the first words of rows


def lake_agent(logit: float = 0.0) -> Agent:
    return Agent(FixedLogit(logit, 4, 20), FrozenLake().spec, Config(env="frozen-lake", max_horizon=20))


def test_a_recalibrated_agent_tells_other_probabilities_but_acts_the_same(tmp_path):
    config = Config(env="frozen-lake", hidden=(8,), max_horizon=20)
    spec = FrozenLake().spec
    agent = Agent(build_network(spec, config, jax.random.key(0)), spec, config)
    s, g = [1.0, 0.0], [[1.0, 6.0], [3.0, 3.0], [1.0, 0.0]]
    steep = Recalibration("isotonic", knots=(0.0, 1.0), values=(0.0, 0.5))
    mended = agent.recalibrated(steep)
    np.testing.assert_allclose(mended.reach_curve(s, g)[:2], agent.reach_curve(s, g)[:2] / 2, rtol=1e-5)
    assert (mended.reach_curve(s, g)[2] == 1).all()  # a reached goal stays certain
    np.testing.assert_array_equal(mended.act(s, g), agent.act(s, g))
    mended.save(tmp_path / "a.safetensors")
    again = Agent.load(tmp_path / "a.safetensors")
    assert again.recalibration == steep
    np.testing.assert_array_equal(again.reach_curve(s, g), mended.reach_curve(s, g))


def test_files_without_a_recalibration_load(tmp_path):
    from clearning import files

    config = Config(env="frozen-lake", hidden=(8,), max_horizon=20)
    spec = FrozenLake().spec
    Agent(build_network(spec, config, jax.random.key(0)), spec, config).save(tmp_path / "a.safetensors")
    arrays, record = files.load_arrays(tmp_path / "a.safetensors")
    record.pop("recalibration")
    files.save_arrays(tmp_path / "old.safetensors", arrays, record)
    assert Agent.load(tmp_path / "old.safetensors").recalibration is None


def test_exact_values_of_many_questions_are_those_of_the_whole_table():
    mdp = FrozenLake().mdp
    rng = np.random.default_rng(0)
    s, g, h = rng.integers(0, 35, 50), rng.integers(0, 35, 50), rng.integers(1, 9, 50)
    table = optimal_c(mdp, 8)
    np.testing.assert_allclose(optimal_c_at(mdp, s, g, h), table[h - 1, s, :, g].max(-1))


def test_every_rollout_has_its_own_horizon():
    """The network always goes up: a goal three cells above takes three steps; on ice one step is 0.8 sure."""
    network = FixedLogit(0.0, 4, 20)
    network.logits[0] = 1.0
    env = MiniMaze()
    state = np.tile(np.array([6.0, 0.0], np.float32), (3, 1))
    goal = np.array([[6.0, 3.0]] * 3, np.float32)
    found = reached_in_time(network, env, 0, state, goal, np.array([2, 3, 5]))
    assert found.tolist() == [False, True, True]
    lake = np.tile(np.array([4.0, 0.0], np.float32), (2000, 1))
    one_up = np.tile(np.array([4.0, 1.0], np.float32), (2000, 1))
    hits = reached_in_time(network, FrozenLake(), 1, lake, one_up, np.ones(2000, int))
    assert_share(int(hits.sum()), 2000, 0.8)


def test_horizons_lie_near_the_smallest_that_could_do_it():
    env, agent = FrozenLake(), lake_agent()
    trials = run_trials(agent, env, rollouts=300)
    far = np.abs(trials.observation - trials.goal).sum(1)  # no way around a hole is more than 8 longer
    assert 150 < len(far) <= 300
    assert (trials.horizon >= np.maximum(far - calibrate.BEFORE, 1)).all()
    assert (trials.horizon <= far + 8 + calibrate.AFTER).all()
    assert (far > 0).all()
    assert not HOLES[tuple(trials.observation.astype(int).T)].any()
    found = judge(agent, trials)
    assert found["overall"]["predicted"] == pytest.approx(0.5)
    assert found["overall"]["error_to_optimum"] == pytest.approx(np.abs(0.5 - trials.exact).mean())
    assert found["overall"]["ece"] == pytest.approx(abs(0.5 - trials.happened.mean()))
    assert sum(b["rollouts"] for b in found["by_horizon"]) == found["overall"]["rollouts"]


def test_without_a_search_horizons_lie_where_the_agent_is_in_doubt():
    env = DubinsCar(random_starts=True)
    network = FixedLogit(-2.0, 7, 30)
    network.logits[:, 9:] = 2.0
    trials = run_trials(Agent(network, env.spec, Config(max_horizon=30)), env, rollouts=64)
    assert set(trials.horizon) <= set(range(10 - calibrate.BEFORE, 10 + calibrate.AFTER + 1))
    assert trials.exact is None


def test_recalibration_is_judged_on_pairs_it_has_not_seen():
    rng = np.random.default_rng(0)
    cells = FrozenLake().cells.astype(np.float32)
    goal = cells[rng.integers(0, 34, 400)]
    observation = np.tile(cells[-1], (400, 1))
    happened = rng.random(400) < 0.25
    trials = Trials(observation, goal, rng.integers(1, 20, 400), happened, None)
    agent, found = mend(lake_agent(3.0), trials, "isotonic")  # says 0.95
    assert found["fitted_on"] + found["judged_on"] == 400
    assert found["before"]["overall"]["ece"] > 0.6
    assert found["after"]["overall"]["ece"] < 0.15
    assert agent.reach_probability(observation[0], cells[0], 5) == pytest.approx(0.25, abs=0.1)
    one_pair = Trials(observation, np.tile(cells[0], (400, 1)), trials.horizon, happened, None)
    with pytest.raises(ClearningError, match="at least two different pairs"):
        mend(lake_agent(), one_pair, "isotonic")


@pytest.fixture(scope="module")
def lake_run(tmp_path_factory):
    """An untrained agent in a run folder."""
    config = Config(env="frozen-lake", hidden=(8,), max_horizon=20)
    folder, spec = RunFolder(tmp_path_factory.mktemp("lake") / "run"), FrozenLake().spec
    folder.create(config, 0, "frozen-lake", {"custom_env": False, "custom_network": False})
    Agent(build_network(spec, config, jax.random.key(0)), spec, config).save(folder.agent_file)
    return folder.path


def test_calibrate_tells_draws_and_stores(lake_run, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run = shutil.copytree(lake_run, tmp_path / "runs" / "seed-0")
    main(["calibrate", str(run), "--rollouts", "400", "--recalibrate", "isotonic", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (run / "figures" / "reliability.png").stat().st_size > 10_000
    mended = found["recalibration"]
    assert mended["after"]["overall"]["ece"] < mended["before"]["overall"]["ece"]
    assert found["recalibrated_by"] is None
    again = ["--recalibrate", "temperature", "--out", str(tmp_path / "again.png")]
    main(["calibrate", str(run), "--rollouts", "400", *again])
    out = capsys.readouterr().out
    assert all(word in out for word in ("ECE", "Brier", "|C−C*|", "all", "again.png"))
    assert max(map(len, out.splitlines()[:-1])) <= 80
    before, after = (line.split() for line in out.splitlines() if line.split()[:1] in HELD_OUT)
    assert (
        before[-1] == f"{mended['before']['overall']['error_to_optimum']:.3f}"
    )  # of the raw agent both times
    assert after[1] == str(mended["judged_on"])
    # A folder of seeds is calibrated seed by seed.
    shutil.copytree(run, tmp_path / "runs" / "seed-1")
    main(["calibrate", str(tmp_path / "runs"), "--rollouts", "400", "--recalibrate", "none", "--json"])
    seeds = json.loads(capsys.readouterr().out)
    assert [one["overall"] for one in seeds["runs"]] == [found["overall"]] * 2
    assert Path(seeds["figure"]).parent == tmp_path / "runs" / "figures"
    figure = reliability_diagram(found)
    assert len(figure.axes[0].get_legend_handles_labels()[1]) == 2


def test_where_every_episode_begins_at_its_goal_there_is_nothing_to_calibrate():
    env = ExternalEnv(goal_worlds.Point(discrete=True, radius=5.0), max_episode_steps=5)
    agent = Agent(FixedLogit(0.0, 4, 5), env.spec, Config(env="Point", max_horizon=5))
    with pytest.raises(ClearningError, match="nothing to calibrate"):
        run_trials(agent, env, rollouts=3)


def test_calibrate_refuses_too_few_rollouts(lake_run, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", str(lake_run), "--rollouts", "3"])
    assert stop.value.code == 2
    assert "at least 20" in capsys.readouterr().err


def test_gymnasium_environments_are_calibrated_too():
    settings = {"env": "point_goal:PointGoal-v0", "hidden": (8,), "max_horizon": 6}
    config = replace_settings(gymnasium_defaults(), settings | {"processes": 1, "parallel_envs": 8})
    env = make_world(config)
    try:
        agent = Agent(build_network(env.spec, config, jax.random.key(0)), env.spec, config)
        trials = run_trials(agent, env, rollouts=20)
    finally:
        env.close()
    assert 10 <= len(trials.goal) <= 20
    assert set(np.unique(trials.horizon)) <= set(range(1, 7))
    assert trials.happened.dtype == bool
