"""What the paper's text claims, and what our runs say to each."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from clearning import plots
from clearning.core.tabular import optimal_c
from clearning.envs import FrozenLake, make
from clearning.plots.reach import CAR_HORIZONS
from clearning.presets import preset
from clearning.reproduce.experiments import FORMS, METHODS, WORLDS, ways_of_acting
from clearning.reproduce.report import Cell, Section, Table, Text
from clearning.reproduce.results import WAYS, Contestant, Measured, Results, curves_of, how_soon
from clearning.reproduce.sections import FEW, exact_tolerances, told_apart
from clearning.reproduce.statistics import ENOUGH_SEEDS, ratio_of_steps

HOLDS, FAILS, PARTLY, OPEN, UNKNOWN = "holds", "does not hold", "in part", "not told apart", "no runs"
OVERLAP = 0.8  # of learned and true reachable sets; the paper shows pictures and gives no number
HALF = 1.5  # "roughly half the time": the other takes at least so many times the steps


class Finding(NamedTuple):
    """A verdict on a claim, the runs it rests on, and why."""

    verdict: str
    basis: str
    evidence: str


class Claim(NamedTuple):
    """A sentence of the paper, where it stands, and what judges it."""

    where: str
    text: str
    judge: Callable[[Results], Iterator[Finding]]


# Exact --------------------------------------------------------------------------------------------


def _error_tolerance(results: Results) -> Iterator[Finding]:
    for world, by_value in exact_tolerances().items():
        c, q, _ = (float(np.median(errors)) for errors in by_value.values())
        verdict = HOLDS if c > q else FAILS
        yield Finding(
            verdict, f"exact, {WORLDS[world]}", f"median tolerated error {c:.4f} (C*), {q:.4f} (Q*)"
        )


def _monotone(results: Results) -> Iterator[Finding]:
    fall = float(np.diff(optimal_c(FrozenLake().mdp, 50), axis=0).min())
    verdict = HOLDS if fall >= -1e-12 else FAILS
    yield Finding(
        verdict, "exact, Frozen lake", f"smallest change from h to h + 1 over everything: {fall:.1g}"
    )


# By counting seeds --------------------------------------------------------------------------------


def _count(found: Sequence[bool], form: str, world: str, what: str) -> Finding:
    told = f"{what} in {sum(found)} of {len(found)} seeds"
    return Finding(_verdict(found), f"{WORLDS[world]}, {FORMS[form]}", told)


def _verdict(found: Sequence[bool]) -> str:
    if len(found) < ENOUGH_SEEDS:
        return FEW
    return HOLDS if all(found) else PARTLY if any(found) else FAILS


def _both_ways(results: Results) -> Iterator[Finding]:
    for form in FORMS:
        runs = results.of("frozen-lake", "c-learning", form)
        if runs:
            found = [(m.way(6), m.way(24)) == ("direct", "around") for m in runs]
            yield _count(found, form, "frozen-lake", "direct with h = 6 and around with h = 24")


def _risky_only(results: Results) -> Iterator[Finding]:
    """Who gets nowhere takes neither way."""
    for form in FORMS:
        ways = [m.way(None) for m in results.of("frozen-lake", "gcsl", form)]
        if ways:
            verdict = OPEN if {*ways} == {"nowhere"} else _verdict([way == "direct" for way in ways])
            counts = ", ".join(f"{way} in {ways.count(way)}" for way in WAYS)
            yield Finding(
                verdict, f"{WORLDS['frozen-lake']}, {FORMS[form]}", f"{counts} of {len(ways)} seeds"
            )


def _reachability(results: Results) -> Iterator[Finding]:
    for form in FORMS:
        runs = results.of("dubins-reachability", "c-learning", form)
        if runs:
            overlap = [m.overlap() for m in runs]
            worst = np.min(overlap, axis=0)
            env = make("dubins-car", preset("dubins-reachability").env_options)
            everything = [*plots.reachable_share(env, CAR_HORIZONS).values()]
            what = (
                f"IoU with the true set at least {OVERLAP} at every h (worst: {_numbers(worst)}; of calling "
                f"all goals reachable: {_numbers(everything)})"
            )
            yield _count([min(o) >= OVERLAP for o in overlap], form, "dubins-reachability", what)


def _below_half(results: Results) -> Iterator[Finding]:
    for form in FORMS:
        found = results.spread("dubins-car", Contestant("monotone"), form, "success")
        if found:
            seeds = f"below 50 % ({_numbers(found.values)} %)"
            yield _count([v < 50 for v in found.values], form, "dubins-car", seeds)


# By comparing methods -----------------------------------------------------------------------------


def _compared(
    world: str, other: str, metric: str, wanted: int, stratum: str, method: str, results: Results
) -> Iterator[Finding]:
    """A method's metric is larger (wanted = 1) or smaller (−1) than another's."""
    pairs = [
        (Contestant(method, acting), Contestant(other, others))
        for acting in ways_of_acting(method)
        for others in ways_of_acting(other)
    ]
    for form in FORMS:
        for first, rival in pairs:
            found = results.difference(world, first, rival, form, metric, stratum)
            if found is None:
                continue
            numbers, _ = told_apart(found)
            open_or_few = OPEN if found.enough_seeds else FEW
            verdict = {0: open_or_few, wanted: HOLDS, -wanted: FAILS}[found.sign]
            what = f"{metric.replace('_', ' ')}{'' if stratum == 'all' else f' on {stratum} goals'}"
            evidence = f"{what}, {first.name} minus {rival.name}: {numbers}"
            yield Finding(verdict, f"{WORLDS[world]}, {FORMS[form]}", evidence)


def larger(
    world: str, other: str, metric: str = "success", stratum: str = "all", method: str = "c-learning"
) -> Callable[..., Iterator]:
    return partial(_compared, world, other, metric, 1, stratum, method)


def smaller(world: str, other: str, metric: str, stratum: str = "all") -> Callable[..., Iterator]:
    return partial(_compared, world, other, metric, -1, stratum, "c-learning")


def _sooner(worlds: Sequence[str], other: str, factor: float, results: Results) -> Iterator[Finding]:
    """C-learning needs fewer environment steps to 90 % of what the weaker of two methods ends with."""
    for world in worlds:
        for form in FORMS:
            sides = [results.of(world, method, form) for method in ("c-learning", other)]
            if all(sides):
                verdict, evidence = _race(sides, METHODS[other], factor)
                few = min(map(len, sides)) < ENOUGH_SEEDS
                yield Finding(FEW if few else verdict, f"{WORLDS[world]}, {FORMS[form]}", evidence)


def _race(sides: Sequence[Sequence[Measured]], rival: str, factor: float) -> tuple[str, str]:
    """Whether the first of two methods is there sooner, and how much."""
    mine, theirs = (float(np.mean([m.metrics["eval_success"][-1] for m in side])) for side in sides)
    mark = 0.9 * min(mine, theirs)
    if not mark:
        verdict = OPEN if mine == theirs else HOLDS if mine else FAILS
        return verdict, f"success in the end: {100 * mine:.1f} %, {rival} {100 * theirs:.1f} %"
    mine, theirs = (how_soon(side, mark) for side in sides)
    evidence = f"steps to {100 * mark:.0f} %: {mine}, {rival} {theirs}"
    if mine.bound and mine.bound == theirs.bound:
        return OPEN, evidence  # both there by the first test, or neither before the runs of one end
    ratio = ratio_of_steps(curves_of(sides[0]), curves_of(sides[1]), mark)
    evidence += f" (× {ratio.value:.2f} [{ratio.low:.2f}, {ratio.high:.2f}])"
    if ratio.low > 1:
        return HOLDS if ratio.value >= factor else PARTLY, evidence
    return FAILS if ratio.high < 1 else OPEN, evidence


def _together(*judges: Callable[[Results], Iterator[Finding]]) -> Callable[[Results], Iterator[Finding]]:
    return lambda results: (finding for judge in judges for finding in judge(results))


def _numbers(values: Sequence[float] | np.ndarray) -> str:
    return ", ".join(f"{v:.3g}" for v in values)


FETCH, HAND = "fetch-pick-and-place", "hand-manipulate-pen-full"
CLAIMS = (
    Claim("3.1", "Q* must be known more accurately than C* to act optimally", _error_tolerance),
    Claim("3, prop. 2", "C* does not fall with the horizon", _monotone),
    Claim("5.2", "C-learning learns the risky and the safe way over the lake", _both_ways),
    Claim("5.2", "GCSL takes the risky way, never the safe one", _risky_only),
    Claim("5.2", "The learned C tells which goals the car reaches in time", _reachability),
    Claim("table 1", "More goals than GCSL on the car", larger("dubins-car", "gcsl")),
    Claim("table 1", "More goals than HER on the car", larger("dubins-car", "her")),
    Claim("5.2", "Shorter paths than GCSL on the car", smaller("dubins-car", "gcsl", "path")),
    Claim("5.2", "Shorter paths than HER on the car", smaller("dubins-car", "her", "path")),
    Claim("5.2", "Ends nearer to the goal than GCSL", smaller("dubins-car", "gcsl", "final_distance")),
    Claim("appendix", "More goals than GCSL in the maze, the hard ones above all",
          _together(larger("mini-maze", "gcsl"), larger("mini-maze", "gcsl", stratum="hard"))),
    Claim("appendix", "More goals than HER in the maze", larger("mini-maze", "her")),
    Claim("appendix", "GCSL, too, reaches more goals than HER there",
          larger("mini-maze", "her", method="gcsl")),
    Claim("appendix", "A-learning reaches fewer goals", larger("dubins-car", "a-learning")),
    Claim("appendix", "A-learning's paths are shorter", larger("dubins-car", "a-learning", "path")),
    Claim("appendix", "D-learning reaches fewer goals", larger("dubins-car", "d-learning")),
    Claim("appendix", "D-learning's paths are shorter", larger("dubins-car", "d-learning", "path")),
    Claim("appendix", "A network monotone in h succeeds in less than half of the goals", _below_half),
    Claim("appendix", "It reaches fewer goals than a free network", larger("dubins-car", "monotone")),
    Claim("appendix", "Naive horizon-aware Q needs about twice as long",
          partial(_sooner, (FETCH, "dubins-car"), "naive-q", HALF)),
    Claim("appendix", "So does drawing h uniformly",
          partial(_sooner, (FETCH, "dubins-car"), "uniform-h", HALF)),
    Claim("appendix", "Outperforms TDMs",
          _together(*(larger(world, "tdm") for world in (FETCH, HAND, "dubins-car")))),
    Claim("6", "Learns sooner than Q-learning",
          _together(partial(_sooner, ("dubins-car", "mini-maze"), "her", 1.0),
                    partial(_sooner, (FETCH, HAND), "td3", 1.0))),
    Claim("table 1", "More goals than HER (TD3) on FetchPickAndPlace", larger(FETCH, "td3")),
    Claim("table 1", "More goals than HER (TD3) on HandManipulatePenFull", larger(HAND, "td3")),
    Claim("table 1", "Shorter paths than HER (TD3) on both",
          _together(smaller(FETCH, "td3", "path"), smaller(HAND, "td3", "path"))),
)  # fmt: skip


def verdicts(results: Results, figures: Path) -> Section:
    """A verdict on each claim for each form in which it was tried."""
    rows = []
    for claim in CLAIMS:
        findings = [*claim.judge(results)] or [Finding(UNKNOWN, "", "")]
        for i, found in enumerate(findings):
            told = (claim.where, claim.text) if i == 0 else ("", "")
            bold = found.verdict in (HOLDS, FAILS)
            rows.append([*told, Cell(found.verdict, bold), found.basis, found.evidence])
    text = (
        f"From the runs that exist. Two methods are called different where a 95 % interval of their "
        f"difference, by a hierarchical bootstrap over seeds and goals, leaves out 0, or one of the ratio of "
        f"their steps, by a bootstrap over seeds, leaves out 1, and each has at least {ENOUGH_SEEDS} seeds; "
        f"otherwise a claim is left open. Of robots fewer seeds are trained unless asked for, which leaves "
        f"theirs open. Claims on single runs say in how many seeds they hold. Many claims are judged here at "
        f"once: with 95 % intervals, about one in twenty differences that are none would be called one."
    )
    return Section("Claims", [Text(text), Table(["section", "claim", "verdict", "basis", "evidence"], rows)])
