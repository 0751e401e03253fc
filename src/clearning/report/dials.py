"""Turning the dial: success and steps for several horizons and alphas."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from clearning.agent import Agent
from clearning.core.recursions import rule_for
from clearning.envs import (
    ExternalEnv,
)
from clearning.errors import UsageError
from clearning.evaluate import (
    TEST_SEEDS,
    evaluate_external,
    goals_to_test,
    run_episodes,
    run_horizons,
)
from clearning.report.exact import best_success
from clearning.report.opening import closing, dial_record, open_run
from clearning.rollout import Dial, dial_horizon
from clearning.runs import run_folders

ALPHAS = (0.5, 0.7, 0.9, 0.99, 1.0)


class Sight(NamedTuple):
    """An opened run, and what its agent sees and says at the start of every test episode."""

    agent: Agent
    env: Any
    observation: np.ndarray  # (n, observation)
    goal: np.ndarray  # (n, goal)
    curve: np.ndarray  # (n, H), the reach probability by horizon


def turn_dials(run: str, eval_seed: int = 0, episodes: int | None = None) -> dict[str, Any]:
    """Success and steps for several horizons counted down and several alphas, as means over seeds.

    The horizons are the same for all seeds, and lie where C rises. Gymnasium environments are tested on as
    many episodes as in training unless said otherwise.
    """
    folders = run_folders(run)
    rows: list[list[dict[str, Any]]] = []
    records, horizons = [], None
    for folder in folders:
        agent, _, env, record = open_run(folder, None)
        with closing(env, episodes):
            sight = at_the_start(agent, env, eval_seed, episodes or agent.config.test_episodes)
            if horizons is None:
                horizons = telling_horizons(sight.curve.mean(0))
            if max(horizons) != agent.max_horizon:
                raise UsageError(f"{run} holds runs of different max_horizon: turn their dials one by one.")
            rows.append([*_fixed(sight, horizons, eval_seed), *_by_alpha(sight, eval_seed)])
        records.append(record)
    merged = [_merge(cells) for cells in zip(*rows, strict=True)]
    return {
        "preset": records[0]["preset"],
        "run": str(run),
        "seeds": [r["seed"] for r in records],
        "rows": merged,
    }


def telling_horizons(curve: np.ndarray, count: int = 8) -> tuple[int, ...]:
    """Horizons from 1 to H, most of them where a curve over h = 1..H rises."""
    rise = np.maximum.accumulate(curve) - curve[0]
    even = np.linspace(0.0, 1.0, len(curve))
    way = 0.7 * rise / rise[-1] + 0.3 * even if rise[-1] > 1e-3 else even
    nearest = np.abs(way - np.linspace(0.0, 1.0, count)[:, None]).argmin(1)
    return tuple(int(i) + 1 for i in np.unique(nearest))


def at_the_start(agent: Agent, env: Any, seed: int, episodes: int) -> Sight:
    if isinstance(env, ExternalEnv):
        seeds, size = TEST_SEEDS * (1 + seed) + np.arange(episodes), agent.config.parallel_envs
        parts = [seeds[i : i + size] for i in range(0, episodes, size)]
        seen = [env.pool(len(part)).reset(part) for part in parts]
        observation = np.concatenate([s.observation for s in seen])
        goal = np.concatenate([s.desired for s in seen])
    else:
        test = goals_to_test(env)
        observation, goal = np.asarray(jax.vmap(env.observe)(jnp.asarray(test.state))), test.goal
    return Sight(agent, env, observation, goal, agent.reach_curve(observation, goal))


def _fixed(sight: Sight, horizons: Sequence[int], seed: int) -> Iterator[dict[str, Any]]:
    """A row for each horizon counted down; C at the start is what the agent promises of it."""
    best = best_success(sight.env, sight.goal, max(horizons))
    for h, (success, steps) in zip(horizons, _ran_fixed(sight, horizons, seed), strict=True):
        row = _row(Dial(horizon=h), success, steps) | {"predicted": float(sight.curve[:, h - 1].mean())}
        yield row if best is None else row | {"optimal_success": float(best[h - 1])}


def _ran_fixed(sight: Sight, horizons: Sequence[int], seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    agent, env = sight.agent, sight.env
    if isinstance(env, ExternalEnv):
        for h in horizons:
            yield _ran_external(sight, Dial(horizon=h), seed)
        return
    for ran in run_horizons(agent.network, env, seed, *_repeated(env), horizons):
        yield np.asarray(ran.success), np.asarray(ran.length)


def _by_alpha(sight: Sight, seed: int) -> Iterator[dict[str, Any]]:
    """A row for each alpha, with the mean horizon that it picks at the start."""
    agent, env = sight.agent, sight.env
    for alpha in ALPHAS:
        # As an array, so that one compilation serves for all.
        dial = Dial(jnp.float32(alpha), vote=agent.config.vote, method=agent.config.method)
        if isinstance(env, ExternalEnv):
            success, steps = _ran_external(sight, dial, seed)
        else:
            ran = run_episodes(agent.network, env, agent.config, dial, seed, *_repeated(env))
            success, steps = np.asarray(ran.success), np.asarray(ran.length)
        picked = _picked(
            agent.network, sight.observation, sight.goal, dial, agent.spec, agent.config.skip_ruled_out
        )
        yield _row(Dial(alpha), success, steps) | {"start_horizon": float(np.asarray(picked).mean())}


@eqx.filter_jit
def _picked(network: Any, observation: Any, goal: Any, dial: Dial, spec: Any, skip: bool) -> Any:
    def one(s: Any, g: Any) -> Any:
        values = rule_for(dial.method, 0.5).link(network.curve(s, g))
        return dial_horizon(values, spec, dial, s, g, 0, skip)

    return jax.vmap(one)(jnp.asarray(observation), jnp.asarray(goal))


def _ran_external(sight: Sight, dial: Dial, seed: int) -> tuple[np.ndarray, np.ndarray]:
    agent = sight.agent
    count = len(sight.goal)
    found = evaluate_external(agent.network, sight.env, agent.config, dial, seed, count, full=False)
    return found.success, found.steps


def _repeated(env: Any) -> tuple[Any, np.ndarray]:
    """The test set's states and goals, as often as it asks for."""
    test = goals_to_test(env)
    repeat = lambda x: np.repeat(np.asarray(x), test.repeats, axis=0)  # noqa: E731
    return jax.tree.map(repeat, test.state), repeat(test.goal)


def _row(dial: Dial, success: np.ndarray, steps: np.ndarray) -> dict[str, Any]:
    mean = float(steps[success].mean()) if success.any() else None
    return {"policy": dial_record(dial), "success": float(success.mean()), "steps": mean}


def _merge(cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One policy's rows of all seeds as one; a mean is None where a seed has nothing to average."""
    if len(cells) == 1:
        return dict(cells[0])
    merged: dict[str, Any] = {"policy": cells[0]["policy"]}
    for name in (n for n in cells[0] if n != "policy"):
        values = [c[name] for c in cells]
        merged[name] = None if None in values else float(np.mean(values))
    return merged | {"runs": [dict(c) for c in cells]}
