"""The functional environments in Gymnasium's form: dictionary observations with a desired goal."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import jax
import numpy as np
from gymnasium import spaces
from jax import Array

from clearning.errors import UsageError
from clearning.types import GoalEnv

# Gymnasium ids, and the names that `clearning.envs.make` knows.
IDS = {
    "clearning/FrozenLake-v0": "frozen-lake",
    "clearning/MiniMaze-v0": "mini-maze",
    "clearning/DubinsCar-v0": "dubins-car",
    "clearning/CatAndMouse-v0": "cat-and-mouse",
}
ROUNDING = 1e-4  # states and goals this little out of bounds are moved back in
GOAL_DRAWS = 5  # a goal reached at the start makes an empty episode, so it is drawn again

Observation = dict[str, np.ndarray]
Sight = tuple[Array, Array, Array, Array]  # observation, achieved goal, reached, dead


class GymnasiumGoalEnv(gymnasium.Env[Any, Any]):
    """Any functional goal environment as a Gymnasium one, with rewards −1, and 0 on reaching the goal.

    `info["dead"]` says whether the state is absorbing whatever the goal, `info["is_success"]` whether the
    episode's own goal is reached; either terminates. Time limits are left to Gymnasium's wrapper. Step t of
    an episode uses `fold_in(key, t)`, so a trajectory can be repeated in the functional form.
    """

    # Gymnasium declares this one without ClassVar.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(self, env: GoalEnv, render_mode: str | None = None) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise UsageError(f"There is no render mode '{render_mode}': use 'rgb_array' or None.")
        self.functional = env
        self.render_mode = render_mode
        spec = env.spec
        goals = _box(spec.goal_low, spec.goal_high)
        self.goal_space = goals
        self.observation_space = spaces.Dict(
            {
                "observation": _box(spec.observation_low, spec.observation_high),
                "achieved_goal": goals,
                "desired_goal": _box(spec.goal_low, spec.goal_high),
            }
        )
        self.action_space = (
            _box(spec.action_low, spec.action_high) if spec.continuous else spaces.Discrete(spec.num_actions)
        )
        self.key: Array | None = None
        self.state: Any = None
        self.goal: np.ndarray | None = None
        self.steps = 0
        self._step = jax.jit(self._advance)
        self._look = jax.jit(self._see)
        self._draw_state = jax.jit(env.initial_state)
        self._draw_goal = jax.jit(env.sample_goal)
        self._reached = jax.jit(jax.vmap(env.reached))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; `options` may give the "state" to start from, the "goal", or both."""
        given = self._checked(options or {})
        super().reset(seed=seed)
        base = jax.random.key(int(self.np_random.integers(2**31)))
        self.key, key_state, key_goal = jax.random.split(base, 3)
        self.state = given["state"] if "state" in given else self._draw_state(key_state)
        self.steps = 0
        self.goal = given.get("goal")
        if self.goal is None:
            achieved = np.asarray(self.functional.achieved_goal(self.state))
            for key in jax.random.split(key_goal, GOAL_DRAWS):
                self.goal = np.asarray(self._draw_goal(key), np.float32)
                if not self._is_reached(achieved, self.goal):
                    break
        return self._report(self._look(self.state, self.goal))

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action, given by its number or, where continuous, as a vector."""
        if self.key is None:
            raise UsageError("There is no episode to step in: call reset() first.")
        if not self.action_space.contains(action):
            spec = self.functional.spec
            raise UsageError(
                f"{action!r} is no action: give float32 numbers in {spec.action_low}..{spec.action_high}."
                if spec.continuous
                else f"There is no action {action!r}: choose one of 0..{spec.num_actions - 1}."
            )
        chosen = np.asarray(action, self.functional.spec.action_dtype)
        self.state, seen = self._step(self.key, np.int32(self.steps), self.state, chosen, self.goal)
        self.steps += 1
        observation, info = self._report(seen)
        success = info["is_success"]
        return observation, 0.0 if success else -1.0, success or info["dead"], False, info

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any = None) -> Any:
        """Rewards of achieved goals, over any leading shape: 0 where the goal is reached, −1 elsewhere."""
        return (self._is_reached(achieved_goal, desired_goal).astype(np.float32) - np.float32(1.0))[()]

    def render(self) -> np.ndarray | None:
        """The map with agent and goal as an RGB image."""
        if self.render_mode is None:
            gymnasium.logger.warn("render() does nothing without a render mode: make with 'rgb_array'.")
            return None
        if self.state is None:
            raise UsageError("There is nothing to render yet: call reset() first.")
        from clearning.envs import draw  # Matplotlib is slow to import and rarely needed here

        return draw.render_rgb(self.functional, self.state, self.goal)

    def _advance(self, key: Array, t: Array, state: Any, action: Array, goal: Array) -> tuple[Any, Sight]:
        state = self.functional.step(jax.random.fold_in(key, t), state, action)
        return state, self._see(state, goal)

    def _see(self, state: Any, goal: Array) -> Sight:
        env = self.functional
        achieved = env.achieved_goal(state)
        return env.observe(state), achieved, env.reached(achieved, goal), env.is_dead(state)

    def _report(self, seen: Sight) -> tuple[Observation, dict[str, Any]]:
        observation, achieved, success, dead = seen
        assert self.goal is not None
        report = {
            "observation": np.asarray(observation, np.float32),
            "achieved_goal": np.asarray(achieved, np.float32),
            "desired_goal": self.goal.copy(),
        }
        return report, {"is_success": bool(success), "dead": bool(dead)}

    def _is_reached(self, achieved: Any, goal: Any) -> np.ndarray:
        achieved, goal = np.broadcast_arrays(np.asarray(achieved, np.float32), np.asarray(goal, np.float32))
        size = self.functional.spec.goal_size
        reached = self._reached(achieved.reshape(-1, size), goal.reshape(-1, size))
        return np.asarray(reached).reshape(achieved.shape[:-1])

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options, sound and in the environment's types."""
        unknown = sorted(set(options) - {"state", "goal"})
        if unknown:
            raise UsageError(f"reset has no option '{unknown[0]}'; its options are 'state' and 'goal'.")
        checked: dict[str, Any] = {}
        if options.get("state") is not None:
            checked["state"] = self._checked_state(options["state"])
        if options.get("goal") is not None:
            checked["goal"] = self._checked_goal(options["goal"])
        return checked

    def _checked_state(self, given: Any) -> Any:
        env = self.functional
        wanted = jax.eval_shape(env.initial_state, jax.random.key(0))
        if not hasattr(wanted, "shape"):
            raise UsageError("This environment's state is not one vector: leave 'state' out.")
        state = _vector("state", given, wanted.shape)
        low, high = (np.asarray(b) for b in (env.spec.observation_low, env.spec.observation_high))
        nearest = state
        # The observation's bounds bind the state only where the two are the same thing.
        if state.shape == low.shape and np.allclose(env.observe(state), state):
            nearest = np.clip(state, low, high)
        rounding = np.allclose(nearest, state, rtol=1e-6, atol=ROUNDING)
        refuse = getattr(env, "refuse", None)  # optional: not every environment can tell
        objection = refuse(nearest if rounding else state) if refuse else None
        if objection:
            raise UsageError(f"reset refuses this start: {objection}.")
        return jax.numpy.asarray(nearest, wanted.dtype)

    def _checked_goal(self, given: Any) -> np.ndarray:
        goal = _vector("goal", given, self.goal_space.shape)
        low, high = self.goal_space.low, self.goal_space.high
        nearest = np.clip(goal, low, high)
        if not np.allclose(nearest, goal, rtol=1e-6, atol=ROUNDING):
            bounds = " and ".join(f"{a:g}..{b:g}" for a, b in zip(low, high, strict=True))
            raise UsageError(f"reset refuses this goal: {_words(goal)} is out of bounds, which are {bounds}.")
        return nearest.astype(np.float32)


def _vector(what: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A finite array of the shape asked for, in float64."""
    try:
        vector = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"The {what} must be an array of numbers of shape {shape}, not {given!r}.") from None
    if vector.shape != shape:
        raise UsageError(f"The {what} has shape {vector.shape}: it must have shape {shape}.")
    if not np.isfinite(vector).all():
        raise UsageError(f"The {what} {_words(vector)} is not finite: every number in it must be.")
    return vector


def _words(vector: np.ndarray) -> str:
    return "(" + ", ".join(f"{v:g}" for v in vector) + ")"


def _box(low: tuple[float, ...], high: tuple[float, ...]) -> spaces.Box:
    return spaces.Box(np.array(low, np.float32), np.array(high, np.float32), dtype=np.float32)


def make_env(name: str, render_mode: str | None = None, **options: Any) -> GymnasiumGoalEnv:
    """An environment of this package in Gymnasium's form; options go by the names of its fields."""
    from clearning.envs import make  # which imports this module to register it

    return GymnasiumGoalEnv(make(name, options), render_mode)


def register() -> None:
    """Make the environments known to `gymnasium.make`; doing it twice is harmless."""
    from clearning.envs import ENVIRONMENTS

    for id_, name in IDS.items():
        if id_ not in gymnasium.registry:
            gymnasium.register(
                id_,
                entry_point="clearning.envs.gymnasium_env:make_env",
                kwargs={"name": name},
                max_episode_steps=ENVIRONMENTS[name]().spec.max_episode_steps,
            )
