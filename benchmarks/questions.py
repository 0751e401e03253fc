"""Speed of a trained agent's answers: many at once, and one action after another; part of `make bench`."""

import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from clearning.agent import CHUNK, Agent
from clearning.config import Config
from clearning.envs import make
from clearning.networks import build_network

PAIRS = 1_000_000
ACTS = 3000

Timer = Callable[..., list[float]]


def car_agent() -> Agent:
    config = Config()
    env = make(config.env)
    return Agent(build_network(env.spec, config, jax.random.key(0)), env.spec, config)


def bare_answers(sizes: list[tuple[int, int]], pairs: int) -> Callable[[], Any]:
    """A jitted loop over the matrix products of the network, in chunks as large as the agent's."""
    keys = jax.random.split(jax.random.key(0), len(sizes) + 1)
    weights = [0.05 * jax.random.normal(k, s) for k, s in zip(keys, sizes, strict=False)]
    x = jax.random.normal(keys[-1], (CHUNK, sizes[0][0]))

    def body(i: Any, total: jax.Array) -> jax.Array:
        y = x + 1e-6 * i
        for w in weights:
            y = y @ w
        return total + y

    start = jnp.zeros((CHUNK, sizes[-1][1]))
    return jax.jit(lambda: jax.lax.fori_loop(0, -(-pairs // CHUNK), body, start))


def million_answers(side_by_side: Timer, pairs: int = PAIRS) -> list[dict[str, Any]]:
    """`reach_curve` for a million pairs in one call against its network's bare matrix products."""
    agent, rng = car_agent(), np.random.default_rng(0)
    spec = agent.spec
    draw = lambda low, high: rng.uniform(low, high, (pairs, len(low))).astype(np.float32)  # noqa: E731
    observation = draw(spec.observation_low, spec.observation_high)
    goal = draw(spec.goal_low, spec.goal_high)
    sizes = [layer.weight.shape[::-1] for layer in agent.network.mlp.layers]
    real = lambda: agent.reach_curve(observation, goal)  # noqa: E731
    ours, bare = side_by_side(real, bare_answers(sizes, pairs))
    return [
        {
            "what": f"reach_curve, {pairs:,} pairs × {agent.max_horizon} horizons in one call",
            "against": "bare jitted matrix products",
            "ratio": bare / ours,
            "wanted": 0.6,
            "note": f"{pairs * agent.max_horizon / ours / 1e6:,.0f} M probabilities/s",
        }
    ]


def act_against_predict() -> list[dict[str, Any]]:
    """One `act` after another beside `predict` of stable-baselines3's DQN with a network as wide."""
    try:
        import torch
        from stable_baselines3 import DQN
    except ImportError:
        return [{"what": "act", "against": "stable-baselines3", "note": "needs the extra `peers`"}]
    import gymnasium

    torch.set_num_threads(1)
    agent = car_agent()
    with contextlib.redirect_stderr(io.StringIO()):
        env: Any = gymnasium.make("clearning/DubinsCar-v0")
    net = {"net_arch": list(agent.config.hidden)}
    model = DQN("MultiInputPolicy", env, buffer_size=10, policy_kwargs=net)
    seen, _ = env.reset(seed=0)
    calls = {
        "act": lambda: agent.act(seen["observation"], seen["desired_goal"]),
        "predict": lambda: model.predict(seen, deterministic=True),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ACTS):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - began)
    rows = []
    for label, share in (("median", 0.5), ("99th percentile", 0.99)):
        ours, theirs = (float(np.quantile(t[ACTS // 10 :], share)) for t in times.values())
        rows.append(
            {
                "what": f"act in a control loop, {label}",
                "against": "stable-baselines3 DQN, predict",
                "ratio": theirs / ours,
                "note": f"{1e6 * ours:,.0f} against {1e6 * theirs:,.0f} µs",
            }
        )
    return rows


def question_rows(side_by_side: Timer) -> list[dict[str, Any]]:
    return million_answers(side_by_side) + act_against_predict()
