"""Videos of a trained agent: the environment's picture, and beside it what the agent expects.

frames  episodes -> pictures, each with the seconds it is shown
Panel   C against the horizon at the current state, redrawn at every step
encode  pictures -> MP4 where an encoder is installed, else GIF
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from clearning.agent import Agent
from clearning.core.recursions import rule_for
from clearning.envs import ExternalEnv, refuse_foreign_module
from clearning.errors import ClearningError, UsageError
from clearning.plots.style import BLACK, BLUE, GREEN, TITLES, VERMILION, styled
from clearning.recording import SIDE, Start, drawn_world, picture, starts, walk
from clearning.report.opening import complete_dial
from clearning.rollout import Dial, batched_policy, dial_horizon
from clearning.runs import run_folders

FPS = 6  # steps shown per second: slow enough to see the curve move
HOLD = 1.5  # seconds that the end of an episode stays
LOOK = 0.8  # seconds that its start stays
SUFFIXES = (".mp4", ".gif")

Frame = tuple[np.ndarray, float]  # uint8 (SIDE, 2 SIDE, 3), and the seconds it is shown
Look = Callable[[np.ndarray, np.ndarray, int], tuple[np.ndarray, int]]


class Written(NamedTuple):
    """What was filmed, and where it is."""

    path: Path
    episodes: int
    reached: int

    def __str__(self) -> str:
        count = "1 episode" if self.episodes == 1 else f"{self.episodes} episodes"
        why = ""
        if self.path.suffix == ".gif" and mp4_encoder() is None:
            why = "; for an MP4, `pip install imageio-ffmpeg`"
        return f"Wrote {self.path}: {count}, the goal reached in {self.reached}{why}."


def write_video(
    run: str | Path,
    out: str | Path | None = None,
    episodes: int = 5,
    dial: Dial | None = None,
    seed: int = 0,
    fps: int = FPS,
) -> Written:
    """Film a run's agent (of several seeds, the first). Without `out`, the file is `video` in its folder."""
    if episodes < 1:
        raise UsageError(f"A video needs at least 1 episode, not {episodes}.")
    if fps < 1:
        raise UsageError(f"A video needs at least 1 frame per second, not {fps}.")
    folder = run_folders(run)[0]
    config, _, record = folder.read()
    if record.get("custom_env"):
        raise UsageError(f"{folder.path} was trained on your own environment: use clearning.video.frames.")
    refuse_foreign_module(config)
    path = _path(Path(out) if out else folder.path / f"video{_best_suffix()}")
    agent = Agent.load(folder.agent_file)
    agent.require_c()  # which the panel beside the picture shows
    dial = complete_dial(dial, agent)
    world = drawn_world(config, agent)
    try:
        ends: list[bool] = []
        encode(frames(agent, world, starts(world.env, episodes, seed), dial, seed, ends, fps), path, fps)
    finally:
        world.env.close()
    return Written(path, episodes, sum(ends))


# Episodes -----------------------------------------------------------------------------------------


def frames(
    agent: Agent,
    world: ExternalEnv,
    episodes: list[Start],
    dial: Dial,
    seed: int = 0,
    ends: list[bool] | None = None,
    fps: int = FPS,
) -> Iterator[Frame]:
    """Pictures of episodes, one after another; whether each reached its goal is appended to `ends`."""
    panel = Panel(agent.max_horizon, TITLES.get(agent.spec.name, agent.spec.name), dial)
    look = _looker(agent, dial)
    act = batched_policy(agent.network, agent.spec, agent.config, dial, jax.random.key(seed))
    for number, start in enumerate(episodes, 1):
        for step, observation, goal, over, success in walk(agent, world, start, dial, act):
            heading = f"episode {number} of {len(episodes)}, step {step}"
            curve, horizon = look(observation, goal, step)
            if over:
                panel.end(heading, curve, success)
                yield _join(world, panel), HOLD
                if ends is not None:
                    ends.append(success)
            else:
                panel.choose(heading, curve, horizon)
                yield _join(world, panel), LOOK if step == 0 else 1 / fps


def _looker(agent: Agent, dial: Dial) -> Look:
    """max_a C for every horizon and the horizon that the dial picks, at one state."""

    @eqx.filter_jit
    def pick(network: Any, observation: Any, goal: Any, step: Any) -> Any:
        values = rule_for(dial.method, 0.5).link(network.curve(observation, goal))
        skip = agent.config.skip_ruled_out
        return dial_horizon(values, agent.spec, dial, observation, goal, step, skip)

    def look(observation: np.ndarray, goal: np.ndarray, step: int) -> tuple[np.ndarray, int]:
        horizon = pick(agent.network, jnp.asarray(observation), jnp.asarray(goal), jnp.int32(step))
        return agent.reach_curve(observation, goal), int(horizon)

    return look


def _join(world: ExternalEnv, panel: "Panel") -> np.ndarray:
    return np.concatenate([picture(world.env, world.name), panel.image()], axis=1)


# The panel ----------------------------------------------------------------------------------------


class Panel:
    """C against the horizon with the dial's choice. What never changes is drawn once."""

    def __init__(self, horizons: int, title: str, dial: Dial):
        self.dial = dial
        self.horizons = np.arange(1, horizons + 1)
        with styled():
            self.figure = Figure((4.0, 4.0), dpi=SIDE / 4.0, facecolor="white")
            self.canvas = FigureCanvasAgg(self.figure)
            self.ax = self.figure.add_axes((0.1, 0.13, 0.84, 0.62))
            self._furniture(title)
            self.canvas.draw()
            self.empty: Any = self.canvas.copy_from_bbox(self.figure.bbox)
            self._moving_parts()
        self._blit()

    def _furniture(self, title: str) -> None:
        ax = self.ax
        top = len(self.horizons)
        ax.set(xlim=(0.5, top + 0.5), ylim=(-0.02, 1.03), yticks=np.linspace(0, 1, 6))
        ax.set_xticks([1, *(h for h in ax.get_xticks() if 1 < h <= top)])
        ax.set_xlim(0.5, top + 0.5)
        ax.set_xlabel("horizon h (steps)", fontsize=10)
        ax.tick_params(labelsize=9)
        ax.grid(color="0.92", lw=0.7)
        ax.set_axisbelow(True)
        self.figure.text(0.04, 0.945, title, fontsize=12.5, weight="bold", va="center")
        what = "C: probability of reaching the goal within h steps"
        self.figure.text(0.04, 0.795, what, fontsize=10, color="0.2", va="center")

    def _moving_parts(self) -> None:
        ax, zeros = self.ax, np.zeros(len(self.horizons))
        self.heading = self.figure.text(0.04, 0.88, "", fontsize=10.5, color="0.2", va="center")
        self.state = self.figure.text(0.94, 0.88, "", fontsize=11, weight="bold", ha="right", va="center")
        self.area = ax.fill_between(self.horizons, zeros, color=BLUE, alpha=0.12, lw=0)
        (self.line,) = ax.plot(self.horizons, zeros, color=BLUE, lw=2.2, clip_on=False)
        (self.level,) = ax.plot([], [], color="0.45", lw=1.0, ls=(0, (4, 2)))
        self.level_name = ax.text(0, 0, "", fontsize=8.5, color="0.35", ha="right", va="top")
        (self.drop,) = ax.plot([], [], color=VERMILION, lw=1.3, ls=":")
        (self.dot,) = ax.plot([], [], "o", color=VERMILION, mec="white", mew=1.2, ms=10, clip_on=False)
        self.marks = (self.drop, self.dot)
        self.levels = (self.level, self.level_name)
        self.parts = (self.area, self.line, *self.levels, *self.marks, self.heading, self.state)

    def choose(self, heading: str, curve: np.ndarray, horizon: int) -> None:
        """Show a state from which to go on, and the horizon picked there."""
        value, top = float(curve[horizon - 1]), len(self.horizons)
        self.dot.set_data([horizon], [value])
        self.drop.set_data([horizon, horizon], [-0.02, value])
        if not self.dial.horizon:
            level = float(self.dial.alpha) * float(curve.max())
            self.level.set_data([0.5, top + 0.5], [level, level])
            self.level_name.set_position((top + 0.5, level - 0.015 if level > 0.1 else level + 0.06))
            self.level_name.set_text(f"{float(self.dial.alpha):g} of the best")
        self._show(heading, curve, f"h = {horizon},  C = {value:.2f}", VERMILION, choosing=True)

    def end(self, heading: str, curve: np.ndarray, success: bool) -> None:
        """Show how an episode ended."""
        self._show(heading, curve, *(("goal reached", GREEN) if success else ("not reached", BLACK)))

    def _show(self, heading: str, curve: np.ndarray, state: str, color: str, choosing: bool = False) -> None:
        self.heading.set_text(heading)
        self.state.set(text=state, color=color)
        self.line.set_ydata(curve)
        floor = np.stack([self.horizons[::-1], np.zeros_like(self.horizons)], -1)
        self.area.set_verts([np.concatenate([np.stack([self.horizons, curve], -1), floor])])
        for part in self.marks:
            part.set_visible(choosing)
        for part in self.levels:
            part.set_visible(choosing and not self.dial.horizon)
        self._blit()

    def _blit(self) -> None:
        self.canvas.restore_region(self.empty)
        for part in self.parts:
            self.figure.draw_artist(part)

    def image(self) -> np.ndarray:
        """What is shown, uint8 (SIDE, SIDE, 3)."""
        return np.asarray(self.canvas.buffer_rgba())[..., :3].copy()


# Files --------------------------------------------------------------------------------------------


def mp4_encoder() -> Any:
    """The module imageio_ffmpeg, which brings its own ffmpeg; None where it is not installed."""
    try:
        import imageio_ffmpeg  # pyright: ignore[reportMissingImports]

        with _forking():
            imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        return None
    return imageio_ffmpeg


def _best_suffix() -> str:
    return ".gif" if mp4_encoder() is None else ".mp4"


def _path(path: Path) -> Path:
    if path.suffix not in SUFFIXES:
        raise UsageError(f"A video's name must end in .mp4 or .gif, unlike {path.name}.")
    if path.suffix == ".mp4" and mp4_encoder() is None:
        raise UsageError("An MP4 needs an encoder: `pip install imageio-ffmpeg`, or write a .gif.")
    return path


def encode(shown: Iterable[Frame], path: Path, fps: int) -> None:
    """Write pictures to a file, which appears when it is whole."""
    part = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (_encode_gif if path.suffix == ".gif" else _encode_mp4)(shown, part, fps)
        part.replace(path)
    except OSError as error:
        raise ClearningError(f"Could not write {path}: {error.strerror or error}.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def _encode_gif(shown: Iterable[Frame], path: Path, fps: int) -> None:
    pictures, milliseconds = [], []
    for image, seconds in shown:
        # Colours of one's own for every picture, undithered: noise would make the file several times as big.
        pictures.append(Image.fromarray(image).quantize(256, dither=Image.Dither.NONE))
        milliseconds.append(round(1000 * seconds))
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=milliseconds, loop=0)


def _encode_mp4(shown: Iterable[Frame], path: Path, fps: int) -> None:
    with _forking():
        writer = mp4_encoder().write_frames(
            str(path), (2 * SIDE, SIDE), fps=fps, codec="libx264", quality=8, macro_block_size=2
        )
        writer.send(None)
        try:
            for image, seconds in shown:
                for _ in range(max(1, round(seconds * fps))):
                    writer.send(np.ascontiguousarray(image))
        finally:
            writer.close()


@contextmanager
def _forking() -> Iterator[None]:
    """JAX warns of every fork; this one becomes the encoder at once, so nothing can lock up."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
        yield
