"""Stepping Gymnasium environments, here or in a process of its own.

Run as a script by its path, this file serves a few environments over a pipe. It imports nothing of the
package, so that a worker starts quickly and holds no JAX.
"""

import contextlib
import importlib
import io
import json
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

# Packages that register goal environments when imported; asked only when an id is not known yet.
PLUG_INS = ("clearning", "gymnasium_robotics", "panda_gym")
PARTS = ("observation", "achieved_goal", "desired_goal")


class Seen(NamedTuple):
    """What some environments showed after a reset or a step, one row each."""

    observation: np.ndarray
    achieved: np.ndarray
    desired: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    dead: np.ndarray  # 1 or 0 where the environment says so, −1 where it does not


def open_env(name: str, options: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """`gymnasium.make`, with the packages looked for that could know the name."""
    with contextlib.suppress(gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound):
        return gymnasium.make(name, disable_env_checker=True, **options)
    for package in PLUG_INS:
        # A package may print notices on import that are none of the user's concern.
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            module = importlib.import_module(package)
            gymnasium.register_envs(module)
    return gymnasium.make(name, disable_env_checker=True, **options)


class EnvGroup:
    """Several environments stepped one after another."""

    def __init__(self, envs: Sequence[gymnasium.Env[Any, Any]], action_repeat: int):
        self.envs, self.action_repeat = envs, action_repeat

    def reset(self, seeds: Sequence[int]) -> Seen:
        seen = [env.reset(seed=int(seed)) for env, seed in zip(self.envs, seeds, strict=False)]
        return _rows([(obs, False, False, info) for obs, info in seen])

    def step(self, which: Sequence[int], actions: np.ndarray) -> Seen:
        return _rows([self._step(self.envs[i], a) for i, a in zip(which, actions, strict=True)])

    def _step(self, env: gymnasium.Env[Any, Any], action: np.ndarray) -> tuple[Any, bool, bool, Any]:
        action = fitting(env.action_space, action)
        observation, _, terminated, truncated, info = env.step(action)
        for _ in range(self.action_repeat - 1):
            if terminated or truncated:
                break
            observation, _, terminated, truncated, info = env.step(action)
        return observation, bool(terminated), bool(truncated), info

    def close(self) -> None:
        for env in self.envs:
            env.close()


def fitting(space: Any, action: Any) -> Any:
    """An action of exactly the type, and within exactly the bounds, that an action space asks for."""
    if isinstance(space, gymnasium.spaces.Box):  # rounding can lead a little out of bounds
        return np.clip(action, space.low, space.high).astype(space.dtype)
    return int(action)


def _rows(seen: list[tuple[Any, bool, bool, Any]]) -> Seen:
    observation, achieved, desired = (_column([s[0][part] for s in seen], part) for part in PARTS)
    return Seen(
        observation,
        achieved,
        desired,
        np.array([s[1] for s in seen]),
        np.array([s[2] for s in seen]),
        np.array([-1 if (dead := s[3].get("dead")) is None else int(dead) for s in seen]),
    )


def _column(rows: list[Any], part: str) -> np.ndarray:
    shapes = {np.shape(row) for row in rows}
    if len(shapes) > 1:
        raise ValueError(f"its '{part}' came in shapes {' and '.join(map(str, sorted(shapes)))} at once")
    return np.array(rows, np.float32)


def registration(name: str) -> str:
    """What a process of its own must know of an id to open it without looking for it; "" if it must look.

    Its entry in Gymnasium's register, unless that holds what does not travel.
    """
    try:
        return gymnasium.registry[name].to_json()
    except Exception:  # not there, or by a function instead of its name
        return ""


def serve(
    connection: Connection,
    name: str,
    options: dict[str, Any],
    count: int,
    action_repeat: int,
    registered: str,
) -> None:
    """Answer requests until told to stop, or until nobody is left to ask."""
    group = None
    warnings.simplefilter("ignore")  # the training opened the environment too, and warned once
    try:
        if registered and name not in gymnasium.registry:
            gymnasium.registry[name] = EnvSpec.from_json(registered)
        with contextlib.redirect_stderr(io.StringIO()):  # notices, which the training has not shown either
            group = EnvGroup([open_env(name, options) for _ in range(count)], action_repeat)
        connection.send("ready")
        while True:
            request, *arguments = connection.recv()
            if request == "close":
                return
            connection.send(tuple(getattr(group, request)(*arguments)))
    except (EOFError, BrokenPipeError):
        return  # the training is gone
    except Exception as error:
        with contextlib.suppress(OSError):
            connection.send(told(error))
    finally:
        if group:
            group.close()


def told(error: Exception) -> str:
    """An exception in one line, with the place that raised it."""
    text = " ".join("".join(traceback.format_exception_only(error)).split())
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{text} ({place.filename}, line {place.lineno})"


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # meant for the training, which saves and then closes us
    recipe = json.loads(sys.argv[1])
    serve(Connection(recipe.pop("file")), **recipe)
