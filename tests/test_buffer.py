"""The ring of episodes: every field encodes which transition it belongs to, so any mix-up shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_frequencies
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from clearning import buffer as ring
from clearning.types import EnvSpec, Episodes

SPEC = EnvSpec("ids", (0.0, 0.0), (1e6, 1e6), (0.0,), (1e6,), ("only",), 6)
STEPS = 6  # every batch of episodes is padded to this
PLACES = 24
ENTRIES = PLACES // 4
PADDING = -777
CHOICES = ["transition", "episode", "recent"]
DRAWS = 16_384  # one size for all tests, so that each choice is compiled once

add = jax.jit(ring.add)
sample = jax.jit(ring.sample, static_argnums=(2, 3))


def episodes(first: int, lengths: list[int]) -> Episodes:
    """Episodes numbered from `first`: state t of episode e is [e, t], its action 10·e + t, e's goal e."""
    number = first + np.arange(len(lengths))
    e, t = np.meshgrid(number, np.arange(STEPS + 1), indexing="ij")
    is_state = t <= np.array(lengths)[:, None]
    is_transition = (t < np.array(lengths)[:, None])[:, :-1]
    observation = np.where(is_state[..., None], np.stack([e, t], -1), PADDING)
    return Episodes(
        observation=jnp.asarray(observation, jnp.float32),
        achieved=jnp.asarray(np.where(is_state, 10 * e + t, PADDING)[..., None], jnp.float32),
        action=jnp.asarray(np.where(is_transition, (10 * e + t)[:, :-1], PADDING), jnp.int32),
        goal=jnp.asarray(number[:, None], jnp.float32),
        length=jnp.asarray(lengths, jnp.int32),
        dead=jnp.asarray(number % 3 == 0),
        success=jnp.zeros(len(lengths), bool),
    )


def fill(buffer: ring.Buffer, batches: list[list[int]]) -> tuple[ring.Buffer, list[int]]:
    """Add batches of episodes of these lengths; also the lengths of all episodes, by number."""
    lengths: list[int] = []
    for batch in batches:
        buffer = add(buffer, episodes(len(lengths), batch))
        lengths += batch
    return buffer, lengths


def drawn_transitions(key: int, buffer: ring.Buffer, lengths: list[int], choice: str) -> np.ndarray:
    """(episode, step) of each drawn transition, after checking that all of its parts belong together."""
    drawn = sample(jax.random.key(key), buffer, DRAWS, choice)
    assert drawn.remaining.min() >= 1
    e, t = np.asarray(buffer.observation[drawn.place], int).T
    after = ring.later(buffer, drawn.place, jnp.int32(1))
    assert e.min() >= 0
    np.testing.assert_array_equal(buffer.observation[after], np.stack([e, t + 1], -1))
    np.testing.assert_array_equal(buffer.achieved[drawn.place, 0], 10 * e + t)
    np.testing.assert_array_equal(buffer.achieved[after, 0], 10 * e + t + 1)
    np.testing.assert_array_equal(buffer.action[drawn.place], 10 * e + t)
    np.testing.assert_array_equal(buffer.episode_goal[drawn.episode, 0], e)
    length = np.array(lengths)[e]
    np.testing.assert_array_equal(buffer.episode_length[drawn.episode], length)
    np.testing.assert_array_equal(drawn.remaining, length - t)
    np.testing.assert_array_equal(ring.is_last_dead(buffer, drawn), (t == length - 1) & (e % 3 == 0))
    last = ring.later(buffer, drawn.place, drawn.remaining)
    np.testing.assert_array_equal(buffer.observation[last], np.stack([e, length], -1))
    return np.stack([e, t], -1)


def still_held(lengths: list[int], places: int, entries: int) -> list[int]:
    """The model: the newest episodes whose states fit, and no more episodes than there are entries."""
    kept: list[int] = []
    used = 0
    for number in range(len(lengths) - 1, -1, -1):
        used += lengths[number] + 1
        if used > places or len(kept) == entries:
            break
        kept.insert(0, number)
    return kept


def transitions_of(numbers: list[int], lengths: list[int]) -> set[tuple[int, int]]:
    return {(e, t) for e in numbers for t in range(lengths[e])}


def test_model_by_hand():
    assert still_held([5, 5, 5], 24, 6) == [0, 1, 2]
    assert still_held([5, 5, 5, 5], 24, 6) == [0, 1, 2, 3]  # exactly full
    assert still_held([5, 5, 5, 5, 1], 24, 6) == [1, 2, 3, 4]
    assert still_held([1] * 8, 24, 6) == [2, 3, 4, 5, 6, 7]


def test_new_ring_is_empty():
    buffer = ring.init(SPEC, PLACES, ENTRIES)
    assert buffer.observation.shape == (PLACES, 2)
    assert buffer.achieved.shape == (PLACES, 1)
    assert buffer.episode_start.shape == (ENTRIES,)
    counters = [buffer.places_used, buffer.transitions_used, buffer.episodes_used]
    assert [int(c) for c in counters] == [0, 0, 0]


@pytest.mark.parametrize("choice", CHOICES)
def test_one_transition(choice):
    buffer, lengths = fill(ring.init(SPEC, PLACES, ENTRIES), [[1]])
    assert drawn_transitions(0, buffer, lengths, choice).tolist() == [[0, 0]] * DRAWS


@pytest.mark.parametrize(
    ("batches", "held"),
    [
        ([[5, 5], [5, 5]], [0, 1, 2, 3]),  # exactly full
        ([[5, 5], [5, 5], [1, 1]], [1, 2, 3, 4, 5]),  # four places short: one old episode goes
        ([[6, 6], [6, 6], [6, 6]], [3, 4, 5]),  # 7 places each, 3 in 24
        ([[1, 1]] * 5, [4, 5, 6, 7, 8, 9]),  # the episodes' own ring is full first
        ([[6, 1], [1, 6]] * 6, [20, 21, 22, 23]),  # many times round; 7 + 7 + 2 + 2 + 7 would be 25
        ([[3, 2], [6, 4]] * 5 + [[2, 2]], [17, 18, 19, 20, 21]),
    ],
)
def test_which_episodes_are_held(batches, held):
    buffer, lengths = fill(ring.init(SPEC, PLACES, ENTRIES), batches)
    assert still_held(lengths, PLACES, ENTRIES) == held
    assert int(buffer.first_episode) == held[0]
    assert int(buffer.episodes_used) == len(lengths)
    for choice in CHOICES:
        drawn = drawn_transitions(1, buffer, lengths, choice)
        assert {tuple(row) for row in drawn.tolist()} == transitions_of(held, lengths)


class RingMachine(RuleBasedStateMachine):
    """The ring beside a plain list of episodes, whatever is added and drawn in whatever order."""

    def __init__(self):
        super().__init__()
        self.buffer, self.lengths = ring.init(SPEC, PLACES, ENTRIES), []

    @rule(batch=st.lists(st.integers(1, STEPS), min_size=1, max_size=3))
    def add(self, batch):
        self.buffer = add(self.buffer, episodes(len(self.lengths), batch))
        self.lengths += batch

    @precondition(lambda self: self.lengths)
    @rule(key=st.integers(0, 9), choice=st.sampled_from(CHOICES))
    def draw(self, key, choice):
        """All that is held is drawn, and nothing else.

        The rarest of at most 23 transitions is missed by all draws with a probability below 1e-30.
        """
        drawn = drawn_transitions(key, self.buffer, self.lengths, choice)
        assert {tuple(row) for row in drawn.tolist()} == transitions_of(self.held, self.lengths)

    @precondition(lambda self: self.lengths)
    @rule()
    def look_at_arrivals(self):
        found, is_held = ring.arrivals(self.buffer)
        next_states = sorted(10 * e + t + 1 for e, t in transitions_of(self.held, self.lengths))
        assert sorted(np.asarray(found)[np.asarray(is_held), 0].tolist()) == next_states

    @property
    def held(self) -> list[int]:
        return still_held(self.lengths, PLACES, ENTRIES)

    @invariant()
    def counts_are_those_of_the_list(self):
        buffer, lengths = self.buffer, self.lengths
        assert int(buffer.episodes_used) == len(lengths)
        assert int(buffer.transitions_used) == sum(lengths)
        assert int(buffer.places_used) == sum(lengths) + len(lengths)
        if lengths:
            assert int(buffer.first_episode) == self.held[0]
            assert int(buffer.transitions_used - buffer.first_transition) == sum(
                lengths[e] for e in self.held
            )


TestRing = RingMachine.TestCase
TestRing.settings = settings(max_examples=20, stateful_step_count=14)


def test_one_at_a_time_is_the_same_as_a_batch():
    together, lengths = fill(ring.init(SPEC, PLACES, ENTRIES), [[2, 5, 1], [6, 3, 4]])
    apart, _ = fill(ring.init(SPEC, PLACES, ENTRIES), [[n] for n in lengths])
    held = transitions_of(still_held(lengths, PLACES, ENTRIES), lengths)
    for name in ("places_used", "transitions_used", "episodes_used", "first_episode", "first_transition"):
        assert int(getattr(together, name)) == int(getattr(apart, name))
    for buffer in (together, apart):
        drawn = drawn_transitions(3, buffer, lengths, "transition")
        assert {tuple(row) for row in drawn.tolist()} == held
    np.testing.assert_array_equal(together.observation, apart.observation)


def test_padding_is_never_written():
    buffer, _ = fill(ring.init(SPEC, PLACES, ENTRIES), [[1, 6, 2], [3, 1, 1], [2, 2, 2]])
    for array in (buffer.observation, buffer.achieved):
        assert int((array == PADDING).sum()) == 0


# Which transitions are drawn how often: fresh, and after the ring has gone round.

FRESH = [[1, 2], [6, 4]]
ROUND = [[6, 6], [6, 6], [6, 1], [5, 2], [3, 4]]


def counts(batches: list[list[int]], choice: str) -> tuple[np.ndarray, np.ndarray]:
    """Draws of each transition (held episode, step), and the lengths of the held episodes."""
    buffer, lengths = fill(ring.init(SPEC, PLACES, ENTRIES), batches)
    held = still_held(lengths, PLACES, ENTRIES)
    drawn = drawn_transitions(4, buffer, lengths, choice)
    table = np.zeros((len(held), STEPS), int)
    np.add.at(table, (drawn[:, 0] - held[0], drawn[:, 1]), 1)
    return table, np.array(lengths)[held]


def uniform_steps(length: np.ndarray) -> np.ndarray:
    return np.where(np.arange(STEPS) < length[:, None], 1 / length[:, None], 0.0)


@pytest.mark.parametrize("batches", [FRESH, ROUND])
def test_transitions_drawn_uniformly(batches):
    table, length = counts(batches, "transition")
    assert_frequencies(table, np.arange(STEPS) < length[:, None])


@pytest.mark.parametrize("batches", [FRESH, ROUND])
def test_episodes_drawn_uniformly(batches):
    table, length = counts(batches, "episode")
    assert_frequencies(table, uniform_steps(length))


@pytest.mark.parametrize("batches", [FRESH, ROUND])
def test_recent_episodes_drawn_linearly_more_often(batches):
    """The r-th oldest of n episodes, r = 0..n−1, has probability (2r + 1) / n²: linear in r."""
    table, length = counts(batches, "recent")
    rank = np.arange(len(length))
    probability = (2 * rank + 1) / len(length) ** 2
    assert probability.sum() == pytest.approx(1.0)
    assert_frequencies(table, probability[:, None] * uniform_steps(length))


@pytest.mark.parametrize("choice", CHOICES)
def test_same_key_same_draw(choice):
    buffer, _ = fill(ring.init(SPEC, PLACES, ENTRIES), FRESH)
    drawn = [sample(jax.random.key(k), buffer, DRAWS, choice) for k in (5, 5, 6)]
    first, again, other = (np.asarray(d.place) for d in drawn)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_later_goes_round_the_end():
    buffer = ring.init(SPEC, PLACES, ENTRIES)
    assert ring.later(buffer, jnp.array([0, 22, 23]), jnp.array([3, 2, 1])).tolist() == [3, 0, 0]


@pytest.mark.parametrize("batches", [[[2, 1]], [[6], [3, 4], [5], [6, 2], [6]]])
def test_arrivals_are_the_next_states_of_all_held_transitions(batches):
    """Before the ring is full and after it has overwritten its oldest episodes."""
    buffer, lengths = fill(ring.init(SPEC, PLACES), batches)
    achieved, held = jax.jit(ring.arrivals)(buffer)
    first = int(buffer.first_episode)
    expected = [10 * e + t + 1 for e in range(first, len(lengths)) for t in range(lengths[e])]
    assert sorted(np.asarray(achieved)[np.asarray(held), 0].astype(int).tolist()) == sorted(expected)
