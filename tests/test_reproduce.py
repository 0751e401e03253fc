"""Reproducing the paper: statistics, which runs are trained, used again or gone on with, and the report."""

import json
import os
import re
import signal
import sys
import threading
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clearning.cli import main
from clearning.config import replace_settings
from clearning.core.tabular import FiniteMDP, optimal_c_last, optimal_q
from clearning.errors import ClearningError, UsageError
from clearning.files import save_arrays
from clearning.lock import locked
from clearning.plots.paper import tolerated_by_c, tolerated_error
from clearning.presets import preset
from clearning.report.tables import paper_results
from clearning.reproduce import claims, sections
from clearning.reproduce.experiments import (
    NEEDS,
    ROBOT_STEPS,
    Run,
    identity,
    needed,
    run_of,
    targets,
    with_robots,
)
from clearning.reproduce.report import Cell, Picture, Section, Table, Text, write_report
from clearning.reproduce.results import Contestant, Results, steps_to
from clearning.reproduce.runner import TrainingsFailed, stored_runs, train_missing
from clearning.reproduce.statistics import (
    best_or_near,
    difference,
    interquartile_mean,
    ratio_of_steps,
    spread,
)
from clearning.runs import RunFolder
from clearning.training import Interrupted

TINY = {"episodes": 17, "hidden": (8,), "updates_per_episode": 2}


# Statistics ---------------------------------------------------------------------------------------


def test_interquartile_means_leave_out_a_quarter_on_either_side():
    assert interquartile_mean([100.0, 1.0, 2.0, 3.0, 0.0]) == 2.0
    assert interquartile_mean([0.0, 10.0]) == 5.0  # a quarter of two is none
    assert interquartile_mean([8.0, 1, 2, 3, 4, 5, 6, 7]) == 4.5


def test_a_spread_has_the_papers_deviation_and_passes_over_what_is_unknown():
    found = spread([0.8, None, 0.9], scale=100)
    assert found.values == pytest.approx((80, 90))
    assert (found.mean, found.deviation) == pytest.approx((85, 5))  # population: √(25), not √(50)
    assert found.interval == pytest.approx((80, 90))
    assert spread([None]) is None
    assert spread([0.5, 0.5]).interval == (0.5, 0.5)


# What the paper prints in bold, as {column: methods}.
BOLD_MAZE = {
    ("success", "easy"): {"c-learning", "gcsl"},
    ("success", "medium"): {"gcsl"},
    ("success", "hard"): {"c-learning", "gcsl"},
    ("success", "all"): {"c-learning", "gcsl"},
    ("path", "easy"): {"her"},
    ("path", "medium"): {"c-learning", "gcsl", "her"},
    ("path", "hard"): {"gcsl", "her"},
    ("path", "all"): {"gcsl", "her"},
}
BOLD_RECURSIONS = {
    ("success", "easy"): {"c-learning"},
    ("success", "medium"): {"c-learning", "a-learning"},
    ("success", "hard"): {"c-learning"},
    ("success", "all"): {"c-learning"},
    ("path", "easy"): {"a-learning", "d-learning"},
    ("path", "medium"): {"d-learning"},
    ("path", "hard"): {"d-learning"},
    ("path", "all"): {"d-learning"},
}


@pytest.mark.parametrize(
    ("world", "methods", "bold"),
    [
        ("mini-maze", ("c-learning", "gcsl", "her"), BOLD_MAZE),
        ("dubins-car", ("c-learning", "a-learning", "d-learning"), BOLD_RECURSIONS),
    ],
)
def test_the_rule_for_bold_gives_what_the_paper_prints(world, methods, bold):
    told = paper_results()[world]
    for (metric, stratum), expected in bold.items():
        marks = best_or_near([told[m][metric][stratum] for m in methods], largest=metric == "success")
        assert {m for m, mark in zip(methods, marks, strict=True) if mark} == expected, (metric, stratum)


def test_bold_without_numbers():
    assert best_or_near([None, (1.0, 0.0), (2.0, 0.0)]) == [False, False, True]
    assert best_or_near([None, (1.0, 0.0)]) == [False, False]  # nothing to be better than
    assert best_or_near([None]) == [False]


def test_differences_by_hand():
    ones, zeros = np.ones((3, 4)), np.zeros((3, 4))
    apart = difference(ones, zeros)
    assert (apart.value, apart.low, apart.high, apart.sign) == (1, 1, 1, 1)
    assert difference(zeros, ones).sign == -1
    assert difference(ones, ones).sign == 0
    assert difference(ones[:2], zeros).sign == 0  # apart, but of too few seeds to say so
    # Two seeds, one always and one never there: a quarter of the draws takes the same one twice.
    coarse = difference(np.array([[0.0, 0.0], [1.0, 1.0]]), np.zeros((2, 2)))
    assert (coarse.value, coarse.low, coarse.high) == (0.5, 0, 1)


def test_differences_draw_goals_once_for_both_methods():
    hard = (np.arange(40) % 2).astype(float)  # the same goals are missed by every seed of both
    same = difference(np.tile(hard, (3, 1)), np.tile(hard, (4, 1)))
    assert (same.low, same.high) == pytest.approx((0, 0), abs=1e-12)
    # Goals drawn for one method alone would leave a wide interval here.
    better = difference(np.tile(np.maximum(hard, np.arange(40) < 20), (3, 1)), np.tile(hard, (3, 1)))
    assert better.sign == 1


def test_differences_of_paths_leave_out_what_never_arrived():
    first = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, np.nan]])
    assert difference(first, np.ones((3, 2))).value == 1.0
    with pytest.raises(ValueError, match="2 and 3 goals"):
        difference(first, np.ones((3, 3)))


def test_steps_to_a_success_are_those_of_the_mean_curve():
    def run(success):
        return SimpleNamespace(
            metrics={"env_steps": np.array([100.0, 200.0]), "eval_success": np.array(success)}
        )

    assert steps_to([run([0.5, 1.0])], 0.5) == pytest.approx(100, abs=1)
    assert steps_to([run([0.0, 1.0]), run([1.0, 1.0])], 0.75) == pytest.approx(150, abs=1)
    assert steps_to([run([0.1, 0.2])], 0.9) is None


# How accurately values must be known --------------------------------------------------------------


def test_tolerated_errors_by_hand():
    values = np.array([[[1.0, 0.3], [0.0, 0.3], [1.0, 0.3]]])  # one state, three actions, two goals
    error = tolerated_error(values)
    assert error[0, 0] == 0.5
    assert np.isnan(error[0, 1])  # every action is as good


def test_the_papers_example_of_accuracy():
    """A goal five steps away on a line, and a wrong step that costs two more (figure 1b)."""
    states = np.arange(8)
    table = np.zeros((8, 2, 8))
    table[states, 0, np.maximum(states - 1, 0)] = table[states, 1, np.minimum(states + 1, 7)] = 1.0
    line = FiniteMDP(table, np.eye(8, dtype=bool), np.zeros(8, bool))
    assert tolerated_error(optimal_q(line, 0.99))[2, 7] == pytest.approx((0.99**5 - 0.99**7) / 2)
    best = optimal_c_last(line, 10).max(1)
    assert tolerated_by_c(line, 10, 0.9, best)[2, 7] == 0.5


# Which trainings ----------------------------------------------------------------------------------


def test_unknown_targets_are_answered_with_the_nearest(capsys, tmp_path):
    assert targets("all") == list(NEEDS)
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "tabel-1", "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert "Did you mean 'table-1'?" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "told"), [(["--jobs", "0"], "at least 1"), (["--seeds", "a"], "range or a list")]
)
def test_wrong_options_exit_with_2(wrong, told, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "table-2", "--budget", "quick", "--out", str(tmp_path), *wrong])
    assert stop.value.code == 2
    assert told in capsys.readouterr().err


def test_every_method_of_a_form_has_the_same_budget():
    runs = needed("table-1", (0,), "paper", robots=True)
    budgets = {"fetch-pick-and-place": (300_000, 100_000), "hand-manipulate-pen-full": (1_000_000, 150_000)}
    for world, (ours, papers) in budgets.items():
        mine = {(r.form, r.method): r.config for r in runs if r.world == world}
        assert len(mine) == 4
        assert {mine["", m].env_steps for m in ("c-learning", "td3")} == {ours}
        assert {mine["paper/", m].env_steps for m in ("c-learning", "td3")} == {papers}
        assert mine["", "c-learning"] == preset(world)  # a run of the preset itself serves here too


def test_on_robots_methods_of_the_papers_form_differ_in_nothing_but_the_method():
    runs = [
        run_of("fetch-pick-and-place", method, "paper/", 0, "paper").config
        for method in ("c-learning", "uniform-h", "naive-q", "tdm")
    ]
    assert {config.form for config in runs} == {"sampled-horizon"}
    told = [asdict(config) for config in runs]
    differing = {name for name in told[0] if any(each[name] != told[0][name] for each in told)}
    by_tdm = {"end_at_success", "goal_tries", "pair_tries", "action_penalty"}  # see presets.peers.as_tdm
    assert differing == {"method", "kappa", *by_tdm}
    peer = run_of("fetch-pick-and-place", "td3", "paper/", 0, "paper").config
    for name in ("frontier", "epsilon", "epsilon_decay", "noise", "hidden", "learning_rate", "batch_size"):
        assert getattr(peer, name) == getattr(runs[0], name)


def test_robots_are_trained_only_where_wanted(monkeypatch):
    assert {r.world for r in needed("table-1", (0,), "quick", robots=False)} == {"dubins-car"}
    quick = {r.form: r.config.episodes for r in needed("table-3", (0,), "quick", robots=False)}
    assert quick == {"paper/": 15 + 900, "": 15 + 137}
    monkeypatch.setattr("clearning.reproduce.experiments.find_spec", lambda name: None)
    assert not with_robots("paper", "auto")
    with pytest.raises(UsageError, match="gymnasium-robotics"):
        with_robots("quick", "yes")


def test_without_seeds_there_are_as_many_as_in_the_paper():
    told = {"table-1": 5, "table-2": 3, "table-3": 5, "table-4": 3, "figure-3b": 3}
    for what, count in told.items():
        assert {r.seed for r in needed(what, (), "paper", robots=False)} == {*range(count)}, what
        assert {r.seed for r in needed(what, (), "quick", robots=False)} == {0, 1}
    robots = [r for r in needed("table-1", (), "paper", robots=True) if r.world in ROBOT_STEPS]
    assert {r.seed for r in robots} == {0, 1}
    assert {r.seed for r in needed("table-1", (7,), "paper", robots=True)} == {7}


def test_the_command_line_trains_what_the_hash_is_of(monkeypatch):
    asked = []
    monkeypatch.setattr("clearning.api.train", lambda config, seed, **_: asked.append((config, seed)))
    monkeypatch.setattr("clearning.envs.make_world", lambda config: None)
    runs = [
        run_of("dubins-reachability", "c-learning", "paper/", 3, "quick"),
        run_of("fetch-pick-and-place", "naive-q", "paper/", 0, "quick"),
        Run("frozen-lake", "gcsl", "", 1, "gcsl/frozen-lake", TINY),
    ]
    for run in runs:
        main(["train", *run.arguments()])
    assert [identity(*pair) for pair in asked] == [run.identity for run in runs]


def test_runs_are_known_by_all_settings_and_the_seed():
    run = run_of("mini-maze", "her", "paper/", 0, "paper")
    others = [
        run_of("mini-maze", "her", "paper/", 1, "paper"),
        run_of("mini-maze", "her", "", 0, "paper"),
        run_of("mini-maze", "her", "paper/", 0, "quick"),
    ]
    assert len({run.identity, *(o.identity for o in others)}) == 4
    assert run.identity == run_of("mini-maze", "her", "paper/", 0, "paper").identity
    assert run.identity == identity(replace_settings(run.config, {"processes": 2}), 0)


# Training what is missing -------------------------------------------------------------------------


FAKE = """\
import json, signal, sys, time
place, action = sys.argv[1], sys.argv[2]
def stop(*_):
    open(place + "/stopped", "a").write("x")
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
with open(place + "/calls.txt", "a") as file:
    file.write(json.dumps(sys.argv[3:]) + "\\n")
print("some world, seed 0: 50 %, half", file=sys.stderr, flush=True)
if action == "wait":
    time.sleep(60)
sys.exit(7 if action == "fail" else 0)
"""


@pytest.fixture
def fake(tmp_path):
    """What stands in for `clearning`: it notes how it was called, and succeeds, fails or waits."""
    script = tmp_path / "fake.py"
    script.write_text(FAKE)

    def program(action="work"):
        return (sys.executable, "-S", str(script), str(tmp_path), action)

    def calls():
        file = tmp_path / "calls.txt"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    return SimpleNamespace(program=program, calls=calls, folder=tmp_path / "runs", place=tmp_path)


def lake(seed: int) -> Run:
    return Run("frozen-lake", "c-learning", "", seed, "frozen-lake", TINY)


def store(path: Path, run: Run, finished: bool) -> RunFolder:
    """A run folder as a training leaves it at its end, or when it is interrupted."""
    folder = RunFolder(path)
    folder.create(run.config, run.seed, run.preset, {})
    save_arrays(folder.checkpoint_file, {}, {"kind": "checkpoint", "counters": {"finished": finished}})
    folder.agent_file.touch()
    return folder


def test_finished_runs_are_used_again_interrupted_ones_go_on_and_the_rest_is_trained(fake, capsys):
    store(fake.folder / "anywhere" / "a", lake(0), finished=True)
    half = store(fake.folder / "elsewhere" / "b", lake(1), finished=False)
    train_missing([lake(0), lake(1), lake(2), lake(2)], fake.folder, 2, fake.program())
    calls = {words[0]: words for words in fake.calls()}
    assert len(fake.calls()) == 2  # the one that was asked for twice is trained once
    assert calls["resume"] == ["resume", str(half.path)]
    train = calls["train"]
    assert train[:4] == ["train", "frozen-lake", "--seed", "2"]
    assert Path(train[train.index("--out") + 1]).parts[-1] == "seed-2"
    lines = capsys.readouterr().err
    assert "2 trainings to do." in lines
    assert "frozen-lake, seed 2: 50 %, half" in lines
    assert "frozen-lake, seed 2: some world, seed 0: 50 %, half" in (fake.folder / "log.txt").read_text()


def test_a_terminal_has_a_bar_for_each_training_and_one_for_all(fake, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then holds any output for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    shown = lambda: re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)  # noqa: E731
    train_missing([lake(0), lake(1)], fake.folder, 1, fake.program())
    lines = shown()
    assert "2 trainings to do" in lines
    assert [f"frozen-lake, seed {seed}: finished" in lines for seed in (0, 1)] == [True, True]
    with pytest.raises(TrainingsFailed):
        train_missing([lake(2)], fake.folder, 1, fake.program("fail"))
    assert "frozen-lake, seed 2: failed" in shown()


def test_a_folder_that_cannot_be_made_is_told(fake, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ClearningError, match="Could not create"):
        train_missing([lake(0)], tmp_path / "file" / "runs", 1, fake.program())


def test_a_failing_training_is_told_after_the_others(fake):
    with pytest.raises(TrainingsFailed, match=r"2 of the trainings failed(.|\n)*seed 1: exit code 7"):
        train_missing([lake(0), lake(1)], fake.folder, 1, fake.program("fail"))
    assert len(fake.calls()) == 2


def test_being_stopped_ends_the_trainings_and_the_lock(fake):
    timer = threading.Timer(0.5, lambda: None)

    def interrupt():
        while not fake.calls():
            timer.finished.wait(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(Interrupted) as stop:
        train_missing([lake(0), lake(1)], fake.folder, 1, fake.program("wait"))
    thread.join()
    assert stop.value.exit_code == 130
    assert (fake.place / "stopped").read_text() == "x"  # one was at work, and was asked to save itself
    with locked(fake.folder):
        pass


def test_nobody_else_trains_in_the_same_folder(fake):
    fake.folder.mkdir()
    with locked(fake.folder), pytest.raises(ClearningError, match="is at work in"):
        train_missing([lake(0)], fake.folder, 1, fake.program())
    assert fake.calls() == []


def test_damaged_folders_are_passed_over(tmp_path, capsys):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "config.json").write_text("{")
    good = store(tmp_path / "good", lake(0), finished=True)
    assert {k: v.path for k, v in stored_runs(tmp_path).items()} == {lake(0).identity: good.path}
    assert "passed over" in capsys.readouterr().err


def test_runs_of_worlds_and_networks_of_ones_own_are_nobody_elses(tmp_path):
    for flag in ("custom_env", "custom_network"):
        RunFolder(tmp_path / flag).create(lake(0).config, 0, lake(0).preset, {flag: True})
    assert stored_runs(tmp_path) == {}


def test_a_run_that_owes_its_last_evaluation_is_not_finished(tmp_path):
    run = store(tmp_path, lake(0), finished=True)
    assert run.is_finished()
    counters = {"finished": True, "owes_evaluation": True}
    save_arrays(run.checkpoint_file, {}, {"kind": "checkpoint", "counters": counters})
    assert not run.is_finished()


def test_of_two_copies_the_finished_one_counts(tmp_path):
    done = store(tmp_path / "a", lake(0), finished=True)
    store(tmp_path / "b", lake(0), finished=False)
    assert stored_runs(tmp_path)[lake(0).identity].path == done.path


@pytest.mark.slow
def test_a_real_training_is_found_again_and_evaluated_once(tmp_path, monkeypatch):
    train_missing([lake(0)], tmp_path, 1)
    train_missing([lake(0)], tmp_path, 1, (sys.executable, "-c", "raise SystemExit(1)"))  # nothing to do
    results = Results([lake(0), lake(1)], stored_runs(tmp_path))
    assert [m.run.seed for m in results.measured] == [0]
    found = results.spread("frozen-lake", Contestant("c-learning"), "", "success")
    module = import_module("clearning.reproduce.results")
    monkeypatch.setattr(module, "evaluate", lambda *_, **__: pytest.fail("evaluated twice"))
    again = Results([lake(0)], stored_runs(tmp_path))
    assert again.spread("frozen-lake", Contestant("c-learning"), "", "success") == found
    assert again.measured[0].hours > 0


@pytest.mark.slow
def test_an_older_evaluation_is_made_anew_while_its_agent_is_there(tmp_path):
    train_missing([lake(0)], tmp_path, 1)
    (measured,) = Results([lake(0)], stored_runs(tmp_path)).measured
    found = measured.evaluation()
    assert sum(found["held"]) <= sum(found["success"])
    file = measured.folder.path / "evaluation.json"
    record = json.loads(file.read_text())
    del record["found"]["held"]
    file.write_text(json.dumps(record))
    assert measured.kept_evaluation() is None
    assert measured.evaluation() == found
    file.write_text(json.dumps(record))
    measured.folder.agent_file.unlink()
    assert measured.evaluation() == record["found"]  # all there is


# The report ---------------------------------------------------------------------------------------


class MadeUp:
    """Results that nobody trained: success and path of each goal by method, three seeds of four goals."""

    def __init__(self, success: dict[str, float]):
        self.level = success
        self.measured = []

    def of(self, world, method, form):
        return []

    def spread(self, world, who, form, metric, stratum="all"):
        if form == "" or who.method not in self.level:
            return None
        level = self.level[who.method]
        return spread([level - 1, level, level + 1] if metric == "success" else [10.0, 11.0, 12.0])

    def difference(self, world, first, second, form, metric, stratum="all"):
        if form == "" or second.method not in self.level:
            return None
        sides = [np.full((3, 4), self.level[who.method]) for who in (first, second)]
        return difference(*sides)


def test_tables_stand_beside_the_papers_with_its_rule_for_bold():
    results = MadeUp({"c-learning": 90.0, "gcsl": 89.5, "her": 50.0})
    asked = sections.rows_of(("c-learning", "gcsl", "her"))
    table, seeds, told = sections.comparison(results, "mini-maze", asked, ("all",))
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    paper, ours = "the paper", "ours, paper's form"
    named = {(m, s) for m in ("C-learning", "GCSL", "HER") for s in (paper, ours)}
    assert set(rows) == named | {("GCSL, actions drawn", ours)}
    assert rows["C-learning", "the paper"][0] == Cell("86.89 ± 6.56 %", True)
    assert rows["HER", "the paper"] == [Cell("17.87 ± 7.90 %", False), Cell("11.58 ± 2.12", True)]
    mine = {m: rows[m, "ours, paper's form"][0].bold for m in ("C-learning", "GCSL", "HER")}
    assert mine == {"C-learning": True, "GCSL": True, "HER": False}  # 89.5 is within 90 ± 0.82
    assert seeds.rows[0][3:] == ["89.00, 90.00, 91.00", "90.00 [89.00, 91.00]"]
    assert [row[3] for row in told.rows] == ["different"] * 3


def test_one_seed_has_neither_deviation_nor_interval():
    class OneSeed(MadeUp):
        def spread(self, world, who, form, metric, stratum="all"):
            found = super().spread(world, who, form, metric, stratum)
            return found and spread(found.values[:1])

    results = OneSeed({"c-learning": 90.0, "her": 50.0})
    table, seeds, _ = sections.comparison(
        results, "mini-maze", sections.rows_of(("c-learning", "her")), ("all",)
    )
    mine = {row[0]: row[2:] for row in table.rows if row[1] == "ours, paper's form"}
    assert mine["C-learning"] == [Cell("89.00 % (1 seed)", True), Cell("10.00 (1 seed)", True)]
    assert mine["HER"][0] == Cell("49.00 % (1 seed)", False)
    assert {row[4] for row in seeds.rows} == {"–"}


def test_the_papers_d_learning_stands_once_beside_all_discounts():
    rows = sections.comparison(MadeUp({}), "dubins-car", sections.rows_of(["d-learning"]), ("all",))[0].rows
    assert [row[:2] for row in rows] == [["D-learning", "the paper"]]


def test_reports_escape_everything_and_the_page_needs_no_other_file(tmp_path):
    nasty = "<script>alert('|*_`')</script> & \"quotes\"\nnext | line"
    figure = tmp_path / "figures" / "a b.png"
    figure.parent.mkdir()
    figure.write_bytes(b"\x89PNG")
    table = Table([nasty], [[nasty], [Cell("best", True)]])
    blocks = [Text(nasty), Text(nasty, code=True), table, Picture(figure, nasty)]
    markdown, page = write_report(nasty, [Section(nasty, blocks)], tmp_path)
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert 'alt="&lt;script&gt;alert(&#x27;' in text
    assert "data:image/png;base64,iVBORw==" in text
    assert 'src="data:' in text
    assert "figures" not in text
    assert "<b>best</b>" in text
    lines = markdown.read_text()
    outside_code = lines.replace(nasty, "")
    assert r"\<script\>" in outside_code
    assert "<script" not in outside_code.replace("\\<", "")
    assert "| **best** |" in lines
    cells = next(line for line in lines.splitlines() if line.startswith("| \\<"))
    assert cells.replace("\\|", "").count("|") == 2  # still one cell
    assert "](<figures/a b.png>)" in lines


def test_claims_without_runs_are_left_open(monkeypatch, tmp_path):
    tolerance = {"mini-maze": {"C*": np.array([0.5]), "Q*": np.array([0.01]), "Q*, 0.9": np.array([0.02])}}
    monkeypatch.setattr(claims, "exact_tolerances", lambda: tolerance)
    rows = claims.verdicts(MadeUp({}), tmp_path).blocks[1].rows
    told = [row[2].text for row in rows]
    assert told[:2] == ["holds", "holds"]  # what dynamic programming tells
    assert set(told[2:]) == {"no runs"}


def test_claims_are_judged_by_differences(monkeypatch, tmp_path):
    monkeypatch.setattr(claims, "exact_tolerances", dict)
    results = MadeUp({"c-learning": 80.0, "gcsl": 70.0, "her": 80.0, "a-learning": 85.0})
    rows = claims.verdicts(results, tmp_path).blocks[1].rows
    verdict = {row[1]: row[2].text for row in rows if row[1]}
    assert verdict["More goals than GCSL on the car"] == "holds"
    assert verdict["More goals than HER on the car"] == "not told apart"
    assert verdict["A-learning reaches fewer goals"] == "does not hold"


def test_a_figure_without_training_makes_a_whole_report(tmp_path, capsys):
    main(["reproduce", "figure-difficulties", "--out", str(tmp_path)])
    assert capsys.readouterr().out.split() == [str(tmp_path / "report.md"), str(tmp_path / "report.html")]
    assert (tmp_path / "figures" / "difficulties.png").stat().st_size > 10_000
    page = (tmp_path / "report.html").read_text()
    assert "clearning reproduce figure-difficulties --budget paper --robots " in page
    assert "jax" in page


def test_differences_are_of_the_means_that_tables_show():
    """Each seed counts alike, however many goals it reached: (1 + 4) / 2, and not (1 + 4 + 4) / 3."""
    nan = np.nan
    first = np.array([[1.0, nan], [4.0, 4.0]])
    assert difference(first, np.zeros((2, 2))).value == 2.5


def test_a_ratio_of_steps_has_an_interval_over_seeds():
    steps = [0.0, 10.0, 20.0, 40.0]
    soon = np.array([steps, *[[0.0, 1.0, 1.0, 1.0]] * 3])
    late = np.array([steps, *[[0.0, 0.0, 1.0, 1.0]] * 3])
    assert ratio_of_steps(soon, late, 0.9) == (2.0, 2.0, 2.0)
    mixed = np.array([steps, [0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    found = ratio_of_steps(soon, mixed, 0.6)  # two of three are enough
    assert (found.value, found.low, found.high) == (2.0, 1.0, np.inf)
