"""Are the probabilities true? Calibration of trained runs, as learned and recalibrated, into results/.

    python benchmarks/calibration.py NAME=RUN [NAME=RUN ...] [--rollouts N] [--out results/calibration.json]

RUN is a run folder or a folder of seeds, and NAME what the table calls it. As `clearning calibrate`, but
nothing is stored with the agents. Names measured before are kept; the table of docs/questions.md is printed.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from clearning.calibrate import judge, mend, run_trials
from clearning.report.opening import closing, open_run
from clearning.runs import RunFolder, run_folders, versions

# Expected calibration error to reach, by environment.
WANTED = {"frozen-lake": 0.03, "mini-maze": 0.03, "dubins-car": 0.05, "FetchReach-v4": 0.05}
KINDS = ("isotonic", "temperature")
SCORES = ("ece", "brier", "brier_skill", "error_to_optimum", "rollouts")


def measure(folder: RunFolder, rollouts: int | None) -> dict[str, Any]:
    """One run's scores over all rollouts, and on the held-out half before and after each recalibration."""
    agent, _, env, record = open_run(folder, None)
    with closing(env, None):
        trials = run_trials(agent.recalibrated(None), env, rollouts)
    learned = judge(agent.recalibrated(None), trials)
    found: dict[str, Any] = {name: record[name] for name in ("preset", "seed")}
    found |= {"env": agent.spec.name, "env_options": agent.config.env_options}
    found |= {"learned": _kept(learned), "monotonicity_violations": learned["monotonicity_violations"]}
    for kind in KINDS:
        _, mended = mend(agent, trials, kind)
        found["held_out"] = _kept(mended["before"])
        found[kind] = _kept(mended["after"])
    return found


def _kept(judged: dict[str, Any]) -> dict[str, Any]:
    return {name: judged["overall"][name] for name in SCORES if name in judged["overall"]}


def table(runs: dict[str, list[dict[str, Any]]]) -> str:
    """Means over seeds, as docs/questions.md shows them."""
    columns = (
        "world",
        "seeds",
        "rollouts",
        "ECE",
        "wanted",
        "skill",
        "ECE isotonic",
        "ECE temperature",
        "skill isotonic",
    )
    lines = ["| " + " | ".join((*columns, "abs(C − C\\*)")) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, seeds in runs.items():
        mean = lambda part, score, s=seeds: float(np.mean([one[part][score] for one in s]))  # noqa: E731
        exact = (
            f"{mean('learned', 'error_to_optimum'):.3f}" if "error_to_optimum" in seeds[0]["learned"] else "–"
        )
        cells = [
            name,
            str(len(seeds)),
            f"{mean('learned', 'rollouts'):,.0f}",
            f"{mean('learned', 'ece'):.3f}",
        ]
        cells += [f"≤ {WANTED.get(seeds[0]['env'], '')}", f"{mean('learned', 'brier_skill'):.3f}"]
        cells += [f"{mean('isotonic', 'ece'):.3f}", f"{mean('temperature', 'ece'):.3f}"]
        cells += [f"{mean('isotonic', 'brier_skill'):.3f}", exact]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--rollouts", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("results/calibration.json"))
    given = parser.parse_args()
    kept = json.loads(given.out.read_text())["worlds"] if given.out.exists() else {}
    for name, path in (run.split("=", 1) for run in given.runs):
        kept[name] = []
        for folder in run_folders(path):
            kept[name].append(measure(folder, given.rollouts))
            print(name, json.dumps(kept[name][-1]), flush=True)
            record = {
                "command": "python benchmarks/calibration.py NAME=RUN [NAME=RUN ...]",
                "versions": versions(),
                "worlds": kept,
            }
            given.out.write_text(json.dumps(record, indent=1) + "\n")
    print(table(kept))


if __name__ == "__main__":
    main()
