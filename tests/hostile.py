"""Files as a stranger might send them: mutations of good ones, and every function that reads one.

`tests/test_hostile_files.py` tries a few of each, `benchmarks/fuzz.py` a hundred thousand.
"""

import copy
import json
import random
import shutil
import struct
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from clearning import buffer as ring
from clearning import files
from clearning.agent import Agent
from clearning.agents import learner_kind
from clearning.config import Config, config_from_dict
from clearning.core.calibration import recalibration_from_dict
from clearning.envs import make, make_world, refuse_foreign_module
from clearning.errors import ClearningError
from clearning.files import load_arrays, read_json, read_record, save_arrays, spec_from_dict
from clearning.fitness import refuse_unfit
from clearning.networks import build_network
from clearning.planning import replayed_states
from clearning.presets import PRESETS
from clearning.report.questions import ask
from clearning.reproduce.results import _is_whole
from clearning.runs import RunFolder

OLD = Path(__file__).parent / "data" / "run-0.1.0" / "lake"
Tool = random.Random

ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 2**31 - 1, 2**31, 2**63, 10**9, 10**12, 10**30, 10**400),
    *(0.5, -0.5, -0.0, 1e-300, 1e38, 1e39, 1e308, float("nan"), float("inf"), -float("inf")),
    *("", "x", "0", "isotonic", "l2", "td3", "gcsl", "raw", "one-hot", "BF16", "F8_E4M3", "F64", "U64"),
    *("a" * 2000, "\x1b[31m", "\ud800", "$x^$", "[/b]", "antigravity:Id-v0", "../../x", "%s{}", "\x00"),
    *([], {}, [0], [-1], [10**9], [10**9] * 3, [1] * 500, [0.1, 0.9], [[1], [2]], ["x"], {"a": {"b": []}}),
)
TOKENS = [b"NaN", b"-1", b"1e999", b'"', b"{", b"}", b"[", b"]", b",", b":", b"null", b"true", b"\n", b"\x00"]
TOKENS += [b"\xff\xfe", b"9" * 5000, b"[" * 100_000, b'{"a":' * 3000, b"episodes", b"\xe2\x82", b"," * 300]


# Mutations ------------------------------------------------------------------------------------------


def mutated_bytes(data: bytes, tool: Tool) -> bytes:
    """Some bytes flipped, cut, doubled, moved or replaced by what parsers stumble over."""
    out = bytearray(data)
    for _ in range(tool.choice((1, 1, 2, 4, 16))):
        at = tool.randrange(len(out) + 1)
        end = min(len(out), at + tool.choice((1, 2, 8, 64)))
        kind = tool.randrange(7)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << tool.randrange(8)
        elif kind == 1:
            out[at:end] = tool.randbytes(end - at)
        elif kind == 2:
            del out[at:end]
        elif kind == 3:
            out[at:at] = out[at:end] * tool.choice((1, 2, 50))
        elif kind == 4:
            out[at:at] = tool.choice(TOKENS)
        elif kind == 5:
            out[at:end] = tool.choice(TOKENS)
        else:
            del out[at if tool.random() < 0.2 else end :]
    return bytes(out)


def mutated(record: Any, tool: Tool) -> Any:
    """A JSON value with some of its parts removed, doubled, renamed, swapped or replaced by odd ones."""
    record = copy.deepcopy(record)
    for _ in range(tool.choice((1, 1, 1, 2, 3))):
        places = _places(record)
        if not places:
            return tool.choice(ODD)
        holder, key = tool.choice(places)
        kind = tool.randrange(7)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[tool.choice(("", "x", "__class__", str(key).upper()))] = holder.pop(key)
        elif kind == 2:
            other, name = tool.choice(places)
            holder[key], other[name] = copy.deepcopy(other[name]), copy.deepcopy(holder[key])
        elif kind == 3:
            holder[key] = [holder[key]] * tool.choice((1, 2, 40))
        elif kind == 4 and isinstance(holder[key], int | float):
            holder[key] = holder[key] * tool.choice((-1, 0, 2, 0.5, 1000))
        else:
            holder[key] = copy.deepcopy(tool.choice(ODD))
    return record


def _places(record: Any) -> list[tuple[Any, Any]]:
    keys = (
        list(record) if isinstance(record, dict) else range(len(record)) if isinstance(record, list) else ()
    )
    found = [(record, key) for key in keys]
    return found + [place for _, key in found for place in _places(record[key])]


def mutated_table(text: str, tool: Tool) -> bytes:
    """A CSV with cells, rows and columns that are not what they should be."""
    rows = [line.split(",") for line in text.splitlines()]
    for _ in range(tool.choice((1, 2, 5))):
        row = tool.choice(rows)
        at = tool.randrange(len(row) or 1)
        odd = tool.choice(
            ("", "x", "nan", "inf", "-1", "1e999", "1e20", "0x1", '"', "1_000", "٣", "\x00", "1;2")
        )
        kind = tool.randrange(5)
        if kind < 2 and row:
            row[at] = odd
        elif kind == 2:
            row.insert(at, odd)
        elif kind == 3 and row:
            del row[at]
        else:
            rows.insert(tool.randrange(len(rows) + 1), list(tool.choice(rows)))
    return ("\n".join(",".join(row) for row in rows) + tool.choice(("", "\n", "\r\n"))).encode()


def mutated_arrays(arrays: dict[str, np.ndarray], tool: Tool) -> dict[str, np.ndarray]:
    """Arrays of which one is gone, renamed, of another type or shape, or holds what no training writes."""
    arrays = dict(arrays)
    name = tool.choice(sorted(arrays))
    array = arrays[name]
    kind = tool.randrange(6)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name + "x"] = arrays.pop(name)
    elif kind == 2:
        arrays[name] = array.astype(tool.choice(("f8", "f2", "i8", "i4", "?", "u1")))
    elif kind == 3:
        arrays[name] = array.reshape(-1)[: tool.randrange(array.size + 1)]
    elif kind == 4:
        arrays[name] = np.zeros(tool.choice(((), (0,), (1, 1, 1), (1, 50_000), (3,))), array.dtype)
    else:
        odd = tool.choice((np.nan, np.inf, -1e38, -(2**31), 2**31 - 1, -1, 0))
        with np.errstate(invalid="ignore"):
            arrays[name] = np.full(array.shape, odd).astype(array.dtype)
    return arrays


# The loaders ----------------------------------------------------------------------------------------


class Loaders:
    """Every function that reads a file, each with a way to feed it; an input goes by its number."""

    def __init__(self, folder: Path):
        self.run = Path(shutil.copytree(OLD, folder / "run", dirs_exist_ok=True))
        self.folder = RunFolder(self.run)
        self.config_text = (OLD / "config.json").read_bytes()
        self.asked = json.loads(self.config_text)
        self.metrics_text = (OLD / "metrics.csv").read_text()
        self.agent_bytes = (OLD / "agent.safetensors").read_bytes()
        self.agent_arrays, self.agent = load_arrays(OLD / "agent.safetensors")
        self.agent["recalibration"] = asdict(
            recalibration_from_dict({"kind": "isotonic", "knots": [0.0, 0.4, 1.0], "values": [0.1, 0.5, 0.9]})
        )
        self.saved_arrays, self.saved = load_arrays(OLD / "checkpoint.safetensors")
        self.presets = [asdict(build()) for build in PRESETS.values()]
        self.tiny = self.folder.read()[0]
        spec = make_world(self.tiny).spec
        self.learner = learner_kind(spec, self.tiny).start(build_network(spec, self.tiny, jax.random.key(0)))
        self.buffer = ring.init(spec, self.tiny.buffer_capacity)
        self.by_name: dict[str, Callable[[Tool], Any]] = {
            "config.json, bytes": self.config_bytes,
            "config.json, structure": self.config_structure,
            "config.json, a setting of any preset": self.config_setting,
            "metrics.csv, bytes": self.metrics_bytes,
            "metrics.csv, cells": self.metrics_cells,
            "safetensors, bytes": self.tensor_bytes,
            "safetensors, header": self.tensor_header,
            "safetensors, record": self.tensor_record,
            "agent's spec": self.spec,
            "agent's recalibration": self.recalibration,
            "checkpoint's counters": self.counters,
            "kept evaluation": self.evaluation,
            "options of an environment": self.options,
            "agent, whole": self.whole_agent,
            "checkpoint, whole": self.whole_checkpoint,
            "replayed states": self.replayed,
            "resume, before anything is built": self.resumed,
            "ask": self.asked_run,
        }

    def feed(self, name: str, number: int) -> bool:
        """Give a loader its input with a number: whether it gave an object. All but our error is raised."""
        try:
            self.by_name[name](random.Random(f"{name} {number}"))
        except ClearningError as error:
            sentence = str(error)
        else:
            return True
        assert sentence.isprintable(), f"no plain sentence: {sentence!a}"
        return False

    def _config(self, data: bytes) -> None:
        self.folder.config_file.write_bytes(data)
        config, seed, _ = self.folder.read()
        assert isinstance(config, Config)
        assert 0 <= seed < 2**31

    def config_bytes(self, tool: Tool) -> None:
        self._config(mutated_bytes(self.config_text, tool))

    def config_structure(self, tool: Tool) -> None:
        self._config(json.dumps(mutated(self.asked, tool)).encode())

    def config_setting(self, tool: Tool) -> None:
        values = tool.choice(self.presets)
        values = values | {tool.choice(list(values)): tool.choice(ODD)}
        self._config(json.dumps(self.asked | {"config": values}).encode())

    def _metrics(self, data: bytes) -> None:
        self.folder.metrics_file.write_bytes(data)
        columns = self.folder.metrics()
        assert {len(c) for c in columns.values()} == {len(columns["episodes"])}
        assert int(columns["env_steps"][-1]) >= 0

    def metrics_bytes(self, tool: Tool) -> None:
        self._metrics(mutated_bytes(self.metrics_text.encode(), tool))

    def metrics_cells(self, tool: Tool) -> None:
        self._metrics(mutated_table(self.metrics_text, tool))

    def _tensors(self, data: bytes) -> None:
        self.folder.agent_file.write_bytes(data)
        read_record(self.folder.agent_file)
        load_arrays(self.folder.agent_file)

    def tensor_bytes(self, tool: Tool) -> None:
        self._tensors(mutated_bytes(self.agent_bytes, tool))

    def tensor_header(self, tool: Tool) -> None:
        (length,) = struct.unpack("<Q", self.agent_bytes[:8])
        header = mutated(json.loads(self.agent_bytes[8 : 8 + length]), tool)
        text = json.dumps(header).encode()
        claimed = tool.choice((len(text),) * 6 + (2**63, 10**8, len(text) + 1, 0))
        self._tensors(struct.pack("<Q", claimed) + text + self.agent_bytes[8 + length :])

    def tensor_record(self, tool: Tool) -> None:
        arrays = {"x": np.zeros(3, np.float32)}
        text = mutated_bytes(json.dumps({"format": 1, "kind": "agent"}).encode(), tool)
        header = {"record": text.decode(errors="replace"), "sha256": files._digest(arrays)}
        self._tensors(save(arrays, header))

    def spec(self, tool: Tool) -> None:
        values = json.loads(json.dumps(mutated(self.agent["spec"], tool)))
        spec = spec_from_dict(values)
        assert spec.observation_size
        assert spec.goal_size

    def recalibration(self, tool: Tool) -> None:
        values = json.loads(json.dumps(mutated(self.agent["recalibration"], tool)))
        found = recalibration_from_dict(values)
        assert found is None or found.temperature > 0

    def counters(self, tool: Tool) -> None:
        record = mutated(self.saved, tool)
        save_arrays(
            self.folder.checkpoint_file, {"x": np.zeros(1)}, record if isinstance(record, dict) else {}
        )
        assert isinstance(self.folder.is_finished(), bool)

    def evaluation(self, tool: Tool) -> None:
        goals: dict[str, Any] = {
            "in_paper": [True, False],
            "stratum": ["easy", "hard"],
            "success": [1.0, 0.0],
        }
        goals |= {name: [3.0, float("nan")] for name in ("steps", "distance", "final_distance")}
        file = self.run / "evaluation.json"
        text = json.dumps({"agent": "", "found": mutated(goals, tool)}).encode()
        file.write_bytes(mutated_bytes(text, tool) if tool.random() < 0.5 else text)
        kept = read_json(file).get("found")
        if _is_whole(kept):
            np.array(kept["success"], float), np.array(kept["in_paper"], bool), np.array(kept["steps"], float)

    def options(self, tool: Tool) -> None:
        build = tool.choice(
            [b for b in PRESETS.values() if b().env in ("frozen-lake", "mini-maze", "dubins-car")]
        )
        values = asdict(make(build().env))
        world = make(build().env, {tool.choice(list(values)): tool.choice(ODD)})
        assert world.spec.max_episode_steps >= 1

    def whole_agent(self, tool: Tool) -> None:
        record, arrays = self.agent, self.agent_arrays
        if tool.random() < 0.5:
            record = mutated(record, tool)
        else:
            arrays = mutated_arrays(arrays, tool)
        save_arrays(self.folder.agent_file, arrays, record if isinstance(record, dict) else {})
        agent = Agent.load(self.folder.agent_file)
        assert all(np.isfinite(x).all() for x in files.named_arrays(agent.network).values())

    def whole_checkpoint(self, tool: Tool) -> None:
        save_arrays(self.folder.checkpoint_file, mutated_arrays(self.saved_arrays, tool), self.saved)
        self.folder.load_checkpoint(self.learner, self.buffer)

    def replayed(self, tool: Tool) -> None:
        kept = {n: a for n, a in self.saved_arrays.items() if n in ("buffer.observation", "buffer.achieved")}
        save_arrays(self.folder.checkpoint_file, mutated_arrays(kept, tool), self.saved)
        replayed_states(self.run, 3)

    def resumed(self, tool: Tool) -> None:
        values = asdict(self.tiny)
        name = tool.choice(("hidden", "buffer_capacity", "max_horizon", "parallel_envs", "features", "env"))
        values[name] = tool.choice((10**5, 10**9, 2**31 - 1, [60_000] * 3, [60_000] * 90, *ODD))
        config = config_from_dict(json.loads(json.dumps(values)))
        refuse_foreign_module(config)
        if config.env == self.tiny.env:
            refuse_unfit(make_world(config), config)

    def asked_run(self, tool: Tool) -> None:
        self.folder.config_file.write_bytes(self.config_text)
        options = {tool.choice(("slip", "max_episode_steps")): tool.choice(ODD)}
        record = self.agent | {"config": self.agent["config"] | {"env_options": options}}
        save_arrays(self.folder.agent_file, self.agent_arrays, record)
        ask(str(self.run), [1, 0], [1, 6], horizon=5)
