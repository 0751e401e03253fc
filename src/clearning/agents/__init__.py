"""One learner per kind of action, and one that imitates; never imports environments."""

from types import ModuleType

from clearning.agents import continuous, discrete, gcsl
from clearning.config import Config
from clearning.errors import UsageError
from clearning.types import EnvSpec, Method

NUMBERED_ONLY: tuple[Method, ...] = ("gcsl", "her", "d-learning")
INSTEAD = {"td3": "her", "her": "td3"}  # the same idea for the other kind of action


def learner_kind(spec: EnvSpec, config: Config) -> ModuleType:
    """The module with `start` and `update` for an environment's kind of action and a method."""
    if config.method == "gcsl":
        return gcsl
    return continuous if spec.continuous else discrete


def check_method(spec: EnvSpec, config: Config) -> None:
    """Refuse a method that does not know an environment's kind of action."""
    method = config.method
    wanted = "numbered" if method in NUMBERED_ONLY else "continuous" if method == "td3" else ""
    found = "continuous" if spec.continuous else "numbered"
    if wanted and wanted != found:
        hint = f": use {INSTEAD[method]}" if method in INSTEAD else ""
        raise UsageError(f"{method} is for {wanted} actions, and those of {spec.name} are {found}{hint}.")
