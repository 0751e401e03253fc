"""Goal environments: functional JAX worlds, and their Gymnasium forms."""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from clearning.envs.dubins_car import DubinsCar
from clearning.envs.frozen_lake import FrozenLake
from clearning.envs.gymnasium_env import register
from clearning.envs.mini_maze import MiniMaze
from clearning.envs.testset import TestSet
from clearning.errors import UsageError

__all__ = ["ENVIRONMENTS", "DubinsCar", "FrozenLake", "MiniMaze", "TestSet", "make"]

ENVIRONMENTS = {"frozen-lake": FrozenLake, "mini-maze": MiniMaze, "dubins-car": DubinsCar}


def make(name: str, options: Mapping[str, Any] | None = None) -> FrozenLake | MiniMaze | DubinsCar:
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


register()
