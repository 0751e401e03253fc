"""What the report says of each table and figure, from the runs that are there."""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from clearning import plots
from clearning.config import Config
from clearning.envs import FrozenLake, MiniMaze, make
from clearning.errors import ClearningError
from clearning.plots.reach import CAR_HORIZONS
from clearning.plots.style import save
from clearning.presets import preset
from clearning.recording import picture_of
from clearning.report.tables import paper_results
from clearning.reproduce.experiments import (
    CAR,
    FORMS,
    METHODS,
    NEEDS,
    ROBOT_STEPS,
    WORLDS,
    robots_installed,
    ways_of_acting,
)
from clearning.reproduce.report import Block, Cell, Picture, Section, Table, Text
from clearning.reproduce.results import Contestant, Results, how_soon, lake_horizons
from clearning.reproduce.statistics import Difference, Spread, best_or_near

STRATA = ("easy", "medium", "hard", "all")
PAPER_NAMES = {"c-learning": "c-learning-td3", "td3": "her-td3"}  # of the methods on robots
NOTHING = "–"
FEW = "too few seeds to say"
BOLD = (
    "Bold by the paper's rule, within each source: the best, or a mean within the error bars of the best. "
    "Mean ± standard deviation (population) over seeds. The interquartile mean (IQM) of three is their mean."
)
UNITS = {
    "mini-maze": "On the paper's 483 goals, without the doorways. Path length in steps.",
    "dubins-car": "Path length is the distance travelled (L∞), which the paper's figures can only be.",
}


# Tables -------------------------------------------------------------------------------------------


def table_1(results: Results, figures: Path) -> Section:
    """Success and path length on all goals of each world."""
    section = Section("Table 1: C-learning and its peers")
    for world, methods in NEEDS["table-1"].items():
        section.blocks.append(Text(f"{WORLDS[world]}. {_unit(world)}"))
        if world in ROBOT_STEPS and not any(results.of(world, m, f) for m in methods for f in FORMS):
            section.blocks.append(Text("No finished run; robots are trained with --robots yes."))
        section.blocks += comparison(results, world, rows_of(methods), ("all",))
    section.blocks.append(Text(BOLD))
    return section


def rows_of(methods: Sequence[str]) -> list[Contestant]:
    """A row for each way in which each method acts."""
    return [Contestant(method, acting) for method in methods for acting in ways_of_acting(method)]


def while_training(method: str) -> str:
    """A method's name where it is shown as it was tested in training: in one way, if it could act in more."""
    own = {"gcsl": ", likeliest actions", "d-learning": f", γ = {preset('d-learning/dubins-car').discount:g}"}
    return METHODS[method] + own.get(method, "")


def by_difficulty(
    title: str, world: str, rows: Sequence[Contestant], note: str = ""
) -> Callable[..., Section]:
    """A table of one world by the difficulty of its goals (tables 2 to 4)."""

    def table(results: Results, figures: Path) -> Section:
        blocks = comparison(results, world, rows, STRATA)
        soon = steps_to_the_papers(results, world, [who.method for who in rows])
        ends = at_the_last_step(results, world, rows)
        return Section(title, [Text(f"{_unit(world)} {note}".strip()), *blocks, Text(BOLD), *soon, *ends])

    return table


def at_the_last_step(results: Results, world: str, contestants: Sequence[Contestant]) -> list[Block]:
    """Success by the last step alone, which is how hindsight replay was judged where it comes from."""
    rows = []
    for who in contestants:
        (theirs,) = _paper_row(world, who, [("success", "all")])
        for form, name in FORMS.items():
            if found := results.spread(world, who, form, "held"):
                ours = _plus_minus(_pair(found), "success")
                values = ", ".join(f"{v:.2f}" for v in found.values)
                rows.append([who.name, f"ours, {name}", _plus_minus(theirs, "success"), ours, values])
    if not rows:
        return []
    text = (
        "Elsewhere in this report an episode ends when it reaches its goal. Here it goes on to its full "
        "length, and counts if its last step is at the goal, where neither C-learning nor HER is taught to "
        "stay. Of the seeds of which this is known."
    )
    return [Text(text), Table(["method", "source", "the paper's success", "at the last step", "seeds"], rows)]


def steps_to_the_papers(results: Results, world: str, methods: Sequence[str]) -> list[Block]:
    """After how many environment steps each method has what the paper's C-learning ends with."""
    percent = paper_results()[world]["c-learning"]["success"]["all"][0]
    mark = percent / 100
    ours = results.of(world, "c-learning", "")
    base = how_soon(ours, mark) if ours else None
    first = base.steps if base and not base.bound else None  # nothing is a multiple of a bound
    rows = []
    for method in dict.fromkeys(methods):
        for form, name in FORMS.items():
            if runs := results.of(world, method, form):
                soon = how_soon(runs, mark)
                ratio = f"{soon.bound}{soon.steps / first:.2f}" if first else NOTHING
                rows.append([while_training(method), f"ours, {name}", str(soon), ratio])
    if not rows:
        return []
    text = (
        f"Environment steps, exploration included, after which the mean over seeds first is at {percent} %, "
        f"where the paper's C-learning ends; on all test goals of ours. Tests come every so many episodes: "
        f"between two, the mean is taken to follow a straight line; who is there by the first has a bound."
    )
    return [Text(text), Table(["method", "source", "steps", "times those of C-learning, all horizons"], rows)]


def _unit(world: str) -> str:
    if world in ROBOT_STEPS:
        steps = " and ".join(f"{ROBOT_STEPS[world][form]:,} ({name})" for form, name in FORMS.items())
        return (
            f"Environment steps of every method: {steps}, a fifth of it with the quick budget; far fewer "
            f"than the paper's. Its form is here one horizon as an input of critics and actor; exploration, "
            f"goals, rates and networks are those of our presets. Path length in steps, counted from 0."
        )
    return UNITS.get(world, "")


def comparison(
    results: Results, world: str, contestants: Sequence[Contestant], strata: Sequence[str]
) -> list[Block]:
    """The paper's numbers and ours, every seed of ours, and which methods can be told apart."""
    columns = [(metric, stratum) for metric in ("success", "path") for stratum in strata]
    groups = {"paper": [_paper_row(world, who, columns) for who in contestants]}
    spreads: dict[str, list[list[Spread | None]]] = {}
    for form, name in FORMS.items():
        spreads[form] = [[results.spread(world, who, form, *c) for c in columns] for who in contestants]
        groups[name] = [[s and _pair(s) for s in row] for row in spreads[form]]
    bold = {name: _bold(rows, columns) for name, rows in groups.items()}
    rows, told_of = [], set()
    for i, who in enumerate(contestants):
        for name, group in groups.items():
            if name == "paper" and who.method in told_of:
                continue  # the paper does not say how it acted, so its row stands for all ways
            texts = [_plus_minus(pair, metric) for pair, (metric, _) in zip(group[i], columns, strict=True)]
            if all(t == NOTHING for t in texts):
                continue
            cells = [Cell(t, b) for t, b in zip(texts, bold[name][i], strict=True)]
            if name == "paper":
                told_of.add(who.method)
                rows.append([METHODS[who.method], "the paper", *cells])
            else:
                rows.append([who.name, f"ours, {name}", *cells])
    heads = [f"{metric}{'' if stratum == 'all' else f', {stratum}'}" for metric, stratum in columns]
    blocks: list[Block] = [Table(["method", "source", *heads], rows)]
    if seeds := _every_seed(results, world, contestants):
        blocks += [Table(["method", "source", "metric", "every seed", "IQM [95 % interval]"], seeds)]
    if told := _differences(results, world, contestants):
        headings = ["C-learning minus", "form", "success, points", "", "path", ""]
        blocks += [Table(headings, told)]
    return blocks


def _paper_row(world: str, who: Contestant, columns: Sequence[tuple[str, str]]) -> list[Any]:
    name = PAPER_NAMES.get(who.method, who.method) if world in ROBOT_STEPS else who.method
    told = paper_results().get(world, {}).get(name, {})
    return [tuple(pair) if (pair := told.get(m, {}).get(s)) else None for m, s in columns]


def _bold(rows: Sequence[Sequence[Any]], columns: Sequence[tuple[str, str]]) -> list[list[bool]]:
    marks = [
        best_or_near([row[k] and (row[k][0], row[k][1] or 0.0) for row in rows], largest=metric == "success")
        for k, (metric, _) in enumerate(columns)
    ]
    return [list(row) for row in zip(*marks, strict=True)]


def _pair(found: Spread) -> tuple[float, float | None]:
    """Mean and deviation; a single seed has none."""
    return found.mean, found.deviation if len(found.values) > 1 else None


def _plus_minus(pair: tuple[float, float | None] | None, metric: str) -> str:
    if pair is None:
        return NOTHING
    mean, deviation = pair
    percent = " %" if metric == "success" else ""
    if deviation is None:
        return f"{mean:.2f}{percent} (1 seed)"
    return f"{mean:.2f} ± {deviation:.2f}{percent}"


def _every_seed(results: Results, world: str, contestants: Sequence[Contestant]) -> list[list[str]]:
    rows = []
    for who in contestants:
        for form, name in FORMS.items():
            for metric in ("success", "path"):
                found = results.spread(world, who, form, metric)
                if found is None:
                    continue
                values = ", ".join(f"{v:.2f}" for v in found.values)
                low, high = found.interval
                interval = f"{found.middle:.2f} [{low:.2f}, {high:.2f}]" if len(found.values) > 1 else NOTHING
                rows.append([who.name, f"ours, {name}", metric, values, interval])
    return rows


def _differences(results: Results, world: str, contestants: Sequence[Contestant]) -> list[list[str]]:
    first, *others = contestants
    rows = []
    for who in others:
        for form, name in FORMS.items():
            found = [results.difference(world, first, who, form, metric) for metric in ("success", "path")]
            if any(found):
                rows.append([who.name, name, *(text for d in found for text in told_apart(d))])
    return rows


def told_apart(found: Difference | None) -> tuple[str, str]:
    """A difference with its interval, and whether the methods can be told apart by it."""
    if found is None:
        return NOTHING, NOTHING
    numbers = f"{found.value:+.2f} [{found.low:+.2f}, {found.high:+.2f}]"
    if not found.enough_seeds:
        return numbers, FEW
    return numbers, "different" if found.sign else "not told apart"


# Figures without training -------------------------------------------------------------------------


@lru_cache(maxsize=1)
def exact_tolerances() -> dict[str, dict[str, np.ndarray]]:
    """Errors that C* and Q* tolerate, by world: exact, and the same whatever was trained."""
    return {"mini-maze": plots.tolerances(MiniMaze()), "frozen-lake": plots.tolerances(FrozenLake())}


def figure_1b(results: Results, figures: Path) -> Section:
    """The paper's example, and what becomes of it in whole worlds."""
    found = exact_tolerances()
    rows = [
        [WORLDS[world], name.replace("$h_α$", "h_α"), f"{np.median(errors):.4f}", f"{errors.min():.2g}"]
        for world, by_value in found.items()
        for name, errors in by_value.items()
    ]
    text = (
        "By dynamic programming, nothing learned. Left: the paper's example. Middle and right: over states "
        "and goals of a world, the largest error in any value with which the greedy action is still a best "
        "one, at the exact h_α. Where nothing slips, C* at its smallest sufficient horizon jumps from 0 to 1 "
        "and tolerates any error below 0.5; on the slippery lake there is no such jump. An agent that picks "
        "h_α by the same values, as far as they are probabilities, tolerates 1 − α of it: from there on a "
        "later horizon may be picked, at which other actions are as good."
    )
    headings = ["world", "value", "tolerated error, median", "smallest"]
    return Section(
        "Figure 1b: how accurately Q* and C* must be known",
        [Text(text), _picture(plots.accuracy_needed(found), figures / "figure-1b.png", "Figure 1b"),
         Table(headings, rows)],
    )  # fmt: skip


def figure_environments(results: Results, figures: Path) -> Section:
    """The worlds; robots where they can be drawn."""
    pictures, left_out = {}, []
    for world in ROBOT_STEPS if robots_installed() else ():
        try:
            pictures[WORLDS[world]] = picture_of(Config(env=preset(world).env))
        except ClearningError as error:
            left_out.append(Text(f"Left out: {error}"))
    if not robots_installed():
        left_out.append(Text("Fetch and Hand are left out: gymnasium-robotics is not installed."))
    text = (
        "Arrows show the directions of the actions, not their length. Dubins' car turns by up to 10° (drawn "
        "as 30°) while it moves forward or backward, or stays where it is; the mini maze is the appendix's."
    )
    picture = _picture(plots.environments(pictures), figures / "environments.png", "The experiments' worlds")
    return Section("Environments", [Text(text), picture, *left_out])


def figure_difficulties(results: Results, figures: Path) -> Section:
    """Easy, medium and hard goals."""
    caption = "Test goals by difficulty"
    picture = _picture(plots.difficulties(), figures / "difficulties.png", caption)
    return Section("Difficulty of the test goals", [picture])


# Figures of trained agents ------------------------------------------------------------------------


def figure_3a(results: Results, figures: Path) -> Section:
    """Ways over the lake by horizon and by method, of the first seed."""
    section = Section("Figure 3a: policies on the frozen lake")
    for form, name in FORMS.items():
        panels = []
        for method in NEEDS["figure-3a"]["frozen-lake"]:
            if m := results.drawn("frozen-lake", method, form):
                horizons = lake_horizons(method)
                name_above = METHODS[method].replace(", ", ",\n")
                panels += [(name_above + (f"\nh = {h}" if h else ""), m.agent, h) for h in horizons]
        if panels:
            figure = plots.compare_lake_ways(panels, FrozenLake())
            section.blocks.append(
                _picture(figure, figures / f"figure-3a-{_slug(name)}.png", f"Ours, {name}, first seed")
            )
    if rows := [*_lake_ways(results)]:
        text = (
            "The most likely way of every seed: direct, between the holes; around them; or nowhere, where it "
            "does not come to the goal."
        )
        section.blocks += [Text(text), Table(["method", "source", "h", "way of every seed"], rows)]
    return _or_missing(section)


def _lake_ways(results: Results) -> Iterator[list[str]]:
    for method in NEEDS["figure-3a"]["frozen-lake"]:
        for form, name in FORMS.items():
            if runs := results.of("frozen-lake", method, form):
                for h in lake_horizons(method):
                    ways = ", ".join(m.way(h) for m in runs)
                    yield [METHODS[method], f"ours, {name}", str(h or NOTHING), ways]


def figure_3b(results: Results, figures: Path) -> Section:
    """Heat maps of C beside the truly reachable goals, of the first seed; overlaps of all."""
    section, rows = Section("Figure 3b: reachability of Dubins' car"), []
    env = make("dubins-car", preset("dubins-reachability").env_options)
    for form, name in FORMS.items():
        for m in results.of("dubins-reachability", "c-learning", form):
            rows.append([f"ours, {name}", str(m.run.seed), *(f"{v:.3f}" for v in m.overlap())])
        if shown := results.drawn("dubins-reachability", "c-learning", form):
            file = figures / f"figure-3b-{_slug(name)}.png"
            figure = plots.heat_maps(shown.agent, env)
            section.blocks.append(_picture(figure, file, f"Ours, {name}, first seed"))
    if rows:
        everything = plots.reachable_share(env, CAR_HORIZONS)
        rows.append(["all goals called reachable", NOTHING, *(f"{v:.3f}" for v in everything.values())])
        headings = ["source", "seed", *(f"IoU with the truth, h = {h}" for h in CAR_HORIZONS)]
        section.blocks.append(Table(headings, rows))
    return _or_missing(section)


def figure_3c(results: Results, figures: Path) -> Section:
    """Ways of the car by method, of the first seed."""
    section = Section("Figure 3c: trajectories of Dubins' car")
    for form, name in FORMS.items():
        agents = {}
        for method in NEEDS["figure-3c"]["dubins-car"]:
            if m := results.drawn("dubins-car", method, form):
                agents[METHODS[method]] = m.agent
        if agents:
            figure = plots.compare_trajectories(agents, make("dubins-car"))
            file = figures / f"figure-3c-{_slug(name)}.png"
            section.blocks.append(_picture(figure, file, f"Ours, {name}, first seed"))
    return _or_missing(section)


def curves(title: str, target: str, tables: bool = False) -> Callable[..., Section]:
    """Test success while training, every seed of each method; with a table of each world, what came of it."""

    def draw(results: Results, figures: Path) -> Section:
        section = Section(title)
        for form, name in FORMS.items():
            panels: dict[str, Any] = {}
            for world, methods in NEEDS[target].items():
                found = {while_training(m): results.of(world, m, form) for m in methods}
                by_method = {name: [m.folder for m in runs] for name, runs in found.items() if runs}
                if by_method:
                    panels[WORLDS[world]] = by_method
            if panels:
                figure = plots.compare_curves(panels, f"Success while training: {name}")
                file = figures / f"{target}-{_slug(name)}.png"
                section.blocks.append(_picture(figure, file, f"Ours, {name}"))
        for world, methods in NEEDS[target].items() if tables and section.blocks else ():
            if any(results.of(world, m, f) for m in methods for f in FORMS):
                section.blocks.append(Text(f"{WORLDS[world]}. {_unit(world)}"))
                section.blocks += comparison(results, world, rows_of(methods), ("all",))
        return _or_missing(section)

    return draw


def _picture(figure: Figure, path: Path, caption: str) -> Picture:
    return Picture(save(figure, path), caption)


def _slug(name: str) -> str:
    return name.replace("'", "").replace(" ", "-")


def _or_missing(section: Section) -> Section:
    if not section.blocks:
        section.blocks.append(Text("There is no finished run to show."))
    return section


SECTIONS: dict[str, Callable[[Results, Path], Section]] = {
    "table-1": table_1,
    "table-2": by_difficulty("Table 2: mini maze by difficulty", "mini-maze", rows_of(CAR)),
    "table-3": by_difficulty("Table 3: Dubins' car by difficulty", "dubins-car", rows_of(CAR)),
    "table-4": by_difficulty(
        "Table 4: A- and D-learning",
        "dubins-car",
        rows_of(NEEDS["table-4"]["dubins-car"]),
        "D-learning has γ as an input in both forms; they differ in its other settings.",
    ),
    "figure-1b": figure_1b,
    "figure-environments": figure_environments,
    "figure-difficulties": figure_difficulties,
    "figure-3a": figure_3a,
    "figure-3b": figure_3b,
    "figure-3c": figure_3c,
    "figure-3d": curves("Figure 3d: success while training", "figure-3d"),
    "figure-ablation": curves("Ablations: horizons and monotone networks", "figure-ablation", tables=True),
    "figure-tdm": curves("Temporal difference models", "figure-tdm", tables=True),
}
