"""Anybody's Gymnasium environment: what is asked of it, what is stored of it, and how it may fail."""

import dataclasses
import gc
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import goal_worlds
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_refused, run
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from test_resume import assert_same_run

import clearning
from clearning.config import Config
from clearning.envs import ExternalEnv, check_env
from clearning.envs.external import EnvironmentFailed, find_achieved
from clearning.envs.gymnasium_env import GymnasiumGoalEnv
from clearning.envs.objections import Probe
from clearning.files import load_arrays
from clearning.rollout import collect, collect_external

POINT = "goal_worlds:Point-v0"
TINY: dict[str, Any] = {
    "hidden": (8,),
    "max_horizon": 6,
    "critics": 1,
    "updates_per_step": 0.5,
    "update_chunk": 8,
    "batch_size": 16,
    "pair_tries": 1,
    "buffer_capacity": 2000,
    "random_episodes": 4,
    "test_episodes": 2,
}


def options(settings: dict[str, Any]) -> list[str]:
    """Settings as they are typed."""
    typed = []
    for name, value in settings.items():
        if isinstance(value, dict):
            value = [str(part) for pair in value.items() for part in pair]
        typed += [
            f"--{name.replace('_', '-')}",
            *map(str, value if isinstance(value, tuple | list) else [value]),
        ]
    return typed


def workers(mark: str) -> list[int]:
    """The worker processes whose recipe mentions something."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_text()
        except OSError:
            continue
        if "worker.py" in line and mark in line:
            found.append(int(process.name))
    return found


def assert_no_workers(mark: str) -> None:
    deadline = time.monotonic() + 20
    while workers(mark) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not workers(mark)


def random_policy(spec: clearning.EnvSpec, seed: int = 0):
    """Actions that depend on the episode's number and the step only."""

    def act(observation: np.ndarray, goal: np.ndarray, t: int) -> np.ndarray:
        rng = np.random.default_rng((seed, t))
        if spec.continuous:
            return rng.uniform(-1, 1, (len(goal), *spec.action_shape)).astype(np.float32)
        return rng.integers(spec.num_actions, size=len(goal))

    return act


def to_the_right(observation: np.ndarray, goal: np.ndarray, t: int) -> np.ndarray:
    return np.tile(np.array([1.0, 0.0], np.float32), (len(goal), 1))


def episodes_of(env: ExternalEnv, policy=None, count: int = 1, seed: int = 0, **how):
    steps = env.spec.max_episode_steps
    policy = policy or random_policy(env.spec)
    parts = [collect_external(env, policy, np.array([seed + i]), steps, **how) for i in range(count)]
    return clearning.rollout.Episodes(*(np.concatenate(x) for x in zip(*parts, strict=True)))


def local(repeat: int = 1, steps: int = 12, **world) -> ExternalEnv:
    return ExternalEnv(goal_worlds.Point(**world), max_episode_steps=steps, action_repeat=repeat)


# What is collected ------------------------------------------------------------------------------


def test_a_reset_is_never_a_transition():
    """The observation counts its steps: it starts at 0 and rises by one a transition, in every episode."""
    env = local()
    ran = episodes_of(env, count=20)
    for observation, length in zip(ran.observation, ran.length, strict=True):
        np.testing.assert_allclose(observation[: length + 1, 0], 0.1 * np.arange(length + 1), rtol=1e-6)


def test_the_achieved_goal_belongs_to_the_observation():
    env = local()
    ran = episodes_of(env, count=5)
    for i, length in enumerate(ran.length):
        at = ran.observation[i, : length + 1][:, env.spec.achieved_at]
        np.testing.assert_array_equal(at, ran.achieved[i, : length + 1])


def test_reaching_the_environments_own_goal_is_no_death_whatever_else_was_pursued():
    """Episodes at the frontier go after other goals, and the environment still ends them at its own."""
    elsewhere = lambda observation, achieved, desired: np.full_like(desired, -1.0)  # noqa: E731
    env = local(ends="success", radius=0.5)
    ran = episodes_of(env, to_the_right, count=30, choose_goals=elsewhere)
    ended = ran.length < 12
    assert ended.any()
    assert not ran.success.any()
    assert not ran.dead.any()
    fallen = episodes_of(local(ends="edge", radius=0.01), to_the_right, count=5, choose_goals=elsewhere)
    assert fallen.dead.all()


def test_an_episode_ends_at_its_first_success_unless_it_is_to_go_on():
    env = local(radius=0.5)
    ran = episodes_of(env, count=30)
    inside = env.reached(ran.achieved, ran.goal[:, None])
    for i, length in enumerate(ran.length):
        assert not inside[i, 1:length].any()
        assert inside[i, length] == ran.success[i]
    assert 0 < ran.success.mean() < 1
    assert (ran.length[~ran.success] == 12).all()
    whole = episodes_of(env, count=30, end_at_success=False)
    assert (whole.length == 12).all()
    assert (whole.success >= ran.success).all()


@pytest.mark.parametrize(
    ("ends", "says_dead", "dies_at_the_edge"),
    [("edge", False, True), ("edge", True, True), ("", True, True), ("", False, False)],
)
def test_dead_is_what_the_environment_says_or_an_end_without_success(ends, says_dead, dies_at_the_edge):
    ran = episodes_of(local(ends=ends, says_dead=says_dead), to_the_right, count=20)
    touched = ran.achieved[np.arange(20), ran.length][:, 0] >= 1
    assert 0 < touched.sum() < 20
    np.testing.assert_array_equal(
        ran.dead, touched & ~ran.success if dies_at_the_edge else np.zeros(20, bool)
    )


def test_an_end_with_success_is_not_death():
    ran = episodes_of(local(ends="success"), count=30)
    assert ran.success.any()
    assert not ran.dead.any()
    assert (ran.length[~ran.success] == 12).all()  # cut off by time, which is not death either


def test_the_time_limit_is_no_death_and_can_be_changed():
    env = ExternalEnv(gymnasium.make(POINT, radius=0.01))
    ran = episodes_of(env, count=3)
    assert ran.length.tolist() == [12] * 3
    assert not ran.dead.any()
    assert local(steps=5).spec.max_episode_steps == 5
    assert ExternalEnv(TimeLimit(goal_worlds.Point(), 9)).spec.max_episode_steps == 9
    assert ExternalEnv("goal_worlds:Endless-v0", max_episode_steps=7).spec.max_episode_steps == 7
    with pytest.raises(clearning.UsageError, match="does not say how long an episode is"):
        ExternalEnv("goal_worlds:Endless-v0")


def test_actions_are_stored_scaled_and_received_in_the_environments_units():
    env = local()
    world: Any = env.env.unwrapped
    world.received.clear()
    ran = episodes_of(env, count=5)
    kept = np.concatenate([a[:n] for a, n in zip(ran.action, ran.length, strict=True)])
    received = np.stack(world.received)
    assert np.abs(kept).max() <= 1
    assert received.dtype == np.float32
    np.testing.assert_allclose(
        received, goal_worlds.LOW + (kept + 1) / 2 * (goal_worlds.HIGH - goal_worlds.LOW), 1e-5
    )
    assert (received >= goal_worlds.LOW).all()
    assert (received <= goal_worlds.HIGH).all()
    world.received.clear()
    episodes_of(env, lambda s, g, t: np.nextafter(np.ones((1, 2), np.float32), np.float32(2)))
    np.testing.assert_array_equal(world.received[0], goal_worlds.HIGH)  # rounding does not lead out of bounds


def test_numbered_actions_are_received_as_numbers():
    env = local(discrete=True)
    assert not env.spec.continuous
    assert env.spec.num_actions == 4
    world: Any = env.env.unwrapped
    world.received.clear()
    ran = episodes_of(env, count=3)
    assert {type(a) for a in world.received} == {int}
    assert world.received == [int(a) for row, n in zip(ran.action, ran.length, strict=True) for a in row[:n]]


def test_action_repeat_makes_one_step_of_several():
    env = local(repeat=4, steps=10, radius=0.01)
    assert env.spec.max_episode_steps == 3
    ran = episodes_of(env)
    np.testing.assert_allclose(ran.observation[0, :, 0], [0.0, 0.4, 0.8, 1.0], rtol=1e-6)
    limited = ExternalEnv(gymnasium.make(POINT, radius=0.01, max_episode_steps=10), action_repeat=4)
    np.testing.assert_allclose(episodes_of(limited).observation[0, :, 0], [0.0, 0.4, 0.8, 1.0], rtol=1e-6)


@pytest.mark.parametrize("reward", [(-1.0, 0.0), (0.0, 1.0), (-3.0, 10.0)])
def test_any_two_rewards_tell_what_is_reached(reward):
    env = local(reward=reward)
    goal = np.zeros((3, 2), np.float32)
    achieved = np.array([[0.0, 0.0], [0.29, 0.0], [0.31, 0.0]], np.float32)
    assert env.reached(achieved, goal).tolist() == [True, True, False]


class Judge(goal_worlds.Point):
    """Whose check is what a function makes of the rewards."""

    def __init__(self, judge: Any):
        super().__init__()
        self.judge = judge

    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        return self.judge(super().compute_reward(achieved, desired, info))


@pytest.mark.parametrize(
    "judge",
    [
        lambda rewards: rewards == 0,  # truth values
        lambda rewards: (rewards == 0).astype(np.int8),
        np.flip,  # rows mixed up, which single pairs are not
    ],
)
def test_any_check_gives_one_answer_for_each_pair(judge):
    env = ExternalEnv(Judge(judge), max_episode_steps=5)
    achieved = np.array([[0.0, 0.0], [0.9, 0.9], [0.9, 0.9]], np.float32)
    assert env.reached(achieved, np.zeros((3, 2), np.float32)).tolist() == [True, False, False]
    assert check_env(Judge(judge), max_episode_steps=5).trainable


def test_a_check_that_gives_nan_is_told():
    bad = []
    env = ExternalEnv(Judge(lambda rewards: rewards + np.nan if bad else rewards), max_episode_steps=5)
    bad.append(True)
    with pytest.raises(EnvironmentFailed, match="Judge: its compute_reward gave NaN or infinity"):
        env.reached(np.zeros((2, 2)), np.zeros((2, 2)))


class OwnGoalOnly(goal_worlds.Point):
    """Says in its info whether its own goal is reached, and nothing of any other."""

    compute_reward: Any = property(lambda self: self.missing)  # an AttributeError, as if it were not there

    def step(self, action: Any) -> Any:
        self.at = np.clip(self.at + 0.1 * np.asarray(action), -1, 1).astype(np.float32)
        success = float(np.linalg.norm(self.at - self.goal)) <= self.claims
        return self.observe(), 0.0, False, False, {"is_success": success}


@pytest.mark.parametrize("taken_as", [np.asarray, np.atleast_2d])
def test_a_check_that_knows_batches_only_is_asked_for_batches(taken_as):
    class Batches(OwnGoalOnly):
        def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
            apart = taken_as(achieved) - taken_as(desired)  # a single pair raises, or is a batch of one
            return (np.linalg.norm(apart, axis=1) <= 0.3) - 1.0

    env = ExternalEnv(Batches(), max_episode_steps=5)
    assert env.reached(np.array([[0.29, 0.0], [0.31, 0.0]]), np.zeros((2, 2))).tolist() == [True, False]


def test_without_a_check_a_distance_will_do():
    with pytest.raises(clearning.ClearningError, match=r"no compute_reward.*set reached_within to the"):
        ExternalEnv(OwnGoalOnly(), max_episode_steps=5)
    env = ExternalEnv(OwnGoalOnly(), max_episode_steps=5, reached_within=0.3)
    assert env.reached(np.array([[0.29, 0.0], [0.31, 0.0]]), np.zeros((2, 2))).tolist() == [True, False]
    assert not check_env(OwnGoalOnly(), max_episode_steps=50, reached_within=0.3).warnings
    other = check_env(OwnGoalOnly(claims=0.6), max_episode_steps=50, reached_within=0.3)
    assert "disagree" in other.warnings[0]
    settings = TINY | {"max_episode_steps": 6, "env_steps": 60, "reached_within": 0.3}
    agent = clearning.train(env=OwnGoalOnly(), quiet=True, **settings)
    assert agent.act([0.0, 0.0, 0.0], [0.5, 0.5]).shape == (2,)


def test_a_wrappers_own_check_comes_first():
    class Stricter(gymnasium.Wrapper):
        def compute_reward(self, achieved, desired, info):
            return -(np.linalg.norm(achieved - desired, axis=-1) > 0.1).astype(float)

    env = ExternalEnv(Stricter(goal_worlds.Point()), max_episode_steps=5)
    assert not env.reached(np.array([0.2, 0.0]), np.zeros(2))


def test_the_achieved_goal_is_not_mistaken_for_what_merely_starts_alike():
    """All of the first observation is zero, as the achieved goal is."""
    assert local().spec.achieved_at == (1, 2)


@pytest.mark.parametrize(
    ("observation", "achieved", "found"),
    [
        # Two coordinates that have not moved look alike: those side by side are meant.
        ([[0.0, 0.1, 0.2, 0.0], [0.0, 0.3, 0.4, 0.0]], [[0.1, 0.2, 0.0], [0.3, 0.4, 0.0]], (1, 2, 3)),
        ([[0.1, 7.0, 0.2], [0.3, 8.0, 0.4]], [[0.2, 0.1], [0.4, 0.3]], (2, 0)),
        ([[0.0, 0.1, 0.0], [0.0, 0.3, 0.0]], [[0.1, 5.0], [0.3, 5.0]], ()),
        ([[0.0, 0.1, 8.0, 0.0], [0.0, 0.3, 9.0, 0.0]], [[0.0, 8.0], [0.0, 9.0]], ()),  # one of two: not told
    ],
)
def test_where_an_observation_shows_the_achieved_goal(observation, achieved, found):
    probe = Probe(np.array(observation), np.array(achieved), np.array(achieved))
    assert find_achieved(probe) == found


def test_actions_at_the_bounds_stay_within_them():
    spec = local().spec
    for low, high in ((-1.0, 0.1), (-2.5, 3.3)):
        box = spaces.Box(np.float32(low), np.float32(high), (2,))
        spec = dataclasses.replace(spec, action_low=(low, low), action_high=(high, high))
        for edge in (-1.0, 1.0):
            assert box.contains(spec.in_bounds(np.full(2, edge, np.float32)))


def test_no_autoreset_gets_between():
    """A wrapper that resets by itself at the step after an end is not asked for that step."""
    world = gymnasium.wrappers.Autoreset(goal_worlds.Point(ends="success edge"))
    ran = episodes_of(ExternalEnv(world, max_episode_steps=12), count=10)
    assert (ran.length < 12).any()
    for observation, length in zip(ran.observation, ran.length, strict=True):
        np.testing.assert_allclose(observation[: length + 1, 0], 0.1 * np.arange(length + 1), rtol=1e-6)


def test_both_collectors_hand_over_the_same_arrays():
    car = clearning.envs.DubinsCar()
    turn = lambda s, g, t: (3 + (t + s[..., 0].astype(int)) % 3).astype(np.int32)  # noqa: E731
    outside = ExternalEnv(GymnasiumGoalEnv(car), max_episode_steps=40)
    theirs = episodes_of(outside, turn, count=4)
    ours = collect(
        car,
        lambda key, s, g, t: (3 + (t + s[0].astype(int)) % 3).astype(jnp.int32),
        jax.random.key(0),
        jnp.asarray(theirs.observation[:, 0]),
        jnp.asarray(theirs.goal),
        40,
    )
    for name, one, other in zip(ours._fields, ours, theirs, strict=True):
        one = np.asarray(one)
        assert (one.shape, one.dtype) == (other.shape, other.dtype), name
        steps = {"observation": 1, "achieved": 1, "action": 0}.get(name)
        for i, length in enumerate(theirs.length):
            whole = slice(None) if steps is None else slice(length + steps)
            np.testing.assert_allclose(
                one[i][whole] if one[i].ndim else one[i],
                other[i][whole] if one[i].ndim else other[i],
                atol=1e-5,
            )


def test_an_id_that_this_process_registered_opens_in_workers_too():
    gymnasium.register("Plain", entry_point="goal_worlds:Point", max_episode_steps=12, kwargs={"radius": 0.2})
    try:
        env = clearning.envs.make_world(Config(env="Plain", processes=1))
        assert env.spec.max_episode_steps == 12
        assert env.pool(1).reset(np.arange(1)).observation.shape == (1, 3)
        env.close()
    finally:
        del gymnasium.registry["Plain"]


def test_workers_hold_no_jax():
    pytest.importorskip("gymnasium_robotics")
    env = ExternalEnv("FetchReach-v4", processes=1)
    pool = env.pool(1)
    pool.reset(np.arange(1))
    loaded = Path(f"/proc/{pool.groups[0].process.pid}/maps").read_text()
    env.close()
    assert "mujoco" in loaded
    assert "jaxlib" not in loaded


def test_a_module_in_the_current_folder_can_be_named(capsys, monkeypatch, tmp_path):
    (tmp_path / "here_worlds.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Here-v0', entry_point='goal_worlds:Point', max_episode_steps=12)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    code, out, err = run(capsys, "check-env", "here_worlds:Here-v0")
    assert code == 0, out + err


def test_collected_episodes_do_not_depend_on_the_processes():
    found = []
    for processes in (1, 3):
        env = ExternalEnv(POINT, {"ends": "success edge"}, processes=processes)
        policy = random_policy(env.spec)
        found.append([collect_external(env, policy, np.arange(n) + 7, 12) for n in (5, 3)])
        env.close()
    for one, other in zip(*found, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("size", r"Point showed shape \(7,\) in its 'observation' where its space says \(3,\), at step 1"),
        ("nan", "Point showed NaN or infinity in its 'achieved_goal', at step 1 of an episode with seed 3"),
        ("raise", r"Point: the environment raised RuntimeError: the motor is hot \(.*goal_worlds.py, line"),
    ],
)
def test_what_breaks_is_named(tmp_path, how, words):
    env = local(flag=str(tmp_path / "flag"))
    (tmp_path / "flag").write_text(how)
    with pytest.raises(EnvironmentFailed, match=words):
        episodes_of(env, seed=3)


def test_a_forgotten_pool_leaves_no_processes(tmp_path):
    mark = str(tmp_path / "flag")
    env = ExternalEnv(POINT, {"flag": mark}, processes=2)
    env.pool(2).reset(np.arange(2))
    assert len(workers(mark)) == 2
    del env
    gc.collect()
    assert_no_workers(mark)


def test_a_worker_that_dies_between_two_requests_is_told(tmp_path):
    mark = str(tmp_path / "flag")
    env = ExternalEnv(POINT, {"flag": mark}, processes=1)
    try:
        env.pool(1).reset(np.arange(1))
        os.kill(workers(mark)[0], signal.SIGKILL)
        assert_no_workers(mark)
        with pytest.raises(EnvironmentFailed, match="ended by signal 9, at step 1 of an episode"):
            env.pool(1).step(np.arange(1), np.zeros((1, 2)))
    finally:
        env.close()


def test_a_worker_that_hangs_up_and_stays_is_told_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("clearning.envs.pool.PATIENCE", 0.3)
    mark = tmp_path / "flag"
    env = ExternalEnv(POINT, {"flag": str(mark)}, processes=1)
    env.pool(1).reset(np.arange(1))
    mark.write_text("hang up")
    with pytest.raises(EnvironmentFailed, match="no longer answers, at step 1 of an episode"):
        env.pool(1).step(np.arange(1), np.zeros((1, 2)))
    env.close()
    assert not workers(str(mark))


# Bad environments -------------------------------------------------------------------------------

BAD = [
    ("NoGoals", ["it is not a goal environment"]),
    ("NoCheck", ["no finite bounds", "no compute_reward"]),
    ("OneAtATime", ["does not take a batch of goals"]),
    ("Dense", ["rewards are dense"]),
    ("Nested", ["'observation' is nested"]),
    ("Image", ["images are not supported"]),
    ("ManyHands", ["MultiDiscrete", "no compute_reward"]),
    ("Liar", ["came in shape (9,); its space says (3,)", "'achieved_goal' held NaN"]),
    ("Endless", ["does not say how long an episode is"]),
]


@pytest.mark.parametrize(("name", "words"), BAD)
def test_what_would_not_work_is_told_before_any_training(capsys, monkeypatch, tmp_path, name, words):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, "check-env", f"goal_worlds:{name}-v0")
    assert code == 1
    assert all(word in out for word in words), out
    assert "Traceback" not in out + err
    code, _, err = run(capsys, "train", "--env", f"goal_worlds:{name}-v0")
    assert code == (2 if name == "Endless" else 1)
    assert words[0] in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["train", "--env", "goal_worlds:Nowhere-v0"], 2, "There is no environment 'goal_worlds:Nowhere-v0'"),
        (["train", "--env", "no_such_module:Point-v0"], 2, "No module named 'no_such_module'"),
        (
            ["train", "--env", POINT, "--env-options", "colour", "red"],
            2,
            "unexpected keyword argument 'colour'",
        ),
        (["train", "--env", POINT, "--features", "scaled"], 2, "need bounded observations and goals"),
        (["train", "--env", "CartPole-v1"], 1, "it is not a goal environment"),
        (["train", "--env", "dubbins-car"], 2, "Did you mean 'dubins-car'?"),
        (["train", "--seed", "1", "--hidden", "8"], 2, "without one, give --env"),
        (["train"], 2, "or an environment"),
        (["check-env", "Nowhere-v3"], 2, "There is no environment 'Nowhere-v3'"),
        (["check-env", "frozen-lake"], 2, "its id is clearning/FrozenLake-v0"),
    ],
)
def test_bad_usage_gets_a_clear_sentence(capsys, monkeypatch, tmp_path, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    assert_refused(capsys, arguments, code, words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("action", "parts", "words"),
    [
        (spaces.Discrete(4, start=1), {}, "its actions are numbered from 1: from 0 is needed"),
        (spaces.Box(-1, 1, (2, 2)), {}, "its actions have shape (2, 2): one axis is needed"),
        (spaces.Box(0, 3, (2,), np.int64), {}, "its actions are a Box of int64: floats, or a Discrete space"),
        (spaces.Box(0, 0, (2,)), {}, "a lower bound that is not below the upper one"),
        (None, {"desired_goal": None}, "its observations have no 'desired_goal'"),
        (None, {"observation": spaces.Discrete(3)}, "not a vector of numbers but a Discrete space"),
        (None, {"observation": spaces.Box(0, 1, ())}, "has shape (), not one axis: one axis is needed"),
        (None, {"desired_goal": goal_worlds.vector(3)}, "'achieved_goal' and 'desired_goal' differ in shape"),
    ],
)
def test_a_space_that_does_not_fit_is_named(action, parts, words):
    world = goal_worlds.Point()
    world.action_space = action or world.action_space
    inner = {**world.observation_space.spaces, **parts}
    world.observation_space = spaces.Dict({k: v for k, v in inner.items() if v is not None})
    assert words in check_env(world, max_episode_steps=5).objections[0]
    with pytest.raises(clearning.ClearningError, match="Point cannot be trained on") as refusal:
        ExternalEnv(world, max_episode_steps=5)
    assert words in str(refusal.value)


def no_seat(**_: Any) -> Any:
    raise ValueError("no seat is free")


@pytest.mark.parametrize(
    ("method", "does", "words"),
    [
        ("reset", no_seat, "it raised ValueError: no seat is free"),
        ("observe", lambda: {"observation": np.zeros(3)}, "an observation came without 'achieved_goal'"),
        ("observe", lambda: {"observation": ["left", 0, 0]}, "its 'observation' is not made of numbers"),
        ("compute_reward", lambda a, g, info: -1.0, "does not give one reward for each pair"),
        ("compute_reward", lambda a, g, info: np.nan * a[..., 0], "gives NaN or infinity"),
        ("compute_reward", lambda a, g, info: 0 * a[..., 0], "does not pay more at a goal than far from it"),
    ],
)
def test_what_an_environment_does_wrong_is_named(method, does, words):
    world = goal_worlds.Point()
    setattr(world, method, does)
    assert words in check_env(world, max_episode_steps=5).objections[0]
    with pytest.raises(clearning.ClearningError, match=words):
        ExternalEnv(world, max_episode_steps=5)


def test_a_reward_that_is_paid_away_from_the_goal_is_refused():
    with pytest.raises(clearning.ClearningError, match="does not pay more at a goal than far from it"):
        local(reward=(1.0, 0.0))


class Mixes(goal_worlds.Point):
    def compute_reward(self, achieved: Any, desired: Any, info: Any) -> Any:
        rewards = super().compute_reward(achieved, desired, info)
        if np.shape(rewards) == (1,):
            raise IndexError("squeezed away")
        return np.flip(rewards)


@pytest.mark.parametrize("around", [None, lambda achieved, goal: np.zeros(len(goal))])
def test_a_check_that_is_right_for_single_pairs_only_is_asked_pair_by_pair(monkeypatch, around):
    """As HandManipulatePen's: it mixes the rows of a batch up, and fails at a batch of one.

    A way around that gives something else is not taken.
    """
    monkeypatch.setattr("clearning.envs.objections._rewards_turned_alike", lambda env, batched: around)

    env = ExternalEnv(Mixes(), max_episode_steps=5)
    achieved = np.array([[0.0, 0.0], [0.9, 0.9], [0.9, 0.9]], np.float32)
    assert env.reached(achieved, np.zeros((3, 2), np.float32)).tolist() == [True, False, False]


def test_the_pen_is_checked_in_batches_and_as_single_pairs_would_be(monkeypatch):
    pytest.importorskip("gymnasium_robotics")
    env = ExternalEnv("HandManipulatePenFull-v1", processes=1)
    alone = env.env.get_wrapper_attr("compute_reward")
    rng = np.random.default_rng(1)
    goal = np.stack([env.env.reset(seed=s)[0]["desired_goal"] for s in range(50)]).astype(np.float32)
    # A turn around the pen's own axis does not matter: such pairs are among those that count as there.
    turned = goal.copy()
    turned[25:, 3:] = quaternion_product(turned[25:, 3:], [np.cos(1.0), 0, 0, np.sin(1.0)])
    achieved = turned + (0.03 * rng.normal(size=goal.shape)).astype(np.float32)
    one_by_one = [alone(a, g, {}) == 0 for a, g in zip(achieved, goal, strict=True)]
    assert 0 < np.mean(one_by_one) < 1
    calls = []
    monkeypatch.setattr(env.env.unwrapped, "_is_success", counted(env.env.unwrapped._is_success, calls))
    assert env.reached(achieved, goal).tolist() == one_by_one
    assert len(calls) == 1
    assert env.env.unwrapped.ignore_z_target_rotation  # as it was


def quaternion_product(first: Any, second: Any) -> Any:
    from gymnasium_robotics.utils.rotations import quat_mul

    return quat_mul(first, np.broadcast_to(second, first.shape))


def counted(function: Any, calls: list) -> Any:
    def call(*arguments: Any) -> Any:
        calls.append(arguments)
        return function(*arguments)

    return call


def test_a_check_that_raises_later_is_told_with_its_place(tmp_path):
    env, many = local(flag=str(tmp_path / "flag")), np.zeros((16, 2), np.float32)
    (tmp_path / "flag").write_text("reward")
    words = r"Point: its compute_reward raised RuntimeError: no reward today \(.*goal_worlds.py, line"
    with pytest.raises(EnvironmentFailed, match=words):
        env.reached(many, many)


@pytest.mark.parametrize(
    ("name", "why", "words"),
    [
        ("goal_worlds:Broken-v0", "dependency", "could not be opened: the arm is not installed."),
        ("goal_worlds:Broken-v0", "assertion", "could not be opened: the table has three legs."),
        ("goal_worlds:Broken-v0", "bare", "could not be opened: a bare assertion failed."),
        ("goal_worlds:Broken-v0", "camera", "could not be opened: OSError: no camera (/"),
        ("FetchBroken-v0", "bare", "MuJoCo 3.12 or later does this to gymnasium-robotics"),
        ("FetchBroken-v0", "dependency", "`pip install clearning[robotics]` installs what Fetch"),
    ],
)
def test_why_an_environment_cannot_be_opened_is_told(capsys, name, why, words):
    arguments = ["check-env", name, "--env-options", "why", why]
    assert_refused(capsys, arguments, 1, words)


def test_an_environment_whose_own_module_is_missing_is_not_called_unknown(capsys):
    assert_refused(capsys, ["check-env", "Homeless-v0"], 1, "No module named 'no_such_house'.")


def test_an_extra_that_is_not_installed_is_named(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("clearning.envs.worker.PLUG_INS", ())
    code, _, err = run(capsys, "check-env", "FetchNothing-v4")
    assert code == 1
    assert "pip install clearning[robotics]" in err


def test_objects_are_refused_with_a_sentence():
    with pytest.raises(clearning.ClearningError, match="rewards are dense"):
        clearning.train(env=goal_worlds.Dense(), max_episode_steps=5)
    with pytest.raises(clearning.UsageError, match="set parallel_envs to 1"):
        clearning.train(env=goal_worlds.Point(), max_episode_steps=5, parallel_envs=2, quiet=True, **TINY)
    with pytest.raises(clearning.UsageError, match="option 'map' is a set"):
        clearning.train(env=POINT, env_options={"map": {1, 2}})
    with pytest.raises(clearning.UsageError, match="vector environment"):
        clearning.train(env=gymnasium.make_vec(POINT, num_envs=1))


# check-env --------------------------------------------------------------------------------------


def test_check_env_goes_by_single_pairs_where_batches_mix_them_up(monkeypatch):
    """As the training does: HandManipulatePen's check fails at a batch of one pair."""
    monkeypatch.setattr("clearning.envs.objections._rewards_turned_alike", lambda env, batched: None)
    report = check_env(Mixes(), max_episode_steps=12)
    assert report.objections == []
    assert report.findings["rewards"] == "-1, and 0 where the goal is reached"


def test_check_env_describes_a_good_environment(capsys):
    code, out, _ = run(capsys, "check-env", POINT, "--env-options", "reward_dummy", "1")
    assert code == 2
    code, out, _ = run(capsys, "check-env", POINT)
    assert code == 0
    for words in [
        "observation: 3 numbers",
        "goal: 2 numbers",
        "actions: continuous, 2 numbers in -1..3 and 0..2",
        "episode: 12 steps",
        "rewards: -1, and 0 where the goal is reached",
        "achieved goal: found in the observation, at 1, 2",
        "dead states: none reported",
        "steps per second",
        f"`clearning train --env {POINT}`",
    ]:
        assert words in out
    share = float(out.split("goals reached at reset: ")[1].split(" %")[0])
    assert share == pytest.approx(100 * np.pi * 0.3**2 / 1.8**2, abs=15)
    assert "Note" not in out


@pytest.mark.parametrize(
    ("name", "world", "words"),
    [
        ("Long", {}, "--action-repeat 6 makes it 50 steps of 6 each"),
        ("Point", {"forgetful": True}, "do not repeat an episode"),
        ("Point", {"claims": 0.5}, "compute_reward and the success in its info disagree"),
        ("Point", {"radius": 2.0}, "most goals are reached at reset"),
    ],
)
def test_check_env_warns(name, world, words):
    report = check_env(f"goal_worlds:{name}-v0", world)
    assert report.trainable
    assert [text for text in report.warnings if words in text], report.warnings


def test_check_env_sees_deaths_and_kinds_of_action():
    report = check_env(
        goal_worlds.Point(says_dead=True, discrete=True, reward=(0.0, 1.0)), max_episode_steps=9
    )
    assert report.findings["dead states"] == 'reported in info["dead"]'
    assert report.findings["actions"] == "discrete, 4 of them"
    assert report.findings["rewards"] == "0, and 1 where the goal is reached"
    ended = check_env(goal_worlds.Point(ends="edge", start=0.9), max_episode_steps=9)
    assert ended.findings["dead states"] == "every end without success counts as one"


class Late(goal_worlds.Point):
    """Goes wrong in an episode's tenth step, and a training's first look is shorter."""

    how = ""

    def step(self, action: Any) -> Any:
        observation, *rest = super().step(action)
        if self.steps == 10:
            self.fail(self.how, observation)
        return observation, *rest


@pytest.mark.parametrize(
    ("how", "words"),
    [("nan", "'achieved_goal' held NaN"), ("raise", "it raised RuntimeError: the motor is hot (")],
)
def test_check_env_finds_what_goes_wrong_later_in_an_episode(how, words):
    world = Late(radius=0.01)
    world.how = how
    ExternalEnv(world, max_episode_steps=12)
    report = check_env(world, max_episode_steps=12)
    assert not report.trainable
    assert words in report.objections[0]


def test_check_env_warns_of_goals_that_stay_and_of_bounds_that_do_not_hold(capsys):
    class Stuck(goal_worlds.Point):
        def step(self, action: Any) -> Any:
            return super().step(goal_worlds.CENTRE)

        def observe(self) -> Any:
            return super().observe() | {"achieved_goal": np.zeros(2, np.float32)}

    world = Stuck()
    world.observation_space["observation"] = spaces.Box(0, 0.5, (3,))  # its first number counts the steps
    report = check_env(world, max_episode_steps=12)
    assert report.findings["achieved goal"].startswith("not part of the observation as it is")
    assert "random actions never changed the achieved goal: hindsight finds no goals" in report.warnings
    assert "observations leave the bounds that their space states" in report.warnings
    code, out, _ = run(capsys, "check-env", "goal_worlds:Long-v0")
    assert code == 0
    assert "\nNote: an episode of 300 steps is much longer than" in out


def test_an_environment_that_does_not_open_in_a_worker_is_told_before_training():
    report = check_env("goal_worlds:Owned-v0", {"owner": os.getpid()})
    words = "it does not open in a process of its own: goal_worlds:Owned-v0: a worker could not open the "
    assert len(report.objections) == 1
    assert report.objections[0].startswith(words + "environment: OSError: the robot is another's (")


def test_an_environment_that_opens_only_once_is_told_before_training(capsys):
    opened = []

    def once() -> Any:
        if opened:
            raise OSError("the robot is in use")
        opened.append(goal_worlds.Point())
        return opened[0]

    gymnasium.register("Once-v0", entry_point=once, max_episode_steps=5)
    try:
        code, out, _ = run(capsys, "check-env", "Once-v0")
    finally:
        del gymnasium.registry["Once-v0"]
    assert code == 1
    assert "\nWill not work: Once-v0 could not be opened: OSError: the robot is in use (" in out
    assert ".." not in out.split("Will not work")[1]


def test_check_env_knows_fetch(capsys):
    pytest.importorskip("gymnasium_robotics")
    code, out, _ = run(capsys, "check-env", "FetchReach-v4")
    assert code == 0
    assert "observation: 10 numbers" in out
    assert "episode: 50 steps" in out
    assert "achieved goal: found in the observation, at 0, 1, 2" in out


# Trainings --------------------------------------------------------------------------------------

RUN = {**TINY, "env_steps": 400, "parallel_envs": 4, "processes": 2, "every_counts": "steps"}
RUN |= {"evaluate_every": 150, "checkpoint_every": 50, "env_timeout": 6.0}


@pytest.fixture(scope="module")
def flag(tmp_path_factory) -> Path:
    """A file that breaks the environment while it exists."""
    return tmp_path_factory.mktemp("flag") / "broken"


def run_on(flag: Path) -> dict[str, Any]:
    return {"env_options": {"discrete": True, "flag": str(flag)}, **RUN}


@pytest.fixture(scope="module")
def whole(tmp_path_factory, flag) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    clearning.train(env=POINT, seed=5, out=folder, quiet=True, **run_on(flag))
    assert_no_workers(str(flag))
    return folder


def test_the_run_record_names_no_preset(whole):
    record = json.loads((whole / "config.json").read_text())
    assert record["preset"] is None
    assert record["config"]["env"] == POINT
    assert record["config"]["features"] == "normalised"  # from the settings for Gymnasium environments
    agent = clearning.load(whole)
    assert agent.act([0.0, 0.0, 0.0], [0.5, 0.5]) in range(4)


def break_after(flag: Path, how: str, count: str, amount: int) -> clearning.Callbacks:
    def callback(agent: clearning.Agent, record: dict[str, Any]) -> None:
        if record[count] >= amount:
            flag.write_text(how)

    return clearning.Callbacks(after_episode=callback)


def test_whatever_breaks_a_run_is_saved_and_ends_with_the_same_bits(tmp_path, whole, flag):
    """NaN when collecting, a raise in the first evaluation, a killed and a hung worker, one after another."""
    folder = tmp_path / "run"
    breaks = [
        (
            "nan",
            "episodes",
            4,
            f"{POINT} showed NaN or infinity in its 'achieved_goal', at step 1 of an episode",
        ),
        (
            "raise",
            "env_steps",
            RUN["evaluate_every"],
            r"raised RuntimeError: the motor is hot \(.*\), at step 1",
        ),
        (
            "kill",
            "episodes",
            20,
            f"{POINT}: a process that stepped the environment ended by signal 9, at step",
        ),
        (
            "hang",
            "episodes",
            28,
            f"{POINT}: a process that stepped the environment did not answer for 6 s .*, at step",
        ),
    ]
    go_on = partial(clearning.train, env=POINT, seed=5, out=folder, **run_on(flag))
    for how, count, amount, words in breaks:
        try:
            with pytest.raises(clearning.ClearningError, match=words + ".*clearning resume"):
                go_on(callbacks=break_after(flag, how, count, amount), quiet=True)
        finally:
            flag.unlink(missing_ok=True)
        go_on = partial(clearning.resume, folder)
        counters = load_arrays(folder / "checkpoint.safetensors")[1]["counters"]
        assert counters[count] >= amount
        assert counters["owes_evaluation"] == (how == "raise")
        assert_no_workers(str(flag))
    go_on(quiet=True)
    assert_same_run(folder, whole)


def test_nan_in_mid_training_ends_the_command_with_one(capsys, monkeypatch, tmp_path, flag):
    def observe(learner: Any, episodes: Any) -> Any:
        flag.write_text("nan")
        return learner

    monkeypatch.setattr("clearning.training.observe", observe)
    folder = tmp_path / "run"
    try:
        code, _, err = run(capsys, "train", "--env", POINT, "--out", str(folder), *options(run_on(flag)))
    finally:
        flag.unlink(missing_ok=True)
    assert code == 1
    assert f"{POINT} showed NaN or infinity in its 'achieved_goal', at step 1 of an episode" in err
    assert f"saved; go on with `clearning resume {folder}`" in err
    assert (folder / "checkpoint.safetensors").is_file()


def test_a_check_that_raises_is_told(tmp_path, flag):
    start = clearning.Callbacks(after_episode=lambda agent, record: flag.write_text("reward") and None)
    world = goal_worlds.Point(flag=str(flag))
    try:
        with pytest.raises(clearning.ClearningError, match=r"no reward today.*saved; go on with"):
            clearning.train(
                env=world, max_episode_steps=12, callbacks=start, quiet=True, out=tmp_path / "run", **TINY
            )
    finally:
        flag.unlink(missing_ok=True)


def test_killed_and_resumed_a_run_ends_with_the_same_bits(capsys, tmp_path, whole, flag):
    folder = tmp_path / "run"
    typed = ["--seed", "5", "--out", str(folder), *options(run_on(flag))]
    command = [sys.executable, "-m", "clearning", "train", "--env", POINT, *typed]
    path = os.pathsep.join(p for p in sys.path if p)
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": path})
    while not (folder / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert_no_workers(str(flag))  # they notice that nobody asks any more
    killed = load_arrays(folder / "checkpoint.safetensors")[1]["counters"]
    code, _, _ = run(capsys, "resume", str(folder))
    assert code == 0
    # Shown should the rest fail: on a loaded machine, the kill comes some checkpoints late.
    print("resumed from", killed)
    assert_same_run(folder, whole)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"discrete": True, "extra": 2},
            f"observations of {POINT} are not what they were: 3 numbers then, 5",
        ),
        ({}, f"actions of {POINT} are not what they were: 4 choices then, 2 numbers now"),
    ],
)
def test_an_environment_whose_spaces_changed_is_refused(capsys, tmp_path, whole, change, words):
    import shutil

    folder = shutil.copytree(whole, tmp_path / "run")
    record = json.loads((folder / "config.json").read_text())
    record["config"]["env_options"] = change
    (folder / "config.json").write_text(json.dumps(record))
    before = (folder / "checkpoint.safetensors").read_bytes()
    for command in ("resume", "eval"):
        code, _, err = run(capsys, command, str(folder))
        assert code == 1
        assert words in err
    assert (folder / "checkpoint.safetensors").read_bytes() == before


def test_a_preset_on_another_environment_is_no_longer_that_preset(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    settings = {**TINY, "env_steps": 20, "parallel_envs": 1, "processes": 1}
    code, _, err = run(capsys, "train", "fetch-reach", "--env", POINT, *options(settings))
    assert code == 0, err
    folder = tmp_path / "runs" / "goal_worlds-Point-v0" / "seed-0"
    assert json.loads((folder / "config.json").read_text())["preset"] is None
    action = clearning.load(folder).act([0.0, 0.0, 0.0], [0.5, 0.5])
    assert (action >= goal_worlds.LOW).all()
    assert (action <= goal_worlds.HIGH).all()


def test_an_object_is_trained_on_one_episode_at_a_time(tmp_path):
    world = goal_worlds.Point(discrete=True)
    budget = {**TINY, "max_episode_steps": 6, "env_steps": 60}
    agent = clearning.train(env=world, out=tmp_path / "run", quiet=True, **budget)
    assert agent.config.parallel_envs == 1
    assert agent.config.env == "Point"
    assert agent.act([0.0, 0.0, 0.0], [0.5, 0.5]) in range(4)
    with pytest.raises(clearning.UsageError, match="your own environment"):
        clearning.resume(tmp_path / "run")
    clearning.resume(tmp_path / "run", env=world, quiet=True)


def test_our_own_environments_train_through_workers_too():
    budget = {**TINY, "max_episode_steps": 6, "env_steps": 40, "processes": 1, "parallel_envs": 1}
    agent = clearning.train(env="clearning/DubinsCar-v0", quiet=True, **budget)
    assert agent.config.features == "normalised"
    assert agent.act([7.0, 7.0, 1.0, 0.0], [9.0, 9.0]) in range(7)


def test_help_teaches_environments(capsys):
    for arguments, words in [
        (["train", "--help"], "clearning train --env FetchPickAndPlace-v4"),
        (["--help"], "clearning check-env"),
        (["check-env", "--help"], "my_package:Robot-v0"),
    ]:
        code, out, _ = run(capsys, *arguments)
        assert code == 0
        assert words in out
