"""Networks of C: the horizon as an output (ours) or as an input (the paper's); and actors."""

from collections.abc import Sequence
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from clearning.config import Config
from clearning.types import EnvSpec, Episodes

Features = Literal["raw", "scaled", "relative", "one-hot", "normalised"]
SMALLEST_DEVIATION = 0.01  # a coordinate that hardly moves must not be blown up
CLIP = 5.0  # deviations from the mean that an input may show
GROUPS = PLANES = 4  # of a min-max network
NEVER = -1e9  # an output that no other falls short of: as a logit, a probability of 0


class MLP(eqx.Module):
    """Linear layers with ReLU between them, each optionally normalised before its ReLU."""

    layers: list[eqx.nn.Linear]
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, sizes: Sequence[int], layer_norm: bool, key: Array):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = [eqx.nn.Linear(a, b, key=k) for a, b, k in pairs]
        self.norms = [eqx.nn.LayerNorm(width) for width in sizes[1:-1]] if layer_norm else []

    def __call__(self, x: Array) -> Array:
        for i, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            if self.norms:
                x = self.norms[i](x)
            x = jax.nn.relu(x)
        return self.layers[-1](x)


class Inputs(eqx.Module):
    """Turns an observation and a goal into one input vector."""

    spec: EnvSpec = eqx.field(static=True)
    features: Features = eqx.field(static=True)

    def __call__(self, observation: Array, goal: Array) -> Array:
        if self.features == "raw":
            return jnp.concatenate([observation, goal])
        spec = self.spec
        if self.features == "one-hot":
            cells = zip([*observation, *goal], self.cell_counts(), strict=True)
            return jnp.concatenate([jax.nn.one_hot(jnp.round(v).astype(int), n) for v, n in cells])
        s = _scaled(observation, spec.observation_low, spec.observation_high)
        g = _scaled(goal, spec.goal_low, spec.goal_high)
        if self.features == "scaled" or spec.goal_check is None:
            return jnp.concatenate([s, g])
        relative = goal - spec.goal_check.achieved(observation)
        span = jnp.array(spec.goal_high) - jnp.array(spec.goal_low)
        return jnp.concatenate([s, g, relative / span])

    def size(self) -> int:
        spec = self.spec
        shape = jax.eval_shape(self.__call__, jnp.zeros(spec.observation_size), jnp.zeros(spec.goal_size))
        return shape.shape[0]

    def cell_counts(self) -> list[int]:
        """How many cells each coordinate of observation and goal has."""
        spec = self.spec
        return [round(high) + 1 for high in (*spec.observation_high, *spec.goal_high)]


class NormalisedInputs(eqx.Module):
    """Observation and goal by the running mean and deviation of what was collected.

    Where the observation shows the achieved goal, the goal's position relative to it is an input too.
    """

    count: Array
    mean: Array
    squares: Array  # sum of squared deviations
    achieved_at: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, spec: EnvSpec):
        self.achieved_at = spec.achieved_at
        size = spec.observation_size + spec.goal_size + len(spec.achieved_at)
        self.count, self.mean, self.squares = jnp.zeros(()), jnp.zeros(size), jnp.zeros(size)

    def __call__(self, observation: Array, goal: Array) -> Array:
        count, mean, squares = jax.lax.stop_gradient((self.count, self.mean, self.squares))
        deviation = jnp.where(count > 0, jnp.sqrt(squares / jnp.maximum(count, 1.0)), 1.0)
        x = self._together(observation, goal)
        return jnp.clip((x - mean) / jnp.maximum(deviation, SMALLEST_DEVIATION), -CLIP, CLIP)

    def _together(self, observation: Array, goal: Array) -> Array:
        relative = [goal - observation[..., self.achieved_at]] if self.achieved_at else []
        return jnp.concatenate([observation, goal, *relative], -1)

    def size(self) -> int:
        return self.mean.size

    def updated(self, episodes: Episodes) -> "NormalisedInputs":
        """With new episodes counted in; what they were after and what they ended in count alike as goals."""
        steps = episodes.observation.shape[1]
        desired = jnp.broadcast_to(episodes.goal[:, None], episodes.achieved.shape)
        last = jnp.take_along_axis(episodes.achieved, episodes.length[:, None, None], axis=1)
        hindsight = jnp.broadcast_to(last, episodes.achieved.shape)
        x = jnp.stack(
            [self._together(episodes.observation, g) for g in (hindsight, desired)]
        )  # (2, N, T + 1, inputs)
        weight = jnp.broadcast_to(jnp.arange(steps) <= episodes.length[:, None], x.shape[:-1])[..., None]
        count = weight.sum()
        mean = jnp.where(weight, x, 0.0).sum((0, 1, 2)) / count
        squares = jnp.where(weight, (x - mean) ** 2, 0.0).sum((0, 1, 2))
        total, shift = self.count + count, mean - self.mean
        return eqx.tree_at(
            lambda n: (n.count, n.mean, n.squares),
            self,
            (
                total,
                self.mean + shift * count / total,
                self.squares + squares + shift**2 * self.count * count / total,
            ),
        )


def with_statistics(network: Any, episodes: Episodes) -> Any:
    """A network whose inputs have seen new episodes; one that does not normalise stays as it is."""
    if isinstance(network, Supported):
        return eqx.tree_at(lambda n: n.network, network, with_statistics(network.network, episodes))
    inputs = getattr(network, "inputs", None)
    if not isinstance(inputs, NormalisedInputs):
        return network
    return eqx.tree_at(lambda n: n.inputs, network, inputs.updated(episodes))


def _scaled(x: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    lo, hi = jnp.array(low), jnp.array(high)
    return 2.0 * (x - lo) / (hi - lo) - 1.0


class Hazards(eqx.Module):
    """Logits of C that rise with h: C_h = 1 − Π_{k ≤ h} (1 − hazard_k), an MLP giving each hazard's logit."""

    mlp: MLP
    horizons: int = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        # Hazards of 1 / (1 + H) to begin with, or long horizons would start out sure.
        z = self.mlp(x).reshape(-1, self.horizons) - jnp.log(self.horizons)
        return cumulated_logits(z).ravel()


def cumulated_logits(hazards: Array) -> Array:
    """Logits of C for h = 1..H from the hazards' logits, on the last axis.

    With S_h = Σ_{k ≤ h} softplus(z_k) = −log(1 − C_h), the logit of C_h is log(e^S − 1) = S + log(1 − e^−S).
    """
    passed = jnp.cumsum(jax.nn.softplus(hazards), axis=-1) + 1e-30  # the logarithm of 0 has no slope
    return passed + jnp.log(-jnp.expm1(-passed))


class MinMax(eqx.Module):
    """Sill's monotone network (1998): the least over groups of the largest of planes that rise with h.

    The horizon is the last input. The planes' offsets may depend on the others in any way: by an MLP.
    """

    mlp: MLP
    log_slopes: Array  # (outputs, GROUPS, PLANES)

    def __init__(self, mlp: MLP, outputs: int, horizons: int):
        self.mlp = mlp
        # Groups from gentle, which bound C from above, to steep, which let it rise within a few steps.
        spread = jnp.linspace(0.0, jnp.log(horizons), GROUPS)
        self.log_slopes = jnp.tile(spread[:, None], (outputs, 1, PLANES))

    def __call__(self, x: Array) -> Array:
        # Offsets in units of the horizon: a steep plane need not move further than a gentle one.
        offsets = self.mlp(x[:-1]).reshape(self.log_slopes.shape)
        return (jnp.exp(self.log_slopes) * (x[-1] + offsets)).max(-1).min(-1)


class AllHorizons(eqx.Module):
    """(s, g) to logits for every horizon and action at once."""

    inputs: Any
    mlp: Any
    shape: tuple[int, int] = eqx.field(static=True)

    def curve(self, observation: Array, goal: Array) -> Array:
        return self.mlp(self.inputs(observation, goal)).reshape(self.shape)

    def backed_up(self, horizon: Array) -> Array:
        return jnp.arange(1, self.shape[1] + 1)

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.curve(observation, goal)

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.curve(observation, goal)

    def shift(self, values: Array) -> Array:
        return jnp.roll(values, 1)


class SampledHorizon(eqx.Module):
    """(s, g, h) to logits for every action, one horizon at a time.

    With a discount in place of the horizon, `max_horizon` is 1 and `step` 0: no step changes it.
    """

    inputs: Any
    mlp: Any
    max_horizon: int = eqx.field(static=True)
    step: int = eqx.field(static=True, default=1)

    def backed_up(self, horizon: Array) -> Array:
        return horizon[None]

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        return jax.vmap(lambda h: self.mlp(jnp.append(x, h / self.max_horizon)), out_axes=1)(horizon)

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.at(observation, goal, horizon - self.step)

    def shift(self, values: Array) -> Array:
        return values

    def curve(self, observation: Array, goal: Array) -> Array:
        return self.at(observation, goal, jnp.arange(1, self.max_horizon + 1))


class Supported(eqx.Module):
    """C of actions that were taken; those hardly ever taken in such a state count as failing.

    As in batch-constrained Q-learning (Fujimoto et al., 2019): a network of the behaviour, which knows no
    goal, tells how likely each action was, and those below a share of the likeliest are left out.
    """

    network: Any
    behaviour: MLP
    goal_size: int = eqx.field(static=True)
    share: float = eqx.field(static=True)

    def taken(self, observation: Array) -> Array:
        """Logits of the actions that the data took, (actions,)."""
        return self.behaviour(self.network.inputs(observation, jnp.zeros(self.goal_size)))

    def curve(self, observation: Array, goal: Array) -> Array:
        return self._masked(observation, self.network.curve(observation, goal))

    def backed_up(self, horizon: Array) -> Array:
        return self.network.backed_up(horizon)

    def at(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self.network.at(observation, goal, horizon)  # of an action that was taken

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        return self._masked(observation, self.network.before(observation, goal, horizon))

    def shift(self, values: Array) -> Array:
        return self.network.shift(values)

    def _masked(self, observation: Array, outputs: Array) -> Array:
        taken = jax.nn.softmax(self.taken(observation))
        return jnp.where((taken >= self.share * taken.max())[:, None], outputs, NEVER)


class HeadsActorCritic(eqx.Module):
    """Critics from (s, a, g) to logits for every horizon; an actor with a few heads of different urgency.

    Head k of K maximises C over the k-th part of the horizons. One head serves every horizon, which is enough
    where the soonest way is the surest; H heads are one action per horizon, as in the paper.
    """

    inputs: Any
    actor: MLP
    critics: tuple[Any, ...]
    heads: int = eqx.field(static=True)
    max_horizon: int = eqx.field(static=True)

    def curve(self, observation: Array, goal: Array) -> Array:
        x = self.inputs(observation, goal)
        return _logits(self.critics[0], x, self._actions(x))

    def propose(self, observation: Array, goal: Array, index: Array, horizon: Array) -> Array:
        return self._actions(self.inputs(observation, goal))[index]

    def backed_up(self, horizon: Array) -> Array:
        return jnp.arange(1, self.max_horizon + 1)

    def at(self, observation: Array, goal: Array, action: Array, horizon: Array) -> Array:
        x = jnp.concatenate([self.inputs(observation, goal), action])
        return jnp.stack([critic(x) for critic in self.critics])

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        actions = self._actions(x)
        return jnp.stack([_logits(critic, x, actions) for critic in self.critics])

    def shift(self, values: Array) -> Array:
        return jnp.roll(values, 1)

    def proposals(self, observation: Array, goal: Array, horizon: Array) -> tuple[Array, Array, Array]:
        x = self.inputs(observation, goal)
        free = self._free(x)
        return _logits(self.critics[0], x, jnp.tanh(free)), self._urgency(), free

    def _actions(self, x: Array) -> Array:
        return jnp.tanh(self._free(x))

    def _free(self, x: Array) -> Array:
        """The proposals before tanh bounds them, (heads, action)."""
        return self.actor(x).reshape(self.heads, -1)

    def _urgency(self) -> Array:
        """The weight of each horizon in each head's objective, (heads, H)."""
        part = jnp.arange(self.max_horizon) * self.heads // self.max_horizon
        mine = (part == jnp.arange(self.heads)[:, None]).astype(jnp.float32)
        return mine / mine.sum(1, keepdims=True)


def _logits(critic: Any, x: Array, actions: Array) -> Array:
    return jax.vmap(lambda a: critic(jnp.concatenate([x, a])))(actions)  # (actions, H)


class HorizonActorCritic(eqx.Module):
    """Critics on (s, a, g, h) and an actor on (s, g, h), one horizon at a time (algorithm 2)."""

    inputs: Any
    actor: MLP
    critics: tuple[Any, ...]
    max_horizon: int = eqx.field(static=True)

    def curve(self, observation: Array, goal: Array) -> Array:
        x = self.inputs(observation, goal)
        return jax.vmap(lambda h: self._at(self.critics[0], x, self._action(x, h), h), out_axes=1)(
            jnp.arange(1, self.max_horizon + 1)
        )

    def propose(self, observation: Array, goal: Array, index: Array, horizon: Array) -> Array:
        return self._action(self.inputs(observation, goal), horizon)

    def backed_up(self, horizon: Array) -> Array:
        return horizon[None]

    def at(self, observation: Array, goal: Array, action: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        return jnp.stack([self._at(critic, x, action, horizon[0]) for critic in self.critics])

    def before(self, observation: Array, goal: Array, horizon: Array) -> Array:
        x = self.inputs(observation, goal)
        action = self._action(x, horizon[0] - 1)
        return jnp.stack([self._at(critic, x, action, horizon[0] - 1)[None] for critic in self.critics])

    def shift(self, values: Array) -> Array:
        return values

    def proposals(self, observation: Array, goal: Array, horizon: Array) -> tuple[Array, Array, Array]:
        x = self.inputs(observation, goal)
        free = self._free(x, horizon[0])
        return self._at(self.critics[0], x, jnp.tanh(free), horizon[0])[None], jnp.ones((1, 1)), free[None]

    def _action(self, x: Array, horizon: Array) -> Array:
        return jnp.tanh(self._free(x, horizon))

    def _free(self, x: Array, horizon: Array) -> Array:
        return self.actor(jnp.append(x, horizon / self.max_horizon))

    def _at(self, critic: Any, x: Array, action: Array, horizon: Array) -> Array:
        return critic(jnp.append(jnp.concatenate([x, action]), horizon / self.max_horizon))


def build_network(spec: EnvSpec, config: Config, key: Array) -> Any:
    """The network that a config asks for: a `Network`, or an `ActorCritic` where actions are continuous."""
    normalised = config.features == "normalised"
    inputs = NormalisedInputs(spec) if normalised else Inputs(spec, config.features)
    horizons = config.max_horizon
    as_input = int(config.form == "sampled-horizon")
    size = inputs.size() + as_input

    def mlp(key: Array, size: int, outputs: int) -> MLP:
        return MLP((size, *config.hidden, outputs), config.layer_norm, key)

    def of_c(key: Array, size: int, outputs: int) -> Any:
        """From inputs (with the horizon last, where it is one) to logits of C."""
        if config.monotone and as_input:
            return MinMax(mlp(key, size - 1, outputs * GROUPS * PLANES), outputs, horizons)
        plain = mlp(key, size, outputs)
        return Hazards(plain, horizons) if config.monotone else plain

    def numbered() -> Any:
        if config.method == "d-learning":
            return SampledHorizon(inputs, mlp(key, size, spec.num_actions), 1, step=0)
        if as_input:
            return SampledHorizon(inputs, of_c(key, size, spec.num_actions), horizons)
        shape = (spec.num_actions, horizons)
        return AllHorizons(inputs, of_c(key, size, shape[0] * shape[1]), shape)

    if not spec.continuous:
        if not config.support:
            return numbered()
        behaviour = mlp(jax.random.fold_in(key, 0), inputs.size(), spec.num_actions)
        return Supported(numbered(), behaviour, spec.goal_size, config.support)
    key_actor, *keys = jax.random.split(key, 1 + config.critics)
    outputs = 1 if as_input else horizons
    critics = tuple(of_c(k, size + len(spec.action_low), outputs) for k in keys)
    heads = 1 if as_input else config.actor_heads
    actor = mlp(key_actor, size, heads * len(spec.action_low))
    if as_input:
        return HorizonActorCritic(inputs, actor, critics, horizons)
    return HeadsActorCritic(inputs, actor, critics, heads, horizons)
