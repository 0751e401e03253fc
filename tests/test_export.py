"""Agents as ONNX files: the same answers and actions as in JAX, up to rounding."""

import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import clearning
from clearning import Agent, Config, UsageError
from clearning.cli import main
from clearning.core.calibration import Recalibration
from clearning.core.recursions import rule_for
from clearning.envs import CatAndMouse, DubinsCar, FrozenLake
from clearning.export import onnx_model
from clearning.networks import build_network

onnx = pytest.importorskip("onnx", reason="the extra `onnx` is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `onnx` is not installed")

CLOSE = 1e-5
BATCH = 64
EXAMPLE = Path(__file__).parent.parent / "examples" / "onnx_car.py"
LAKE, CAR, CAT = FrozenLake().spec, DubinsCar().spec, CatAndMouse().spec
ISOTONIC = Recalibration("isotonic", knots=(0.1, 0.3, 0.6, 0.9), values=(0.0, 0.4, 0.5, 0.95))


def random_agent(spec, recalibration=None, **settings) -> Agent:
    """An agent whose weights are all random, so that its curves differ from each other and cross."""
    settings = {"env": spec.name, "hidden": (24, 16), "max_horizon": 12} | settings
    config = Config(**settings)
    # Shapes alone, filled by numpy: to draw each array by JAX would mean to compile each.
    shapes = eqx.filter_eval_shape(build_network, spec, config, jax.random.key(0))
    rng = np.random.default_rng(1)
    drawn = lambda x: rng.normal(0, 0.5, x.shape).astype(np.float32) if hasattr(x, "shape") else x  # noqa: E731
    network = jax.tree.map(drawn, shapes)
    if config.features == "normalised":
        spread = np.linspace(0.0, 300.0, network.inputs.size(), dtype=np.float32)  # the first never moved
        known = (np.float32(9), spread)
        network = eqx.tree_at(lambda n: (n.inputs.count, n.inputs.squares), network, known)
    return Agent(network, spec, config, recalibration=recalibration)


def pairs(spec, count: int = BATCH) -> tuple[np.ndarray, np.ndarray]:
    """Observations and goals: some far, some at the goal or near it, some outside of the bounds."""
    rng = np.random.default_rng(0)
    draw = lambda low, high: rng.uniform(low, high, (count, len(low))).astype(np.float32)  # noqa: E731
    observation, goal = draw(spec.observation_low, spec.observation_high), draw(spec.goal_low, spec.goal_high)
    if spec is LAKE:
        observation, goal = np.round(observation), np.round(goal)
    size = spec.goal_size
    goal[:8] = observation[:8, :size]
    goal[8:16] = observation[8:16, :size] + rng.uniform(-0.6, 0.6, (8, size)).astype(np.float32)
    observation[-1] = np.array(spec.observation_high) + 1
    return observation, goal


def session(model) -> "onnxruntime.InferenceSession":
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def ask(runner, observation, goal, alpha=0.9, horizon=0):
    feeds = {"observation": observation, "goal": goal}
    feeds |= {"alpha": np.array(alpha, np.float32, ndmin=1), "horizon": np.array(horizon, np.int64, ndmin=1)}
    return runner.run(["reach_curve", "action", "chosen_horizon"], feeds)


def is_good_horizon(best: np.ndarray, alpha: float, chosen: np.ndarray) -> np.ndarray:
    """Whether h_α was found, where rounding may decide between values that are as good as equal."""
    largest = best.max(1, keepdims=True)
    at = np.take_along_axis(best, chosen[:, None] - 1, 1)
    earlier = np.arange(1, best.shape[1] + 1) < chosen[:, None]
    clearly = (best > alpha * largest + CLOSE) & earlier
    return (at >= alpha * largest - CLOSE)[:, 0] & ~clearly.any(1)


AGENTS = {
    "ours": lambda: random_agent(CAR),
    "without normalised layers": lambda: random_agent(CAR, layer_norm=False),
    "one layer": lambda: random_agent(CAR, hidden=()),
    "raw": lambda: random_agent(CAR, features="raw"),
    "scaled": lambda: random_agent(CAR, features="scaled"),
    "one-hot": lambda: random_agent(LAKE, features="one-hot"),
    "normalised": lambda: random_agent(CAT, features="normalised"),
    "normalised, numbered": lambda: random_agent(CAR, features="normalised"),
    "vote": lambda: random_agent(CAR, vote=2),
    "skip": lambda: random_agent(CAR, vote=1, skip_ruled_out=True),
    "the paper's": lambda: random_agent(LAKE, form="sampled-horizon"),
    "the paper's, one-hot": lambda: random_agent(
        LAKE, form="sampled-horizon", features="one-hot", layer_norm=False, skip_ruled_out=True
    ),
    "hazards": lambda: random_agent(CAR, monotone=True),
    "min-max": lambda: random_agent(CAR, monotone=True, form="sampled-horizon"),
    "naive": lambda: random_agent(LAKE, method="naive-q", form="sampled-horizon"),
    "one horizon": lambda: random_agent(CAR, max_horizon=1),
    "continuous": lambda: random_agent(CAT),
    "continuous, heads": lambda: random_agent(CAT, actor_heads=4, vote=1, skip_ruled_out=True),
    "continuous, spread": lambda: random_agent(CAT, actor_heads=2, spread_actions=5),
    "continuous, the paper's": lambda: random_agent(CAT, form="sampled-horizon"),
    "continuous, hazards": lambda: random_agent(CAT, actor_heads=2, monotone=True),
    "continuous, other bounds": lambda: random_agent(replace(CAT, action_low=(-3.0, 0.0))),
    "no check": lambda: random_agent(replace(CAR, goal_check=None), skip_ruled_out=True),
    "l1": lambda: random_agent(replace(CAR, goal_check=replace(CAR.goal_check, norm="l1"))),
    "temperature": lambda: random_agent(CAR, Recalibration("temperature", temperature=1.7)),
    "isotonic": lambda: random_agent(CAR, ISOTONIC),
    "one knot": lambda: random_agent(CAR, Recalibration("isotonic", knots=(0.5,), values=(0.0,))),
}


@pytest.mark.parametrize("kind", AGENTS)
def test_answers_and_actions_are_those_of_jax(kind):
    agent = AGENTS[kind]()
    spec, config = agent.spec, agent.config
    model = onnx_model(agent)
    onnx.checker.check_model(model, full_check=True)
    runner = session(model)
    s, g = pairs(spec)
    horizons = np.arange(1, agent.max_horizon + 1)
    expected = agent.reach_curve(s, g)
    assert expected.std() > 0.05  # or the comparison would show little
    outputs, proposals = outputs_and_proposals(agent, s, g)
    values = np.asarray(rule_for(config.method, 0.5).link(outputs))  # (n, actions or proposals, H)

    def taken(action, scores, horizon):
        """The scores (n, actions) at the actions that were taken."""
        if not spec.continuous:
            return scores[np.arange(BATCH), action]
        proposed = spec.in_bounds(proposals[np.arange(BATCH), :, horizon - 1])  # (n, proposals, action)
        is_it = np.abs(proposed - action[:, None]).max(-1) < CLOSE
        return np.where(is_it, scores, -np.inf).max(1)

    fewest = np.zeros(BATCH)
    if config.skip_ruled_out and spec.goal_check:
        fewest = np.asarray(spec.step_bound.min_steps(spec.goal_check.achieved(s), g))
        assert fewest.max() > 3
    best = np.where(horizons < fewest[:, None], 0.0, values.max(1))
    for alpha in (0.05, 0.5, 0.9, 1.0):
        curve, action, horizon = ask(runner, s, g, alpha)
        np.testing.assert_allclose(curve, expected, atol=CLOSE)
        hopeless = (best.max(1) < 1e-3) & (horizon == agent.max_horizon)
        assert (is_good_horizon(best, alpha, horizon) | hopeless).all()
        within = np.abs(horizons - horizon[:, None]) <= config.vote
        scores = np.where(within[:, None], values, 0.0).sum(-1)
        assert (taken(action, scores, horizon) >= scores.max(1) - 10 * CLOSE).all()
        if alpha == 0.5:  # where hardly anything hangs on rounding, all is the same
            assert np.isclose(agent.act(s, g, alpha=alpha), action, atol=CLOSE).mean() > 0.95
    for asked in (1, (agent.max_horizon + 1) // 2, agent.max_horizon):
        _, action, horizon = ask(runner, s, g, horizon=asked)
        assert (horizon == asked).all()
        scores = outputs[:, :, asked - 1]
        assert (taken(action, scores, horizon) >= scores.max(1) - 100 * CLOSE).all()


def outputs_and_proposals(agent, s, g):
    """What the network says, (n, actions, H), and proposes, (n, proposals, H, action), in one program."""
    config = agent.config
    count = config.actor_heads + config.spread_actions if config.form == "all-horizons" else 1
    which, horizons = jnp.arange(count), jnp.arange(1, agent.max_horizon + 1)

    def one(s, g):
        if not agent.spec.continuous:
            return agent.network.curve(s, g), ()
        at = lambda i, h: agent.network.propose(s, g, i, h)  # noqa: E731
        return agent.network.curve(s, g), jax.vmap(lambda i: jax.vmap(lambda h: at(i, h))(horizons))(which)

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(one))(s, g))


def test_inputs_may_vary_by_row_and_come_one_at_a_time():
    agent = random_agent(CAR, vote=1)
    runner = session(onnx_model(agent))
    s, g = pairs(CAR)
    horizon = np.arange(BATCH) % 13  # 0 is none: alpha then decides
    alpha = np.linspace(0.2, 0.8, BATCH)
    whole = ask(runner, s, g, alpha, horizon)
    one_by_one = [ask(runner, s[i : i + 1], g[i : i + 1], alpha[i], horizon[i]) for i in range(BATCH)]
    for together, alone in zip(whole, zip(*one_by_one, strict=True), strict=True):
        np.testing.assert_allclose(together, np.concatenate(alone), atol=CLOSE)
    assert (whole[2] == horizon)[horizon > 0].all()
    beyond = ask(runner, s, g, horizon=99)
    assert (beyond[2] == agent.max_horizon).all()
    np.testing.assert_array_equal(beyond[1], ask(runner, s, g, horizon=agent.max_horizon)[1])


def test_a_reached_goal_answers_one():
    runner = session(onnx_model(random_agent(CAR, ISOTONIC)))
    pose = np.array([[3.0, 3.0, 1.0, 0.0]] * 2, np.float32)
    curve = ask(runner, pose, np.array([[3.5, 2.5], [3.51, 3.0]], np.float32))[0]
    assert (curve[0] == 1).all()
    assert (curve[1] < 1).all()


def test_hopeless_goals_get_the_longest_horizon():
    agent = random_agent(CAR)
    hopeless = eqx.tree_at(lambda n: n.mlp.layers[-1].bias, agent.network, replace_fn=lambda b: b - 1e3)
    horizon = ask(session(onnx_model(Agent(hopeless, CAR, agent.config))), *pairs(CAR))[2]
    assert (horizon == agent.max_horizon).all()


def test_the_file_tells_what_it_is():
    about = session(onnx_model(random_agent(CAR, alpha=0.7))).get_modelmeta().custom_metadata_map
    assert about["environment"] == "dubins-car"
    assert (about["max_horizon"], about["alpha"]) == ("12", "0.7")
    assert "forward left" in about["action_names"]


def test_what_cannot_be_exported_is_refused():
    others = [random_agent(CAR, method="her", max_horizon=1), random_agent(CAT, method="tdm")]
    for agent in others:
        with pytest.raises(UsageError, match=f"trained by {agent.config.method} does not"):
            onnx_model(agent)

    class Own:
        inputs = None

    with pytest.raises(UsageError, match="networks of this package can be exported, not Own"):
        onnx_model(Agent(Own(), CAR, Config()))
    ours = random_agent(CAR)
    for part in ("inputs", "mlp"):  # one of ours with a part that is not
        network = eqx.tree_at(lambda n, part=part: getattr(n, part), ours.network, Own())
        with pytest.raises(UsageError, match="networks of this package can be exported, not Own"):
            onnx_model(Agent(network, CAR, ours.config))


def test_the_command_replaces_its_file_and_says_what_is_missing(tmp_path, capsys, monkeypatch):
    random_agent(CAR).save(tmp_path / "agent.safetensors")
    target = tmp_path / "new" / "model.onnx"
    command = ["export", str(tmp_path / "agent.safetensors"), "--onnx"]
    for _ in range(2):
        main([*command, str(target)])
        assert str(target) in capsys.readouterr().out
        onnx.checker.check_model(str(target))
        assert [p.name for p in target.parent.iterdir()] == ["model.onnx"]
    for wrong, words in ((tmp_path, "is a folder"), (tmp_path / "agent.safetensors" / "x", "Could not")):
        with pytest.raises(SystemExit):
            main([*command, str(wrong)])
        assert words in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SystemExit):
        main([*command, str(target)])
    assert "pip install 'clearning[onnx]'" in capsys.readouterr().err


def test_the_example_needs_neither_jax_nor_this_package(tmp_path):
    clearning.export_onnx(random_agent(CAR), tmp_path / "car.onnx")
    program = (
        "import runpy, sys; sys.modules['jax'] = sys.modules['clearning'] = None;"
        f"sys.argv = ['onnx_car.py', {str(tmp_path / 'car.onnx')!r}];"
        f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "step 0 at (1.0, 8.0)" in found.stdout


def test_the_example_is_short_and_its_car_drives_as_ours(monkeypatch, capsys):
    code = EXAMPLE.read_text().split('"""')[2]
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 16
    actions, seen = [4, 5, 5, 2, 1, 6, 0, 3, 4, 4], []

    class Session:
        """A model that wants these actions, and then holds the goal reached."""

        def __init__(self, path):
            pass

        def run(self, names, given):
            assert names == ["reach_curve", "action", "chosen_horizon"]
            assert sorted(given) == ["alpha", "goal", "horizon", "observation"]
            seen.append(given["observation"][0])
            there = len(seen) > len(actions)
            return np.full((1, 9), float(there)), [0 if there else actions[len(seen) - 1]], [5]

    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    monkeypatch.setattr(sys, "argv", ["onnx_car.py", "car.onnx"])
    runpy.run_path(str(EXAMPLE))
    state = jnp.array([1.0, 8.0, 1.0, 0.0])
    for action, after in zip(actions, seen[1:], strict=True):
        state = DubinsCar().step(jax.random.key(0), state, action)
        np.testing.assert_allclose(after, state, atol=1e-5)
    assert capsys.readouterr().out.count("\n") == len(seen)
