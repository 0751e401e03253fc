"""Arrays and records on disk: safetensors and JSON, written atomically, read without executing anything."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from operator import le
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from clearning.errors import ClearningError, UsageError, WriteFailed
from clearning.records import check_fields, check_name, record_from
from clearning.types import EnvSpec

FORMAT = 1
"""Version of the run folder's and the agent file's layout."""
LARGEST_JSON = 4_000_000  # bytes; parsed, they take up to 25 times as many


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file so that a reader, or a power cut, sees the old content or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise WriteFailed(path, error) from error
    finally:
        with contextlib.suppress(OSError):  # gone if all went well; a read-only folder refuses even the try
            temporary.unlink()


def temporaries(folder: Path) -> list[Path]:
    """What processes that were killed in `write_atomically` have left in a folder."""
    return [f for f in folder.glob(".*") if re.fullmatch(r"\.\w+\.(json|safetensors)\.\d+", f.name)]


def memory() -> int:
    """How many bytes of memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            text = file.read(LARGEST_JSON + 1)
    except OSError as error:
        raise ClearningError(f"Could not read {path}: {error.strerror}.") from error
    try:
        return _parsed(text)
    except ValueError as error:
        raise ClearningError(f"{path} is not valid JSON; it is damaged or not ours.") from error


def _parsed(text: bytes | str) -> dict[str, Any]:
    """A JSON object; anything else is a ValueError."""
    if len(text) > LARGEST_JSON:
        raise ValueError("too long")
    try:
        record = json.loads(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return record


def check_format(record: Mapping[str, Any], path: Path) -> None:
    """Refuse files of a newer layout by name of the version that wrote them."""
    found = record.get("format")
    if type(found) is not int or found < 1:
        raise ClearningError(f"{path} does not say its format; it is damaged or not ours.")
    if found > FORMAT:
        version = str(record.get("version", "of a newer version"))
        version = version if version.isprintable() and len(version) < 40 else "of a newer version"
        found = min(found, 10**9)  # a longer number is no format anyway
        raise ClearningError(
            f"{path} was written by clearning {version} (format {found}); this version reads up to "
            f"format {FORMAT}: upgrade clearning to read it."
        )


def named_arrays(tree: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """The arrays of a pytree by their path, as in `mlp.layers[0].weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {
        prefix + jax.tree_util.keystr(path).lstrip("."): np.asarray(leaf)
        for path, leaf in leaves
        if hasattr(leaf, "dtype")
    }


def fill(like: Any, arrays: Mapping[str, np.ndarray], prefix: str, path: Path) -> Any:
    """A pytree shaped as `like` with its arrays replaced by stored ones, which must fit exactly."""

    def replace(key: Any, leaf: Any) -> Any:
        if not hasattr(leaf, "dtype"):
            return leaf
        name = prefix + jax.tree_util.keystr(key).lstrip(".")
        stored = arrays.get(name)
        if stored is None or stored.shape != leaf.shape or stored.dtype != leaf.dtype:
            found = "nothing" if stored is None else f"{stored.dtype}{list(stored.shape)}"
            raise ClearningError(
                f"{path} does not fit its config: '{name}' should be {leaf.dtype}{list(leaf.shape)}, "
                f"found {found}."
            )
        if not np.isfinite(stored).all():
            raise ClearningError(f"{path} is damaged: '{name}' holds NaN or infinity.")
        return jax.numpy.asarray(stored)

    return jax.tree_util.tree_map_with_path(replace, like)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
    """Write arrays with a JSON record and a digest of their bytes."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    header = {"record": json.dumps({"format": FORMAT, **record}), "sha256": _digest(arrays)}
    write_atomically(path, save(arrays, header))


def read_record(path: Path) -> dict[str, Any]:
    """The JSON record of what `save_arrays` wrote, without the arrays."""
    return _read(path, with_arrays=False)[1]


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_arrays` wrote; a truncated, altered or foreign file is refused."""
    arrays, record, digest = _read(path, with_arrays=True)
    if digest != _digest(arrays):
        raise _damaged(path)
    return arrays, record


def _read(path: Path, with_arrays: bool) -> tuple[dict[str, np.ndarray], dict[str, Any], str | None]:
    if not path.is_file():
        raise ClearningError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            record = _parsed(header.get("record", "null"))
            check_format(record, path)
            names = file.keys() if with_arrays else ()
            arrays = {name: file.get_tensor(name) for name in names}
    # What numpy has no type for is an AttributeError or a KeyError of safetensors.
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise _damaged(path) from error
    return arrays, record, header.get("sha256")


def _damaged(path: Path) -> ClearningError:
    return ClearningError(
        f"{path} is truncated, damaged or not a clearning file; restore it from a copy or train anew."
    )


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data if arrays[name].size else b"")
    return digest.hexdigest()


def spec_to_dict(spec: EnvSpec) -> dict[str, Any]:
    return asdict(spec)


def spec_from_dict(values: Any) -> EnvSpec:
    """An environment's spec read back from JSON."""
    try:
        spec = record_from(EnvSpec, values, "it")
        check_spec(spec)
    except UsageError as error:
        raise ClearningError(f"The file's description of its environment is damaged: {error}") from error
    return spec


def check_spec(spec: EnvSpec) -> None:
    """Refuse a spec that could not be read back."""
    check_fields(spec)
    check_name(spec.name, "An environment")
    if not _is_whole(spec):
        raise UsageError(
            f"The spec of {spec.name} does not fit together: bounds need a low and a high each, and "
            f"coordinates must be those of the observation, one for each of the goal."
        )


def _is_whole(spec: EnvSpec) -> bool:
    """Whether the parts of a spec go together."""
    check, bound = spec.goal_check, spec.step_bound
    pairs = (
        (spec.observation_low, spec.observation_high),
        (spec.goal_low, spec.goal_high),
        (spec.action_low, spec.action_high),
    )
    shown = [at for at in (spec.achieved_at, check.coordinates if check else ()) if at]
    return (
        all(len(low) == len(high) and all(map(le, low, high)) for low, high in pairs)
        and bool(spec.observation_low and spec.goal_low)
        and bool(spec.action_names) != spec.continuous
        and spec.max_episode_steps >= 1
        and all(len(at) == spec.goal_size and 0 <= min(at) <= max(at) < spec.observation_size for at in shown)
        and (check is None or (bool(check.coordinates) and check.radius >= 0))
        and (bound is None or (bound.per_step > 0 and bound.slack >= 0))
    )
