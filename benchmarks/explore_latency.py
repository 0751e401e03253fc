"""From a moved control of the explorer to the picture it changes, in a real browser.

    python benchmarks/explore_latency.py RUN [RUN ...] [--moves 60] [--out results/explore.json]

Every run gets a `clearning explore` of its own. The time is taken in the page: from the input event to the
frame after the last drawing that it causes, requests to the server included. On a busy machine everything is
slower, so two things stand beside it: an empty frame, in which nothing is asked and nothing drawn, and the
processor time that the server spent on a move, which other work changes little.
"""

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from explorer import browser, explorer, load

from clearning.runs import RunFolder, versions

WANTED = 100  # milliseconds, at the median
# What a person moves, how often a map's canvas is then drawn anew (at once, and for each answer), and with
# which the page is opened.
MAP = [
    ("steps allowed h", "horizon", 1, ""),
    ("steps allowed h, steering the path", "horizon", 2, "by=horizon"),
    ("caution α", "alpha", 2, ""),
    ("start, by an arrow key", "start", 3, ""),
]
EPISODES = [("moment", "moment", 1, "")]
SCRIPT = """
async ([what, draws, moves]) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => done(performance.now())));
  const rest = (time) => new Promise((done) => setTimeout(done, time));
  let drawn = 0;
  for (const name of ["putImageData", "drawImage"]) {
    const own = CanvasRenderingContext2D.prototype[name];
    CanvasRenderingContext2D.prototype[name] = function (...given) { own.apply(this, given); drawn += 1; };
  }
  const move = (turn) => {
    if (what === "start") {
      const key = ["ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"][turn % 4];
      document.querySelector("g.start").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      return;
    }
    const slider = document.getElementById(what);
    const before = slider.value;
    slider.stepUp();
    if (slider.value === before) slider.value = slider.min;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const [times, empty] = [[], []];
  for (let turn = 0; turn < moves; turn++) {
    await rest(30);
    let began = performance.now();
    empty.push((await frame()) - began);
    await rest(30);
    drawn = 0;
    began = performance.now();
    move(turn);
    const patience = began + 20000;
    while (drawn < draws && performance.now() < patience) await frame();
    if (drawn < draws) throw new Error(`${drawn} drawings instead of ${draws}`);
    times.push((await frame()) - began);
  }
  return [times, empty];
}
"""


def measure(run: Path, moves: int) -> list[dict[str, Any]]:
    """One row for each control of a run's page."""
    config, _, _ = RunFolder(run).read()
    rows = []
    with explorer(run) as served, browser() as opened:
        page = opened.new_page(viewport={"width": 1280, "height": 800})
        page.goto(served.url)
        page.wait_for_selector(".readout:not(:empty)", timeout=60_000)
        has_map = page.query_selector("g.start") is not None
        for what, control, draws, address in MAP if has_map else EPISODES:
            page.goto("about:blank")
            page.goto(f"{served.url}#{address}")
            page.wait_for_selector(".readout:not(:empty)", timeout=60_000)
            page.wait_for_timeout(1000)
            before = cpu_seconds(served.process)
            times, empty = page.evaluate(SCRIPT, [control, draws, moves])
            spent = cpu_seconds(served.process) - before
            rows.append(
                {
                    "world": config.env,
                    "what": what,
                    "moves": moves,
                    "median_ms": round(statistics.median(times), 1),
                    "p90_ms": round(float(np.quantile(times, 0.9)), 1),
                    "empty_frame_ms": round(statistics.median(empty), 1),
                    "server_cpu_ms": round(1000 * spent / moves, 1),
                    "wanted_ms": WANTED,
                }
            )
            print(rows[-1], flush=True)
    return rows


def cpu_seconds(process: int) -> float:
    """Processor time that a process has used."""
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as the table in docs/explore.md."""
    lines = [
        "| world | moved | median, ms | 90th percentile, ms | an empty frame, ms |",
        "|---|---|---|---|---|",
    ]
    names = ("world", "what", "median_ms", "p90_ms", "empty_frame_ms")
    return "\n".join(lines + ["| " + " | ".join(str(row[n]) for n in names) + " |" for row in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--moves", type=int, default=60, help="of each control")
    parser.add_argument("--out", type=Path, default=Path("results/explore.json"))
    given = parser.parse_args()
    began = load()
    rows = [row for run in given.runs for row in measure(run, given.moves)]
    record = {
        "command": "python benchmarks/explore_latency.py RUN [RUN ...]",
        "load": f"{began} at the beginning, {load()} at the end",
        "versions": versions(),
        "rows": rows,
    }
    given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
