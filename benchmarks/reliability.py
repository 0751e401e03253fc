"""docs/reliability.md, written from the measurements in results/reliability/ by

    python benchmarks/reliability.py

Each measurement is a JSON file that its own command writes through `write_record`; nothing on the page is
edited by hand.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from clearning.files import read_json, write_atomically, write_json
from clearning.runs import versions

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "results" / "reliability"
PAGE = ROOT / "docs" / "reliability.md"
ORDER = ("faults", "faults-robot", "fuzz", "mutation", "coverage", "soak")  # others follow by name
INTRODUCTION = """\
# Reliability

What was done to trainings, files and numbers to see whether anything is lost or silently wrong, and what
came of it. [Run folders](runs.md) says what is promised. This page is written by
`python benchmarks/reliability.py` from `results/reliability/`, and the files there by the commands below.
"""


def measured(what: str, value: Any, mark: Any = "") -> dict[str, str]:
    """One line of a table: what was measured, what came out, and what was asked for."""
    return {"what": what, "value": str(value), "mark": str(mark)}


def write_record(
    name: str,
    title: str,
    command: str,
    lines: Sequence[dict[str, str]],
    notes: Sequence[str] = (),
    **more: Any,
) -> Path:
    """Keep a measurement as results/reliability/NAME.json; `figure` is a file below docs/ that shows it."""
    found = versions()
    machine = f"{found.pop('machine')}, {found.pop('device')}"
    record = {"title": title, "command": command, "measured": list(lines), "notes": list(notes), **more}
    RECORDS.mkdir(parents=True, exist_ok=True)
    path = RECORDS / f"{name}.json"
    write_json(path, record | {"versions": found, "machine": machine})
    return path


def read_records() -> dict[str, dict[str, Any]]:
    """All measurements there are, in the page's order."""
    place = {name: at for at, name in enumerate(ORDER)}
    files = sorted(RECORDS.glob("*.json"), key=lambda f: (place.get(f.stem, len(ORDER)), f.stem))
    return {f.stem: read_json(f) for f in files}


def section(record: dict[str, Any]) -> str:
    """A measurement as a section of the page."""
    lines = [f"## {record['title']}", "", f"`{record['command']}`", ""]
    lines += ["| what | measured | asked for |", "|---|---|---|"]
    for line in record["measured"]:
        lines.append(f"| {_cell(line['what'])} | {_cell(line['value'])} | {_cell(line['mark'])} |")
    if figure := record.get("figure"):
        lines += ["", f"![{record['title']}]({figure})"]
    if record["notes"]:
        lines += ["", *(f"- {note}" for note in record["notes"])]
    packages = ("clearning", "python", "jax", "jaxlib", "numpy")
    told = ", ".join(f"{name} {record['versions'][name]}" for name in packages if name in record["versions"])
    return "\n".join([*lines, "", f"Measured on {record['machine']}; {told}.", ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def write_page() -> Path:
    text = "\n".join([INTRODUCTION, *(section(r) for r in read_records().values())])
    write_atomically(PAGE, text.encode())
    return PAGE


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(os.path.relpath(write_page()))


if __name__ == "__main__":
    main()
