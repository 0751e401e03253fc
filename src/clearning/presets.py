"""One preset per experiment; the docstring of each says where its numbers come from and what deviates."""

import difflib
from collections.abc import Callable
from dataclasses import replace

from clearning.config import Config
from clearning.errors import UsageError


def dubins_car() -> Config:
    """Dubins' car in the all-horizon form, 700 episodes from the paper's start to the paper's goals.

    The L∞ distance rules out goals that are too far for a horizon, and two horizons on either side of h_α
    vote on the action.
    """
    return Config(
        env="dubins-car",
        episodes=700,
        updates_per_episode=60,
        vote=2,
        rule_out=True,
        skip_ruled_out=True,
        evaluate_every=25,
        checkpoint_every=50,
    )


def mini_maze() -> Config:
    """Mini maze in the all-horizon form, 300 episodes from the fixed start.

    An episode goes on after another goal once it has reached one, and, as in the paper's own maze, the L1
    distance rules out goals that are too far for a horizon. Most goals are random: those of hindsight lie
    on the episode's own way, and only others teach that a goal just behind a wall is far.
    """
    return Config(
        env="mini-maze",
        episodes=300,
        features="one-hot",
        new_goal_at_success=True,
        goal_future=0.4,
        goal_episode=0.0,
        goal_random=0.6,
        rule_out=True,
        skip_ruled_out=True,
        evaluate_every=25,
        checkpoint_every=25,
    )


def frozen_lake() -> Config:
    """Frozen lake in the all-horizon form, 300 episodes.

    No hindsight: a goal taken from the future is optimistic where moves slip. An episode goes on after
    another goal once it has reached one, and half of the actions are random: what C needs is to have seen
    every action everywhere, not to succeed while it looks. So of four goals drawn an episode goes after the
    one reached least often so far, mostly the cells between the holes, on which C hangs most. What was seen
    there last is learned in the updates after the last episode.
    """
    return Config(
        env="frozen-lake",
        episodes=300,
        epsilon=0.5,
        new_goal_at_success=True,
        goal_candidates=4,
        final_share=0.4,
        features="one-hot",
        learning_rate=3e-3,
        target_rate=0.1,
        goal_future=0.0,
        goal_episode=0.0,
        goal_random=1.0,
        rule_out=True,
        buffer_capacity=40_000,
        evaluate_every=50,
        checkpoint_every=50,
    )


def dubins_reachability() -> Config:
    """The car without inner walls and with turns of 5°, from any pose: figure 3b."""
    return Config(
        env="dubins-car",
        env_options={"walls": False, "turn_degrees": 5.0, "random_starts": True, "any_goal": True},
        episodes=500,
        vote=2,
        rule_out=True,
        skip_ruled_out=True,
    )


PAPER = Config(
    form="sampled-horizon",
    layer_norm=False,
    features="scaled",
    learning_rate_decay="constant",
    target_period=10,
    act_with="network",
    choose="episode",
    goal_future=0.8,
    goal_episode=0.2,
    goal_random=0.0,
)
"""What the paper's three experiments share (appendix F)."""

BY_DISTANCE = replace(PAPER, goal_future=0.0, goal_episode=0.0, goal_nearby=1.0, rule_out=True)
"""The same with the paper's scheme for stochastic environments, which it uses in the maze too."""


def paper_dubins_car() -> Config:
    """The paper's Dubins' car (appendix F.3): 4,500 episodes, 400-300 network, 80 updates per episode.

    Deviations, numbered as in docs/presets.md: (1) horizons by p(h) ∝ h^(−κ(1−n/N)); (2) double-Q target;
    (3) 15 random episodes on top; (4) episode goals uniform; (5) inputs scaled to [−1, 1]; (6) pairs whose
    goal is already reached left out; (7) episodes end at success; (9) 20 % of the goals are what the episode
    was after; (15) episodes chosen uniformly.
    """
    return replace(
        PAPER,
        env="dubins-car",
        episodes=4515,
        hidden=(400, 300),
        updates_per_episode=80,
        buffer_capacity=500_000,
        evaluate_every=250,
        checkpoint_every=250,
    )


def paper_mini_maze() -> Config:
    """The paper's mini maze (appendix F.2): 3,000 episodes, 200-100 network, goals by distance.

    Deviations, numbered as in docs/presets.md: (1) to (7) and (15) as for the car; (10) ε falls with the
    number of goal-directed episodes; (11) the learning rate falls after two thirds; (13) hopeless targets
    are 0.
    """
    return replace(
        BY_DISTANCE,
        env="mini-maze",
        episodes=3015,
        epsilon=0.5,
        epsilon_decay=1000.0,
        learning_rate_decay="step",
        skip_ruled_out=True,
        hidden=(200, 100),
        updates_per_episode=32,
        buffer_capacity=650_000,
        evaluate_every=250,
        checkpoint_every=250,
    )


def paper_frozen_lake() -> Config:
    """The paper's frozen lake (appendix F.1): 300 episodes, 60-40 network, goals by distance.

    Deviations, numbered as in docs/presets.md: (1) to (7) and (15) as for the car; (12) holes are terminal;
    (13) hopeless targets are 0; (14) episodes of one step are kept.
    """
    return replace(
        BY_DISTANCE,
        env="frozen-lake",
        episodes=315,
        hidden=(60, 40),
        updates_per_episode=64,
        buffer_capacity=20_000,
        evaluate_every=50,
        checkpoint_every=50,
    )


PRESETS: dict[str, Callable[[], Config]] = {
    "frozen-lake": frozen_lake,
    "mini-maze": mini_maze,
    "dubins-car": dubins_car,
    "dubins-reachability": dubins_reachability,
    "paper/frozen-lake": paper_frozen_lake,
    "paper/mini-maze": paper_mini_maze,
    "paper/dubins-car": paper_dubins_car,
}


def preset(name: str) -> Config:
    """A preset's config by name; an unknown name is answered with the nearest known one."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else "See `clearning presets` for all."
        raise UsageError(f"There is no preset '{name}'. {hint}")
    return PRESETS[name]()
