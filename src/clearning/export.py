"""A trained agent as one ONNX file, which runs wherever ONNX does, without JAX and without this package.

The graph is written by hand, operator by operator, beside the JAX it repeats: what an agent tells is in
`clearning.agent`, how it picks horizon and action in `clearning.rollout`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from clearning.agent import Agent
from clearning.core.calibration import EDGE, Recalibration
from clearning.core.horizons import NOISE_FLOOR
from clearning.core.recursions import C_RULE, rule_for
from clearning.errors import ClearningError, UsageError
from clearning.files import write_atomically
from clearning.networks.actor_critic import HeadsActorCritic, HorizonActorCritic, spread_actions
from clearning.networks.inputs import CLIP, SMALLEST_DEVIATION, Inputs, NormalisedInputs
from clearning.networks.layers import MLP, Hazards, MinMax
from clearning.networks.numbered import AllHorizons, SampledHorizon
from clearning.types import Norm, StepBound

OPSET = 18  # the first whose reductions all take their axes as an input
IR_VERSION = 8  # the file layout that came with it


def export_onnx(agent: Agent, path: str | Path) -> Path:
    """Write an agent's reach curve and policy to an ONNX file; see docs/export.md for its inputs and outputs.

    Needs the extra `onnx`. A file that is there already is replaced.
    """
    path = Path(path)
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name the file to write, as in {path / 'model.onnx'}.")
    data = onnx_model(agent).SerializeToString()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClearningError(f"Could not create {path.parent}: {error.strerror}.") from error
    write_atomically(path, data)
    return path


def onnx_model(agent: Agent) -> Any:
    """An agent as an `onnx.ModelProto`."""
    if not agent.knows_c:
        raise UsageError(
            f"Only agents that know how surely a goal is reached can be exported; one trained by "
            f"{agent.config.method} does not."
        )
    spec, horizons = agent.spec, agent.max_horizon
    graph = Graph()
    observation, goal, alpha, horizon = "observation", "goal", "alpha", "horizon"
    logits, proposals = _logits(graph, agent.network, observation, goal)
    values = graph("Sigmoid", logits) if rule_for(agent.config.method, 0.5).link is C_RULE.link else logits
    best = graph("ReduceMax", values, _ints(1), keepdims=0)  # (n, H)

    _told(graph, agent, best, observation, goal)

    given = graph("Unsqueeze", graph("Greater", horizon, _ints(0)), _ints(1))
    asked = graph("Unsqueeze", graph("Min", horizon, _ints(horizons)), _ints(1))
    safe = _safe_horizon(graph, agent, best, alpha, observation, goal)
    chosen = graph("Where", given, asked, safe)  # (n, 1)
    # A horizon that is asked for is taken at its word, and by logits: large ones are all 1 as probabilities.
    vote = graph("Where", given, _ints(0), _ints(agent.config.vote))
    votes = graph("LessOrEqual", graph("Abs", graph("Sub", _every_horizon(horizons), chosen)), vote)
    scores = graph("Where", graph("Unsqueeze", given, _ints(2)), logits, values)
    counted = graph("Where", graph("Unsqueeze", votes, _ints(1)), scores, 0.0)
    greedy = graph("ArgMax", graph("ReduceSum", counted, _ints(2), keepdims=0), axis=1, keepdims=1)  # (n, 1)
    graph("Squeeze", chosen, _ints(1), output="chosen_horizon")
    if spec.continuous:
        # The paper's actor proposes one action for each horizon, ours one for each head.
        one_each = isinstance(agent.network, HorizonActorCritic)
        index = graph("Sub", chosen, _ints(1)) if one_each else greedy
        action = graph("GatherND", proposals, index, batch_dims=1)
        low, high = (np.array(x, np.float32) for x in (spec.action_low, spec.action_high))
        scaled = graph("Add", low, graph("Mul", graph("Add", action, 1.0), (high - low) / 2))
        graph("Min", graph("Max", scaled, low), high, output="action")
    else:
        graph("Squeeze", greedy, _ints(1), output="action")
    return graph.model(agent)


class Graph:
    """Nodes and constants of a graph under construction; calling it adds a node and names its output."""

    def __init__(self) -> None:
        try:
            import onnx
        except ImportError as error:
            raise UsageError("Export needs the extra: pip install 'clearning[onnx]'.") from error
        self.onnx, self.nodes, self.constants = onnx, [], []

    def __call__(self, operator: str, *inputs: Any, output: str = "", **attributes: Any) -> str:
        """Add a node; an input is another's name, an array, or a number, which becomes a float32."""
        output = output or f"{operator}_{len(self.nodes)}"
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(self.onnx.helper.make_node(operator, names, [output], name=output, **attributes))
        return output

    def constant(self, value: Any) -> str:
        array = np.asarray(value, None if isinstance(value, np.ndarray) else np.float32)
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def model(self, agent: Agent) -> Any:
        """The whole model, with its inputs and outputs described."""
        spec, helper, kind = agent.spec, self.onnx.helper, self.onnx.TensorProto
        info = helper.make_tensor_value_info
        inputs = [
            info("observation", kind.FLOAT, ["batch", spec.observation_size]),
            info("goal", kind.FLOAT, ["batch", spec.goal_size]),
            info("alpha", kind.FLOAT, ["one or batch of alphas"]),
            info("horizon", kind.INT64, ["one or batch of horizons"]),
        ]
        action = (kind.FLOAT, ["batch", len(spec.action_low)]) if spec.continuous else (kind.INT64, ["batch"])
        outputs = [
            info("reach_curve", kind.FLOAT, ["batch", agent.max_horizon]),
            info("action", *action),
            info("chosen_horizon", kind.INT64, ["batch"]),
        ]
        graph = helper.make_graph(self.nodes, "clearning", inputs, outputs, self.constants)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, producer_name="clearning", opset_imports=[opset])
        model.ir_version = IR_VERSION
        about = {
            "environment": spec.name,
            "method": agent.config.method,
            "max_horizon": str(agent.max_horizon),
            "alpha": str(agent.config.alpha),
            "action_names": json.dumps(spec.action_names),
        }
        helper.set_model_props(model, about)
        return model


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _every_horizon(horizons: int) -> np.ndarray:
    return np.arange(1, horizons + 1)[None]  # (1, H)


def _floats(array: Any) -> np.ndarray:
    return np.asarray(array, np.float32)


# What an agent tells, and the horizon that it picks --------------------------------------------------


def _told(graph: Graph, agent: Agent, best: str, observation: str, goal: str) -> None:
    """The reach curve: recalibrated where a map is stored, and 1 at a reached goal."""
    curve = graph("Clip", best, 0.0, 1.0)
    if agent.recalibration:
        curve = _recalibrated(graph, agent.recalibration, curve)
    check = agent.spec.goal_check
    if check is None:
        graph("Identity", curve, output="reach_curve")
        return
    far = _distance(graph, check.norm, _columns(graph, observation, check.coordinates), goal)
    graph("Where", graph("LessOrEqual", far, float(check.radius)), 1.0, curve, output="reach_curve")


def _recalibrated(graph: Graph, told: Recalibration, curve: str) -> str:
    if told.kind == "temperature":
        kept = graph("Clip", curve, EDGE, 1 - EDGE)
        logit = graph("Sub", graph("Log", kept), graph("Log", graph("Sub", 1.0, kept)))
        return graph("Sigmoid", graph("Div", logit, float(told.temperature)))
    # Piecewise linear: what each stretch between two knots adds, from none to all of its rise.
    knots, values = _floats(told.knots), _floats(told.values)
    width = np.maximum(np.diff(knots), np.finfo(np.float32).tiny)
    past = graph("Sub", graph("Unsqueeze", curve, _ints(2)), knots[:-1])  # (n, H, stretches)
    share = graph("Clip", graph("Div", past, width), 0.0, 1.0)
    rise = graph("ReduceSum", graph("Mul", share, np.diff(values)), _ints(2), keepdims=0)
    return graph("Add", rise, values[:1])


def _safe_horizon(graph: Graph, agent: Agent, best: str, alpha: str, observation: str, goal: str) -> str:
    """h_α, (n, 1), as `smallest_safe_horizon`."""
    spec, horizons = agent.spec, _every_horizon(agent.max_horizon)
    if agent.config.skip_ruled_out and spec.step_bound and spec.goal_check:
        achieved = _columns(graph, observation, spec.goal_check.coordinates)
        fewest = _min_steps(graph, spec.step_bound, achieved, goal)
        best = graph("Where", graph("Less", _floats(horizons), fewest), 0.0, best)
    largest = graph("ReduceMax", best, _ints(1), keepdims=1)
    enough = graph("Mul", graph("Unsqueeze", alpha, _ints(1)), largest)
    is_enough = graph("Cast", graph("GreaterOrEqual", best, enough), to=graph.onnx.TensorProto.INT32)
    first = graph("Add", graph("ArgMax", is_enough, axis=1, keepdims=1), _ints(1))
    return graph("Where", graph("Less", largest, NOISE_FLOOR), _ints(agent.max_horizon), first)


def _min_steps(graph: Graph, bound: StepBound, achieved: str, goal: str) -> str:
    far = graph("Sub", _distance(graph, bound.norm, achieved, goal), float(bound.slack))
    steps = graph("Sub", graph("Div", far, float(bound.per_step)), 1e-4)
    return graph("Max", graph("Ceil", steps), 0.0)


def _distance(graph: Graph, norm: Norm, x: str, y: str) -> str:
    """Distance between the rows of two batches, (n, 1), as `norm_distance`."""
    difference = graph("Abs", graph("Sub", x, y))
    if norm == "linf":
        return graph("ReduceMax", difference, _ints(1), keepdims=1)
    if norm == "l1":
        return graph("ReduceSum", difference, _ints(1), keepdims=1)
    return graph("Sqrt", graph("ReduceSum", graph("Mul", difference, difference), _ints(1), keepdims=1))


def _columns(graph: Graph, x: str, which: tuple[int, ...]) -> str:
    return graph("Gather", x, _ints(*which), axis=1)


# Networks --------------------------------------------------------------------------------------------


def _logits(graph: Graph, network: Any, observation: str, goal: str) -> tuple[str, str]:
    """Logits (n, actions or proposals, H), and proposed actions (n, proposals or H, action) if any."""
    if not isinstance(network, AllHorizons | SampledHorizon | HeadsActorCritic | HorizonActorCritic):
        raise _unknown(network)
    x = _inputs(graph, network.inputs, observation, goal)
    if isinstance(network, AllHorizons):
        return graph("Reshape", _outputs(graph, network.mlp, x), _ints(-1, *network.shape)), ""
    horizons = network.max_horizon
    if isinstance(network, HeadsActorCritic):
        proposed, size = network.heads + network.spread, _width(network.actor) // network.heads
        actions = graph("Tanh", _outputs(graph, network.actor, x))
        if network.spread:
            count = graph("Concat", graph("Shape", x, start=0, end=1), _ints(1), axis=0)
            same = graph("Tile", spread_actions(network.spread, size).reshape(1, -1), count)
            actions = graph("Concat", actions, same, axis=1)
        rows = _repeated(graph, x, network.inputs.size(), proposed)
        pairs = graph("Concat", rows, graph("Reshape", actions, _ints(-1, size)), axis=1)
        logits = graph("Reshape", _outputs(graph, network.critics[0], pairs), _ints(-1, proposed, horizons))
        return logits, graph("Reshape", actions, _ints(-1, proposed, size))
    # The paper's form takes the horizon as an input: H rows for every pair.
    rows = _repeated(graph, x, network.inputs.size(), horizons)
    times = graph("Concat", graph("Shape", x, start=0, end=1), _ints(1), axis=0)
    h = graph("Tile", _floats(_every_horizon(horizons).T) / np.float32(horizons), times)
    if isinstance(network, SampledHorizon):
        by_horizon = _ints(-1, horizons, _width(network.mlp))
        outputs = graph("Reshape", _outputs(graph, network.mlp, rows, h), by_horizon)
        return graph("Transpose", outputs, perm=[0, 2, 1]), ""
    actions = graph("Tanh", _outputs(graph, network.actor, rows, h))
    pairs = graph("Concat", rows, actions, axis=1)
    logits = graph("Reshape", _outputs(graph, network.critics[0], pairs, h), _ints(-1, 1, horizons))
    return logits, graph("Reshape", actions, _ints(-1, horizons, _width(network.actor)))


def _repeated(graph: Graph, x: str, size: int, times: int) -> str:
    """Each row of a batch so many times in a row, (n · times, size)."""
    copies = graph("Expand", graph("Unsqueeze", x, _ints(1)), _ints(1, times, 1))
    return graph("Reshape", copies, _ints(-1, size))


def _inputs(graph: Graph, inputs: Any, observation: str, goal: str) -> str:
    """The input vectors that `Inputs` or `NormalisedInputs` make, (n, inputs)."""
    if isinstance(inputs, NormalisedInputs):
        x = graph("Concat", observation, goal, axis=1)
        if inputs.achieved_at:
            relative = graph("Sub", goal, _columns(graph, observation, inputs.achieved_at))
            x = graph("Concat", x, relative, axis=1)
        count = float(inputs.count)
        deviation = np.sqrt(_floats(inputs.squares) / max(count, 1.0)) if count else 1.0
        shifted = graph("Sub", x, _floats(inputs.mean))
        scaled = graph("Div", shifted, _floats(np.maximum(deviation, SMALLEST_DEVIATION)))
        return graph("Clip", scaled, -CLIP, CLIP)
    if not isinstance(inputs, Inputs):
        raise _unknown(inputs)
    spec = inputs.spec
    if inputs.features == "raw":
        return graph("Concat", observation, goal, axis=1)
    if inputs.features == "one-hot":
        return _one_hot(graph, graph("Concat", observation, goal, axis=1), inputs.cell_counts())
    parts = [
        _scaled(graph, observation, spec.observation_low, spec.observation_high),
        _scaled(graph, goal, spec.goal_low, spec.goal_high),
    ]
    if inputs.features == "relative" and spec.goal_check:
        relative = graph("Sub", goal, _columns(graph, observation, spec.goal_check.coordinates))
        parts.append(graph("Div", relative, _floats(spec.goal_high) - _floats(spec.goal_low)))
    return graph("Concat", *parts, axis=1)


def _scaled(graph: Graph, x: str, low: tuple[float, ...], high: tuple[float, ...]) -> str:
    share = graph("Div", graph("Sub", x, _floats(low)), _floats(high) - _floats(low))
    return graph("Sub", graph("Mul", share, 2.0), 1.0)


def _one_hot(graph: Graph, x: str, counts: list[int]) -> str:
    """One indicator per cell of each coordinate: its column, repeated, compared with the cells' numbers."""
    column = tuple(i for i, count in enumerate(counts) for _ in range(count))
    cell = np.concatenate([np.arange(count) for count in counts]).astype(np.float32)
    is_here = graph("Equal", graph("Round", _columns(graph, x, column)), cell)
    return graph("Cast", is_here, to=graph.onnx.TensorProto.FLOAT)


def _outputs(graph: Graph, module: Any, x: str, h: str = "") -> str:
    """What an MLP or a monotone network gives for rows, with their horizons (rows, 1) where it takes them."""
    if isinstance(module, MinMax):
        shape = module.log_slopes.shape
        offsets = graph("Reshape", _outputs(graph, module.mlp, x), _ints(-1, *shape))
        moved = graph("Add", graph("Reshape", h, _ints(-1, 1, 1, 1)), offsets)
        planes = graph("Mul", np.exp(_floats(module.log_slopes)), moved)
        return graph("ReduceMin", graph("ReduceMax", planes, _ints(3), keepdims=0), _ints(2), keepdims=0)
    if isinstance(module, Hazards):
        return _hazards(graph, module, x)
    if not isinstance(module, MLP):
        raise _unknown(module)
    x = graph("Concat", x, h, axis=1) if h else x
    *hidden, last = module.layers
    for i, layer in enumerate(hidden):
        x = graph("Gemm", x, _floats(layer.weight), _floats(layer.bias), transB=1)
        if module.norms:
            norm = module.norms[i]
            weight, bias = _floats(norm.weight), _floats(norm.bias)
            x = graph("LayerNormalization", x, weight, bias, axis=-1, epsilon=norm.eps)
        x = graph("Relu", x)
    return graph("Gemm", x, _floats(last.weight), _floats(last.bias), transB=1)


def _hazards(graph: Graph, module: Hazards, x: str) -> str:
    """As `cumulated_logits`; with t = tanh(S / 2), 1 − e^−S is 2t / (1 + t), exact for small S too."""
    outputs = _outputs(graph, module.mlp, x)
    by_horizon = graph("Reshape", outputs, _ints(-1, _width(module.mlp) // module.horizons, module.horizons))
    hazards = graph("Softplus", graph("Sub", by_horizon, float(np.log(module.horizons))))
    passed = graph("Add", graph("CumSum", hazards, _ints(2)), 1e-30)
    t = graph("Tanh", graph("Mul", passed, 0.5))
    reached = graph("Div", graph("Mul", t, 2.0), graph("Add", t, 1.0))
    logits = graph("Add", passed, graph("Log", reached))
    return graph("Reshape", logits, _ints(-1, _width(module.mlp)))


def _width(module: Any) -> int:
    """How many outputs a network has."""
    return module.log_slopes.shape[0] if isinstance(module, MinMax) else module.layers[-1].weight.shape[0]


def _unknown(part: Any) -> UsageError:
    return UsageError(f"Only the networks of this package can be exported, not {type(part).__name__}.")
