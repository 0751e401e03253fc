"""Files of recorded episodes: npz, HDF5 and Minari datasets; docs/offline.md describes the arrays.

Nothing in a file is executed, and its headers are checked before anything large is read.
"""

import difflib
import io
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike

from clearning.errors import ClearningError, UsageError
from clearning.files import load_arrays, memory, spec_from_dict, write_atomically
from clearning.recorded import Recording

HDF5 = (".h5", ".hdf5")
NEEDED = ("observation", "action", "length")
OF_EPISODE = ("observation", "action", "achieved_goal", "desired_goal", "dead")
OPTIONAL = (*OF_EPISODE[2:], "action_low", "action_high")
KINDS = {"length": "iu", "dead": "b", "action": "fiu"}  # of numbers, by numpy's letters; others are "fiu"
AXES = {"length": 1, "dead": 1, "action_low": 1, "action_high": 1}  # others have 2, and actions either
DEFLATE = 1100  # no compression that is read here packs more bytes into one


class Header(NamedTuple):
    """What a file says of an array before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype
    read: Callable[[], np.ndarray]


def read_recording(source: str) -> Recording:
    """The episodes of an .npz or HDF5 file, or of a Minari dataset by its name."""
    path = Path(source)
    if path.suffix not in (".npz", *HDF5):
        if path.exists():
            raise UsageError(f"{source} is not a file of episodes: it must end in .npz, .h5 or .hdf5.")
        return _read_minari(source)
    if not path.is_file():
        raise ClearningError(f"There is no file {source}.")
    with (_npz_headers if path.suffix == ".npz" else _hdf5_headers)(path) as headers:
        return _read(source, headers)


def _read(source: str, headers: dict[str, Header]) -> Recording:
    """A recording whose sizes are known to fit together before its large arrays are read."""
    _refuse_headers(source, headers)
    length = headers["length"].read().astype(np.int64)
    if not len(length):
        raise ClearningError(f"{source} holds no episode.")
    if length.min() < 1:
        raise ClearningError(f"{source} has an episode of length {length.min()}: each needs a transition.")
    states, episodes = int((length + 1).sum()), len(length)
    rows = {"observation": states, "achieved_goal": states, "action": states - episodes}
    rows |= {"desired_goal": episodes, "dead": episodes}
    for name, wanted in rows.items():
        if name in headers and headers[name].shape[0] != wanted:
            raise ClearningError(
                f"{source} has {headers[name].shape[0]} rows of {name}; its {episodes} lengths call for "
                f"{wanted}."
            )
    arrays = {n: headers[n].read() for n in (*NEEDED, *OPTIONAL) if n in headers and n != "length"}
    return _checked(Recording(source, length=length, **arrays))


def _refuse_headers(source: str, headers: dict[str, Header]) -> None:
    for name in NEEDED:
        if name not in headers:
            near = difflib.get_close_matches(name, headers, n=1)
            hint = f"; is '{near[0]}' meant?" if near else f"; it needs {', '.join(NEEDED)}."
            raise ClearningError(f"{source} has no array '{name}'{hint}")
    known = (*NEEDED, *OPTIONAL)
    for name in headers.keys() - set(known):  # other arrays may be there, but not by a slip of the pen
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near:
            raise ClearningError(f"{source} has an array '{name}': is '{near[0]}' meant?")
    needed = 0
    for name in (n for n in known if n in headers):
        shape, dtype, _ = headers[name]
        kinds = KINDS.get(name, "fiu")
        if dtype.kind not in kinds:
            wanted = {"iu": "whole numbers", "b": "booleans"}.get(kinds, "numbers")
            raise ClearningError(f"The array '{name}' of {source} is of {dtype}: {wanted} are needed.")
        axes = (1, 2) if name == "action" else (AXES.get(name, 2),)
        if len(shape) not in axes or 0 in shape[1:]:
            wanted = " or ".join(map(str, axes))
            raise ClearningError(
                f"The array '{name}' of {source} has shape {shape}: {wanted} axes are needed."
            )
        needed += int(np.prod(shape, dtype=object)) * dtype.itemsize
    if needed > memory():
        raise ClearningError(
            f"{source} holds {needed / 1e9:.1f} GB of arrays, and this machine has {memory() / 1e9:.1f} GB."
        )


def _checked(r: Recording) -> Recording:
    """A recording in the dtypes of learners, all of it finite."""
    whole = r.action.ndim == 1
    if whole and r.action.dtype.kind == "f":
        raise ClearningError(
            f"The actions of {r.source} have one axis and are not whole numbers: vectors have two axes."
        )
    if whole and r.action.min() < 0:
        raise ClearningError(f"{r.source} has an action {r.action.min()}: they are numbered from 0.")
    floats = ("observation", "achieved_goal", "desired_goal", "action_low", "action_high")
    arrays: dict[str, Any] = {"action": r.action.astype(np.int32)} if whole else {}
    for name in (*floats, *([] if whole else ["action"])):
        value = getattr(r, name)
        if value is None:
            continue
        with np.errstate(over="ignore"):
            arrays[name] = value.astype(np.float32)
        if not np.isfinite(arrays[name]).all():
            row = int(np.argwhere(~np.isfinite(arrays[name]))[0][0])
            raise ClearningError(f"Row {row} of '{name}' in {r.source} is not finite: NaN or infinity.")
    r = r._replace(**arrays)
    if r.achieved_goal is not None and r.desired_goal is not None:
        sizes = (r.achieved_goal.shape[1], r.desired_goal.shape[1])
        if sizes[0] != sizes[1]:
            raise ClearningError(f"achieved_goal and desired_goal of {r.source} have {sizes} numbers.")
    low, high = r.action_low, r.action_high
    if (low is None) != (high is None) or (low is not None and high is not None and not (low < high).all()):
        raise ClearningError(f"{r.source} needs both action_low and action_high, low below high, or neither.")
    if low is not None and (whole or low.shape != r.action.shape[1:] or low.shape != high.shape):  # pyright: ignore[reportOptionalMemberAccess]
        raise ClearningError(
            f"The bounds of actions in {r.source} do not have as many numbers as its actions."
        )
    return r


@contextmanager
def _npz_headers(path: Path) -> Iterator[dict[str, Header]]:
    damaged = f"{path} is truncated, damaged or not an .npz file."
    try:
        with zipfile.ZipFile(path) as archive:
            members = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
            yield {name: _npy_header(path, archive, info) for name, info in members.items()}
    # zipfile's own words for a compression it does not know, and for a password, are the last two.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise ClearningError(damaged) from error


def _npy_header(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Header:
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as file:
        try:
            version = npy.read_magic(file)
            reads = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
            shape, _, dtype = reads[version](file)
        except (ValueError, KeyError) as error:
            raise ClearningError(f"The array '{name}' of {path} is damaged.") from error
        header = file.tell()
    if dtype.hasobject:
        raise ClearningError(
            f"The array '{name}' of {path} holds Python objects, which are not read: numbers."
        )
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if header + size != info.file_size or info.file_size > DEFLATE * (info.compress_size + 1):
        raise ClearningError(f"The array '{name}' of {path} says it has {size} bytes, and it has not.")

    def read() -> np.ndarray:
        with archive.open(info) as file:
            try:
                return npy.read_array(file, allow_pickle=False)
            except ValueError as error:
                raise ClearningError(f"The array '{name}' of {path} is truncated or damaged.") from error

    return Header(shape, dtype, read)


@contextmanager
def _hdf5_headers(path: Path) -> Iterator[dict[str, Header]]:
    h5py = _h5py()
    try:
        with h5py.File(path, "r") as file:
            arrays = {n: d for n, d in file.items() if isinstance(d, h5py.Dataset) and d.shape is not None}
            for name, array in arrays.items():
                if array.nbytes > DEFLATE * (array.id.get_storage_size() + 1):
                    raise ClearningError(
                        f"The array '{name}' of {path} says it has {array.nbytes} bytes, and it has not."
                    )
            yield {n: Header(d.shape, d.dtype, lambda d=d: d[()]) for n, d in arrays.items()}
    except (OSError, RuntimeError, KeyError) as error:  # KeyError: a link that leads nowhere
        raise ClearningError(f"{path} is truncated, damaged or not an HDF5 file.") from error


def _h5py() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise UsageError("HDF5 files need the extra: pip install 'clearning[minari]'.") from error
    return h5py


def _read_minari(name: str) -> Recording:
    """A Minari dataset on this machine; nothing is downloaded."""
    try:
        import minari
    except ImportError as error:
        raise UsageError(
            f"There is no file {name}; if it is a Minari dataset: pip install 'clearning[minari]'."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = minari.load_dataset(name)
            episodes = list(dataset.iterate_episodes())
    except FileNotFoundError as error:
        raise UsageError(f"There is neither a file nor a local Minari dataset '{name}'.") from error
    except Exception as error:  # whatever a foreign reader raises at what it finds
        raise ClearningError(f"The Minari dataset {name} could not be read: {error}") from error
    if not episodes:
        raise ClearningError(f"{name} holds no episode.")
    if not isinstance(episodes[0].observations, dict):
        raise ClearningError(
            f"{name} is not a goal dataset: its observations are no dictionary with 'observation', "
            f"'achieved_goal' and 'desired_goal'."
        )
    bounds = {n: getattr(dataset.action_space, n[7:], None) for n in ("action_low", "action_high")}
    arrays = _end_to_end(name, map(_from_minari, episodes))
    arrays |= {k: v for k, v in bounds.items() if v is not None and np.isfinite(v).all()}
    terminated = np.array([e.terminations[-1] for e in episodes], bool)
    headers = {n: Header(a.shape, a.dtype, lambda a=a: a) for n, a in arrays.items()}
    return _read(name, headers)._replace(dead=None, terminated=terminated)


def _from_minari(episode: Any) -> dict[str, Any]:
    seen = episode.observations
    desired = seen.get("desired_goal")
    goal = {} if desired is None else {"desired_goal": desired[0]}
    return {k: v for k, v in seen.items() if k != "desired_goal"} | goal | {"action": episode.actions}


def save_episodes(
    path: str | Path,
    episodes: Iterable[Mapping[str, Any]],
    action_low: ArrayLike | None = None,
    action_high: ArrayLike | None = None,
) -> Path:
    """Write episodes to an .npz or HDF5 file that `clearning train --from-episodes` reads.

    An episode of L transitions is a mapping with `observation` (L + 1, n) and `action` (L,) or (L, m), and
    optionally `achieved_goal` (L + 1, k), `desired_goal` (k,) and `dead`; see docs/offline.md.
    """
    path = Path(path)
    if path.suffix not in (".npz", *HDF5):
        raise UsageError(f"{path} must end in .npz, .h5 or .hdf5.")
    arrays = _end_to_end(str(path), episodes)
    bounds = {"action_low": action_low, "action_high": action_high}
    arrays |= {name: np.asarray(bound) for name, bound in bounds.items() if bound is not None}
    _read(str(path), {n: Header(a.shape, a.dtype, lambda a=a: a) for n, a in arrays.items()})
    data = io.BytesIO()
    if path.suffix == ".npz":
        np.savez_compressed(data, allow_pickle=False, **arrays)
    else:
        with _h5py().File(data, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array, compression="gzip")
    write_atomically(path, data.getvalue())
    return path


def _end_to_end(source: str, episodes: Iterable[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """Episodes one after the other in the arrays of a file."""
    kept = [{k: np.asarray(v) for k, v in e.items() if k in OF_EPISODE} for e in episodes]
    if not kept:
        raise ClearningError(f"{source} would hold no episode.")
    for i, episode in enumerate(kept):
        if episode.keys() != kept[0].keys() or not {"observation", "action"} <= episode.keys():
            raise ClearningError(
                f"Episode {i} of {source} has {', '.join(sorted(episode)) or 'nothing'}: each needs "
                f"observation and action, and all the same others."
            )
        states = len(episode["action"]) + 1
        for name in ("observation", "achieved_goal"):
            if name in episode and len(episode[name]) != states:
                raise ClearningError(
                    f"Episode {i} of {source} has {states - 1} actions and {len(episode[name])} of {name}: "
                    f"there must be one more."
                )
    join = {n: np.stack if n in ("desired_goal", "dead") else np.concatenate for n in kept[0]}
    try:
        arrays = {name: how([e[name] for e in kept]) for name, how in join.items()}
    except ValueError as error:
        raise ClearningError(f"The episodes of {source} differ in their sizes: {error}.") from error
    return arrays | {"length": np.array([len(e["action"]) for e in kept], np.int64)}


def replayed_episodes(run: str | Path) -> Iterator[dict[str, Any]]:
    """The episodes in a run's replay buffer, oldest first, as `save_episodes` takes them."""
    folder = Path(run)
    if not (folder / "checkpoint.safetensors").is_file():
        raise UsageError(f"{run} has no checkpoint, so there are no replayed episodes.")
    buffer, _ = load_arrays(folder / "checkpoint.safetensors")
    spec = spec_from_dict(load_arrays(folder / "agent.safetensors")[1].get("spec", {}))
    places = len(buffer["buffer.observation"])
    for number in range(int(buffer["buffer.first_episode"]), int(buffer["buffer.episodes_used"])):
        entry = number % len(buffer["buffer.episode_start"])
        length = buffer["buffer.episode_length"][entry]
        at = (buffer["buffer.episode_start"][entry] + np.arange(length + 1)) % places
        action = buffer["buffer.action"][at[:-1]]
        yield {
            "observation": buffer["buffer.observation"][at],
            "achieved_goal": buffer["buffer.achieved"][at],
            "action": spec.in_bounds(action) if spec.continuous else action,
            "desired_goal": buffer["buffer.episode_goal"][entry],
            "dead": buffer["buffer.episode_dead"][entry],
        }
