"""The progress bar, and plain lines where nobody watches."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from clearning.training import Status

PLAIN_SECONDS = 15.0  # between two plain lines, at least


@contextmanager
def progress_display(title: str, quiet: bool = False) -> Iterator[Callable[[Status], None]]:
    """A live bar on a terminal; in a log file or CI, a line at each evaluation and every few seconds."""
    console = Console(stderr=True)
    if quiet:
        yield lambda status: None
        return
    if not console.is_terminal:
        yield _plain_lines(title)
        return
    bar = Progress(
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[numbers]}"),
        TimeRemainingColumn(compact=True),
        TextColumn("left"),
        console=console,
        refresh_per_second=4,
    )
    with bar:
        task = bar.add_task(title, total=1.0, numbers="compiling")
        yield lambda status: bar.update(task, completed=status.progress, numbers=describe(status))


def _plain_lines(title: str) -> Callable[[Status], None]:
    last_time, last_row = time.monotonic(), None

    def show(status: Status) -> None:
        nonlocal last_time, last_row
        row = status.last_evaluation and status.last_evaluation["updates"]
        if row == last_row and time.monotonic() - last_time < PLAIN_SECONDS:
            return
        last_time, last_row = time.monotonic(), row
        with suppress(OSError):  # a log on a full disk must not end the training
            print(f"{title}: {100 * status.progress:.0f} %, {describe(status)}", file=sys.stderr, flush=True)

    return show


def describe(status: Status) -> str:
    """The numbers that matter, in one line."""
    count, of = status.counters, status.config.episodes
    kind = "recorded episodes" if status.config.from_episodes else "episodes"
    parts = [
        f"{count.episodes}{f'/{of}' if of else ''} {kind}",
        f"{count.env_steps:,} steps",
        f"{status.updates_per_second:,.0f} updates/s",
    ]
    if status.train_success is not None:
        parts.append(f"training goals {100 * status.train_success:.0f} %")
    if status.last_evaluation and status.last_evaluation["eval_success"] is not None:
        parts.append(f"test {100 * status.last_evaluation['eval_success']:.1f} %")
    return ", ".join(parts)
