"""Train in a world of your own: a rowing boat on a river that ends in a waterfall.

    python examples/own_environment.py

Seven methods and a spec make an environment. Random keys are arguments and everything is `jax.numpy`, so that
whole episodes run inside one compiled program.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

import clearning
from clearning import EnvSpec, GoalCheck

WIDTH, LENGTH = 7, 8  # from bank to bank, and down to the edge of the waterfall
SAME_SPOT = GoalCheck(coordinates=(0, 1), norm="linf", radius=0.5)


@dataclass(frozen=True)
class River:
    """State (x, y): x from bank to bank, y downstream. In midstream the current carries the boat along."""

    current: float = 0.5

    @property
    def spec(self) -> EnvSpec:
        low, high = (0.0, 0.0), (WIDTH - 1.0, LENGTH - 1.0)
        strokes = ("left", "right", "upstream", "rest")
        return EnvSpec("river", low, high, low, high, strokes, max_episode_steps=30, goal_check=SAME_SPOT)

    def initial_state(self, key: Array) -> Array:
        return jnp.floor(jax.random.uniform(key, (2,)) * jnp.array([WIDTH, LENGTH - 1.0]))

    def sample_goal(self, key: Array) -> Array:
        return self.initial_state(key)  # anywhere but in the waterfall

    def step(self, key: Array, state: Array, action: Array) -> Array:
        stroke = jnp.array([[-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 0.0]])[action]
        midstream = (state[0] > 1) & (state[0] < WIDTH - 2)
        drift = jnp.array([0.0, 1.0]) * (midstream & (jax.random.uniform(key) < self.current))
        moved = jnp.clip(state + stroke + drift, 0.0, jnp.array([WIDTH - 1.0, LENGTH - 1.0]))
        return jnp.where(self.is_dead(state), state, moved)

    def observe(self, state: Array) -> Array:
        return state

    def achieved_goal(self, state: Array) -> Array:
        return state

    def is_dead(self, state: Array) -> Array:
        return state[1] == LENGTH - 1  # over the edge: whatever the goal, it is out of reach now

    def reached(self, achieved: Array, goal: Array) -> Array:
        return SAME_SPOT.reached(achieved, goal)


def main() -> None:
    # Where chance rules, a goal must not be picked because luck led to it: no hindsight.
    agent = clearning.train(
        env=River(), episodes=60, evaluate_every=20, max_horizon=30, hidden=(128, 128),
        goal_future=0.0, goal_episode=0.3, goal_random=0.7,
    )  # fmt: skip

    strokes = River().spec.action_names
    goal = jnp.array([6.0, 5.0])  # the landing stage on the far bank
    for start in (jnp.array([0.0, 5.0]), jnp.array([0.0, 1.0])):
        print(f"From {start.tolist()}: first '{strokes[int(agent.act(start, goal))]}'.")
        for horizon in (6, 10, 20):
            # From (0, 5) the best there is: 0.13, 0.94 and 1.00. From (0, 1): 0.00, 0.42 and 0.99.
            chance = float(agent.reach_probability(start, goal, horizon))
            print(f"  ashore at {goal.tolist()} within {horizon:2} strokes: {chance:.2f}")


if __name__ == "__main__":
    main()
