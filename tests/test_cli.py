"""The command line as a user types it."""

import contextlib
import json

import jax
import numpy as np
import pytest
from conftest import assert_refused, run, untrained_run

from clearning.agent import Agent
from clearning.cli import main
from clearning.config import replace_settings
from clearning.envs import CatAndMouse, DubinsCar, make_world
from clearning.networks import build_network
from clearning.presets import PEERS, PRESETS, gymnasium_defaults
from clearning.report import dials, exact, tables
from clearning.runs import METRICS, RunFolder

ROBOTS = {"fetch", "hand", "point"}
TINY_ROBOT = ["--hidden", "8", "--batch-size", "8", "--updates-per-episode", "1", "--episodes", "4"]
TINY_ROBOT += ["--random-episodes", "2", "--parallel-envs", "2", "--test-episodes", "2", "--processes", "1"]
TINY_ROBOT += ["--max-episode-steps", "24", "--buffer-capacity", "1000"]
TINY = ["--hidden", "8", "--updates-per-episode", "2", "--episodes", "17", "--random-episodes", "15"]


@pytest.fixture(scope="module")
def lake_runs(tmp_path_factory):
    parent = tmp_path_factory.mktemp("runs") / "lake"
    main(["train", "frozen-lake", "--seeds", "0-1", "--out", str(parent), *TINY])
    return parent


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_runs_two_iterations(name, tmp_path, capsys):
    robot = name.removeprefix("paper/").partition("-")[0] in ROBOTS
    if robot:
        pytest.importorskip("gymnasium_robotics")
    code, _, error = run(
        capsys, "train", name, "--out", str(tmp_path / "run"), *(TINY_ROBOT if robot else TINY)
    )
    assert code == 0, error
    names = {p.name for p in (tmp_path / "run").iterdir()}
    expected = {"config.json", "versions.json", "metrics.csv", "checkpoint.safetensors", "agent.safetensors"}
    assert expected <= names


@pytest.mark.parametrize("peer", PEERS)
def test_every_peer_trains_and_is_evaluated_or_says_why_not(peer, tmp_path, capsys):
    refused = {"cat-and-mouse": ("gcsl", "her", "d-learning"), "mini-maze": ("td3",)}
    for name in refused:
        folder = tmp_path / name
        code, _, error = run(capsys, "train", f"{peer}/{name}", "--out", str(folder), *TINY)
        if peer in refused[name]:
            assert (code, folder.exists()) == (2, False)
            assert f"{peer} is for" in error
            continue
        assert code == 0, error
        code, out, error = run(capsys, "eval", str(folder), "--json")
        assert code == 0, error
        assert 0 <= json.loads(out)["success"] <= 1


def test_prefixes_are_listed_and_peers_answer_for_their_dials(tmp_path, capsys):
    _, out, _ = run(capsys, "presets")
    assert all(f"{peer}/" in out for peer in PEERS)
    folder = str(tmp_path / "run")
    assert run(capsys, "train", "d-learning/frozen-lake", "--out", folder, *TINY)[0] == 0
    code, out, _ = run(capsys, "eval", folder, "--json", "--discount", "0.5")
    assert (code, json.loads(out)["policy"]) == (0, {"discount": 0.5})
    code, _, error = run(capsys, "eval", folder, "--horizon", "5")
    assert (code, "d-learning has no horizon: it acts by discount" in error) == (2, True)
    assert run(capsys, "eval", folder, "--state", "1,0", "--goal", "1,1", "--rollouts", "5", "--json")[0] == 0
    code, _, error = run(capsys, "eval", folder, "--dial")
    assert (code, "has not learned how surely" in error) == (2, True)
    code, out, error = run(capsys, "plot", folder)
    assert (code, out.strip().endswith("learning_curves.png")) == (0, True), error


def test_seeds_make_one_folder_each(lake_runs):
    assert sorted(p.name for p in lake_runs.iterdir()) == ["seed-0", "seed-1"]
    for seed in (0, 1):
        record = json.loads((lake_runs / f"seed-{seed}" / "config.json").read_text())
        assert record["seed"] == seed
        assert record["preset"] == "frozen-lake"
        header = (lake_runs / f"seed-{seed}" / "metrics.csv").read_text().splitlines()[0]
        assert header.split(",") == list(METRICS)


def test_eval_json_has_what_scripts_need(lake_runs, capsys):
    code, out, _ = run(capsys, "eval", str(lake_runs / "seed-1"), "--json")
    found = json.loads(out)
    assert code == 0
    assert found["seed"] == 1
    assert found["episodes"] == 17
    assert 0 <= found["success"] <= 1
    assert found["env_steps"] > 0
    assert {"steps", "optimal_steps", "distance", "by_stratum"} <= found.keys()
    assert found["by_stratum"].keys() == {"ice", "hole"}
    weighted = sum(s["success"] * s["goals"] for s in found["by_stratum"].values())
    assert found["success"] == pytest.approx(weighted / found["goals"])
    assert found["optimal_success"] >= found["success"]


def test_eval_of_a_folder_of_seeds_gives_mean_and_interval(lake_runs, capsys):
    _, out, _ = run(capsys, "eval", str(lake_runs), "--json")
    found = json.loads(out)
    values = found["success_over_seeds"]["values"]
    assert found["seeds"] == [0, 1]
    assert found["success"] == pytest.approx(np.mean(values))
    assert found["success_over_seeds"]["std"] == pytest.approx(np.std(values))
    low, high = found["success_over_seeds"]["interval"]
    assert low <= found["success"] <= high
    code, out, _ = run(capsys, "eval", str(lake_runs))
    assert code == 0
    assert "every seed" in out


def test_eval_with_a_fixed_horizon_ends_when_it_has_counted_down(lake_runs, capsys):
    _, out, _ = run(capsys, "eval", str(lake_runs / "seed-0"), "--horizon", "2", "--json")
    counted_down = json.loads(out)
    assert counted_down["policy"] == {"horizon": 2, "receding": False}
    assert counted_down["steps"] is None or counted_down["steps"] <= 2
    _, out, _ = run(capsys, "eval", str(lake_runs / "seed-0"), "--horizon", "2", "--receding", "--json")
    assert json.loads(out)["success"] >= counted_down["success"]


def test_turning_the_dial_sets_promise_beside_success(lake_runs, capsys):
    code, out, _ = run(capsys, "eval", str(lake_runs), "--dial", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["seeds"] == [0, 1]
    fixed = [r for r in found["rows"] if "horizon" in r["policy"]]
    horizons = [r["policy"]["horizon"] for r in fixed]
    assert horizons[0] == 1
    assert horizons[-1] == 50
    assert len(fixed) <= 8
    assert [r["policy"]["alpha"] for r in found["rows"][len(fixed) :]] == [0.5, 0.7, 0.9, 0.99, 1.0]
    for row in fixed:
        assert row["success"] == pytest.approx(np.mean([r["success"] for r in row["runs"]]))
        assert row["success"] <= row["optimal_success"] + 0.02
        assert 0 <= row["predicted"] <= 1
    # One of the rows is what `--horizon` gives.
    h = str(horizons[1])
    _, out, _ = run(capsys, "eval", str(lake_runs / "seed-0"), "--horizon", h, "--json")
    alone, row = json.loads(out), fixed[1]["runs"][0]
    assert row["success"] == pytest.approx(alone["success"])
    assert row["optimal_success"] == pytest.approx(alone["optimal_success"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--dial", "--alpha", "0.5"], "give it alone"),
        (["--dial", "--state", "1,0", "--goal", "1,6"], "give it alone"),
        (["--episodes", "5"], "--episodes is for Gymnasium's"),
        (["--dial", "--episodes", "5"], "--episodes is for Gymnasium's"),
        (["--episodes", "0"], "at least 1"),
        (["--discount", "0.5", "--alpha", "0.5"], "--discount is d-learning's dial and goes with no other"),
        (["--state", "1,0", "--goal", "1,6", "--rollouts", "0"], "--rollouts must be at least 1, not 0"),
    ],
)
def test_eval_refuses_what_does_not_go_together(capsys, lake_runs, arguments, words):
    code, _, err = run(capsys, "eval", str(lake_runs / "seed-0"), *arguments)
    assert code == 2
    assert words in err


@pytest.fixture(scope="module")
def point_run(tmp_path_factory):
    """An untrained run on a Gymnasium environment."""
    settings = {"env": "point_goal:PointGoal-v0", "hidden": (8,), "max_horizon": 6}
    settings |= {"processes": 1, "parallel_envs": 4, "test_episodes": 4}
    config = replace_settings(gymnasium_defaults(), settings)
    folder, spec = RunFolder(tmp_path_factory.mktemp("point") / "run"), make_world(config).spec
    folder.create(config, 0, None, {"custom_env": False, "custom_network": False})
    folder.append_metrics({"env_steps": 60, "episodes": 10, "updates": 10, "eval_success": 0.5})
    Agent(build_network(spec, config, jax.random.key(0)), spec, config).save(folder.agent_file)
    return folder.path


def test_eval_of_a_gymnasium_run_says_what_was_held_and_what_was_given(capsys, point_run, monkeypatch):
    code, out, _ = run(capsys, "eval", str(point_run), "--episodes", "7", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["goals"] == 7
    assert found["held"] <= found["success"]
    assert 0 <= found["reached_at_reset"] <= 1
    monkeypatch.setattr("clearning.report.evaluation.FINAL_EPISODES", 9)
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, "eval", str(point_run))
    assert code == 0
    assert all(word in out for word in ("success, %", "held, %", "at reset, %", " 9 "))
    assert not any(word in out for word in ("optimum", "ratio", "paper"))
    _, out, _ = run(capsys, "eval", str(point_run), "--dial")
    assert "α = 0.99" in out
    assert "h = 6" in out
    assert "optimum" not in out
    code, _, err = run(capsys, "eval", str(point_run), "--state", "0,0", "--goal", "1,1")
    assert (code, "draws its own" in err) == (2, True)


def test_the_widest_tables_fit_80_columns(capsys, monkeypatch):
    """Three seeds of the car, whose strata, optimum and paper's figures fill every column."""
    monkeypatch.setenv("COLUMNS", "80")
    part = {"goals": 192, "steps": 14.123, "optimal_steps": 13.9, "distance": 14.0}
    runs = []
    for seed, success in enumerate((0.9896, 1.0, 0.9948)):
        one = part | {"success": success, "steps": 14.1 + seed, "distance": 14.0 + seed}
        one["optimal_steps"] = 13.9 + 0.01 * seed
        strata = dict.fromkeys(("easy", "medium", "hard"), one)
        runs.append(one | {"by_stratum": strata, "preset": "dubins-car", "seed": seed, "env_steps": 22_000})
    tables.print_evaluation({"runs": runs, "success_over_seeds": {"interval": [0.99, 1.0]}})
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.lstrip().startswith("paper") for line in lines) == 4
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert any("86.15 ± " in line for line in lines)  # whole, not wrapped
    assert sum("±" in line for line in lines) == 8  # no cell goes on in a second line


def test_the_papers_figures_stand_below_the_papers_goals(capsys, monkeypatch):
    """Where more goals are tested than the paper's, its figures are not those of all."""
    monkeypatch.setenv("COLUMNS", "80")
    one = {"goals": 192, "success": 0.9, "steps": 14.1, "optimal_steps": None}
    whole = one | {"by_stratum": dict.fromkeys(("easy", "hard"), one), "paper_goals": one | {"goals": 72}}
    tables.print_evaluation(whole | {"preset": "dubins-car", "seed": 0, "env_steps": 22_000})
    lines = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    at = lines.index("all")
    assert lines[at + 1 :] == ["paper's", "paper", "easy", "paper", "hard", "paper"]
    tables.print_evaluation(whole | {"preset": None, "run": "runs/own", "seed": 0, "env_steps": 22_000})
    out = capsys.readouterr().out
    assert "runs/own, 1 seed" in out
    assert "±" not in out


def test_runs_of_different_horizons_are_not_dialled_together(capsys, tmp_path):
    for seed, horizons in enumerate((1, 2)):
        config = replace_settings(PRESETS["frozen-lake"](), {"hidden": (4,), "max_horizon": horizons})
        untrained_run(tmp_path / f"seed-{seed}", config, "frozen-lake", seed)
    words = "holds runs of different max_horizon: turn their dials one by one"
    assert_refused(capsys, ["eval", str(tmp_path), "--dial"], 2, words)


def test_horizons_of_the_dial_lie_where_c_rises():
    curve = np.clip(np.arange(1, 51) - 10, 0, 10) / 10
    found = dials.telling_horizons(curve)
    assert (found[0], found[-1]) == (1, 50)
    assert sum(10 <= h <= 20 for h in found) >= 4
    assert dials.telling_horizons(np.zeros(50))[-1] == 50
    assert dials.telling_horizons(np.linspace(0, 1, 3)) == (1, 2, 3)


def test_eval_of_one_pair_stands_beside_the_exact_value(lake_runs, capsys):
    arguments = ["--state", "1,0", "--goal", "1,6", "--horizon", "6", "--rollouts", "500", "--json"]
    _, out, _ = run(capsys, "eval", str(lake_runs / "seed-0"), *arguments)
    found = json.loads(out)
    assert found["exact"] == pytest.approx(0.262144)
    assert found["success"] <= found["exact"] + 0.08  # no policy beats the optimum; 4 standard errors
    # Of who goes on for ever with six steps left there is no such value.
    _, out, _ = run(capsys, "eval", str(lake_runs / "seed-0"), "--receding", *arguments)
    assert {"success", "predicted"} <= json.loads(out).keys()
    assert "exact" not in json.loads(out)


def test_eval_of_one_pair_is_shown_to_people_too(lake_runs, capsys):
    arguments = ["--state", "1,0", "--goal", "1,6", "--rollouts", "5"]
    found = {}
    for folder in (lake_runs, lake_runs / "seed-1"):
        code, out, _ = run(capsys, "eval", str(folder), *arguments)
        assert code == 0
        found[folder.name] = json.loads(out)
    assert [r["seed"] for r in found["lake"]["runs"]] == [0, 1]
    assert found["seed-1"] == found["lake"]["runs"][1]


def test_the_best_success_within_h_steps_is_exact():
    car = DubinsCar()
    x, y, cos, sin = car.test_set().state[0]
    goals = np.array([[x, y], [x + 3 * cos, y + 3 * sin]])  # here, and three steps ahead
    np.testing.assert_array_equal(exact.best_success(car, goals, 4), [0.5, 0.5, 1.0, 1.0])
    cat = CatAndMouse()
    state, goal = cat.test_set().state[0].tolist(), cat.test_set().goal[0].tolist()
    best = exact.best_success(cat, cat.test_set().goal, 5)
    assert best[-1] == exact.oracle("cat-and-mouse", {}, state, goal, 5)["probability"]
    assert (np.diff(best) >= 0).all()


@pytest.mark.parametrize(
    ("state", "goal", "horizon", "probability", "action"),
    [
        ("1,0", "1,6", "24", 0.9873, "right"),
        ("1,0", "1,6", "6", 0.2621, "up"),
        ("0,2", "1,6", "24", 0.0, "up"),  # from inside a hole
        ("1,2", "0,2", "1", 0.8, "left"),  # into a hole
        ("1,0", "1,0", "3", 1.0, None),
    ],
)
def test_oracle_on_frozen_lake(capsys, state, goal, horizon, probability, action):
    code, out, _ = run(
        capsys, "oracle", "frozen-lake", "--state", state, "--goal", goal, "--horizon", horizon, "--json"
    )
    found = json.loads(out)
    assert code == 0
    assert found["probability"] == pytest.approx(probability, abs=1e-4)
    assert found["best_action"] == action


def test_oracle_on_the_other_worlds(capsys):
    options = [
        "--state",
        "6,6",
        "--goal",
        "6,8",
        "--horizon",
        "1",
        "--env-options",
        "stochastic",
        "True",
        "--json",
    ]
    _, out, _ = run(capsys, "oracle", "mini-maze", *options)
    assert json.loads(out)["probability"] == pytest.approx(0.15)
    _, out, _ = run(
        capsys, "oracle", "dubins-car", "--state", "0,0,1,0", "--goal", "3,0", "--horizon", "3", "--json"
    )
    found = json.loads(out)
    assert (found["probability"], found["fewest_steps"]) == (1.0, 3)
    assert found["by_action"]["forward straight"] == 1.0
    assert found["by_action"]["stay"] == 0.0


def test_oracle_past_the_cat(capsys):
    pair = ["--state", "1,5,0", "--goal", "9,5", "--json"]
    code, out, _ = run(capsys, "oracle", "cat-and-mouse", *pair, "--horizon", "2")
    assert (code, json.loads(out)["probability"]) == (0, 0.0)
    _, out, _ = run(capsys, "oracle", "cat-and-mouse", *pair, "--horizon", "5")
    assert 0.3 < json.loads(out)["probability"] < 0.5  # straight past the cat


def test_the_caught_get_nowhere(capsys):
    """Unless they are there already."""
    for goal, probability in (("9,5", 0.0), ("1,5", 1.0)):
        pair = ["--state", "1,5,1", "--goal", goal, "--horizon", "9"]
        _, out, _ = run(capsys, "oracle", "cat-and-mouse", *pair, "--json")
        assert json.loads(out)["probability"] == probability


def test_the_oracle_speaks_to_people_too(capsys):
    code, out, _ = run(capsys, "oracle", "frozen-lake", *PAIR, "--horizon", "6")
    told = dict(line.split(": ", 1) for line in out.splitlines())
    assert code == 0
    assert float(told["probability"]) == pytest.approx(0.262144)
    assert (told["best_action"], told["fewest_steps"]) == ("up", "6")


PAIR = ["--state", "1,0", "--goal", "1,6"]


def test_ask_answers_as_the_agent_does(lake_runs, capsys):
    run_folder = str(lake_runs / "seed-0")
    agent = Agent.load(lake_runs / "seed-0" / "agent.safetensors")
    _, out, _ = run(capsys, "ask", run_folder, *PAIR, "--horizon", "24", "--json")
    found = json.loads(out)
    assert found["probability"] == pytest.approx(agent.reach_probability([1, 0], [1, 6], 24))
    assert "disagreement" not in found
    _, out, _ = run(capsys, "ask", run_folder, *PAIR, "--curve", "--json")
    np.testing.assert_allclose(json.loads(out)["probability"], agent.reach_curve([1, 0], [1, 6]), rtol=1e-6)
    _, out, _ = run(capsys, "ask", run_folder, *PAIR, "--probability", "0.0001", "--json")
    assert json.loads(out)["min_horizon"] == agent.min_horizon([1, 0], [1, 6], 0.0001)
    _, out, _ = run(capsys, "ask", run_folder, *PAIR, "--probability", "1", "--json")
    assert json.loads(out)["min_horizon"] is None
    _, out, _ = run(capsys, "ask", run_folder, *PAIR, "--probability", "1")
    assert "min_horizon: not within 50 steps" in out
    _, out, _ = run(capsys, "ask", f"{run_folder}/agent.safetensors", *PAIR, "--curve")
    assert "h = 50" in out


def test_ask_of_several_seeds_tells_their_disagreement(lake_runs, capsys):
    agents = [Agent.load(lake_runs / f"seed-{i}" / "agent.safetensors") for i in (0, 1)]
    each = [a.reach_probability([1, 0], [1, 6], 9) for a in agents]
    _, out, _ = run(capsys, "ask", str(lake_runs), *PAIR, "--horizon", "9", "--json")
    found = json.loads(out)
    assert found["agents"] == 2
    assert found["probability"] == pytest.approx(np.mean(each))
    assert found["disagreement"] == pytest.approx(np.std(each), abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--state", "9,9", "--goal", "1,6"], "off the map"),
        (["--state", "1,0,0", "--goal", "1,6"], "has 2 finite numbers"),
        (["--state", "1,0", "--goal", "1,nan"], "has 2 finite numbers"),
        (["--state", "1,x", "--goal", "1,6"], "separated by commas"),
        ([*PAIR, "--horizon", "51"], "whole number in 1..50, not 51"),
        ([*PAIR, "--probability", "0"], "probability must lie in (0, 1]"),
        ([*PAIR, "--curve", "--horizon", "3"], "Give one of"),
    ],
)
def test_ask_refuses_bad_questions(lake_runs, capsys, arguments, words):
    code, _, err = run(capsys, "ask", str(lake_runs / "seed-0"), *arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_ask_of_a_gymnasium_run_takes_the_observation(point_run, capsys):
    code, out, _ = run(capsys, "ask", str(point_run), "--state", "0,0", "--goal", "0,0.1", "--horizon", "3")
    assert (code, "probability: " in out) == (0, True)
    code, _, err = run(capsys, "ask", str(point_run), "--state", "0", "--goal", "0,0.1")
    assert (code, "observation of" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "dubins-cra"], 2, "Did you mean 'dubins-car'?"),
        (["train"], 2, "train needs a preset"),
        (["train", "--seed", "1"], 2, "The preset comes first"),
        (["train", "frozen-lake", "--episods", "3"], 2, "--episodes"),
        (["train", "frozen-lake", "--alpha", "0"], 2, "alpha must lie in (0, 1]"),
        (["train", "frozen-lake", "--max-horizon", "0"], 2, "max_horizon must be at least 1"),
        (["train", "frozen-lake", "--goal-future", "0.5"], 2, "must sum to 1"),
        (["train", "frozen-lake", "--env", "frozen-lak"], 2, "Did you mean 'frozen-lake'?"),
        (["train", "frozen-lake", "--env-options", "size", "3"], 2, "has no option 'size'"),
        (["train", "frozen-lake", "--seeds", "a-b"], 2, "as in 0-4"),
        (["train", "frozen-lake", "--seed", "-1"], 2, "The seed must be a whole number in 0..2147483647"),
        (["trian"], 2, "Did you mean 'train'?"),
        (["eval", "nowhere"], 2, "There is no run folder at nowhere"),
        (["ask", "nowhere", "--state", "1,0", "--goal", "1,6"], 2, "There is no run folder at nowhere"),
        (["calibrate", "nowhere"], 2, "There is no run folder at nowhere"),
        (["resume", "nowhere"], 2, "not a run folder"),
        (["oracle", "frozen-lake", "--state", "9,9", "--goal", "1,6", "--horizon", "3"], 2, "off the map"),
        (["oracle", "frozen-lake", "--state", "1,0", "--goal", "1,6", "--horizon", "0"], 2, "at least 1"),
        (["oracle", "mini-maze", "--state", "11,0", "--goal", "1,6", "--horizon", "3"], 2, "inside a wall"),
        (
            ["oracle", "dubins-car", "--state", "5,3,1,0", "--goal", "1,6", "--horizon", "3"],
            2,
            "inside a wall",
        ),
        (
            ["oracle", "cat-and-mouse", "--state", "1,5,0.5", "--goal", "9,5", "--horizon", "3"],
            2,
            "caught is 0.5: it must be 0 or 1",
        ),
        (
            ["oracle", "frozen-lake", "--state", "x", "--goal", "1,6", "--horizon", "3"],
            2,
            "separated by commas",
        ),
    ],
)
def test_bad_usage_gets_a_clear_sentence(capsys, monkeypatch, tmp_path, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert_refused(capsys, arguments, code, words)
    assert not list(tmp_path.iterdir())  # nothing was written


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--alpha", "1.5"], "alpha must lie in (0, 1]"),
        (["--horizon", "0"], "must be at least 1"),
        (["--horizon", "51"], "must be in 1..50"),
        (["--alpha", "0.5", "--horizon", "3"], "either --alpha or --horizon"),
        (["--receding"], "give both"),
        (["--state", "1,0"], "go together"),
        (["--state", "1,0,2", "--goal", "1,6"], "has 2 finite numbers"),
    ],
)
def test_eval_refuses_bad_dials(capsys, lake_runs, arguments, words):
    code, _, err = run(capsys, "eval", str(lake_runs / "seed-0"), *arguments)
    assert code == 2
    assert words in err


def test_a_folder_with_a_run_is_left_alone(capsys, lake_runs):
    before = (lake_runs / "seed-0" / "metrics.csv").read_bytes()
    code, _, err = run(capsys, "train", "frozen-lake", "--out", str(lake_runs / "seed-0"), *TINY)
    assert code == 2
    assert "already holds a run" in err
    assert (lake_runs / "seed-0" / "metrics.csv").read_bytes() == before


@pytest.fixture
def copied_run(lake_runs, tmp_path):
    import shutil

    return shutil.copytree(lake_runs / "seed-0", tmp_path / "copy")


@pytest.mark.parametrize("verb", ["resume", "eval"])
def test_damaged_files_are_told_and_kept(capsys, copied_run, verb):
    name = {"resume": "checkpoint.safetensors", "eval": "agent.safetensors"}[verb]
    path = copied_run / name
    path.write_bytes(path.read_bytes()[:1000])
    code, _, err = run(capsys, verb, str(copied_run))
    assert code == 1
    assert f"{name} is truncated, damaged" in err
    assert len(path.read_bytes()) == 1000


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r | {"format": 99, "version": "7.0.0"}, "was written by clearning 7.0.0"),
        (lambda r: r | {"config": r["config"] | {"novelty": 1}}, "unknown setting 'novelty'"),
        (lambda r: {k: v for k, v in r.items() if k != "config"}, "the run has no config"),
        (lambda r: r | {"config": r["config"] | {"hidden": 3}}, "config.json"),
    ],
)
def test_configs_of_other_versions_are_refused(capsys, copied_run, change, words):
    path = copied_run / "config.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    code, _, err = run(capsys, "eval", str(copied_run))
    assert code == 1
    assert words in err
    assert "Traceback" not in err


def test_help_teaches(capsys):
    for arguments, words in [
        (["--help"], "clearning oracle"),
        (["train", "--help"], "paper/dubins-car"),
        (["train", "frozen-lake", "--help"], "--updates-per-episode"),
        (["eval", "--help"], "it counts down"),
        (["presets"], "dubins-reachability"),
        (["--version"], "0.1.0"),
    ]:
        code, out, _ = run(capsys, *arguments)
        assert code == 0
        assert words in out


def test_a_log_on_a_full_disk_does_not_change_how_a_command_ends(monkeypatch):
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr("sys.stderr", full)
        with pytest.raises(SystemExit) as stop:
            main(["train", "no-such-preset"])
        monkeypatch.undo()
        with contextlib.suppress(OSError):
            full.close()
    assert stop.value.code == 2
