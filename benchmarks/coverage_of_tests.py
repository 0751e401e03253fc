"""Lines and branches of the package that its tests run, processes that they start included.

    python benchmarks/coverage_of_tests.py

Runs the whole test suite, slower by the counting; `tests/test_agent.py` and the like after it run less, and
keep nothing. Each file of tests has a process of its own, two at a time: what the workers of pytest-xdist run
is not counted.
"""

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reliability import measured, write_record

ROOT = Path(__file__).resolve().parent.parent
MARK = 95.0  # percent, of lines and of branches
PATIENCE = 1800  # seconds; rarely the interpreter hangs in a callback of a weak reference that is traced


def count(tests: list[str]) -> dict[str, Any]:
    """What `coverage json` tells of a run of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        coverage = [sys.executable, "-m", "coverage"]
        data = f"--data-file={folder}/data"

        def passes(file: str, again: bool = True) -> bool:
            words = [*coverage, "run", data, "-m", "pytest", "-q", "-p", "no:xdist", file]
            try:
                done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                print(file, "does not end", flush=True)
                return again and passes(file, again=False)
            print(file, "passes" if not done.returncode else done.stdout[-3000:], flush=True)
            return not done.returncode

        # The largest files first, so that none is left for one process at the end.
        files = sorted((ROOT / "tests").glob("test_*.py"), key=lambda file: -file.stat().st_size)
        with ThreadPoolExecutor(2) as pool:
            failed = list(pool.map(passes, tests or [str(f.relative_to(ROOT)) for f in files])).count(False)
        subprocess.run([*coverage, "combine", "-q", data], cwd=ROOT, check=True)
        subprocess.run([*coverage, "json", "-q", data, "-o", f"{folder}/json"], cwd=ROOT, check=True)
        found = json.loads(Path(folder, "json").read_text())
        return found | {"failed": failed}


def shares(summary: dict[str, Any]) -> tuple[float, float]:
    """Percent of the lines and of the branches."""

    def share(of: str, all_of: str) -> float:
        return 100 * summary[of] / summary[all_of] if summary[all_of] else 100.0

    return share("covered_lines", "num_statements"), share("covered_branches", "num_branches")


def main() -> None:
    found = count(sys.argv[1:])
    each = {name: shares(file["summary"]) for name, file in found["files"].items()}
    totals = found["totals"]
    lines, branches = shares(totals)
    told = "{}: {:.1f} % of lines, {:.1f} % of branches."
    below = [told.format(name, *both) for name, both in sorted(each.items()) if min(both) < MARK]
    print("\n".join(below))
    print(f"all: {lines:.2f} % of lines, {branches:.2f} % of branches")
    if found["failed"]:
        sys.exit("Some tests fail: nothing is kept.")
    if sys.argv[1:]:
        return
    marks = [
        measured("lines that the tests run", f"{lines:.2f} %", f"at least {MARK:.0f} %"),
        measured("branches that the tests take", f"{branches:.2f} %", f"at least {MARK:.0f} %"),
        measured(
            "lines, branches in all",
            f"{totals['num_statements']}, {totals['num_branches']}",
        ),
    ]
    write_record("coverage", "Coverage of the tests", "make coverage", marks, below)
    if min(lines, branches) < MARK:
        sys.exit(f"Less than {MARK:.0f} %.")


if __name__ == "__main__":
    main()
