"""The trained agent a user holds: it acts, and answers questions about time and certainty."""

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from clearning.config import Config, config_from_dict
from clearning.core.horizons import minimum_horizon
from clearning.errors import ClearningError, UsageError
from clearning.files import fill, load_arrays, named_arrays, save_arrays, spec_from_dict, spec_to_dict
from clearning.networks import build_network
from clearning.rollout import Dial, check_dial, dial_policy, own_dial
from clearning.types import EnvSpec

NetworkBuilder = Callable[[EnvSpec, Config, Array], Any]
_ARRAY = object()  # stands where a network's leaf is an array


class Agent:
    """A learned C-function, or what a peer learned instead, with its goal check; it needs no environment.

    Every method takes one example or any batch of them.
    """

    def __init__(self, network: Any, spec: EnvSpec, config: Config, custom_network: bool = False):
        self.network, self.spec, self.config = network, spec, config
        self.custom_network = custom_network
        leaves, self._structure = jax.tree.flatten(network)
        is_array = [isinstance(x, jax.Array | np.ndarray) for x in leaves]
        self._arrays = [x for x, yes in zip(leaves, is_array, strict=True) if yes]
        self._rest = tuple(_ARRAY if yes else x for x, yes in zip(leaves, is_array, strict=True))

    @property
    def max_horizon(self) -> int:
        return self.config.max_horizon

    def act(
        self,
        obs: ArrayLike,
        goal: ArrayLike,
        horizon: int | ArrayLike | None = None,
        alpha: float | None = None,
        discount: float | None = None,
    ) -> Any:
        """The greedy action (section 3.2): at a given horizon, or at the smallest that is safe enough.

        Without a horizon, it is the smallest whose probability is at least `alpha` (the config's, 0.9, unless
        given) of the best over all horizons: nearer 0 is faster, nearer 1 safer. With one, count it down
        yourself from step to step. D-learning's agent acts by a discount instead. Returns an int for one
        observation and an array for a batch; where actions are continuous, vectors in the environment's
        units.
        """
        s, g, lead = self._pairs(obs, goal)
        if horizon is not None and alpha is not None:
            raise UsageError("Give either a horizon or alpha, not both: alpha is a way to pick the horizon.")
        for name, given in (("horizon", horizon), ("alpha", alpha), ("discount", discount)):
            if given is not None:
                check_dial(self.config, name)
        if horizon is not None:
            actions = self._run(_act_at, (self.spec,), s, g, self._horizons(horizon, lead))
        else:
            own = own_dial(self.config)
            name, value = ("alpha", alpha) if own.discount is None else ("discount", discount)
            value = getattr(own, name) if value is None else check_share(value, name)
            settings = (self.spec, own, self.config.skip_ruled_out)
            actions = self._run(_act_by, settings, s, g, np.float32(value))
        if self.spec.continuous:
            return self.spec.in_bounds(actions).reshape(*lead, -1)
        return _shaped(actions, lead, int)

    def reach_probability(self, obs: ArrayLike, goal: ArrayLike, horizon: int | ArrayLike) -> Any:
        """max_a C(s, a, g, h): how surely the goal can be reached in at most `horizon` steps."""
        s, g, lead = self._pairs(obs, goal)
        self.require_c()
        horizons = self._horizons(horizon, lead)
        best = self._run(_best, (self.spec,), s, g)
        return _shaped(best[np.arange(len(best)), horizons - 1], lead, float)

    def reach_curve(self, obs: ArrayLike, goal: ArrayLike) -> np.ndarray:
        """The reach probability for every horizon 1..H, on a last axis."""
        s, g, lead = self._pairs(obs, goal)
        self.require_c()
        return self._run(_best, (self.spec,), s, g).reshape(*lead, self.max_horizon)

    def min_horizon(self, obs: ArrayLike, goal: ArrayLike, probability: float = 0.9) -> Any:
        """The smallest horizon with at least this probability; None (in a batch: masked) if there is none."""
        if not 0 < probability <= 1:
            raise UsageError(f"probability must lie in (0, 1], not {probability}.")
        curve = self.reach_curve(obs, goal)
        found = np.asarray(minimum_horizon(jnp.asarray(curve), probability))
        if found.ndim == 0:
            return int(found) or None
        return np.ma.masked_equal(found, 0)

    def save(self, path: str | Path) -> None:
        """Write the agent to one safetensors file."""
        record = {
            "kind": "agent",
            "spec": spec_to_dict(self.spec),
            "config": asdict(self.config),
            "custom_network": self.custom_network,
        }
        save_arrays(Path(path), named_arrays(self.network), record)

    @classmethod
    def load(cls, path: str | Path, network: NetworkBuilder | None = None) -> "Agent":
        """Read an agent back; one with a custom network needs the function that builds it."""
        path = Path(path)
        arrays, record = load_arrays(path)
        if record.get("kind") != "agent":
            raise ClearningError(f"{path} holds a {record.get('kind')}, not an agent.")
        if record.get("custom_network") and network is None:
            raise UsageError(f"{path} has a custom network: pass the function that builds it as `network=`.")
        config = config_from_dict(record.get("config", {}))
        spec = spec_from_dict(record.get("spec", {}))
        build = partial(network or build_network, spec, config)
        like = eqx.filter_eval_shape(build, jax.random.key(0))
        return cls(fill(like, arrays, "", path), spec, config, bool(record.get("custom_network")))

    @property
    def knows_c(self) -> bool:
        """Whether it can say how surely a goal is reached in time; peers learn other things."""
        return self.config.method == "c-learning"

    def require_c(self) -> None:
        """Refuse where only C has an answer."""
        if not self.knows_c:
            raise UsageError(
                f"An agent trained by {self.config.method} acts, but has not learned how surely a goal is "
                f"reached within h steps."
            )

    def _run(self, function: Callable[..., Array], settings: tuple, *inputs: Any) -> np.ndarray:
        """`function(*settings, network, *inputs)`, jitted; numpy arrays in and out."""
        return np.asarray(_compiled(function, settings, self._structure, self._rest)(self._arrays, *inputs))

    def _pairs(self, obs: ArrayLike, goal: ArrayLike) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        """Observations and goals broadcast against each other and flattened, and their leading shape."""
        s = _checked(obs, self.spec.observation_size, "observation")
        g = _checked(goal, self.spec.goal_size, "goal")
        try:
            lead = np.broadcast_shapes(s.shape[:-1], g.shape[:-1])
        except ValueError:
            raise UsageError(
                f"Observations of shape {s.shape} and goals of shape {g.shape} do not go together: all axes "
                f"but the last must match."
            ) from None
        flat = lambda x: np.broadcast_to(x, (*lead, x.shape[-1])).reshape(-1, x.shape[-1])  # noqa: E731
        return flat(s), flat(g), lead

    def _horizons(self, horizon: ArrayLike, lead: tuple[int, ...]) -> np.ndarray:
        h = np.asarray(horizon)
        if h.dtype.kind not in "iu" or (h < 1).any() or (h > self.max_horizon).any():
            raise UsageError(f"horizon must be a whole number in 1..{self.max_horizon}, not {horizon}.")
        try:
            return np.broadcast_to(h, lead).reshape(-1).astype(np.int32)
        except ValueError:
            raise UsageError(f"horizon has shape {h.shape}, the batch {lead}: they must match.") from None


def check_share(value: float, name: str) -> float:
    if not 0 < value <= 1:
        raise UsageError(f"{name} must lie in (0, 1], not {value}.")
    return float(value)


def _checked(x: ArrayLike, size: int, what: str) -> np.ndarray:
    x = np.asarray(x, np.float32)
    if x.ndim == 0 or x.shape[-1] != size:
        raise UsageError(f"{what} must have {size} numbers on its last axis; its shape is {x.shape}.")
    if not np.isfinite(x).all():
        raise UsageError(f"{what} holds NaN or infinity; every number must be finite.")
    return x


def _shaped(x: np.ndarray, lead: tuple[int, ...], scalar: type) -> Any:
    return x.reshape(lead) if lead else scalar(x[0])


@lru_cache(maxsize=64)
def _compiled(function: Callable[..., Array], settings: tuple, structure: Any, rest: tuple) -> Any:
    """A function of settings, a network and inputs, jitted to take the network's arrays as a flat list.

    Agents whose networks differ only in their arrays share it. For one observation, taking a network apart
    at each call would cost several times the forward pass.
    """

    def run(arrays: list[Array], *inputs: Array) -> Array:
        remaining = iter(arrays)
        leaves = [next(remaining) if x is _ARRAY else x for x in rest]
        return function(*settings, jax.tree.unflatten(structure, leaves), *inputs)

    return jax.jit(run)


def _best(spec: EnvSpec, network: Any, observation: Array, goal: Array) -> Array:
    """max_a C for every horizon, (n, H); 1 at a reached goal, by definition."""

    def one(s: Array, g: Array) -> Array:
        best = jax.nn.sigmoid(network.curve(s, g).max(0))
        check = spec.goal_check
        return best if check is None else jnp.where(check.reached(check.achieved(s), g), 1.0, best)

    return jax.vmap(one)(observation, goal)


def _act_at(spec: EnvSpec, network: Any, observation: Array, goal: Array, horizon: Array) -> Array:
    def one(s: Array, g: Array, h: Array) -> Array:
        greedy = network.curve(s, g)[:, h - 1].argmax()
        return network.propose(s, g, greedy, h) if spec.continuous else greedy

    return jax.vmap(one)(observation, goal, horizon)


def _act_by(
    spec: EnvSpec, dial: Dial, skip: bool, network: Any, observation: Array, goal: Array, value: Array
) -> Array:
    turned = dial._replace(alpha=value) if dial.discount is None else dial._replace(discount=value)
    policy = dial_policy(network, spec, turned, skip_ruled_out=skip)
    key = jax.random.key(0)  # not used: nothing is explored
    return jax.vmap(lambda s, g: policy(key, s, g, jnp.int32(0)))(observation, goal)
