"""The command line: `clearning train`, `eval`, `plot`, `video` and the other commands below."""

import difflib
import importlib
import inspect
import json
import re
import sys
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from clearning.config import Config
from clearning.errors import ClearningError, UsageError

Positional = tyro.conf.Positional


@dataclass(frozen=True)
class TrainArgs:
    """Train an agent and keep everything in a run folder.

    Every setting of the preset can be changed by its name, as in
    `clearning train dubins-car --episodes 300 --hidden 128 128`.

    Any Gymnasium environment with goals needs no preset, only its id, as in
    `clearning train --env FetchPickAndPlace-v4 --env-steps 500000`; your own goes by module:Id, as in
    `--env my_package:Robot-v0`. `clearning check-env ID` says beforehand whether one can be trained on.

    `--from-episodes FILE` learns from recorded episodes and collects none, with a preset or --env, or without
    any environment, as in `clearning train --from-episodes robot.npz --reached-within 0.05`.
    """

    config: tyro.conf.OmitArgPrefixes[Config]
    seed: int = 0
    """Random seed: the same seed on the same machine gives the same bits."""
    seeds: str = ""
    """Several seeds, one run folder each, as in 0-4 or 0,3,7."""
    out: str = ""
    """The run folder; with --seeds, the folder above them. Default: runs/PRESET/seed-N or runs/ENV/seed-N."""
    tensorboard: bool = False
    """Also write TensorBoard event files (needs the extra `tensorboard`)."""


@dataclass(frozen=True)
class ResumeArgs:
    """Go on with an interrupted training; the result is the same bits as without the interruption."""

    run: Positional[str]
    """The run folder."""
    tensorboard: bool = False
    """Also write TensorBoard event files (needs the extra `tensorboard`)."""


@dataclass(frozen=True)
class EvalArgs:
    """Evaluate a run, or all seeds in a folder, on its environment's test goals, beside the optimum."""

    run: Positional[str]
    """A run folder, or a folder of several seeds."""
    json: bool = False
    """Print one JSON object instead of a table."""
    alpha: float | None = None
    """The dial: the smallest horizon with this share of the best probability. Small is fast, 1 is safe."""
    horizon: int | None = None
    """Act for a fixed horizon instead: it counts down, and the episode ends at 0."""
    receding: bool = False
    """With --horizon: keep the horizon instead of counting it down."""
    discount: float | None = None
    """d-learning only: the discount to act with. Default: the run's own."""
    state: str = ""
    """Start from this state only, as in 1,0 (with --goal)."""
    goal: str = ""
    """Go to this goal only, as in 1,6 (with --state)."""
    rollouts: int = 1000
    """Episodes for --state and --goal."""
    episodes: int | None = None
    """Gymnasium environments: fresh episodes to test on. Default: 500; with --dial as many as in training."""
    dial: bool = False
    """Turn the dial instead: success and steps for several horizons counted down and several alphas."""
    eval_seed: int = 0
    """Random seed of the evaluation."""


@dataclass(frozen=True)
class PlotArgs:
    """Draw a run's figures: learning curve, trajectories, heat maps of C, policies by horizon."""

    run: Positional[str]
    """A run folder, or a folder of several seeds."""
    out: str = ""
    """Where to put them. Default: RUN/figures."""


@dataclass(frozen=True)
class VideoArgs:
    """Film an agent reaching goals, with C over the horizons beside it (MP4, or GIF without an encoder)."""

    run: Positional[str]
    """A run folder, or a folder of several seeds, of which the first is filmed."""
    episodes: int = 5
    """Episodes to film."""
    out: str = ""
    """The file, ending in .mp4 or .gif. Default: RUN/video.mp4, or .gif where no encoder is installed."""
    alpha: float | None = None
    """The dial: the smallest horizon with this share of the best probability. Default: the run's own."""
    horizon: int | None = None
    """Act for a fixed horizon instead: it counts down, and the episode ends at 0."""
    seed: int = 0
    """Random seed of the episodes."""
    fps: int = 6
    """Steps shown per second."""


@dataclass(frozen=True)
class ExploreArgs:
    """Look at a run, or at two side by side, on a page in the browser: drag the start, click a goal.

    Frozen lake, mini maze, Dubins' car and cat and mouse have a map; of any other environment a few episodes
    are recorded, to be seen moment by moment. Needs the extra `explore`.
    """

    run: Positional[str]
    """A run folder, or a folder of several seeds, of which the first is shown."""
    run2: Positional[str] = ""
    """Another in the same world, to compare it with."""
    port: int = 8710
    """The port to listen on; 0 for any that is free."""
    host: str = "127.0.0.1"
    """The address to listen on: only this machine unless changed."""
    names: tuple[str, ...] = ()
    """Further host names by which the page may be asked for; all others are refused."""
    open: bool = False
    """Open the page in the browser."""
    episodes: int = 4
    """Gymnasium environments: episodes to record, up to 20."""


@dataclass(frozen=True)
class PresetsArgs:
    """List the presets."""


@dataclass(frozen=True)
class OracleArgs:
    """The exact answer, where there is one: C* by dynamic programming, or search for the car."""

    env: Positional[str]
    """frozen-lake, mini-maze or dubins-car."""
    state: str
    """The full state, as in 1,0 (the car: x,y,cos,sin)."""
    goal: str
    """The goal, as in 1,6."""
    horizon: int
    """At most this many steps."""
    json: bool = False
    """Print one JSON object."""
    env_options: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Options of the environment, as in `--env-options stochastic True`."""


@dataclass(frozen=True)
class AskArgs:
    """Ask a trained agent: how surely is a goal reached within h steps, or how long does it take?

    Without --horizon or --curve: the smallest horizon with a probability of --probability, 0.9 unless given.
    """

    run: Positional[str]
    """A run folder or agent file, or a folder of several seeds, whose disagreement is then told too."""
    state: str
    """The full state, as in 1,0 (the car: x,y,cos,sin); for a Gymnasium environment, the observation."""
    goal: str
    """The goal, as in 1,6."""
    horizon: int | None = None
    """How surely within this many steps?"""
    probability: float | None = None
    """In how many steps with this probability?"""
    curve: bool = False
    """How surely within every number of steps?"""
    monotone: bool = False
    """Answer by the nearest curve that does not fall with the horizon."""
    json: bool = False
    """Print one JSON object."""


@dataclass(frozen=True)
class CalibrateArgs:
    """Compare what an agent promises with what its fixed-horizon policy does, and optionally mend it.

    Rolls the policy out from many states to many goals, each with a horizon near the smallest that could do
    it, and writes a reliability diagram.
    """

    run: Positional[str]
    """A run folder, or a folder of several seeds."""
    rollouts: int | None = None
    """How many. Default: 4,000; Gymnasium environments: 500."""
    recalibrate: Literal["isotonic", "temperature", "none"] | None = None
    """Fit a map on one half of the rollouts, judge it on the other, and store it with the agent, which then
    answers by it; "none" removes a stored one."""
    out: str = ""
    """The diagram's file. Default: RUN/figures/reliability.png."""
    seed: int = 0
    """Random seed of the rollouts."""
    json: bool = False
    """Print one JSON object instead of a table."""


@dataclass(frozen=True)
class ExportArgs:
    """Write an agent to a file that runs without JAX and without this package (needs the extra `onnx`)."""

    run: Positional[str]
    """A run folder or agent file."""
    onnx: str
    """The ONNX file to write, as in model.onnx; docs/export.md describes its inputs and outputs."""


@dataclass(frozen=True)
class CheckEnvArgs:
    """Tell whether a Gymnasium environment can be trained on, what it is like, and all that would not work.

    It is reset and stepped with random actions for a moment. Exit code 0 if it can be trained on, else 1.
    """

    env: Positional[str]
    """The Gymnasium id, as in FetchPickAndPlace-v4; your own goes by module:Id, as in my_package:Robot-v0."""
    env_options: dict[str, bool | int | float | str] = field(default_factory=dict)
    """Options of the environment, as in `--env-options reward_type sparse`."""
    max_episode_steps: int = 0
    """Steps of an episode at most; 0 for the environment's own limit."""


@dataclass(frozen=True)
class ReproduceArgs:
    """Reproduce the paper: train what a table or figure needs, and write a report beside its numbers.

    WHAT is table-1 to table-4, figure-1b, figure-environments, figure-difficulties, figure-3a to figure-3d,
    figure-ablation, figure-tdm, claims, or all. Finished runs are used again and interrupted ones go on, so
    it can be stopped at any time.
    """

    what: Positional[str]
    """A table or figure, claims, or all."""
    seeds: str = ""
    """Seeds, as in 0-4 or 0,3,7. Default: 0-4 for the paper's budget, 0-1 for the quick one."""
    budget: Literal["paper", "quick"] = "paper"
    """Trainings as long as the presets say, or a fifth of that."""
    jobs: int = 1
    """Trainings at a time, one thread each."""
    out: str = "reproduction"
    """The folder of runs, figures and report."""
    robots: Literal["auto", "yes", "no"] = "auto"
    """Fetch and Hand: with the paper's budget where gymnasium-robotics is installed, always, or never."""
    train: bool = True
    """Train what is missing; without, the report shows what is there."""


def _train(preset_name: str | None, args: TrainArgs) -> None:
    from clearning.api import train
    from clearning.envs import make_world
    from clearning.runs import RunFolder

    config = args.config
    if config.env or not config.from_episodes:
        make_world(config)  # a bad environment is better told before any folder is made
    seeds = _parse_seeds(args.seeds) if args.seeds else [args.seed]
    name = preset_name or _safe(config.env) or _safe(Path(config.from_episodes).stem)
    parent = Path(args.out) if args.out else Path("runs") / name
    runs = [parent / f"seed-{s}" if args.seeds or not args.out else parent for s in seeds]
    for run in runs:  # all are checked before the first trains
        RunFolder(run).refuse_existing()
    for seed, run in zip(seeds, runs, strict=True):
        train(args.config, preset_name=preset_name, seed=seed, out=run, tensorboard=args.tensorboard)
        test = f"`clearning eval {run}`, " if config.env else ""
        _say(f"Trained {run}. Next: {test}`clearning plot {run}`.")


def _resume(args: ResumeArgs) -> None:
    from clearning.api import resume

    resume(args.run, tensorboard=args.tensorboard)
    _say(f"{args.run} is finished. Next: `clearning eval {args.run}`.")


def _eval(args: EvalArgs) -> None:
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


def _plot(args: PlotArgs) -> None:
    from clearning.plots import plot_run

    for path in plot_run(args.run, args.out or None):
        print(path)


def _video(args: VideoArgs) -> None:
    from clearning.report.opening import dial_from
    from clearning.video import write_video

    dial = dial_from(args.alpha, args.horizon)
    print(write_video(args.run, args.out or None, args.episodes, dial, args.seed, args.fps))


def _explore(args: ExploreArgs) -> None:
    try:
        from clearning.explore.server import serve
    except ModuleNotFoundError as error:
        if error.name not in ("anyio", "starlette", "uvicorn"):
            raise
        raise UsageError("The page needs the extra: pip install 'clearning[explore]'.") from error
    from clearning.explore.views import open_views

    def ready(url: str) -> None:
        _say(f"Explore at {url} (Ctrl-C ends it).")
        if args.open:
            webbrowser.open(url)

    views = open_views([run for run in (args.run, args.run2) if run], args.episodes)
    serve(views, args.host, args.port, args.names, ready)


def _presets(args: PresetsArgs) -> None:
    from clearning.presets import PEERS, PRESETS

    table = Table("preset", "what it is", "episodes", box=None, pad_edge=False)
    for name, build in PRESETS.items():
        first_line = (inspect.getdoc(build) or "").splitlines()[0]
        table.add_row(f"[bold]{name}[/]", first_line, str(build().episodes))
    methods = Table("prefix", "the same by another method, as in `clearning train gcsl/dubins-car`", box=None)
    methods.pad_edge = False
    for name, change in PEERS.items():
        methods.add_row(f"[bold]{name}/[/]", (inspect.getdoc(change) or "").splitlines()[0])
    console = Console()
    console.print(table)
    console.print()
    console.print(methods)


def _oracle(args: OracleArgs) -> None:
    from clearning.report.exact import oracle

    state, goal = _parse_numbers(args.state, "--state"), _parse_numbers(args.goal, "--goal")
    answer = oracle(args.env, args.env_options, state, goal, args.horizon)
    if args.json:
        print(json.dumps(answer))
    else:
        for name, value in answer.items():
            print(f"{name}: {value}")


def _ask(args: AskArgs) -> None:
    from clearning.report.questions import ask
    from clearning.report.tables import print_answer

    pair = (_parse_numbers(args.state, "--state"), _parse_numbers(args.goal, "--goal"))
    answer = ask(args.run, *pair, args.horizon, args.probability, args.curve, args.monotone)
    print(json.dumps(answer)) if args.json else print_answer(answer)


def _calibrate(args: CalibrateArgs) -> None:
    from clearning.calibrate import calibrate_runs, print_calibration
    from clearning.plots import write_reliability

    if args.rollouts is not None and args.rollouts < 20:
        raise UsageError(f"--rollouts must be at least 20, not {args.rollouts}: fewer show nothing.")
    found = calibrate_runs(args.run, args.rollouts, args.seed, args.recalibrate)
    found["figure"] = str(write_reliability(found, args.run, args.out or None))
    print(json.dumps(found)) if args.json else print_calibration(found)


def _export(args: ExportArgs) -> None:
    from clearning.api import load
    from clearning.export import export_onnx

    print(export_onnx(load(args.run), args.onnx))


def _reproduce(args: ReproduceArgs) -> None:
    from clearning.reproduce import reproduce

    seeds = _parse_seeds(args.seeds) if args.seeds else ()
    for path in reproduce(args.what, seeds, args.budget, args.jobs, args.out, args.robots, args.train):
        print(path)


def _check_env(args: CheckEnvArgs) -> None:
    from clearning.envs import ENVIRONMENTS, check_env
    from clearning.envs.gymnasium_env import IDS

    if args.env in ENVIRONMENTS:
        id_ = next(i for i, name in IDS.items() if name == args.env)
        raise UsageError(f"{args.env} is our own and works; as a Gymnasium environment its id is {id_}.")
    report = check_env(args.env, args.env_options, args.max_episode_steps)
    for name, text in report.findings.items():
        print(f"{name}: {text}")
    for text in report.warnings:
        print(f"Note: {text}.")
    for text in report.objections:
        print(f"Will not work: {text}.")
    if not report.trainable:
        raise ClearningError(f"{args.env} cannot be trained on, for the reasons above.")
    print(f"{args.env} can be trained on: `clearning train --env {args.env}`.")


COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
    "eval": (EvalArgs, _eval),
    "plot": (PlotArgs, _plot),
    "video": (VideoArgs, _video),
    "explore": (ExploreArgs, _explore),
    "presets": (PresetsArgs, _presets),
    "resume": (ResumeArgs, _resume),
    "oracle": (OracleArgs, _oracle),
    "ask": (AskArgs, _ask),
    "calibrate": (CalibrateArgs, _calibrate),
    "export": (ExportArgs, _export),
    "check-env": (CheckEnvArgs, _check_env),
    "reproduce": (ReproduceArgs, _reproduce),
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
        _dispatch_train(rest)
    elif command in COMMANDS:
        kind, run = COMMANDS[command]
        run(tyro.cli(kind, args=rest, prog=f"clearning {command}", description=inspect.getdoc(kind)))
    else:
        raise UsageError(f"There is no command '{command}'. {_nearest(command, ['train', *COMMANDS])}")


def _import(module: str) -> None:
    """What a run folder names but must not import by itself: the module of its environment."""
    try:
        importlib.import_module(module)
    except (ImportError, ValueError) as error:
        raise UsageError(f"--import takes a module that can be imported, not '{module}': {error}.") from error


def _dispatch_train(rest: list[str]) -> None:
    from clearning.presets import PEERS, PRESETS, describe_preset, preset

    if not rest or rest[0] in ("-h", "--help"):
        print("usage: clearning train PRESET [--seed N | --seeds 0-4] [--out DIR] [--SETTING VALUE ...]")
        print("       clearning train --env ID [the same]")
        print("       clearning train --from-episodes FILE --reached-within D [the same]\n")
        print(inspect.getdoc(TrainArgs))
        print("\nPresets (`clearning train PRESET --help` lists every setting with the preset's value):")
        for name in PRESETS:
            print(f"  {name}")
        print("\nWith another method's name in front, as in gcsl/dubins-car, it is the method that trains:")
        print(f"  {', '.join(PEERS)}")
        if not rest:
            raise UsageError(
                "train needs a preset, as in `clearning train dubins-car`, or an environment, as in "
                "`clearning train --env FetchReach-v4`."
            )
        return
    if rest[0].startswith("-"):
        name, rest = None, ["", *rest]
        default, about = _without_preset(rest), "Without a preset, settings start from those below."
    else:
        name, default = rest[0], preset(rest[0])
        about = f"This preset: {describe_preset(name)}"
    args = tyro.cli(
        Annotated[TrainArgs, tyro.conf.arg(name="")],
        args=rest[1:],
        default=TrainArgs(config=default),
        prog=f"clearning train {name}" if name else "clearning train",
        description=f"{inspect.getdoc(TrainArgs)}\n\n{about}",
    )
    if args.config.env != default.env:  # another environment has other options, and no preset's name
        name = None
        if args.config.env_options == default.env_options:
            args = replace(args, config=replace(args.config, env_options={}))
    _train(name, args)


def _without_preset(rest: list[str]) -> Config:
    """What settings start from where only an environment is given."""
    from clearning.envs import is_gymnasium_id
    from clearning.presets import gymnasium_defaults, recorded_defaults

    given = [arg.partition("=")[2] or following for arg, following in pairwise([*rest, ""]) if _is_env(arg)]
    if not given and any(arg.partition("=")[0] == "--from-episodes" for arg in rest):
        return recorded_defaults()
    if not given:
        raise UsageError(
            "The preset comes first, as in `clearning train dubins-car --seed 1`; without one, give --env."
        )
    return replace(gymnasium_defaults() if is_gymnasium_id(given[-1]) else Config(), env=given[-1])


def _is_env(argument: str) -> bool:
    return argument == "--env" or argument.startswith("--env=")


def _safe(name: str) -> str:
    """An environment's id as the name of a folder."""
    return re.sub(r"[^\w.]+", "-", name).strip("-.")


def _print_overview() -> None:
    console = Console()
    console.print(
        "[bold]clearning[/]: how surely can a goal be reached within h steps, and how to get there.\n"
    )
    table = Table("command", "what it does", box=None, pad_edge=False)
    for name, kind in {"train": TrainArgs, **{n: k for n, (k, _) in COMMANDS.items()}}.items():
        table.add_row(f"[bold]clearning {name}[/]", (inspect.getdoc(kind) or "").splitlines()[0])
    console.print(table)
    console.print("\nStart with `clearning train dubins-car`; each command explains itself with --help.")
    console.print(
        "A run whose environment is in a module of yours is opened with "
        "`clearning --import MODULE COMMAND RUN`: a run folder imports nothing by itself."
    )


def _parse_seeds(text: str) -> list[int]:
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            seeds += range(int(first), int(last or first) + 1)
    except ValueError:
        seeds = []
    if not seeds:
        raise UsageError(f"--seeds takes a range or a list, as in 0-4 or 0,3,7, not '{text}'.")
    return seeds


def _parse_numbers(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"{option} takes numbers separated by commas, as in 1,0, not '{text}'.") from None


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean '{near[0]}'?" if near else f"The commands are {', '.join(known)}."


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _fail(error: ClearningError, code: int) -> None:
    _say(f"clearning: {error}")
    sys.exit(code)
