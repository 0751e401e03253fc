"""What may happen to a training, and that nothing is lost: full disks, signals, clocks, other processes.

The loop, the run folder and the lock are real; the world and the learning are stand-ins that compile nothing.
`make chaos` does the same to real trainings.
"""

import errno
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from conftest import assert_refused, run
from goal_worlds import Point
from test_resume import assert_same_run, episodes_in_checkpoint

import clearning
from clearning import ClearningError, UsageError, training
from clearning.config import replace_settings
from clearning.engine import Engine
from clearning.envs import FrozenLake
from clearning.envs.worker import EnvGroup
from clearning.files import load_arrays, read_json, temporaries
from clearning.lock import Locked, locked
from clearning.runs import RunFolder

CHUNK = 4
SETTINGS = {"episodes": 12, "random_episodes": 2, "hidden": (4,), "max_horizon": 3, "buffer_capacity": 400}
SETTINGS |= {"updates_per_episode": CHUNK, "evaluate_every": 4, "checkpoint_every": 3, "final_share": 0.0}


def stand_in(diverges_at: int = 0, weights_only: bool = False) -> Callable[..., Engine]:
    """Updates that halve the weights and add a number drawn by the key; at one of them they go astray."""

    def update(learner: Any, buffer: Any, key: Any, progress: Any, rate: Any) -> Any:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
        after = int(learner.updates) + CHUNK
        bad = diverges_at and after >= diverges_at
        shift = np.float32(np.nan if bad else rng.normal())
        move = lambda x: np.asarray(x) / 2 + shift if x.dtype == np.float32 else x  # noqa: E731
        losses = rng.random(CHUNK).astype(np.float32)
        if bad and not weights_only:
            losses[diverges_at - after - 1 :] = np.nan
        network = jax.tree.map(move, learner.network)
        return type(learner)(network, network, learner.optimiser, np.int32(after)), {"loss": losses}

    def collect(learner: Any, buffer: Any, key: Any, epsilon: Any) -> Any:
        drawn = np.asarray(jax.random.key_data(key)).sum() % 7
        return buffer, SimpleNamespace(success=np.array([drawn > 3]), length=np.array([3 + drawn]))

    return lambda env, config: Engine(collect, update, CHUNK)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Trainings that take no time."""
    scores = {"success": 0.5, "steps": 3.0, "distance": 2.0, "final_distance": 1.0}
    monkeypatch.setattr(training, "build_engine", stand_in())
    monkeypatch.setattr(training, "observe", lambda learner, episodes: learner)
    monkeypatch.setattr(training, "evaluate", lambda *a, **k: SimpleNamespace(summary=lambda: scores))


def train(folder: Path, **more: Any) -> clearning.Agent:
    return clearning.train("frozen-lake", seed=3, out=folder, quiet=True, **SETTINGS, **more)


def at_episode(number: int, do: Callable[[], Any]) -> clearning.Callbacks:
    """Do something in the middle of a training."""
    return clearning.Callbacks(
        after_episode=lambda agent, now: do() and None if now["episodes"] == number else None
    )


@pytest.fixture
def whole(tmp_path) -> Path:
    train(tmp_path / "whole")
    return tmp_path / "whole"


# Two processes ----------------------------------------------------------------------------------------


def test_a_folder_in_use_is_refused_to_writers_and_open_to_readers(capsys, tmp_path, whole):
    before = {f.name: f.read_bytes() for f in whole.iterdir() if f.is_file()}
    with locked(whole):
        words = rf"Process {os.getpid()} on .* is at work in {whole}: wait for its end, or stop it\.$"
        for write in (lambda: clearning.resume(whole), lambda: train(whole)):
            with pytest.raises(Locked, match=words):
                write()
        for typed in (["train", "frozen-lake", "--out"], ["resume"]):
            code, _, err = run(capsys, *typed, str(whole))
            assert (code, err.count("\n")) == (1, 1)
            assert f"Process {os.getpid()} on" in err
        assert clearning.load(whole).act([1, 0], [1, 6]) in range(4)
        state = ["--state", "1,0", "--goal", "1,6", "--horizon", "2"]
        assert run(capsys, "ask", str(whole), *state)[0] == 0
    assert {f.name: f.read_bytes() for f in whole.iterdir() if f.is_file()} == before
    with pytest.raises(UsageError, match="already holds a run"):
        train(whole)


def test_a_training_holds_its_folder_from_the_first_moment_to_the_last(tmp_path):
    refused = []

    def second() -> None:
        for write in (lambda: train(tmp_path / "run"), lambda: clearning.resume(tmp_path / "run")):
            with pytest.raises(Locked):
                write()
            refused.append(write)

    train(tmp_path / "run", callbacks=at_episode(1, second))
    assert len(refused) == 2
    clearning.resume(tmp_path / "run", quiet=True)


def test_the_lock_of_a_killed_process_is_gone_with_it(whole):
    hold = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, 2); print(); time.sleep(99)"
    process = subprocess.Popen([sys.executable, "-c", hold, whole / ".lock"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process, process.stdout as out:
        out.readline()
        with pytest.raises(Locked):
            clearning.resume(whole)
        process.send_signal(signal.SIGKILL)
    clearning.resume(whole, quiet=True)


def test_without_locks_trainings_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr("clearning.lock.fcntl", None)
    with locked(tmp_path), locked(tmp_path):
        train(tmp_path / "run")


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("clearning.lock.fcntl.flock", refuse)
    with locked(tmp_path), locked(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"Process {os.getpid()} on ")


def test_a_folder_whose_lock_cannot_be_opened_is_told(capsys, whole):
    (whole / ".lock").unlink()
    (whole / ".lock").mkdir()
    assert_refused(capsys, ["resume", str(whole)], 1, f"Could not write {whole / '.lock'}: Is a directory")


# Files that are not what they should be ---------------------------------------------------------------


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ClearningError, match=r"Could not create .*file/run: Not a directory\."):
        train(tmp_path / "file" / "run")


def test_an_agent_and_a_checkpoint_are_not_taken_for_each_other(capsys, whole):
    agent, checkpoint = whole / "agent.safetensors", whole / "checkpoint.safetensors"
    first = agent.read_bytes()
    agent.write_bytes(checkpoint.read_bytes())
    words = f"{agent} is not an agent but another file of ours"
    assert_refused(capsys, ["ask", str(whole), "--state", "1,0", "--goal", "1,6"], 1, words)
    agent.write_bytes(first)
    checkpoint.write_bytes(first)
    words = f"{checkpoint} is not a checkpoint but another file of ours"
    assert_refused(capsys, ["resume", str(whole)], 1, words)


def test_a_run_without_an_agent_is_unfinished_and_has_nothing_to_load(whole):
    assert RunFolder(whole).is_finished()
    (whole / "agent.safetensors").unlink()
    assert not RunFolder(whole).is_finished()
    with pytest.raises(UsageError, match="has no agent yet: it comes with the first checkpoint"):
        clearning.load(whole)


@pytest.mark.parametrize(
    ("mark", "command", "words"),
    [
        ("custom_network", "resume", "has a custom network: call clearning.resume with `network=`"),
        ("custom_env", "resume", "your own environment: call clearning.resume with `env=`"),
        ("custom_env", "eval", "was trained on your own environment: evaluate it from Python"),
    ],
)
def test_what_is_the_users_own_is_asked_for(capsys, whole, mark, command, words):
    record = json.loads((whole / "config.json").read_text())
    (whole / "config.json").write_text(json.dumps(record | {mark: True}))
    assert_refused(capsys, [command, str(whole)], 2, words)


def test_what_cannot_be_read_or_cut_is_told(tmp_path):
    folder = RunFolder(tmp_path)
    folder.metrics_file.mkdir()
    with pytest.raises(ClearningError, match=r"Could not write .*metrics\.csv: Is a directory"):
        folder.cut_metrics(0)
    with pytest.raises(ClearningError, match=r"Could not read .*metrics\.csv: Is a directory"):
        read_json(folder.metrics_file)


def test_without_a_folder_a_stop_says_that_nothing_is_saved():
    stop = clearning.Callbacks(after_episode=lambda agent, now: now["episodes"] < 5)
    words = r"Stopped after 5 episodes, not saved: no folder\."
    with pytest.raises(clearning.Interrupted, match=words):
        clearning.train("frozen-lake", callbacks=stop, quiet=True, **SETTINGS)


def test_who_watches_on_a_terminal_sees_a_bar(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # by which a log is taken for a terminal
    monkeypatch.setenv("COLUMNS", "120")
    clearning.train("frozen-lake", seed=3, **SETTINGS)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)
    assert re.search(r"frozen-lake, seed 3 ━+ 12/12 episodes, .* test 50\.0 %.* left", shown)


# Disks ------------------------------------------------------------------------------------------------


@contextmanager
def same_limit_afterwards() -> Iterator[None]:
    """The system can refuse to let a file grow, as a full disk would; that must not outlive a test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "agent.safetensors", "metrics.csv"])
def test_a_full_disk_costs_what_came_after_the_last_checkpoint(tmp_path, whole, name):
    folder = tmp_path / "run"
    written = (whole / name).read_bytes()
    if name == "metrics.csv":
        written = b"".join(written.splitlines(keepends=True)[:3])  # what it is at the second evaluation
    limit = len(written) - 20
    fill = at_episode(7, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1)))
    with pytest.raises(ClearningError) as caught, same_limit_afterwards():
        train(folder, callbacks=fill)
    told = str(caught.value)
    assert f"Could not write {folder / name}: " in told
    assert f"The last checkpoint is kept in {folder}." in told
    assert f"go on with `clearning resume {folder}`" in told
    assert episodes_in_checkpoint(folder) == 6
    assert (folder / "metrics.csv").read_bytes().endswith(b"\n")
    assert temporaries(folder) == []
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, whole)


@pytest.mark.parametrize("name", ["checkpoint.safetensors", "agent.safetensors"])
def test_a_folder_that_can_no_longer_be_written_to(tmp_path, whole, name):
    folder = tmp_path / "run"
    block = folder / f".{name}.{os.getpid()}"  # a folder where the file should go: for root too
    with pytest.raises(ClearningError, match=f"Could not write {folder / name}: Is a directory.*is kept in"):
        train(folder, callbacks=at_episode(7, block.mkdir))
    block.rmdir()
    assert episodes_in_checkpoint(folder) == 6
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, whole)


def test_before_the_first_checkpoint_there_is_none_to_keep(tmp_path, whole):
    folder = tmp_path / "run"
    block = folder / f".agent.safetensors.{os.getpid()}"
    with pytest.raises(ClearningError, match=f"There was no checkpoint yet in {folder}. Once it can be"):
        train(folder, callbacks=at_episode(1, block.mkdir))
    block.rmdir()
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, whole)


class Killed(BaseException):
    """Stands for the end of the process at this very moment."""


@pytest.mark.parametrize("moment", [f"{when} {call}" for call in (-2, -1) for when in ("before", "after")])
def test_killed_in_its_last_save_a_run_has_its_last_agent(tmp_path, whole, monkeypatch, moment):
    """A run is finished by its checkpoint, so its agent must be there before."""
    when, which = moment.split()
    calls, folder, replace = [0], tmp_path / "run", os.replace
    total = 2 + 2 * 4  # config and versions, then agent and checkpoint at each of four saves

    def killing(*names: Any) -> None:
        calls[0] += 1
        now = calls[0] == total + 1 + int(which)
        if now and when == "before":
            raise Killed
        replace(*names)
        if now:
            raise Killed

    monkeypatch.setattr(os, "replace", killing)
    with pytest.raises(Killed):
        train(folder)
    monkeypatch.setattr(os, "replace", replace)
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, whole)


def test_what_a_killed_process_left_half_written_is_cleared_away(whole):
    left = whole / ".checkpoint.safetensors.4711"
    left.write_bytes(b"half of a checkpoint")
    (whole / ".notes.2026").write_text("mine")
    clearning.resume(whole, quiet=True)
    assert not left.exists()
    assert (whole / ".notes.2026").exists()


def test_rows_that_are_missing_are_not_passed_over(whole):
    lines = (whole / "metrics.csv").read_text().splitlines(keepends=True)
    (whole / "metrics.csv").write_text("".join(lines[:-1]))
    with pytest.raises(ClearningError, match="lacks rows that were there at the checkpoint"):
        clearning.resume(whole, quiet=True)
    (whole / "metrics.csv").unlink()
    clearning.resume(whole, quiet=True)


# Signals and clocks -----------------------------------------------------------------------------------


def test_two_interrupts_in_the_middle_of_a_checkpoint(tmp_path, whole, monkeypatch):
    """The first would save and end; the second ends at once, and the checkpoint before is whole."""
    folder, sync, calls = tmp_path / "run", os.fsync, [0]

    def twice(number: int) -> None:
        calls[0] += 1
        if calls[0] == 12:  # with the second checkpoint written, but not in its place yet
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        sync(number)

    monkeypatch.setattr(os, "fsync", twice)
    with pytest.raises(KeyboardInterrupt):
        train(folder)
    monkeypatch.setattr(os, "fsync", sync)
    assert temporaries(folder) == []
    assert episodes_in_checkpoint(folder) == 3
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, whole)


@pytest.mark.parametrize("jumps", [(0.0,), (-3600.0, 1.0), (5.0, -9e9, 9e9, 0.0)])
def test_a_clock_that_jumps_or_stands_still(tmp_path, whole, monkeypatch, jumps):
    now = [1e6]

    def clock() -> float:
        now.append(now[-1] + jumps[len(now) % len(jumps)])
        return now[-1]

    monkeypatch.setattr(training, "time", SimpleNamespace(perf_counter=clock))
    shown = []
    config = replace_settings(clearning.preset("frozen-lake"), SETTINGS)
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        folder.create(config, 3, "frozen-lake", {})
        training.run_training(FrozenLake(), config, 3, folder, show=shown.append)
    assert_same_run(folder.path, whole)
    seconds = folder.metrics()["seconds"]
    assert (np.diff(seconds) >= 0).all()
    assert seconds[0] >= 0
    assert all(status.updates_per_second >= 0 for status in shown)


# Divergence -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [33, 34, 36])
def test_a_loss_that_is_not_finite_names_its_first_update(tmp_path, monkeypatch, first):
    monkeypatch.setattr(training, "build_engine", stand_in(diverges_at=first))
    with pytest.raises(ClearningError, match=f"The loss is no longer finite at update {first}: .* kept in"):
        train(tmp_path / "run")


def test_weights_that_are_not_finite_never_replace_a_checkpoint(tmp_path, monkeypatch, whole):
    """The loss is that of the weights before the update, so it shows them only at the next one."""
    folder = tmp_path / "run"
    monkeypatch.setattr(training, "build_engine", stand_in(diverges_at=20, weights_only=True))
    with pytest.raises(ClearningError, match=r"The network is no longer finite at update 20: .*is kept in"):
        train(folder)
    assert episodes_in_checkpoint(folder) == 3
    weights, _ = load_arrays(folder / "checkpoint.safetensors")
    assert all(np.isfinite(array).all() for array in weights.values())
    monkeypatch.setattr(training, "build_engine", stand_in())
    clearning.resume(folder, quiet=True)
    assert_same_run(folder, whole)


# Workers ----------------------------------------------------------------------------------------------


def test_one_environment_of_several_with_a_wrong_shape_is_told(tmp_path):
    (tmp_path / "flag").write_text("size")
    group = EnvGroup([Point(discrete=True), Point(discrete=True, flag=str(tmp_path / "flag"))], 1)
    group.reset([0, 1])
    with pytest.raises(ValueError, match=r"its 'observation' came in shapes \(3,\) and \(7,\) at once"):
        group.step([0, 1], np.zeros(2, int))


def test_an_environment_that_hangs_is_given_up(tmp_path):
    """Its process is ended at once, not asked to end."""
    from clearning.envs import ExternalEnv
    from clearning.envs.external import EnvironmentFailed

    flag = tmp_path / "flag"
    env = ExternalEnv("goal_worlds:Point-v0", {"discrete": True, "flag": str(flag)}, processes=1, timeout=2.0)
    pool = env.pool(1)
    pool.reset(np.arange(1))
    flag.write_text("hang")
    with pytest.raises(EnvironmentFailed, match=r"did not answer for 2 s \(see env_timeout\), at step 1 of"):
        pool.step(np.arange(1), np.zeros(1, int))
    began = time.monotonic()
    env.close()
    assert time.monotonic() - began < 4
    assert pool.groups[0].process.returncode == -signal.SIGKILL  # pyright: ignore[reportAttributeAccessIssue]


def test_training_in_a_thread_is_saved_too(tmp_path, whole):
    """Signals are the main thread's, so there is nothing to catch elsewhere; all else is the same."""
    thread = threading.Thread(target=train, args=(tmp_path / "run",))
    thread.start()
    thread.join()
    assert_same_run(tmp_path / "run", whole)
