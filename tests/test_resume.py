"""Runs that are interrupted end with the same bits as runs that are not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import clearning
from clearning.config import replace_settings
from clearning.envs import make
from clearning.files import load_arrays, temporaries
from clearning.runs import RunFolder
from clearning.training import Status, run_training

SETTINGS = {
    "episodes": 120,
    "random_episodes": 5,
    "updates_per_episode": 4,
    "hidden": (16, 16),
    "evaluate_every": 20,
    "checkpoint_every": 3,
    "buffer_capacity": 2000,
}


def command(verb: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "clearning", verb, *arguments]


def train_arguments(folder: Path) -> list[str]:
    options = []
    for name, value in SETTINGS.items():
        options += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, tuple) else [value])]
    return command("train", "frozen-lake", "--seed", "3", "--out", str(folder), *options)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    clearning.train("frozen-lake", seed=3, out=folder, quiet=True, **SETTINGS)
    return folder


def episodes_in_checkpoint(folder: Path) -> int:
    _, record = load_arrays(folder / "checkpoint.safetensors")
    return record["counters"]["episodes"]


def differing(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> list[str]:
    """All arrays that differ and by how much: data, statistics or weights tell in which step it began."""
    assert found.keys() == expected.keys()
    told = []
    for name, array in found.items():
        other = expected[name]
        assert (array.shape, array.dtype) == (other.shape, other.dtype), name
        if array.tobytes() != other.tobytes():
            apart = np.abs(array.astype(float) - other.astype(float))
            told.append(f"{name}: {np.count_nonzero(apart)} of {apart.size}, by up to {apart.max():.3g}")
    return told


def assert_same_run(found: Path, expected: Path) -> None:
    """Weights, optimiser, buffer and every metric but the time are the same bits."""
    arrays, record = load_arrays(found / "checkpoint.safetensors")
    expected_arrays, expected_record = load_arrays(expected / "checkpoint.safetensors")
    assert differing(arrays, expected_arrays) == []
    ignored = {"seconds", "metrics_bytes"}
    counters, expected_counters = record["counters"], expected_record["counters"]
    assert {k: v for k, v in counters.items() if k not in ignored} == {
        k: v for k, v in expected_counters.items() if k not in ignored
    }
    rows, expected_rows = (
        [line.rsplit(",", 1)[0] for line in (folder / "metrics.csv").read_text().splitlines()]
        for folder in (found, expected)
    )
    assert rows == expected_rows
    weights, _ = load_arrays(found / "agent.safetensors")
    expected_weights, _ = load_arrays(expected / "agent.safetensors")
    assert differing(weights, expected_weights) == []


def test_killed_at_many_moments_a_run_ends_with_the_same_bits(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    next_command = train_arguments(folder)
    # How far the run gets before each kill: before its first checkpoint, then at ever later episodes, and
    # a varying moment after a checkpoint appears, so that some kills fall into the writing of the next one.
    for kill, (wait_for, delay) in enumerate([(0, 0.0), (3, 0.0), (30, 0.003), (60, 0.011), (90, 0.027)]):
        process = subprocess.Popen(next_command, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 240
        while process.poll() is None and time.monotonic() < deadline:
            started = (folder / "config.json").exists()
            checkpoint = (folder / "checkpoint.safetensors").exists()
            if started and (wait_for == 0 or (checkpoint and episodes_in_checkpoint(folder) >= wait_for)):
                break
            time.sleep(0.005)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, f"kill {kill} came after the end"
        next_command = command("resume", str(folder))
    subprocess.run(next_command, check=True, stderr=subprocess.DEVNULL)
    assert_same_run(folder, uninterrupted)
    assert temporaries(folder) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_go_on(tmp_path, uninterrupted, number, code):
    folder = tmp_path / "run"
    process = subprocess.Popen(train_arguments(folder), stderr=subprocess.PIPE, text=True)
    while not (folder / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    _, message = process.communicate(timeout=120)
    assert process.returncode == code
    assert f"clearning resume {folder}" in message
    assert "Traceback" not in message
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, uninterrupted)


def test_a_callback_that_returns_false_stops_and_resuming_ends_the_same(tmp_path, uninterrupted):
    folder = tmp_path / "run"
    stop = clearning.Callbacks(after_episode=lambda agent, record: record["episodes"] < 47)
    with pytest.raises(clearning.Interrupted, match="47 episodes"):
        clearning.train("frozen-lake", seed=3, out=folder, callbacks=stop, quiet=True, **SETTINGS)
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, uninterrupted)


def test_resuming_a_finished_run_changes_nothing(uninterrupted):
    before = {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()}
    agent = clearning.resume(uninterrupted, quiet=True)
    assert {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()} == before
    assert agent.act([1, 0], [1, 6]) in range(4)


def test_same_seed_same_bits_other_seed_other_bits(tmp_path, uninterrupted):
    clearning.train("frozen-lake", seed=3, out=tmp_path / "same", quiet=True, **SETTINGS)
    assert_same_run(tmp_path / "same", uninterrupted)
    clearning.train("frozen-lake", seed=4, out=tmp_path / "other", quiet=True, **SETTINGS)
    same, _ = load_arrays(uninterrupted / "checkpoint.safetensors")
    other, _ = load_arrays(tmp_path / "other" / "checkpoint.safetensors")
    for name in ("learner.network.mlp.layers[0].weight", "buffer.observation", "buffer.episode_goal"):
        assert not np.array_equal(same[name][:10], other[name][:10]), name


def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch):
    from clearning.files import write_atomically

    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(clearning.ClearningError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_stop_in_the_final_updates_goes_back_to_the_last_checkpoint(tmp_path, uninterrupted):
    """They are not saved half done: resuming takes the last episodes again, and ends the same."""
    config = replace_settings(clearning.preset("frozen-lake"), SETTINGS)
    folder = RunFolder(tmp_path / "run")
    folder.create(config, 3, "frozen-lake", {})

    def stop_at_the_end(status: Status) -> None:
        if status.progress == 1.0:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(clearning.Interrupted, match=r"in the final updates.*The last checkpoint is kept"):
        run_training(make(config.env), config, 3, folder, show=stop_at_the_end)
    assert episodes_in_checkpoint(folder.path) < SETTINGS["episodes"]
    clearning.resume(folder.path, quiet=True)
    assert_same_run(folder.path, uninterrupted)
