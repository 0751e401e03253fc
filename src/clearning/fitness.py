"""Settings that cannot work on an environment or a machine, told before anything is written."""

from typing import Any

import equinox as eqx
import jax

from clearning import buffer as ring
from clearning.agent import NetworkBuilder
from clearning.config import Config
from clearning.errors import UsageError
from clearning.files import check_spec, memory
from clearning.networks import build_network
from clearning.types import EnvSpec


def refuse_unfit(env: Any, config: Config, network: NetworkBuilder | None = None) -> None:
    """Raise a UsageError for the first of these."""
    spec = env.spec
    check_spec(spec)
    collected = 0 if config.from_episodes else config.parallel_envs
    if config.buffer_capacity <= collected * (spec.max_episode_steps + 1):
        raise UsageError(
            f"buffer_capacity {config.buffer_capacity} is too small: {collected} episodes of "
            f"{spec.max_episode_steps} steps must fit."
        )
    if config.features in ("scaled", "one-hot", "relative") and _unbounded(spec):
        raise UsageError(
            f"features '{config.features}' need bounded observations and goals; {spec.name} has none: "
            f"set features to normalised."
        )
    if config.support and spec.continuous:
        raise UsageError(f"support is for numbered actions, and those of {spec.name} are continuous.")
    if config.goal_nearby and not (hasattr(env, "sample_goal_within") and spec.step_bound):
        raise UsageError(f"goal_nearby needs an environment with a step bound; {spec.name} has none.")
    needed, there = _bytes_needed(spec, config, network or build_network), memory()
    if needed > there:
        raise UsageError(
            f"This training needs {needed / 1e9:.3g} GB and the machine has {there / 1e9:.3g}: make "
            f"buffer_capacity {config.buffer_capacity} or the network smaller."
        )


def _bytes_needed(spec: EnvSpec, config: Config, build: NetworkBuilder) -> int:
    """The buffer's memory and the network's: weights, their average, and Adam's two moments."""
    network = eqx.filter_eval_shape(build, spec, config, jax.random.key(0))
    buffer = jax.eval_shape(lambda: ring.init(spec, config.buffer_capacity))
    size = lambda tree: sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree) if hasattr(x, "dtype"))  # noqa: E731
    return 4 * size(network) + size(buffer)


def _unbounded(spec: EnvSpec) -> bool:
    bounds = (*spec.observation_low, *spec.observation_high, *spec.goal_low, *spec.goal_high)
    return max(map(abs, bounds)) > 1e30
