"""How good a network's policy is: success, steps, distance, by stratum and beside the optimum."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import stats

from clearning.config import Config
from clearning.core.horizons import horizon_left, voted_action
from clearning.core.tabular import FiniteMDP, estimate_mdp, optimal_c
from clearning.envs.external import ExternalEnv
from clearning.envs.search import NEVER, fewest_steps
from clearning.envs.testset import TestSet
from clearning.networks.layers import ROWS
from clearning.rollout import (
    Dial,
    batched_policy,
    collect,
    collect_external,
    dial_policy,
    training_starts,
)
from clearning.types import EnvSpec, Episodes, norm_distance


@dataclass(frozen=True)
class Outcome:
    """What happened in each test episode."""

    goal: np.ndarray  # (n, goal)
    stratum: np.ndarray  # (n,)
    in_paper: np.ndarray  # (n,)
    success: np.ndarray  # (n,)
    steps: np.ndarray  # (n,), transitions until success or the end
    distance: np.ndarray  # (n,), length of the way travelled
    final_distance: np.ndarray  # (n,), from the goal at the end
    optimal_steps: np.ndarray | None  # (n,)
    held: np.ndarray | None = None  # (n,), at the goal in the last step of an episode run to its full length
    reached_at_reset: np.ndarray | None = None  # (n,)

    def summary(self, mask: np.ndarray | None = None) -> dict[str, Any]:
        """Means over the episodes in a mask; steps, distance and optimum over those that succeeded."""
        mask = np.ones(len(self.success), bool) if mask is None else mask
        hit = mask & self.success
        summary: dict[str, Any] = {
            "success": _mean(self.success[mask]),
            "steps": _mean(self.steps[hit]),
            "distance": _mean(self.distance[hit]),
            "final_distance": _mean(self.final_distance[mask]),
            "goals": int(mask.sum()),
        }
        for name in ("held", "reached_at_reset"):
            values = getattr(self, name)
            if values is not None:
                summary[name] = _mean(values[mask])
        if self.optimal_steps is not None:
            known = hit & (self.optimal_steps != NEVER)
            summary["optimal_steps"] = _mean(self.optimal_steps[known])
        return summary

    def full_summary(self) -> dict[str, Any]:
        """The summary over all goals, by stratum, and on the paper's own test set where it is smaller."""
        summary = self.summary()
        if not self.in_paper.all():
            summary["paper_goals"] = self.summary(self.in_paper)
        summary["by_stratum"] = {s: self.summary(self.stratum == s) for s in dict.fromkeys(self.stratum)}
        return summary


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def goals_to_test(env: Any, seed: int = 0, count: int = 200) -> TestSet:
    """The environment's test set, or random starts and goals where it has none."""
    if hasattr(env, "test_set"):
        return env.test_set()
    state, goal = jax.tree.map(np.asarray, training_starts(env, jax.random.key(seed), count))
    return TestSet(state, goal, ("all",) * count)


@eqx.filter_jit
def _rollouts(
    network: Any, env: Any, key: Array, state: Any, goal: Array, dial: Dial, steps: int, skip: bool, end: bool
) -> Episodes:
    policy = dial_policy(network, env.spec, dial, 0.0, skip)
    return collect(env, policy, key, state, goal, steps, end_at_success=end)


def steps_to_take(spec: EnvSpec, dial: Dial) -> int:
    """Steps of a test episode: a horizon that counts down and does not start again also ends it."""
    return dial.horizon if dial.horizon and not (dial.receding or dial.again) else spec.max_episode_steps


def run_episodes(
    network: Any,
    env: Any,
    config: Config,
    dial: Dial,
    seed: int,
    state: Any,
    goal: np.ndarray,
    end_at_success: bool = True,
) -> Episodes:
    """Test episodes without exploration."""
    steps, skip = steps_to_take(env.spec, dial), config.skip_ruled_out
    state, goals = jax.tree.map(jnp.asarray, state), jnp.asarray(goal)
    return _rollouts(network, env, jax.random.key(seed), state, goals, dial, steps, skip, end_at_success)


@eqx.filter_jit
def _counted_down(
    network: Any, env: Any, key: Array, state: Any, goal: Array, horizon: Array, steps: int
) -> Episodes:
    def act(_key: Array, observation: Array, goal: Array, step: Array) -> Array:
        left = horizon_left(horizon, step)
        values = jax.nn.sigmoid(network.curve(observation, goal))
        best = voted_action(values, left, 0)
        return network.propose(observation, goal, best, left) if env.spec.continuous else best

    return collect(env, act, key, state, goal, steps)


def run_horizons(
    network: Any, env: Any, seed: int, state: Any, goal: np.ndarray, horizons: Sequence[int]
) -> Iterator[Episodes]:
    """`run_episodes` for many fixed horizons counted down, compiled once: the longest serves for all."""
    portion = len(goal)
    if env.spec.continuous:  # each proposed action is a row of its own
        proposed = eqx.filter_eval_shape(network.curve, jnp.zeros(env.spec.observation_size), goal[0])
        portion = max(ROWS // len(proposed), 1)
    parts = [slice(at, at + portion) for at in range(0, len(goal), portion)]
    base = jax.random.key(seed)

    def run(part: int, h: int) -> Episodes:
        key = jax.random.fold_in(base, part) if part else base
        starts, goals = jax.tree.map(lambda x: jnp.asarray(x[parts[part]]), (state, goal))
        return _counted_down(network, env, key, starts, goals, jnp.int32(h), max(horizons))

    for h in horizons:
        ran = [run(part, h) for part in range(len(parts))]
        whole = Episodes(*(np.concatenate(x) for x in zip(*ran, strict=True)))  # pyright: ignore[reportArgumentType]
        yield first_steps(whole, h)


def first_steps(episodes: Episodes, horizon: int) -> Episodes:
    """Episodes of which nothing counts that came after a horizon."""
    late = np.asarray(episodes.length) > horizon
    return episodes._replace(
        length=np.minimum(np.asarray(episodes.length), horizon),  # pyright: ignore[reportArgumentType]
        success=np.asarray(episodes.success) & ~late,  # pyright: ignore[reportArgumentType]
        dead=np.asarray(episodes.dead) & ~late,  # pyright: ignore[reportArgumentType]
    )


def reached_in_time(
    network: Any, env: Any, seed: int, state: Any, goal: np.ndarray, horizon: np.ndarray
) -> np.ndarray:
    """Whether the fixed-h policy reaches each goal, every episode with a horizon of its own."""
    keys = jax.random.split(jax.random.key(seed), len(goal))
    steps = int(horizon.max())

    def one(key: Array, state: Any, goal: Array, h: Array) -> Array:
        alone = jax.tree.map(lambda x: x[None], state)
        ran = _counted_down(network, env, key, alone, goal[None], h, steps)
        return ran.success[0] & (ran.length[0] <= h)

    state = jax.tree.map(jnp.asarray, state)
    return np.asarray(jax.vmap(one)(keys, state, jnp.asarray(goal), jnp.asarray(horizon, jnp.int32)))


def evaluate(
    network: Any,
    env: Any,
    config: Config,
    dial: Dial,
    seed: int = 0,
    optimum: bool = True,
    episodes: int = 0,
    to_the_end: bool = False,
) -> Outcome:
    """Run the test set and say what happened in each episode.

    With `to_the_end` episodes go on after their goal, and may lose it again. A Gymnasium environment has no
    test set: it draws `episodes` fresh starts and goals, and its episodes always go on.
    """
    if isinstance(env, ExternalEnv):
        return evaluate_external(network, env, config, dial, seed, episodes or config.test_episodes)
    test = goals_to_test(env)
    repeat = lambda x: np.repeat(np.asarray(x), test.repeats, axis=0)  # noqa: E731
    state, goal = jax.tree.map(repeat, test.state), repeat(test.goal)
    ran = run_episodes(network, env, config, dial, seed, state, goal, end_at_success=not to_the_end)
    ran = jax.tree.map(np.asarray, ran)
    success, until, held = ran.success, ran.length, None
    if to_the_end:
        success, until, held = _arrivals(ran, np.asarray(_reached(env, ran.achieved, goal)))
    in_paper = np.ones(len(test.goal), bool) if test.in_paper is None else test.in_paper
    fewest = _optimal_steps(env, test) if optimum else None
    distance, final = path_lengths(env.spec, ran._replace(length=until))
    return Outcome(
        goal=goal,
        stratum=repeat(test.stratum),
        in_paper=repeat(in_paper),
        success=success,
        steps=until,
        distance=distance,
        final_distance=final,
        optimal_steps=None if fewest is None else repeat(fewest),
        held=held,
    )


@eqx.filter_jit
def _reached(env: Any, achieved: Any, goal: Any) -> Array:
    """Whether each moment of each episode is at its goal, (n, T + 1)."""
    return jax.vmap(jax.vmap(env.reached, (0, None)))(achieved, goal)


def _arrivals(episodes: Episodes, hits: np.ndarray) -> tuple[Any, Any, Any]:
    """Whether each episode came to its goal, after how many steps (or all), and whether it ended there.

    hits: (n, T + 1), whether each moment was at the goal; what comes after an episode's end counts for
    nothing, and its start is no arrival.
    """
    length = np.asarray(episodes.length)
    hits = hits & (np.arange(hits.shape[1]) <= length[:, None])
    success = hits[:, 1:].any(1)
    until = np.where(success, 1 + hits[:, 1:].argmax(1), length)
    return success, until, hits[np.arange(len(length)), length]


TEST_SEEDS = (
    1_000_003  # seed s tests on the starts and goals of seeds from here on, which no training asks for
)


def evaluate_external(
    network: Any, env: ExternalEnv, config: Config, dial: Dial, seed: int, count: int, full: bool = True
) -> Outcome:
    """Fresh episodes, run to their full length so that a goal reached can also be lost again."""
    steps = steps_to_take(env.spec, dial)
    seeds = TEST_SEEDS * (1 + seed) + np.arange(count)
    parts = []
    for at in range(0, count, config.parallel_envs):
        mine = seeds[at : at + config.parallel_envs]
        policy = batched_policy(network, env.spec, config, dial, jax.random.key(seed))
        parts.append(collect_external(env, policy, mine, steps, end_at_success=not full))
    ran = Episodes(*(np.concatenate(x) for x in zip(*parts, strict=True)))  # pyright: ignore[reportArgumentType]
    goal = np.asarray(ran.goal)
    hits = env.reached(ran.achieved, goal[:, None])  # (n, T + 1)
    success, until, held = _arrivals(ran, hits)
    distance, final = path_lengths(env.spec, ran._replace(length=until))  # pyright: ignore[reportArgumentType]
    return Outcome(
        goal=goal,
        stratum=np.full(count, "all"),
        in_paper=np.ones(count, bool),
        success=success,
        steps=until,
        distance=distance,
        final_distance=final,
        optimal_steps=None,
        held=held if full else None,
        reached_at_reset=hits[:, 0],
    )


def _optimal_steps(env: Any, test: TestSet) -> np.ndarray | None:
    states = np.asarray(test.state)
    if not hasattr(env, "refuse") or (states != states[0]).any():
        return None  # the searches start from one state
    return fewest_steps(env, states[0], test.goal)


def path_lengths(spec: EnvSpec, episodes: Episodes) -> tuple[np.ndarray, np.ndarray]:
    """The way each episode travelled in goal space, and its distance from the goal at the end."""
    norm = spec.step_bound.norm if spec.step_bound else "l2"
    achieved, length = np.asarray(episodes.achieved), np.asarray(episodes.length)
    moves = np.asarray(norm_distance(norm, achieved[:, 1:], achieved[:, :-1]))  # (n, T)
    travelled = np.where(np.arange(moves.shape[1]) < length[:, None], moves, 0.0).sum(1)
    last = achieved[np.arange(len(length)), length]
    check_norm = spec.goal_check.norm if spec.goal_check else "l2"
    return travelled, np.asarray(norm_distance(check_norm, last, episodes.goal))


def over_seeds(values: Sequence[float]) -> dict[str, Any]:
    """Mean, standard deviation (population, as in the paper) and a 95 % bootstrap interval over seeds."""
    x = np.asarray(values, float)
    interval = list(bootstrap_interval(x))
    return {"mean": float(x.mean()), "std": float(x.std()), "values": x.tolist(), "interval": interval}


def bootstrap_interval(x: np.ndarray, statistic: Callable[..., Any] = np.mean) -> tuple[float, float]:
    """A 95 % percentile interval of a statistic of few values; a point where they do not vary."""
    if len(x) < 2 or x.std() == 0:
        return float(statistic(x)), float(statistic(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few seeds make a coarse interval; that is what it should show
        found = stats.bootstrap((x,), statistic, method="percentile", rng=np.random.default_rng(0))
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


@lru_cache(maxsize=8)
def exact_c(env: Any, horizons: int) -> np.ndarray:
    """C* of a grid world, indexed [h − 1, s, a, g] with states and goals numbered as `env.cells`."""
    return optimal_c(env.mdp, horizons)


def learned_c(network: Any, env: Any) -> np.ndarray:
    """A network's C over all cells of a grid world, in the order of `exact_c`."""
    cells = jnp.asarray(env.cells, jnp.float32)
    curve = eqx.filter_jit(lambda n, s: jax.nn.sigmoid(jax.vmap(lambda g: n.curve(s, g))(cells)))
    by_state = np.stack([np.asarray(curve(network, s)) for s in cells])  # (s, g, a, h)
    return by_state.transpose(3, 0, 2, 1)


def c_error(found: np.ndarray, env: Any) -> float:
    """Mean |C − C*| over alive states, goals other than the state, all actions and all horizons."""
    mdp: FiniteMDP = env.mdp
    asked = ~mdp.dead[:, None] & ~mdp.reached  # (s, g)
    error = np.abs(found - exact_c(env, len(found))).mean(axis=(0, 2))
    return float(error[asked].mean())


def counted_c(env: Any, buffer: Any, horizons: int) -> np.ndarray:
    """C by exact dynamic programming on the transition frequencies of a buffer's data: a yardstick."""
    number = {tuple(c): i for i, c in enumerate(env.cells.tolist())}
    cells = np.asarray(buffer.observation).astype(int)
    places = np.asarray(buffer.transition)[: int(buffer.transitions_used)]
    state = np.array([number[tuple(cells[p])] for p in places])
    after = np.array([number[tuple(cells[(p + 1) % len(cells)])] for p in places])
    counted = estimate_mdp(env.mdp, state, np.asarray(buffer.action)[places], after)
    return optimal_c(counted, horizons)
