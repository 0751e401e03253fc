"""How episodes get their goals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from clearning import buffer as ring
from clearning.envs import FrozenLake
from clearning.rollout import collect, frontier_goals, rare_goal, training_starts
from clearning.types import Episodes

LAKE = FrozenLake()
KEYS = jax.random.split(jax.random.key(1), 64)


def lake_buffer(steps: int = 5) -> ring.Buffer:
    """One walk along the bottom row: (0, 0) to (4, 0), and on against the wall."""
    along = np.minimum(np.arange(steps + 1), 4)
    state = jnp.asarray(np.stack([along, np.zeros(steps + 1)], -1)[None], jnp.float32)
    walk = Episodes(
        observation=state,
        achieved=state,
        action=jnp.ones((1, steps), jnp.int32),
        goal=jnp.zeros((1, 2)),
        length=jnp.array([steps]),
        dead=jnp.array([False]),
        success=jnp.array([False]),
    )
    return ring.add(ring.init(LAKE.spec, 100), walk)


def test_of_many_candidates_an_episode_goes_after_one_never_reached():
    """The walk's first cell counts too: no transition led there."""
    goals = np.asarray(jax.jit(jax.vmap(rare_goal(LAKE, lake_buffer(), 20)))(KEYS))
    assert not ((goals[:, 0] > 0) & (goals[:, 1] == 0)).any()
    assert len(np.unique(goals, axis=0)) > 10


def test_the_least_reached_is_taken_where_all_were_reached():
    class BottomRow(FrozenLake):
        def sample_goal(self, key):
            return jnp.stack([jax.random.randint(key, (), 1, 5).astype(jnp.float32), jnp.float32(0)])

    buffer = lake_buffer(steps=9)  # (4, 0) six times, the others once
    goals = np.asarray(jax.jit(jax.vmap(rare_goal(BottomRow(), buffer, 20)))(KEYS))
    assert goals[:, 0].max() == 3


def test_one_candidate_is_the_environments_own_draw():
    draw = rare_goal(LAKE, lake_buffer(), 1)
    np.testing.assert_array_equal(jax.vmap(draw)(KEYS), jax.vmap(LAKE.sample_goal)(KEYS))


def test_starts_and_new_goals_are_drawn_as_asked():
    corner = lambda key: jnp.array([4.0, 6.0])  # noqa: E731
    state, goal = training_starts(LAKE, jax.random.key(0), 8, corner)
    assert (np.asarray(goal) == [4, 6]).all()
    # After the corner the policy walks right, after anything else left.
    sure = FrozenLake(slip=0.0, max_episode_steps=6)
    sent = lambda key: jnp.array([3.0, 6.0])  # noqa: E731
    policy = lambda key, observation, goal, step: jnp.where(goal[0] == 4.0, 1, 3)  # noqa: E731
    state = jnp.array([[2.0, 6.0], [0.0, 0.0]])
    walks = collect(sure, policy, jax.random.key(0), state, jnp.array([[4.0, 6.0]] * 2), 6, sent)
    np.testing.assert_array_equal(walks.observation[0, :, 0], [2, 3, 4, 3, 2, 1, 0])
    np.testing.assert_array_equal(walks.success, [True, False])
    np.testing.assert_array_equal(walks.length, [6, 6])


class SureToTheLeft(eqx.Module):
    """Two actions, two horizons; at the last, C falls with the goal's column and is a half at 2.2."""

    def curve(self, observation, goal):
        last = 3.0 * (2.2 - goal[0])
        return jnp.array([[-9.0, last], [-9.0, last - 1.0]])


def on_the_lake(achieved, goal):
    return np.asarray(jnp.vectorize(LAKE.reached, signature="(g),(g)->()")(achieved, goal))


def test_an_episode_at_the_frontier_goes_after_what_is_neither_sure_nor_hopeless():
    start = jnp.array([[0.0, 0.0], [2.0, 0.0]])
    own = jnp.array([[7.0, 7.0], [7.0, 7.0]])
    goals = frontier_goals(on_the_lake, 1.0)(SureToTheLeft(), lake_buffer(), KEYS[0], start, start, own)
    assert goals.tolist() == [[2.0, 0.0], [3.0, 0.0]]  # a goal that is reached already is none
    kept = frontier_goals(on_the_lake, 0.0)(SureToTheLeft(), lake_buffer(), KEYS[0], start, start, own)
    assert kept.tolist() == own.tolist()
    starts = jnp.tile(start[:1], (64, 1))
    mixed = frontier_goals(on_the_lake, 0.5)(
        SureToTheLeft(), lake_buffer(), KEYS[1], starts, starts, own[:1] + 0 * starts
    )
    assert 16 < (mixed[:, 0] == 2.0).sum() < 48
