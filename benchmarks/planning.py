"""Far goals with and without waypoints, for a car that looks only a few steps ahead.

    python benchmarks/planning.py [--horizon 12] [--seeds 0-4] [--episodes 700] [--out runs/planning]

The hard test goals of Dubins' car are 19 steps away on average: too far for such an agent to know them
reachable. Trains the preset with that H (minutes on two cores) where the folder of a seed holds no finished
run. Writes results/planning-h12.json and results/planning-h12.md, after each seed what there is.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import clearning
from clearning.envs import DubinsCar
from clearning.evaluate import over_seeds

BUDGET = 60
RESULTS = Path(__file__).parents[1] / "results"
WAYS = ("without waypoints", "with waypoints")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--horizon", type=int, default=12, help="that the agents are trained with")
    parser.add_argument("--seeds", default="0-4", help="as in 0-4")
    parser.add_argument("--episodes", type=int, default=700, help="of each training")
    parser.add_argument("--goals", type=int, default=1000, help="hard test goals to try at most")
    parser.add_argument("--out", default="runs/planning", help="the folder of the runs")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    found = []
    for seed in range(int(first), int(last or first) + 1):
        run = Path(given.out) / f"h{given.horizon}" / f"seed-{seed}"
        found.append(one_seed(seed, given.horizon, given.episodes, given.goals, run))
        write_results(found, given.horizon, given.episodes)


def one_seed(seed: int, horizon: int, episodes: int, count: int, run: Path) -> dict[str, Any]:
    if not (run / "config.json").is_file():
        clearning.train("dubins-car", seed=seed, max_horizon=horizon, episodes=episodes, out=run)
    agent = clearning.resume(run)
    test = DubinsCar().test_set()
    hard = np.flatnonzero([stratum == "hard" for stratum in test.stratum])
    goals = test.goal[np.random.default_rng(0).permutation(hard)[:count]]
    planner = clearning.Planner(run)
    policies = (
        (lambda goal: lambda observation: agent.act(observation, goal)),
        (lambda goal: planner.episode(goal, BUDGET).act),
    )
    record: dict[str, Any] = {"seed": seed, "goals": len(goals)}
    for name, policy_for in zip(WAYS, policies, strict=True):
        began = time.perf_counter()
        steps = np.array([steps_to(goal, policy_for(goal)) for goal in goals])
        reached, seconds = steps > 0, time.perf_counter() - began
        taken = int(np.where(reached, steps, BUDGET).sum())
        record[name] = {
            "success": float(reached.mean()),
            "steps": float(steps[reached].mean()) if reached.any() else None,
            "milliseconds_per_step": 1e3 * seconds / taken,
        }
        print(json.dumps({"seed": seed, "policy": name, **record[name]}), flush=True)
    return record


def write_results(found: list[dict[str, Any]], horizon: int, episodes: int) -> None:
    success = {name: over_seeds([seed[name]["success"] for seed in found]) for name in WAYS}
    seeds = f"{found[0]['seed']}-{found[-1]['seed']}"
    command = (
        f"python benchmarks/planning.py --horizon {horizon} --seeds {seeds} --episodes {episodes} "
        f"--goals {found[0]['goals']}"
    )
    record = {"command": command, "success": success, "seeds": found}
    (RESULTS / f"planning-h{horizon}.json").write_text(json.dumps(record, indent=1) + "\n")
    lines = [
        "# Far goals with and without waypoints",
        "",
        f"`{command}`; numbers in [planning-h{horizon}.json](planning-h{horizon}.json).",
        "",
        f"Dubins' car by agents that were trained with H = {horizon} ({episodes} episodes): "
        f"{found[0]['goals']} hard test goals, {BUDGET} steps to reach them.",
        "",
        f"| policy | success, mean ± std of {len(found)} seed{'s' * (len(found) > 1)} | every seed | steps |",
        "|---|---|---|---|",
    ]
    for name, s in success.items():
        every = ", ".join(f"{100 * v:.1f}" for v in s["values"])
        steps = [seed[name]["steps"] for seed in found if seed[name]["steps"]]
        spent = f"{np.mean(steps):.1f}" if steps else "–"
        lines.append(f"| {name} | {100 * s['mean']:.1f} ± {100 * s['std']:.1f} % | {every} | {spent} |")
    (RESULTS / f"planning-h{horizon}.md").write_text("\n".join(lines) + "\n")


def steps_to(goal: np.ndarray, act) -> int:
    """Steps until a policy reaches a goal from the test's start; 0 if it does not within the budget."""
    state = np.array([0.0, 0.0, 1.0, 0.0], np.float32)
    for step in range(1, BUDGET + 1):
        state = np.asarray(drive(jax.random.key(0), state, act(state)))
        if DubinsCar().reached(state[:2], goal):
            return step
    return 0


drive = jax.jit(DubinsCar().step)

if __name__ == "__main__":
    main()
