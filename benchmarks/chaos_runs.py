"""Real trainings to be disturbed: how they are started, watched, killed and compared.

All that a training needs is imported here, once, before any process is forked.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import clearning.api
import clearning.cli
import clearning.report
from clearning.files import load_arrays, read_record, temporaries

IGNORED = {"seconds", "metrics_bytes"}  # of the counters: what the clock says may differ
LAKE = {"episodes": 60, "random_episodes": 5, "updates_per_episode": 4, "hidden": (16, 16)}
LAKE |= {"evaluate_every": 20, "checkpoint_every": 3, "buffer_capacity": 2000, "max_horizon": 10}
FETCH = {"env_steps": 2000, "parallel_envs": 4, "processes": 2, "hidden": (8,), "max_horizon": 6}
FETCH |= {"critics": 1, "updates_per_step": 0.1, "update_chunk": 8, "batch_size": 16, "buffer_capacity": 2000}
FETCH |= {"random_episodes": 4, "test_episodes": 4, "evaluate_every": 500, "checkpoint_every": 200}
FETCH |= {"env_timeout": 20}


class Wrong(Exception):
    """A fault did what it must not do."""


def require(holds: Any, what: str) -> None:
    if not holds:
        raise Wrong(what)


@dataclass
class World:
    """A kind of training, small and always the same, and the run of it that nothing disturbs."""

    name: str
    what: list[str]
    settings: dict[str, Any]
    folder: Path
    seed: int
    runs: int = 0
    flag: Path = field(init=False)
    whole: Path = field(init=False)

    def __post_init__(self) -> None:
        self.flag = self.folder / "flag"
        self.whole = self.folder / "whole"
        self.folder.mkdir(parents=True)
        if "--env" in self.what:
            self.what += ["--env-options", "flag", str(self.flag)]

    def new_folder(self) -> Path:
        self.runs += 1
        return self.folder / f"run-{self.runs}"

    def train(self, folder: Path, **changes: Any) -> list[str]:
        words = ["train", *self.what, "--seed", str(self.seed), "--out", str(folder)]
        for name, value in (self.settings | changes).items():
            words.append(f"--{name.replace('_', '-')}")
            words += map(str, value if isinstance(value, tuple) else [value])
        return words

    def resume(self, folder: Path) -> list[str]:
        """A run folder imports nothing by itself; who goes on with this one trusts its environment."""
        trusted = ["--import", "chaos_worlds"] if "--env" in self.what else []
        return [*trusted, "resume", str(folder)]


class Process:
    """A `clearning` command in a process of its own.

    It is forked from this one, which has imported everything and started nothing: start-up would otherwise
    take longer than the training. `prepare` is called in it first.
    """

    def __init__(self, words: list[str], log: Path, prepare: Callable[[], Any] = lambda: None):
        self.words, self.log, self.code = words, log, None
        self.pid = os.fork()
        if self.pid:
            return
        code = 70
        try:
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 2)
            prepare()
            clearning.cli.main(words)
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)

    def running(self) -> bool:
        return self.code is None and not self._wait(os.WNOHANG)

    def _wait(self, how: int) -> bool:
        pid, status = os.waitpid(self.pid, how)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return bool(pid)

    def end(self, seconds: float = 900) -> tuple[int, str]:
        """Exit code and standard error."""
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                self.kill()
                raise Wrong(f"{' '.join(self.words[:2])} did not end")
            time.sleep(0.02)
        assert self.code is not None
        return self.code, self.log.read_text()

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def after_checkpoints(self, folder: Path, count: int) -> None:
        """Wait until so many checkpoints have appeared, or for the end."""
        seen = stamp = _stamp(folder)
        while count and self.running():
            time.sleep(0.001)
            seen = _stamp(folder)
            count -= seen != stamp
            stamp = seen


def _stamp(folder: Path) -> tuple[int, int]:
    try:
        found = (folder / "checkpoint.safetensors").stat()
        return found.st_ino, found.st_mtime_ns
    except FileNotFoundError:
        return 0, 0


def go_on(folder: Path, world: World) -> list[str]:
    """The command that a user would type next."""
    started = (folder / "config.json").exists()
    return world.resume(folder) if started else world.train(folder)


def run_to_the_end(folder: Path, world: World) -> None:
    code, told = Process(go_on(folder, world), folder.with_suffix(".log")).end()
    require(code == 0, f"resuming ended with {code}: {told[-300:]}")
    differences = compare(folder, world.whole)
    require(not differences, "; ".join(differences[:5]))


def check_last_good(folder: Path) -> int:
    """The checkpoint on disk is whole; how many updates it holds."""
    _, record = load_arrays(folder / "checkpoint.safetensors")  # checks its digest
    load_arrays(folder / "agent.safetensors")
    metrics = folder / "metrics.csv"
    require(not metrics.exists() or metrics.read_bytes()[-1:] == b"\n", "half a row of metrics")
    return record["counters"]["updates"]


def compare(found: Path, expected: Path) -> list[str]:
    """Where two finished runs differ: weights, optimiser, buffer, counters, rows of metrics."""
    told = []
    for name in ("checkpoint.safetensors", "agent.safetensors"):
        mine, theirs = (load_arrays(folder / name)[0] for folder in (found, expected))
        if mine.keys() != theirs.keys():
            told.append(f"{name} holds other arrays")
        told += [f"{name}: {k}" for k in mine if mine[k].tobytes() != theirs[k].tobytes()]
    counters = [read_record(f / "checkpoint.safetensors")["counters"] for f in (found, expected)]
    told += [k for k in counters[0] if k not in IGNORED and counters[0][k] != counters[1][k]]
    rows = [
        [line.rsplit(",", 1)[0] for line in (folder / "metrics.csv").read_text().splitlines()]
        for folder in (found, expected)
    ]
    if rows[0] != rows[1]:
        told.append(f"metrics.csv has {len(rows[0])} rows that are not those {len(rows[1])}")
    if temporaries(found):
        told.append("temporary files were left behind")
    return told


# Kills ------------------------------------------------------------------------------------------------


def killed_in_writing(at: int, how: str) -> Callable[[], None]:
    """Makes a process kill itself in its at-th write of a file, at one of the moments of that."""

    def prepare() -> None:
        calls, fsync, replace = [0], os.fsync, os.replace

        def die() -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        def counted_fsync(number: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{number}"))
            calls[0] += not path.is_dir()
            if calls[0] == at and not path.is_dir():
                replaces = path.name.startswith(".")  # metrics are appended to instead
                if how == "half written" and replaces:
                    os.ftruncate(number, os.fstat(number).st_size // 2)
                if how in ("half written", "written") or not replaces:
                    die()
            fsync(number)

        def counted_replace(*names: Any) -> None:
            if calls[0] == at and how == "not renamed":
                die()
            replace(*names)
            if calls[0] == at and how == "renamed":
                die()

        os.fsync, os.replace = counted_fsync, counted_replace

    return prepare


MOMENTS = ("half written", "written", "not renamed", "renamed")


def kill_once(world: World, folder: Path, rng: random.Random, forced: bool) -> str:
    """Start or go on, and kill; says at what kind of moment, or nothing where the end came first."""
    log = folder.with_suffix(".log")
    if forced:
        how = rng.choice(MOMENTS)
        process = Process(go_on(folder, world), log, killed_in_writing(rng.randint(1, 8), how))
        process.end()
        moment = f"a file {how}"
    else:
        process = Process(go_on(folder, world), log)
        checkpoints = rng.randint(0, 4)
        process.after_checkpoints(folder, checkpoints)
        time.sleep(rng.uniform(0, 0.25 if checkpoints else 20))
        if process.running():
            process.kill()
        process.end()
        moment = f"at random, after {'a checkpoint' if checkpoints else 'the start'}"
    if process.code == 0:
        return ""
    require(process.code == -signal.SIGKILL, f"ended with {process.code}: {log.read_text()[-300:]}")
    return moment
