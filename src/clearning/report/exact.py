"""The exact answers, where a world has them: dynamic programming on grids, search for the car."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from clearning.core.tabular import optimal_c_from, optimal_c_last
from clearning.envs import (
    CatAndMouse,
    DubinsCar,
    FrozenLake,
    MiniMaze,
    make,
)
from clearning.envs.cat_and_mouse import exact_success
from clearning.envs.grid import cell_numbers
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import UsageError
from clearning.report.opening import checked_pair


def exact_best(env: FrozenLake | MiniMaze, start: np.ndarray, horizon: int) -> np.ndarray:
    """max_a C*(start, a, g, h), indexed [h − 1, g]."""
    return optimal_c_from(env.mdp, cell_numbers(env.cells)[tuple(start.astype(int).tolist())], horizon)


def best_success(env: Any, goals: np.ndarray, horizons: int) -> np.ndarray | None:
    """The largest possible success on the test goals within h = 1..H steps; None where nobody knows."""
    if isinstance(env, CatAndMouse):
        test = env.test_set()
        start, goal = test.state[0, :2].tolist(), test.goal[0].tolist()
        return exact_success(tuple(start), tuple(goal), horizons)
    if not isinstance(env, DubinsCar | FrozenLake | MiniMaze):
        return None
    start = env.test_set().state[0]
    if isinstance(env, DubinsCar):
        steps = fewest_steps(env, start, goals)
        assert steps is not None
        return ((steps != NEVER) & (steps <= np.arange(1, horizons + 1)[:, None])).mean(1)
    number = cell_numbers(env.cells)
    return exact_best(env, start, horizons)[:, [number[tuple(g)] for g in goals.astype(int).tolist()]].mean(1)


def oracle(
    name: str, options: Mapping[str, Any], state: Sequence[float], goal: Sequence[float], horizon: int
) -> dict[str, Any]:
    """The exact probability of reaching a goal within a horizon, and the action that gives it."""
    if horizon < 1:
        raise UsageError(f"--horizon must be at least 1, not {horizon}.")
    env = make(name, options)
    start, end = checked_pair(env, state, goal)
    answer: dict[str, Any] = {"env": name, "state": list(state), "goal": list(goal), "horizon": horizon}
    if isinstance(env, CatAndMouse):  # its actions are a continuum, of which only the value is computed
        (x, y, caught), (goal_x, goal_y) = start.tolist(), end.tolist()
        there = bool(env.reached(jnp.array([x, y]), jnp.array([goal_x, goal_y])))
        best = 0.0
        if there or not caught:
            best = float(exact_success((x, y), (goal_x, goal_y), horizon)[-1])
        return answer | {"probability": best, "method": "dynamic programming on a grid"}
    steps = fewest_steps(env, start, end[None], limit=horizon)
    assert steps is not None
    answer["fewest_steps"] = None if steps[0] == NEVER else int(steps[0])
    if isinstance(env, FrozenLake | MiniMaze):
        number = cell_numbers(env.cells)
        values = optimal_c_last(env.mdp, horizon)[
            number[tuple(map(int, state))], :, number[tuple(map(int, goal))]
        ]
        return answer | _best_action(env, values, bool(steps[0] == 0))
    values = _car_values(env, start, end, horizon)
    return (
        answer | _best_action(env, values, bool(steps[0] == 0)) | {"method": "search over real trajectories"}
    )


def _car_values(env: Any, start: np.ndarray, goal: np.ndarray, horizon: int) -> np.ndarray:
    """C* of each first action of the car, which is 0 or 1: search again from where the action leads."""
    values = []
    for action in range(env.spec.num_actions):
        after = np.asarray(env.step(jax.random.key(0), start, action))
        left = fewest_steps(env, after, goal[None], limit=horizon - 1)
        assert left is not None
        values.append(float(left[0] != NEVER))
    return np.array(values)


def _best_action(env: Any, values: np.ndarray, reached: bool) -> dict[str, Any]:
    best = int(values.argmax())
    names = env.spec.action_names
    return {
        "probability": 1.0 if reached else float(values.max()),
        "best_action": None if reached else names[best],
        "best_action_index": None if reached else best,
        "by_action": {n: float(v) for n, v in zip(names, values, strict=True)},
    }
