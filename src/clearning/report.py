"""Evaluations of run folders, and the exact answers, as records to print or to dump as JSON."""

import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from clearning.agent import Agent, check_alpha
from clearning.core.tabular import optimal_c_from, optimal_c_last
from clearning.envs import FrozenLake, MiniMaze, make, make_world
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import UsageError
from clearning.evaluate import evaluate, over_seeds, run_episodes
from clearning.rollout import Dial, own_dial
from clearning.runs import RunFolder, run_folders


def dial_from(alpha: float | None, horizon: int | None, receding: bool) -> Dial | None:
    """The dial a user asked for; None for the run's own."""
    if alpha is not None and horizon is not None:
        raise UsageError("Give either --alpha or --horizon: alpha is a way to pick the horizon.")
    if receding and horizon is None:
        raise UsageError("--receding says what to do with a --horizon: give both.")
    if horizon is not None:
        if horizon < 1:
            raise UsageError(f"--horizon must be at least 1, not {horizon}.")
        return Dial(horizon=horizon, receding=receding)
    return None if alpha is None else Dial(check_alpha(alpha))


def evaluate_runs(run: str, dial: Dial | None, eval_seed: int = 0) -> dict[str, Any]:
    """One run's evaluation, or that of all seeds in a folder with means and intervals over them."""
    found = [evaluate_run(folder, dial, eval_seed) for folder in run_folders(run)]
    if len(found) == 1:
        return found[0]
    combined: dict[str, Any] = {"runs": found, "seeds": [f["seed"] for f in found]}
    for name in ("success", "steps", "optimal_steps", "distance", "final_distance", "env_steps", "episodes"):
        values = [f[name] for f in found if f.get(name) is not None]
        if len(values) == len(found):
            spread = over_seeds(values)
            combined[name], combined[f"{name}_over_seeds"] = spread["mean"], spread
    combined["preset"] = found[0]["preset"]
    return combined


def evaluate_run(folder: RunFolder, dial: Dial | None, eval_seed: int = 0) -> dict[str, Any]:
    agent, env, record = _open(folder, dial)
    dial = _complete(dial, agent)
    outcome = evaluate(agent.network, env, agent.config, dial, eval_seed)
    metrics = folder.metrics()
    result = outcome.full_summary() | {
        "env_steps": int(metrics["env_steps"][-1]),
        "episodes": int(metrics["episodes"][-1]),
        "updates": int(metrics["updates"][-1]),
        "seed": record["seed"],
        "preset": record["preset"],
        "run": str(folder.path),
        "policy": _dial_record(dial),
    }
    if isinstance(env, FrozenLake | MiniMaze):
        steps = dial.horizon if dial.horizon and not dial.receding else agent.max_horizon
        start = env.test_set().state[0]
        best = _exact_best(env, start, steps)
        number = _numbers(env)
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
        agent, env, record = _open(folder, dial)
        use = _complete(dial, agent)
        start, end = _checked_pair(env, state, goal)
        starts, ends = np.tile(start, (rollouts, 1)), np.tile(end, (rollouts, 1))
        episodes = run_episodes(agent.network, env, agent.config, use, eval_seed, starts, ends)
        success = np.asarray(episodes.success)
        one: dict[str, Any] = {
            "success": float(success.mean()),
            "steps": float(np.asarray(episodes.length)[success].mean()) if success.any() else None,
            "seed": record["seed"],
            "policy": _dial_record(use),
        }
        if use.horizon:
            one["predicted"] = agent.reach_probability(start, end, use.horizon)
            if not use.receding and isinstance(env, FrozenLake | MiniMaze):
                best = _exact_best(env, start, use.horizon)
                one["exact"] = float(best[-1, _numbers(env)[tuple(map(int, goal))]])
        found.append(one)
    return (
        found[0]
        if len(found) == 1
        else {"runs": found, "success": float(np.mean([f["success"] for f in found]))}
    )


def oracle(
    name: str, options: Mapping[str, Any], state: Sequence[float], goal: Sequence[float], horizon: int
) -> dict[str, Any]:
    """The exact probability of reaching a goal within a horizon, and the action that gives it."""
    if horizon < 1:
        raise UsageError(f"--horizon must be at least 1, not {horizon}.")
    env = make(name, options)
    start, end = _checked_pair(env, state, goal)
    steps = fewest_steps(env, start, end[None], limit=horizon)
    assert steps is not None
    answer: dict[str, Any] = {"env": name, "state": list(state), "goal": list(goal), "horizon": horizon}
    answer["fewest_steps"] = None if steps[0] == NEVER else int(steps[0])
    if isinstance(env, FrozenLake | MiniMaze):
        number = _numbers(env)
        values = optimal_c_last(env.mdp, horizon)[
            number[tuple(map(int, state))], :, number[tuple(map(int, goal))]
        ]
        return answer | _best_action(env, values, bool(steps[0] == 0))
    values = _car_values(env, start, end, horizon)
    return (
        answer | _best_action(env, values, bool(steps[0] == 0)) | {"method": "search over real trajectories"}
    )


def _car_values(env: Any, start: np.ndarray, goal: np.ndarray, horizon: int) -> np.ndarray:
    """C* of each first action of the car, which is 0 or 1: search again from where the action leads."""
    import jax

    values = []
    for action in range(env.spec.num_actions):
        after = np.asarray(env.step(jax.random.key(0), start, action))
        left = fewest_steps(env, after, goal[None], limit=horizon - 1)
        assert left is not None
        values.append(float(left[0] != NEVER))
    return np.array(values)


def _best_action(env: Any, values: np.ndarray, reached: bool) -> dict[str, Any]:
    best = int(values.argmax())
    names = env.spec.action_names
    return {
        "probability": 1.0 if reached else float(values.max()),
        "best_action": None if reached else names[best],
        "best_action_index": None if reached else best,
        "by_action": {n: float(v) for n, v in zip(names, values, strict=True)},
    }


def _complete(dial: Dial | None, agent: Agent) -> Dial:
    """The dial that was asked for, or the run's own, with the run's voting."""
    own = own_dial(agent.config)
    if dial is None:
        return own
    return dial._replace(method=own.method, vote=0 if dial.horizon else own.vote)


def _open(folder: RunFolder, dial: Dial | None) -> tuple[Agent, Any, dict[str, Any]]:
    config, _, record = folder.read()
    if record.get("custom_env"):
        raise UsageError(f"{folder.path} was trained on your own environment: evaluate it from Python.")
    agent = Agent.load(folder.agent_file)
    if dial and dial.horizon > agent.max_horizon:
        raise UsageError(f"--horizon must be in 1..{agent.max_horizon}, not {dial.horizon}.")
    return agent, make_world(config), record


def _checked_pair(env: Any, state: Sequence[float], goal: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    spec = env.spec
    for values, size, what in ((state, spec.observation_size, "state"), (goal, spec.goal_size, "goal")):
        if len(values) != size or not all(map(math.isfinite, values)):
            raise UsageError(f"The {what} of {spec.name} has {size} finite numbers, not {list(values)}.")
    refusal = env.refuse(np.asarray(state, np.float32))
    if refusal:
        raise UsageError(f"Bad state: {refusal}.")
    start, end = np.asarray(state, np.float32), np.asarray(goal, np.float32)
    if (end < spec.goal_low).any() or (end > spec.goal_high).any():
        raise UsageError(
            f"The goal {list(goal)} is off the map: it must lie in {spec.goal_low}..{spec.goal_high}."
        )
    if isinstance(env, FrozenLake | MiniMaze) and tuple(end.tolist()) not in _numbers(env):
        raise UsageError(f"The goal {list(goal)} is not a free cell.")
    return start, end


def _numbers(env: FrozenLake | MiniMaze) -> dict[tuple[float, ...], int]:
    return {tuple(c): i for i, c in enumerate(env.cells.tolist())}


def _exact_best(env: FrozenLake | MiniMaze, start: np.ndarray, horizon: int) -> np.ndarray:
    """max_a C*(start, a, g, h), indexed [h − 1, g]."""
    return optimal_c_from(env.mdp, _numbers(env)[tuple(start.astype(int).tolist())], horizon)


def _dial_record(dial: Dial) -> dict[str, Any]:
    if dial.horizon:
        return {"horizon": dial.horizon, "receding": dial.receding}
    return {"alpha": dial.alpha}


def paper_results() -> dict[str, Any]:
    """The paper's own tables."""
    return json.loads(resources.files("clearning").joinpath("paper_results.json").read_text())


def print_evaluation(found: Mapping[str, Any]) -> None:
    """A table for people: success and steps by stratum, beside the optimum and the paper."""
    console = Console()
    if "by_stratum" not in found and "runs" not in found:
        console.print_json(json.dumps(dict(found)))
        return
    runs = found.get("runs", [found])
    if "by_stratum" not in runs[0]:
        console.print_json(json.dumps(dict(found)))
        return
    console.print(_stratum_table(runs))
    if len(runs) > 1:
        console.print(_seed_table(found))


def _stratum_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    name = (runs[0]["preset"] or "").removeprefix("paper/")
    paper = paper_results().get(name, {}).get("c-learning", {})
    seeds = "seed" if len(runs) == 1 else "seeds"
    table = Table(title=f"{runs[0]['preset'] or runs[0]['run']}, {len(runs)} {seeds}")
    for column in (
        "goals",
        "",
        "success",
        "steps",
        "optimum",
        "ratio",
        "distance",
        "paper: success",
        "paper: distance",
    ):
        table.add_column(column, justify="left" if column in ("goals",) else "right")
    rows: list[tuple[str, list[Mapping[str, Any]]]] = [("all", list(runs))]
    if "paper_goals" in runs[0]:
        rows.append(("paper's goals", [r["paper_goals"] for r in runs]))
    rows += [(s, [r["by_stratum"][s] for r in runs]) for s in runs[0]["by_stratum"]]
    for label, cells in rows:
        key = "all" if label == "paper's goals" else label
        steps, optimum = _spread(cells, "steps"), _spread(cells, "optimal_steps")
        ratio = f"{steps[0] / optimum[0]:.3f}" if steps and optimum else ""
        show_paper = label != "all" or "paper_goals" not in runs[0]
        table.add_row(
            label,
            str(cells[0]["goals"]),
            _text(_spread(cells, "success"), 100, " %"),
            _text(steps),
            _text(optimum),
            ratio,
            _text(_spread(cells, "distance")),
            _paper_text(paper, "success", key, " %") if show_paper else "",
            _paper_text(paper, "path", key, "") if show_paper else "",
        )
    return table


def _seed_table(found: Mapping[str, Any]) -> Table:
    table = Table("seed", "success", "steps", "distance", "environment steps", title="every seed")
    for run in found["runs"]:
        numbers = (f"{100 * run['success']:.2f} %", f"{run['steps']:.2f}", f"{run['distance']:.2f}")
        table.add_row(str(run["seed"]), *numbers, f"{run['env_steps']:,}")
    low, high = found["success_over_seeds"]["interval"]
    table.caption = f"mean success, 95 % bootstrap interval over seeds: {100 * low:.2f} to {100 * high:.2f} %"
    return table


def _spread(cells: Sequence[Mapping[str, Any]], name: str) -> tuple[float, float] | None:
    values = [c.get(name) for c in cells]
    if None in values:
        return None
    return float(np.mean(values)), float(np.std(values))  # pyright: ignore[reportArgumentType, reportCallIssue]


def _text(spread: tuple[float, float] | None, scale: float = 1.0, unit: str = "") -> str:
    if spread is None:
        return ""
    mean, deviation = scale * spread[0], scale * spread[1]
    return f"{mean:.2f}{unit}" if deviation == 0 else f"{mean:.2f} ± {deviation:.2f}{unit}"


def _paper_text(paper: Mapping[str, Any], metric: str, key: str, unit: str) -> str:
    pair = paper.get(metric, {}).get(key)
    return f"{pair[0]:.2f} ± {pair[1]:.2f}{unit}" if pair else ""
