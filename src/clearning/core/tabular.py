"""Exact dynamic programming on finite MDPs: C*, A*, D*, Q* and C^π, in float64.

The same rules that train networks are iterated here in expectation over s', so a test that a learner
reaches the oracle tests the rule itself.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clearning.core.recursions import Target, cumulative, discounted, exact, q_value


@dataclass(frozen=True)
class FiniteMDP:
    """Transition probabilities, the goal check and the absorbing states of a finite world."""

    transition: np.ndarray  # (states, actions, states), rows sum to one
    reached: np.ndarray  # (states, goals), G(s, g)
    dead: np.ndarray  # (states,)

    def backup(self, target: Target, next_best: np.ndarray) -> np.ndarray:
        """E over s' of a rule's target, (states, actions, goals), from the greedy values (states, goals)."""
        reached = self.reached.astype(np.float64)
        values = target(reached, self.dead.astype(np.float64)[:, None], next_best)
        return np.einsum("ijk,kg->ijg", self.transition, values, optimize=True)


def _finite_horizon(
    mdp: FiniteMDP, target: Target, horizons: int, goal_is_terminal: bool, policy: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Values (states, actions, goals) for h = 1..H in turn; the maximum over actions, or a policy's mean."""
    best = mdp.reached.astype(np.float64)  # with no step left, only a reached goal counts
    for h in range(1, horizons + 1):
        value = mdp.backup(target, best)
        if goal_is_terminal:
            value = np.where(mdp.reached[:, None, :], 1.0, value)
        yield value
        best = value.max(1) if policy is None else np.einsum("iag,iga->ig", value, policy[h - 1])


def optimal_c(mdp: FiniteMDP, horizons: int) -> np.ndarray:
    """C*(s, a, g, h), indexed [h − 1, s, a, g] (eq. 3)."""
    return np.stack([*optimal_c_by_horizon(mdp, horizons)])


def optimal_c_by_horizon(mdp: FiniteMDP, horizons: int) -> Iterator[np.ndarray]:
    """C*(s, a, g, h) for h = 1..H in turn, each indexed [s, a, g], in the memory of one horizon."""
    return _finite_horizon(mdp, cumulative, horizons, goal_is_terminal=True)


def optimal_c_from(mdp: FiniteMDP, state: int, horizons: int) -> np.ndarray:
    """max_a C*(s, a, g, h) from one state, indexed [h − 1, g], in the memory of one horizon."""
    return np.stack([value[state].max(0) for value in optimal_c_by_horizon(mdp, horizons)])


def optimal_c_last(mdp: FiniteMDP, horizon: int) -> np.ndarray:
    """C* at one horizon, indexed [s, a, g], in the memory of one horizon."""
    return deque(optimal_c_by_horizon(mdp, horizon), maxlen=1)[0]


def optimal_c_at(mdp: FiniteMDP, state: np.ndarray, goal: np.ndarray, horizon: np.ndarray) -> np.ndarray:
    """max_a C*(s, a, g, h) for many (s, g, h), in the memory of one horizon."""
    found = np.zeros(len(horizon))
    for h, value in enumerate(optimal_c_by_horizon(mdp, int(horizon.max())), 1):
        asked = horizon == h
        found[asked] = value[state[asked], :, goal[asked]].max(-1)
    return found


def optimal_a(mdp: FiniteMDP, horizons: int) -> np.ndarray:
    """A*(s, a, g, h), indexed [h − 1, s, a, g] (appendix C)."""
    return np.stack([*_finite_horizon(mdp, exact, horizons, goal_is_terminal=False)])


def policy_c(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """C^π for a horizon-aware policy π(a | s, g, h), given as [h − 1, s, g, a] (eq. 2)."""
    return np.stack([*_finite_horizon(mdp, cumulative, len(policy), goal_is_terminal=True, policy=policy)])


def _fixed_point(mdp: FiniteMDP, target: Target, tolerance: float, rounds: int) -> np.ndarray:
    best = np.zeros(mdp.reached.shape)
    value = mdp.backup(target, best)
    for _ in range(rounds):
        value = np.where(mdp.reached[:, None, :], 1.0, mdp.backup(target, best))
        change = np.abs(value.max(1) - best).max()
        best = value.max(1)
        if change < tolerance:
            break
    return value


def optimal_d(mdp: FiniteMDP, gamma: float, tolerance: float = 1e-12, rounds: int = 100_000) -> np.ndarray:
    """D*(s, a, g, γ), indexed [s, a, g] (appendix D); 1 where s already reaches g."""
    return _fixed_point(mdp, discounted(gamma), tolerance, rounds)


def optimal_q(mdp: FiniteMDP, gamma: float, tolerance: float = 1e-12, rounds: int = 100_000) -> np.ndarray:
    """Q*(s, g, a) = E[γ^T], indexed [s, a, g]; 1 where s already reaches g."""
    return _fixed_point(mdp, q_value(gamma), tolerance, rounds)


def estimate_mdp(mdp: FiniteMDP, state: np.ndarray, action: np.ndarray, next_state: np.ndarray) -> FiniteMDP:
    """The same world with transition frequencies counted from data; unseen (s, a) stay where they are."""
    counts = np.zeros(mdp.transition.shape)
    np.add.at(counts, (state, action, next_state), 1.0)
    total = counts.sum(-1, keepdims=True)
    stay = np.broadcast_to(np.eye(len(counts))[:, None, :], counts.shape)
    frequency = np.where(total > 0, counts / np.maximum(total, 1.0), stay)
    return FiniteMDP(frequency, mdp.reached, mdp.dead)
