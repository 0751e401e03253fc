"""What an agent, or those of several seeds together, hold of reaching a goal in time."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from clearning.agent import Agent
from clearning.ensemble import Ensemble
from clearning.envs import (
    ENVIRONMENTS,
    make,
)
from clearning.errors import UsageError
from clearning.report.opening import checked_pair
from clearning.runs import run_folders


def ask(
    run: str,
    state: Sequence[float],
    goal: Sequence[float],
    horizon: int | None = None,
    probability: float | None = None,
    curve: bool = False,
    monotone: bool = False,
) -> dict[str, Any]:
    """What a run's agent, or those of all seeds in a folder together, hold of reaching a goal in time."""
    if (horizon is not None) + (probability is not None) + curve > 1:
        raise UsageError("Give one of --horizon, --probability and --curve: each asks something else.")
    agents = _agents_to_ask(run)
    observation, end = _asked_pair(agents[0], state, goal)
    asked = Ensemble(agents)
    answer: dict[str, Any] = {"run": str(run), "agents": len(agents)}
    answer |= {"state": list(state), "goal": list(goal)}
    if horizon is None and not curve:
        wanted = 0.9 if probability is None else probability
        smallest = asked.min_horizon(observation, end, wanted, monotone)
        return answer | {"probability": wanted, "min_horizon": smallest, "max_horizon": asked.max_horizon}
    if curve:
        answer["horizon"] = list(range(1, asked.max_horizon + 1))
        found = asked.reach_curve(observation, end, monotone)
    else:
        answer["horizon"] = horizon
        found = asked.reach_probability(observation, end, horizon, monotone)  # pyright: ignore[reportArgumentType]
    answer["probability"] = np.asarray(found.probability).tolist()
    return answer | ({"disagreement": np.asarray(found.disagreement).tolist()} if len(agents) > 1 else {})


def _agents_to_ask(run: str) -> list[Agent]:
    if Path(run).is_file():
        return [Agent.load(run)]
    folders = run_folders(run)
    for folder in folders:
        folder.read()
    return [Agent.load(folder.agent_file) for folder in folders]


def _asked_pair(agent: Agent, state: Sequence[float], goal: Sequence[float]) -> tuple[Any, Any]:
    """An observation and a goal from a state as `oracle` takes it; from an observation where only the
    environment's owner knows its states."""
    config, spec = agent.config, agent.spec
    if config.env in ENVIRONMENTS:
        env = make(config.env, config.env_options)
        start, end = checked_pair(env, state, goal)
        return np.asarray(env.observe(jnp.asarray(start))), end
    for values, size, what in ((state, spec.observation_size, "observation"), (goal, spec.goal_size, "goal")):
        if len(values) != size or not all(map(math.isfinite, values)):
            raise UsageError(f"The {what} of {spec.name} has {size} finite numbers, not {list(values)}.")
    return state, goal
