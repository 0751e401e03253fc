"""Mutation testing of the maths: does a test fail for every small change of src/clearning/core?

    python benchmarks/mutation.py

The tests are collected once; each mutant is tried in a process forked from there, which costs its tests and
not the start of JAX. It meets the tests that run its line, from the quickest to the slowest, until one fails.
"""

import argparse
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from mutants import Mutant, mutants

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "src" / "clearning" / "core"
TESTS: dict[str, tuple[str, ...]] = {
    "recursions": ("recursions", "rules"),
    "horizons": ("horizons",),
    "relabel": ("relabel",),
    "tabular": ("tabular", "rules"),
    "calibration": ("core_calibration",),
    "planning": ("planning",),
}
SLOW = 8.0  # seconds of processor time; a test over it is left out
TIME_OUT = 120  # a mutant that takes so many seconds of processor time for one test is found out, too
MARK = 0.9
SAME = Path(__file__).with_name("equivalent_mutants.json")
"""Mutants that no test can tell from the original, each with the reason."""


def in_fork(work: Callable[[], Any]) -> Any:
    """What a function returns in a child process, as JSON; None if it took too long or died."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_VIRTUAL, TIME_OUT)  # SIGVTALRM ends the process
        try:
            os.write(writer, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = file.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else None


def failed(item: pytest.Item) -> bool:
    return any(report.failed for report in runtestprotocol(item, nextitem=None, log=False))


class Session:
    """A pytest plugin that runs mutants where the tests would run."""

    def __init__(self, only: Sequence[str], verbose: bool):
        self.only, self.verbose = only, verbose
        self.lived: list[tuple[str, Mutant]] = []
        self.counts: dict[str, tuple[int, int]] = {}  # killed, all
        self.left_out: list[str] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for name in self.only:
            self.try_module(name, [i for i in session.items if i.path.stem[5:] in TESTS[name]])
        return True

    def try_module(self, name: str, items: list[pytest.Item]) -> None:
        path = CORE / f"{name}.py"
        tests = self.quick_tests(name, items, str(path))
        module = importlib.import_module(f"clearning.core.{name}")
        same = json.loads(SAME.read_text())
        found = [m for m in mutants(path.read_text()) if key(name, m) not in same]
        killed = 0
        for mutant in found:
            mine = [t.item for t in tests if mutant.line in t.lines or mutant.at_import]
            mine = mine or [t.item for t in tests]  # the line may be counted to the one before it
            killer = in_fork(lambda m=mutant, mine=mine: self.killer(module, m, mine))
            if killer == "":
                self.lived.append((name, mutant))
                print(f"lives: {key(name, mutant)} ({len(mine)} tests)", flush=True)
            else:
                killed += 1
                if self.verbose:
                    print(f"killed by {killer}: {key(name, mutant)}", flush=True)
        self.counts[name] = (killed, len(found))
        print(f"{name}: {killed} of {len(found)} killed", flush=True)

    def killer(self, module: Any, mutant: Mutant, items: list[pytest.Item]) -> str:
        mutant.put_into(module)
        return next((item.nodeid for item in items if failed(item)), "")

    def quick_tests(self, name: str, items: list[pytest.Item], path: str) -> list["Timed"]:
        """The tests by the time they take without a mutant; all must pass."""
        found = in_fork(lambda: [timed(item, path) for item in items])
        if found is None or any(broken for _, broken, _ in found):
            broken = [i.nodeid for i, (_, broken, _) in zip(items, found or [], strict=False) if broken]
            raise pytest.UsageError(f"{name}: tests fail without a mutant, or take too long: {broken}")
        tests = [Timed(t, i, set(lines)) for i, (t, _, lines) in zip(items, found, strict=True)]
        self.left_out += [t.item.nodeid for t in tests if t.seconds > SLOW]
        kept = sorted((t for t in tests if t.seconds <= SLOW), key=lambda t: t.seconds)
        print(f"{name}: {len(kept)} tests of {sum(t.seconds for t in kept):.0f} s", flush=True)
        return kept


class Timed(NamedTuple):
    """A test, the processor time that it takes, and the lines of a module that it runs."""

    seconds: float
    item: pytest.Item
    lines: set[int]


def timed(item: pytest.Item, path: str) -> tuple[float, bool, list[int]]:
    """A test's time, whether it fails, and the lines of a file that it runs."""
    lines: set[int] = set()

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != path:
            return None
        lines.add(frame.f_lineno)
        return trace

    before = time.process_time()
    sys.settrace(trace)
    try:
        broken = failed(item)
    finally:
        sys.settrace(None)
    return time.process_time() - before, broken, sorted(lines)


def key(name: str, mutant: Mutant) -> str:
    """A mutant's name, which a change elsewhere in the file leaves as it is."""
    return f"{name}: {mutant.code} | {mutant.what}"


def keep(found: Session) -> float:
    from reliability import measured, write_record  # not before pytest, which looks at what is imported

    killed = sum(k for k, _ in found.counts.values())
    total = sum(n for _, n in found.counts.values())
    same = json.loads(SAME.read_text())
    lines = [
        measured("mutants of src/clearning/core killed", f"{killed / total:.1%}", f"at least {MARK:.0%}"),
        measured("mutants", f"{total}, of which {killed} killed"),
        measured("left out: equal to the original, reasons below", len(same)),
    ]
    lines += [measured(f"{name}.py: killed, all", f"{k}, {n}") for name, (k, n) in found.counts.items()]
    notes = [f"Lives: {key(name, mutant)} (line {mutant.line})." for name, mutant in found.lived]
    notes += [f"Equal to the original: {name}. {why}" for name, why in same.items()]
    notes += [f"Not run, as it takes over {SLOW:.0f} s: {name}." for name in found.left_out]
    write_record("mutation", "Mutation testing of the maths", "make mutation", lines, notes)
    return killed / total


def main() -> None:
    parser = argparse.ArgumentParser(description="Mutation testing of src/clearning/core.")
    parser.add_argument("modules", nargs="*", default=list(TESTS), help="less than all is not kept")
    parser.add_argument("--verbose", action="store_true", help="also tell what killed each mutant")
    args = parser.parse_args()
    files = sorted(
        {str(ROOT / "tests" / f"test_{name}.py") for module in args.modules for name in TESTS[module]}
    )
    session = Session(args.modules, args.verbose)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-profile=mutation"]
    if code := pytest.main([*options, *files], plugins=[session]):
        sys.exit(int(code))
    if list(session.counts) == list(TESTS) and keep(session) < MARK:
        sys.exit(f"Fewer than {MARK:.0%} of the mutants are killed.")


if __name__ == "__main__":
    main()
