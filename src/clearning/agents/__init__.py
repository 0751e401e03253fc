"""One learner per kind of action; never imports environments."""

from types import ModuleType

from clearning.agents import continuous, discrete
from clearning.types import EnvSpec


def learner_kind(spec: EnvSpec) -> ModuleType:
    """The module with `start` and `update` for an environment's kind of action."""
    return continuous if spec.continuous else discrete
