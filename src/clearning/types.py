"""The records that travel between collectors, buffer, learners and agents."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

Norm = Literal["l1", "l2", "linf"]
Metrics = dict[str, Array]


def norm_distance(norm: Norm, x: Any, y: Any) -> Array:
    """Distance between two points along the last axis."""
    difference = jnp.abs(jnp.asarray(x) - jnp.asarray(y))
    if norm == "l1":
        return difference.sum(-1)
    if norm == "l2":
        return jnp.sqrt((difference**2).sum(-1))
    return difference.max(-1)


@dataclass(frozen=True)
class GoalCheck:
    """G(s, g) as data: a goal is reached when chosen coordinates of the observation lie within a radius.

    Being data, it travels with a trained agent, which can then answer 1 at a reached goal without
    the environment.
    """

    coordinates: tuple[int, ...]
    norm: Norm
    radius: float

    def achieved(self, observation: Any) -> Array:
        return jnp.asarray(observation)[..., self.coordinates]

    def reached(self, achieved: Any, goal: Any) -> Array:
        return norm_distance(self.norm, achieved, goal) <= self.radius


@dataclass(frozen=True)
class StepBound:
    """A lower bound on the steps to a goal: its distance changes by at most `per_step` in a step.

    `slack` is how far from the goal a state may be and still count as reaching it.
    """

    norm: Norm
    per_step: float
    slack: float

    def min_steps(self, achieved: Any, goal: Any) -> Array:
        """The smallest number of steps after which the goal is not ruled out."""
        far = norm_distance(self.norm, achieved, goal) - self.slack
        # The small allowance keeps a distance of exactly n·per_step at n steps in float32.
        return jnp.maximum(jnp.ceil(far / self.per_step - 1e-4), 0.0)


@dataclass(frozen=True)
class EnvSpec:
    """What a learner and a trained agent need to know of an environment."""

    name: str
    observation_low: tuple[float, ...]
    observation_high: tuple[float, ...]
    goal_low: tuple[float, ...]
    goal_high: tuple[float, ...]
    action_names: tuple[str, ...]
    max_episode_steps: int
    goal_check: GoalCheck | None = None
    """None when what is reached cannot be stated as data; the learner then trains those pairs with y = 1."""
    step_bound: StepBound | None = None

    @property
    def observation_size(self) -> int:
        return len(self.observation_low)

    @property
    def goal_size(self) -> int:
        return len(self.goal_low)

    @property
    def num_actions(self) -> int:
        return len(self.action_names)


class Episodes(NamedTuple):
    """A batch of N finished episodes, padded to T steps; steps at and after `length` are padding."""

    observation: Array  # (N, T + 1, observation)
    achieved: Array  # (N, T + 1, goal)
    action: Array  # (N, T)
    goal: Array  # (N, goal), what the episode was after
    length: Array  # (N,), number of transitions
    dead: Array  # (N,), the last state is absorbing, whatever the goal
    success: Array  # (N,), the episode's own goal was reached


class Batch(NamedTuple):
    """Relabelled transitions, ready for a learner; a learner sees one example of it at a time."""

    observation: Array  # s
    action: Array  # a
    next_observation: Array  # s'
    goal: Array  # g
    horizon: Array  # a sampled h
    reached_before: Array  # G(s, g)
    reached: Array  # G(s', g)
    dead: Array  # s' is absorbing
    min_steps: Array  # no fewer steps lead from s' to g; 0 where nothing is known


class GoalEnv(Protocol):
    """An environment as pure functions of explicit random keys; all of it must jit and vmap.

    The state is any pytree of arrays. `dead` must not depend on the goal: a state is dead when nothing
    can be reached from it any more, not when an episode happens to end there.
    """

    @property
    def spec(self) -> EnvSpec: ...
    def initial_state(self, key: Array) -> Any: ...
    def sample_goal(self, key: Array) -> Array: ...
    def step(self, key: Array, state: Any, action: Array) -> Any: ...
    def observe(self, state: Any) -> Array: ...
    def achieved_goal(self, state: Any) -> Array: ...
    def is_dead(self, state: Any) -> Array: ...
    def reached(self, achieved: Array, goal: Array) -> Array: ...


class Network(Protocol):
    """What a learner asks of a network of C: logits for one observation and one goal.

    K is the number of horizons that one example backs up: one in the paper's form, all H in ours.
    Horizons are the last axis, so that the maximum over actions runs over contiguous rows.
    """

    def curve(self, observation: Array, goal: Array) -> Array:
        """Logits for every action and every horizon 1..H, (actions, H)."""
        ...

    def backed_up(self, horizon: Array) -> Array:
        """The horizons (K,) that an example with a sampled horizon backs up."""
        ...

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        """Logits at the horizons (K,) that an example backs up, (actions, K)."""
        ...

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        """Logits (actions, K) which, once an action is chosen and `shift` applied, are those of h − 1."""
        ...

    def shift(self, values: Array) -> Array:
        """Align values (K,) from `before` with the horizons they serve; horizon 0 gets no meaning."""
        ...


def tree_size(tree: Any) -> int:
    """Number of elements in all the arrays of a pytree."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))
