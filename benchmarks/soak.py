"""Memory over a long training at full speed: `make soak`.

    python benchmarks/soak.py [--minutes 60] [--capacity 200000]

Trains on Dubins' car with 64 episodes at a time until the time is up, and then asks it to stop as Ctrl-C
would. Its resident memory is read every second. Writes results/reliability/soak.json and its figure.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from reliability import ROOT, measured, write_record

from clearning.files import load_arrays
from clearning.plots.style import BLUE, GREY, WIDTH, save, styled

WARM_UP = 0.25  # of the time: compiling, and filling the buffer for the first time
WINDOW = (
    0.1  # of the time: growth is from the median of the first such part after warm-up to that of the last
)
POINTS = 200  # of the curve that is kept
SETTINGS = {"episodes": 10**9, "parallel_envs": 64, "updates_per_episode": 1, "random_episodes": 64}
SETTINGS |= {"evaluate_every": 1_920, "checkpoint_every": 640}


def resident(pid: int) -> float:
    """A process's memory in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def watch(words: list[str], seconds: float) -> tuple[np.ndarray, np.ndarray]:
    """Seconds and MiB, read once a second until the time is up; the training must end by its own saving."""
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    began, samples = time.monotonic(), []
    while time.monotonic() - began < seconds and process.poll() is None:
        samples.append((time.monotonic() - began, resident(process.pid)))
        time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    if process.returncode != 128 + signal.SIGINT:
        raise SystemExit(f"The training ended with {process.returncode}: {told[-500:]}")
    at, memory = np.array(samples).T
    return at, memory


def growth(at: np.ndarray, memory: np.ndarray) -> tuple[float, float]:
    """Per cent from just after the warm-up to the end, and the memory at first."""
    share = at / at[-1]
    first = float(np.median(memory[(share >= WARM_UP) & (share < WARM_UP + WINDOW)]))
    last = float(np.median(memory[share >= 1 - WINDOW]))
    return 100 * (last / first - 1), first


def figure(at: np.ndarray, memory: np.ndarray) -> Figure:
    with styled():
        drawn = Figure((WIDTH, WIDTH / 3), layout="constrained")
        ax = drawn.subplots()
        ax.axvspan(0, WARM_UP * at[-1] / 60, color="0.94", lw=0)
        ax.text(0.01 * at[-1] / 60, 0.02 * memory.max(), "warm-up", color=GREY)
        ax.plot(at / 60, memory, color=BLUE, lw=1.2)
        ax.set(xlabel="minutes", ylabel="resident memory, MiB", ylim=(0, 1.1 * memory.max()))
        ax.set_xlim(0, at[-1] / 60)
    return drawn


def lines(at: np.ndarray, memory: np.ndarray, run: Path, capacity: int) -> list[dict[str, str]]:
    arrays, record = load_arrays(run / "checkpoint.safetensors")
    count: dict[str, Any] = record["counters"]
    percent, first = growth(at, memory)
    turns = int(arrays["buffer.places_used"]) / capacity
    return [
        measured("growth of memory after warm-up", f"{percent:+.2f} %", "at most 2 %"),
        measured("memory just after warm-up", f"{first:.0f} MiB"),
        measured("largest memory", f"{memory.max():.0f} MiB"),
        measured("times the buffer was filled", f"{turns:.1f}", "at least 3"),
        measured("transitions", f"{int(arrays['buffer.transitions_used']):,}", "1,000,000"),
        measured("updates", f"{count['updates']:,}"),
        measured("minutes", f"{at[-1] / 60:.1f}", "60"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--capacity", type=int, default=200_000)
    parser.add_argument("--out", type=Path, default=Path("runs/soak"))
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)
    words = [sys.executable, "-m", "clearning", "train", "dubins-car", "--out", str(options.out)]
    for name, value in (SETTINGS | {"buffer_capacity": options.capacity}).items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    at, memory = watch(words, 60 * options.minutes)
    save(figure(at, memory), ROOT / "docs" / "images" / "soak.png")
    kept = np.linspace(0, len(at) - 1, min(POINTS, len(at))).astype(int)
    found = lines(at, memory, options.out, options.capacity)
    for line in found:
        print(f"{line['what']}: {line['value']}")
    write_record(
        "soak",
        "Memory over a long training",
        f"python benchmarks/soak.py --minutes {options.minutes:g} --capacity {options.capacity}",
        found,
        [
            f"Dubins' car, 64 episodes at a time, a checkpoint every {SETTINGS['checkpoint_every']:,} "
            f"and an evaluation every {SETTINGS['evaluate_every']:,}. Warm-up is the first "
            f"{100 * WARM_UP:.0f} % of the time; growth is between the medians of the {100 * WINDOW:.0f} % "
            f"that follow it and of the last {100 * WINDOW:.0f} %."
        ],
        figure="images/soak.png",
        seconds=at[kept].round(1).tolist(),
        mebibytes=memory[kept].round(1).tolist(),
    )


if __name__ == "__main__":
    main()
