"""Goal environments: functional JAX worlds, their Gymnasium forms, and anybody's Gymnasium environment."""

import difflib
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import gymnasium

from clearning.config import Config
from clearning.envs.cat_and_mouse import CatAndMouse
from clearning.envs.dubins_car import DubinsCar
from clearning.envs.external import ExternalEnv
from clearning.envs.frozen_lake import FrozenLake
from clearning.envs.gymnasium_env import register
from clearning.envs.mini_maze import MiniMaze
from clearning.envs.testset import TestSet
from clearning.errors import UsageError
from clearning.types import GoalEnv

__all__ = [
    "ENVIRONMENTS",
    "CatAndMouse",
    "DubinsCar",
    "ExternalEnv",
    "FrozenLake",
    "MiniMaze",
    "TestSet",
    "make",
    "make_world",
]

ENVIRONMENTS = {
    "frozen-lake": FrozenLake,
    "mini-maze": MiniMaze,
    "dubins-car": DubinsCar,
    "cat-and-mouse": CatAndMouse,
}


def make(name: str, options: Mapping[str, Any] | None = None) -> Any:
    """An environment by name, with options by the names of its fields."""
    if name not in ENVIRONMENTS:
        near = difflib.get_close_matches(name, ENVIRONMENTS, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else f" Known: {', '.join(ENVIRONMENTS)}."
        raise UsageError(f"There is no environment '{name}'.{hint}")
    kind = ENVIRONMENTS[name]
    known = [f.name for f in fields(kind)]
    unknown = sorted(set(options or {}) - set(known))
    if unknown:
        raise UsageError(f"{name} has no option '{unknown[0]}'; its options are {', '.join(known)}.")
    return kind(**(options or {}))


def make_world(config: Config, env: Any = None) -> Any:
    """The environment that a config names, or a user's own, ready to be trained on."""
    limits = (config.max_episode_steps, config.action_repeat, config.processes)
    if isinstance(env, gymnasium.Env):
        return ExternalEnv(env, None, *limits)
    if env is not None:
        return _checked(env)
    if config.env not in ENVIRONMENTS and re.search(r"[:/]|-v\d+$", config.env):
        return ExternalEnv(config.env, config.env_options, *limits)
    return make(config.env, config.env_options)


def _checked(env: Any) -> Any:
    needed = [n for n in vars(GoalEnv) if not n.startswith("_")]
    missing = [name for name in needed if not hasattr(env, name)]
    if missing:
        raise UsageError(
            f"{type(env).__name__} is not a goal environment: it has no '{missing[0]}' "
            f"(see clearning.GoalEnv for what one needs, or give a gymnasium.Env)."
        )
    return env


register()
