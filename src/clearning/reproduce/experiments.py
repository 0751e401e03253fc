"""What the paper compares: worlds, methods and the trainings that each of its tables and figures needs."""

import difflib
import hashlib
import json
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from clearning.config import Config, replace_settings
from clearning.errors import UsageError
from clearning.presets import preset

Budget = Literal["paper", "quick"]
QUICK = 0.2  # share of every training's length
QUICK_SEEDS = 2

FORMS = {"paper/": "paper's form", "": "all horizons"}
"""What stands before a world's name in a preset, and what we call it."""

WORLDS = {
    "frozen-lake": "Frozen lake",
    "mini-maze": "Mini maze",
    "dubins-car": "Dubins' car",
    "dubins-reachability": "Dubins' car without walls",
    "fetch-pick-and-place": "FetchPickAndPlace",
    "hand-manipulate-pen-full": "HandManipulatePenFull",
}
ROBOT_STEPS = {
    "fetch-pick-and-place": {"": 300_000, "paper/": 100_000},
    "hand-manipulate-pen-full": {"": 1_000_000, "paper/": 150_000},
}
"""Environment steps of every method on a robot, by form: ours as in its presets. The paper's 40,000 and
60,000 episodes are up to 2 and 6 million, days for each of its runs on one core."""
ROBOT_PAPER = {"frontier": 0.0, "evaluate_every": 10_000}
"""The paper's form on robots: our presets, which learn in as many steps, but one horizon as an input of
critics and actor, and no episodes at the frontier, which needs C. The paper's own settings, with two to ten
times as many updates for each step, at a tenth of the rate, are those of the presets `paper/…`."""

METHODS = {
    "c-learning": "C-learning",
    "gcsl": "GCSL",
    "her": "HER",
    "td3": "HER (TD3)",
    "a-learning": "A-learning",
    "d-learning": "D-learning",
    "tdm": "TDM",
    "naive-q": "naive horizon-aware Q",
    "uniform-h": "uniform h",
    "monotone": "monotone network",
    "past-holes": "C-learning, holes looked beyond",
    "past-holes/her": "HER, holes looked beyond",
}

CAR = ("c-learning", "gcsl", "her")
ROBOT = ("c-learning", "td3")
PAST_HOLES = ("past-holes", "past-holes/her")
"""On the lake, as the authors' code had it: without these nobody can tell why their HER gets over it."""
DISCOUNTS = (0.5, 0.9, 0.99)  # to act with by D-learning: the paper does not say which
DRAWN_ACTIONS = "drawn"
Acting = float | Literal["drawn"] | None
"""How a method acts in its tests, where there is more than one way: a discount, or actions drawn from its
policy instead of the likeliest."""


def ways_of_acting(method: str) -> tuple[Acting, ...]:
    """All that a method is tested with. Of GCSL, too, the paper does not say how it acts."""
    ways: dict[str, tuple[Acting, ...]] = {"d-learning": DISCOUNTS, "gcsl": (None, DRAWN_ACTIONS)}
    return ways.get(method, (None,))


NEEDS: dict[str, dict[str, tuple[str, ...]]] = {
    "table-1": {"dubins-car": CAR, "fetch-pick-and-place": ROBOT, "hand-manipulate-pen-full": ROBOT},
    "table-2": {"mini-maze": CAR},
    "table-3": {"dubins-car": CAR},
    "table-4": {"dubins-car": ("c-learning", "a-learning", "d-learning")},
    "figure-1b": {},
    "figure-environments": {},
    "figure-difficulties": {},
    "figure-3a": {"frozen-lake": (*CAR, *PAST_HOLES)},
    "figure-3b": {"dubins-reachability": ("c-learning",)},
    "figure-3c": {"dubins-car": CAR},
    "figure-3d": {"dubins-car": CAR, "fetch-pick-and-place": ROBOT, "hand-manipulate-pen-full": ROBOT},
    "figure-ablation": {
        "dubins-car": ("c-learning", "naive-q", "uniform-h", "monotone"),
        "fetch-pick-and-place": ("c-learning", "naive-q", "uniform-h"),
    },
    "figure-tdm": {
        "dubins-car": ("c-learning", "tdm"),
        "fetch-pick-and-place": ("c-learning", "tdm"),
        "hand-manipulate-pen-full": ("c-learning", "tdm"),
    },
    "claims": {},
}
"""The methods that each target shows in each world. `claims` judges by what was trained for the others."""

FIVE_SEEDS = ("table-1", "table-3", "figure-3c", "figure-3d")
"""What the paper shows of five seeds: table 1 and the car; the maze and table 4 have three. Of the others it
does not say, and they have three."""
ROBOT_SEEDS = 2  # of any of these: each takes an hour

DRAWN_BY = ("figure-3a", "figure-3b", "figure-3c")
"""Figures that show an agent itself, not only how it did."""

ONE_FORM = ("naive-q", "uniform-h", "tdm", *PAST_HOLES)
"""Methods that exist in the form of one sampled horizon only, or explain what the authors' code did: they
stand beside the paper's form."""


@dataclass(frozen=True)
class Run:
    """One training: a preset with some settings changed, and a seed."""

    world: str
    method: str
    form: str  # a key of FORMS
    seed: int
    preset: str
    settings: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def config(self) -> Config:
        return replace_settings(preset(self.preset), self.settings)

    @property
    def identity(self) -> str:
        return identity(self.config, self.seed)

    @property
    def title(self) -> str:
        return f"{self.preset}, seed {self.seed}"

    def arguments(self) -> list[str]:
        """What `clearning train` is called with, apart from --out."""
        words = [self.preset, "--seed", str(self.seed)]
        for name, value in self.settings.items():
            words.append(f"--{name.replace('_', '-')}")
            if isinstance(value, dict):
                words += [str(word) for pair in value.items() for word in pair]
            else:
                words += map(str, value if isinstance(value, tuple) else (value,))
        return words


def identity(config: Config, seed: int) -> str:
    """What a run is known by again: a hash of its seed and of all settings that change what it learns."""
    settings = asdict(config)
    del settings["processes"]  # every environment has its own seed, whichever process steps it
    record = json.dumps([settings, seed], sort_keys=True)
    return hashlib.sha256(record.encode()).hexdigest()[:12]


def targets(what: str) -> list[str]:
    """The tables and figures that are asked for; an unknown name is answered with the nearest known one."""
    if what == "all":
        return list(NEEDS)
    if what not in NEEDS:
        near = difflib.get_close_matches(what, [*NEEDS, "all"], n=1, cutoff=0.4)
        hint = f"Did you mean '{near[0]}'?" if near else f"There is {', '.join(NEEDS)} and all."
        raise UsageError(f"There is nothing called '{what}' to reproduce. {hint}")
    return [what]


def robots_installed() -> bool:
    return find_spec("gymnasium_robotics") is not None


def with_robots(budget: Budget, asked: Literal["auto", "yes", "no"]) -> bool:
    """Whether robots are trained: with the paper's budget where they are installed, or if asked for."""
    if asked == "yes" and not robots_installed():
        raise UsageError("Robots need gymnasium-robotics: `pip install 'clearning[robotics]'`.")
    return asked == "yes" or (asked == "auto" and budget == "paper" and robots_installed())


def needed(what: str, seeds: tuple[int, ...], budget: Budget, robots: bool) -> list[Run]:
    """The trainings behind a target, those of the first seed first, so that a stop leaves whole rows.

    Without seeds, as many as the paper has, or two of the quick ones and of robots.
    """
    found = []
    for seed in seeds or range(seeds_of(what, budget)):
        for world, methods in NEEDS[what].items():
            if world in ROBOT_STEPS and not (robots and (seeds or seed < ROBOT_SEEDS)):
                continue
            for method in methods:
                found += [run_of(world, method, form, seed, budget) for form in forms_of(method)]
    return found


def seeds_of(what: str, budget: Budget) -> int:
    """How many seeds a target has unless told."""
    if budget == "quick":
        return QUICK_SEEDS
    return 5 if what in FIVE_SEEDS else 3


def forms_of(method: str) -> tuple[str, ...]:
    return ("paper/",) if method in ONE_FORM else tuple(FORMS)


DRAWN = [
    (world, method, form)
    for target in DRAWN_BY
    for world, methods in NEEDS[target].items()
    for method in methods
    for form in forms_of(method)
]
"""Worlds, methods and forms of which such a figure shows one agent."""


def run_of(world: str, method: str, form: str, seed: int, budget: Budget) -> Run:
    """One method in one world, in the paper's form or in ours, as long as the budget says."""
    settings: dict[str, Any] = {}
    on_robot = world in ROBOT_STEPS
    name = world if on_robot else f"{form}{world}"
    if name == "paper/dubins-reachability":  # the paper's car in the other car's world
        name, settings = "paper/dubins-car", {"env_options": preset(world).env_options}
    name = name if method == "c-learning" else f"{method}/{name}"
    whole = preset(name)
    share = QUICK if budget == "quick" else 1.0
    if on_robot:
        settings |= {"episodes": 0, "env_steps": int(share * ROBOT_STEPS[world][form])}
        settings |= ROBOT_PAPER if form else {}
        if form and method == "c-learning":
            settings["form"] = "sampled-horizon"
    elif budget == "quick":
        settings["episodes"] = whole.random_episodes + round(share * (whole.episodes - whole.random_episodes))
    return Run(world, method, form, seed, name, settings)
