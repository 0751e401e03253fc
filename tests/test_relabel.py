"""From the ring to batches: where goals come from, and what is said about them."""

from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import FALSE_ALARM, assert_frequencies, assert_share
from jax import Array
from scipy import stats

from clearning import buffer as ring
from clearning.batches import check_pairs, draw_pairs, make_batch
from clearning.config import Config
from clearning.core.horizons import cycled_horizon, episode_horizon
from clearning.core.relabel import GoalMix, GoalSources, draw_goal
from clearning.envs import FrozenLake
from clearning.types import Batch, EnvSpec, Episodes, GoalCheck, StepBound

# Each source of goals has a range of its own, so that a goal tells where it came from: states are
# 100·episode + step, an episode's own goal is −1 − episode, random goals are 10⁴ and more, nearby ones 10⁶.
RANDOM, NEARBY = 10_000, 1_000_000
ONLY = {"goal_future": 0.0, "goal_episode": 0.0, "goal_random": 0.0, "goal_nearby": 0.0}
LENGTHS = [1, 4, 2, 6]
DEAD = [True, False, True, False]
SIZE = 20_000


@dataclass(frozen=True)
class Line:
    """What a batch asks of an environment on a line; goals are drawn from 0 to `spread` above RANDOM."""

    random_from: float = RANDOM
    spread: int = 50
    nearby_from: float = NEARBY
    slack: float = 0.0

    @property
    def spec(self) -> EnvSpec:
        check = GoalCheck((0,), "linf", 0.5)
        bound = StepBound("l1", per_step=2.0, slack=self.slack)
        return EnvSpec("line", (0.0, 0.0), (1e6, 1e6), (0.0,), (1e6,), ("only",), 6, check, bound)

    def sample_goal(self, key: Array) -> Array:
        return self.random_from + jax.random.randint(key, (1,), 0, self.spread).astype(jnp.float32)

    def sample_goal_within(self, key: Array, achieved: Array, distance: Array) -> Array:
        return self.nearby_from + achieved + distance  # as far as allowed: what was allowed can be read off

    def reached(self, achieved: Array, goal: Array) -> Array:
        return self.spec.goal_check.reached(achieved, goal)


@cache
def line_buffer() -> ring.Buffer:
    """Episodes of LENGTHS; the state observed at step t of episode e is [e, t], achieved 100·e + t."""
    e, t = np.meshgrid(np.arange(len(LENGTHS)), np.arange(7), indexing="ij")
    padding = t > np.array(LENGTHS)[:, None]
    return ring.add(
        ring.init(Line().spec, 40),
        Episodes(
            observation=jnp.asarray(np.where(padding[..., None], -777, np.stack([e, t], -1)), jnp.float32),
            achieved=jnp.asarray(np.where(padding, -777, 100 * e + t)[..., None], jnp.float32),
            action=jnp.asarray((10 * e + t)[:, :-1], jnp.int32),
            goal=jnp.asarray(-1.0 - np.arange(len(LENGTHS))[:, None], jnp.float32),
            length=jnp.asarray(LENGTHS),
            dead=jnp.asarray(DEAD),
            success=jnp.zeros(len(LENGTHS), bool),
        ),
    )


def batched(env):
    return jnp.vectorize(env.reached, signature="(g),(g)->()")


def as_numpy(tree):
    return jax.tree.map(np.asarray, tree)


@cache
def compiled(env, settings: tuple):
    config = Config(batch_size=SIZE, **dict(settings))

    def sample_batch(key: Array, buffer: ring.Buffer, progress: Array) -> Batch:
        pairs = draw_pairs(key, buffer, env, config, progress)
        return make_batch(buffer, env, config, pairs, check_pairs(batched(env), pairs))

    # A batch is drawn once or twice: compiling quickly matters more than running quickly.
    return jax.jit(sample_batch, compiler_options={"xla_backend_optimization_level": 0})


def draw(env, buffer: ring.Buffer, progress: float = 0.0, max_horizon: int = 5, **settings) -> Batch:
    """A big batch, as numpy arrays."""
    chosen = (*sorted(settings.items()), ("max_horizon", max_horizon))
    batch = compiled(env, chosen)(jax.random.key(0), buffer, jnp.float32(progress))
    return as_numpy(batch)


def only(source: str) -> dict[str, float]:
    return ONLY | {f"goal_{source}": 1.0}


@cache
def line_batch(source: str) -> Batch:
    return draw(Line(), line_buffer(), **only(source))


def test_batch_carries_whole_transitions():
    batch = line_batch("future")
    e, t = batch.observation.astype(int).T
    np.testing.assert_array_equal(batch.next_observation, np.stack([e, t + 1], -1))
    np.testing.assert_array_equal(batch.action, 10 * e + t)
    assert (t < np.array(LENGTHS)[e]).all()
    expected = [(n, step) for n, length in enumerate(LENGTHS) for step in range(length)]
    assert sorted({*zip(e.tolist(), t.tolist(), strict=True)}) == expected


def test_dead_only_after_the_last_step_of_a_deadly_episode():
    batch = line_batch("future")
    e, t = batch.observation.astype(int).T
    expected = np.array(DEAD)[e] & (t == np.array(LENGTHS)[e] - 1)
    np.testing.assert_array_equal(batch.dead, expected)
    assert expected.any()
    assert not expected.all()
    looked_beyond = draw(Line(), line_buffer(), **only("future"), dead_ends=False)
    assert not looked_beyond.dead.any()


def test_future_goals_come_from_later_in_the_same_episode():
    """Strictly later than s, the last state included, each of them as often as the others."""
    batch = line_batch("future")
    e, t = batch.observation.astype(int).T
    goal_episode, goal_step = np.divmod(batch.goal[:, 0].astype(int), 100)
    np.testing.assert_array_equal(goal_episode, e)
    assert (goal_step > t).all()
    assert (goal_step <= np.array(LENGTHS)[e]).all()
    for n, length in enumerate(LENGTHS):
        for step in range(length - 1):  # at the last step there is one goal only
            here = (e == n) & (t == step)
            seen = np.bincount(goal_step[here], minlength=length + 1)
            assert_frequencies(seen, np.arange(length + 1) > step)
    assert not batch.reached_before.any()
    np.testing.assert_array_equal(batch.reached, goal_step == t + 1)


def test_episode_goals_are_the_episodes_own():
    batch = line_batch("episode")
    np.testing.assert_array_equal(batch.goal[:, 0], -1 - batch.observation[:, 0])
    assert not batch.reached.any()


def test_random_goals_are_drawn_as_the_environment_draws_them():
    goal = line_batch("random").goal[:, 0].astype(int)
    assert_frequencies(np.bincount(goal - RANDOM, minlength=50), np.ones(50))


def test_nearby_goals_may_be_as_far_as_the_horizon_allows():
    """The environment is asked for goals within per_step·h of the state itself."""
    batch = line_batch("nearby")
    e, t = batch.observation.astype(int).T
    np.testing.assert_array_equal(batch.goal[:, 0] - NEARBY, 100 * e + t + 2 * batch.horizon)


@pytest.mark.parametrize("nearness", [0.0, 1.5])
def test_nearby_goals_are_nearer_the_more_nearness_is_asked_for(nearness):
    horizon = draw(Line(), line_buffer(), goal_nearness=nearness, **only("nearby")).horizon
    assert_frequencies(np.bincount(horizon.astype(int), minlength=6)[1:], np.arange(1, 6) ** -nearness)


def test_sources_mixed_with_their_probabilities():
    """Each count is binomial; the false-alarm rate of each is 1e-6."""
    shares = {"goal_future": 0.45, "goal_episode": 0.15, "goal_random": 0.3, "goal_nearby": 0.1}
    goal = draw(Line(), line_buffer(), **shares).goal[:, 0]
    assert_share((goal < 0).sum(), SIZE, 0.15)
    assert_share(((goal >= 0) & (goal < RANDOM)).sum(), SIZE, 0.45)
    assert_share(((goal >= RANDOM) & (goal < NEARBY)).sum(), SIZE, 0.3)
    assert_share((goal >= NEARBY).sum(), SIZE, 0.1)


@pytest.mark.parametrize(
    ("choice", "weight"),
    [("transition", LENGTHS), ("episode", [1, 1, 1, 1]), ("recent", [1, 3, 5, 7])],
)
def test_transitions_are_chosen_as_the_config_says(choice, weight):
    batch = draw(Line(), line_buffer(), choose=choice, **only("episode"))
    seen = np.bincount(batch.observation[:, 0].astype(int), minlength=4)
    assert_frequencies(seen, np.array(weight) / sum(weight))


def test_reached_flags():
    """Goals are 100..104, the states of episode 1."""
    batch = draw(Line(random_from=100.0, spread=5), line_buffer(), goal_tries=1, **only("random"))
    e, t = batch.observation.astype(int).T
    before, after, goal = 100 * e + t, 100 * e + t + 1, batch.goal[:, 0]
    np.testing.assert_array_equal(batch.reached_before, before == goal)
    np.testing.assert_array_equal(batch.reached, after == goal)
    assert batch.reached_before.any()
    assert batch.reached.any()
    np.testing.assert_array_equal(batch.min_steps, np.zeros(SIZE))  # nobody asked to rule goals out


@pytest.mark.parametrize("tries", [1, 3])
def test_tries_make_reached_pairs_rarer(tries):
    """With two goals, one of them reached at s: all tries must fail for a reached pair, 2^−tries."""
    buffer = ring.add(
        ring.init(Line().spec, 8),
        Episodes(
            observation=jnp.zeros((1, 2, 2)),
            achieved=jnp.array([[[100.0], [200.0]]]),
            action=jnp.zeros((1, 1), jnp.int32),
            goal=jnp.zeros((1, 1)),
            length=jnp.array([1]),
            dead=jnp.array([False]),
            success=jnp.array([False]),
        ),
    )
    batch = draw(Line(random_from=100.0, spread=2), buffer, goal_tries=tries, **only("random"))
    assert_share(batch.reached_before.sum(), SIZE, 0.5**tries)


@pytest.mark.parametrize("tries", [1, 4])
def test_naive_q_counts_down_the_horizon_of_the_transitions_own_episode(tries):
    naive = {"method": "naive-q", "form": "sampled-horizon", "pair_tries": tries}
    batch = draw(Line(random_from=100.0, spread=5), line_buffer(), **naive, **only("random"))
    e, t = batch.observation.astype(int).T
    given = np.array([episode_horizon(jnp.int32(n), 5) for n in range(len(LENGTHS))])
    np.testing.assert_array_equal(batch.horizon, cycled_horizon(given[e], t, 5))
    assert ((given[e] <= t) & (batch.horizon > 1)).any()  # some had run out and started again


@pytest.mark.parametrize("tries", [1, 4])
def test_pairs_are_checked_alike_inside_jax_and_outside(tries):
    env = Line(random_from=100.0, spread=5)
    config = Config(batch_size=500, max_horizon=5, pair_tries=tries, **only("random"))
    draw = jax.jit(lambda key, buffer: draw_pairs(key, buffer, env, config, jnp.float32(0.0)))
    pairs = draw(jax.random.key(0), line_buffer())
    inside = check_pairs(batched(env), pairs)
    outside = check_pairs(lambda achieved, goal: np.abs(achieved - goal)[..., 0] <= 0.5, as_numpy(pairs))
    for one, other in zip(inside, outside, strict=True):
        assert isinstance(other, np.ndarray)
        np.testing.assert_array_equal(one, other)
    assert 0 < inside.after.mean() < 1


def test_pairs_with_no_other_goal_stay_reached():
    batch = draw(Line(random_from=100.0, spread=1), line_buffer(), goal_tries=4, **only("random"))
    np.testing.assert_array_equal(batch.goal, 100.0)
    np.testing.assert_array_equal(batch.reached_before, (batch.observation == [1, 0]).all(1))
    assert batch.reached_before.any()


def test_min_steps_from_the_next_state_where_asked_for():
    """Two units a step, and one unit short of the goal is as good as there."""
    batch = draw(Line(100.0, 5, slack=1.0), line_buffer(), rule_out=True, **only("random"))
    e, t = batch.observation.astype(int).T
    distance = np.abs(100 * e + t + 1 - batch.goal[:, 0])
    np.testing.assert_array_equal(batch.min_steps, np.maximum(np.ceil((distance - 1) / 2), 0))
    assert {0.0, 1.0, 2.0} <= {*batch.min_steps.tolist()}
    assert batch.min_steps[batch.reached].max() == 0


@pytest.mark.parametrize(
    ("form", "progress", "exponent"),
    [
        ("sampled-horizon", 0.0, 2.0),
        ("sampled-horizon", 0.5, 1.0),
        ("sampled-horizon", 1.0, 0.0),
        ("all-horizons", 0.0, 0.0),  # there a horizon is drawn only to choose a goal
    ],
)
def test_horizons_drawn_for_the_batch(form, progress, exponent):
    batch = draw(Line(), line_buffer(), progress=progress, form=form, kappa=2.0, **only("episode"))
    seen = np.bincount(batch.horizon, minlength=6)[1:]
    assert_frequencies(seen, np.arange(1, 6) ** -exponent / (np.arange(1, 6) ** -exponent).sum())


# The scheme for stochastic worlds on the lake itself: one state, two outcomes, each with its own episode.


@cache
def lake_batch() -> Batch:
    states = jnp.array([[[3.0, 1.0], [3.0, 2.0]], [[3.0, 1.0], [2.0, 1.0]]])
    buffer = ring.add(
        ring.init(FrozenLake().spec, 8),
        Episodes(
            observation=states,
            achieved=states,
            action=jnp.zeros((2, 1), jnp.int32),
            goal=jnp.array([[3.0, 2.0], [0.0, 6.0]]),
            length=jnp.array([1, 1]),
            dead=jnp.array([False, False]),
            success=jnp.array([True, False]),
        ),
    )
    return draw(FrozenLake(), buffer, max_horizon=3, rule_out=True, **only("nearby"))


def test_nearby_goals_lie_within_the_horizon_and_are_uniform():
    batch = lake_batch()
    cells = FrozenLake().cells
    number = {tuple(cell): i for i, cell in enumerate(cells.tolist())}
    distance = np.abs(cells - [3, 1]).sum(1)
    goal = np.array([number[tuple(g)] for g in batch.goal.astype(int).tolist()])
    for h in (1, 2, 3):
        seen = np.bincount(goal[batch.horizon == h], minlength=len(cells))
        assert_frequencies(seen, (distance <= h) & (distance > 0))


def test_nearby_goals_do_not_depend_on_the_outcome():
    """Given s and h, the goal is independent of s': that is what hindsight lacks in a stochastic world."""
    batch = lake_batch()
    went_up = batch.next_observation[:, 1] == 2
    assert_share(went_up.sum(), SIZE, 0.5)
    goal = (batch.goal[:, 0] * 7 + batch.goal[:, 1]).astype(int)
    for h in (1, 2, 3):
        here = batch.horizon == h
        table = np.stack([np.bincount(goal[here & side], minlength=35) for side in (went_up, ~went_up)])
        assert stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue > FALSE_ALARM


def test_lake_min_steps_is_the_l1_distance():
    batch = lake_batch()
    distance = np.abs(batch.next_observation - batch.goal).sum(1)
    np.testing.assert_array_equal(batch.min_steps, distance)
    assert distance.max() == 4


def never(key):
    raise AssertionError("a source that is not in the mix was asked")


def test_only_sources_in_the_mix_are_asked():
    """Sources that give their own number."""
    numbers = [lambda key, n=n: jnp.float32(n) for n in range(4)]
    for at in range(4):
        alone = GoalSources(*(numbers[n] if n == at else never for n in range(4)))
        assert draw_goal(jax.random.key(0), GoalMix(*np.eye(4)[at]), alone) == at
    keys = jax.random.split(jax.random.key(1), 4000)
    for mix in (GoalMix(0.5, 0.0, 0.3, 0.2), GoalMix(0.0, 0.6, 0.4, 0.0)):
        some = GoalSources(*(number if p else never for number, p in zip(numbers, mix, strict=True)))
        drawn = np.asarray(jax.jit(jax.vmap(lambda k, m=mix, s=some: draw_goal(k, m, s)))(keys), int)
        assert_frequencies(np.bincount(drawn, minlength=4), np.array(mix))


def test_a_key_of_its_own_varies_the_goal_and_not_the_source():
    shown = GoalSources(*(lambda key, n=n: n + jax.random.uniform(key) for n in range(4)))
    mix, key = GoalMix(0.25, 0.25, 0.25, 0.25), jax.random.key(5)
    goals = [float(draw_goal(key, mix, shown, jax.random.key(i))) for i in range(5)]
    assert len(set(goals)) == 5
    assert {int(goal) for goal in goals} == {int(draw_goal(key, mix, shown))}
