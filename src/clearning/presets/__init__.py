"""One preset per experiment; the docstring of each says where its numbers come from and what deviates."""

import difflib
import inspect
from collections.abc import Callable
from dataclasses import replace

from clearning.config import Config
from clearning.errors import UsageError
from clearning.presets import paper, peers, robots, worlds
from clearning.presets.robots import gymnasium_defaults, recorded_defaults

__all__ = ["PEERS", "PRESETS", "describe_preset", "gymnasium_defaults", "preset", "recorded_defaults"]

PRESETS: dict[str, Callable[[], Config]] = {
    "frozen-lake": worlds.frozen_lake,
    "mini-maze": worlds.mini_maze,
    "stochastic-maze": worlds.stochastic_maze,
    "dubins-car": worlds.dubins_car,
    "dubins-reachability": worlds.dubins_reachability,
    "cat-and-mouse": worlds.cat_and_mouse,
    "fetch-reach": robots.fetch_reach,
    "fetch-push": robots.fetch_push,
    "fetch-pick-and-place": robots.fetch_pick_and_place,
    "fetch-slide": robots.fetch_slide,
    "hand-reach": robots.hand_reach,
    "hand-manipulate-pen-full": robots.hand_manipulate_pen_full,
    "point-maze-umaze": robots.point_maze_umaze,
    "point-maze-medium": robots.point_maze_medium,
    "paper/frozen-lake": paper.frozen_lake,
    "paper/mini-maze": paper.mini_maze,
    "paper/dubins-car": paper.dubins_car,
    "paper/fetch-pick-and-place": paper.fetch_pick_and_place,
    "paper/hand-manipulate-pen-full": paper.hand_manipulate_pen_full,
}
PEERS: dict[str, Callable[[Config], Config]] = {
    "gcsl": peers.as_gcsl,
    "her": peers.as_her,
    "td3": peers.as_td3,
    "tdm": peers.as_tdm,
    "a-learning": peers.as_a_learning,
    "d-learning": peers.as_d_learning,
    "naive-q": peers.as_naive_q,
    "uniform-h": peers.as_uniform_h,
    "monotone": peers.as_monotone,
    "past-holes": peers.as_past_holes,
}
"""The paper's other methods and variants; `td3/fetch-push` is the preset fetch-push trained by td3."""


def preset(name: str) -> Config:
    """A preset's config by name; an unknown name is answered with the nearest known one."""
    peer, _, rest = name.partition("/")
    if peer in PEERS:
        config = preset(rest)
        if peer not in ("uniform-h", "monotone", "past-holes"):  # others have no C to find a frontier by
            config = replace(config, frontier=0.0)
        return PEERS[peer](config)
    if name not in PRESETS:
        known = [*PRESETS, *(f"{p}/{rest}" for p in PEERS if rest)]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"Did you mean '{near[0]}'?" if near else "See `clearning presets` for all."
        raise UsageError(f"There is no preset '{name}'. {hint}")
    return PRESETS[name]()


def describe_preset(name: str) -> str:
    """What a preset says of itself."""
    peer, _, rest = name.partition("/")
    if peer in PEERS:
        return f"{inspect.getdoc(PEERS[peer])}\n\nThe environment's preset: {describe_preset(rest)}"
    return inspect.getdoc(PRESETS[name]) or ""
