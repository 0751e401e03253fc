"""Goal environments: functional JAX worlds, their Gymnasium forms, and anybody's Gymnasium environment."""

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import gymnasium

from clearning.config import AT_MOST, Config
from clearning.envs.cat_and_mouse import CatAndMouse
from clearning.envs.check import EnvReport, check_env
from clearning.envs.dubins_car import DubinsCar
from clearning.envs.external import ExternalEnv
from clearning.envs.frozen_lake import FrozenLake
from clearning.envs.gymnasium_env import register
from clearning.envs.mini_maze import MiniMaze
from clearning.envs.testset import TestSet
from clearning.errors import UsageError
from clearning.records import check_fields
from clearning.types import GoalEnv

__all__ = [
    "ENVIRONMENTS",
    "CatAndMouse",
    "DubinsCar",
    "EnvReport",
    "ExternalEnv",
    "FrozenLake",
    "MiniMaze",
    "TestSet",
    "check_env",
    "is_gymnasium_id",
    "make",
    "make_world",
    "refuse_foreign_module",
    "require_environment",
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
        known = f" Known: {', '.join(ENVIRONMENTS)}, and Gymnasium ids, as in FetchReach-v4."
        hint = f" Did you mean '{near[0]}'?" if near else known
        raise UsageError(f"There is no environment '{name}'.{hint}")
    kind = ENVIRONMENTS[name]
    known = [f.name for f in fields(kind)]
    unknown = sorted(set(options or {}) - set(known))
    if unknown:
        raise UsageError(f"{name} has no option '{unknown[0]}'; its options are {', '.join(known)}.")
    world = kind(**(options or {}))
    check_fields(world)
    if not 1 <= world.max_episode_steps <= AT_MOST["max_episode_steps"]:
        raise UsageError(f"Bad option: max_episode_steps must lie in 1..{AT_MOST['max_episode_steps']}.")
    return world


def is_gymnasium_id(name: str) -> bool:
    """Whether a name is a Gymnasium id, or written like one, as in FetchReach-v4 or my_package:Robot-v0."""
    written = re.search(r"[:/]|-v\d+$", name) or name in gymnasium.registry
    return name not in ENVIRONMENTS and bool(written)


def refuse_foreign_module(config: Config) -> None:
    """A config from a file must not import a module, which runs it, that the user has not.

    To name it in a config of one's own is to ask for it.
    """
    module, colon, _ = config.env.partition(":")
    if colon and module not in sys.modules:
        raise UsageError(
            f"This run's environment is in the module '{module}', and a run folder imports nothing by "
            f"itself: if you trust it, say so with `clearning --import {module}` before the command, or "
            f"import it first in Python."
        )


def make_world(config: Config, env: Any = None) -> Any:
    """The environment that a config names, or a user's own, ready to be trained on."""
    limits = (config.max_episode_steps, config.action_repeat, config.processes, config.env_timeout)
    limits += (config.reached_within,)
    if isinstance(env, gymnasium.Env):
        world = ExternalEnv(env, None, *limits)
        world.refuse_more_than_one(config.parallel_envs)  # better told before any folder is made
        return world
    if isinstance(env, gymnasium.vector.VectorEnv):
        raise UsageError("This is a vector environment: give a single one, or its id and parallel_envs.")
    if env is None:
        require_environment(config)
    if env is None and is_gymnasium_id(config.env):
        return ExternalEnv(config.env, config.env_options, *limits)
    world = make(config.env, config.env_options) if env is None else _checked(env)
    own = {
        "max_episode_steps": "steps",
        "action_repeat": "steps",
        "reached_within": "check of what is reached",
    }
    for setting, what in own.items():
        if getattr(config, setting) != getattr(Config, setting):
            raise UsageError(
                f"{setting} is for Gymnasium environments; {world.spec.name} has its own {what}."
            )
    return world


def require_environment(config: Config) -> None:
    """Refuse what needs an environment where episodes were recorded without one."""
    if config.from_episodes and not config.env:
        raise UsageError(
            f"There is no environment to test in: this run learned from {config.from_episodes} alone. Its "
            f"agent answers `clearning ask`, and acts in yours."
        )


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
