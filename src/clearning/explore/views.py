"""One agent's answers as the page asks for them, and the exact answers beside them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import stats

from clearning.agent import Agent, check_share
from clearning.envs import CatAndMouse
from clearning.envs.cat_and_mouse import exact_reach
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import UsageError
from clearning.evaluate import run_episodes, run_horizons
from clearning.explore.world import by_chance, first_pair, lattice_of, require_map, state_from
from clearning.plots.curves import is_stochastic
from clearning.report import checked_pair, complete_dial, exact_best, open_run
from clearning.rollout import Dial
from clearning.runs import run_folders
from clearning.types import Episodes

SAMPLES = 24  # paths drawn where chance decides
SEARCH_CELL = 0.125  # of the car's search: four times faster than the finest, and longer by 0.02 steps
# How training draws its episodes; runs that differ only in these share a map.
TRAINING_OPTIONS = {"random_starts", "any_goal", "max_episode_steps"}


class View:
    """What one run's agent says and does on its map."""

    def __init__(self, name: str, agent: Agent, env: Any, record: dict[str, Any]):
        agent.require_c()
        self.name, self.agent, self.env, self.record = name, agent, env, record
        self.lattice = lattice_of(env)
        self.first_start, self.first_goal = first_pair(env)

    def heat(self, start: Sequence[float]) -> np.ndarray:
        """max_a C for every horizon and every goal of the lattice, (H, goals), 0..255 for 0..1."""
        state = self._state(start)
        return _as_bytes(self.agent.reach_curve(self._seen(state), self.lattice.goals))

    def truth(self, start: Sequence[float]) -> np.ndarray:
        """The exact C* as `heat` gives the learned C."""
        state, horizons, goals = self._state(start), self.agent.max_horizon, self.lattice.goals
        if isinstance(self.env, CatAndMouse):
            return _as_bytes(exact_reach((float(state[0]), float(state[1])), goals, horizons))
        if is_stochastic(self.env):
            return _as_bytes(exact_best(self.env, state, horizons).T)
        steps = fewest_steps(self.env, state, goals, horizons, SEARCH_CELL)
        assert steps is not None
        in_time = (steps[:, None] != NEVER) & (steps[:, None] <= np.arange(1, horizons + 1))
        return _as_bytes(in_time.astype(float))

    def paths(
        self,
        start: Sequence[float],
        goal: Sequence[float],
        alpha: float | None,
        horizon: int | None,
        seed: int,
    ) -> dict[str, Any]:
        """The curve of C over h, the horizon that the dial picks at the start, and where it leads."""
        state, end = checked_pair(self.env, state_from(self.env, start), goal)
        dial = self._dial(alpha, horizon)
        seen = self._seen(state)
        picked = horizon
        if picked is None:
            picked = self.agent.act(seen, end, alpha=alpha, return_info=True)[1].horizon
        found: dict[str, Any] = {
            "curve": np.round(self.agent.reach_curve(seen, end), 4).tolist(),
            "horizon": int(picked),
        }
        if self._there(state, end):
            return found | {"paths": [{"points": [_rounded(seen)], "reached": True, "dead": False}]}
        ran = self._episodes(state, end, dial, SAMPLES if by_chance(self.env) else 1, seed)
        observation, length = np.asarray(ran.observation), np.asarray(ran.length)
        success, dead = np.asarray(ran.success), np.asarray(ran.dead)
        found["paths"] = [
            {
                "points": [_rounded(o) for o in observation[i, : length[i] + 1]],
                "reached": bool(success[i]),
                "dead": bool(dead[i] and not success[i]),
            }
            for i in range(len(length))
        ]
        return found

    def success(
        self,
        start: Sequence[float],
        goal: Sequence[float],
        alpha: float | None,
        horizon: int | None,
        rollouts: int,
        seed: int,
    ) -> dict[str, Any]:
        """The share of rollouts that reach the goal, with its 95 % interval, and their mean steps."""
        state, end = checked_pair(self.env, state_from(self.env, start), goal)
        dial = self._dial(alpha, horizon)
        count = rollouts if by_chance(self.env) else 1
        if self._there(state, end):
            return {"success": 1.0, "interval": [1.0, 1.0], "rollouts": 0, "steps": 0.0}
        ran = self._episodes(state, end, dial, count, seed)
        reached, steps = np.asarray(ran.success), np.asarray(ran.length)
        share = float(reached.mean())
        interval = [share, share]  # without chance there is nothing to estimate
        if by_chance(self.env):
            interval = list(stats.binomtest(int(reached.sum()), count).proportion_ci(method="wilson"))
        mean = float(steps[reached].mean()) if reached.any() else None
        return {"success": share, "interval": interval, "rollouts": count, "steps": mean}

    def warm_up(self) -> None:
        """Compile what the first picture needs, so that a person need not wait for it."""
        self.heat(self.first_start)
        for alpha, horizon in ((self.agent.config.alpha, None), (None, self.agent.max_horizon)):
            self.paths(self.first_start, self.first_goal, alpha, horizon, 0)

    def describe(self) -> dict[str, Any]:
        record, config = self.record, self.agent.config
        return {
            "name": self.name,
            "preset": record.get("preset"),
            "seed": record.get("seed"),
            "max_horizon": self.agent.max_horizon,
            "alpha": config.alpha,
        }

    def _state(self, start: Sequence[float]) -> np.ndarray:
        return checked_pair(self.env, state_from(self.env, start), self.first_goal)[0]

    def _seen(self, state: np.ndarray) -> np.ndarray:
        return np.asarray(self.env.observe(jnp.asarray(state)))

    def _there(self, state: np.ndarray, goal: np.ndarray) -> bool:
        return bool(self.env.reached(self.env.achieved_goal(jnp.asarray(state)), jnp.asarray(goal)))

    def _dial(self, alpha: float | None, horizon: int | None) -> Dial:
        if (alpha is None) == (horizon is None):
            raise UsageError("Give either alpha or horizon: alpha is a way to pick the horizon.")
        if horizon is not None:
            if not 1 <= horizon <= self.agent.max_horizon:
                raise UsageError(f"horizon must be in 1..{self.agent.max_horizon}, not {horizon}.")
            return complete_dial(Dial(horizon=horizon), self.agent)
        assert alpha is not None
        # As an array, so that one compilation serves for all.
        return complete_dial(Dial(jnp.float32(check_share(alpha, "alpha"))), self.agent)

    def _episodes(self, state: np.ndarray, goal: np.ndarray, dial: Dial, count: int, seed: int) -> Episodes:
        agent, states, goals = self.agent, np.tile(state, (count, 1)), np.tile(goal, (count, 1))
        if dial.horizon:
            # Told of the longest, it is compiled for all horizons at once; only the first is run.
            horizons = (dial.horizon, agent.max_horizon)
            return next(run_horizons(agent.network, self.env, seed, states, goals, horizons))
        return run_episodes(agent.network, self.env, agent.config, dial, seed, states, goals)


def open_views(runs: Sequence[str | Path]) -> list[View]:
    """The views of one run or two of the same world; of a folder of several seeds, the first."""
    views = []
    for run in runs:
        folder = run_folders(run)[0]
        config, _, record = folder.read()
        if config.env and not record.get("custom_env"):
            require_map(config.env)
        agent, _, env, record = open_run(folder, None)
        views.append(View(str(folder.path), agent, env, record))
    first, *others = views
    for other in others:
        if _world_options(first) != _world_options(other):
            raise UsageError(
                f"{first.name} and {other.name} are of different worlds: give two runs on the same map."
            )
    return views


def _world_options(view: View) -> tuple[str, dict[str, Any]]:
    shown = {k: v for k, v in vars(view.env).items() if k in type(view.env).__dataclass_fields__}
    return view.env.spec.name, {k: v for k, v in shown.items() if k not in TRAINING_OPTIONS}


def _as_bytes(curves: np.ndarray) -> np.ndarray:
    """Probabilities (goals, H) as one byte each, horizon by horizon."""
    return np.ascontiguousarray(np.rint(255 * curves.T).astype(np.uint8))


def _rounded(values: Any) -> list[float]:
    return [round(float(v), 3) for v in values]
