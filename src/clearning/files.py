"""Arrays and records on disk: safetensors and JSON, written atomically, read without executing anything."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from clearning.errors import ClearningError, WriteFailed
from clearning.types import EnvSpec, GoalCheck, StepBound

FORMAT = 1
"""Version of the run folder's and the agent file's layout."""


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


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())


def read_json(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise ClearningError(f"Could not read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise ClearningError(f"{path} is not valid JSON; it is damaged or not ours.") from error
    if not isinstance(record, dict):
        raise ClearningError(f"{path} does not hold a JSON object; it is damaged or not ours.")
    return record


def check_format(record: Mapping[str, Any], path: Path) -> None:
    """Refuse files of a newer layout by name of the version that wrote them."""
    found = record.get("format")
    if not isinstance(found, int):
        raise ClearningError(f"{path} does not say its format; it is damaged or not ours.")
    if found > FORMAT:
        version = record.get("version", "a newer version")
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
        return jax.numpy.asarray(stored)

    return jax.tree_util.tree_map_with_path(replace, like)


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray], record: Mapping[str, Any]) -> None:
    """Write arrays with a JSON record and a digest of their bytes."""
    arrays = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    header = {"record": json.dumps({"format": FORMAT, **record}), "sha256": _digest(arrays)}
    write_atomically(path, save(arrays, header))


def read_record(path: Path) -> dict[str, Any]:
    """The JSON record of what `save_arrays` wrote, without the arrays."""
    try:
        with safe_open(path, framework="numpy") as file:
            record = json.loads((file.metadata() or {}).get("record", "null"))
    except (SafetensorError, OSError, ValueError) as error:
        raise ClearningError(f"{path} is truncated, damaged or not a clearning file.") from error
    return record if isinstance(record, dict) else {}


def load_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what `save_arrays` wrote; a truncated, altered or foreign file is refused."""
    damaged = f"{path} is truncated, damaged or not a clearning file; restore it from a copy or train anew."
    if not path.is_file():
        raise ClearningError(f"There is no file {path}.")
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            record = json.loads(header.get("record", "null"))
            if not isinstance(record, dict):
                raise ClearningError(damaged)
            check_format(record, path)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, it is not a dict
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise ClearningError(damaged) from error
    if header.get("sha256") != _digest(arrays):
        raise ClearningError(damaged)
    return arrays, record


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data if arrays[name].size else b"")
    return digest.hexdigest()


def spec_to_dict(spec: EnvSpec) -> dict[str, Any]:
    return asdict(spec)


def spec_from_dict(values: Mapping[str, Any]) -> EnvSpec:
    """An environment's spec read back from JSON."""

    def tuples(record: Mapping[str, Any]) -> dict[str, Any]:
        return {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}

    try:
        fields = tuples(values)
        check, bound = fields["goal_check"], fields["step_bound"]
        fields["goal_check"] = GoalCheck(**tuples(check)) if check else None
        fields["step_bound"] = StepBound(**bound) if bound else None
        return EnvSpec(**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ClearningError("The file's description of its environment is damaged.") from error
