"""What each command takes; docstrings are what --help says."""

from dataclasses import dataclass, field
from typing import Literal

import tyro

from clearning.config import Config

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
    """frozen-lake, mini-maze, dubins-car or cat-and-mouse."""
    state: str
    """The full state, as in 1,0 (the car: x,y,cos,sin; the mouse: x,y,caught)."""
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
    reached_within: float = 0.0
    """The distance at which a goal counts as reached, where the environment has no compute_reward."""


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
    """Seeds, as in 0-4 or 0,3,7. Default: as many as the paper has (five of table 1 and the car, three of
    the others), two on robots and for the quick budget."""
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
    slim: bool = False
    """Keep of each finished run only what the report needs: its outcomes and curves, no checkpoint, and an
    agent where a figure draws it."""
