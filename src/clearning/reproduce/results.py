"""What finished runs achieved: found out once, kept in the run's folder, and compared goal by goal."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from clearning import plots
from clearning.agent import Agent
from clearning.envs import FrozenLake, frozen_lake, make
from clearning.errors import ClearningError
from clearning.evaluate import evaluate
from clearning.files import read_json, write_json
from clearning.plots.reach import CAR_HORIZONS
from clearning.records import LARGEST_WHOLE
from clearning.report.evaluation import FINAL_EPISODES
from clearning.report.opening import closing, open_run
from clearning.reproduce.experiments import (
    DRAWN,
    DRAWN_ACTIONS,
    METHODS,
    ROBOT_STEPS,
    Acting,
    Run,
    ways_of_acting,
)
from clearning.reproduce.statistics import Difference, Spread, difference, spread
from clearning.rollout import Dial
from clearning.runs import RunFolder

METRICS = ("success", "path", "final_distance", "held")
WAYS = ("direct", "around", "nowhere")  # over the lake: between the holes, around them, not to the goal
PATHS = {"dubins-car": "distance"}  # what the paper's path lengths can only be; elsewhere they are steps


@dataclass(frozen=True)
class Contestant:
    """A row of a table: a method, and how it acts where there is more than one way."""

    method: str
    acting: Acting = None

    @property
    def name(self) -> str:
        told = "" if self.acting is None else ", actions drawn"
        return METHODS[self.method] + (f", γ = {self.acting:g}" if isinstance(self.acting, float) else told)


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

    def evaluation(self, acting: Acting = None) -> dict[str, Any]:
        """What came of each test goal."""

        def run_the_test() -> dict[str, Any]:
            asked = Dial(discount=acting) if isinstance(acting, float) else None
            agent, dial, env, _ = open_run(self.folder, asked)
            dial = dial._replace(drawn=acting == DRAWN_ACTIONS)
            with closing(env, None):
                length = {"episodes": FINAL_EPISODES, "to_the_end": True}
                found = evaluate(agent.network, env, agent.config, dial, optimum=False, **length)
            assert found.held is not None
            return {
                "in_paper": found.in_paper.tolist(),
                "stratum": found.stratum.tolist(),
                "success": found.success.astype(float).tolist(),
                "steps": found.steps.tolist(),
                "distance": found.distance.tolist(),
                "final_distance": found.final_distance.tolist(),
                "held": found.held.astype(float).tolist(),
            }

        return self._found_once(_evaluation_name(acting), run_the_test, self._is_all_there_is)

    def kept_evaluation(self, acting: Acting = None) -> dict[str, Any] | None:
        """`evaluation`, where it was found out before and the agent is still the same."""
        return self._kept(_evaluation_name(acting), self._is_all_there_is)

    def _is_all_there_is(self, goals: Any) -> bool:
        """Older evaluations do not know who is still at the goal in the end; an agent that is there tells."""
        return _is_whole(goals) and ("held" in goals or not self.folder.agent_file.exists())

    def way(self, horizon: int | None) -> str:
        """Which way it takes over the lake."""

        def follow() -> str:
            ends = frozen_lake.START, frozen_lake.FAR_GOAL
            way = plots.most_likely_way(self.agent, FrozenLake(), *ends, horizon)
            between = ((way[:, 0] == 1) & (way[:, 1] >= 2) & (way[:, 1] <= 4)).any()
            if tuple(way[-1].astype(int)) != tuple(frozen_lake.FAR_GOAL):
                return "nowhere"
            return "direct" if between else "around"

        return self._found_once(f"way-{horizon or 'only'}", follow, lambda way: way in WAYS)

    def overlap(self) -> list[float]:
        """Of the goals that it calls reachable with those that are, for each of the figure's horizons."""

        def compare() -> list[float]:
            env = make("dubins-car", self.run.config.env_options)
            return [*plots.reachability_overlap(self.agent, env, CAR_HORIZONS).values()]

        return self._found_once("overlap", compare, _is_overlap)

    def find_out_everything(self) -> None:
        """Whatever a report may want to know of it."""
        for acting in ways_of_acting(self.run.method):
            self.evaluation(acting)
        if self.run.world == "frozen-lake":
            for horizon in lake_horizons(self.run.method):
                self.way(horizon)
        if self.run.world == "dubins-reachability":
            self.overlap()

    def _found_once(self, name: str, find: Callable[[], Any], is_valid: Callable[[Any], bool]) -> Any:
        kept = self._kept(name, is_valid)
        if kept is None:
            kept = find()
            write_json(self.folder.path / f"{name}.json", {"agent": self._digest(), "found": kept})
        return kept

    def _kept(self, name: str, is_valid: Callable[[Any], bool]) -> Any | None:
        """What was found out of this agent. Where the agent itself was not kept, it can be of no other."""
        kept = _record(self.folder, name)
        same = not self.folder.agent_file.exists() or kept.get("agent") == self._digest()
        return kept.get("found") if same and is_valid(kept.get("found")) else None

    def _digest(self) -> str:
        return hashlib.sha256(self.folder.agent_file.read_bytes()).hexdigest()


def _record(folder: RunFolder, name: str) -> dict[str, Any]:
    """What was found out under a name, and of which agent; nothing where it is not there, or damaged."""
    try:
        return read_json(folder.path / f"{name}.json")
    except ClearningError:
        return {}


def _evaluation_name(acting: Acting) -> str:
    return "evaluation" if acting is None else f"evaluation-{acting}"


def lake_horizons(method: str) -> tuple[int | None, ...]:
    """The dials at which a method is followed over the lake: in a hurry and with time, where it has one."""
    return (6, 24) if method in ("c-learning", "past-holes") else (None,)


def has_ended(folder: RunFolder) -> bool:
    """Whether a run came to its end; of a slim one, what was found out of it is all there is."""
    return folder.is_finished() or is_slim(folder)


def is_slim(folder: RunFolder) -> bool:
    """Whether all that is left of a run is what was found out of it, undamaged."""
    if folder.checkpoint_file.exists():
        return False
    names = [_evaluation_name(acting) for acting in ways_of_acting(folder.read()[0].method)]
    return all(_is_whole(_record(folder, name).get("found")) for name in names)


class Results:
    """All finished runs of some that were asked for."""

    def __init__(self, runs: Iterable[Run], stored: dict[str, RunFolder]):
        asked = {run.identity: run for run in runs}
        there = {i: stored[i] for i in asked if i in stored and has_ended(stored[i])}
        self.measured = [Measured(asked[i], folder) for i, folder in there.items()]

    def of(self, world: str, method: str, form: str) -> list[Measured]:
        """The runs of a method in a world, by seed."""
        key = (world, method, form)
        mine = [m for m in self.measured if (m.run.world, m.run.method, m.run.form) == key]
        return sorted(mine, key=lambda m: m.run.seed)

    def drawn(self, world: str, method: str, form: str) -> Measured | None:
        """The run that a figure shows of a method: the first seed whose agent is there."""
        return next((m for m in self.of(world, method, form) if m.folder.agent_file.exists()), None)

    def slim(self) -> None:
        """Keep of each run what a report needs: no checkpoint, and an agent only where a figure draws it."""
        shown = [self.drawn(world, method, form) for world, method, form in DRAWN]
        for measured in self.measured:
            if not is_slim(measured.folder):
                measured.find_out_everything()
            measured.folder.checkpoint_file.unlink(missing_ok=True)
            if measured not in shown:
                measured.folder.agent_file.unlink(missing_ok=True)

    def spread(
        self, world: str, who: Contestant, form: str, metric: str, stratum: str = "all"
    ) -> Spread | None:
        """A metric of the test goals of a stratum over seeds, shares in percent.

        Seeds of which it is not known are left out.
        """
        runs = self.of(world, who.method, form)
        found = [_mean(m.evaluation(who.acting), world, metric, stratum) for m in runs]
        return spread(found, _scale(metric))

    def difference(
        self, world: str, first: Contestant, second: Contestant, form: str, metric: str, stratum: str = "all"
    ) -> Difference | None:
        """How much larger a metric is for the first method than for the second, told goal by goal."""
        sides = []
        for who in (first, second):
            runs = self.of(world, who.method, form)
            rows = [_by_goal(m.evaluation(who.acting), world, metric, stratum) for m in runs]
            if not rows or np.isnan(np.stack(rows)).all():
                return None
            sides.append(np.stack(rows) * _scale(metric))
        return difference(*sides)

    def seeds(self) -> list[dict[str, Any]]:
        """A row for every run, discount and stratum that was evaluated: what the tables are made of."""
        kept = [
            (m, acting, m.kept_evaluation(acting))
            for m in self._by_title()
            for acting in ways_of_acting(m.run.method)
        ]
        return [
            {**m.label, "acting": acting, **row}
            for m, acting, found in kept
            if found is not None
            for row in _by_stratum(found, m.run.world)
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


def _scale(metric: str) -> float:
    """Shares are told in percent."""
    return 100.0 if metric in ("success", "held") else 1.0


def _is_whole(goals: Any) -> bool:
    """Whether a kept evaluation has a number, or a name, for every goal in each of its columns."""
    kinds = {"in_paper": bool, "stratum": str, "success": float}
    kinds |= {"steps": float, "distance": float, "final_distance": float}
    if isinstance(goals, dict) and "held" in goals:  # which older ones have not
        kinds["held"] = float
    if not isinstance(goals, dict) or not all(isinstance(goals.get(name), list) for name in kinds):
        return False
    sizes = {len(goals[name]) for name in kinds}
    small = lambda v: isinstance(v, int) and abs(v) <= LARGEST_WHOLE  # noqa: E731
    typed = all(isinstance(v, kind) or small(v) for name, kind in kinds.items() for v in goals[name])
    return typed and len(sizes) == 1


def _is_overlap(found: Any) -> bool:
    return (
        isinstance(found, list) and len(found) == len(CAR_HORIZONS) and all(type(x) is float for x in found)
    )


def _by_goal(goals: dict[str, Any], world: str, metric: str, stratum: str) -> np.ndarray:
    """What came of each of the paper's test goals of a stratum; NaN for a path that never arrived."""
    asked = np.array(goals["in_paper"], bool)
    if stratum != "all":
        asked &= np.array(goals["stratum"]) == stratum
    if metric != "path":
        unknown = np.full(len(asked), np.nan)  # who is held, in an older evaluation
        return np.array(goals.get(metric, unknown), float)[asked]
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


def curves_of(runs: Sequence[Measured]) -> np.ndarray:
    """Environment steps, and the test success of each run after as many, (1 + runs, points).

    Straight between two tests. Before the first nothing is known, which counts as nothing reached.
    """
    curves = [(m.metrics["env_steps"], m.metrics["eval_success"]) for m in runs]
    grid = np.linspace(0, min(steps[-1] for steps, _ in curves), 400)
    return np.stack([grid, *(np.interp(grid, steps, values, left=0.0) for steps, values in curves)])


def steps_to(runs: Sequence[Measured], success: float) -> float | None:
    """Environment steps after which the mean test success over seeds first is so large; None for never."""
    grid, *curves = curves_of(runs)
    above = np.flatnonzero(np.mean(curves, axis=0) >= success)
    return float(grid[above[0]]) if len(above) else None


class Soon(NamedTuple):
    """Environment steps to a success, or what bounds them: every test is below it, or the first is above."""

    bound: Literal["", "at most ", "over "]
    steps: float

    def __str__(self) -> str:
        return f"{self.bound}{self.steps:,.0f}"


def how_soon(runs: Sequence[Measured], success: float) -> Soon:
    """`steps_to`, or what is known of it."""
    if np.mean([m.metrics["eval_success"][0] for m in runs]) >= success:
        return Soon("at most ", max(float(m.metrics["env_steps"][0]) for m in runs))
    steps = steps_to(runs, success)
    if steps is None:
        return Soon("over ", min(float(m.metrics["env_steps"][-1]) for m in runs))
    return Soon("", steps)
