"""Time to 95 % on FetchReach and FetchPush, beside stable-baselines3 with settings published for them.

    python benchmarks/wall_clock.py [fetch-reach fetch-push] [--seeds 3] [--json results/wall_clock.json]

Both train on all cores there are, one after the other, and are judged on 100 fresh episodes (reached at any
step) every so many environment steps. Time spent on judging is not counted, time spent on compiling is. The
peer is given up after PATIENCE times our own time: the ratio then is a lower bound, and is called one.
"""

import argparse
import contextlib
import io
import json
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np

import clearning
from clearning.presets import preset
from clearning.runs import versions

TEST, MARK, PATIENCE = 100, 0.95, 4.5


class Task(NamedTuple):
    """How often to judge, and the peer's network; soft actor-critic has the other settings in common."""

    every: int
    hidden: tuple[int, ...]


TASKS = {"fetch-reach": Task(250, (64, 64)), "fetch-push": Task(5_000, (256, 256, 256))}


class Reached(NamedTuple):
    """When a training first had the mark, if it did."""

    seconds: float
    env_steps: int
    has_mark: bool


def ours(name: str, seed: int) -> Reached:
    """The preset, until it first has the mark."""
    began = time.perf_counter()
    judging, before, found = 0.0, began, Reached(math.nan, 0, has_mark=False)

    def after_episode(agent: Any, record: dict[str, Any]) -> None:
        nonlocal before
        before = time.perf_counter()

    def after_evaluation(agent: Any, record: dict[str, Any]) -> bool:
        nonlocal judging, found
        has_mark = record["eval_success"] >= MARK
        found = Reached(before - began - judging, record["env_steps"], has_mark)
        judging += time.perf_counter() - before
        return not has_mark

    callbacks = clearning.Callbacks(after_episode=after_episode, after_evaluation=after_evaluation)
    with contextlib.suppress(clearning.ClearningError):  # stopping at the mark
        clearning.train(
            name,
            seed=seed,
            callbacks=callbacks,
            quiet=True,
            evaluate_every=TASKS[name].every,
            test_episodes=TEST,
        )
    return found


def theirs(name: str, seed: int, limit: float) -> Reached:
    """Soft actor-critic with hindsight, until it first has the mark or has taken `limit` seconds."""
    from stable_baselines3 import SAC, HerReplayBuffer
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    began = time.perf_counter()
    id_ = preset(name).env
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make(id_)]), norm_reward=False)
    model = SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        batch_size=256,
        gamma=0.95,
        learning_rate=1e-3,
        learning_starts=1000,
        policy_kwargs={"net_arch": [*TASKS[name].hidden]},
        seed=seed,
    )
    test: Any = gymnasium.make(id_)
    taken = time.perf_counter() - began
    while taken < limit:
        began = time.perf_counter()
        model.learn(TASKS[name].every, reset_num_timesteps=False)
        taken += time.perf_counter() - began
        if success(model, env, test, seed) >= MARK:
            return Reached(taken, model.num_timesteps, has_mark=True)
    return Reached(taken, model.num_timesteps, has_mark=False)


def success(model: Any, norm: Any, test: Any, seed: int) -> float:
    """Share of fresh episodes in which the peer reaches its goal at any step."""
    reached = 0
    for episode in range(TEST):
        seen, _ = test.reset(seed=10_000 * (seed + 1) + episode)
        for _ in range(50):
            action, _ = model.predict(norm.normalize_obs(seen), deterministic=True)
            seen, _, _, _, info = test.step(action)
            if info["is_success"]:
                reached += 1
                break
    return reached / TEST


def compare(name: str, seed: int) -> dict[str, Any]:
    """Both trainings of one seed."""
    mine = ours(name, seed)
    other = theirs(name, seed, PATIENCE * mine.seconds)
    for who, found in (("clearning", mine), ("stable-baselines3", other)):
        told = "" if found.has_mark else ", not there"
        print(
            f"{name}, seed {seed}, {who}: {found.seconds:.1f} s, {found.env_steps:,} steps{told}", flush=True
        )
    record = {"preset": name, "seed": seed, "clearning": mine._asdict(), "stable-baselines3": other._asdict()}
    return record | {"ratio": other.seconds / mine.seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", default=[*TASKS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with contextlib.redirect_stderr(io.StringIO()):  # gymnasium-robotics greets
        import gymnasium_robotics

        gymnasium.register_envs(gymnasium_robotics)
    runs = []
    for name in options.presets:
        mine = [compare(name, seed) for seed in range(options.seeds)]
        there = all(r["stable-baselines3"]["has_mark"] for r in mine)
        ratio = float(np.exp(np.mean([np.log(r["ratio"]) for r in mine])))
        at_least = "" if there else "at least "
        print(f"{at_least}{ratio:.2f} times as fast to {100 * MARK:.0f} % on {name}", flush=True)
        runs += mine
    if options.json:
        command = f"python benchmarks/wall_clock.py {' '.join(options.presets)} --seeds {options.seeds}"
        record = {"command": command, "versions": versions(), "runs": runs}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
