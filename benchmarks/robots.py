"""Speed with continuous actions, beside stable-baselines3's TD3 with hindsight; part of `make bench`."""

import contextlib
import io
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from clearning import buffer as ring
from clearning.agents.continuous import start
from clearning.batches import Checked, Pairs, check_pairs, draw_pairs, make_batch
from clearning.config import Config
from clearning.engine import build_engine
from clearning.envs import ExternalEnv, make_world
from clearning.networks import build_network
from clearning.presets import preset
from clearning.rollout import batched_policy, collect_external, own_dial
from clearning.types import Episodes

TRANSITIONS = 1_000_000
UPDATES = 25
SIZES = [((256, 256, 256), 1.6), ((600, 600, 600), 1.2)]
LEARNERS = [
    ("TD3", "td3/fetch-pick-and-place", False),  # the peer's very networks
    ("50 horizons", "fetch-pick-and-place", False),
    ("50 horizons, layer normalisation", "fetch-pick-and-place", True),
]

Timer = Callable[..., list[float]]


def filled_buffer(env: ExternalEnv, capacity: int) -> ring.Buffer:
    """A buffer full of episodes of 50 random states."""
    spec, rng, count = env.spec, np.random.default_rng(0), 1000
    buffer, add = ring.init(spec, capacity), jax.jit(ring.add, donate_argnums=0)
    episodes = Episodes(
        rng.normal(size=(count, 51, spec.observation_size)).astype(np.float32),
        rng.uniform(size=(count, 51, spec.goal_size)).astype(np.float32),
        rng.uniform(-1, 1, size=(count, 50, *spec.action_shape)).astype(np.float32),
        rng.uniform(size=(count, spec.goal_size)).astype(np.float32),
        np.full(count, 50, np.int32),
        np.zeros(count, bool),
        np.zeros(count, bool),
    )
    for _ in range(capacity // (51 * count) + 1):
        buffer = add(buffer, episodes)
    return buffer


def peer_updates(env_name: str, hidden: tuple[int, ...], batch: int) -> Callable[[], Any]:
    """`UPDATES` updates of stable-baselines3's TD3 from a full hindsight buffer."""
    import gymnasium
    import torch
    from stable_baselines3 import TD3, HerReplayBuffer
    from stable_baselines3.common.logger import configure

    with contextlib.redirect_stderr(io.StringIO()):
        env: Any = gymnasium.make(env_name)
    torch.set_num_threads(1)
    model = TD3(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        buffer_size=TRANSITIONS,
        batch_size=batch,
        policy_kwargs={"net_arch": list(hidden)},
    )
    model.set_logger(configure(None, []))
    buffer: Any = model.replay_buffer
    rng = np.random.default_rng(0)
    for arrays in (buffer.observations, buffer.next_observations):
        for name, array in arrays.items():
            arrays[name] = rng.standard_normal(array.shape, np.float32)
    buffer.actions[:] = rng.uniform(-1, 1, buffer.actions.shape)
    buffer.ep_start[:, 0] = np.arange(TRANSITIONS) // 50 * 50
    buffer.ep_length[:] = 50
    buffer.full = True
    return lambda: model.train(UPDATES, batch)


def updates_against_peer(side_by_side: Timer) -> list[dict[str, Any]]:
    """Updates per second from a million transitions, sampling and relabelling included, both ways."""
    rows = []
    for hidden, wanted in SIZES:
        for name, of, layer_norm in LEARNERS:
            config = replace(preset(of), hidden=hidden, layer_norm=layer_norm, update_chunk=UPDATES)
            env = make_world(config)
            learner, buffer, engine = _prepared(env, config)
            real = partial(
                lambda e, l, b: e.update(l, b, jax.random.key(1), jnp.float32(0.5), jnp.float32(0.5)),
                engine,
                learner,
                buffer,
            )
            ours, theirs = side_by_side(real, peer_updates(config.env, hidden, config.batch_size))
            rates = f"{UPDATES / ours:,.0f} against {UPDATES / theirs:,.0f} updates/s"
            rows.append(
                {
                    "what": f"updates, {'-'.join(map(str, hidden))}, {name}",
                    "against": "stable-baselines3 TD3 + HER",
                    "ratio": theirs / ours,
                    "wanted": None if layer_norm else wanted,
                    "note": f"{rates}, batch {config.batch_size}",
                }
            )
    return rows


def _prepared(env: ExternalEnv, config: Config) -> tuple[Any, ring.Buffer, Any]:
    learner = start(build_network(env.spec, config, jax.random.key(0)))
    return learner, filled_buffer(env, config.buffer_capacity), build_engine(env, config)


def sampling_and_memory(side_by_side: Timer) -> list[dict[str, Any]]:
    """What sampling and relabelling take of an update, and the buffer's size beside its raw arrays."""
    config = replace(preset("fetch-pick-and-place"), update_chunk=UPDATES)
    env = make_world(config)
    learner, buffer, engine = _prepared(env, config)

    @jax.jit
    def draw(key: Any, buffer: ring.Buffer) -> Pairs:
        keys = jax.random.split(key, UPDATES)
        return jax.vmap(lambda k: draw_pairs(k, buffer, env, config, jnp.float32(0.5)))(keys)

    @jax.jit
    def gather(buffer: ring.Buffer, pairs: Pairs, checked: Checked) -> Any:
        return jax.vmap(lambda p, c: make_batch(buffer, env, config, p, c))(pairs, checked)

    def sample() -> Any:
        pairs = draw(jax.random.key(1), buffer)
        return gather(buffer, pairs, check_pairs(env.reached, pairs))

    update = lambda: engine.update(learner, buffer, jax.random.key(1), *2 * (jnp.float32(0.5),))  # noqa: E731
    drawing, whole = side_by_side(sample, update)
    spec = env.spec
    raw = 4 * config.buffer_capacity * (spec.observation_size + spec.goal_size + len(spec.action_low))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(buffer))
    return [
        {
            "what": "an update, 256-256-256",
            "against": "sampling and relabelling its batch",
            "ratio": whole / drawing,
            "wanted": 20.0,
            "note": f"sampling is {100 * drawing / whole:.1f} % of an update",
        },
        {
            "what": "memory of 1 M Fetch states",
            "against": "the raw float32 arrays",
            "ratio": raw / size,
            "wanted": 0.91,
            "note": f"{size / 2**20:.0f} MiB, {100 * (size / raw - 1):.1f} % over",
        },
    ]


def collection() -> list[dict[str, Any]]:
    """Collected steps per second and core against the bare environment stepped in a loop."""
    config = replace(preset("fetch-pick-and-place"), processes=1)
    env = make_world(config)
    rng = np.random.default_rng(0)
    network = build_network(env.spec, config, jax.random.key(0))
    policy = batched_policy(network, env.spec, config, own_dial(config), jax.random.key(0), 0.3, 0.2)
    seeds = np.arange(config.parallel_envs)
    collect = lambda: collect_external(env, policy, seeds, 50, end_at_success=False)  # noqa: E731

    def bare() -> None:
        env.env.reset(seed=0)
        for _ in range(50 * len(seeds)):
            env.env.step(rng.uniform(-1, 1, 4))

    collect()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(5):
        for column, run in zip(times, (collect, bare), strict=True):
            began = time.perf_counter()
            run()
            column.append(time.perf_counter() - began)
    ours, raw = (float(np.median(t)) for t in times)
    env.close()
    return [
        {
            "what": "collected steps, FetchPickAndPlace, one core",
            "against": "the bare environment in a loop",
            "ratio": raw / ours,
            "wanted": 0.8,
            "note": f"{50 * len(seeds) / ours:,.0f} against {50 * len(seeds) / raw:,.0f} steps/s",
        }
    ]


def overlap(side_by_side: Timer) -> list[dict[str, Any]]:
    """What could be gained by collecting the next episodes during the updates; little on one core."""
    config = preset("fetch-pick-and-place")
    env = make_world(config)
    learner, buffer, engine = _prepared(env, config)
    policy = batched_policy(learner.network, env.spec, config, own_dial(config), jax.random.key(0), 0.3, 0.2)
    seeds = np.arange(config.parallel_envs)
    rounds = round(config.updates_per_step * 50 * len(seeds) / config.update_chunk)

    def collect() -> None:
        collect_external(env, policy, seeds, 50, end_at_success=False)

    def update() -> None:
        for i in range(rounds):
            jax.block_until_ready(engine.update(learner, buffer, jax.random.key(i), *2 * (jnp.float32(0.5),)))

    def together() -> None:
        aside = threading.Thread(target=update)
        aside.start()
        collect()
        aside.join()

    def in_turn() -> None:
        collect()
        update()

    collecting, updating, turns, both = side_by_side(collect, update, in_turn, together)
    env.close()
    return [
        {
            "what": "collecting during the updates, FetchPickAndPlace",
            "against": "one after the other",
            "ratio": turns / both,
            "note": f"collecting is {100 * collecting / (collecting + updating):.0f} % of the time",
        }
    ]


def robot_rows(side_by_side: Timer) -> list[dict[str, Any]]:
    """All of the above, or a row that says what is missing."""
    try:
        import gymnasium_robotics  # noqa: F401
    except ImportError:
        return [{"what": "robots", "against": "", "note": "needs the extra `robotics`"}]
    rows = sampling_and_memory(side_by_side) + collection() + overlap(side_by_side)
    try:
        import stable_baselines3  # noqa: F401
    except ImportError:
        return [*rows, {"what": "updates", "against": "stable-baselines3", "note": "needs the extra `peers`"}]
    return rows + updates_against_peer(side_by_side)
