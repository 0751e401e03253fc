"""Records as tables for people, beside the paper's own figures."""

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

# What a table can show: the name in a summary, the heading, and what a value is multiplied by.
COLUMNS = (
    ("success", "success, %", 100),
    ("held", "held, %", 100),
    ("reached_at_reset", "at reset, %", 100),
    ("steps", "steps", 1),
    ("optimal_steps", "optimum", 1),
    ("distance", "distance", 1),
)

PAPER_NAMES = {"success": "success", "distance": "path"}


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
