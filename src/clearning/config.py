"""Every number of a training, in one frozen record."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from clearning.errors import UsageError
from clearning.records import check_fields, check_name, record_from
from clearning.types import Method

AT_LEAST_ONE = ("parallel_envs", "max_horizon", "updates_per_episode", "batch_size", "goal_tries")
AT_LEAST_ONE += ("buffer_capacity", "evaluate_every", "checkpoint_every", "test_episodes", "action_repeat")
AT_LEAST_ONE += ("goal_candidates", "pair_tries", "critics", "actor_heads", "actor_delay", "update_chunk")
NOT_NEGATIVE = ("vote", "episodes", "env_steps", "random_episodes", "epsilon_decay", "target_period", "kappa")
NOT_NEGATIVE += ("noise", "updates_per_step", "action_penalty", "max_episode_steps", "processes")
NOT_NEGATIVE += ("final_share", "updates", "reached_within", "goal_nearness", "spread_actions")
NOT_NEGATIVE += ("spread_in_targets", "action_penalty_decay")
# More than anybody's training needs, and little enough that a config from a stranger cannot take the machine.
AT_MOST = {"max_horizon": 10_000, "max_episode_steps": 100_000, "parallel_envs": 10_000, "processes": 1_000}
AT_MOST |= {"critics": 100, "goal_tries": 1_000, "pair_tries": 1_000, "goal_candidates": 10_000}
AT_MOST |= {"updates_per_episode": 100_000, "update_chunk": 100_000, "batch_size": 1_000_000}
AT_MOST |= {"test_episodes": 1_000_000, "action_repeat": 10_000, "spread_actions": 10_000}
LAYERS, WIDTH = 100, 65_536  # of a network, at most


@dataclass(frozen=True)
class Config:
    """Settings of a training. The defaults are those of our all-horizon form on Dubins' car."""

    env: str = "dubins-car"
    """Environment: one of ours (frozen-lake, mini-maze, dubins-car, cat-and-mouse) or any Gymnasium id."""
    env_options: dict[str, bool | int | float | str] = field(default_factory=dict, metadata={"open": True})
    """Options of the environment, as in `--env-options walls False turn_degrees 5`."""
    max_episode_steps: int = 0
    """Gymnasium only: steps of an episode at most; 0 for the environment's own limit."""
    action_repeat: int = 1
    """Gymnasium only: take each action this many times. One such step is one step of the horizon."""
    processes: int = 0
    """Gymnasium only: processes that step the environments; 0 for one per core."""
    env_timeout: float = 300.0
    """Gymnasium only: seconds that a process may take for a reset or a step before it counts as hung."""

    # How long, and how much of it is random.
    episodes: int = 1000
    """Episodes in all, the random ones included; 0 for no limit but `env_steps`."""
    env_steps: int = 0
    """Stop at this many environment steps even if episodes are left; 0 for no such limit."""
    updates: int = 0
    """Stop at this many updates even if episodes are left; 0 for no such limit."""
    from_episodes: str = ""
    """Learn from these recorded episodes instead of collecting any: an .npz or HDF5 file, or the name of a
    Minari dataset. Without `updates`, as many are made as the episodes or steps would bring."""
    reached_within: float = 0.0
    """The distance between goals at which one counts as reached: for recorded episodes without an
    environment, and for a Gymnasium environment that has no compute_reward."""
    random_episodes: int = 15
    """Episodes of random actions before the first update."""
    parallel_envs: int = 1
    """Episodes collected at once; updates follow for each of them."""
    epsilon: float = 0.1
    """Probability of a random action when collecting."""
    epsilon_decay: float = 0.0
    """When positive, n episodes in, epsilon is divided by 1 + n / epsilon_decay."""
    alpha: float = 0.9
    """The dial: the smallest horizon with this share of the best probability."""
    vote: int = 0
    """Horizons on either side of the dial's that vote on the action; 0 for that horizon alone."""
    explore_alpha: float = 0.0
    """When positive, a dial between this and 1 is drawn for all episodes that are collected at once, so that
    quick and safe ways are both seen. Not for Gymnasium environments."""
    noise: float = 0.2
    """Continuous actions: deviation of the noise on an action in [-1, 1] when collecting."""
    new_goal_at_success: bool = False
    """When an episode reaches its goal, draw another and go on to the full length, instead of ending. Not for
    Gymnasium environments."""
    end_at_success: bool = True
    """An episode ends where it reaches its goal, unless it is given a new one; A-learning's go on there."""
    goal_candidates: int = 1
    """Goals drawn when an episode needs one; it goes after the one that was reached least often so far. Not
    for Gymnasium environments."""
    frontier: float = 0.0
    """Gymnasium only: share of the episodes that go after something achieved before instead of the
    environment's goal: of 32 such goals the one that C holds neither sure nor hopeless."""

    # What is learned, and by which network.
    method: Method = "c-learning"
    """C-learning, or a peer (see docs/method.md)."""
    discount: float = 0.98
    """Discount of the methods without a horizon, and the one that d-learning acts with unless told."""
    goal_scale: tuple[float, ...] = ()
    """Factors of the goal's coordinates in the distance that tdm learns by; empty for 1 each."""
    form: Literal["all-horizons", "sampled-horizon"] = "all-horizons"
    """All horizons as outputs (ours), or one sampled horizon as an input (the paper's)."""
    max_horizon: int = 50
    """H, the largest horizon."""
    monotone: bool = False
    """C rises with h by construction: hazards summed up over all horizons, or Sill's min-max network."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers."""
    layer_norm: bool = True
    """Normalise each hidden layer before its ReLU."""
    features: Literal["raw", "scaled", "relative", "one-hot", "normalised"] = "relative"
    """Inputs as they are, scaled to [-1, 1], with the goal's relative position, one indicator per cell, or
    by the running mean and deviation of what was collected."""
    support: float = 0.0
    """Numbered actions: those that were taken less than this share as often as the commonest in such a state
    count as failing (for recorded episodes that did not try everything); 0 for none."""
    critics: int = 2
    """Continuous actions: critics; the target takes the least of them."""
    actor_heads: int = 1
    """Continuous actions, all horizons: actions proposed, each for its own part of the horizons."""
    spread_actions: int = 0
    """Continuous actions, all horizons: actions spread over all there are, proposed everywhere beside the
    actor's. Where actions have few dimensions, the best of them misses little."""
    spread_in_targets: int = 0
    """How many of these the targets choose from; the others are for acting, which costs less."""

    # The updates.
    updates_per_episode: int = 80
    """Updates after each episode."""
    updates_per_step: float = 0.0
    """When positive, updates per environment step instead of per episode."""
    update_chunk: int = 25
    """Updates made in one go where they are counted per step."""
    final_share: float = 0.0
    """After the last episode, go on updating this share of the training, down the learning rate once more."""
    batch_size: int = 256
    """Transitions per update."""
    learning_rate: float = 1e-3
    """Adam's learning rate at the start."""
    learning_rate_decay: Literal["constant", "cosine", "step"] = "cosine"
    """How the rate falls: not at all, along a half cosine, or to a tenth after `decay_at` of the training."""
    decay_at: float = 2 / 3
    """When the "step" decay happens, as a fraction of the training."""
    target_period: int = 0
    """Copy the network to the target every so many updates; 0 to average it in at every update."""
    target_rate: float = 0.01
    """Rate of the averaged target."""
    act_with: Literal["network", "average"] = "average"
    """Which weights a trained agent acts with: the last ones, or the averaged target's."""
    actor_delay: int = 2
    """Continuous actions: updates of the critics for one of the actor."""
    actor_objective: Literal["log", "log-mean", "logit", "value"] = "log"
    """Continuous actions: what the actor maximises. The logarithm of the probability neither vanishes where
    it is small nor grows where it is sure, but pulls hardest at horizons that are too short; that of its mean
    over the horizons counts them alike. Or the critic's output as it is, or the probability itself."""
    action_penalty: float = 0.0
    """Continuous actions: weight in the actor's loss of the squared action, taken before tanh bounds it."""
    action_penalty_decay: float = 0.0
    """Share of that weight which is given up evenly by the end of the training; over 1, sooner."""
    action_penalty_from: float = 0.0
    """When the weight begins to fall, as a fraction of the training: once the goals are reached, they may be
    reached at full speed."""
    action_penalty_least: float = 0.01
    """Share of the weight that is always left: without any price actions run to their bounds."""

    # Which transitions, which goals, which horizons.
    choose: Literal["transition", "episode", "recent"] = "transition"
    """Draw transitions uniformly, or episode first (uniformly or favouring recent ones)."""
    goal_future: float = 0.56
    """Share of goals achieved later in the same episode (hindsight)."""
    goal_episode: float = 0.14
    """Share of goals that the episode was after."""
    goal_random: float = 0.3
    """Share of goals drawn as the environment draws them."""
    goal_nearby: float = 0.0
    """Share of goals drawn among those that a sampled horizon might reach (appendix F)."""
    goal_nearness: float = 0.0
    """All-horizon form: that horizon is drawn with p(h) ∝ h^(−goal_nearness), so that more goals are near."""
    goal_tries: int = 2
    """Draws of a goal before a pair whose goal is already reached is left out."""
    pair_tries: int = 1
    """When over 1, transition and goal are drawn anew together, up to so many times, while the goal is
    reached already: where little moves by itself, the transitions that lead somewhere are rare."""
    rule_out: bool = False
    """Set targets to 0 where the environment's distance shows that the goal is too far (appendix F)."""
    skip_ruled_out: bool = False
    """When acting, leave out horizons that the environment's distance rules out."""
    dead_ends: bool = True
    """A dead state, such as a hole, ends what is looked ahead to; without, it is looked beyond."""
    kappa: float = 3.0
    """Sampled horizons favour small ones early: p(h) ∝ h^(−κ(1 − n/N)); 0 is uniform."""
    buffer_capacity: int = 200_000
    """States kept for replay."""

    # What is written, and when.
    every_counts: Literal["episodes", "steps", "updates"] = "episodes"
    """What the next two settings count: episodes, environment steps or updates."""
    evaluate_every: int = 100
    """Episodes (or steps, or updates) between evaluations."""
    test_episodes: int = 100
    """Gymnasium only: fresh episodes of an evaluation in training."""
    checkpoint_every: int = 100
    """Episodes (or steps, or updates) between checkpoints."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.env:  # recorded episodes need none
            check_name(self.env, "An environment")
        shares = (self.goal_future, self.goal_episode, self.goal_random, self.goal_nearby)
        _require(all(0 <= p <= 1 for p in shares), "goal shares must lie in 0..1", shares)
        _require(abs(sum(shares) - 1) < 1e-6, "the four goal shares must sum to 1", sum(shares))
        _require(0 < self.alpha <= 1, "alpha must lie in (0, 1]", self.alpha)
        _require(0 <= self.explore_alpha <= 1, "explore_alpha must lie in 0..1", self.explore_alpha)
        _require(0 <= self.epsilon <= 1, "epsilon must lie in 0..1", self.epsilon)
        begins, least = self.action_penalty_from, self.action_penalty_least
        _require(0 <= begins < 1, "action_penalty_from must lie in [0, 1)", begins)
        _require(0 <= least <= 1, "action_penalty_least must lie in 0..1", least)
        _require(0 <= self.support <= 1, "support must lie in 0..1", self.support)
        _require(not (self.support and self.method == "gcsl"), "support is for values", self.method)
        _require(0 <= self.frontier <= 1, "frontier must lie in 0..1", self.frontier)
        _require(0 < self.target_rate <= 1, "target_rate must lie in (0, 1]", self.target_rate)
        _require(0 < self.discount < 1, "discount must lie in (0, 1)", self.discount)
        sampled = self.form == "sampled-horizon"
        horizon_free = self.method in ("her", "td3")
        one = horizon_free or (self.method == "gcsl" and not sampled)
        _require(not one or self.max_horizon == 1, f"{self.method} needs max_horizon 1", self.max_horizon)
        _require(not (horizon_free and sampled), f"{self.method} has no horizon as an input", self.form)
        told = self.method == "gcsl" and sampled
        _require(not told or self.max_horizon > 1, "gcsl in this form needs a max_horizon over 1", 1)
        other_form = self.method in ("naive-q", "d-learning") and not sampled
        _require(not other_form, f"{self.method} needs the other form", self.form)
        _require(not self.monotone or self.method == "c-learning", "only C is monotone in h", self.method)
        dense = self.method == "tdm" and self.rule_out
        _require(not dense, "rule_out is for probabilities", self.method)
        by_step = bool(self.final_share and self.updates_per_step)
        _require(not by_step, "final_share goes with updates_per_episode", "updates_per_step")
        probable = self.method == "c-learning" or not self.frontier
        _require(probable, "frontier needs the probabilities of c-learning", self.method)
        _require(self.learning_rate > 0, "learning_rate must be positive", self.learning_rate)
        _require(self.env_timeout > 0, "env_timeout must be positive", self.env_timeout)
        budget = self.episodes or self.env_steps or self.updates
        _require(budget, "episodes, env_steps or updates must be positive", 0)
        for name in AT_LEAST_ONE:
            _require(getattr(self, name) >= 1, f"{name} must be at least 1", getattr(self, name))
        for name in NOT_NEGATIVE:
            _require(getattr(self, name) >= 0, f"{name} must not be negative", getattr(self, name))
        for name, most in AT_MOST.items():
            _require(getattr(self, name) <= most, f"{name} must be at most {most}", getattr(self, name))
        heads_fit = self.actor_heads <= self.max_horizon
        _require(heads_fit, f"actor_heads must be at most max_horizon {self.max_horizon}", self.actor_heads)
        fewer = f"spread_in_targets must be at most spread_actions {self.spread_actions}"
        _require(self.spread_in_targets <= self.spread_actions, fewer, self.spread_in_targets)
        _require(len(self.hidden) <= LAYERS, f"hidden layers must be at most {LAYERS}", len(self.hidden))
        for width in self.hidden:
            _require(1 <= width <= WIDTH, f"hidden widths must lie in 1..{WIDTH}", width)


def _require(holds: Any, rule: str, value: Any) -> None:
    if not holds:
        raise UsageError(f"Bad setting: {rule}, not {value}.")


def replace_settings(config: Config, settings: Mapping[str, Any]) -> Config:
    """A config with some settings changed; an unknown name is answered with the nearest known one."""
    known = [f.name for f in fields(Config)]
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            raise UsageError(f"There is no setting '{name}'.{hint}")
    return replace(config, **settings)


def config_from_dict(values: Any) -> Config:
    """A config read back from JSON. Settings it lacks are younger than it and keep their defaults."""
    return record_from(Config, values, "The config")
