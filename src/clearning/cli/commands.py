"""The commands that ask something of trained runs and of environments."""

import inspect
import json
import webbrowser

from rich.console import Console
from rich.table import Table

from clearning.cli.arguments import (
    AskArgs,
    CalibrateArgs,
    CheckEnvArgs,
    EvalArgs,
    ExploreArgs,
    ExportArgs,
    OracleArgs,
    PlotArgs,
    PresetsArgs,
    ReproduceArgs,
    VideoArgs,
)
from clearning.cli.modules import look_here_too
from clearning.cli.output import say
from clearning.cli.training import parse_seeds
from clearning.errors import ClearningError, UsageError


def eval_command(args: EvalArgs) -> None:
    from clearning.report import dials, evaluation, tables
    from clearning.report.opening import dial_from

    dial = dial_from(args.alpha, args.horizon, args.receding, args.discount)
    if bool(args.state) != bool(args.goal):
        raise UsageError("--state and --goal go together: give both or neither.")
    if args.episodes is not None and args.episodes < 1:
        raise UsageError(f"--episodes must be at least 1, not {args.episodes}.")
    if args.dial:
        if dial or args.state:
            raise UsageError("--dial tries many horizons and alphas on the test goals: give it alone.")
        turned = dials.turn_dials(args.run, args.eval_seed, args.episodes)
        print(json.dumps(turned)) if args.json else tables.print_dials(turned)
        return
    if args.state:
        pair = (_parse_numbers(args.state, "--state"), _parse_numbers(args.goal, "--goal"))
        found = evaluation.evaluate_pair(args.run, dial, *pair, args.rollouts, args.eval_seed)
    else:
        found = evaluation.evaluate_runs(args.run, dial, args.eval_seed, args.episodes)
    if args.json:
        print(json.dumps(found))
    else:
        tables.print_evaluation(found)


def plot_command(args: PlotArgs) -> None:
    from clearning.plots import plot_run

    for path in plot_run(args.run, args.out or None):
        print(path)


def video_command(args: VideoArgs) -> None:
    from clearning.report.opening import dial_from
    from clearning.video import write_video

    dial = dial_from(args.alpha, args.horizon)
    print(write_video(args.run, args.out or None, args.episodes, dial, args.seed, args.fps))


def explore_command(args: ExploreArgs) -> None:
    try:
        from clearning.explore.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "starlette", "uvicorn"):
            raise
        raise UsageError("The page needs the extra: pip install 'clearning[explore]'.") from error
    from clearning.explore.views import open_views

    def ready(url: str) -> None:
        say(f"Explore at {url} (Ctrl-C ends it).")
        if args.open:
            webbrowser.open(url)

    views = open_views([run for run in (args.run, args.run2) if run], args.episodes)
    serve(views, args.host, args.port, args.names, ready)


def presets_command(args: PresetsArgs) -> None:
    from clearning.presets import PEERS, PRESETS

    table = Table("preset", "what it is", "length", box=None, pad_edge=False)
    for name, build in PRESETS.items():
        first_line = (inspect.getdoc(build) or "").splitlines()[0]
        config = build()
        length = f"{config.episodes:,} episodes" if config.episodes else f"{config.env_steps:,} steps"
        table.add_row(f"[bold]{name}[/]", first_line, length)
    methods = Table("prefix", "the same by another method, as in `clearning train gcsl/dubins-car`", box=None)
    methods.pad_edge = False
    for name, change in PEERS.items():
        methods.add_row(f"[bold]{name}/[/]", (inspect.getdoc(change) or "").splitlines()[0])
    console = Console()
    console.print(table)
    console.print()
    console.print(methods)


def oracle_command(args: OracleArgs) -> None:
    from clearning.report.exact import oracle

    state, goal = _parse_numbers(args.state, "--state"), _parse_numbers(args.goal, "--goal")
    answer = oracle(args.env, args.env_options, state, goal, args.horizon)
    if args.json:
        print(json.dumps(answer))
    else:
        for name, value in answer.items():
            print(f"{name}: {value}")


def ask_command(args: AskArgs) -> None:
    from clearning.report.questions import ask
    from clearning.report.tables import print_answer

    pair = (_parse_numbers(args.state, "--state"), _parse_numbers(args.goal, "--goal"))
    answer = ask(args.run, *pair, args.horizon, args.probability, args.curve, args.monotone)
    print(json.dumps(answer)) if args.json else print_answer(answer)


def calibrate_command(args: CalibrateArgs) -> None:
    from clearning.calibrate import calibrate_runs, print_calibration
    from clearning.plots import write_reliability

    if args.rollouts is not None and args.rollouts < 20:
        raise UsageError(f"--rollouts must be at least 20, not {args.rollouts}: fewer show nothing.")
    found = calibrate_runs(args.run, args.rollouts, args.seed, args.recalibrate)
    found["figure"] = str(write_reliability(found, args.run, args.out or None))
    print(json.dumps(found)) if args.json else print_calibration(found)


def export_command(args: ExportArgs) -> None:
    from clearning.api import load
    from clearning.export import export_onnx

    print(export_onnx(load(args.run), args.onnx))


def reproduce_command(args: ReproduceArgs) -> None:
    from clearning.reproduce import reproduce

    seeds = parse_seeds(args.seeds) if args.seeds else ()
    options = (args.budget, args.jobs, args.out, args.robots, args.train, args.slim)
    for path in reproduce(args.what, seeds, *options):
        print(path)


def check_env_command(args: CheckEnvArgs) -> None:
    from clearning.envs import ENVIRONMENTS, check_env
    from clearning.envs.gymnasium_env import IDS

    if args.env in ENVIRONMENTS:
        id_ = next(i for i, name in IDS.items() if name == args.env)
        raise UsageError(f"{args.env} is our own and works; as a Gymnasium environment its id is {id_}.")
    if ":" in args.env:
        look_here_too()
    report = check_env(args.env, args.env_options, args.max_episode_steps, args.reached_within)
    for name, text in report.findings.items():
        print(f"{name}: {text}")
    for text in report.warnings:
        print(f"Note: {text}.")
    for text in report.objections:
        print(f"Will not work: {text}.")
    if not report.trainable:
        raise ClearningError(f"{args.env} cannot be trained on, for the reasons above.")
    print(f"{args.env} can be trained on: `clearning train --env {args.env}`.")


def _parse_numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes numbers separated by commas, as in 1,0, not '{text}'.") from None
