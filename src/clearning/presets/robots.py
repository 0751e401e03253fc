"""Ours for simulated robots and other Gymnasium environments."""

from dataclasses import replace

from clearning.config import Config

ROBOT = Config(
    env="FetchReach-v4",
    episodes=0,
    env_steps=250_000,
    random_episodes=96,
    parallel_envs=8,
    epsilon=0.3,
    frontier=0.5,
    features="normalised",
    hidden=(256, 256, 256),
    updates_per_step=0.5,
    learning_rate_decay="step",
    decay_at=0.8,
    action_penalty=0.1,
    goal_future=0.4,
    goal_episode=0.3,
    goal_random=0.3,
    pair_tries=16,
    buffer_capacity=1_000_000,
    every_counts="steps",
    evaluate_every=10_000,
    checkpoint_every=10_000,
)
"""What our presets for Gymnasium environments share.

Hindsight alone shows C hardly a goal that is missed, and what moves little finds hardly another: more than
half of the goals are those that an episode was after, its own or another's, half of the episodes go after
what C holds neither sure nor hopeless, and the actor pays for actions that nothing yet calls for.
"""

MOVER = replace(ROBOT, actor_objective="log-mean", action_penalty_from=0.5, action_penalty_decay=4.0)
"""Where something is moved: the actor follows the logarithm of the mean of C, which does not prefer haste, as
that knocks blocks off a table. Its actions cost less once they are learned."""

PEN_SCALE = (10.0, 10.0, 10.0, 1.0, 1.0, 1.0, 1.0)
"""Of a pen's place in metres and its rotation, for distances of both together."""


def gymnasium_defaults() -> Config:
    """The settings that any Gymnasium environment starts from."""
    return MOVER


def recorded_defaults() -> Config:
    """The settings that recorded episodes without an environment start from."""
    return replace(MOVER, env="")


def fetch_reach() -> Config:
    """FetchReach: the arm's tip to a point, 4,000 steps."""
    return replace(
        ROBOT,
        env_steps=4_000,
        random_episodes=8,
        hidden=(128, 128),
        updates_per_step=1.0,
        evaluate_every=500,
        checkpoint_every=1_000,
    )


def fetch_push() -> Config:
    """FetchPush: a block pushed to a point of the table, 100,000 steps."""
    return replace(
        MOVER,
        env="FetchPush-v4",
        env_steps=100_000,
        random_episodes=100,
        updates_per_step=1.0,
        learning_rate_decay="cosine",
        epsilon_decay=1000.0,
        action_penalty_from=0.7,
        action_penalty_decay=3.0,
    )


def fetch_pick_and_place() -> Config:
    """FetchPickAndPlace: a block taken to a point in the air, 300,000 steps."""
    return replace(
        MOVER,
        env="FetchPickAndPlace-v4",
        env_steps=300_000,
        learning_rate_decay="cosine",
        epsilon_decay=4000.0,
        action_penalty_least=0.001,
        evaluate_every=25_000,
        checkpoint_every=25_000,
    )


def fetch_slide() -> Config:
    """FetchSlide: a puck hit so that it slides to a point out of reach, 500,000 steps."""
    return replace(
        MOVER,
        env="FetchSlide-v4",
        env_steps=500_000,
        updates_per_step=0.25,
        epsilon_decay=2000.0,
        evaluate_every=25_000,
        checkpoint_every=25_000,
    )


def hand_reach() -> Config:
    """HandReach: the five fingertips to their places, 500,000 steps."""
    return replace(MOVER, env="HandReach-v3", env_steps=500_000)


def hand_manipulate_pen_full() -> Config:
    """HandManipulatePenFull: a pen turned in the hand to a position and rotation, 1,000,000 steps.

    The pen moves whatever the fingers do, so no episodes go after what was achieved before, which helps where
    nothing moves by itself; actions cost a tenth, and pairs are drawn anew four times at most.
    """
    return replace(
        MOVER,
        env="HandManipulatePenFull-v1",
        env_steps=1_000_000,
        updates_per_step=0.125,
        epsilon_decay=4000.0,
        frontier=0.0,
        action_penalty=0.01,
        goal_scale=PEN_SCALE,
        pair_tries=4,
        evaluate_every=50_000,
        checkpoint_every=50_000,
    )


def point_maze_umaze() -> Config:
    """PointMaze, the small U: a ball pushed to a point; each action is taken six times."""
    return replace(
        ROBOT,
        env="PointMaze_UMaze-v3",
        env_options={"continuing_task": False},
        action_repeat=6,
        env_steps=150_000,
        hidden=(128, 128, 128),
        updates_per_step=0.1,
        evaluate_every=15_000,
        checkpoint_every=15_000,
    )


def point_maze_medium() -> Config:
    """PointMaze, medium: as the small one, each action taken twelve times."""
    return replace(
        point_maze_umaze(),
        env="PointMaze_Medium-v3",
        action_repeat=12,
        env_steps=400_000,
        evaluate_every=40_000,
        checkpoint_every=40_000,
    )
