"""Train every preset with every seed and write results/: `make results`, or single presets by name.

    python benchmarks/results.py [PRESET ...] [--jobs 2] [--runs runs/results] [--report-only]

Finished runs are kept and interrupted ones resumed, so it can be stopped and started again. Seeds that were
measured before, maybe on another machine, stay in the tables as long as the preset is the same. All numbers
in results/ are made here; what was tried on the way is told in results_notes.md.
"""

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from clearning.agent import Agent
from clearning.agents.discrete import start
from clearning.buffer import init
from clearning.config import Config, config_from_dict
from clearning.envs import CatAndMouse, DubinsCar, FrozenLake, cat_and_mouse, make
from clearning.evaluate import c_error, counted_c, learned_c, over_seeds, run_horizons
from clearning.networks import build_network
from clearning.plots import plot_run, reachability_overlap
from clearning.plots.learning import compare_curves
from clearning.plots.reach import CAR_HORIZONS
from clearning.plots.style import save
from clearning.presets import preset
from clearning.report.evaluation import evaluate_pair, evaluate_run
from clearning.report.tables import paper_results
from clearning.rollout import Dial
from clearning.runs import RunFolder, versions

SEEDS = {
    "dubins-car": range(5),
    "mini-maze": range(5),
    "stochastic-maze": range(3),
    "frozen-lake": range(5),
    "dubins-reachability": range(1),
    "paper/dubins-car": range(3),
    "paper/mini-maze": range(3),
    "paper/frozen-lake": range(3),
    "cat-and-mouse": range(5),
    "td3/cat-and-mouse": range(1),
    "fetch-reach": range(5),
    "fetch-push": range(3),
    "fetch-pick-and-place": range(3),
    "point-maze-medium": range(3),
    "fetch-slide": range(2),
    "td3/fetch-slide": range(2),
    "hand-manipulate-pen-full": range(2),
    "td3/hand-manipulate-pen-full": range(2),
}
BESIDE_TD3 = ("fetch-slide", "hand-manipulate-pen-full")  # drawn together, trained as long
CAT_HORIZONS = (5, 6, 7, 8, 9, 10, 12)
MARKS = (0.9, 0.95, 0.98)  # of success on a robot: the tables say after how many steps each was first met
NOTES = Path(__file__).with_name("results_notes.md")
PAPER_SUCCESS = {"dubins-car": 0.8615, "mini-maze": 0.8689}
RESULTS = Path("results")
INTRODUCTION = """\
Made by `python benchmarks/results.py` from the run folders; every finished seed of each preset as it is
now is shown, and settings that were tried and dropped are listed at the end. Mean ± standard deviation
over seeds (population, as in the paper), with a 95 % bootstrap interval of the mean over seeds in
brackets. Environment steps include exploration. Every evaluation starts at the paper's start (a robot's at
its environment's own), without exploration, with the dial at α = 0.9 unless a fixed h is named. The learning
curves of each seed are in the CSV files, the settings in `clearning/presets`, the commands and versions in
the JSON files. Times were taken while other work ran on the same two cores."""


def train_all(presets: list[str], runs: Path, jobs: int) -> None:
    """Train or resume what is not finished, several at a time, each on one core."""
    waiting: queue.Queue[tuple[str, int]] = queue.Queue()
    for name in presets:
        for seed in SEEDS[name]:
            waiting.put((name, seed))

    def work(core: int) -> None:
        while True:
            try:
                name, seed = waiting.get_nowait()
            except queue.Empty:
                return
            folder = runs / name / f"seed-{seed}"
            started = (folder / "config.json").exists()
            if started and not is_now(name, RunFolder(folder).read()[0]):
                raise SystemExit(f"{folder} is of an earlier {name}: move it away")
            verb = (
                ["resume", str(folder)]
                if started
                else ["train", name, "--seed", str(seed), "--out", str(folder)]
            )
            print(f"{name}, seed {seed}: {verb[0]}", flush=True)
            with open(runs / "log.txt", "a") as log:
                subprocess.run(
                    [sys.executable, "-m", "clearning", *verb],
                    stderr=log,
                    check=True,
                    preexec_fn=lambda: os.sched_setaffinity(0, {core}),
                )

    runs.mkdir(parents=True, exist_ok=True)
    cores = sorted(os.sched_getaffinity(0))
    threads = [threading.Thread(target=work, args=(cores[i % len(cores)],)) for i in range(jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(name: str, seed: int, folder: RunFolder) -> dict[str, Any]:
    """Everything that the tables show of one run."""
    found = evaluate_run(folder, None)
    metrics = folder.metrics()
    found["run"] = f"{name}/seed-{seed}"
    found["versions"] = json.loads((folder.path / "versions.json").read_text())
    found["train_seconds"] = float(metrics["seconds"][-1])
    threshold = PAPER_SUCCESS.get(name.removeprefix("paper/"))
    if threshold:
        above = np.flatnonzero(metrics["eval_success"] >= threshold)
        found["env_steps_to_paper"] = int(metrics["env_steps"][above[0]]) if len(above) else None
        found["episodes_to_paper"] = int(metrics["episodes"][above[0]]) if len(above) else None
    config, _, _ = folder.read()
    if "reached_at_reset" in found:
        for mark in MARKS:
            above = np.flatnonzero(metrics["eval_success"] >= mark)
            found[f"env_steps_to_{mark}"] = int(metrics["env_steps"][above[0]]) if len(above) else None
        return found
    env = make(config.env, config.env_options)
    if isinstance(env, CatAndMouse) and config.method == "c-learning":
        found["by_horizon"] = past_the_cat(Agent.load(folder.agent_file), env)
    if isinstance(env, DubinsCar) and not env.walls:
        overlap = reachability_overlap(Agent.load(folder.agent_file), env, CAR_HORIZONS)
        found["overlap"] = {f"h = {h}": share for h, share in overlap.items()}
    if isinstance(env, FrozenLake):
        for h in (6, 24):
            pair = evaluate_pair(str(folder.path), Dial(horizon=h), (1, 0), (1, 6), 10_000, 0)
            found[f"fixed_{h}"], found[f"exact_{h}"] = pair["success"], pair["exact"]
        network = build_network(env.spec, config, _key())
        learner, buffer, _ = folder.load_checkpoint(start(network), init(env.spec, config.buffer_capacity))
        acting = learner.target if config.act_with == "average" else learner.network
        found["c_error"] = c_error(learned_c(acting, env), env)
        found["counted_c_error"] = c_error(counted_c(env, buffer, config.max_horizon), env)
    return found


def past_the_cat(agent: Agent, env: CatAndMouse) -> dict[str, dict[str, float]]:
    """Success beside the exact optimum, and the closest approach, by horizon.

    An agent's moves are certain, so it has one way for each horizon, and this way's success is the product of
    the risks evaded before its last step. Of many episodes, one that came all the way shows it.
    """
    test, count = env.test_set(), 200
    state, goal = np.repeat(test.state, count, 0), np.repeat(test.goal, count, 0)
    exact = cat_and_mouse.exact_success(cat_and_mouse.START, cat_and_mouse.GOAL, max(CAT_HORIZONS))
    found = {}
    for h, ran in zip(
        CAT_HORIZONS, run_horizons(agent.network, env, 0, state, goal, CAT_HORIZONS), strict=True
    ):
        arrived = int(np.asarray(ran.success).argmax())
        way = np.asarray(ran.achieved)[arrived, : int(ran.length[arrived]) + 1]
        evaded = float(np.prod(1 - np.asarray(cat_and_mouse.risk(way[1:-1]))))
        found[str(h)] = {
            "success": evaded if ran.success[arrived] else 0.0,
            "exact": float(exact[h - 1]),
            "predicted": agent.reach_probability(cat_and_mouse.START, cat_and_mouse.GOAL, h),
            "closest": float(np.linalg.norm(way - cat_and_mouse.CAT, axis=-1).min()),
        }
    return found


def _key() -> Any:
    import jax

    return jax.random.key(0)


def write_results(presets: list[str], runs: Path) -> None:
    """One JSON and one CSV of curves per preset, its figures, and the page of tables."""
    RESULTS.mkdir(exist_ok=True)
    for name in presets:
        folders = {s: RunFolder(runs / name / f"seed-{s}") for s in SEEDS[name]}
        folders = {s: f for s, f in folders.items() if f.is_finished() and is_now(name, f.read()[0])}
        if not folders:
            continue
        flat = name.replace("/", "-")
        before = kept(name)
        measured = before.runs | {s: measure(name, s, f) for s, f in folders.items()}
        seeds = sorted(measured)
        record = {
            "preset": name,
            "command": f"clearning train {name} --seeds {seeds[0]}" + f"-{seeds[-1]}" * (len(seeds) > 1),
            "evaluated_with": versions(),
            "config": asdict(preset(name)),
            "runs": [measured[s] for s in seeds],
        }
        (RESULTS / f"{flat}.json").write_text(json.dumps(record, indent=1) + "\n")
        curves = before.curves | {s: f.metrics_file.read_text() for s, f in folders.items()}
        rows = [f"{s},{row}" for s in seeds for row in curves[s].splitlines()[1:]]
        header = curves[seeds[0]].splitlines()[0]
        (RESULTS / f"{flat}-curves.csv").write_text("\n".join([f"seed,{header}", *rows]) + "\n")
        draw(name, folders, curves, RESULTS / "figures" / flat)
        print(f"wrote {RESULTS / flat}.json", flush=True)
    for name in BESIDE_TD3:
        draw_beside_td3(name)
    (RESULTS / "README.md").write_text(page())


def is_now(name: str, config: Config) -> bool:
    """Whether a preset is still what it was; the number of processes changes nothing."""
    return replace(config, processes=0) == replace(preset(name), processes=0)


class Kept(NamedTuple):
    """Seeds that were measured before: what was found, and metrics.csv as it was."""

    runs: dict[int, dict[str, Any]]
    curves: dict[int, str]


def kept(name: str) -> Kept:
    """What results/ has of a preset, if the preset is still what it was."""
    flat = name.replace("/", "-")
    file = RESULTS / f"{flat}.json"
    if not file.exists():
        return Kept({}, {})
    record = json.loads(file.read_text())
    if not is_now(name, config_from_dict(record["config"])):
        return Kept({}, {})
    then = {"versions": record.get("versions")}  # of files that had them once for all seeds
    return Kept({run["seed"]: then | run for run in record["runs"]}, kept_curves(flat))


def kept_curves(flat: str) -> dict[int, str]:
    """What results/ has of each seed's metrics.csv."""
    curves: dict[int, str] = {}
    header, *rows = (RESULTS / f"{flat}-curves.csv").read_text().splitlines()
    for row in rows:
        seed, _, values = row.partition(",")
        curves.setdefault(int(seed), header.removeprefix("seed,") + "\n")
        curves[int(seed)] += values + "\n"
    return curves


def draw(name: str, folders: dict[int, RunFolder], curves: dict[int, str], out: Path) -> None:
    """Figures of all seeds; those whose folders are gone have their curves at least."""
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as place:
        for seed, metrics in curves.items():
            here = Path(place) / f"seed-{seed}"
            if seed in folders:
                here.symlink_to(folders[seed].path.absolute())
                continue
            gone = RunFolder(here)
            gone.create(next(iter(folders.values())).read()[0], seed, name, {})
            gone.metrics_file.write_text(metrics)
        plot_run(place, out)


def draw_beside_td3(name: str) -> None:
    """Test success of C-learning and of TD3 with hindsight while they trained, where results/ has both."""
    names = {"C-learning": name, "TD3 with hindsight": f"td3-{name}"}
    if not all((RESULTS / f"{flat}-curves.csv").exists() for flat in names.values()):
        return
    with tempfile.TemporaryDirectory() as place:
        by_method: dict[str, list[RunFolder]] = {}
        for method, flat in names.items():
            for seed, metrics in kept_curves(flat).items():
                run = RunFolder(Path(place) / flat / f"seed-{seed}")
                run.path.mkdir(parents=True)
                run.metrics_file.write_text(metrics)
                by_method.setdefault(method, []).append(run)
        env = preset(name).env
        save(
            compare_curves({env: by_method}, "C-learning beside TD3"),
            RESULTS / "figures" / name / "beside_td3.png",
        )


def page() -> str:
    """The tables, from the JSON files that are there."""
    parts = [
        "# Results",
        "",
        INTRODUCTION,
        "",
    ]
    paper = paper_results()
    for path in sorted(RESULTS.glob("*.json")):
        record = json.loads(path.read_text())
        if "preset" not in record:
            continue
        runs = record["runs"]
        env = record["preset"].removeprefix("paper/")
        parts += [f"## {record['preset']}", "", f"`{record['command']}`", ""]
        columns = [
            ("success %", "success", 100, 2),
            ("held at the end %", "held", 100, 2),
            ("reached at reset %", "reached_at_reset", 100, 2),
            *((f"env steps to {100 * m:.0f} %", f"env_steps_to_{m}", 1, 0) for m in MARKS),
            ("paper's goals %", ("paper_goals", "success"), 100, 2),
            ("steps", "steps", 1, 2),
            ("optimum", "optimal_steps", 1, 2),
            ("distance", "distance", 1, 2),
            ("final distance", "final_distance", 1, 2),
            ("env steps", "env_steps", 1, 0),
            ("episodes", "episodes", 1, 0),
            ("env steps to the paper's success", "env_steps_to_paper", 1, 0),
            *((f"IoU, h = {h}", ("overlap", f"h = {h}"), 1, 3) for h in CAR_HORIZONS),
            ("fixed h = 6", "fixed_6", 1, 4),
            ("fixed h = 24", "fixed_24", 1, 4),
            ("mean abs(C − C*)", "c_error", 1, 4),
            ("the same, DP on the data's counts", "counted_c_error", 1, 4),
            ("training, minutes", "train_seconds", 1 / 60, 1),
        ]
        columns = [c for c in columns if any(_get(r, c[1]) is not None for r in runs)]
        parts += ["| seed | " + " | ".join(c[0] for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for run in runs:
            cells = [_cell(_get(run, key), scale, digits) for _, key, scale, digits in columns]
            parts.append(f"| {run['seed']} | " + " | ".join(cells) + " |")
        means = [_mean_cell([_get(r, key) for r in runs], scale, digits) for _, key, scale, digits in columns]
        parts.append("| **all** | " + " | ".join(means) + " |")
        published = paper.get(env, {}).get("c-learning")
        if published:
            success, path_length = published["success"]["all"], published["path"]["all"]
            parts += [
                "",
                f"The paper: success {success[0]} ± {success[1]} %, path {path_length[0]} ± {path_length[1]} "
                f"({paper['path_unit'][env].split(',')[0]}).",
            ]
        if "by_horizon" in runs[0]:
            parts += ["", *_by_horizon(runs)]
        elif len(runs[0]["by_stratum"]) > 1:
            parts += ["", *_strata(runs, published)]
        parts.append("")
        flat = record["preset"].replace("/", "-")
        figures = sorted((RESULTS / "figures" / flat).glob("*.png"))
        parts += [f"![{record['preset']}: {p.stem}](figures/{flat}/{p.name})" for p in figures] + [""]
    return "\n".join([*parts, NOTES.read_text()])


def _by_horizon(runs: list[dict[str, Any]]) -> list[str]:
    lines = ["| h | success | optimum | predicted | closest approach |", "|---" * 5 + "|"]
    for h, first in runs[0]["by_horizon"].items():
        cells = [r["by_horizon"][h] for r in runs]
        names = ("success", "predicted", "closest")
        success, predicted, closest = (_mean_cell([c[k] for c in cells], 1, 3) for k in names)
        lines.append(f"| {h} | {success} | {first['exact']:.3f} | {predicted} | {closest} |")
    return lines


def _strata(runs: list[dict[str, Any]], published: dict[str, Any] | None) -> list[str]:
    lines = [
        "| goals | success % | steps | optimum | distance | paper: success % | paper: path |",
        "|---" * 7 + "|",
    ]
    for stratum, first in runs[0]["by_stratum"].items():
        cells = [r["by_stratum"][stratum] for r in runs]
        values = [
            _mean_cell([c.get(k) for c in cells], s, 2)
            for k, s in (("success", 100), ("steps", 1), ("optimal_steps", 1), ("distance", 1))
        ]
        paper = [_pair(published, metric, stratum) for metric in ("success", "path")]
        lines.append(f"| {stratum} ({first['goals']}) | " + " | ".join([*values, *paper]) + " |")
    return lines


def _pair(published: dict[str, Any] | None, metric: str, stratum: str) -> str:
    pair = (published or {}).get(metric, {}).get(stratum)
    return f"{pair[0]} ± {pair[1]}" if pair else "–"


def _get(run: dict[str, Any], key: str | tuple[str, str]) -> Any:
    return run.get(key) if isinstance(key, str) else run.get(key[0], {}).get(key[1])


def _cell(value: Any, scale: float, digits: int) -> str:
    return "–" if value is None else f"{scale * value:,.{digits}f}"


def _mean_cell(values: list[Any], scale: float, digits: int) -> str:
    if any(v is None for v in values):
        return "–"
    spread = over_seeds([scale * v for v in values])
    low, high = spread["interval"]
    return (
        f"{spread['mean']:,.{digits}f} ± {spread['std']:,.{digits}f} [{low:,.{digits}f}, {high:,.{digits}f}]"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", choices=[[], *SEEDS], default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument(
        "--report-only", action="store_true", help="do not train, only evaluate what is there"
    )
    args = parser.parse_args()
    presets = args.presets or list(SEEDS)
    if not args.report_only:
        train_all(presets, args.runs, args.jobs)
    write_results(presets, args.runs)


if __name__ == "__main__":
    main()
