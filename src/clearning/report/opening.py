"""A run folder opened for questions: its agent, its world, and the dial that was asked for."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from clearning.agent import Agent, check_share
from clearning.envs import (
    ExternalEnv,
    FrozenLake,
    MiniMaze,
    make_world,
    refuse_foreign_module,
)
from clearning.envs.grid import cell_numbers
from clearning.errors import UsageError
from clearning.rollout import Dial, check_dial, own_dial
from clearning.runs import RunFolder


def dial_from(
    alpha: float | None, horizon: int | None, receding: bool = False, discount: float | None = None
) -> Dial | None:
    """The dial a user asked for; None for the run's own."""
    if alpha is not None and horizon is not None:
        raise UsageError("Give either --alpha or --horizon: alpha is a way to pick the horizon.")
    if receding and horizon is None:
        raise UsageError("--receding says what to do with a --horizon: give both.")
    if discount is not None and (alpha is not None or horizon is not None):
        raise UsageError("--discount is d-learning's dial and goes with no other.")
    if horizon is not None:
        if horizon < 1:
            raise UsageError(f"--horizon must be at least 1, not {horizon}.")
        return Dial(horizon=horizon, receding=receding)
    if discount is not None:
        return Dial(discount=check_share(discount, "discount"))
    return None if alpha is None else Dial(check_share(alpha, "alpha"))


def complete_dial(dial: Dial | None, agent: Agent) -> Dial:
    """The dial that was asked for, if the agent has it, or the agent's own; with its own voting."""
    own = own_dial(agent.config)
    if dial is None:
        return own
    kind = "horizon" if dial.horizon else "alpha" if dial.discount is None else "discount"
    check_dial(agent.config, kind)
    if dial.horizon > agent.max_horizon:
        raise UsageError(f"--horizon must be in 1..{agent.max_horizon}, not {dial.horizon}.")
    return dial._replace(method=own.method, vote=0 if dial.horizon else own.vote)


def open_run(folder: RunFolder, dial: Dial | None) -> tuple[Agent, Dial, Any, dict[str, Any]]:
    config, _, record = folder.read()
    if record.get("custom_env"):
        raise UsageError(f"{folder.path} was trained on your own environment: evaluate it from Python.")
    refuse_foreign_module(config)
    agent = Agent.load(folder.agent_file)
    env = make_world(config)
    folder.refuse_changed_spaces(env.spec)
    return agent, complete_dial(dial, agent), env, record


@contextmanager
def closing(env: Any, episodes: int | None) -> Iterator[None]:
    """Ends an environment's processes; a number of episodes makes sense for those only that have them."""
    external = isinstance(env, ExternalEnv)
    if episodes is not None and not external:
        raise UsageError(f"{env.spec.name} has a test set of its own: --episodes is for Gymnasium's.")
    try:
        yield
    finally:
        if external:
            env.close()


def checked_pair(env: Any, state: Sequence[float], goal: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    spec = env.spec
    for values, size, what in ((state, _state_size(env), "state"), (goal, spec.goal_size, "goal")):
        if len(values) != size or not all(map(math.isfinite, values)):
            raise UsageError(f"The {what} of {spec.name} has {size} finite numbers, not {list(values)}.")
    refusal = env.refuse(np.asarray(state, np.float32))
    if refusal:
        raise UsageError(f"Bad state: {refusal}.")
    start, end = np.asarray(state, np.float32), np.asarray(goal, np.float32)
    if (end < spec.goal_low).any() or (end > spec.goal_high).any():
        raise UsageError(
            f"The goal {list(goal)} is off the map: it must lie in {spec.goal_low}..{spec.goal_high}."
        )
    if isinstance(env, FrozenLake | MiniMaze) and tuple(end.tolist()) not in cell_numbers(env.cells):
        raise UsageError(f"The goal {list(goal)} is not a free cell.")
    return start, end


@lru_cache(maxsize=16)
def _state_size(env: Any) -> int:
    return jax.eval_shape(env.initial_state, jax.random.key(0)).shape[0]


def dial_record(dial: Dial) -> dict[str, Any]:
    if dial.horizon:
        return {"horizon": dial.horizon, "receding": dial.receding}
    if dial.discount is not None:
        return {"discount": dial.discount}
    return {"alpha": dial.alpha}
