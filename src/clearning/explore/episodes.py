"""What an agent expects along episodes that it played: for environments that there is no map of."""

import io
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from PIL import Image

from clearning.agent import Agent
from clearning.config import Config
from clearning.envs import ExternalEnv, make_world
from clearning.errors import ClearningError, UsageError
from clearning.plots.style import TITLES
from clearning.recording import drawn_world, picture, starts, walk
from clearning.rollout import batched_policy, own_dial

EPISODES = 4
MOST_EPISODES = 20  # pictures are kept in memory, some 20 kB each


@dataclass
class Film:
    """One recorded episode: what was seen at each moment, and how it ended."""

    observation: np.ndarray  # (moments, observation)
    goal: np.ndarray
    reached: bool
    pictures: list[bytes]  # JPEG, one a moment; none where the environment cannot be drawn


class EpisodeView:
    """One run's agent on episodes recorded with it."""

    def __init__(self, name: str, agent: Agent, record: dict[str, Any], films: Sequence[Film], why: str):
        self.name, self.agent, self.record, self.films = name, agent, record, films
        self.without_pictures = why
        self._observation = np.concatenate([f.observation for f in films])
        self._goal = np.concatenate([np.tile(f.goal, (len(f.observation), 1)) for f in films])
        self._ends = np.cumsum([len(f.observation) for f in films])
        self._curves = agent.reach_curve(self._observation, self._goal)

    def moments(self, episode: int, alpha: float) -> dict[str, Any]:
        """At each moment of an episode the curve of C over h, and the horizon that the dial picks."""
        # All episodes at once: one shape, so one compilation serves for all.
        horizons = self.agent.dialled_horizon(self._observation, self._goal, alpha)
        rows = slice(self._ends[episode] - len(self.films[episode].observation), self._ends[episode])
        return {
            "curves": np.round(self._curves[rows], 4).tolist(),
            "horizons": horizons[rows].tolist(),
            "reached": self.films[episode].reached,
        }

    def picture(self, episode: int, moment: int) -> bytes:
        """The picture of a moment, as JPEG."""
        pictures = self.films[episode].pictures
        if moment >= len(pictures):
            last = f"its moments are 0..{len(pictures) - 1}" if pictures else "it has none"
            raise UsageError(f"Episode {episode} has no picture {moment}: {last}.")
        return pictures[moment]

    def warm_up(self) -> None:
        """Compile what the dial needs, so that a person need not wait for it."""
        self.moments(0, self.agent.config.alpha)

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "preset": self.record.get("preset"),
            "seed": self.record.get("seed"),
            "max_horizon": self.agent.max_horizon,
            "alpha": self.agent.config.alpha,
            "episodes": [{"steps": len(f.observation) - 1, "reached": f.reached} for f in self.films],
            "without_pictures": self.without_pictures,
        }


def describe_episodes(views: Sequence[EpisodeView]) -> dict[str, Any]:
    """What the page must know before it asks for moments."""
    name = views[0].agent.spec.name
    return {"env": name, "title": TITLES.get(name, name), "runs": [v.describe() for v in views]}


def record(agent: Agent, config: Config, count: int, seed: int = 0) -> tuple[list[Film], str]:
    """Episodes by the agent's own dial, as evaluation begins them; and why they have no pictures, if so."""
    if not 1 <= count <= MOST_EPISODES:
        raise UsageError(f"--episodes must be in 1..{MOST_EPISODES}, not {count}.")
    agent.require_c()
    try:
        world = drawn_world(config, agent)
        with closing(world.env):
            return _films(agent, world, count, seed, drawn=True), ""
    except ClearningError as error:  # also in the midst: half a film is worse than none
        why = str(error)
    world = make_world(config)
    with closing(world.env):
        return _films(agent, world, count, seed, drawn=False), why


def _films(agent: Agent, world: ExternalEnv, count: int, seed: int, drawn: bool) -> list[Film]:
    dial = own_dial(agent.config)
    act = batched_policy(agent.network, agent.spec, agent.config, dial, jax.random.key(seed))
    films = []
    for start in starts(world.env, count, seed):
        seen, pictures, moment = [], [], None
        for moment in walk(agent, world, start, dial, act):
            seen.append(moment.observation)
            if drawn:
                pictures.append(_jpeg(picture(world.env, world.name)))
        assert moment
        films.append(Film(np.stack(seen), moment.goal, moment.success, pictures))
    return films


def _jpeg(pixels: np.ndarray) -> bytes:
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "JPEG", quality=85)
    return written.getvalue()
