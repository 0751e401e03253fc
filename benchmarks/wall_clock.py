"""Time to 95 % on FetchReach, beside stable-baselines3 with the settings that its zoo publishes for it.

    python benchmarks/wall_clock.py [--seeds 3] [--json results/wall_clock.json]

Both train on all cores there are, one after the other, and are judged on 100 fresh episodes (reached at any
step) after every 250 environment steps. Time spent on judging is not counted, time spent on compiling is.
"""

import argparse
import contextlib
import io
import json
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import clearning
from clearning.runs import versions

ENV, EVERY, TEST, MARK = "FetchReach-v4", 250, 100, 0.95


def ours(seed: int) -> tuple[float, int]:
    """Seconds and environment steps until the preset first has the mark."""
    began = time.perf_counter()
    judging, before, found = 0.0, began, (float("nan"), 0)

    def after_episode(agent: Any, record: dict[str, Any]) -> None:
        nonlocal before
        before = time.perf_counter()

    def after_evaluation(agent: Any, record: dict[str, Any]) -> bool:
        nonlocal judging, found
        found = (before - began - judging, record["env_steps"])
        judging += time.perf_counter() - before
        return record["eval_success"] < MARK

    callbacks = clearning.Callbacks(after_episode=after_episode, after_evaluation=after_evaluation)
    with contextlib.suppress(clearning.ClearningError):  # stopping at the mark
        clearning.train(
            "fetch-reach",
            seed=seed,
            callbacks=callbacks,
            quiet=True,
            evaluate_every=EVERY,
            test_episodes=TEST,
        )
    return found


def theirs(seed: int) -> tuple[float, int]:
    """The same for soft actor-critic with hindsight: batch 256, discount 0.95, rate 1e-3, network 64-64."""
    from stable_baselines3 import SAC, HerReplayBuffer
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    began = time.perf_counter()
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make(ENV)]), norm_reward=False)
    model = SAC(
        "MultiInputPolicy",
        env,
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        batch_size=256,
        gamma=0.95,
        learning_rate=1e-3,
        learning_starts=1000,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
    )
    test: Any = gymnasium.make(ENV)
    taken = time.perf_counter() - began
    while model.num_timesteps < 20_000:
        began = time.perf_counter()
        model.learn(EVERY, reset_num_timesteps=False)
        taken += time.perf_counter() - began
        if _success(model, env, test, seed) >= MARK:
            return taken, model.num_timesteps
    return float("nan"), model.num_timesteps


def _success(model: Any, norm: Any, test: Any, seed: int) -> float:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with contextlib.redirect_stderr(io.StringIO()):  # gymnasium-robotics greets
        import gymnasium_robotics

        gymnasium.register_envs(gymnasium_robotics)
    runs = []
    for seed in range(options.seeds):
        for name, train in (("clearning", ours), ("stable-baselines3", theirs)):
            taken, steps = train(seed)
            runs.append({"what": name, "seed": seed, "seconds": taken, "env_steps": steps})
            print(f"{name}, seed {seed}: {taken:.1f} s, {steps:,} steps", flush=True)
    mean = {
        n: np.mean([r["seconds"] for r in runs if r["what"] == n]) for n in ("clearning", "stable-baselines3")
    }
    ratio = float(mean["stable-baselines3"] / mean["clearning"])
    print(f"{ratio:.2f} times as fast to {100 * MARK:.0f} % on {ENV}")
    if options.json:
        record = {
            "command": f"python benchmarks/wall_clock.py --seeds {options.seeds}",
            "versions": versions(),
            "ratio": ratio,
            "runs": runs,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
