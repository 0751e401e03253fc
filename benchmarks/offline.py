"""Dubins' car learned from 5,000 recorded episodes, by C-learning and by GCSL on the same data.

    python benchmarks/offline.py [--seeds 0-2] [--updates 10000] [--width 256] [--out runs/offline]
        [--methods C-learning GCSL] [--name offline]

Half of the episodes are random, half are those of a half-trained agent with three random actions in ten. Also
measures what C promises of actions by how often the data took them nearby. Finished runs are used again.
Writes results/NAME.json and results/NAME.md.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.spatial import cKDTree

import clearning
from clearning.agent import Agent
from clearning.envs import DubinsCar
from clearning.episode_files import read_recording
from clearning.evaluate import evaluate, over_seeds
from clearning.recorded import Recording
from clearning.rollout import Dial, collect, dial_policy, own_dial, training_starts
from clearning.runs import RunFolder
from clearning.types import Episodes

ENV = DubinsCar()
EPISODES, HALF_TRAINED, NOISE = 5_000, 60, 0.3
METHODS = {
    "C-learning": ("dubins-car", {}),
    "C-learning, support 0.1": ("dubins-car", {"support": 0.1}),
    "GCSL": ("gcsl/dubins-car", {}),
}
ASKED = 3_000  # states, goals, actions and horizons that promises are checked at
NEAR = 0.5  # how far a state of the data may be in position, and in heading as a unit vector, to be nearby
OFTEN = ((0, 0), (1, 9), (10, 10**9))  # how often the data took the action nearby
RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", default="0-2", help="as in 0-2")
    parser.add_argument("--updates", type=int, default=10_000, help="of each training")
    parser.add_argument("--width", type=int, default=256, help="of the two hidden layers")
    parser.add_argument("--out", default="runs/offline", help="the folder of data and runs")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="of those below")
    parser.add_argument("--name", default="offline", help="of the files in results/")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    found = []
    for seed in range(int(first), int(last or first) + 1):
        found.append(one_seed(seed, given))
        write_results(found, given)


def one_seed(seed: int, given: argparse.Namespace) -> dict[str, Any]:
    folder, updates, width = Path(given.out) / f"seed-{seed}", given.updates, given.width
    file = folder / "episodes.npz"
    if not file.is_file():
        make_data(file, seed)
    data = read_recording(str(file))
    record: dict[str, Any] = {"seed": seed, "data": describe(data), "methods": {}}
    for name in given.methods:
        preset, settings = METHODS[name]
        out = folder / f"{name.replace(',', '').replace(' ', '-')}-{updates}-{width}"
        how = {"out": out, "from_episodes": file, "updates": updates, "hidden": (width, width)}
        how |= {"every_counts": "updates", "evaluate_every": updates // 4, "checkpoint_every": 1_000}
        agent = trained(preset, seed, **how, **settings)
        summary = evaluate(agent.network, ENV, agent.config, own_dial(agent.config), optimum=False).summary()
        record["methods"][name] = summary
        if agent.knows_c:
            record["methods"][name]["promises"] = promises(agent, data, seed)
        print(json.dumps({"seed": seed, "method": name, **record["methods"][name]}), flush=True)
    return record


def trained(preset: str, seed: int, out: Path, **settings: Any) -> Agent:
    folder = RunFolder(out)
    if folder.config_file.is_file():
        return clearning.load(out) if folder.is_finished() else clearning.resume(out)
    return clearning.train(preset, seed=seed, out=out, **settings)


# The data -----------------------------------------------------------------------------------------


def make_data(file: Path, seed: int) -> None:
    """Random episodes, and those of an agent that was stopped early."""
    half = trained("dubins-car", seed, file.parent / "half-trained", episodes=HALF_TRAINED)
    count = EPISODES // 2
    parts = [(half, 1.0), (half, NOISE)]
    runs = [episodes_of(agent, epsilon, count, 2 * seed + i) for i, (agent, epsilon) in enumerate(parts)]
    clearning.save_episodes(file, (episode for run in runs for episode in unpadded(run)))


def episodes_of(agent: Agent, epsilon: float, count: int, seed: int) -> Episodes:
    key_start, key_act = jax.random.split(jax.random.key(1_000 + seed))
    state, goal = training_starts(ENV, key_start, count)
    policy = dial_policy(agent.network, ENV.spec, own_dial(agent.config), epsilon, True)
    run = eqx.filter_jit(lambda key, s, g: collect(ENV, policy, key, s, g, ENV.spec.max_episode_steps))
    return jax.tree.map(np.asarray, run(key_act, state, goal))


def unpadded(run: Episodes) -> Any:
    for i, length in enumerate(np.asarray(run.length)):
        observation, action = run.observation[i, : length + 1], run.action[i, :length]
        yield {"observation": observation, "action": action, "desired_goal": run.goal[i]}


def describe(data: Recording) -> dict[str, Any]:
    assert data.desired_goal is not None
    ends = data.observation[data.last, :2]
    reached = np.asarray(ENV.reached(ends, data.desired_goal))  # an episode ends where it reaches its goal
    half = len(reached) // 2
    shares = {"random": reached[:half].mean(), "half-trained": reached[half:].mean()}
    return {
        "episodes": len(data.length),
        "transitions": len(data.action),
        "success": {k: float(v) for k, v in shares.items()},
    }


# Promises -----------------------------------------------------------------------------------------


def promises(agent: Agent, data: Recording, seed: int) -> dict[str, Any]:
    """What C(s, a, g, h) says at states of the data, and what taking a and then acting by C does."""
    rng = np.random.default_rng(seed)
    starts = np.setdiff1d(np.arange(len(data.observation)), data.last)
    state = data.observation[rng.choice(starts, ASKED)]
    goal = ENV._lattice(15)[rng.integers(len(ENV._lattice(15)), size=ASKED)].astype(np.float32)
    first = rng.integers(ENV.spec.num_actions, size=ASKED).astype(np.int32)
    horizon = rng.integers(2, 41, ASKED).astype(np.int32)
    apart = ~np.asarray(ENV.reached(state[:, :2], goal))
    state, goal, first, horizon = (x[apart] for x in (state, goal, first, horizon))
    taken = times_taken(data, state, first)
    promised, happened = ask(agent, state, goal, first, horizon)
    best, kept = ask(agent, state, goal, np.full(len(goal), -1, np.int32), horizon)
    rows = [("best action", np.ones(len(taken), bool), best, kept)]
    for low, high in OFTEN:
        label = "never" if not high else f"{low} to {high}" if high < 10**9 else f"at least {low}"
        rows.append((label, (taken >= low) & (taken <= high), promised, happened))
    return {
        label: {
            "asked": int(which.sum()),
            "promised": float(said[which].mean()) if which.any() else None,
            "happened": float(did[which].mean()) if which.any() else None,
        }
        for label, which, said, did in rows
    }


def times_taken(data: Recording, state: np.ndarray, action: np.ndarray) -> np.ndarray:
    """How often the data took an action near a state."""
    before = np.delete(data.observation, data.last, axis=0)
    count = np.zeros(len(state), int)
    for a in range(ENV.spec.num_actions):
        mine = action == a
        tree = cKDTree(before[data.action == a])
        count[mine] = tree.query_ball_point(state[mine], NEAR, p=np.inf, return_length=True)
    return count


@eqx.filter_jit
def _ask(network: Any, state: Array, goal: Array, first: Array, horizon: Array) -> tuple[Array, Array]:
    def one(state: Array, goal: Array, first: Array, horizon: Array) -> tuple[Array, Array]:
        values = jax.nn.sigmoid(network.curve(state, goal)[:, horizon - 1])
        said = jnp.where(first < 0, values.max(), values[first])
        greedy = dial_policy(network, ENV.spec, Dial(horizon=horizon))

        def act(key: Array, observation: Array, goal: Array, step: Array) -> Array:
            return jnp.where((step == 0) & (first >= 0), first, greedy(key, observation, goal, step))

        ran = collect(ENV, act, jax.random.key(0), state[None], goal[None], 40)
        return said, ran.success[0] & (ran.length[0] <= horizon)

    return jax.vmap(one)(state, goal, first, horizon)


def ask(
    agent: Agent, state: np.ndarray, goal: np.ndarray, first: np.ndarray, horizon: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What is promised of a first action (−1: the best), and whether it is kept."""
    said, did = _ask(agent.network, *map(jnp.asarray, (state, goal, first, horizon)))
    return np.asarray(said), np.asarray(did)


# What is written ----------------------------------------------------------------------------------


def write_results(found: list[dict[str, Any]], given: argparse.Namespace) -> None:
    methods = [f'"{name}"' if " " in name else name for name in found[0]["methods"]]
    success = {
        name: over_seeds([seed["methods"][name]["success"] for seed in found]) for name in given.methods
    }
    record = {
        "command": f"python benchmarks/offline.py --seeds {found[0]['seed']}-{found[-1]['seed']} "
        f"--updates {given.updates} --width {given.width} --methods {' '.join(methods)} --name {given.name}",
        "updates": given.updates,
        "width": given.width,
        "success": success,
        "seeds": found,
    }
    (RESULTS / f"{given.name}.json").write_text(json.dumps(record, indent=1) + "\n")
    (RESULTS / f"{given.name}.md").write_text(page(record, given.name))


def page(record: dict[str, Any], name: str) -> str:
    seeds, several = record["seeds"], len(record["seeds"]) > 1
    shares = [[s["data"]["success"][k] for s in seeds] for k in ("random", "half-trained")]
    kinds = [f"{100 * np.mean(s):.1f} %" for s in shares]
    lines = [
        "# Learning from recorded episodes",
        "",
        f"`{record['command']}`; numbers in [{name}.json]({name}.json).",
        "",
        f"Dubins' car from {EPISODES:,} recorded episodes, {EPISODES // 2:,} of them random (which reach "
        f"{kinds[0]} of their goals) and {EPISODES // 2:,} of an agent after {HALF_TRAINED} episodes, with "
        f"random actions at a share of {NOISE} ({kinds[1]}). {record['updates']:,} updates of networks with "
        f"two layers of {record['width']}, no step in the environment but for the test on its 192 goals.",
        "",
        f"| method | success, {f'mean ± std of {len(seeds)} seeds' if several else '1 seed'} | every seed |",
        "|---|---|---|",
    ]
    for method, s in record["success"].items():
        every = ", ".join(f"{100 * v:.2f}" for v in s["values"])
        spread = f" ± {100 * s['std']:.2f}" if several else ""
        lines.append(f"| {method} | {100 * s['mean']:.2f}{spread} % | {every} |")
    lines += ["", *promise_table(seeds)]
    return "\n".join(lines) + "\n"


def promise_table(seeds: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Does C promise too much of actions that the data never took?",
        "",
        f"At states of the data, to any goal, with 2 to 40 steps: what C promises of an action, and how "
        f"often taking it and then acting by C reaches the goal in time. By how often the data took the "
        f"action nearby (position and heading within {NEAR}). Means over the seeds; `best action` is what "
        f"the agent would do.",
        "",
        "| method | the data took it | asked | promised | happened | too much |",
        "|---|---|---|---|---|---|",
    ]
    for name in seeds[0]["methods"]:
        each = [s["methods"][name].get("promises") for s in seeds]
        for label in each[0] or ():
            rows = [p[label] for p in each if p[label]["asked"]]
            said, did = (np.mean([r[k] for r in rows]) if rows else np.nan for k in ("promised", "happened"))
            asked = sum(r["asked"] for r in rows)
            lines.append(f"| {name} | {label} | {asked} | {said:.3f} | {did:.3f} | {said - did:+.3f} |")
    return lines


if __name__ == "__main__":
    main()
