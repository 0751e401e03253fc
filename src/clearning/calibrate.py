"""What an agent promises beside what it does: calibration of C by rollouts of its fixed-horizon policy.

C(s, g, h) predicts the success of the policy that has h steps and counts them down. Horizons are drawn within
a few steps of the smallest that could do it: far from there, certain zeros and ones would flatter any agent.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from clearning.agent import Agent
from clearning.core.calibration import (
    brier,
    brier_skill,
    expected_calibration_error,
    fit_recalibration,
    monotonicity_violations,
    reliability,
)
from clearning.core.tabular import optimal_c_at
from clearning.envs import DubinsCar, ExternalEnv, FrozenLake, MiniMaze
from clearning.envs.grid import cell_numbers
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import ClearningError
from clearning.evaluate import TEST_SEEDS, reached_in_time
from clearning.report.dials import at_the_start
from clearning.report.opening import closing, open_run
from clearning.rollout import collect_external, training_starts
from clearning.runs import RunFolder, run_folders

ROLLOUTS, EXTERNAL_ROLLOUTS = 4000, 500
BEFORE, AFTER = 2, 6  # horizons are drawn from so many steps before the smallest that could do it to after
BANDS = 6  # groups of horizons in the table, about equally many rollouts in each


class Trials(NamedTuple):
    """What was promised and what happened, a rollout a row."""

    observation: np.ndarray
    goal: np.ndarray
    horizon: np.ndarray
    happened: np.ndarray
    exact: np.ndarray | None  # max_a C*, where it is known


def calibrate_runs(
    run: str, rollouts: int | None = None, seed: int = 0, recalibrate: str | None = None
) -> dict[str, Any]:
    """The calibration of one run, or of every seed in a folder under `runs`."""
    found = [_calibrate_run(folder, rollouts, seed, recalibrate) for folder in run_folders(run)]
    if len(found) == 1:
        return found[0]
    return {"run": str(run), "preset": found[0]["preset"], "runs": found}


def _calibrate_run(
    folder: RunFolder, rollouts: int | None, seed: int, recalibrate: str | None
) -> dict[str, Any]:
    with folder.locked() if recalibrate else nullcontext():  # what it stores, a training would write over
        return _calibrate_agent(folder, rollouts, seed, recalibrate)


def _calibrate_agent(
    folder: RunFolder, rollouts: int | None, seed: int, recalibrate: str | None
) -> dict[str, Any]:
    agent, _, env, record = open_run(folder, None)
    with closing(env, None):
        trials = run_trials(agent, env, rollouts, seed)
    found: dict[str, Any] = {name: record[name] for name in ("preset", "seed")}
    found |= {"run": str(folder.path), "env": agent.spec.name}
    if recalibrate == "none":
        agent = agent.recalibrated(None)
        agent.save(folder.agent_file)
    found |= judge(agent, trials)
    if recalibrate in ("isotonic", "temperature"):
        agent, found["recalibration"] = mend(agent, trials, recalibrate, seed)
        agent.save(folder.agent_file)
    return found


# Rolling out --------------------------------------------------------------------------------------


def run_trials(agent: Agent, env: Any, rollouts: int | None = None, seed: int = 0) -> Trials:
    """Rollouts of the fixed-horizon policy from starts to goals as the environment draws them."""
    if isinstance(env, ExternalEnv):
        return _external_trials(agent, env, rollouts or EXTERNAL_ROLLOUTS, seed)
    state, goal = training_starts(env, jax.random.key(seed), rollouts or ROLLOUTS)
    there = np.asarray(jax.vmap(lambda s, g: env.reached(env.achieved_goal(s), g))(state, goal))
    observation = np.asarray(jax.vmap(env.observe)(state))
    state, goal = jax.tree.map(np.asarray, (state, goal))
    horizon, asked = _near(_smallest(agent, env, state, observation, goal), agent.max_horizon, seed)
    rows = np.flatnonzero(asked & ~there)
    if hasattr(env, "test_set") and env.test_set().repeats == 1:
        # A deterministic world repeats itself word for word: a second rollout would be no second trial.
        questions = np.column_stack([observation, goal, horizon])[rows]
        rows = rows[np.unique(questions, axis=0, return_index=True)[1]]
    _require_some(rows)
    state, observation, goal, horizon = jax.tree.map(lambda x: x[rows], (state, observation, goal, horizon))
    happened = reached_in_time(agent.network, env, seed, state, goal, horizon)
    return Trials(observation, goal, horizon, happened, _exact(env, state, goal, horizon))


def _external_trials(agent: Agent, env: ExternalEnv, rollouts: int, seed: int) -> Trials:
    sight = at_the_start(agent, env, seed, rollouts)
    smallest = agent.min_horizon(sight.observation, sight.goal, 0.5).filled(NEVER)
    horizon, _ = _near(np.where(smallest == NEVER, agent.max_horizon, smallest), agent.max_horizon, seed)
    seeds, size = TEST_SEEDS * (1 + seed) + np.arange(rollouts), agent.config.parallel_envs
    parts = []
    for at in range(0, rollouts, size):
        mine = horizon[at : at + size]
        act = lambda s, g, t, h=mine: agent.greedy(s, g, np.maximum(h - t, 1))  # noqa: E731
        ran = collect_external(env, act, seeds[at : at + size], int(mine.max()))
        began_there = env.reached(np.asarray(ran.achieved)[:, 0], np.asarray(ran.goal))
        parts.append((np.asarray(ran.success) & (np.asarray(ran.length) <= mine), began_there))
    happened, began_there = (np.concatenate(x) for x in zip(*parts, strict=True))
    rows = np.flatnonzero(~began_there)
    _require_some(rows)
    return Trials(sight.observation[rows], sight.goal[rows], horizon[rows], happened[rows], None)


def _smallest(
    agent: Agent, env: Any, state: np.ndarray, observation: np.ndarray, goal: np.ndarray
) -> np.ndarray:
    """The smallest horizon that could do it, by search; `NEVER` where none can.

    Where there is no search, or the car would need one for every start, the first horizon that the agent
    itself holds more likely than not to suffice, or H.
    """
    searchable = isinstance(env, FrozenLake | MiniMaze)
    searchable |= isinstance(env, DubinsCar) and bool((state == state[0]).all())
    if not searchable:
        return agent.min_horizon(observation, goal, 0.5).filled(agent.max_horizon)
    found = np.full(len(goal), NEVER)
    starts, which = np.unique(state, axis=0, return_inverse=True)
    for i, start in enumerate(starts):
        found[which == i] = fewest_steps(env, start, goal[which == i])
    return found


def _near(smallest: np.ndarray, max_horizon: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A horizon close to each smallest one, and whether it is one that can be asked for."""
    shift = np.random.default_rng(seed).integers(-BEFORE, AFTER + 1, len(smallest))
    horizon = smallest + shift
    return np.clip(horizon, 1, max_horizon), (smallest != NEVER) & (horizon >= 1) & (horizon <= max_horizon)


def _require_some(rows: np.ndarray) -> None:
    if not len(rows):
        raise ClearningError("No goal that was drawn is within reach of any horizon: nothing to calibrate.")


def _exact(env: Any, state: np.ndarray, goal: np.ndarray, horizon: np.ndarray) -> np.ndarray | None:
    if not isinstance(env, FrozenLake | MiniMaze):
        return None
    number = cell_numbers(env.cells)
    s, g = (np.array([number[tuple(c)] for c in x.astype(int).tolist()]) for x in (state, goal))
    return optimal_c_at(env.mdp, s, g, horizon)


# Judging ------------------------------------------------------------------------------------------


def judge(agent: Agent, trials: Trials) -> dict[str, Any]:
    """How well an agent's probabilities agree with what happened: over all, and by horizon."""
    curves = agent.reach_curve(trials.observation, trials.goal)
    predicted = curves[np.arange(len(curves)), trials.horizon - 1]
    points = reliability(predicted, trials.happened)
    bands = np.unique(np.quantile(trials.horizon, np.linspace(0, 1, BANDS + 1)[:-1], method="nearest"))
    band = np.searchsorted(bands, trials.horizon, side="right") - 1
    return {
        "overall": _scores(predicted, trials, np.ones(len(predicted), bool)),
        "by_horizon": [_scores(predicted, trials, band == b) for b in range(len(bands))],
        "reliability": {name: column.tolist() for name, column in points._asdict().items()},
        "monotonicity_violations": monotonicity_violations(curves),
        "recalibrated_by": agent.recalibration.kind if agent.recalibration else None,
    }


def _scores(predicted: np.ndarray, trials: Trials, mask: np.ndarray) -> dict[str, Any]:
    p, y, h = predicted[mask], trials.happened[mask], trials.horizon[mask]
    scores: dict[str, Any] = {
        "horizons": [int(h.min()), int(h.max())],
        "rollouts": len(p),
        "predicted": float(p.mean()),
        "observed": float(y.mean()),
        "ece": expected_calibration_error(p, y),
        "brier": brier(p, y),
        "brier_skill": brier_skill(p, y),
    }
    if trials.exact is not None:
        scores["error_to_optimum"] = float(np.abs(p - trials.exact[mask]).mean())
        scores["optimum"] = float(trials.exact[mask].mean())
    return scores


def mend(agent: Agent, trials: Trials, kind: str, seed: int = 0) -> tuple[Agent, dict[str, Any]]:
    """The agent recalibrated on one half of the pairs of state and goal, judged on the other half."""
    pairs = np.concatenate([trials.observation, trials.goal], axis=1)
    unique, which = np.unique(pairs, axis=0, return_inverse=True)
    # A pair's rollouts all go to one side: a deterministic world would repeat them word for word.
    held_out = (np.random.default_rng(seed).permutation(len(unique)) % 2 == 1)[which]
    if held_out.all() or not held_out.any():
        raise ClearningError("Recalibration needs at least two different pairs of state and goal.")
    raw = agent.recalibrated(None)
    fit, test = _part(trials, ~held_out), _part(trials, held_out)
    predicted = raw.reach_probability(fit.observation, fit.goal, fit.horizon)
    mended = agent.recalibrated(fit_recalibration(kind, predicted, fit.happened))
    before, after = judge(raw, test), judge(mended, test)
    record = {"kind": kind, "fitted_on": len(fit.goal), "judged_on": len(test.goal)}
    return mended, record | {"before": before, "after": after}


def _part(trials: Trials, mask: np.ndarray) -> Trials:
    return Trials(*(None if x is None else x[mask] for x in trials))  # pyright: ignore[reportArgumentType]


# Telling ------------------------------------------------------------------------------------------

COLUMNS = {
    "rollouts": ("n", 1, 0),
    "predicted": ("C, %", 100, 1),
    "observed": ("success, %", 100, 1),
    "optimum": ("C*, %", 100, 1),
    "ece": ("ECE", 1, 3),
    "brier": ("Brier", 1, 3),
    "brier_skill": ("skill", 1, 3),
    "error_to_optimum": ("|C−C*|", 1, 3),
}


def print_calibration(found: Mapping[str, Any]) -> None:
    """A table for people of each run: the scores by horizon, and on held-out rollouts if recalibrated."""
    console = Console()
    for one in found.get("runs", [found]):
        console.print(_table(one))
    console.print(f"Reliability diagram: {found['figure']}", soft_wrap=True)


def _table(one: Mapping[str, Any]) -> Table:
    title = f"{one['preset'] or one['run']}, seed {one['seed']}"
    table = Table("horizon", title=title, box=SIMPLE, pad_edge=False, title_justify="left")
    used = [name for name in COLUMNS if name in one["overall"]]
    for name in used:
        table.add_column(COLUMNS[name][0], justify="right")

    def add(label: str, scores: Mapping[str, Any]) -> None:
        values = [(scores[name], *COLUMNS[name][1:]) for name in used]
        table.add_row(
            label, *("–" if v is None else f"{scale * v:.{digits}f}" for v, scale, digits in values)
        )

    for scores in one["by_horizon"]:
        first, last = scores["horizons"]
        add(str(first) if first == last else f"{first}–{last}", scores)
    table.add_section()
    add("all", one["overall"])
    mended = one.get("recalibration")
    if mended:
        table.add_section()
        add("held out", mended["before"]["overall"])
        add(mended["kind"], mended["after"]["overall"])
    share = 100 * one["monotonicity_violations"]
    table.caption = f"C falls from h to h + 1 (by more than 0.01) in {share:.2f} % of the steps."
    table.caption_justify = "left"
    return table
