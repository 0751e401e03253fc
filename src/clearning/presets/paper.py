"""The paper's own settings (appendix F); each docstring says what deviates from them."""

from dataclasses import replace

from clearning.config import Config
from clearning.presets.robots import PEN_SCALE, ROBOT

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


def dubins_car() -> Config:
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


def mini_maze() -> Config:
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


def frozen_lake() -> Config:
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


PAPER_ROBOT = replace(
    ROBOT,
    form="sampled-horizon",
    episodes=40_016,
    env_steps=0,
    random_episodes=16,
    noise=0.3,
    hidden=(600, 600, 600),
    layer_norm=False,
    batch_size=256,
    learning_rate=1e-4,
    learning_rate_decay="constant",
    updates_per_step=0.0,
    frontier=0.0,
    action_penalty=0.0,
    goal_future=0.8,
    goal_episode=0.2,
    goal_random=0.0,
    target_rate=0.05,
    act_with="network",
    actor_objective="value",
    choose="episode",
    pair_tries=1,
    goal_tries=1,
    every_counts="episodes",
    evaluate_every=500,
    checkpoint_every=500,
)
"""What the paper's two robots share (appendix F)."""


def fetch_pick_and_place() -> Config:
    """The paper's FetchPickAndPlace (appendix F.4): 40,000 episodes, 600×3 networks, 64 updates per episode.

    Deviations, numbered as in docs/presets.md: (1) horizons by p(h) ∝ h^(−κ(1−n/N)); (3) random episodes on
    top; (4) episode goals uniform; (7) episodes end at success; (9) 20 % of the goals are what the episode
    was after; (15) episodes chosen uniformly; (16) 600×3 networks on normalised inputs; (17) noise 0.3 and
    random actions with probability 0.3; (18) targets averaged at every update; (19) eight episodes at a time.
    """
    return replace(PAPER_ROBOT, env="FetchPickAndPlace-v4", updates_per_episode=64)


def hand_manipulate_pen_full() -> Config:
    """The paper's HandManipulatePenFull (appendix F.5): 60,000 episodes, 80 updates per episode.

    Deviations as for FetchPickAndPlace, and (20) 61 observations instead of 63.
    """
    return replace(
        PAPER_ROBOT,
        env="HandManipulatePenFull-v1",
        episodes=60_016,
        updates_per_episode=80,
        goal_scale=PEN_SCALE,
    )
