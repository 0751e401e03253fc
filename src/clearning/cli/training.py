"""`clearning train` and `resume`: a preset, an environment or recorded episodes, and any setting by name."""

import inspect
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import tyro

from clearning.cli.arguments import ResumeArgs, TrainArgs
from clearning.cli.modules import look_here_too
from clearning.cli.output import say
from clearning.config import Config
from clearning.errors import UsageError


def train_command(rest: list[str]) -> None:
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


def _train(preset_name: str | None, args: TrainArgs) -> None:
    from clearning.api import train
    from clearning.envs import make_world
    from clearning.runs import RunFolder

    config = args.config
    if ":" in config.env:
        look_here_too()
    if config.env or not config.from_episodes:
        make_world(config)  # a bad environment is better told before any folder is made
    seeds = parse_seeds(args.seeds) if args.seeds else [args.seed]
    name = preset_name or _safe(config.env) or _safe(Path(config.from_episodes).stem)
    parent = Path(args.out) if args.out else Path("runs") / name
    runs = [parent / f"seed-{s}" if args.seeds or not args.out else parent for s in seeds]
    for run in runs:  # all are checked before the first trains
        RunFolder(run).refuse_existing()
    for seed, run in zip(seeds, runs, strict=True):
        train(args.config, preset_name=preset_name, seed=seed, out=run, tensorboard=args.tensorboard)
        test = f"`clearning eval {run}`, " if config.env else ""
        say(f"Trained {run}. Next: {test}`clearning plot {run}`.")


def resume_command(args: ResumeArgs) -> None:
    from clearning.api import resume

    resume(args.run, tensorboard=args.tensorboard)
    say(f"{args.run} is finished. Next: `clearning eval {args.run}`.")


def _safe(name: str) -> str:
    """An environment's id as the name of a folder."""
    return re.sub(r"[^\w.]+", "-", name).strip("-.")


def parse_seeds(text: str) -> list[int]:
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
