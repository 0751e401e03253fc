"""`clearning reproduce`: the paper's tables and figures, from training to a report.

experiments  which methods, worlds and settings each table and figure needs
runner       trains what is missing
results      evaluates what is finished
statistics   what few seeds can tell
sections     the tables and figures; claims: the verdicts
report       Markdown and HTML
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from clearning.files import read_json
from clearning.reproduce.claims import verdicts
from clearning.reproduce.experiments import NEEDS, Budget, needed, targets, with_robots
from clearning.reproduce.report import Section, Table, Text, write_report, write_rows
from clearning.reproduce.results import Results
from clearning.reproduce.runner import TrainingsFailed, stored_runs, train_missing
from clearning.reproduce.sections import SECTIONS
from clearning.runs import versions

__all__ = ["reproduce"]

MAKERS = {**SECTIONS, "claims": verdicts}


def reproduce(
    what: str,
    seeds: Sequence[int] = (),
    budget: Budget = "paper",
    jobs: int = 1,
    out: str | Path = "reproduction",
    robots: Literal["auto", "yes", "no"] = "auto",
    train: bool = True,
    slim: bool = False,
) -> tuple[Path, Path]:
    """Train what a table, a figure or all of them need and is not there, and write the report.

    Returns the paths of its Markdown and its HTML page; seeds.csv and curves.csv beside them hold the
    numbers. Without `train`, only what is there is shown. With `slim`, only what a report needs is kept of
    the finished runs.
    """
    asked = targets(what)
    use = tuple(seeds)
    include = with_robots(budget, robots)
    folder = Path(out)
    runs_folder = folder / "runs"
    to_train = [run for target in asked for run in needed(target, use, budget, include)]
    failure = None
    if train and to_train:
        try:
            train_missing(to_train, runs_folder, jobs)
        except TrainingsFailed as error:
            failure = error  # the report shows what did finish
    # Claims are judged by all that is there, whatever it was trained for.
    shown = list(NEEDS) if "claims" in asked else asked
    runs = [run for target in shown for run in needed(target, use, budget, True)]
    results = Results(runs, stored_runs(runs_folder))
    sections = [MAKERS[target](results, folder / "figures") for target in asked]
    done = {m.run.identity for m in results.measured}
    missing = len({run.identity for run in to_train} - done)
    sections.append(_origin(what, use, budget, results, include, missing))
    write_rows(folder / "seeds.csv", results.seeds())
    write_rows(folder / "curves.csv", results.curves())
    pages = write_report(f"Reproduction: {what}", sections, folder)
    if slim:
        results.slim()
    if failure:
        raise failure
    return pages


def _origin(
    what: str, seeds: Sequence[int], budget: Budget, results: Results, robots: bool, missing: int
) -> Section:
    """Commands, seeds, versions and hours."""
    section = Section("Where this comes from")
    listed = f" --seeds {','.join(map(str, seeds))}" if seeds else ""
    with_them = "yes" if robots else "no"
    command = f"clearning reproduce {what} --budget {budget}{listed} --robots {with_them}"
    section.blocks += [Text(command, code=True)]
    measured = sorted(results.measured, key=lambda m: m.run.title)
    hours = sum(m.hours for m in measured)
    lacking = "1 run is" if missing == 1 else f"{missing} runs are"
    short = f" {lacking} missing." if missing else ""
    section.blocks.append(
        Text(f"{len(measured)} finished runs, {hours:.2f} hours of training in all.{short}")
    )
    if measured:
        rows = []
        for m in measured:
            env_steps = f"{m.metrics['env_steps'][-1]:,.0f}"
            told = " ".join(["clearning train", *m.run.arguments()])
            rows.append([told, env_steps, f"{m.metrics['updates'][-1]:,.0f}", f"{m.hours:.2f}"])
        section.blocks.append(Table(["command", "environment steps", "updates", "hours"], rows))
    section.blocks.append(Table(["package", "versions"], _versions(results)))
    return section


def _versions(results: Results) -> list[list[str]]:
    """What was used to train and to evaluate; more than one version where they differ."""
    found: dict[str, set[str]] = {name: {version} for name, version in versions().items()}
    for measured in results.measured:
        for name, version in read_json(measured.folder.path / "versions.json").items():
            found.setdefault(name, set()).add(str(version))
    return [[name, ", ".join(sorted(each))] for name, each in found.items()]
