"""Evaluations of run folders, as records to print or to dump as JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from clearning.envs import (
    ExternalEnv,
    FrozenLake,
    MiniMaze,
)
from clearning.envs.grid import cell_numbers
from clearning.errors import UsageError
from clearning.evaluate import (
    evaluate,
    over_seeds,
    run_episodes,
)
from clearning.report.exact import exact_best
from clearning.report.opening import checked_pair, closing, dial_record, open_run
from clearning.rollout import Dial
from clearning.runs import RunFolder, run_folders

FINAL_EPISODES = 500  # for a figure to report: a standard error of at most 2.2 points

COMBINED = ("success", "held", "reached_at_reset", "steps", "optimal_steps", "distance", "final_distance")
COMBINED += ("env_steps", "episodes")


def evaluate_runs(
    run: str, dial: Dial | None, eval_seed: int = 0, episodes: int | None = None
) -> dict[str, Any]:
    """One run's evaluation, or that of all seeds in a folder with means and intervals over them."""
    found = [evaluate_run(folder, dial, eval_seed, episodes) for folder in run_folders(run)]
    if len(found) == 1:
        return found[0]
    combined: dict[str, Any] = {"runs": found, "seeds": [f["seed"] for f in found]}
    for name in COMBINED:
        values = [f[name] for f in found if f.get(name) is not None]
        if len(values) == len(found):
            spread = over_seeds(values)
            combined[name], combined[f"{name}_over_seeds"] = spread["mean"], spread
    combined["preset"] = found[0]["preset"]
    return combined


def evaluate_run(
    folder: RunFolder, dial: Dial | None, eval_seed: int = 0, episodes: int | None = None
) -> dict[str, Any]:
    """One run on its test goals; a Gymnasium environment draws `episodes` fresh ones, 500 unless given."""
    agent, dial, env, record = open_run(folder, dial)
    with closing(env, episodes):
        count = episodes or FINAL_EPISODES
        outcome = evaluate(agent.network, env, agent.config, dial, eval_seed, episodes=count)
    metrics = folder.metrics()
    result = outcome.full_summary() | {
        "env_steps": int(metrics["env_steps"][-1]),
        "episodes": int(metrics["episodes"][-1]),
        "updates": int(metrics["updates"][-1]),
        "seed": record["seed"],
        "preset": record["preset"],
        "run": str(folder.path),
        "policy": dial_record(dial),
    }
    if isinstance(env, FrozenLake | MiniMaze):
        steps = dial.horizon if dial.horizon and not dial.receding else agent.max_horizon
        start = env.test_set().state[0]
        best = exact_best(env, start, steps)
        number = cell_numbers(env.cells)
        goals = [number[tuple(g)] for g in outcome.goal.astype(int).tolist()]
        result["optimal_success"] = float(best[-1, goals].mean())
        result["optimal_success_horizon"] = steps
    return result


def evaluate_pair(
    run: str, dial: Dial | None, state: Sequence[float], goal: Sequence[float], rollouts: int, eval_seed: int
) -> dict[str, Any]:
    """Success from one state to one goal over many rollouts, for every run of a folder."""
    if rollouts < 1:
        raise UsageError(f"--rollouts must be at least 1, not {rollouts}.")
    found = []
    for folder in run_folders(run):
        agent, use, env, record = open_run(folder, dial)
        if isinstance(env, ExternalEnv):
            raise UsageError(f"{env.name} draws its own starts and goals: leave out --state and --goal.")
        start, end = checked_pair(env, state, goal)
        starts, ends = np.tile(start, (rollouts, 1)), np.tile(end, (rollouts, 1))
        episodes = run_episodes(agent.network, env, agent.config, use, eval_seed, starts, ends)
        success = np.asarray(episodes.success)
        one: dict[str, Any] = {
            "success": float(success.mean()),
            "steps": float(np.asarray(episodes.length)[success].mean()) if success.any() else None,
            "seed": record["seed"],
            "policy": dial_record(use),
        }
        if use.horizon and agent.knows_c:
            one["predicted"] = agent.reach_probability(env.observe(start), end, use.horizon)
            if not use.receding and isinstance(env, FrozenLake | MiniMaze):
                best = exact_best(env, start, use.horizon)
                one["exact"] = float(best[-1, cell_numbers(env.cells)[tuple(map(int, goal))]])
        found.append(one)
    return (
        found[0]
        if len(found) == 1
        else {"runs": found, "success": float(np.mean([f["success"] for f in found]))}
    )
