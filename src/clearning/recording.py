"""Episodes of a trained agent on Gymnasium's form of any environment: moment by moment, with pictures.

rendering_env  an environment that can be drawn
walk           one episode as moments, between which the environment can be drawn
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from PIL import Image

from clearning.agent import Agent
from clearning.config import Config
from clearning.envs import ENVIRONMENTS, ExternalEnv, make, require_environment
from clearning.envs.external import open_by_name
from clearning.envs.gymnasium_env import GymnasiumGoalEnv
from clearning.envs.worker import EnvGroup
from clearning.errors import ClearningError, UsageError
from clearning.evaluate import TEST_SEEDS, steps_to_take
from clearning.rollout import Dial
from clearning.runs import refuse_other_world

SIDE = 640  # pixels of a picture, which is a square

ActAt = Callable[[Any, Any, int], Any]


class Start(NamedTuple):
    """How an episode begins: `env.reset(seed=..., options=...)`."""

    seed: int
    options: dict[str, Any] | None = None


class Moment(NamedTuple):
    """Where an episode is after some steps, and whether it ends there."""

    step: int
    observation: np.ndarray
    goal: np.ndarray
    over: bool
    success: bool


def walk(agent: Agent, world: ExternalEnv, start: Start, dial: Dial, act: ActAt) -> Iterator[Moment]:
    """One episode of `act(observations, goals, step)`; at each moment given, the environment stands there."""
    if not isinstance(world.env.unwrapped, GymnasiumGoalEnv):  # a foreign one may have changed
        refuse_other_world("The agent", agent.spec, world.spec)
    group = EnvGroup([world.env], world.action_repeat)
    limit = steps_to_take(agent.spec, dial)
    first, _ = world.env.reset(seed=start.seed, options=start.options)
    observation = np.asarray(first["observation"], np.float32)
    goal = np.asarray(first["desired_goal"], np.float32)
    step, over, success = 0, False, False
    while not over:
        yield Moment(step, observation, goal, over, success)
        action = act(observation[None], goal[None], step)
        seen = group.step([0], agent.spec.in_bounds(action) if agent.spec.continuous else action)
        observation, step = seen.observation[0], step + 1
        success = bool(world.reached(seen.achieved, seen.desired)[0])
        over = success or step >= limit or bool(seen.terminated[0] or seen.truncated[0])
    yield Moment(step, observation, goal, over, success)


def rendering_env(config: Config) -> gymnasium.Env[Any, Any]:
    """A config's environment in Gymnasium's form, ready to be drawn."""
    require_environment(config)
    if config.env in ENVIRONMENTS:
        return GymnasiumGoalEnv(make(config.env, config.env_options), "rgb_array")
    if sys.platform == "linux":
        os.environ.setdefault("MUJOCO_GL", "egl")  # draws without a screen
    options = {**config.env_options, "render_mode": "rgb_array"}
    if config.max_episode_steps:
        options["max_episode_steps"] = config.max_episode_steps
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a render mode that is missing is told below
        try:
            env = open_by_name(config.env, options)
        except UsageError as error:
            if "unexpected keyword argument 'render_mode'" not in str(error):
                raise
            raise UsageError(f"{config.env} cannot be drawn: it takes no render_mode.") from error
    if "rgb_array" not in env.metadata.get("render_modes", ()):
        env.close()
        raise UsageError(f"{config.env} cannot be drawn: it has no render mode 'rgb_array'.")
    return env


def drawn_world(config: Config, agent: Agent) -> ExternalEnv:
    """An agent's environment, ready to be walked through and drawn; close its `env` afterwards."""
    env = rendering_env(config)
    try:
        limit = config.max_episode_steps or agent.spec.max_episode_steps * config.action_repeat
        return ExternalEnv(env, None, limit, config.action_repeat, reached_within=config.reached_within)
    except ClearningError:
        env.close()
        raise


def starts(env: gymnasium.Env[Any, Any], count: int, seed: int) -> list[Start]:
    """The episodes to film: as in evaluation, the first of its fresh ones, or some of the test set."""
    seeds = TEST_SEEDS * (1 + seed) + np.arange(count)
    test_set = getattr(getattr(env.unwrapped, "functional", None), "test_set", None)
    if test_set is None:
        return [Start(int(s)) for s in seeds]
    test = test_set()
    order = np.random.default_rng(seed).permutation(len(test.goal))
    chosen = np.resize(order, count)  # over again where there are fewer
    return [
        Start(int(s), {"state": test.state[i], "goal": test.goal[i]})
        for s, i in zip(seeds, chosen, strict=True)
    ]


def picture_of(config: Config) -> np.ndarray:
    """A picture of a config's environment at the start of an episode, uint8 (SIDE, SIDE, 3)."""
    env = rendering_env(config)
    try:
        env.reset(seed=0)
        return picture(env, config.env)
    finally:
        env.close()


def picture(env: gymnasium.Env[Any, Any], name: str) -> np.ndarray:
    """The environment's picture, fitted into a white square."""
    try:
        image: Any = env.render()
    except Exception as error:
        raise ClearningError(f"{name} could not be drawn: {type(error).__name__}: {error}.") from error
    if not isinstance(image, np.ndarray) or image.ndim != 3:
        raise ClearningError(f"{name} could not be drawn: its render() gives no picture.")
    shown = Image.fromarray(np.ascontiguousarray(image[..., :3], np.uint8))
    scale = SIDE / max(shown.size)
    shown = shown.resize([round(n * scale) for n in shown.size], Image.Resampling.LANCZOS)
    square = Image.new("RGB", (SIDE, SIDE), "white")
    square.paste(shown, ((SIDE - shown.width) // 2, (SIDE - shown.height) // 2))
    return np.asarray(square)
