"""Evaluations of run folders, and the exact answers, as records to print or to dump as JSON."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from clearning.agent import Agent, check_share
from clearning.core.recursions import rule_for
from clearning.core.tabular import optimal_c_from, optimal_c_last
from clearning.ensemble import Ensemble
from clearning.envs import (
    ENVIRONMENTS,
    CatAndMouse,
    DubinsCar,
    ExternalEnv,
    FrozenLake,
    MiniMaze,
    make,
    make_world,
)
from clearning.envs.cat_and_mouse import exact_success
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import UsageError
from clearning.evaluate import (
    TEST_SEEDS,
    evaluate,
    evaluate_external,
    goals_to_test,
    over_seeds,
    run_episodes,
    run_horizons,
)
from clearning.rollout import Dial, check_dial, dial_horizon, own_dial
from clearning.runs import RunFolder, run_folders

FINAL_EPISODES = 500  # for a figure to report: a standard error of at most 2.2 points
COMBINED = ("success", "held", "reached_at_reset", "steps", "optimal_steps", "distance", "final_distance")
COMBINED += ("env_steps", "episodes")


def dial_from(
    alpha: float | None, horizon: int | None, receding: bool = False, discount: float | None = None
) -> Dial | None:
    """The dial a user asked for; None for the run's own."""
    if alpha is not None and horizon is not None:
        raise UsageError("Give either --alpha or --horizon: alpha is a way to pick the horizon.")
    if receding and horizon is None:
        raise UsageError("--receding says what to do with a --horizon: give both.")
    if discount is not None and (alpha is not None or horizon is not None):
        raise UsageError("--discount is d-learning's dial and goes with no other.")
    if horizon is not None:
        if horizon < 1:
            raise UsageError(f"--horizon must be at least 1, not {horizon}.")
        return Dial(horizon=horizon, receding=receding)
    if discount is not None:
        return Dial(discount=check_share(discount, "discount"))
    return None if alpha is None else Dial(check_share(alpha, "alpha"))


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
        "policy": _dial_record(dial),
    }
    if isinstance(env, FrozenLake | MiniMaze):
        steps = dial.horizon if dial.horizon and not dial.receding else agent.max_horizon
        start = env.test_set().state[0]
        best = exact_best(env, start, steps)
        number = cell_numbers(env)
        goals = [number[tuple(g)] for g in outcome.goal.astype(int).tolist()]
        result["optimal_success"] = float(best[-1, goals].mean())
        result["optimal_success_horizon"] = steps
    return result


@contextmanager
def closing(env: Any, episodes: int | None) -> Iterator[None]:
    """Ends an environment's processes; a number of episodes makes sense for those only that have them."""
    external = isinstance(env, ExternalEnv)
    if episodes is not None and not external:
        raise UsageError(f"{env.spec.name} has a test set of its own: --episodes is for Gymnasium's.")
    try:
        yield
    finally:
        if external:
            env.close()


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
            "policy": _dial_record(use),
        }
        if use.horizon and agent.knows_c:
            one["predicted"] = agent.reach_probability(env.observe(start), end, use.horizon)
            if not use.receding and isinstance(env, FrozenLake | MiniMaze):
                best = exact_best(env, start, use.horizon)
                one["exact"] = float(best[-1, cell_numbers(env)[tuple(map(int, goal))]])
        found.append(one)
    return (
        found[0]
        if len(found) == 1
        else {"runs": found, "success": float(np.mean([f["success"] for f in found]))}
    )


# Turning the dial ---------------------------------------------------------------------------------

ALPHAS = (0.5, 0.7, 0.9, 0.99, 1.0)


class Sight(NamedTuple):
    """An opened run, and what its agent sees and says at the start of every test episode."""

    agent: Agent
    env: Any
    observation: np.ndarray  # (n, observation)
    goal: np.ndarray  # (n, goal)
    curve: np.ndarray  # (n, H), the reach probability by horizon


def turn_dials(run: str, eval_seed: int = 0, episodes: int | None = None) -> dict[str, Any]:
    """Success and steps for several horizons counted down and several alphas, as means over seeds.

    The horizons are the same for all seeds, and lie where C rises. Gymnasium environments are tested on as
    many episodes as in training unless said otherwise.
    """
    folders = run_folders(run)
    rows: list[list[dict[str, Any]]] = []
    records, horizons = [], None
    for folder in folders:
        agent, _, env, record = open_run(folder, None)
        with closing(env, episodes):
            sight = at_the_start(agent, env, eval_seed, episodes or agent.config.test_episodes)
            if horizons is None:
                horizons = telling_horizons(sight.curve.mean(0))
            if max(horizons) != agent.max_horizon:
                raise UsageError(f"{run} holds runs of different max_horizon: turn their dials one by one.")
            rows.append([*_fixed(sight, horizons, eval_seed), *_by_alpha(sight, eval_seed)])
        records.append(record)
    merged = [_merge(cells) for cells in zip(*rows, strict=True)]
    return {
        "preset": records[0]["preset"],
        "run": str(run),
        "seeds": [r["seed"] for r in records],
        "rows": merged,
    }


def telling_horizons(curve: np.ndarray, count: int = 8) -> tuple[int, ...]:
    """Horizons from 1 to H, most of them where a curve over h = 1..H rises."""
    rise = np.maximum.accumulate(curve) - curve[0]
    even = np.linspace(0.0, 1.0, len(curve))
    way = 0.7 * rise / rise[-1] + 0.3 * even if rise[-1] > 1e-3 else even
    nearest = np.abs(way - np.linspace(0.0, 1.0, count)[:, None]).argmin(1)
    return tuple(int(i) + 1 for i in np.unique(nearest))


def at_the_start(agent: Agent, env: Any, seed: int, episodes: int) -> Sight:
    if isinstance(env, ExternalEnv):
        seeds, size = TEST_SEEDS * (1 + seed) + np.arange(episodes), agent.config.parallel_envs
        parts = [seeds[i : i + size] for i in range(0, episodes, size)]
        seen = [env.pool(len(part)).reset(part) for part in parts]
        observation = np.concatenate([s.observation for s in seen])
        goal = np.concatenate([s.desired for s in seen])
    else:
        test = goals_to_test(env)
        observation, goal = np.asarray(jax.vmap(env.observe)(jnp.asarray(test.state))), test.goal
    return Sight(agent, env, observation, goal, agent.reach_curve(observation, goal))


def _fixed(sight: Sight, horizons: Sequence[int], seed: int) -> Iterator[dict[str, Any]]:
    """A row for each horizon counted down; C at the start is what the agent promises of it."""
    best = _best_success(sight.env, sight.goal, max(horizons))
    for h, (success, steps) in zip(horizons, _ran_fixed(sight, horizons, seed), strict=True):
        row = _row(Dial(horizon=h), success, steps) | {"predicted": float(sight.curve[:, h - 1].mean())}
        yield row if best is None else row | {"optimal_success": float(best[h - 1])}


def _ran_fixed(sight: Sight, horizons: Sequence[int], seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    agent, env = sight.agent, sight.env
    if isinstance(env, ExternalEnv):
        for h in horizons:
            yield _ran_external(sight, Dial(horizon=h), seed)
        return
    for ran in run_horizons(agent.network, env, seed, *_repeated(env), horizons):
        yield np.asarray(ran.success), np.asarray(ran.length)


def _by_alpha(sight: Sight, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each alpha, with the mean horizon that it picks at the start."""
    agent, env = sight.agent, sight.env
    for alpha in ALPHAS:
        # As an array, so that one compilation serves for all.
        dial = Dial(jnp.float32(alpha), vote=agent.config.vote, method=agent.config.method)
        if isinstance(env, ExternalEnv):
            success, steps = _ran_external(sight, dial, seed)
        else:
            ran = run_episodes(agent.network, env, agent.config, dial, seed, *_repeated(env))
            success, steps = np.asarray(ran.success), np.asarray(ran.length)
        picked = _picked(
            agent.network, sight.observation, sight.goal, dial, agent.spec, agent.config.skip_ruled_out
        )
        yield _row(Dial(alpha), success, steps) | {"start_horizon": float(np.asarray(picked).mean())}


@eqx.filter_jit
def _picked(network: Any, observation: Any, goal: Any, dial: Dial, spec: Any, skip: bool) -> Any:
    def one(s: Any, g: Any) -> Any:
        values = rule_for(dial.method, 0.5).link(network.curve(s, g))
        return dial_horizon(values, spec, dial, s, g, 0, skip)

    return jax.vmap(one)(jnp.asarray(observation), jnp.asarray(goal))


def _ran_external(sight: Sight, dial: Dial, seed: int) -> tuple[np.ndarray, np.ndarray]:
    agent = sight.agent
    count = len(sight.goal)
    found = evaluate_external(agent.network, sight.env, agent.config, dial, seed, count, full=False)
    return found.success, found.steps


def _repeated(env: Any) -> tuple[Any, np.ndarray]:
    """The test set's states and goals, as often as it asks for."""
    test = goals_to_test(env)
    repeat = lambda x: np.repeat(np.asarray(x), test.repeats, axis=0)  # noqa: E731
    return jax.tree.map(repeat, test.state), repeat(test.goal)


def _row(dial: Dial, success: np.ndarray, steps: np.ndarray) -> dict[str, Any]:
    mean = float(steps[success].mean()) if success.any() else None
    return {"policy": _dial_record(dial), "success": float(success.mean()), "steps": mean}


def _best_success(env: Any, goals: np.ndarray, horizons: int) -> np.ndarray | None:
    """The largest possible success on the test goals within h = 1..H steps; None where nobody knows."""
    if isinstance(env, CatAndMouse):
        test = env.test_set()
        start, goal = test.state[0, :2].tolist(), test.goal[0].tolist()
        return exact_success(tuple(start), tuple(goal), horizons)
    if not isinstance(env, DubinsCar | FrozenLake | MiniMaze):
        return None
    start = env.test_set().state[0]
    if isinstance(env, DubinsCar):
        steps = fewest_steps(env, start, goals)
        assert steps is not None
        return ((steps != NEVER) & (steps <= np.arange(1, horizons + 1)[:, None])).mean(1)
    number = cell_numbers(env)
    return exact_best(env, start, horizons)[:, [number[tuple(g)] for g in goals.astype(int).tolist()]].mean(1)


def _merge(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One policy's rows of all seeds as one; a mean is None where a seed has nothing to average."""
    if len(cells) == 1:
        return dict(cells[0])
    merged: dict[str, Any] = {"policy": cells[0]["policy"]}
    for name in (n for n in cells[0] if n != "policy"):
        values = [c[name] for c in cells]
        merged[name] = None if None in values else float(np.mean(values))
    return merged | {"runs": [dict(c) for c in cells]}


def print_dials(turned: Mapping[str, Any]) -> None:
    """The dial's table for people."""
    count = len(turned["seeds"])
    title = f"{turned['preset'] or turned['run']}, {count} {'seed' if count == 1 else 'seeds'}"
    columns = [("success", "success, %", 100), ("predicted", "C at start, %", 100)]
    columns += [("optimal_success", "optimum, %", 100), ("steps", "steps", 1)]
    columns += [("start_horizon", "h at start", 1)]
    used = [c for c in columns if any(row.get(c[0]) is not None for row in turned["rows"])]
    table = Table("dial", title=title, box=SIMPLE, pad_edge=False, title_justify="left")
    table.caption = "h counts down and ends the episode at 0; α picks it anew at each step."
    table.caption_justify = "left"
    for _, heading, _ in used:
        table.add_column(heading, justify="right")
    for row in turned["rows"]:
        policy = row["policy"]
        fixed = "horizon" in policy
        label = f"h = {policy['horizon']}" if fixed else f"α = {policy['alpha']:g}"
        cells = row.get("runs", [row])
        texts = [_text(_spread(cells, name), scale) for name, _, scale in used]
        table.add_row(label, *texts)
        if fixed and "horizon" not in turned["rows"][turned["rows"].index(row) + 1]["policy"]:
            table.add_section()
    Console().print(table)


def oracle(
    name: str, options: Mapping[str, Any], state: Sequence[float], goal: Sequence[float], horizon: int
) -> dict[str, Any]:
    """The exact probability of reaching a goal within a horizon, and the action that gives it."""
    if horizon < 1:
        raise UsageError(f"--horizon must be at least 1, not {horizon}.")
    env = make(name, options)
    start, end = checked_pair(env, state, goal)
    answer: dict[str, Any] = {"env": name, "state": list(state), "goal": list(goal), "horizon": horizon}
    if isinstance(env, CatAndMouse):  # its actions are a continuum, of which only the value is computed
        (x, y, caught), (goal_x, goal_y) = start.tolist(), end.tolist()
        there = bool(env.reached(jnp.array([x, y]), jnp.array([goal_x, goal_y])))
        best = 0.0
        if there or not caught:
            best = float(exact_success((x, y), (goal_x, goal_y), horizon)[-1])
        return answer | {"probability": best, "method": "dynamic programming on a grid"}
    steps = fewest_steps(env, start, end[None], limit=horizon)
    assert steps is not None
    answer["fewest_steps"] = None if steps[0] == NEVER else int(steps[0])
    if isinstance(env, FrozenLake | MiniMaze):
        number = cell_numbers(env)
        values = optimal_c_last(env.mdp, horizon)[
            number[tuple(map(int, state))], :, number[tuple(map(int, goal))]
        ]
        return answer | _best_action(env, values, bool(steps[0] == 0))
    values = _car_values(env, start, end, horizon)
    return (
        answer | _best_action(env, values, bool(steps[0] == 0)) | {"method": "search over real trajectories"}
    )


def ask(
    run: str,
    state: Sequence[float],
    goal: Sequence[float],
    horizon: int | None = None,
    probability: float | None = None,
    curve: bool = False,
    monotone: bool = False,
) -> dict[str, Any]:
    """What a run's agent, or those of all seeds in a folder together, hold of reaching a goal in time."""
    if (horizon is not None) + (probability is not None) + curve > 1:
        raise UsageError("Give one of --horizon, --probability and --curve: each asks something else.")
    agents = _agents_to_ask(run)
    observation, end = _asked_pair(agents[0], state, goal)
    asked = Ensemble(agents)
    answer: dict[str, Any] = {"run": str(run), "agents": len(agents)}
    answer |= {"state": list(state), "goal": list(goal)}
    if horizon is None and not curve:
        wanted = 0.9 if probability is None else probability
        smallest = asked.min_horizon(observation, end, wanted, monotone)
        return answer | {"probability": wanted, "min_horizon": smallest, "max_horizon": asked.max_horizon}
    if curve:
        answer["horizon"] = list(range(1, asked.max_horizon + 1))
        found = asked.reach_curve(observation, end, monotone)
    else:
        answer["horizon"] = horizon
        found = asked.reach_probability(observation, end, horizon, monotone)  # pyright: ignore[reportArgumentType]
    answer["probability"] = np.asarray(found.probability).tolist()
    return answer | ({"disagreement": np.asarray(found.disagreement).tolist()} if len(agents) > 1 else {})


def _agents_to_ask(run: str) -> list[Agent]:
    if Path(run).is_file():
        return [Agent.load(run)]
    folders = run_folders(run)
    for folder in folders:
        folder.read()
    return [Agent.load(folder.agent_file) for folder in folders]


def _asked_pair(agent: Agent, state: Sequence[float], goal: Sequence[float]) -> tuple[Any, Any]:
    """An observation and a goal from a state as `oracle` takes it; from an observation where only the
    environment's owner knows its states."""
    config, spec = agent.config, agent.spec
    if config.env in ENVIRONMENTS:
        env = make(config.env, config.env_options)
        start, end = checked_pair(env, state, goal)
        return np.asarray(env.observe(jnp.asarray(start))), end
    for values, size, what in ((state, spec.observation_size, "observation"), (goal, spec.goal_size, "goal")):
        if len(values) != size or not all(map(math.isfinite, values)):
            raise UsageError(f"The {what} of {spec.name} has {size} finite numbers, not {list(values)}.")
    return state, goal


def print_answer(answer: Mapping[str, Any]) -> None:
    """An answer for people; a horizon that does not exist is told in words."""
    shown = dict(answer)
    if "min_horizon" in shown and shown["min_horizon"] is None:
        shown["min_horizon"] = f"not within {shown['max_horizon']} steps"
    curve = []
    if isinstance(shown.get("horizon"), list):
        curve = [shown.pop(name) for name in ("horizon", "probability", "disagreement") if name in shown]
    for name, value in shown.items():
        print(f"{name}: {value}")
    for h, *told in zip(*curve, strict=True):
        print(f"h = {h:<3} {' ± '.join(f'{p:.4f}' for p in told)}")


def _car_values(env: Any, start: np.ndarray, goal: np.ndarray, horizon: int) -> np.ndarray:
    """C* of each first action of the car, which is 0 or 1: search again from where the action leads."""
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


def complete_dial(dial: Dial | None, agent: Agent) -> Dial:
    """The dial that was asked for, if the agent has it, or the agent's own; with its own voting."""
    own = own_dial(agent.config)
    if dial is None:
        return own
    kind = "horizon" if dial.horizon else "alpha" if dial.discount is None else "discount"
    check_dial(agent.config, kind)
    if dial.horizon > agent.max_horizon:
        raise UsageError(f"--horizon must be in 1..{agent.max_horizon}, not {dial.horizon}.")
    return dial._replace(method=own.method, vote=0 if dial.horizon else own.vote)


def open_run(folder: RunFolder, dial: Dial | None) -> tuple[Agent, Dial, Any, dict[str, Any]]:
    config, _, record = folder.read()
    if record.get("custom_env"):
        raise UsageError(f"{folder.path} was trained on your own environment: evaluate it from Python.")
    agent = Agent.load(folder.agent_file)
    env = make_world(config)
    folder.refuse_changed_spaces(env.spec)
    return agent, complete_dial(dial, agent), env, record


def checked_pair(env: Any, state: Sequence[float], goal: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    spec = env.spec
    for values, size, what in ((state, _state_size(env), "state"), (goal, spec.goal_size, "goal")):
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
    if isinstance(env, FrozenLake | MiniMaze) and tuple(end.tolist()) not in cell_numbers(env):
        raise UsageError(f"The goal {list(goal)} is not a free cell.")
    return start, end


@lru_cache(maxsize=16)
def _state_size(env: Any) -> int:
    return jax.eval_shape(env.initial_state, jax.random.key(0)).shape[0]


def cell_numbers(env: FrozenLake | MiniMaze) -> dict[tuple[float, ...], int]:
    return {tuple(c): i for i, c in enumerate(env.cells.tolist())}


def exact_best(env: FrozenLake | MiniMaze, start: np.ndarray, horizon: int) -> np.ndarray:
    """max_a C*(start, a, g, h), indexed [h − 1, g]."""
    return optimal_c_from(env.mdp, cell_numbers(env)[tuple(start.astype(int).tolist())], horizon)


def _dial_record(dial: Dial) -> dict[str, Any]:
    if dial.horizon:
        return {"horizon": dial.horizon, "receding": dial.receding}
    if dial.discount is not None:
        return {"discount": dial.discount}
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


# What a table can show: the name in a summary, the heading, and what a value is multiplied by.
COLUMNS = (
    ("success", "success, %", 100),
    ("held", "held, %", 100),
    ("reached_at_reset", "at reset, %", 100),
    ("steps", "steps", 1),
    ("optimal_steps", "optimum", 1),
    ("distance", "distance", 1),
)


def _stratum_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of goals; where the paper has its own figures, they stand below."""
    *prefixes, name = (runs[0]["preset"] or "").split("/")
    peer = next((p for p in prefixes if p != "paper"), "c-learning")
    paper = paper_results().get(name, {}).get(peer, {})
    seeds = "seed" if len(runs) == 1 else "seeds"
    title = f"{runs[0]['preset'] or runs[0]['run']}, {len(runs)} {seeds}"
    table = Table("goals", title=title, box=SIMPLE, pad_edge=False, title_justify="left")
    table.add_column("", justify="right")
    used = [c for c in COLUMNS if any(r.get(c[0]) is not None for r in runs)]
    with_ratio = any(c[0] == "optimal_steps" for c in used)
    for column, heading, _ in used:
        table.add_column(heading, justify="right")
        if column == "optimal_steps":
            table.add_column("ratio", justify="right")
    for label, cells in _rows(runs):
        steps, optimum = _spread(cells, "steps"), _spread(cells, "optimal_steps")
        texts = [_text(_spread(cells, column), scale) for column, _, scale in used]
        if with_ratio:
            ratio = f"{steps[0] / optimum[0]:.3f}" if steps and optimum else ""
            texts.insert(1 + [c[0] for c in used].index("optimal_steps"), ratio)
        table.add_row(label, str(cells[0]["goals"]), *texts)
        if label == "all" and "paper_goals" in runs[0]:
            continue  # the paper tested on fewer
        key = "all" if label == "paper's goals" else label
        theirs = [_paper_text(paper, PAPER_NAMES.get(c[0], ""), key) for c in used]
        if any(theirs):
            if with_ratio:
                theirs.insert(1 + [c[0] for c in used].index("optimal_steps"), "")
            table.add_row("  paper", "", *theirs, style="dim")
    return table


PAPER_NAMES = {"success": "success", "distance": "path"}


def _rows(runs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Which goals, and every run's summary of them; one stratum is all there is and needs one row."""
    strata = list(runs[0]["by_stratum"])
    if len(strata) == 1:
        return [(strata[0], list(runs))]
    rows: list[tuple[str, list[Mapping[str, Any]]]] = [("all", list(runs))]
    if "paper_goals" in runs[0]:
        rows.append(("paper's goals", [r["paper_goals"] for r in runs]))
    return rows + [(s, [r["by_stratum"][s] for r in runs]) for s in strata]


def _seed_table(found: Mapping[str, Any]) -> Table:
    used = [
        c for c in COLUMNS if c[0] != "optimal_steps" and any(r.get(c[0]) is not None for r in found["runs"])
    ]
    table = Table("seed", title="every seed", box=SIMPLE, pad_edge=False, title_justify="left")
    for heading in (*(c[1] for c in used), "env. steps"):
        table.add_column(heading, justify="right")
    for run in found["runs"]:
        texts = [_text(_spread([run], name), scale) for name, _, scale in used]
        table.add_row(str(run["seed"]), *texts, f"{run['env_steps']:,}")
    low, high = found["success_over_seeds"]["interval"]
    table.caption = f"mean success, 95 % bootstrap interval over seeds: {100 * low:.2f} to {100 * high:.2f} %"
    table.caption_justify = "left"
    return table


def _spread(cells: Sequence[Mapping[str, Any]], name: str) -> tuple[float, float] | None:
    values = [c.get(name) for c in cells]
    if None in values:
        return None
    return float(np.mean(values)), float(np.std(values))  # pyright: ignore[reportArgumentType, reportCallIssue]


def _text(spread: tuple[float, float] | None, scale: float = 1.0) -> str:
    if spread is None:
        return ""
    mean, deviation = scale * spread[0], scale * spread[1]
    return f"{mean:.2f}" if deviation == 0 else f"{mean:.2f} ± {deviation:.2f}"


def _paper_text(paper: Mapping[str, Any], metric: str, key: str) -> str:
    pair = paper.get(metric, {}).get(key)
    return f"{pair[0]:.2f} ± {pair[1]:.2f}" if pair else ""
