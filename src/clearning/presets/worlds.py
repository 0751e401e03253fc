"""Ours for the worlds of this package, in the all-horizon form."""

from dataclasses import replace

from clearning.config import Config


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


def stochastic_maze() -> Config:
    """The mini maze where a move may fail or go twice as far, 300 episodes: for probabilities to be trusted.

    No hindsight, which looks past the moves that failed; most goals are drawn near instead, whatever the
    episode, for random ones alone are too seldom within reach to learn from. Where chance decides, C needs
    long averages: more than half of the updates come after the last episode.
    """
    return replace(
        mini_maze(),
        env_options={"stochastic": True},
        learning_rate=3e-3,
        target_rate=0.1,
        goal_future=0.0,
        goal_random=0.3,
        goal_nearby=0.7,
        final_share=1.5,
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


def cat_and_mouse() -> Config:
    """Cat and mouse: continuous moves past a risk, where every horizon has its own best way.

    No hindsight, which would look past the times it was caught; goals are drawn near, whatever the episode.
    Every horizon has its own head, from hasty to careful, and every 32 episodes draw how careful they are;
    beside the heads stand actions in every direction. The least of two critics would be too low where chance
    decides, and the logarithm of C would have the heads of short horizons look at goals out of their reach.
    """
    return Config(
        env="cat-and-mouse",
        episodes=40_000,
        random_episodes=256,
        parallel_envs=32,
        epsilon=0.2,
        noise=0.3,
        explore_alpha=0.05,
        max_horizon=12,
        hidden=(128, 128, 128),
        critics=1,
        actor_heads=12,
        spread_actions=100,
        spread_in_targets=20,
        actor_objective="value",
        updates_per_episode=2,
        batch_size=256,
        target_rate=0.02,
        goal_future=0.0,
        goal_episode=0.0,
        goal_random=0.3,
        goal_nearby=0.7,
        goal_nearness=1.0,
        rule_out=True,
        skip_ruled_out=True,
        evaluate_every=4_000,
        checkpoint_every=4_000,
    )
