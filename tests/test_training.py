"""The loop end to end: learning on worlds whose answers are known, callbacks, files, refusals."""

import csv
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import clearning
from clearning import Callbacks, ClearningError, Config, EnvSpec, GoalCheck, UsageError
from clearning.engine import action_penalty, exploration, learning_rate
from clearning.evaluate import over_seeds
from clearning.runs import METRICS, RunFolder

SMALL = {
    "hidden": (32,),
    "updates_per_episode": 10,
    "random_episodes": 10,
    "batch_size": 64,
    "max_horizon": 6,
    "final_share": 0.0,
}


@dataclass(frozen=True)
class Bridge:
    """From 0 to 3: action 0 jumps and dies half of the time, action 1 walks there in three sure steps."""

    carries_check: bool = True

    @property
    def spec(self) -> EnvSpec:
        check = GoalCheck((0,), "linf", 0.5) if self.carries_check else None
        return EnvSpec("bridge", (0.0,), (4.0,), (0.0,), (4.0,), ("jump", "walk"), 6, check)

    def initial_state(self, key):
        return jnp.zeros(1)

    def sample_goal(self, key):
        return jnp.array([3.0])

    def step(self, key, state, action):
        jumped = jnp.where(jax.random.uniform(key) < 0.5, 3.0, 4.0)  # 4 is the river
        alive = jnp.where(
            action == 0, jnp.where(state[0] == 0.0, jumped, state[0]), jnp.minimum(state[0] + 1, 3.0)
        )
        return jnp.where(state[0] == 4.0, 4.0, alive)[None]

    def observe(self, state):
        return state

    def achieved_goal(self, state):
        return state

    def is_dead(self, state):
        return state[0] == 4.0

    def reached(self, achieved, goal):
        return jnp.abs(achieved[0] - goal[0]) <= 0.5


BRIDGE = {
    **SMALL,
    "episodes": 400,
    "epsilon": 1.0,
    "features": "one-hot",
    "goal_future": 0.0,
    "goal_episode": 0.0,
    "goal_random": 1.0,
    "target_rate": 0.1,
    "evaluate_every": 400,
}


NEARBY_ONLY = {"goal_future": 0.0, "goal_episode": 0.0, "goal_random": 0.0, "goal_nearby": 1.0}


@pytest.mark.parametrize("form", ["all-horizons", "sampled-horizon"])
def test_risky_and_short_or_safe_and_long(form):
    """The best action flips with the horizon, and C is the probability of each."""
    agent = clearning.train(env=Bridge(), form=form, kappa=0.0, quiet=True, **BRIDGE)
    curve = agent.reach_curve([0.0], [3.0])
    np.testing.assert_allclose(curve, [0.5, 0.5, 1.0, 1.0, 1.0, 1.0], atol=0.12)
    assert agent.act([0.0], [3.0], horizon=2) == 0
    assert agent.act([0.0], [3.0], horizon=3) == 1
    assert agent.act([0.0], [3.0], alpha=0.4) == 0
    assert agent.act([0.0], [3.0], alpha=0.9) == 1
    assert agent.reach_probability([3.0], [3.0], 1) == 1.0


def test_without_a_goal_check_reached_pairs_are_learned():
    agent = clearning.train(env=Bridge(carries_check=False), quiet=True, **(BRIDGE | {"goal_tries": 1}))
    assert agent.spec.goal_check is None
    assert agent.reach_probability([0.0], [3.0], 6) > 0.85


def test_callbacks_see_the_agent_and_the_counts(tmp_path):
    seen: dict[str, list[int]] = {"episode": [], "evaluation": [], "checkpoint": []}

    def note(what):
        def callback(agent, record):
            assert agent.act([1, 0], [1, 6]) in range(4)
            seen[what].append(record["episodes"])

        return callback

    callbacks = Callbacks(note("episode"), note("evaluation"), note("checkpoint"))
    settings = SMALL | {"episodes": 20, "evaluate_every": 10, "checkpoint_every": 8}
    clearning.train("frozen-lake", out=tmp_path / "r", callbacks=callbacks, quiet=True, **settings)
    assert seen == {"episode": list(range(1, 21)), "evaluation": [10, 20], "checkpoint": [8, 16, 20]}


def test_metrics_are_what_the_table_says(tmp_path):
    settings = SMALL | {"episodes": 30, "evaluate_every": 10}
    clearning.train("frozen-lake", out=tmp_path / "r", quiet=True, **settings)
    with open(tmp_path / "r" / "metrics.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(METRICS)
    assert [int(r["episodes"]) for r in rows] == [10, 20, 30]
    assert [int(r["updates"]) for r in rows] == [10, 110, 210]
    steps = [int(r["env_steps"]) for r in rows]
    assert steps == sorted(steps)
    assert float(rows[-1]["learning_rate"]) == pytest.approx(0.0, abs=1e-9)
    columns = RunFolder(tmp_path / "r").metrics()
    assert columns["eval_success"][-1] == pytest.approx(float(rows[-1]["eval_success"]))


def test_several_environments_at_once_count_every_episode(tmp_path):
    settings = SMALL | {"episodes": 24, "parallel_envs": 8, "evaluate_every": 8, "random_episodes": 8}
    clearning.train("dubins-car", out=tmp_path / "r", quiet=True, **settings)
    columns = RunFolder(tmp_path / "r").metrics()
    np.testing.assert_array_equal(columns["episodes"], [8, 16, 24])
    np.testing.assert_array_equal(columns["updates"], [80, 160, 240])


def test_a_budget_of_environment_steps_ends_the_training(tmp_path):
    settings = SMALL | {"episodes": 1000, "env_steps": 400}
    clearning.train("frozen-lake", out=tmp_path / "r", quiet=True, **settings)
    steps = RunFolder(tmp_path / "r").metrics()["env_steps"][-1]
    assert 400 <= steps < 450


def test_a_new_goal_at_success_fills_the_episode(tmp_path):
    settings = SMALL | {"episodes": 12, "evaluate_every": 12}
    clearning.train("mini-maze", out=tmp_path / "r", new_goal_at_success=True, quiet=True, **settings)
    assert RunFolder(tmp_path / "r").metrics()["env_steps"][-1] == 12 * 200


def test_divergence_stops_with_the_update_named():
    with pytest.raises(ClearningError, match=r"no longer finite at update \d+"):
        clearning.train("frozen-lake", learning_rate=1e38, episodes=40, quiet=True, **SMALL)


def test_tensorboard_files_hold_the_metrics(tmp_path):
    event_file_loader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_file_loader",
        reason="the extra `tensorboard` is not installed",
    )
    settings = SMALL | {"episodes": 20, "evaluate_every": 10}
    clearning.train("frozen-lake", out=tmp_path / "r", tensorboard=True, quiet=True, **settings)
    (path,) = (tmp_path / "r" / "tensorboard").iterdir()
    events = [e for e in event_file_loader.LegacyEventFileLoader(str(path)).Load() if e.HasField("summary")]
    found = {(v.tag, e.step) for e in events for v in e.summary.value}
    columns = RunFolder(tmp_path / "r").metrics()
    assert {("eval_success", int(s)) for s in columns["env_steps"]} <= found


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: clearning.train(env=object()), "object is not a goal environment: it has no 'spec'"),
        (lambda p: clearning.train("frozen-lak"), "Did you mean 'frozen-lake'?"),
        (lambda p: clearning.train("frozen-lake", episods=3), "Did you mean 'episodes'?"),
        (lambda p: clearning.train("frozen-lake", buffer_capacity=10), "buffer_capacity 10 is too small"),
        (lambda p: clearning.train("frozen-lake", max_episode_steps=9), "max_episode_steps is for Gymnasium"),
        (lambda p: clearning.train("frozen-lake", action_repeat=2), "action_repeat is for Gymnasium"),
        (lambda p: clearning.train("td3/dubins-car"), "td3 is for continuous actions"),
        (lambda p: clearning.train("her/cat-and-mouse"), "her is for numbered actions"),
        (lambda p: clearning.train("gcsl/frozen-lake", frontier=0.5), "frontier needs the probabilities"),
        (
            lambda p: clearning.train(env=Bridge(), **NEARBY_ONLY),
            "goal_nearby needs an environment with a step bound",
        ),
        (lambda p: clearning.train("frozen-lake", tensorboard=True), "need a run folder"),
        (lambda p: clearning.load(p), "is not a run folder"),
        (lambda p: Config(epsilon=2.0), "epsilon must lie in 0..1"),
        (lambda p: Config(hidden=(0,)), "hidden widths must lie in 1"),
        (lambda p: Config(spread_in_targets=1), "spread_in_targets must be at most spread_actions 0, not 1"),
    ],
)
def test_bad_settings_get_a_clear_sentence(tmp_path, call, words):
    with pytest.raises(UsageError) as caught:
        call(tmp_path)
    assert words in str(caught.value)


def test_a_run_on_your_own_environment_resumes_with_it(tmp_path):
    settings = BRIDGE | {"episodes": 12}
    clearning.train(env=Bridge(), out=tmp_path / "r", quiet=True, **settings)
    with pytest.raises(UsageError, match="your own environment"):
        clearning.resume(tmp_path / "r", quiet=True)
    clearning.resume(tmp_path / "r", env=Bridge(), quiet=True)
    assert clearning.load(tmp_path / "r").act([0.0], [3.0]) in (0, 1)


def test_schedules():
    cosine = Config(learning_rate=1.0, learning_rate_decay="cosine")
    np.testing.assert_allclose(
        [learning_rate(cosine, p) for p in (0.0, 0.5, 1.0)], [1.0, 0.5, 0.0], atol=1e-6
    )
    step = Config(learning_rate=1.0, learning_rate_decay="step", decay_at=0.5)
    np.testing.assert_allclose([learning_rate(step, p) for p in (0.0, 0.49, 0.5)], [1.0, 1.0, 0.1], atol=1e-6)


def test_the_price_of_an_action_falls_evenly_where_it_is_told_to():
    same, falling = (Config(action_penalty=0.2, action_penalty_decay=d) for d in (0.0, 0.9))
    assert [action_penalty(same, p) for p in (0.0, 1.0)] == pytest.approx([0.2, 0.2])
    assert [action_penalty(falling, p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.2, 0.11, 0.02])
    fast = Config(action_penalty=0.2, action_penalty_decay=2.0)
    assert [action_penalty(fast, p) for p in (0.25, 0.5, 1.0)] == pytest.approx([0.1, 0.002, 0.002])
    late = Config(
        action_penalty=0.2, action_penalty_decay=2.0, action_penalty_from=0.5, action_penalty_least=0.1
    )
    found = [float(action_penalty(late, p)) for p in (0.0, 0.5, 0.625, 0.75, 1.0)]
    assert found == pytest.approx([0.2, 0.2, 0.1, 0.02, 0.02])


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("action_penalty_decay", -0.5, "action_penalty_decay must not be negative"),
        ("action_penalty_from", 1.0, "action_penalty_from must lie in \\[0, 1\\), not 1.0"),
        ("action_penalty_least", 1.5, "action_penalty_least must lie in 0..1, not 1.5"),
    ],
)
def test_a_price_that_cannot_fall_so_is_refused(setting, value, sentence):
    with pytest.raises(UsageError, match=sentence):
        Config(**{setting: value})


def test_random_actions_become_fewer():
    decaying = Config(epsilon=0.5, epsilon_decay=1000.0, random_episodes=15)
    found = [exploration(decaying, n) for n in (0, 14, 15, 1015, 3015)]
    np.testing.assert_allclose(found, [1.0, 1.0, 0.5, 0.25, 0.125])
    assert exploration(Config(epsilon=0.1), 500) == 0.1


def test_seeds_are_summed_up_with_every_value_kept():
    spread = over_seeds([1.0, 2.0, 3.0, 4.0])
    assert spread["mean"] == 2.5
    assert spread["std"] == pytest.approx(np.sqrt(1.25))
    assert spread["values"] == [1.0, 2.0, 3.0, 4.0]
    assert 1.0 < spread["interval"][0] < 2.5 < spread["interval"][1] < 4.0
    assert over_seeds([2.0, 2.0])["interval"] == [2.0, 2.0]


def test_the_final_share_updates_after_the_last_episode_only(tmp_path):
    settings = SMALL | {"episodes": 12, "evaluate_every": 6}
    clearning.train("frozen-lake", out=tmp_path / "r", quiet=True, **settings | {"final_share": 0.25})
    np.testing.assert_array_equal(RunFolder(tmp_path / "r").metrics()["updates"], [0, 30 + 30])
