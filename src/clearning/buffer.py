"""The replay buffer: a ring of states laid end to end, and a ring of the episodes they belong to.

An episode of L transitions takes L + 1 places, one per state, so nothing is padded and no next state is
stored twice. All counters are absolute: they only grow, and a place is its counter modulo the capacity.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from clearning.types import EnvSpec, Episodes

Choice = Literal["transition", "episode", "recent"]


class Buffer(NamedTuple):
    """Contents and counters of the ring; `episode_*` fields have one entry per episode."""

    observation: Array  # (places, observation)
    achieved: Array  # (places, goal)
    action: Array  # (places, ...), the action taken there, unused at an episode's last state
    episode: Array  # (places,), the absolute number of the episode
    transition: Array  # (places,), the place where the n-th transition starts
    episode_start: Array  # (episodes,), absolute place of the first state
    episode_length: Array  # (episodes,), transitions
    episode_goal: Array  # (episodes, goal)
    episode_dead: Array  # (episodes,), the last state is absorbing
    places_used: Array  # (), absolute counters from here on
    transitions_used: Array
    episodes_used: Array
    first_episode: Array  # the oldest episode that is still whole
    first_transition: Array


class Sample(NamedTuple):
    """Transitions drawn from the buffer, with what relabelling needs to know of their episodes."""

    place: Array  # of s
    episode: Array  # index into the episode fields
    remaining: Array  # steps from s to the episode's last state, at least 1


def init(spec: EnvSpec, capacity: int, episodes: int = 0) -> Buffer:
    """An empty ring for `capacity` states; it holds an eighth as many episodes, the newest, unless told."""
    episodes = episodes or max(capacity // 8, 2)
    return Buffer(
        observation=jnp.zeros((capacity, spec.observation_size)),
        achieved=jnp.zeros((capacity, spec.goal_size)),
        action=jnp.zeros((capacity, *spec.action_shape), spec.action_dtype),
        episode=jnp.zeros(capacity, jnp.int32),
        transition=jnp.zeros(capacity, jnp.int32),
        episode_start=jnp.zeros(episodes, jnp.int32),
        episode_length=jnp.zeros(episodes, jnp.int32),
        episode_goal=jnp.zeros((episodes, spec.goal_size)),
        episode_dead=jnp.zeros(episodes, bool),
        places_used=jnp.int32(0),
        transitions_used=jnp.int32(0),
        episodes_used=jnp.int32(0),
        first_episode=jnp.int32(0),
        first_transition=jnp.int32(0),
    )


def add(buffer: Buffer, episodes: Episodes) -> Buffer:
    """Append finished episodes; the oldest make room. A batch of them must fit into the ring."""
    count, steps = episodes.action.shape[:2]
    places, capacity = buffer.episode.size, buffer.episode_start.size
    numbers = buffer.episodes_used + jnp.arange(count)
    starts = buffer.places_used + jnp.cumsum(episodes.length + 1) - (episodes.length + 1)
    first_transitions = buffer.transitions_used + jnp.cumsum(episodes.length) - episodes.length

    time = jnp.arange(steps + 1)
    is_state = time <= episodes.length[:, None]  # (N, T + 1)
    is_transition = (time < episodes.length[:, None])[:, :-1]
    # Padding is written to a place that does not exist, and dropped.
    at = jnp.where(is_state, (starts[:, None] + time) % places, places)
    row = jnp.where(is_transition, (first_transitions[:, None] + time[:-1]) % places, places)
    entry = numbers % capacity

    def write(array: Array, index: Array, values: Array) -> Array:
        return array.at[index].set(values.astype(array.dtype), mode="drop")

    unused = jnp.zeros((count, 1, *episodes.action.shape[2:]), episodes.action.dtype)
    action = jnp.concatenate([episodes.action, unused], axis=1)
    episode_start = write(buffer.episode_start, entry, starts)
    places_used = buffer.places_used + (episodes.length + 1).sum()
    episodes_used = buffer.episodes_used + count
    transitions_used = buffer.transitions_used + episodes.length.sum()

    # Entry e of the ring holds the newest episode number that is e modulo the capacity.
    number = episodes_used - 1 - (episodes_used - 1 - jnp.arange(capacity)) % capacity
    whole = (number >= 0) & (episode_start >= places_used - places)
    first_episode = jnp.where(whole, number, episodes_used - 1).min()
    # Every episode before a state's own has taken one place more than it has transitions.
    first_transition = episode_start[first_episode % capacity] - first_episode
    return Buffer(
        observation=write(buffer.observation, at, episodes.observation),
        achieved=write(buffer.achieved, at, episodes.achieved),
        action=write(buffer.action, at, action),
        episode=write(buffer.episode, at, jnp.broadcast_to(numbers[:, None], at.shape)),
        transition=write(buffer.transition, row, at[:, :-1]),
        episode_start=episode_start,
        episode_length=write(buffer.episode_length, entry, episodes.length),
        episode_goal=write(buffer.episode_goal, entry, episodes.goal),
        episode_dead=write(buffer.episode_dead, entry, episodes.dead),
        places_used=places_used,
        transitions_used=transitions_used,
        episodes_used=episodes_used,
        first_episode=first_episode,
        first_transition=first_transition,
    )


def sample(key: Array, buffer: Buffer, size: int, choice: Choice) -> Sample:
    """Draw transitions: uniformly, or episode first (uniformly, or linearly more often the newer it is)."""
    places, capacity = buffer.episode.size, buffer.episode_start.size
    if choice == "transition":
        held = buffer.transitions_used - buffer.first_transition
        number = buffer.first_transition + below(key, (size,), held)
        place = buffer.transition[number % places]
        episode = buffer.episode[place] % capacity
        step = (place - buffer.episode_start[episode]) % places
    else:
        key_episode, key_step = jax.random.split(key)
        held = buffer.episodes_used - buffer.first_episode
        u = jax.random.uniform(key_episode, (size,))
        if choice == "recent":
            u = jnp.sqrt(u)  # the density of √u grows linearly
        rank = jnp.minimum((u * held).astype(jnp.int32), held - 1)
        episode = (buffer.first_episode + rank) % capacity
        step = below(key_step, (size,), buffer.episode_length[episode])
        place = (buffer.episode_start[episode] + step) % places
    return Sample(place, episode, buffer.episode_length[episode] - step)


def below(key: Array, shape: tuple[int, ...], count: Array) -> Array:
    """Whole numbers from 0 to count - 1.

    A quarter of the work of `jax.random.randint`; small numbers are favoured by less than count / 2³².
    """
    return (jax.random.bits(key, shape) % count.astype(jnp.uint32)).astype(jnp.int32)


def later(buffer: Buffer, place: Array, steps: Array) -> Array:
    """The place `steps` after another in the same episode."""
    return (place + steps) % buffer.episode.size


def arrivals(buffer: Buffer) -> tuple[Array, Array]:
    """What the next state of each transition achieved, (places, goal), and which rows hold a transition."""
    row = jnp.arange(buffer.transition.size)
    held = row < buffer.transitions_used - buffer.first_transition
    place = buffer.transition[(buffer.first_transition + row) % row.size]
    return buffer.achieved[later(buffer, place, jnp.int32(1))], held


def sample_achieved(key: Array, buffer: Buffer, count: int) -> Array:
    """What the next states of so many transitions, drawn uniformly, achieved, (count, goal)."""
    drawn = sample(key, buffer, count, "transition")
    return buffer.achieved[later(buffer, drawn.place, jnp.int32(1))]


def is_last_dead(buffer: Buffer, drawn: Sample) -> Array:
    """Whether the next state of each drawn transition is absorbing."""
    return (drawn.remaining == 1) & buffer.episode_dead[drawn.episode]
