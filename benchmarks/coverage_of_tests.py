"""Lines and branches of the package that its tests run, processes that they start included.

    python benchmarks/coverage_of_tests.py

Runs the whole test suite, slower by the counting; `tests/test_agent.py` and the like after it run less, and
keep nothing.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from reliability import measured, write_record

ROOT = Path(__file__).resolve().parent.parent
MARK = 95.0  # percent, of lines and of branches


def count(tests: list[str]) -> dict[str, Any]:
    """What `coverage json` tells of a run of the tests."""
    with tempfile.TemporaryDirectory() as folder:
        coverage = [sys.executable, "-m", "coverage"]
        data = f"--data-file={folder}/data"
        suite = ["-m", "pytest", "-n", "2", "--dist", "worksteal", *(tests or ["tests"])]
        if subprocess.run([*coverage, "run", data, *suite], cwd=ROOT).returncode:
            sys.exit("The tests fail: nothing is kept.")
        subprocess.run([*coverage, "combine", "-q", data], cwd=ROOT, check=True)
        subprocess.run([*coverage, "json", "-q", data, "-o", f"{folder}/json"], cwd=ROOT, check=True)
        return json.loads(Path(folder, "json").read_text())


def shares(summary: dict[str, Any]) -> tuple[float, float]:
    """Percent of the lines and of the branches."""
    lines = 100 * summary["covered_lines"] / max(summary["num_statements"], 1)
    branches = summary["num_branches"]
    return lines, 100 * summary["covered_branches"] / branches if branches else 100.0


def main() -> None:
    found = count(sys.argv[1:])
    each = {name: shares(file["summary"]) for name, file in found["files"].items()}
    totals = found["totals"]
    lines, branches = shares(totals)
    told = "{}: {:.1f} % of lines, {:.1f} % of branches."
    below = [told.format(name, *both) for name, both in sorted(each.items()) if min(both) < MARK]
    print("\n".join(below))
    print(f"all: {lines:.2f} % of lines, {branches:.2f} % of branches")
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
