"""The command line: `clearning train`, `eval`, `plot`, `video` and the other commands below."""

import difflib
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from clearning.cli import arguments, commands, training
from clearning.cli.modules import look_here_too
from clearning.cli.output import say
from clearning.errors import ClearningError, UsageError

COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
    "eval": (arguments.EvalArgs, commands.eval_command),
    "plot": (arguments.PlotArgs, commands.plot_command),
    "video": (arguments.VideoArgs, commands.video_command),
    "explore": (arguments.ExploreArgs, commands.explore_command),
    "presets": (arguments.PresetsArgs, commands.presets_command),
    "resume": (arguments.ResumeArgs, training.resume_command),
    "oracle": (arguments.OracleArgs, commands.oracle_command),
    "ask": (arguments.AskArgs, commands.ask_command),
    "calibrate": (arguments.CalibrateArgs, commands.calibrate_command),
    "export": (arguments.ExportArgs, commands.export_command),
    "check-env": (arguments.CheckEnvArgs, commands.check_env_command),
    "reproduce": (arguments.ReproduceArgs, commands.reproduce_command),
}


def main(argv: list[str] | None = None) -> None:
    """Run a command; exit with 2 for wrong usage, 1 for anything else that failed."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        _dispatch(argv)
    except UsageError as error:
        _fail(error, 2)
    except ClearningError as error:
        _fail(error, getattr(error, "exit_code", 1))
    except KeyboardInterrupt:
        _fail(ClearningError("Interrupted."), 130)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(0)


def _dispatch(argv: list[str]) -> None:
    if not argv or argv[0] in ("-h", "--help"):
        _print_overview()
        return
    if argv[0] == "--version":
        from clearning.runs import package_version

        print(package_version())
        return
    if argv[0] == "--import":
        _import(argv[1] if len(argv) > 1 else "")
        _dispatch(argv[2:])
        return
    command, rest = argv[0], argv[1:]
    if command == "train":
        training.train_command(rest)
    elif command in COMMANDS:
        kind, run = COMMANDS[command]
        run(tyro.cli(kind, args=rest, prog=f"clearning {command}", description=inspect.getdoc(kind)))
    else:
        raise UsageError(f"There is no command '{command}'. {_nearest(command, ['train', *COMMANDS])}")


def _import(module: str) -> None:
    """What a run folder names but must not import by itself: the module of its environment."""
    look_here_too()
    try:
        importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise UsageError(f"--import takes a module that can be imported, not '{module}': {error}.") from error


def _print_overview() -> None:
    console = Console()
    console.print(
        "[bold]clearning[/]: how surely can a goal be reached within h steps, and how to get there.\n"
    )
    table = Table("command", "what it does", box=None, pad_edge=False)
    for name, kind in {"train": arguments.TrainArgs, **{n: k for n, (k, _) in COMMANDS.items()}}.items():
        table.add_row(f"[bold]clearning {name}[/]", (inspect.getdoc(kind) or "").splitlines()[0])
    console.print(table)
    console.print("\nStart with `clearning train dubins-car`; each command explains itself with --help.")
    console.print(
        "A run whose environment is in a module of yours is opened with "
        "`clearning --import MODULE COMMAND RUN`: a run folder imports nothing by itself."
    )


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean '{near[0]}'?" if near else f"The commands are {', '.join(known)}."


def _fail(error: ClearningError, code: int) -> None:
    say(f"clearning: {error}")
    sys.exit(code)
