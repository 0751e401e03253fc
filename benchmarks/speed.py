"""Speed as ratios between things run side by side: `make bench`.

Absolute times depend on the machine; each figure is a ratio to a baseline measured in the same process,
alternating with it. By default everything is pinned to one core, so that the ratio shows overhead and not
how well threads were scheduled; --all-cores lifts that.
"""

import os
import sys

if "--all-cores" not in sys.argv and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})

import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from questions import question_rows
from rich.console import Console
from rich.table import Table
from robots import robot_rows

from clearning import buffer as ring
from clearning.agent import Agent
from clearning.agents.discrete import start
from clearning.agents.learner import Learner
from clearning.config import Config
from clearning.engine import build_engine
from clearning.envs import DubinsCar, FrozenLake, MiniMaze, make
from clearning.networks import build_network
from clearning.runs import versions

ROUNDS = 5
CASES = [
    ("all-horizons", (256, 256), True, 0.7),
    ("all-horizons", (400, 300), True, 0.7),
    ("all-horizons", (60, 40), True, 0.4),
    ("sampled-horizon", (256, 256), False, 0.7),
    ("sampled-horizon", (400, 300), False, 0.7),
    ("sampled-horizon", (60, 40), False, 0.4),
]


def seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - began


def side_by_side(*functions: Callable[[], Any]) -> list[float]:
    """Median time of each function; the rounds alternate, so that what disturbs one disturbs all."""
    for function in functions:
        function()  # compile
    times = [[seconds(f) for f in functions] for _ in range(ROUNDS)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def bare_products(sizes: list[tuple[int, int]], batch: int, updates: int) -> Callable[[], Any]:
    """A jitted chain of the matrix products of one update and nothing else.

    An update runs the network on s and on s', the target on s', and one backward pass.
    """
    keys = jax.random.split(jax.random.key(0), len(sizes) + 1)
    weights = [0.05 * jax.random.normal(k, s) for k, s in zip(keys, sizes, strict=False)]
    x = jax.random.normal(keys[-1], (batch, sizes[0][0]))

    def forward(weights: list[jax.Array], x: jax.Array) -> jax.Array:
        for w in weights:
            x = x @ w
        return x

    def body(i: int, weights: list[jax.Array]) -> list[jax.Array]:
        following = forward(weights, x + 1e-3 * i)
        target = forward(weights, x - 1e-3 * i)
        output, backward = jax.vjp(lambda w: forward(w, x), weights)
        (gradient,) = backward(1e-6 * (output + following + target))
        return [w - 1e-9 * g for w, g in zip(weights, gradient, strict=True)]

    run = jax.jit(lambda weights: jax.lax.fori_loop(0, updates, body, weights))
    return lambda: run(weights)


def prepared(config: Config) -> tuple[Any, Any, Learner, ring.Buffer]:
    """An environment, its engine, a learner and a buffer with some episodes in it."""
    env = make(config.env, config.env_options)
    engine = build_engine(env, config)
    learner = start(build_network(env.spec, config, jax.random.key(0)))
    buffer = ring.init(env.spec, config.buffer_capacity)
    for i in range(20):
        buffer, _ = engine.collect(learner, buffer, jax.random.key(i), jnp.float32(1.0))
    return env, engine, learner, buffer


def updates_against_products() -> list[dict[str, Any]]:
    """Updates per second of the real loop against the bare chain of its matrix products."""
    rows = []
    for form, hidden, layer_norm, wanted in CASES:
        config = Config(form=form, hidden=hidden, layer_norm=layer_norm)  # pyright: ignore[reportArgumentType]
        _, engine, learner, buffer = prepared(config)
        sizes = [layer.weight.shape[::-1] for layer in learner.network.mlp.layers]
        # The key is made anew inside: the engine takes its arguments over.
        real = partial(
            lambda e, l, b: e.update(l, b, jax.random.key(1), jnp.float32(0.5), jnp.float32(0.5))[0].updates,
            engine,
            learner,
            buffer,
        )
        ours, bare = side_by_side(real, bare_products(sizes, config.batch_size, config.updates_per_episode))
        rows.append(
            {
                "what": f"updates, {form}, {'-'.join(map(str, hidden))}",
                "against": "bare jitted matrix products",
                "ratio": bare / ours,
                "wanted": wanted,
                "note": f"{config.updates_per_episode / ours:,.0f} updates/s",
            }
        )
    return rows


def updates_against_torch() -> list[dict[str, Any]]:
    """The same all-horizon and sampled-horizon update, written for eager PyTorch."""
    try:
        from torch_update import torch_updates
    except ImportError:
        return [{"what": "updates", "against": "eager PyTorch", "note": "needs the extra `peers`"}]
    rows = []
    for form, hidden, layer_norm, _ in CASES:
        config = Config(form=form, hidden=hidden, layer_norm=layer_norm)  # pyright: ignore[reportArgumentType]
        env, engine, learner, buffer = prepared(config)
        real = partial(
            lambda e, l, b: e.update(l, b, jax.random.key(1), jnp.float32(0.5), jnp.float32(0.5))[0].updates,
            engine,
            learner,
            buffer,
        )
        inputs = learner.network.inputs.size()
        ours, torch_time = side_by_side(real, torch_updates(config, inputs, env.spec.num_actions))
        rows.append(
            {
                "what": f"updates, {form}, {'-'.join(map(str, hidden))}",
                "against": "the same update in eager PyTorch",
                "ratio": torch_time / ours,
            }
        )
    return rows


def environment_steps() -> list[dict[str, Any]]:
    """Steps of 1,024 environments at once against stepping the Gymnasium form one by one."""
    import gymnasium

    rows = []
    for env, name in ((FrozenLake(), "FrozenLake"), (MiniMaze(), "MiniMaze"), (DubinsCar(), "DubinsCar")):
        count, steps = 1024, 200
        state = jax.vmap(env.initial_state)(jax.random.split(jax.random.key(0), count))

        @eqx.filter_jit
        def many(env: Any, state: Any, count: int, steps: int) -> Any:
            def body(i: Any, s: Any) -> Any:
                keys = jax.random.split(jax.random.fold_in(jax.random.key(0), i), count)
                return jax.vmap(env.step)(keys, s, jnp.full(count, i % env.spec.num_actions))

            return jax.lax.fori_loop(0, steps, body, state)

        single = gymnasium.make(f"clearning/{name}-v0")
        single.reset(seed=0)

        def one_by_one(single: Any, steps: int) -> None:
            for i in range(steps):
                _, _, terminated, truncated, _ = single.step(i % 4)
                if terminated or truncated:
                    single.reset()

        vector, loop = side_by_side(
            partial(many, env, state, count, steps), partial(one_by_one, single, steps)
        )
        rows.append(
            {
                "what": f"environment steps, {name}, 1,024 at once",
                "against": "its Gymnasium form, one by one",
                "ratio": count * loop / vector,
                "note": f"{count * steps / vector / 1e6:.1f} M steps/s",
            }
        )
    return rows


def act_latency() -> list[dict[str, Any]]:
    """One `act` from numpy to int against one bare forward pass of the same network."""
    config = Config()
    env = make(config.env)
    network = build_network(env.spec, config, jax.random.key(0))
    agent = Agent(network, env.spec, config)
    obs, goal = np.array([1.0, 1.0, 1.0, 0.0]), np.array([9.0, 9.0])
    bare = eqx.filter_jit(lambda n, s, g: n.curve(s, g))
    s, g = jnp.asarray(obs, jnp.float32), jnp.asarray(goal, jnp.float32)
    act = lambda: [agent.act(obs, goal) for _ in range(200)]  # noqa: E731
    forward = lambda: [bare(network, s, g).block_until_ready() for _ in range(200)]  # noqa: E731
    ours, network_time = side_by_side(act, forward)
    note = f"{ours / 200 * 1e6:.0f} µs an act, median"
    return [
        {
            "what": "act, one observation",
            "against": "one forward pass",
            "ratio": network_time / ours,
            "note": note,
        }
    ]


def main() -> None:
    rows = updates_against_products() + updates_against_torch() + environment_steps() + act_latency()
    rows += question_rows(side_by_side) + robot_rows(side_by_side)
    table = Table(
        "what", "against", "ratio", "wanted", "note", title="speed; above 1 is faster than the baseline"
    )
    for row in rows:
        ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
        wanted = f">= {row['wanted']}" if row.get("wanted") else ""
        table.add_row(row["what"], row["against"], ratio, wanted, row.get("note", ""))
    Console(width=130).print(table)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if "--json" in sys.argv:
        path = sys.argv[sys.argv.index("--json") + 1]
        record = {
            "command": "python benchmarks/speed.py",
            "cores": cores,
            "versions": versions(),
            "rows": rows,
        }
        with open(path, "w") as file:
            json.dump(record, file, indent=1)


if __name__ == "__main__":
    main()
