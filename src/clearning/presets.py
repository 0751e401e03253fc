"""One preset per experiment; the docstring of each says where its numbers come from and what deviates."""

import difflib
import inspect
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


def cat_and_mouse() -> Config:
    """Cat and mouse: continuous moves past a risk, where every horizon has its own best way.

    No hindsight, which would look past the times it was caught; goals are drawn near, whatever the episode.
    Every horizon has its own head, from hasty to careful, and each episode draws how careful it is. The least
    of two critics would be too low where chance decides, and the logarithm of C would have the heads of short
    horizons look at goals that are out of their reach.
    """
    return Config(
        env="cat-and-mouse",
        episodes=8_000,
        random_episodes=256,
        parallel_envs=32,
        epsilon=0.2,
        noise=0.3,
        explore_alpha=0.05,
        max_horizon=12,
        hidden=(128, 128),
        critics=1,
        actor_heads=12,
        actor_objective="value",
        updates_per_episode=8,
        batch_size=128,
        target_rate=0.02,
        goal_future=0.0,
        goal_episode=0.0,
        goal_random=0.3,
        goal_nearby=0.7,
        rule_out=True,
        skip_ruled_out=True,
        evaluate_every=2_000,
        checkpoint_every=2_000,
    )


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


def gymnasium_defaults() -> Config:
    """The settings that any Gymnasium environment starts from."""
    return ROBOT


def recorded_defaults() -> Config:
    """The settings that recorded episodes without an environment start from."""
    return replace(ROBOT, env="")


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
        ROBOT,
        env="FetchPush-v4",
        env_steps=100_000,
        random_episodes=100,
        updates_per_step=1.0,
        learning_rate_decay="cosine",
    )


def fetch_pick_and_place() -> Config:
    """FetchPickAndPlace: a block taken to a point in the air, 250,000 steps."""
    return replace(ROBOT, env="FetchPickAndPlace-v4")


def fetch_slide() -> Config:
    """FetchSlide: a puck hit so that it slides to a point out of reach, 500,000 steps."""
    return replace(ROBOT, env="FetchSlide-v4", env_steps=500_000)


def hand_reach() -> Config:
    """HandReach: the five fingertips to their places, 500,000 steps."""
    return replace(ROBOT, env="HandReach-v3", env_steps=500_000)


def hand_manipulate_pen_full() -> Config:
    """HandManipulatePenFull: a pen turned in the hand to a position and rotation, 1,000,000 steps."""
    return replace(
        ROBOT,
        env="HandManipulatePenFull-v1",
        env_steps=1_000_000,
        updates_per_step=0.25,
        pair_tries=1,  # its check takes one pair at a time
        goal_scale=(10.0, 10.0, 10.0, 1.0, 1.0, 1.0, 1.0),
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
        env_steps=300_000,
        updates_per_step=0.1,
        evaluate_every=30_000,
        checkpoint_every=30_000,
    )


def point_maze_medium() -> Config:
    """PointMaze, medium: as the small one, each action taken twelve times."""
    return replace(
        point_maze_umaze(),
        env="PointMaze_Medium-v3",
        action_repeat=12,
        env_steps=1_000_000,
        evaluate_every=100_000,
        checkpoint_every=100_000,
    )


def as_td3(config: Config) -> Config:
    """TD3 with hindsight (continuous actions): no horizon, rewards −1 and 0, discount 0.98.

    Four goals of five come from the episode's future, the others are what it was after.
    """
    return replace(_with_goals(config, future=0.8, episode=0.2), method="td3", max_horizon=1, actor_heads=1)


def as_her(config: Config) -> Config:
    """Double deep Q-learning with hindsight (numbered actions): no horizon, rewards −1 and 0, discount 0.98.

    Four goals of five come from the episode's future, the others are what it was after.
    """
    return replace(_with_goals(config, future=0.8, episode=0.2), method="her", max_horizon=1, actor_heads=1)


def as_gcsl(config: Config) -> Config:
    """GCSL (numbered actions): learns to repeat what led to a later state of an episode; no horizon.

    `--form sampled-horizon --max-horizon 50` tells the network how many steps it took.
    """
    free = replace(config, form="all-horizons", max_horizon=1, actor_heads=1)
    return replace(_with_goals(free, future=1.0), method="gcsl")


def as_a_learning(config: Config) -> Config:
    """A-learning: the probability of being at the goal after exactly h steps (appendix C).

    Reaching a goal ends no episode, pairs that reach it are trained on as they come, and no horizons vote:
    neighbours need not agree.
    """
    return replace(config, method="a-learning", end_at_success=False, goal_tries=1, pair_tries=1, vote=0)


def as_d_learning(config: Config) -> Config:
    """D-learning (numbered actions): γ in place of h (appendix D), trained on [0, 1]; acts with 0.9."""
    return replace(config, method="d-learning", form="sampled-horizon", discount=0.9)


def as_monotone(config: Config) -> Config:
    """C-learning by a network that rises with h: hazards, or in the paper's form Sill's min-max network."""
    return replace(config, monotone=True)


def _with_goals(config: Config, future: float = 0.0, episode: float = 0.0) -> Config:
    return replace(config, goal_future=future, goal_episode=episode, goal_random=0.0, goal_nearby=0.0)


def as_tdm(config: Config) -> Config:
    """Temporal difference models on the same environment, in the dense setting of their paper."""
    return replace(config, method="tdm", form="sampled-horizon", kappa=0.0, action_penalty=0.0)


def as_naive_q(config: Config) -> Config:
    """Naive horizon-aware Q: a horizon drawn once per episode, counted down, learned by the squared loss."""
    return replace(config, method="naive-q", form="sampled-horizon")


def as_uniform_h(config: Config) -> Config:
    """The paper's form of C-learning with horizons drawn uniformly."""
    return replace(config, form="sampled-horizon", kappa=0.0)


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


def paper_fetch_pick_and_place() -> Config:
    """The paper's FetchPickAndPlace (appendix F.4): 40,000 episodes, 600×3 networks, 64 updates per episode.

    Deviations, numbered as in docs/presets.md: (1) horizons by p(h) ∝ h^(−κ(1−n/N)); (3) random episodes on
    top; (4) episode goals uniform; (7) episodes end at success; (9) 20 % of the goals are what the episode
    was after; (15) episodes chosen uniformly; (16) 600×3 networks on normalised inputs; (17) noise 0.3 and
    random actions with probability 0.3; (18) targets averaged at every update; (19) eight episodes at a time.
    """
    return replace(PAPER_ROBOT, env="FetchPickAndPlace-v4", updates_per_episode=64)


def paper_hand_manipulate_pen_full() -> Config:
    """The paper's HandManipulatePenFull (appendix F.5): 60,000 episodes, 80 updates per episode.

    Deviations as for FetchPickAndPlace, and (20) 61 observations instead of 63.
    """
    return replace(PAPER_ROBOT, env="HandManipulatePenFull-v1", episodes=60_016, updates_per_episode=80)


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
    "cat-and-mouse": cat_and_mouse,
    "fetch-reach": fetch_reach,
    "fetch-push": fetch_push,
    "fetch-pick-and-place": fetch_pick_and_place,
    "fetch-slide": fetch_slide,
    "hand-reach": hand_reach,
    "hand-manipulate-pen-full": hand_manipulate_pen_full,
    "point-maze-umaze": point_maze_umaze,
    "point-maze-medium": point_maze_medium,
    "paper/frozen-lake": paper_frozen_lake,
    "paper/mini-maze": paper_mini_maze,
    "paper/dubins-car": paper_dubins_car,
    "paper/fetch-pick-and-place": paper_fetch_pick_and_place,
    "paper/hand-manipulate-pen-full": paper_hand_manipulate_pen_full,
}
PEERS: dict[str, Callable[[Config], Config]] = {
    "gcsl": as_gcsl,
    "her": as_her,
    "td3": as_td3,
    "tdm": as_tdm,
    "a-learning": as_a_learning,
    "d-learning": as_d_learning,
    "naive-q": as_naive_q,
    "uniform-h": as_uniform_h,
    "monotone": as_monotone,
}
"""The paper's other methods and variants; `td3/fetch-push` is the preset fetch-push trained by td3."""


def preset(name: str) -> Config:
    """A preset's config by name; an unknown name is answered with the nearest known one."""
    peer, _, rest = name.partition("/")
    if peer in PEERS:
        config = preset(rest)
        if peer not in ("uniform-h", "monotone"):  # other methods have no C that would find a frontier
            config = replace(config, frontier=0.0)
        return PEERS[peer](config)
    if name not in PRESETS:
        known = [*PRESETS, *(f"{p}/{rest}" for p in PEERS if rest)]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else "See `clearning presets` for all."
        raise UsageError(f"There is no preset '{name}'. {hint}")
    return PRESETS[name]()


def describe_preset(name: str) -> str:
    """What a preset says of itself."""
    peer, _, rest = name.partition("/")
    if peer in PEERS:
        return f"{inspect.getdoc(PEERS[peer])}\n\nThe environment's preset: {describe_preset(rest)}"
    return inspect.getdoc(PRESETS[name]) or ""
