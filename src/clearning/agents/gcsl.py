"""GCSL (Ghosh et al., 2019): imitate the actions that happened to lead to a goal. No values, no targets."""

from jax import Array

from clearning.agents.discrete import start
from clearning.agents.learner import Learner, Pace, step_on
from clearning.config import Config
from clearning.core.recursions import Rule
from clearning.types import Batch, Metrics, Network

__all__ = ["example_loss", "start", "update"]


def example_loss(rule: Rule, network: Network, x: Batch) -> Array:
    """Cross-entropy of the action taken where the goal is what the episode achieved x.horizon steps later."""
    logits = network.at(x.observation, x.goal, network.backed_up(x.horizon))[:, 0]
    return rule.loss(logits, x.action)


def update(
    learner: Learner, batch: Batch, rule: Rule, config: Config, pace: Pace, mask_reached: bool
) -> tuple[Learner, Metrics]:
    """One step of gradient descent on a batch; the target is only the average that may act."""
    return step_on(learner, lambda network, x: example_loss(rule, network, x), batch, config, pace)
