"""The records that travel between collectors, buffer, learners and agents."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

Norm = Literal["l1", "l2", "linf"]
Method = Literal["c-learning", "a-learning", "d-learning", "naive-q", "gcsl", "her", "td3", "tdm"]
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
    achieved_at: tuple[int, ...] = ()
    """Which coordinates of an observation are its achieved goal, where they can be found there."""
    action_low: tuple[float, ...] = ()
    """Bounds of a continuous action; empty where actions are numbered, which `action_names` then lists."""
    action_high: tuple[float, ...] = ()

    @property
    def continuous(self) -> bool:
        return bool(self.action_low)

    @property
    def observation_size(self) -> int:
        return len(self.observation_low)

    @property
    def goal_size(self) -> int:
        return len(self.goal_low)

    @property
    def num_actions(self) -> int:
        return len(self.action_names)

    @property
    def action_shape(self) -> tuple[int, ...]:
        return (len(self.action_low),) if self.continuous else ()

    @property
    def action_dtype(self) -> Any:
        return np.float32 if self.continuous else np.int32

    def in_bounds(self, action: Any) -> Any:
        """A continuous action, which learners see scaled to [−1, 1], in the environment's own units."""
        low, high = np.array(self.action_low, np.float32), np.array(self.action_high, np.float32)
        return (low + (action + 1) * (high - low) / 2).clip(low, high)  # which rounding may overstep


class Episodes(NamedTuple):
    """A batch of N finished episodes, padded to T steps; steps at and after `length` are padding."""

    observation: Array  # (N, T + 1, observation)
    achieved: Array  # (N, T + 1, goal)
    action: Array  # (N, T), or (N, T, action) scaled to [−1, 1]
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
    horizon: Array  # a sampled h; for D-learning a discount, for GCSL the steps from s to g
    reached_before: Array  # G(s, g)
    reached: Array  # G(s', g)
    dead: Array  # s' is absorbing
    min_steps: Array  # no fewer steps lead from s' to g; 0 where nothing is known
    distance: Array  # from s' to g, for the methods that learn by it; 0 otherwise


class GoalEnv(Protocol):
    """An environment as pure functions of explicit random keys; all of it must jit and vmap.

    The state is any pytree of arrays; an action is a number, or a vector within the spec's bounds. `dead`
    must not depend on the goal: a state is dead when nothing can be reached from it any more, not when an
    episode happens to end there.
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
    """What a learner asks of a network of C where actions are numbered: logits for one state and goal.

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


class ActorCritic(Protocol):
    """What a learner asks of a network of C where actions are continuous.

    The actor proposes a few actions; the greedy action at a horizon is the proposal with the largest C there.
    """

    actor: Any
    critics: tuple[Any, ...]

    def curve(self, observation: Array, goal: Array) -> Array:
        """Logits for every proposal and every horizon 1..H, by the first critic, (proposals, H)."""
        ...

    def propose(self, observation: Array, goal: Array, index: Array, horizon: Array) -> Array:
        """One proposed action, for one horizon, in [−1, 1]."""
        ...

    def backed_up(self, horizon: Array) -> Array:
        """The horizons (K,) that an example with a sampled horizon backs up."""
        ...

    def at(self, observation: Array, goal: Array, action: Array, horizon: Array) -> Array:
        """Logits of an action at the horizons that an example backs up, (critics, K)."""
        ...

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        """Logits (critics, proposals, K) which, once a proposal is chosen and shifted, are those of h − 1."""
        ...

    def shift(self, values: Array) -> Array:
        """Align values (K,) from `before` with the horizons they serve; horizon 0 gets no meaning."""
        ...

    def proposals(self, observation: Array, goal: Array, horizon: Array) -> tuple[Array, Array, Array]:
        """What the actor maximises: logits of its proposals by the first critic and the weight of each, both
        (proposals, K), and the proposals before tanh bounds them, (proposals, action)."""
        ...
