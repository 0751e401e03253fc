"""Feeds damaged and hostile files to every function that reads one, and keeps what came of it.

    python benchmarks/fuzz.py

Each input is a mutation of a good file and goes by its loader and number, so that a failure can be had again:

    python benchmarks/fuzz.py --only 'agent, whole' --number 17

A crash leaves its input in the folder that is printed first.
"""

import argparse
import contextlib
import faulthandler
import resource
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from reliability import measured, write_record

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from hostile import Loaders

MEMORY = 1_000_000_000  # bytes of address space that all inputs together may add
# Where a network is built or compiled an input takes a hundred times as long: most go to the layers below.
COUNTS = {
    "config.json, bytes": 14_000,
    "config.json, structure": 14_000,
    "config.json, a setting of any preset": 12_000,
    "metrics.csv, bytes": 10_000,
    "metrics.csv, cells": 10_000,
    "safetensors, bytes": 12_000,
    "safetensors, header": 8_000,
    "safetensors, record": 6_000,
    "agent's spec": 8_000,
    "agent's recalibration": 5_000,
    "checkpoint's counters": 2_000,
    "kept evaluation": 4_000,
    "options of an environment": 2_000,
    "agent, whole": 600,
    "checkpoint, whole": 600,
    "replayed states": 500,
    "resume, before anything is built": 200,
    "ask": 100,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=COUNTS, help="one loader, and nothing kept")
    parser.add_argument("--number", type=int, help="one input of it")
    parser.add_argument("--share", type=float, default=1.0, help="of the inputs; less than all is not kept")
    args = parser.parse_args()
    faulthandler.enable()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    print(f"Inputs are written to {folder}.", flush=True)
    loaders = Loaders(folder)
    if args.number is not None:
        print("an object" if loaders.feed(args.only, args.number) else "refused")
        return
    counts = {n: int(c * args.share) for n, c in COUNTS.items() if args.only in (None, n)}
    warm_up(loaders, counts)
    before = limit_memory()
    outcomes = {name: fuzz(loaders, name, count) for name, count in counts.items()}
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3
    failures = [text for outcome in outcomes.values() for text in outcome.failures]
    if counts == COUNTS:
        keep(outcomes, grown)
    shutil.rmtree(folder)
    if failures:
        sys.exit(f"{len(failures)} inputs did not get an object or our error; the first: {failures[0]}")


class Outcome(NamedTuple):
    """What came of a loader's inputs."""

    objects: int
    refused: int
    failures: list[str]
    slowest: float  # seconds of processor time


def warm_up(loaders: Loaders, names: Iterable[str]) -> None:
    """What is compiled or imported at the first use is not what an input takes."""
    for name in names:
        with contextlib.suppress(Exception):  # which the first input tells again
            loaders.feed(name, 0)


def limit_memory() -> int:
    """From now on so much more address space and no more; returns the most memory used so far, in kB."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fuzz(loaders: Loaders, name: str, count: int) -> Outcome:
    objects, slowest, failures = 0, 0.0, []
    began = time.perf_counter()
    for number in range(count):
        start = time.process_time()
        try:
            objects += loaders.feed(name, number)
        except Exception as error:
            what = traceback.format_exception_only(error)[-1].strip()[:200]
            failures.append(f"--only '{name}' --number {number}: {what}")
            print(failures[-1], flush=True)
        slowest = max(slowest, time.process_time() - start)
    print(f"{name}: {count} in {time.perf_counter() - began:.0f} s, {len(failures)} failures", flush=True)
    return Outcome(objects, count - objects - len(failures), failures, slowest)


def keep(outcomes: dict[str, Outcome], grown: float) -> None:
    total = sum(o.objects + o.refused + len(o.failures) for o in outcomes.values())
    failures = sum(len(o.failures) for o in outcomes.values())
    slowest = max(o.slowest for o in outcomes.values())
    lines = [
        measured("mutated inputs", f"{total:,}", "at least 100,000"),
        measured("that gave neither an object nor our error", failures, 0),
        measured("growth of the process over all of them, MB", f"{grown:.0f}", f"under {MEMORY // 10**6}"),
        measured("processor time of the slowest input, s", f"{slowest:.2f}"),
    ]
    lines += [
        measured(f"{name}: objects, refused", f"{o.objects:,}, {o.refused:,}") for name, o in outcomes.items()
    ]
    notes = [
        "Inputs are mutations of the bytes or of the structure of good files; where a file carries a digest, "
        "most have a right one, so that what lies behind it is reached.",
        "Address space is limited while they are read: a loader that asks for more fails the run.",
    ]
    write_record("fuzz", "Hostile files", "make fuzz", lines, notes)


if __name__ == "__main__":
    main()
