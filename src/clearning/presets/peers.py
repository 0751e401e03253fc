"""The paper's other methods and variants: what each changes in an environment's preset."""

from dataclasses import replace

from clearning.config import Config


def as_td3(config: Config) -> Config:
    """TD3 with hindsight (continuous actions): no horizon, rewards −1 and 0, discount 0.98.

    Four goals of five come from the episode's future, the others are what it was after. Two critics, a
    delayed actor and averaged targets, as in the paper's algorithm 2, which has no noise in the targets.
    """
    twins = replace(_without_horizon(config), critics=2)
    return replace(_with_goals(twins, future=0.8, episode=0.2), method="td3")


def as_her(config: Config) -> Config:
    """Double deep Q-learning with hindsight (numbered actions): no horizon, rewards −1 and 0, discount 0.98.

    Four goals of five come from the episode's future, the others are what it was after (first).
    """
    return replace(_with_goals(_without_horizon(config), future=0.8, episode=0.2), method="her")


def as_gcsl(config: Config) -> Config:
    """GCSL (numbered actions): learns to repeat what led to a later state of an episode; no horizon.

    It explores by drawing actions from its policy, and by nothing else: random ones would be repeated too,
    and so would ways by goals that came before.
    `--form sampled-horizon --max-horizon 50` tells the network how many steps it took.
    """
    free = replace(_without_horizon(config), epsilon=0.0, epsilon_decay=0.0, new_goal_at_success=False)
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


def _without_horizon(config: Config) -> Config:
    """One output for each action, which is no horizon's, and one action proposed."""
    alone = {"actor_heads": 1, "spread_actions": 0, "spread_in_targets": 0}
    return replace(config, form="all-horizons", max_horizon=1, **alone)


def _with_goals(config: Config, future: float = 0.0, episode: float = 0.0) -> Config:
    return replace(config, goal_future=future, goal_episode=episode, goal_random=0.0, goal_nearby=0.0)


def as_tdm(config: Config) -> Config:
    """Temporal difference models on the same environment, in the dense setting of their paper.

    They learn the distance after exactly h steps: reaching a goal ends no episode, pairs that reach it are
    trained on as they come, and no value is ruled out, for 0 is the best there is.
    """
    free = replace(config, end_at_success=False, goal_tries=1, pair_tries=1, rule_out=False, vote=0)
    return replace(free, method="tdm", form="sampled-horizon", kappa=0.0, action_penalty=0.0)


def as_naive_q(config: Config) -> Config:
    """Naive horizon-aware Q: a horizon drawn once per episode, counted down, learned by the squared loss."""
    return replace(config, method="naive-q", form="sampled-horizon")


def as_uniform_h(config: Config) -> Config:
    """The paper's form of C-learning with horizons drawn uniformly."""
    return replace(config, form="sampled-horizon", kappa=0.0)


def as_past_holes(config: Config) -> Config:
    """Dead states are looked beyond, as in the authors' code, by C-learning or another method named after it.

    No transition leaves a hole, so what a network makes of its neighbours is what falling in is worth.
    """
    return replace(config, dead_ends=False)
