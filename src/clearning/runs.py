"""The run folder: config, versions, metrics, checkpoint and agent. Whatever it holds is whole.

config.json             what was asked for: preset, seed, settings
versions.json           the packages and the machine it ran on
metrics.csv             one row per evaluation
checkpoint.safetensors  everything needed to go on
agent.safetensors       what `clearning.load` reads
"""

import csv
import errno
import io
import math
import os
import platform
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import numpy as np

from clearning.agents.learner import Learner
from clearning.buffer import Buffer
from clearning.config import Config
from clearning.errors import ClearningError, UsageError, WriteFailed
from clearning.files import (
    FORMAT,
    check_format,
    fill,
    load_arrays,
    named_arrays,
    read_json,
    read_record,
    save_arrays,
    spec_from_dict,
    temporaries,
    write_json,
)
from clearning.lock import locked
from clearning.records import check_name, record_from
from clearning.types import EnvSpec

METRICS = {
    "episodes": "episodes collected so far, random ones included; recorded ones where there are such",
    "env_steps": "environment steps taken so far, exploration included; or those of the recorded episodes",
    "updates": "gradient updates so far",
    "train_success": "share of the last 100 training episodes that reached a goal they were after",
    "loss": "mean loss over the updates since the last row",
    "eval_success": "share of the test goals reached, without exploration",
    "eval_held": "share of the test episodes at their goal in the last step (Gymnasium only)",
    "eval_steps": "mean steps on the test goals reached, counted from 1",
    "eval_distance": "mean distance travelled on the test goals reached",
    "eval_final_distance": "mean distance from the goal at the end of a test episode",
    "learning_rate": "Adam's learning rate at this point",
    "seconds": "time spent training so far, evaluation included",
}
"""Every column of metrics.csv, and what it means."""
PLACE_FIELDS = ("observation", "achieved", "action", "episode", "transition")
COUNTED = ("episodes", "env_steps", "updates")
LARGEST_METRIC = 1e15

SPACES: dict[str, Callable[[EnvSpec], Any]] = {
    "observations": lambda s: f"{s.observation_size} numbers",
    "goals": lambda s: f"{s.goal_size} numbers",
    "actions": lambda s: f"{len(s.action_low)} numbers" if s.continuous else f"{s.num_actions} choices",
    "bounds of observations": lambda s: (s.observation_low, s.observation_high),
    "bounds of goals": lambda s: (s.goal_low, s.goal_high),
    "bounds of actions": lambda s: (s.action_low, s.action_high),
}
"""What of an environment a trained network fits."""


def refuse_other_world(whose: str, then: EnvSpec, now: EnvSpec) -> None:
    """Refuse an environment with other spaces than it had when something was trained on it."""
    for what, tell in SPACES.items():
        if tell(then) != tell(now):
            detail = "" if what.startswith("bounds") else f": {tell(then)} then, {tell(now)} now"
            raise ClearningError(
                f"{whose} is of another world: the {what} of {now.name} are not what they were{detail}. "
                f"Train anew, or bring the environment back as it was."
            )


@dataclass
class Counters:
    """Where a training stands, apart from its arrays."""

    iteration: int = 0
    episodes: int = 0
    env_steps: int = 0
    new_steps: int = 0
    """Environment steps of the latest iteration."""
    updates: int = 0
    new_updates: int = 0
    """Updates of the latest iteration."""
    seconds: float = 0.0
    finished: bool = False
    owes_evaluation: bool = False
    recent_success: tuple[bool, ...] = ()
    losses: tuple[float, ...] = ()
    metrics_bytes: int = 0
    """Length of metrics.csv at this point; what a killed run wrote after it is cut off on resuming."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, tuple) and value < 0:
                raise UsageError(f"{name} must not be negative, not {value}.")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What config.json says beside its format."""

    version: str = ""
    preset: str | None = None
    seed: int
    custom_env: bool = False
    custom_network: bool = False
    config: Config

    def __post_init__(self) -> None:
        check_seed(self.seed)
        if self.preset is not None:
            check_name(self.preset, "A preset")


def check_seed(seed: int) -> None:
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise UsageError(f"The seed must be a whole number in 0..{2**31 - 1}, not {seed!r}.")


def package_version() -> str:
    return metadata.version("clearning")


class RunFolder:
    """One training's folder."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.csv"
        self.checkpoint_file = self.path / "checkpoint.safetensors"
        self.agent_file = self.path / "agent.safetensors"
        self.figures = self.path / "figures"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """No other process writes to the folder meanwhile; whoever only reads is not kept out."""
        self._make()
        with locked(self.path):
            for left in temporaries(self.path):  # of a process that was killed while it wrote
                with suppress(OSError):
                    left.unlink()
            yield

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClearningError(f"Could not create {self.path}: {error.strerror}.") from error

    def refuse_existing(self) -> None:
        """A folder where a run is, or where one is just being trained, is not for a new one."""
        if self.config_file.exists():
            with self.locked():
                self._refuse_run()

    def _refuse_run(self) -> None:
        if self.config_file.exists():
            raise UsageError(
                f"{self.path} already holds a run: go on with `clearning resume {self.path}`, "
                f"or choose another folder with --out."
            )

    def create(self, config: Config, seed: int, preset: str | None, custom: Mapping[str, bool]) -> None:
        """Start a folder; one that holds a run already is left alone."""
        self._make()
        self._refuse_run()
        asked = Asked(version=package_version(), preset=preset, seed=seed, config=config, **custom)
        self.checkpoint_file.unlink(missing_ok=True)
        write_json(self.path / "versions.json", versions())
        write_json(self.config_file, {"format": FORMAT, **asdict(asked)})

    def refuse_changed_spaces(self, now: EnvSpec) -> None:
        """An environment may have changed since a run was trained on it."""
        if not self.agent_file.is_file():
            return
        refuse_other_world(
            str(self.path), spec_from_dict(load_arrays(self.agent_file)[1].get("spec", {})), now
        )

    def read(self) -> tuple[Config, int, dict[str, Any]]:
        """The config, the seed and the whole record of an existing run."""
        if not self.config_file.is_file():
            raise UsageError(f"{self.path} is not a run folder: it has no config.json.")
        record = read_json(self.config_file)
        check_format(record, self.config_file)
        known = {name: record[name] for name in Asked.__dataclass_fields__ if name in record}
        try:
            asked = record_from(Asked, known, "the run")
        except UsageError as error:
            raise ClearningError(f"{self.config_file} is damaged: {error}") from error
        return asked.config, asked.seed, vars(asked)

    def is_finished(self) -> bool:
        """Whether the training came to its end with its last evaluation, and its agent is there."""
        if not (self.checkpoint_file.is_file() and self.agent_file.is_file()):
            return False
        counters = self._counters(read_record(self.checkpoint_file))
        return counters.finished and not counters.owes_evaluation

    # Metrics ------------------------------------------------------------------------------------

    def append_metrics(self, row: Mapping[str, Any]) -> int:
        """Add a row; returns the file's new length."""
        text = io.StringIO()
        writer = csv.DictWriter(text, METRICS, lineterminator="\n")
        if not self.metrics_file.exists() or self.metrics_file.stat().st_size == 0:
            writer.writeheader()
        writer.writerow({k: _number(row.get(k)) for k in METRICS})
        row_bytes = text.getvalue().encode()
        try:
            with open(self.metrics_file, "ab", buffering=0) as file:
                before = file.tell()
                if file.write(row_bytes) < len(row_bytes):
                    file.truncate(before)  # rather no row than half of one
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
                return file.tell()
        except OSError as error:
            raise WriteFailed(self.metrics_file, error) from error

    def cut_metrics(self, length: int) -> None:
        """Take off what was written after the checkpoint."""
        if not self.metrics_file.exists():
            return
        if self.metrics_file.stat().st_size < length:
            raise ClearningError(
                f"{self.metrics_file} lacks rows that were there at the checkpoint: restore it from a copy, "
                f"or remove it to go on without them."
            )
        try:
            os.truncate(self.metrics_file, length)
        except OSError as error:
            raise WriteFailed(self.metrics_file, error) from error

    def metrics(self) -> dict[str, np.ndarray]:
        """The columns of metrics.csv."""
        columns: dict[str, np.ndarray] = {}
        try:
            if self.metrics_file.is_file():
                with open(self.metrics_file, newline="", encoding="utf-8") as file:
                    columns = _columns(file)
        except (OSError, ValueError, csv.Error) as error:
            raise ClearningError(f"{self.metrics_file} is damaged: {ascii(str(error))[1:-1]}.") from error
        if not columns or not len(columns["episodes"]):
            raise ClearningError(
                f"{self.path} has no metrics yet: the first row comes with the first evaluation."
            )
        return columns

    # Checkpoints --------------------------------------------------------------------------------

    def save_checkpoint(self, learner: Learner, buffer: Buffer, counters: Counters) -> None:
        """Write everything that the rest of the training depends on."""
        used = min(int(buffer.places_used), buffer.episode.size)
        trimmed = buffer._replace(**{name: getattr(buffer, name)[:used] for name in PLACE_FIELDS})
        arrays = named_arrays(learner, "learner.") | named_arrays(trimmed, "buffer.")
        record = {"kind": "checkpoint", "version": package_version(), "counters": asdict(counters)}
        save_arrays(self.checkpoint_file, arrays, record)

    def load_checkpoint(self, learner: Learner, buffer: Buffer) -> tuple[Learner, Buffer, Counters]:
        """Read a checkpoint into freshly built learner and buffer."""
        arrays, record = load_arrays(self.checkpoint_file)
        if record.get("kind") != "checkpoint":
            raise ClearningError(f"{self.checkpoint_file} is not a checkpoint but another file of ours.")
        for name in PLACE_FIELDS:  # what lay beyond the used places is zero, as in a new buffer
            stored, empty = arrays.get(f"buffer.{name}"), getattr(buffer, name)
            if stored is None or stored.shape[1:] != empty.shape[1:] or not stored.ndim:
                continue  # which is told below
            if stored.shape[0] < empty.shape[0]:
                padding = np.zeros((empty.shape[0] - stored.shape[0], *stored.shape[1:]), stored.dtype)
                arrays[f"buffer.{name}"] = np.concatenate([stored, padding])
        counters = self._counters(record)
        learner = fill(learner, arrays, "learner.", self.checkpoint_file)
        return learner, fill(buffer, arrays, "buffer.", self.checkpoint_file), counters

    def _counters(self, record: Mapping[str, Any]) -> Counters:
        try:
            return record_from(Counters, record.get("counters"), "the record of counters")
        except UsageError as error:
            raise ClearningError(
                f"{self.checkpoint_file} has damaged counters ({error}); train anew."
            ) from error


def _columns(file: Iterable[str]) -> dict[str, np.ndarray]:
    """The columns of a metrics file. One that is missing is younger than the run."""
    lines = csv.reader(line for line in file if line.endswith("\n"))  # a row without an end is being written
    header = next(lines, [])
    place = {name: header.index(name) for name in METRICS if name in header}
    columns = {name: array("d") for name in METRICS}
    for line in lines:
        if len(line) != len(header):
            raise ValueError(f"row {lines.line_num} has {len(line)} cells where the header has {len(header)}")
        for name, column in columns.items():
            cell = line[place[name]] if name in place else ""
            column.append(float(cell) if cell else math.nan)
    found = {name: np.array(column) for name, column in columns.items()}
    if any((np.abs(column) > LARGEST_METRIC).any() for column in found.values()):
        raise ValueError("it has numbers out of all proportion")
    if any(not (found[name] >= 0).all() for name in COUNTED):
        raise ValueError(f"its rows do not count {', '.join(COUNTED)}")
    return found


def run_folders(path: str | Path) -> list[RunFolder]:
    """The run at a path, or all runs of a folder of seeds, in order of seed."""
    path = Path(path)
    if (path / "config.json").is_file():
        return [RunFolder(path)]
    if not path.is_dir():
        raise UsageError(f"There is no run folder at {path}.")
    inside = sorted(path.glob("*/config.json"), key=lambda p: (len(p.parent.name), p.parent.name))
    if not inside:
        raise UsageError(f"{path} is not a run folder and holds none: there is no config.json.")
    return [RunFolder(p.parent) for p in inside]


def versions() -> dict[str, str]:
    """What a result depends on besides its config."""
    names = ("clearning", "jax", "jaxlib", "equinox", "optax", "gymnasium", "numpy", "scipy", "safetensors")
    found = {name: metadata.version(name) for name in names}
    return found | {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "device": jax.devices()[0].device_kind,
    }


def _number(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
