"""Horizon-aware goal-reaching: how surely can a goal be reached within h steps, and how to get there."""

from clearning.agent import Agent, Choice, Episode
from clearning.api import load, resume, train
from clearning.config import Config
from clearning.ensemble import Ensemble, Estimate
from clearning.errors import ClearningError, UsageError
from clearning.export import export_onnx
from clearning.presets import PRESETS, preset
from clearning.training import Callbacks, Interrupted
from clearning.types import EnvSpec, GoalCheck, GoalEnv, Network, StepBound

__all__ = [
    "PRESETS",
    "Agent",
    "Callbacks",
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
    "StepBound",
    "UsageError",
    "export_onnx",
    "load",
    "preset",
    "resume",
    "train",
]
