"""`clearning reproduce all`: a whole report from runs whose outcomes are made up, read as its reader would.

The agents have learned nothing: they are there to be drawn. What came of their test goals and how they did
while they trained is written into their folders, as an evaluation and a training leave it.
"""

import csv
import hashlib
import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import run, untrained_run

from clearning import plots
from clearning.envs import make
from clearning.files import save_arrays, write_json
from clearning.presets import preset
from clearning.reproduce import reproduce
from clearning.reproduce.claims import _race
from clearning.reproduce.experiments import DISCOUNTS, Run, needed, ways_of_acting
from clearning.reproduce.results import Measured, how_soon
from clearning.reproduce.runner import TrainingsFailed, place_of, stored_runs, train_missing
from clearning.runs import RunFolder

SEEDS = (0, 1, 2)
STRATA = ["easy", "medium", "hard"] * 8
# How many of the 24 test goals a method reaches, the first ones, and in how many steps.
REACHED = {"c-learning": 24, "gcsl": 12, "her": 6, "td3": 9, "a-learning": 18, "d-learning": 3, "tdm": 0}
REACHED |= {"naive-q": 24, "uniform-h": 20, "monotone": 8, "past-holes": 16, "past-holes/her": 10}
STEPS = {"c-learning": 10, "gcsl": 14, "her": 16, "td3": 20, "a-learning": 8, "d-learning": 10, "tdm": 20}
STEPS |= {"naive-q": 20, "uniform-h": 20, "monotone": 20, "past-holes": 12, "past-holes/her": 12}
# Environment steps after which all that is learned is learned; before, in proportion.
CURVE = (0, 1000, 1200, 2000, 3000, 4000)
LEARNED_AFTER = {"c-learning": 1000, "naive-q": 2000, "uniform-h": 1200}


def every_run() -> list[Run]:
    """Three seeds of all that is compared, one of what is only drawn."""
    compared = [needed(t, SEEDS, "paper", True) for t in ("table-1", "table-2", "table-4")]
    compared += [needed(t, SEEDS, "paper", True) for t in ("figure-ablation", "figure-tdm")]
    drawn = [needed(t, SEEDS[:1], "paper", False) for t in ("figure-3a", "figure-3b")]
    return list({one.identity: one for runs in (*compared, *drawn) for one in runs}.values())


def make_up(folder: Path, one: Run) -> None:
    """A finished run with known outcomes; the agent is one only where a figure draws it."""
    place = RunFolder(folder)
    on_the_car = one.world == "dubins-car" and one.method in ("c-learning", "gcsl", "her")
    if one.seed == 0 and (on_the_car or one.world in ("frozen-lake", "dubins-reachability")):
        untrained_run(folder, one.config, one.preset, one.seed)
    else:
        place.create(one.config, one.seed, one.preset, {})
        place.agent_file.touch()
    save_arrays(place.checkpoint_file, {}, {"kind": "checkpoint", "counters": {"finished": True}})
    for steps in CURVE:
        counts = {"episodes": steps // 50, "env_steps": steps, "updates": steps}
        success = REACHED[one.method] / 24 * min(1.0, steps / LEARNED_AFTER.get(one.method, 3000))
        place.append_metrics({**counts, "eval_success": success, "seconds": 1.8 * steps})
    write_evaluations(place, one.method)


def write_evaluations(place: RunFolder, method: str) -> None:
    reached = np.append(np.arange(24) < REACHED[method], False)  # the last goal is not one of the paper's
    goals = {
        "in_paper": [True] * 24 + [False],
        "stratum": [*STRATA, "doorway"],
        "success": reached.astype(float).tolist(),
        "steps": [STEPS[method]] * 25,
        "distance": [STEPS[method] / 2] * 25,
        "final_distance": np.where(reached, 0.1, 4.0).tolist(),
        "held": (reached & (np.arange(25) % 3 == 0)).astype(float).tolist(),  # every third goal is kept
    }
    digest = hashlib.sha256(place.agent_file.read_bytes()).hexdigest()
    for acting in ways_of_acting(method):
        name = "evaluation.json" if acting is None else f"evaluation-{acting}.json"
        write_json(place.path / name, {"agent": digest, "found": goals})


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """A folder of reproduction with every run, and without a report."""
    folder = tmp_path_factory.mktemp("whole")
    for i, one in enumerate(every_run()):
        make_up(folder / "runs" / str(i), one)
    return folder


@pytest.fixture(scope="module")
def report(made_up):
    markdown, page = reproduce("all", seeds=SEEDS, out=made_up, robots="no", train=False)
    return Report(markdown.read_text(), page.read_text(), made_up)


class Report:
    """Its pages, and the Markdown's tables by section."""

    def __init__(self, text: str, page: str, folder: Path):
        self.text, self.page, self.folder = text, page, folder

    def rows(self, title: str, *start: str) -> list[list[str]]:
        """What stands behind these first cells in the tables of a section."""
        section = self.text.split(f"\n## {title}")[1].split("\n## ")[0]
        lines = [line for line in section.splitlines() if line.startswith("|") and "---" not in line]
        rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in lines]
        return [row[len(start) :] for row in rows if tuple(row[: len(start)]) == start]

    def means(self, title: str, method: str, source: str) -> list[str]:
        """A method's row in a section's first table that has it."""
        return self.rows(title, method, source)[0]

    def table(self, name: str) -> list[dict[str, str]]:
        """The rows of a file for machines."""
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def verdicts(self, claim: str) -> list[str]:
        """Verdict, basis and evidence of a claim, a row for each form or world."""
        rows = self.rows("Claims")
        first = [row[1] for row in rows].index(claim)
        last = next((i for i in range(first + 1, len(rows)) if rows[i][1]), len(rows))
        return [" | ".join(row[2:]).replace("**", "") for row in rows[first:last]]


def test_tables_give_what_came_of_the_papers_goals(report):
    # Of eight goals of each difficulty GCSL reaches the first four. A path is in steps in the maze, but a
    # distance on the car, and a robot's steps count from 0.
    maze = report.means("Table 2", "GCSL", "ours, all horizons")
    assert maze == ["50.00 ± 0.00 %"] * 4 + ["14.00 ± 0.00"] * 4
    car = report.means("Table 3", "GCSL", "ours, all horizons")
    assert car == ["50.00 ± 0.00 %"] * 4 + ["7.00 ± 0.00"] * 4
    best = report.means("Table 3", "C-learning", "ours, paper's form")
    assert best == ["**100.00 ± 0.00 %**"] * 4 + ["**5.00 ± 0.00**"] * 4
    for gamma in DISCOUNTS:
        found = report.means("Table 4", f"D-learning, γ = {gamma:g}", "ours, paper's form")
        assert found[3] == "12.50 ± 0.00 %"
    fetch = report.means("Table 1", "HER (TD3)", "ours, all horizons")
    assert fetch == ["37.50 ± 0.00 %", "19.00 ± 0.00"]
    seeds = report.rows("Table 2", "HER", "ours, paper's form", "success")
    assert seeds == [["25.00, 25.00, 25.00", r"25.00 \[25.00, 25.00\]"]]


def test_tables_say_how_soon_each_method_has_what_the_papers_has(report):
    # All is learned after 1,000 steps, of GCSL half after 3,000, and in proportion before.
    (steps, ratio), _ = report.rows("Table 3", "C-learning", "ours, all horizons")[-2:]
    assert (float(steps), ratio) == (pytest.approx(861.5, abs=11), "1.00")
    other = report.rows("Table 3", "GCSL, likeliest actions", "ours, paper's form")[-1]
    assert other == ["over 4,000", f"over {4000 / float(steps):.2f}"]


def test_tables_say_who_ends_at_the_goal_where_it_is_known(report):
    # Six of 24 goals are reached, and two of these six are where an episode ends.
    row = ["51.25 ± 6.48 %", "8.33 ± 0.00 %", "8.33, 8.33, 8.33"]
    assert report.rows("Table 3", "HER", "ours, paper's form")[-1] == row
    kept = [row["held"] for row in report.table("seeds.csv") if row["preset"] == "her/paper/dubins-car"]
    assert {float(v) for v in kept} == {
        0.0,
        0.25,
        1 / 12,
    }  # of the goals that are not easy, of those that are, of all


def with_tests(*success):
    """A run with tests after 100, 200, ... steps."""
    steps = 100 * np.arange(1, len(success) + 1)
    return SimpleNamespace(metrics={"env_steps": steps, "eval_success": np.array(success)})


def test_a_mark_passed_before_the_first_test_gives_a_bound():
    assert how_soon([with_tests(0.9, 1.0)], 0.5) == ("at most ", 100)
    assert how_soon([with_tests(0.2, 0.3)], 0.5) == ("over ", 200)
    bound, steps = how_soon([with_tests(0.0, 1.0)], 0.5)
    assert (bound, steps) == ("", pytest.approx(150, abs=1))


@pytest.mark.parametrize(
    ("mine", "theirs", "verdict", "evidence"),
    [
        ((0.5, 0.9), (0.0, 0.0), "holds", "success in the end: 90.0 %, Q 0.0 %"),
        ((0.0, 0.0), (0.5, 0.9), "does not hold", "success in the end: 0.0 %, Q 90.0 %"),
        ((0.0, 0.0), (0.0, 0.0), "not told apart", "success in the end: 0.0 %, Q 0.0 %"),
        # Both are there by the first test: who was sooner nobody knows.
        ((0.9, 0.9), (0.95, 1.0), "not told apart", "steps to 81 %: at most 100, Q at most 100"),
        ((0.9, 0.9, 1.0), (0.0, 0.0, 1.0), "holds", "steps to 90 %: at most 100, Q 29"),
        ((0.0, 0.0, 1.0), (0.9, 0.9, 1.0), "does not hold", "steps to 90 %: 29"),
    ],
)
def test_a_race_is_judged_by_what_the_tests_show(mine, theirs, verdict, evidence):
    found, told = _race([[with_tests(*mine)] * 3, [with_tests(*theirs)] * 3], "Q", 1.0)
    assert found == verdict
    assert told.startswith(evidence)


def test_methods_are_told_apart_goal_by_goal(report):
    ((success, told, path, shorter),) = report.rows("Table 2", "GCSL", "all horizons")
    low, high = map(float, re.fullmatch(r"\+50\.00 \\\[\+([\d.]+), \+([\d.]+)\\\]", success).groups())
    assert 20 < low < 50 < high < 80  # seeds agree, and 24 goals are few
    assert (told, path, shorter) == ("different", r"-4.00 \[-4.00, -4.00\]", "different")


def test_claims_are_judged_by_what_the_runs_did(report):
    twice, twice_on_the_car = report.verdicts("Naive horizon-aware Q needs about twice as long")
    assert re.fullmatch(
        r"holds \| FetchPickAndPlace, paper's form \| steps to 90 %: 90\d, .*1,80\d .*× 2\.00 .*\)", twice
    )
    assert "Dubins' car" in twice_on_the_car
    # 75 % after 750 steps of 1,000 to 100 %, and after 1,080 of 1,200 to 83.3 %: longer, but not by half.
    assert "in part" in report.verdicts("So does drawing h uniformly")[0]
    assert "× 1.44" in report.verdicts("So does drawing h uniformly")[0]
    below = report.verdicts("A network monotone in h succeeds in less than half of the goals")[0]
    assert below.endswith("below 50 % (33.3, 33.3, 33.3 %) in 3 of 3 seeds")
    assert all("not told apart" in told for told in report.verdicts("D-learning's paths are shorter"))
    assert all(told.startswith("holds") for told in report.verdicts("Outperforms TDMs"))
    assert report.verdicts("Ends nearer to the goal than GCSL")[0].startswith("holds")
    assert report.verdicts("It reaches fewer goals than a free network")[0].startswith("holds")
    assert report.verdicts("GCSL, too, reaches more goals than HER there")[0].startswith("holds")
    assert report.verdicts("Learns sooner than Q-learning")[2].startswith("holds | Mini maze")
    # Who has learned nothing takes one way over the lake, whatever the horizon.
    ways = report.verdicts("C-learning learns the risky and the safe way over the lake")
    assert [told.split(" | ")[0] for told in ways] == ["too few seeds to say"] * 2
    assert all(told.endswith("in 0 of 1 seeds") for told in ways)


def test_ablations_have_tables_and_the_lake_has_every_way(report):
    monotone = report.rows("Ablations", "monotone network", "ours, paper's form", "success")
    assert monotone == [["33.33, 33.33, 33.33", r"33.33 \[33.33, 33.33\]"]]
    assert report.means("Temporal difference models", "TDM", "ours, paper's form") == ["0.00 ± 0.00 %", "–"]
    ways = report.rows("Figure 3a", "C-learning", "ours, all horizons")
    assert [h for h, _ in ways] == ["6", "24"]
    assert {way for _, way in ways} <= {"direct", "around", "nowhere"}


def test_reachability_stands_beside_what_calling_all_goals_reachable_would_give(report):
    env = make("dubins-car", preset("dubins-reachability").env_options)
    share = plots.reachable_share(env, [7, 15, 25])
    (row,) = report.rows("Figure 3b", "all goals called reachable", "–")
    assert list(map(float, row)) == pytest.approx(list(share.values()), abs=5e-4)
    assert [row[1] for row in report.rows("Figure 3b") if row[0].startswith("ours")] == ["0", "0"]


def test_every_figure_is_on_the_page_and_in_the_folder(report):
    figures = {file.name for file in (report.folder / "figures").iterdir()}
    both_forms = [f"figure-{name}" for name in ("3a", "3b", "3c", "3d", "ablation", "tdm")]
    forms = ("papers-form", "all-horizons")
    assert figures == {"figure-1b.png", "environments.png", "difficulties.png"} | {
        f"{name}-{form}.png" for name in both_forms for form in forms
    }
    assert report.page.count("data:image/png;base64,") == report.text.count("](<figures/") == len(figures)
    exact = report.rows("Figure 1b", "Mini maze", r"C\* at h\_α, α = 0.9")
    assert exact == [["0.5000", "0.5"]]  # nothing slips there


def test_its_origin_has_commands_hours_and_what_is_missing(report):
    # Only the first seed of the lake's eight and of the free car's two is there.
    assert "109 finished runs, 218.00 hours of training in all. 20 runs are missing." in report.text
    assert "clearning reproduce all --budget paper --seeds 0,1,2 --robots no" in report.text
    told = "clearning train td3/fetch-pick-and-place --seed 2 --episodes 0 --env-steps 300000"
    assert report.rows("Where this comes from", told) == [["4,000", "4,000", "2.00"]]


def test_every_seed_and_every_curve_is_in_a_table_for_machines(report):
    asked = {"preset": "gcsl/paper/dubins-car", "seed": "1"}
    mine = [row for row in report.table("seeds.csv") if asked.items() <= row.items() and not row["acting"]]
    assert [(row["stratum"], row["goals"]) for row in mine] == [
        ("easy", "8"),
        ("hard", "8"),
        ("medium", "8"),
        ("all", "24"),
    ]
    assert {(row["success"], row["path"]) for row in mine} == {("0.5", "7.0")}
    discounts = [
        row["acting"] for row in report.table("seeds.csv") if row["preset"] == "d-learning/dubins-car"
    ]
    assert {*discounts} == {f"{gamma:g}" for gamma in DISCOUNTS}
    nothing = [row for row in report.table("seeds.csv") if row["preset"] == "tdm/paper/dubins-car"]
    assert {row["path"] for row in nothing} == {""}  # nowhere, so in no number of steps
    free = [row for row in report.table("seeds.csv") if row["world"] == "dubins-reachability"]
    assert {row["preset"] for row in free} == {"dubins-reachability", "paper/dubins-car"}
    curve = [row for row in report.table("curves.csv") if asked.items() <= row.items()]
    assert [float(row["env_steps"]) for row in curve] == list(CURVE)
    assert float(curve[-1]["eval_success"]) == 0.5


def test_a_training_that_fails_is_told_and_the_rest_is_shown(tmp_path, capsys):
    """One of the lake's runs has a truncated checkpoint, and stands where it would be trained anew."""
    runs = {one.preset: one for one in needed("figure-3a", (0,), "paper", False)}
    for one in runs.values():
        make_up(place_of(one, tmp_path / "runs"), one)
    broken = RunFolder(place_of(runs["gcsl/frozen-lake"], tmp_path / "runs")).checkpoint_file
    broken.write_bytes(broken.read_bytes()[:-20])
    code, _, told = run(capsys, "reproduce", "figure-3a", "--seeds", "0", "--out", str(tmp_path))
    assert code == 1
    assert f"passed over: {broken}" in told
    assert "1 of the trainings failed" in told
    assert "already holds a run" in told
    text = (tmp_path / "report.md").read_text()
    assert "7 finished runs" in text
    assert "1 run is missing." in text
    assert "figure-3a-papers-form.png" in text


def test_a_kept_evaluation_that_is_damaged_or_of_another_agent_is_made_anew(tmp_path):
    one = next(r for r in needed("table-2", (0,), "paper", False) if r.method == "c-learning" and not r.form)
    untrained_run(tmp_path, one.config, one.preset)
    measured = Measured(one, RunFolder(tmp_path))
    right = measured.evaluation()
    file = tmp_path / "evaluation.json"
    kept = json.loads(file.read_text())
    assert len(right["success"]) == len(make("mini-maze").test_set().goal)
    for damaged in ("{", "[]", json.dumps({**kept, "found": []})):
        file.write_text(damaged)
        assert measured.evaluation() == right
    short = {**right, "steps": right["steps"][1:]}
    write_json(file, {**kept, "found": short})
    assert measured.evaluation() == right
    write_json(file, {**kept, "agent": "another", "found": {**right, "steps": [1] * len(right["steps"])}})
    assert measured.evaluation() == right


def test_slim_runs_give_the_same_report(report, tmp_path):
    """What is kept of a run tells all that a report says, without a checkpoint, and is not trained again."""
    folder = tmp_path / "slim"
    shutil.copytree(report.folder, folder)
    reproduce("all", seeds=SEEDS, out=folder, robots="no", train=False, slim=True)
    assert not [*folder.rglob("checkpoint.safetensors")]
    # Three methods on the lake and on the car and one on the free car, in two forms each, and two in one.
    assert len([*folder.rglob("agent.safetensors")]) == 16
    shutil.rmtree(folder / "figures")
    markdown, _ = reproduce("all", seeds=SEEDS, out=folder, robots="no", train=False, slim=True)
    assert markdown.read_text() == report.text
    assert {f.name for f in (folder / "figures").iterdir()} == {
        f.name for f in (report.folder / "figures").iterdir()
    }
    lake = [r for r in every_run() if r.world == "frozen-lake"]
    train_missing(lake, folder / "runs", 1, ("false",))  # would fail if there were anything to train
    damaged = stored_runs(folder / "runs")[lake[0].identity].path / "evaluation.json"
    damaged.write_text(damaged.read_text()[:100])
    with pytest.raises(TrainingsFailed, match="1 of the trainings failed"):
        train_missing(lake, folder / "runs", 1, ("false",))


def test_without_robots_to_draw_the_worlds_are_drawn_without_them(tmp_path, monkeypatch):
    monkeypatch.setattr("clearning.reproduce.sections.robots_installed", lambda: False)
    markdown, _ = reproduce("figure-environments", out=tmp_path, robots="no")
    assert "Fetch and Hand are left out: gymnasium-robotics is not installed." in markdown.read_text()


def test_a_table_without_runs_says_that_robots_were_left_out(tmp_path):
    markdown, _ = reproduce("table-1", out=tmp_path, robots="no", train=False)
    assert markdown.read_text().count("No finished run; robots are trained with --robots yes") == 2
    markdown, _ = reproduce("figure-3c", out=tmp_path, train=False)
    assert "There is no finished run to show." in markdown.read_text()
