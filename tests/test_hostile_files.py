"""Whatever a file holds, reading it gives a valid object or our own error, and imports nothing.

The inputs are made in `hostile.py`; `make fuzz` tries a hundred thousand of them.
"""

import json
import shutil
import sys
from dataclasses import asdict

import hostile
import numpy as np
import pytest
from conftest import assert_refused
from hypothesis import given
from hypothesis import strategies as st

import clearning
from clearning import files
from clearning.agent import Agent
from clearning.config import Config, config_from_dict
from clearning.envs import make
from clearning.errors import ClearningError, UsageError
from clearning.files import load_arrays, read_json, save_arrays, spec_from_dict
from clearning.fitness import refuse_unfit
from clearning.records import record_from
from clearning.reproduce.results import _is_whole
from clearning.runs import Asked, Counters, RunFolder

FEW = {"agent, whole": 12, "checkpoint, whole": 12, "resume, before anything is built": 5, "ask": 3}


@pytest.fixture(scope="module")
def loaders(tmp_path_factory):
    return hostile.Loaders(tmp_path_factory.mktemp("hostile"))


def test_every_loader_gives_an_object_or_our_error(loaders):
    """A thousand inputs in all; any other exception fails the test."""
    given = {name: FEW.get(name, 70) for name in loaders.by_name}
    assert sum(given.values()) > 1000
    objects = {name: sum(loaders.feed(name, i) for i in range(count)) for name, count in given.items()}
    # Mutations that all pass, or that are all refused at the door, would test nothing.
    assert [name for name, count in given.items() if objects[name] == count] == []
    assert sum(objects.values()) > 100


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", [Config, Counters, Asked])
@given(data=st.data())
def test_any_value_in_any_field_is_of_its_type_or_refused(kind, data):
    typed = set(kind.__dataclass_fields__) - {"env_options"}  # which are for the environment to judge
    field = data.draw(st.sampled_from(sorted(typed)))
    values = {"seed": 0, "config": {}} if kind is Asked else {}
    try:
        found = record_from(kind, values | {field: data.draw(ANY_JSON)}, "it")
    except ClearningError as error:
        assert str(error).isprintable()  # noqa: PT017, most are refused and some are not
    else:
        json.dumps(asdict(found), allow_nan=False)


# What the fuzzer found, or could not have ---------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hidden": [10**9]}, "hidden widths must lie in 1..65536"),
        ({"hidden": [8] * 101}, "hidden layers must be at most 100"),
        ({"hidden": 8}, "hidden must be a list"),
        ({"episodes": True}, "episodes must be a whole number, not True"),
        ({"episodes": 10.0}, "episodes must be a whole number, not 10.0"),
        ({"episodes": 10**12}, "episodes must be a whole number, not 1000000000000"),
        ({"kappa": float("nan")}, "kappa must be a number, not nan"),
        ({"kappa": 10**400}, "kappa must be a number, not a huge number"),
        ({"alpha": "0.9"}, "alpha must be a number, not '0.9'"),
        ({"max_horizon": 10**9}, "max_horizon must be at most 10000"),
        ({"method": "magic"}, "method must be one of c-learning"),
        ({"env": "\x1b[2Jlake"}, "env must be a line of text"),
        ({"env": "$x^$-v0"}, "An environment is named with"),
        ({"env_options": [1]}, "env_options must be names with values, not a list"),
        ({"novelty": 1}, "unknown setting 'novelty'"),
        ([], "must be a JSON object"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings, words):
    with pytest.raises(UsageError, match=words.replace("[", r"\[").replace(".", r"\.")):
        config_from_dict(settings)


BAD_JSON = {
    "deep list": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "long number": b'{"a": ' + b"9" * 5000 + b"}",
    "no text": b"\xff\xfe{}",
    "a list": b"[]",
    "nothing": b"",
    "too long": b" " * 4_000_000 + b"{}",
}


@pytest.mark.parametrize("text", BAD_JSON.values(), ids=list(BAD_JSON))
def test_json_that_parsers_stumble_over(tmp_path, text):
    path = tmp_path / "config.json"
    path.write_bytes(text)
    with pytest.raises(ClearningError, match="not valid JSON"):
        read_json(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("10,", "ten,", 1), "could not convert"),
        (lambda text: text + "1,2\n", "has 2 cells where the header has 12"),
        (lambda text: text.replace(",0.00", ",1e999", 1), "out of all proportion"),
        (lambda text: text.replace("10,", ",", 1), "do not count episodes"),
        (lambda text: text.splitlines()[0] + "\n", "has no metrics yet"),
        (lambda text: "", "has no metrics yet"),
        (lambda text: text + '"' + "x" * 200_000 + '"\n', "field larger than"),
    ],
)
def test_damaged_metrics_are_refused(tmp_path, change, words):
    folder = RunFolder(shutil.copytree(hostile.OLD, tmp_path / "run"))
    folder.metrics_file.write_text(change(folder.metrics_file.read_text()))
    with pytest.raises(ClearningError, match=words):
        folder.metrics()


def test_a_row_under_way_and_columns_of_other_versions_are_no_damage(tmp_path):
    folder = RunFolder(shutil.copytree(hostile.OLD, tmp_path / "run"))
    whole = folder.metrics()
    header, row = folder.metrics_file.read_text().splitlines()
    shorter = ",".join(header.split(",")[:-1])
    folder.metrics_file.write_text(f"{shorter},novelty\n{row.rpartition(',')[0]},x\n20,300")
    found = folder.metrics()
    assert np.isnan(found.pop("seconds")).all()
    for name, column in found.items():
        np.testing.assert_array_equal(column, whole[name])


def test_a_row_as_large_as_the_buffer_is_not_multiplied_by_it(loaders):
    """Padding one row of 40 MB to the buffer's 600 would take 24 GB."""
    arrays = loaders.saved_arrays | {"buffer.observation": np.zeros((1, 10_000_000), np.float32)}
    save_arrays(loaders.folder.checkpoint_file, arrays, loaders.saved)
    with pytest.raises(ClearningError, match="does not fit its config"):
        loaders.folder.load_checkpoint(loaders.learner, loaders.buffer)


def test_weights_that_are_no_numbers_are_refused(loaders):
    name = "mlp.layers[0].weight"
    arrays = loaders.agent_arrays | {name: np.full_like(loaders.agent_arrays[name], np.nan)}
    save_arrays(loaders.folder.agent_file, arrays, loaders.agent)
    with pytest.raises(ClearningError, match="holds NaN or infinity"):
        Agent.load(loaders.folder.agent_file)


@pytest.mark.parametrize(
    "change",
    [
        {"observation_low": [0.0]},
        {"goal_low": [9.0, 9.0]},
        {"action_names": []},
        {"max_episode_steps": 0},
        {"achieved_at": [0, 7]},
        {"goal_check": {"coordinates": [0], "norm": "l2", "radius": 1.0}},
        {"goal_check": {"coordinates": [0, 1], "norm": "l9", "radius": 1.0}},
        {"step_bound": {"norm": "l1", "per_step": 0.0, "slack": 0.0}},
        {"name": "[/b]"},
    ],
)
def test_specs_whose_parts_do_not_fit_are_refused(loaders, change):
    with pytest.raises(ClearningError, match="description of its environment is damaged"):
        spec_from_dict(loaders.agent["spec"] | change)


@pytest.mark.parametrize(
    "counters", [None, [], {"episodes": -1}, {"finished": 1}, {"losses": ["x"]}, {"x": 0}]
)
def test_damaged_counters_are_refused(loaders, counters):
    save_arrays(loaders.folder.checkpoint_file, {"x": np.zeros(1)}, loaders.saved | {"counters": counters})
    shutil.copy(hostile.OLD / "agent.safetensors", loaders.folder.agent_file)
    with pytest.raises(ClearningError, match="damaged counters"):
        loaders.folder.is_finished()


def test_a_training_that_the_machine_cannot_hold_is_refused(loaders):
    config = config_from_dict(asdict(loaders.tiny) | {"buffer_capacity": 2**31 - 1})
    with pytest.raises(UsageError, match=r"needs [\d.]+ GB and the machine has"):
        refuse_unfit(make("frozen-lake"), config)


@pytest.mark.parametrize(
    "options", [{"slip": "0.1"}, {"slip": [0.1]}, {"max_episode_steps": 0}, {"max_episode_steps": 10**9}]
)
def test_options_of_our_environments_are_checked(options):
    with pytest.raises(UsageError, match="Bad"):
        make("frozen-lake", options)


def test_kept_evaluations_hold_numbers_that_fit():
    goals = {"in_paper": [True], "stratum": ["easy"], "success": [1], "steps": [3], "distance": [2.5]}
    assert _is_whole(goals | {"final_distance": [float("nan")]})
    assert not _is_whole(goals | {"final_distance": [10**400]})
    assert not _is_whole(goals | {"final_distance": []})


# What a run folder may import -----------------------------------------------------------------------


@pytest.fixture
def foreign_run(tmp_path, monkeypatch):
    """A run that names an environment in a module, which writes a file when it is imported."""
    module = tmp_path / "foreign_module.py"
    module.write_text(f"from pathlib import Path\nPath({str(tmp_path / 'imported')!r}).touch()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    run = shutil.copytree(hostile.OLD, tmp_path / "run")
    record = json.loads((run / "config.json").read_text())
    record["config"] |= {"env": "foreign_module:Lake-v0", "processes": 1}
    (run / "config.json").write_text(json.dumps(record))
    yield run
    sys.modules.pop("foreign_module", None)


@pytest.mark.parametrize("command", ["eval", "resume", "calibrate", "video"])
def test_a_run_folder_imports_no_module_by_itself(capsys, foreign_run, command):
    words = "`clearning --import foreign_module`"
    assert_refused(capsys, [command, str(foreign_run)], 2, words)
    assert not (foreign_run.parent / "imported").exists()


def test_what_needs_no_environment_needs_no_import(foreign_run):
    agent = clearning.load(foreign_run)
    assert 0 <= agent.reach_probability([1, 0], [1, 6], 5) <= 1
    assert not (foreign_run.parent / "imported").exists()


def test_a_module_that_the_user_names_is_imported(capsys, foreign_run):
    # Our lake is no environment of that module, which is told after the import.
    arguments = ["--import", "foreign_module", "eval", str(foreign_run)]
    assert_refused(capsys, arguments, 2, "There is no environment 'foreign_module:Lake-v0'")
    assert (foreign_run.parent / "imported").exists()
    assert_refused(capsys, ["--import", "no_such_module", "presets"], 2, "--import takes a module")


def test_old_and_new_files_pass(tmp_path):
    """The checks let through what we write ourselves."""
    arrays, record = load_arrays(hostile.OLD / "checkpoint.safetensors")
    save_arrays(tmp_path / "again.safetensors", arrays, record)
    assert files.read_record(tmp_path / "again.safetensors") == record
    assert record_from(Counters, record["counters"], "it").episodes == 10
