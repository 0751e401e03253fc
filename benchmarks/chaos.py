"""Faults done to real trainings, each of which must end with the bits of an undisturbed one: `make chaos`.

    python benchmarks/chaos.py [--worlds lake robot] [--minutes 40] [--kills 100] [--robot-kills 20]

Two small trainings, one on frozen lake (JAX) and one on FetchReach (MuJoCo, four environments in two
processes), are first run undisturbed. Then they are killed, filled up, made read-only and so on, and gone on
with by the command that a user would type. What came of it is written to results/reliability/. When the time
is up, what was not done is left out, and said to be.
"""

import argparse
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Of XLA's threads: with more, equal bits are not promised. Compiled programs are kept for the next process.
os.environ["NPROC"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.abspath("runs/chaos-cache")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

from chaos_faults import ANYWHERE, NEEDS_ROOT, WORKERS, Fault
from chaos_runs import FETCH, LAKE, Process, World, kill_once, run_to_the_end
from reliability import measured, write_record

WORLDS = {
    "lake": ("frozen lake", ["frozen-lake"], LAKE, ANYWHERE),
    "robot": ("FetchReach", ["--env", "chaos_worlds:Breaking-v0"], FETCH, WORKERS | ANYWHERE),
}
KILLS_A_RUN = 10
FOR_KILLS = 0.7  # of the time at most; the rest is for the other faults
SAME = "the same bits"


class Harness:
    """What was done until when, and what came of it."""

    def __init__(self, minutes: float, seed: int):
        self.began, self.seconds, self.rng = time.monotonic(), 60 * minutes, random.Random(seed)
        self.lines: list[dict[str, str]] = []
        self.notes: list[str] = []
        self.moments: Counter[str] = Counter()

    def over(self, share: float = 1.0) -> bool:
        """Whether the time, or a share of it, is up."""
        return time.monotonic() - self.began > share * self.seconds

    def tell(self, what: str, value: str, mark: str) -> None:
        print(f"{what}: {value}", flush=True)
        self.lines.append(measured(what, value, mark))

    def undisturbed(self, world: World) -> None:
        code, told = Process(world.train(world.whole), world.whole.with_suffix(".log")).end()
        if code:
            raise SystemExit(f"The undisturbed training failed: {told}")

    def faults(self, world: World, faults: dict[str, Fault]) -> None:
        for name, fault in faults.items():
            what = f"{world.name}: {name}"
            if self.over():
                self.notes.append(f"{what}: not done, the time was up.")
            elif name in NEEDS_ROOT and os.geteuid():
                self.notes.append(f"{what}: skipped, it needs root.")
            else:
                self.tell(what, outcome(lambda fault=fault: fault(world)), SAME)

    def kills(self, world: World, wanted: int) -> None:
        """Runs that are killed up to ten times each, four of ten in the middle of writing a file."""
        done, same, wrong = 0, 0, []
        while done < wanted and not self.over(FOR_KILLS):
            folder, killed, moment = world.new_folder(), 0, "begin"
            while moment and killed < KILLS_A_RUN and done < wanted and not self.over(FOR_KILLS):
                moment = kill_once(world, folder, self.rng, forced=self.rng.random() < 0.4)
                self.moments[moment] += bool(moment)
                killed += bool(moment)
                done += bool(moment)
            found = outcome(lambda folder=folder: run_to_the_end(folder, world))
            same += found == SAME
            wrong += [] if found == SAME else [found]
            print(f"{world.name}: {done} kills, {same} runs the same", flush=True)
            shutil.rmtree(folder)
        value = f"{done} in {same + len(wrong)} runs, {same} of them {SAME}" + "".join(
            f"; {w}" for w in wrong
        )
        self.tell(f"{world.name}: kill -9, each run gone on with to its end", value, f"{wanted}, all {SAME}")

    def record(self, world: World, name: str, command: str) -> None:
        inside = sum(n for moment, n in self.moments.items() if "file" in moment)
        kinds = ", ".join(f"{moment} {n}" for moment, n in sorted(self.moments.items()) if moment)
        notes = [
            f"{inside} of the kills came in the middle of writing a file. All by kind: {kinds}.",
            "The same bits: weights, optimiser, buffer and counters of the last checkpoint, the agent's "
            "file, and every row of metrics but its seconds, so no row is missing and none is there twice.",
            "After each fault other than a kill: the exit code, one sentence without a traceback, and the "
            "digest of the checkpoint that was left were checked as well.",
            "One thread of XLA. Processes are forked from one that has imported the library, and share "
            "compiled programs on disk; the undisturbed run compiles its own where there are none yet.",
            *self.notes,
        ]
        name = "faults" if name == "lake" else f"faults-{name}"
        in_a_child(lambda: write_record(name, f"Faults: {world.name}", command, self.lines, notes))


def outcome(run: Callable[[], None]) -> str:
    try:
        run()
    except Exception as error:
        return f"WRONG: {error!r}"
    return SAME


def in_a_child(do: Callable[[], Any]) -> None:
    """What asks JAX for its device must not do so here: no process could be forked afterwards."""
    pid = os.fork()
    if not pid:
        do()
        os._exit(0)
    os.waitpid(pid, 0)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=40.0, help="for both worlds together")
    parser.add_argument("--worlds", nargs="+", choices=list(WORLDS), default=list(WORLDS))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--robot-kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/chaos"))
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    shutil.rmtree(options.out, ignore_errors=True)
    wrong = False
    for name in options.worlds:
        title, what, settings, faults = WORLDS[name]
        kills = options.kills if name == "lake" else options.robot_kills
        world = World(title, [*what], settings, options.out.resolve() / name, options.seed)
        harness = Harness(options.minutes / len(options.worlds), options.seed)
        harness.undisturbed(world)
        harness.kills(world, kills)
        harness.faults(world, faults)
        option = "kills" if name == "lake" else "robot-kills"
        minutes = f"{options.minutes / len(options.worlds):g}"
        command = f"python benchmarks/chaos.py --worlds {name} --minutes {minutes} --{option} {kills}"
        harness.record(world, name, f"{command} --seed {options.seed}")
        wrong |= any("WRONG" in line["value"] for line in harness.lines)
    if wrong:
        raise SystemExit("Some faults did what they must not do; see results/reliability/.")


if __name__ == "__main__":
    main()
