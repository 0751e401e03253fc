"""What finished runs achieved: evaluated once, kept in the run's folder, and compared goal by goal."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from clearning.agent import Agent
from clearning.errors import ClearningError
from clearning.evaluate import evaluate
from clearning.files import read_json, write_json
from clearning.records import LARGEST_WHOLE
from clearning.report.evaluation import FINAL_EPISODES
from clearning.report.opening import closing, open_run
from clearning.reproduce.experiments import DISCOUNTS, METHODS, ROBOT_STEPS, Run
from clearning.reproduce.statistics import Difference, Spread, difference, spread
from clearning.rollout import Dial
from clearning.runs import RunFolder

METRICS = ("success", "path", "final_distance")
PATHS = {"dubins-car": "distance"}  # what the paper's path lengths can only be; elsewhere they are steps


@dataclass(frozen=True)
class Contestant:
    """A row of a table: a method, and for D-learning the discount that it acts with."""

    method: str
    discount: float | None = None

    @property
    def name(self) -> str:
        return METHODS[self.method] + ("" if self.discount is None else f", γ = {self.discount:g}")


@dataclass(frozen=True)
class Measured:
    """A finished run."""

    run: Run
    folder: RunFolder

    @cached_property
    def agent(self) -> Agent:
        return Agent.load(self.folder.agent_file)

    @cached_property
    def metrics(self) -> dict[str, np.ndarray]:
        return self.folder.metrics()

    @property
    def label(self) -> dict[str, Any]:
        """What tells its rows in a CSV file from those of others: one preset may serve two worlds."""
        return {"world": self.run.world, "preset": self.run.preset, "seed": self.run.seed}

    @property
    def hours(self) -> float:
        return float(self.metrics["seconds"][-1]) / 3600

    def kept_evaluation(self, discount: float | None = None) -> dict[str, Any] | None:
        """`evaluation`, where it was computed before and the agent is still the same."""
        try:
            kept = read_json(self._evaluation_file(discount))
        except ClearningError:  # not there, or damaged: only a copy of what can be computed again
            return None
        written = self.folder.agent_file.stat().st_mtime_ns
        return kept if kept.get("agent_written") == written and _is_whole(kept.get("goals")) else None

    def _evaluation_file(self, discount: float | None) -> Path:
        return self.folder.path / f"evaluation{'' if discount is None else f'-{discount:g}'}.json"

    def evaluation(self, discount: float | None = None) -> dict[str, Any]:
        """What came of each test goal, computed once for an agent file."""
        if kept := self.kept_evaluation(discount):
            return kept
        dial = None if discount is None else Dial(discount=discount)
        agent, dial, env, _ = open_run(self.folder, dial)
        with closing(env, None):
            outcome = evaluate(agent.network, env, agent.config, dial, optimum=False, episodes=FINAL_EPISODES)
        goals = {
            "in_paper": outcome.in_paper.tolist(),
            "stratum": outcome.stratum.tolist(),
            "success": outcome.success.astype(float).tolist(),
            "steps": outcome.steps.tolist(),
            "distance": outcome.distance.tolist(),
            "final_distance": outcome.final_distance.tolist(),
        }
        record = {"agent_written": self.folder.agent_file.stat().st_mtime_ns, "goals": goals}
        write_json(self._evaluation_file(discount), record)
        return record


class Results:
    """All finished runs of some that were asked for."""

    def __init__(self, runs: Iterable[Run], stored: dict[str, RunFolder]):
        asked = {run.identity: run for run in runs}
        there = {i: stored[i] for i in asked if i in stored and stored[i].is_finished()}
        self.measured = [Measured(asked[i], folder) for i, folder in there.items()]

    def of(self, world: str, method: str, form: str) -> list[Measured]:
        """The runs of a method in a world, by seed."""
        key = (world, method, form)
        mine = [m for m in self.measured if (m.run.world, m.run.method, m.run.form) == key]
        return sorted(mine, key=lambda m: m.run.seed)

    def spread(
        self, world: str, who: Contestant, form: str, metric: str, stratum: str = "all"
    ) -> Spread | None:
        """Success in percent, path length or final distance of the test goals of a stratum, over seeds."""
        found = [_mean(self._goals(m, who), world, metric, stratum) for m in self.of(world, who.method, form)]
        return spread(found, 100.0 if metric == "success" else 1.0)

    def difference(
        self, world: str, first: Contestant, second: Contestant, form: str, metric: str, stratum: str = "all"
    ) -> Difference | None:
        """How much larger a metric is for the first method than for the second, told goal by goal."""
        sides = []
        for who in (first, second):
            runs = self.of(world, who.method, form)
            rows = [_by_goal(self._goals(m, who), world, metric, stratum) for m in runs]
            if not rows or np.isnan(np.stack(rows)).all():
                return None
            sides.append(np.stack(rows) * (100.0 if metric == "success" else 1.0))
        return difference(*sides)

    def seeds(self) -> list[dict[str, Any]]:
        """A row for every run, discount and stratum that was evaluated: what the tables are made of."""
        kept = [(m, d, m.kept_evaluation(d)) for m in self._by_title() for d in (None, *DISCOUNTS)]
        return [
            {**m.label, "discount": discount, **row}
            for m, discount, found in kept
            if found is not None
            for row in _by_stratum(found["goals"], m.run.world)
        ]

    def curves(self) -> list[dict[str, Any]]:
        """Test success while training, a row for every evaluation of every run."""
        columns = ("episodes", "env_steps", "updates", "eval_success", "seconds")
        return [
            {**m.label, **dict(zip(columns, values, strict=True))}
            for m in self._by_title()
            for values in zip(*(m.metrics[name].tolist() for name in columns), strict=True)
        ]

    def _by_title(self) -> list[Measured]:
        return sorted(self.measured, key=lambda m: (m.run.world, m.run.title))

    def _goals(self, measured: Measured, who: Contestant) -> dict[str, Any]:
        return measured.evaluation(who.discount)["goals"]


def _is_whole(goals: Any) -> bool:
    """Whether a kept evaluation has a number, or a name, for every goal in each of its columns."""
    kinds = {"in_paper": bool, "stratum": str, "success": float}
    kinds |= {"steps": float, "distance": float, "final_distance": float}
    if not isinstance(goals, dict) or not all(isinstance(goals.get(name), list) for name in kinds):
        return False
    sizes = {len(goals[name]) for name in kinds}
    small = lambda v: isinstance(v, int) and abs(v) <= LARGEST_WHOLE  # noqa: E731
    typed = all(isinstance(v, kind) or small(v) for name, kind in kinds.items() for v in goals[name])
    return typed and len(sizes) == 1


def _by_goal(goals: dict[str, Any], world: str, metric: str, stratum: str) -> np.ndarray:
    """What came of each of the paper's test goals of a stratum; NaN for a path that never arrived."""
    asked = np.array(goals["in_paper"], bool)
    if stratum != "all":
        asked &= np.array(goals["stratum"]) == stratum
    if metric != "path":
        return np.array(goals[metric], float)[asked]
    # The paper's robots probably counted their steps from 0.
    path = np.array(goals[PATHS.get(world, "steps")], float) - (world in ROBOT_STEPS)
    return np.where(np.array(goals["success"], bool), path, np.nan)[asked]


def _by_stratum(goals: dict[str, Any], world: str) -> Iterator[dict[str, Any]]:
    """The means of each stratum that has any of the paper's goals, and of all."""
    for stratum in (*sorted({*goals["stratum"]}), "all"):
        if count := len(_by_goal(goals, world, "success", stratum)):
            means = {metric: _mean(goals, world, metric, stratum) for metric in METRICS}
            yield {"stratum": stratum, "goals": count, **means}


def _mean(goals: dict[str, Any], world: str, metric: str, stratum: str) -> float | None:
    values = _by_goal(goals, world, metric, stratum)
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def steps_to(runs: Sequence[Measured], success: float) -> float | None:
    """Environment steps after which the mean test success over seeds first is so large; None for never."""
    curves = [(m.metrics["env_steps"], m.metrics["eval_success"]) for m in runs]
    end = min(steps[-1] for steps, _ in curves)
    grid = np.linspace(0, end, 400)
    mean = np.mean([np.interp(grid, [0, *steps], [0.0, *values]) for steps, values in curves], axis=0)
    above = np.flatnonzero(mean >= success)
    return float(grid[above[0]]) if len(above) else None
