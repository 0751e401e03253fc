"""A thousand requests at once on the explorer: every one answered, and memory bounded.

    python benchmarks/explore_load.py RUN [--requests 1000] [--rounds 3]

Starts `clearning explore RUN` for a run with a map, opens all connections at the same time, and repeats that.
Writes results/reliability/explorer.json.
"""

import argparse
import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from explorer import explorer, load

from clearning.runs import versions

OUT = Path(__file__).resolve().parent.parent / "results" / "reliability" / "explorer.json"
PATIENCE = 3600  # seconds that a request may wait for its turn
GROWTH = 1.05  # of memory from the first round to the last, at most


def requests_for(world: dict[str, Any], count: int) -> list[str]:
    """What many people with the page open would ask for, from different starts and for different goals."""
    lattice = world["lattice"]
    free = [i for i, kind in enumerate(lattice["kind"]) if kind == "1"]
    point = lambda n: [  # noqa: E731
        low + lattice["step"] * place
        for low, place in zip(lattice["low"], divmod(free[n % len(free)], lattice["rows"]), strict=True)
    ]
    text = lambda numbers: ",".join(f"{x:g}" for x in numbers)  # noqa: E731
    turned = [0] if world["turn"] else []
    asked = []
    for i in range(count):
        start, goal = text(point(7 * i) + turned), text(point(13 * i + 5))
        kinds = (
            f"api/heat?start={start}",
            f"api/paths?start={start}&goal={goal}&alpha=0.9",
            f"api/paths?start={start}&goal={goal}&horizon={1 + i % world['runs'][0]['max_horizon']}",
            f"api/success?start={start}&goal={goal}&alpha=0.5&rollouts=100",
            ("", "main.js", "api/world", "api/heat?start=nonsense", "nothing")[i // 5 % 5],
        )
        asked.append(kinds[i % 5])
    return asked


async def ask_all(url: str, asked: list[str]) -> tuple[Counter[int], list[float]]:
    """All at once; the statuses, and how long each took. A connection that breaks counts as status 0."""
    limits = httpx.Limits(max_connections=len(asked), max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE, limits=limits) as client:

        async def one(path: str) -> tuple[int, float]:
            began = time.perf_counter()
            try:
                status = (await client.get(path)).status_code
            except httpx.HTTPError as error:
                print(type(error).__name__, error)
                status = 0
            return status, time.perf_counter() - began

        found = await asyncio.gather(*(one(path) for path in asked))
    return Counter(status for status, _ in found), sorted(seconds for _, seconds in found)


def resident(process: int) -> float:
    """MiB of a process in memory."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024


@contextmanager
def sampled(process: int) -> Iterator[list[float]]:
    """A process's memory, ten times a second."""
    samples, done = [resident(process)], threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            samples.append(resident(process))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield samples
    finally:
        done.set()
        thread.join()


def measure(run: Path, count: int, rounds: int) -> dict[str, Any]:
    with explorer(run) as served:
        world = httpx.get(f"{served.url}api/world", timeout=PATIENCE).json()
        asked = requests_for(world, count)
        refused = sum("nonsense" in path for path in asked)
        missing = sum(path == "nothing" for path in asked)
        at_first, peaks, wrong, slowest = resident(served.process), [], 0, 0.0
        for _ in range(rounds):
            with sampled(served.process) as memory:
                statuses, seconds = asyncio.run(ask_all(served.url, asked))
            expected = Counter({200: count - refused - missing, 400: refused, 404: missing})
            wrong += (expected - statuses).total()
            peaks.append(max(memory))
            slowest = max(slowest, seconds[-1])
            print(dict(statuses), f"peak {peaks[-1]:.0f} MiB, slowest {seconds[-1]:.1f} s", flush=True)
    measured = [
        ("requests at once", f"{count:,}, {rounds} times", ""),
        ("answered otherwise than they should be", str(wrong), "0"),
        ("memory before", f"{at_first:.0f} MiB", ""),
        ("peak in each round", ", ".join(f"{p:.0f}" for p in peaks) + " MiB", ""),
        ("last peak / first peak", f"{peaks[-1] / peaks[0]:.3f}", f"<= {GROWTH}"),
        ("slowest answer", f"{slowest:.1f} s", ""),
    ]
    return {
        "title": "A thousand requests at once on the explorer"
        if count == 1000
        else f"{count:,} requests at once",
        "command": "python benchmarks/explore_load.py RUN",
        "measured": [dict(zip(("what", "value", "mark"), row, strict=True)) for row in measured],
        "notes": [
            f"All {count:,} connections are opened at the same time. A fifth ask for a heat map, two fifths "
            "for paths, a fifth for 100 rollouts, and a fifth for the page or for what must be refused "
            f"({refused} malformed, to be answered by 400, and {missing} for what does not exist, by 404).",
            "At most four answers are computed at a time; the others wait, which bounds the memory.",
            f"The run was one of {world['title']}. The machine was busy with other work ({load()}), which "
            "the slowest answer shows.",
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    found = versions()
    machine = f"{found.pop('machine')}, {found.pop('device')}"
    record = measure(given.run, given.requests, given.rounds) | {"versions": found, "machine": machine}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
