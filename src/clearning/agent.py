"""The trained agent a user holds: it acts, and answers questions about time and certainty."""

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from clearning.agents import check_method
from clearning.config import Config, config_from_dict
from clearning.core.calibration import Recalibration, monotone_curves, recalibration_from_dict
from clearning.core.horizons import minimum_horizon
from clearning.core.recursions import rule_for
from clearning.errors import ClearningError, UsageError
from clearning.files import fill, load_arrays, named_arrays, save_arrays, spec_from_dict, spec_to_dict
from clearning.networks import build_network
from clearning.rollout import Dial, check_dial, dial_horizon, dial_policy, own_dial
from clearning.types import EnvSpec, Method

NetworkBuilder = Callable[[EnvSpec, Config, Array], Any]
_ARRAY = object()  # stands where a network's leaf is an array
# Pairs in one pass: even a wide network that takes the horizon as an input then needs less than 1 GB.
CHUNK = 2048


class Choice(NamedTuple):
    """By what an action was chosen; numbers for one observation, arrays for a batch."""

    horizon: Any
    """The horizon at which the action is greedy."""
    probability: Any
    """Of reaching the goal within that horizon."""
    abstained: Any
    """Whether the goal was held to be unreachable, and no action chosen."""
    disagreement: Any = None
    """Of an ensemble: the standard deviation of its agents' probabilities."""


class Agent:
    """A learned C-function, or what a peer learned instead, with its goal check; it needs no environment.

    Every method takes one example or any batch of them; large batches are answered chunk by chunk. A
    recalibration changes the probabilities that are told, never the actions.
    """

    def __init__(
        self,
        network: Any,
        spec: EnvSpec,
        config: Config,
        custom_network: bool = False,
        recalibration: Recalibration | None = None,
    ):
        self.network, self.spec, self.config = network, spec, config
        self.custom_network, self.recalibration = custom_network, recalibration
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
        *,
        return_info: bool = False,
        abstain_below: float | None = None,
    ) -> Any:
        """The greedy action (section 3.2): at a given horizon, or at the smallest that is safe enough.

        Without a horizon, it is the smallest whose probability is at least `alpha` (the config's, 0.9, unless
        given) of the best over all horizons: nearer 0 is faster, nearer 1 safer. With one, count it down
        yourself from step to step, or let `episode` do it. D-learning's agent acts by a discount instead.
        Returns an int for one observation and an array for a batch; where actions are continuous, vectors in
        the environment's units.

        return_info: also return a `Choice`, the horizon and its probability.
        abstain_below: give no action (None; in a batch: masked) where the goal is less probable than this:
            within the given horizon, or else within any.
        """
        s, g, lead = self._pairs(obs, goal)
        if horizon is not None and alpha is not None:
            raise UsageError("Give either a horizon or alpha, not both: alpha is a way to pick the horizon.")
        for name, given in (("horizon", horizon), ("alpha", alpha), ("discount", discount)):
            if given is not None:
                check_dial(self.config, name)
        horizons = None if horizon is None else self._horizons(horizon, lead)
        own = own_dial(self.config)
        name, value = ("alpha", alpha) if own.discount is None else ("discount", discount)
        value = np.float32(getattr(own, name) if value is None else check_share(value, name))
        if horizons is None:
            actions = self._run(_act_by, self._dial_settings(), s, g, value)
        else:
            actions = self.greedy(s, g, horizons)
        if self.spec.continuous:
            chosen = self.spec.in_bounds(actions).reshape(*lead, -1)
        else:
            chosen = _shaped(actions, lead, int)
        if not return_info and abstain_below is None:
            return chosen
        info = self._choice(s, g, lead, horizons, value, abstain_below)
        if abstain_below is not None:
            chosen = masked(chosen, info.abstained)
        return (chosen, info) if return_info else chosen

    def dialled_horizon(self, obs: ArrayLike, goal: ArrayLike, alpha: float | None = None) -> Any:
        """The horizon that `act` picks by `alpha`, the config's unless given."""
        s, g, lead = self._pairs(obs, goal)
        self.require_c()
        share = self.config.alpha if alpha is None else check_share(alpha, "alpha")
        return _shaped(self._dialled(s, g, np.float32(share)), lead, int)

    def _dialled(self, s: np.ndarray, g: np.ndarray, alpha: np.float32) -> np.ndarray:
        return self._run(_horizon_alpha, self._dial_settings(), s, g, alpha)

    def greedy(self, s: np.ndarray, g: np.ndarray, horizons: np.ndarray) -> np.ndarray:
        """The best actions of flat batches, each at its own horizon, as learners see them: scaled to [−1, 1]
        where they are continuous."""
        return self._run(_act_at, (self.spec,), s, g, horizons)

    def episode(self, goal: ArrayLike, horizon: int | None = None) -> "Episode":
        """The policy that goes after a goal within a number of steps, H unless given."""
        return Episode(self, goal, self.max_horizon if horizon is None else horizon)

    def reach_probability(
        self, obs: ArrayLike, goal: ArrayLike, horizon: int | ArrayLike, monotone: bool = False
    ) -> Any:
        """max_a C(s, a, g, h): how surely the goal can be reached in at most `horizon` steps."""
        s, g, lead = self._pairs(obs, goal)
        self.require_c()
        horizons = self._horizons(horizon, lead)
        found = self._answers(s, g, lambda curve, rows: _at(curve, horizons[rows]), monotone)
        return _shaped(found, lead, float)

    def reach_curve(self, obs: ArrayLike, goal: ArrayLike, monotone: bool = False) -> np.ndarray:
        """The reach probability for every horizon 1..H, on a last axis.

        A learned curve may fall here and there, which the true one cannot: `monotone` gives the nearest curve
        (in least squares) that does not.
        """
        s, g, lead = self._pairs(obs, goal)
        return self._answers(s, g, lambda curve, _: curve, monotone).reshape(*lead, self.max_horizon)

    def min_horizon(
        self, obs: ArrayLike, goal: ArrayLike, probability: float = 0.9, monotone: bool = False
    ) -> Any:
        """The smallest horizon with at least this probability; None (in a batch: masked) if there is none."""
        check_share(probability, "probability")
        s, g, lead = self._pairs(obs, goal)
        smallest = lambda curve, _: np.asarray(minimum_horizon(curve, probability))  # noqa: E731
        return found_or_none(self._answers(s, g, smallest, monotone).reshape(lead))

    def reachable(
        self, obs: ArrayLike, goals: ArrayLike, horizon: int | ArrayLike, probability: float = 0.5
    ) -> Any:
        """Whether goals can be reached in at most `horizon` steps with at least this probability.

        One state goes with any number of goals.
        """
        check_share(probability, "probability")
        return self.reach_probability(obs, goals, horizon) >= probability

    def recalibrated(self, recalibration: Recalibration | None) -> "Agent":
        """The same agent with another map from what the network says to what it tells; None for no map."""
        return Agent(self.network, self.spec, self.config, self.custom_network, recalibration)

    def save(self, path: str | Path) -> None:
        """Write the agent to one safetensors file."""
        record = {
            "kind": "agent",
            "spec": spec_to_dict(self.spec),
            "config": asdict(self.config),
            "custom_network": self.custom_network,
            "recalibration": asdict(self.recalibration) if self.recalibration else None,
        }
        save_arrays(Path(path), named_arrays(self.network), record)

    @classmethod
    def load(cls, path: str | Path, network: NetworkBuilder | None = None) -> "Agent":
        """Read an agent back; one with a custom network needs the function that builds it."""
        path = Path(path)
        arrays, record = load_arrays(path)
        if record.get("kind") != "agent":
            raise ClearningError(f"{path} is not an agent but another file of ours.")
        if record.get("custom_network") and network is None:
            raise UsageError(f"{path} has a custom network: pass the function that builds it as `network=`.")
        try:
            config = config_from_dict(record.get("config"))
        except UsageError as error:
            raise ClearningError(f"{path} is damaged: {error}") from error
        spec = spec_from_dict(record.get("spec"))
        check_method(spec, config)
        build = partial(network or build_network, spec, config)
        like = eqx.filter_eval_shape(build, jax.random.key(0))
        recalibration = recalibration_from_dict(record.get("recalibration"))
        return cls(
            fill(like, arrays, "", path), spec, config, bool(record.get("custom_network")), recalibration
        )

    def _choice(
        self,
        s: np.ndarray,
        g: np.ndarray,
        lead: tuple[int, ...],
        horizons: np.ndarray | None,
        alpha: np.float32,
        abstain_below: float | None,
    ) -> Choice:
        self.require_c()
        if abstain_below is not None:
            check_share(abstain_below, "abstain_below")
        dialled = horizons is None
        at = self._dialled(s, g, alpha) if dialled else horizons
        probability = self._answers(s, g, lambda curve, rows: _at(curve, at[rows]))
        largest = self._answers(s, g, lambda curve, _: curve.max(-1)) if dialled else probability
        abstained = largest < (abstain_below or 0.0)
        return Choice(
            _shaped(at, lead, int), _shaped(probability, lead, float), _shaped(abstained, lead, bool)
        )

    def _dial_settings(self) -> tuple[EnvSpec, Dial, bool]:
        return self.spec, own_dial(self.config), self.config.skip_ruled_out

    @property
    def knows_c(self) -> bool:
        """Whether it can say how surely a goal is reached in time; most peers learn other things."""
        return self.config.method in ("c-learning", "naive-q")

    def require_c(self) -> None:
        """Refuse where only C has an answer."""
        if not self.knows_c:
            raise UsageError(
                f"An agent trained by {self.config.method} acts, but has not learned how surely a goal is "
                f"reached within h steps."
            )

    def _answers(
        self, s: np.ndarray, g: np.ndarray, answer: Callable[..., np.ndarray], monotone: bool = False
    ) -> np.ndarray:
        """What `answer(curves, rows)` makes of the curves (n, H) of the pairs in some rows, for all rows."""
        self.require_c()
        settings = (self.spec, self.config.method, self.recalibration)

        def of_rows(rows: Any) -> np.ndarray:
            curves = self._run(_best, settings, s[rows], g[rows])
            return answer(monotone_curves(curves) if monotone else curves, rows)

        return _in_chunks(of_rows, len(s))

    def _run(self, function: Callable[..., Array], settings: tuple, *inputs: Any) -> np.ndarray:
        """`function(*settings, network, *inputs)`, jitted; numpy arrays in and out."""
        compiled = _compiled(function, settings, self._structure, self._rest)
        if len(inputs[0]) <= CHUNK:
            return np.asarray(compiled(self._arrays, *inputs))
        of_rows = lambda rows: (x[rows] if np.ndim(x) else x for x in inputs)  # noqa: E731
        return _in_chunks(lambda rows: np.asarray(compiled(self._arrays, *of_rows(rows))), len(inputs[0]))

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


class Episode:
    """Goes after one goal within a number of steps: the horizon counts down with every action."""

    def __init__(self, agent: Agent, goal: ArrayLike, horizon: int):
        self.agent, self.goal = agent, _checked(goal, agent.spec.goal_size, "goal")
        self.steps_left = int(agent._horizons(horizon, ())[0])

    def act(self, obs: ArrayLike, **options: Any) -> Any:
        """The best action with the steps that are left; options as those of `Agent.act`."""
        if not self.steps_left:
            raise UsageError("The steps of this episode are used up: begin another.")
        action = self.agent.act(obs, self.goal, horizon=self.steps_left, **options)
        self.steps_left -= 1
        return action


def found_or_none(horizons: np.ndarray) -> Any:
    """Smallest horizons, with 0 for none, as a user is told them: None, or masked, where there is none."""
    return np.ma.masked_equal(horizons, 0) if horizons.ndim else int(horizons) or None


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


def _at(curves: np.ndarray, horizons: np.ndarray) -> np.ndarray:
    """Each curve of (n, H) at its own horizon."""
    return curves[np.arange(len(curves)), horizons - 1]


def masked(actions: Any, without: Any) -> Any:
    """Actions, but None (in a batch: masked) where there shall be none."""
    if np.ndim(without) == 0:
        return None if without else actions
    rows = without.reshape(without.shape + (1,) * (actions.ndim - without.ndim))
    return np.ma.array(actions, mask=np.broadcast_to(rows, actions.shape))


def _in_chunks(answer: Callable[[Any], np.ndarray], count: int) -> np.ndarray:
    """The answers of `answer(rows)` for many rows, a chunk at a time."""
    if count <= CHUNK:
        return answer(slice(None))
    found = None
    for start in range(0, count, CHUNK):
        # The last chunk repeats its last row: chunks of one shape are compiled once.
        rows = np.minimum(np.arange(start, start + CHUNK), count - 1)
        part = answer(rows)
        if found is None:
            found = np.empty((count, *part.shape[1:]), part.dtype)
        found[rows] = part
    assert found is not None
    return found


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


def _best(
    spec: EnvSpec, method: Method, told: Recalibration | None, network: Any, observation: Array, goal: Array
) -> Array:
    """max_a C for every horizon, (n, H); 1 at a reached goal, by definition."""
    link = rule_for(method, 0.5).link  # no link depends on the discount

    def one(s: Array, g: Array) -> Array:
        # Only naive horizon-aware Q, which knows no link, can leave 0..1.
        best = jnp.clip(link(network.curve(s, g).max(0)), 0.0, 1.0)
        best = told(best) if told else best
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


def _horizon_alpha(
    spec: EnvSpec, dial: Dial, skip: bool, network: Any, observation: Array, goal: Array, alpha: Array
) -> Array:
    """The horizons at which `_act_by` is greedy."""
    link = rule_for(dial.method, 0.5).link

    def one(s: Array, g: Array) -> Array:
        values = link(network.curve(s, g))
        return dial_horizon(values, spec, dial._replace(alpha=alpha), s, g, 0, skip)

    return jax.vmap(one)(observation, goal)
