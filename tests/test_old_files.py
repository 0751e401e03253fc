"""Run folders of earlier versions (tests/data) load, answer and go on; those of newer ones are refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import clearning
from clearning import files
from clearning.errors import ClearningError
from clearning.report.evaluation import evaluate_pair, evaluate_runs
from clearning.report.questions import ask
from clearning.runs import RunFolder

OLD = sorted((Path(__file__).parent / "data").glob("run-*/*"))


@pytest.fixture(params=OLD, ids=lambda p: f"{p.parent.name}-{p.name}")
def old(request, tmp_path) -> Path:
    """A copy, since resuming writes."""
    return Path(shutil.copytree(request.param, tmp_path / "run"))


def test_there_are_old_runs():
    assert {p.name for p in OLD if p.parent.name == "run-0.1.0"} == {"lake", "reach"}


def test_an_old_run_answers_is_evaluated_and_goes_on(old):
    agent = clearning.load(old)
    lake = agent.spec.name == "frozen-lake"
    state, goal = ([1, 0], [1, 6]) if lake else ([0.0] * agent.spec.observation_size, [1.3, 0.7, 0.5])
    answer = ask(str(old), state, goal, horizon=5)
    assert answer["probability"] == pytest.approx(agent.reach_probability(state, goal, 5))
    found = evaluate_pair(str(old), None, state, goal, 9, 0) if lake else evaluate_runs(str(old), None, 0, 2)
    assert 0 <= found["success"] <= 1

    rows, before = RunFolder(old).metrics(), RunFolder(old).read()[0]
    clearning.resume(old, quiet=True)
    after = RunFolder(old).metrics()
    assert RunFolder(old).is_finished()
    assert after["episodes"][-1] == before.episodes
    for name, column in rows.items():
        np.testing.assert_array_equal(after[name][: len(column)], column)


@pytest.mark.parametrize("kind", ["config.json", "checkpoint.safetensors", "agent.safetensors"])
def test_a_newer_folder_is_refused_by_the_version_that_reads_it(kind, tmp_path):
    run = Path(shutil.copytree(OLD[0], tmp_path / "run"))
    newer = {"format": files.FORMAT + 1, "version": "9.9.9"}
    if kind == "config.json":
        record = json.loads((run / kind).read_text())
        (run / kind).write_text(json.dumps(record | newer))
    else:
        arrays, record = files.load_arrays(run / kind)
        files.save_arrays(run / kind, arrays, record | newer)
    with pytest.raises(ClearningError, match=r"9\.9\.9 \(format 2\); this version reads up to format 1"):
        clearning.resume(run, quiet=True)
