"""Trains what is missing, each run in a process of its own; can be stopped and continued at any time."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from clearning.errors import ClearningError, UsageError
from clearning.lock import locked
from clearning.reproduce.experiments import Run, identity
from clearning.reproduce.results import has_ended
from clearning.runs import RunFolder
from clearning.training import Interrupted, catch_signals

POLL = 0.2  # seconds between looks at the running trainings
STATUS = re.compile(r": (\d+) %, (.*)")  # a plain line of `clearning train`
STARTING, FINISHED, FAILED = "starting", "finished", "failed"
Tell = Callable[[Run, float, str], None]  # how far a run is, from 0 to 1, and in words


class TrainingsFailed(ClearningError):
    """Some trainings ended with an error; the others went on."""


# The runs that are there --------------------------------------------------------------------------


def stored_runs(folder: Path) -> dict[str, RunFolder]:
    """All runs below a folder by the hash of their settings and seed, whatever their place there.

    Of several copies one that has ended goes first.
    """
    found: dict[str, RunFolder] = {}
    ended: set[str] = set()
    for file in sorted(folder.rglob("config.json")):
        run = RunFolder(file.parent)
        try:
            config, seed, record = run.read()
            if record["custom_env"] or record["custom_network"]:
                continue  # its settings do not tell what it trained
            is_over = has_ended(run)  # a damaged checkpoint is told of here, and stops no other run
        except ClearningError as error:
            print(f"clearning: passed over: {error}", file=sys.stderr)
            continue
        name = identity(config, seed)
        if name not in ended:
            found[name] = run
        ended |= {name} if is_over else set()
    return found


def place_of(run: Run, folder: Path) -> Path:
    """Where a run that is not there yet goes: seeds of the same settings lie side by side."""
    return folder / run.preset.replace("/", "-") / identity(run.config, 0)[:8] / f"seed-{run.seed}"


def command(run: Run, stored: RunFolder | None, folder: Path) -> list[str]:
    """The arguments of `clearning` that begin a run, or go on with it."""
    if stored is not None:
        return ["resume", str(stored.path)]
    return ["train", *run.arguments(), "--out", str(place_of(run, folder))]


def train_missing(runs: Sequence[Run], folder: Path, jobs: int, python: Sequence[str] = ()) -> None:
    """Train or resume every run that is not finished; finished ones are left as they are.

    python: what starts clearning, for tests; else this Python with `-m clearning`.
    """
    if jobs < 1:
        raise UsageError(f"--jobs must be at least 1, not {jobs}.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClearningError(f"Could not create {folder}: {error.strerror}.") from error
    with locked(folder, also=", or a training that it left behind,") as lock:
        stored = stored_runs(folder)
        waiting = list({r.identity: r for r in runs if not _finished(stored.get(r.identity))}.values())
        if not waiting:
            return
        program = [*(python or (sys.executable, "-m", "clearning"))]
        jobs_to_do = [(r, [*program, *command(r, stored.get(r.identity), folder)]) for r in waiting]
        with catch_signals() as caught, display(waiting) as tell:
            _work_through(jobs_to_do, folder / "log.txt", jobs, lock, caught, tell)


def _finished(stored: RunFolder | None) -> bool:
    return stored is not None and has_ended(stored)


def _work_through(
    waiting: list[tuple[Run, list[str]]], log: Path, jobs: int, lock: int, caught: list[int], tell: Tell
) -> None:
    running: list[Child] = []
    failed: list[str] = []
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                running.append(Child(*waiting.pop(0), log, lock, tell))
            time.sleep(POLL)
            if caught:
                raise Interrupted("Stopped; the same command goes on from here.", 128 + caught[0])
            for child in [c for c in running if c.process.poll() is not None]:
                running.remove(child)
                failed += child.end()
    finally:
        for child in running:
            child.process.terminate()  # a training saves itself and ends
        for child in running:
            child.process.wait()
            child.reader.join()
    if failed:
        raise TrainingsFailed(f"{len(failed)} of the trainings failed; see {log}.\n" + "\n".join(failed))


class Child:
    """A training in a process of its own. Its lines go to the log, the last of them to the bar."""

    def __init__(self, run: Run, words: list[str], log: Path, lock: int, tell: Tell):
        self.run, self.log, self.tell, self.last = run, log, tell, ""
        # One thread of XLA each: the bits of a run then do not depend on how many run at once. The lock is
        # handed on, so that a training that outlives us keeps others away from its folder.
        self.process = subprocess.Popen(
            words,
            env={"NPROC": "1", **os.environ},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C is ours to pass on
            pass_fds=(lock,),
        )
        tell(run, 0.0, STARTING)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with open(self.log, "a") as log, self.process.stderr as lines:
            for line in lines:
                log.write(f"{self.run.title}: {line}")
                log.flush()
                self.last = line.strip() or self.last
                if match := STATUS.search(line):
                    self.tell(self.run, int(match[1]) / 100, match[2])

    def end(self) -> list[str]:
        """What went wrong, if anything did."""
        self.reader.join()
        if self.process.returncode == 0:
            self.tell(self.run, 1.0, FINISHED)
            return []
        self.tell(self.run, 0.0, FAILED)
        return [f"{self.run.title}: exit code {self.process.returncode}: {self.last}"]


@contextmanager
def display(runs: Sequence[Run]) -> Iterator[Tell]:
    """One bar per run at work, and one for all, on a terminal; lines in a log file."""
    console = Console(stderr=True)
    if not console.is_terminal:
        print(f"{len(runs)} trainings to do.", file=sys.stderr, flush=True)
        yield _line
        return
    columns = [TextColumn("[bold]{task.description}"), BarColumn(bar_width=20), TimeElapsedColumn()]
    with Progress(*columns, TextColumn("{task.fields[words]}"), console=console) as bars:
        # A bar appears with its run and makes room at its end: hundreds would not fit a screen.
        hidden = {"total": 1.0, "start": False, "visible": False, "words": ""}
        tasks = {r: bars.add_task(r.title, **hidden) for r in runs}
        whole = bars.add_task("all", total=len(runs), words=f"{len(runs)} trainings to do")

        def tell(run: Run, progress: float, words: str) -> None:
            task = tasks[run]
            if words == STARTING:
                bars.start_task(task)
            over = words in (FINISHED, FAILED)
            bars.update(task, completed=progress, words=words, visible=not over)
            if over:
                bars.update(whole, advance=1, words="")
                bars.console.print(f"{run.title}: {words}")

        yield tell


def _line(run: Run, progress: float, words: str) -> None:
    print(f"{run.title}: {100 * progress:.0f} %, {words}", file=sys.stderr, flush=True)
