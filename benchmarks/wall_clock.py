"""Time to 95 % on FetchReach and FetchPush, beside stable-baselines3 with settings published for them.

    python benchmarks/wall_clock.py [fetch-reach fetch-push] [--seeds 3] [--beside] [--json FILE]

Each training is a process of its own and is judged on 100 fresh episodes (reached at any step) every so many
environment steps. Time spent on imports and on judging is not counted, time spent on compiling is. They run
one after the other on all cores there are, or `--beside` each other on one core each. Where compiling is much
of our time, ours is run twice: with nothing compiled before, and with what JAX kept of the first run
(JAX_COMPILATION_CACHE_DIR). The peer is given up after PATIENCE times our own time: the ratio then is a lower
bound, and is called one.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TEST, MARK, PATIENCE = 100, 0.95, 4.5


class Task(NamedTuple):
    """How often to judge, the peer's network, and whether compiling is much of our time.

    Soft actor-critic has the other settings in common.
    """

    every: int
    hidden: tuple[int, ...]
    again: bool


TASKS = {
    "fetch-reach": Task(250, (64, 64), again=True),
    "fetch-push": Task(5_000, (256, 256, 256), again=False),
}


class Judged(NamedTuple):
    """How far a training was when it was judged."""

    seconds: float
    env_steps: int
    has_mark: bool


# In a process of its own --------------------------------------------------------------------------


def ours(name: str, seed: int) -> None:
    """The preset, until it has the mark."""
    import clearning

    began = time.perf_counter()
    judging, before = 0.0, began

    def after_episode(agent: Any, record: dict[str, Any]) -> None:
        nonlocal before
        before = time.perf_counter()

    def after_evaluation(agent: Any, record: dict[str, Any]) -> bool:
        nonlocal judging
        has_mark = record["eval_success"] >= MARK
        tell(Judged(before - began - judging, record["env_steps"], has_mark))
        judging += time.perf_counter() - before
        return not has_mark

    callbacks = clearning.Callbacks(after_episode=after_episode, after_evaluation=after_evaluation)
    judged = {"evaluate_every": TASKS[name].every, "test_episodes": TEST}
    with contextlib.suppress(clearning.Interrupted):  # stopping at the mark
        clearning.train(name, seed=seed, callbacks=callbacks, quiet=True, **judged)


def theirs(name: str, seed: int) -> None:
    """Soft actor-critic with hindsight, until it has the mark."""
    with contextlib.redirect_stderr(io.StringIO()):  # gymnasium-robotics greets
        import gymnasium
        import gymnasium_robotics
    from stable_baselines3 import SAC, HerReplayBuffer
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from clearning.presets import preset

    gymnasium.register_envs(gymnasium_robotics)
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
    taken, has_mark = time.perf_counter() - began, False
    while not has_mark:
        began = time.perf_counter()
        model.learn(TASKS[name].every, reset_num_timesteps=False)
        taken += time.perf_counter() - began
        has_mark = success(model, env, test, seed) >= MARK
        tell(Judged(taken, model.num_timesteps, has_mark))


def tell(judged: Judged) -> None:
    print(json.dumps(judged), flush=True)


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


WHO = {"clearning": ours, "stable-baselines3": theirs}


# From outside -------------------------------------------------------------------------------------


def started(
    who: str, name: str, seed: int, core: int | None = None, cache: str = ""
) -> subprocess.Popen[str]:
    """A training in a process of its own, on one core if told."""
    command = [sys.executable, __file__, name, "--only", who, "--seeds", str(seed)]
    kept = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    cores = os.sched_getaffinity(0) if core is None else {core}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | (kept if cache else {}),
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )


def judgements(process: subprocess.Popen[str]) -> Iterator[Judged]:
    assert process.stdout is not None
    for line in process.stdout:
        yield Judged(*json.loads(line))


def outcome(who: str, process: subprocess.Popen[str], limit: float = np.inf) -> Judged:
    """When a training first has the mark, or where it is after `limit` seconds."""
    judged = None
    for judged in judgements(process):
        if judged.has_mark or judged.seconds > limit:
            break
    process.terminate()
    process.wait()
    if judged is None or not (judged.has_mark or judged.seconds > limit):
        raise SystemExit(f"{who} ended without the mark")
    told = "" if judged.has_mark else ", not there"
    print(f"  {who}: {judged.seconds:.1f} s, {judged.env_steps:,} steps{told}", flush=True)
    return judged


def compare(name: str, seed: int, beside: bool) -> dict[str, Any]:
    """Both trainings of one seed."""
    print(f"{name}, seed {seed}", flush=True)
    cores = [*sorted(os.sched_getaffinity(0))][:2] if beside else [None, None]
    us, them = WHO
    with tempfile.TemporaryDirectory() as cache:
        ours_now = started(us, name, seed, cores[0], cache)
        theirs_now = started(them, name, seed, cores[1]) if beside else None
        mine = outcome(us, ours_now)
        record = {"preset": name, "seed": seed, us: mine._asdict()}
        warm = mine
        if TASKS[name].again:
            warm = outcome(f"{us}, compiled before", started(us, name, seed, cores[0], cache))
            record["compiled before"] = warm._asdict()
    other = outcome(them, theirs_now or started(them, name, seed), PATIENCE * mine.seconds)
    record |= {them: other._asdict(), "ratio": other.seconds / mine.seconds}
    return record | ({"ratio, compiled before": other.seconds / warm.seconds} if TASKS[name].again else {})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", default=[*TASKS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--beside", action="store_true", help="at the same time, each on one core")
    parser.add_argument("--json", type=Path, help="runs of other presets in it are kept")
    parser.add_argument("--only", choices=[*WHO], help=argparse.SUPPRESS)  # one training, of that seed
    options = parser.parse_args()
    if options.only:
        WHO[options.only](options.presets[0], options.seeds)
        return
    for name in options.presets:
        mine = [compare(name, seed, options.beside) for seed in range(options.seeds)]
        there = all(r["stable-baselines3"]["has_mark"] for r in mine)
        for ratio in ("ratio", "ratio, compiled before"):
            if all(ratio in r for r in mine):
                mean = float(np.exp(np.mean([np.log(r[ratio]) for r in mine])))
                print(f"{name}, {ratio}: {'' if there else 'at least '}{mean:.2f}", flush=True)
        if options.json:
            write(options.json, name, mine, options)


def write(file: Path, name: str, mine: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """The runs of one preset, with their command, beside those of others."""
    from clearning.runs import versions

    record = json.loads(file.read_text()) if file.exists() else {}
    words = f"python benchmarks/wall_clock.py {name} --seeds {options.seeds}{' --beside' * options.beside}"
    record[name] = {"command": words, "versions": versions(), "runs": mine}
    file.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
