"""Horizon-aware goal-reaching: how surely can a goal be reached within h steps, and how to get there."""

from clearning.agent import Agent, Choice, Episode
from clearning.api import load, resume, train
from clearning.config import Config
from clearning.ensemble import Ensemble, Estimate
from clearning.episode_files import replayed_episodes, save_episodes
from clearning.errors import ClearningError, UsageError
from clearning.export import export_onnx
from clearning.planning import Candidates, Plan, Planner, plan
from clearning.presets import PRESETS, preset
from clearning.training import Callbacks, Interrupted
from clearning.types import EnvSpec, GoalCheck, GoalEnv, Network, StepBound

__all__ = [
    "PRESETS",
    "Agent",
    "Callbacks",
    "Candidates",
    "Choice",
    "ClearningError",
    "Config",
    "Ensemble",
    "EnvSpec",
    "Episode",
    "Estimate",
    "GoalCheck",
    "GoalEnv",
    "Interrupted",
    "Network",
    "Plan",
    "Planner",
    "StepBound",
    "UsageError",
    "export_onnx",
    "load",
    "plan",
    "preset",
    "replayed_episodes",
    "resume",
    "save_episodes",
    "train",
]
