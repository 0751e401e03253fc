"""Run folders -> figures; never trains.

- learning_curves: test success and path length while training, every seed
- trajectories: the policy's ways to goals spread over the map
- policy_by_horizon: frozen lake, the most likely way for several horizons (figure 3a)
- heat_maps: how surely each goal is reached in time, beside the truth (figure 3b)
- horizon_curve: C against the horizon, beside the truth
- reliability: promised against observed success, written by `clearning calibrate`
- compare_curves, compare_trajectories, compare_lake_ways: several methods side by side (figure 3)
- accuracy_needed, environments, difficulties: the paper's figures that need no training
- ways_past_the_cat: cat and mouse, ways, success and distance from the cat by horizon (figure 1a)
"""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from clearning.agent import Agent
from clearning.envs import ENVIRONMENTS, CatAndMouse, FrozenLake, make
from clearning.plots.cat import ways_past_the_cat
from clearning.plots.curves import goals_of, horizon_curve, viewpoint
from clearning.plots.learning import compare_curves, learning_curves, shared_config
from clearning.plots.paper import accuracy_needed, difficulties, environments, tolerances
from clearning.plots.paths import (
    compare_lake_ways,
    compare_trajectories,
    most_likely_way,
    policy_by_horizon,
    spread_out,
    trajectories,
)
from clearning.plots.reach import heat_maps, reachability_overlap, reachable_share
from clearning.plots.reliability import reliability_diagram, write_reliability
from clearning.plots.style import DPI, save, styled
from clearning.runs import run_folders

__all__ = [
    "DPI",
    "accuracy_needed",
    "agent_figures",
    "compare_curves",
    "compare_lake_ways",
    "compare_trajectories",
    "difficulties",
    "environments",
    "goals_of",
    "heat_maps",
    "horizon_curve",
    "learning_curves",
    "most_likely_way",
    "plot_run",
    "policy_by_horizon",
    "reachability_overlap",
    "reachable_share",
    "reliability_diagram",
    "spread_out",
    "tolerances",
    "trajectories",
    "viewpoint",
    "ways_past_the_cat",
    "write_reliability",
]


def plot_run(run: str | Path, out: str | Path | None = None) -> list[Path]:
    """Write every figure that makes sense for a run, or for a folder of seeds; returns their paths.

    Figures of a single agent show the first one that is there. Without `out` they go to `figures` inside the
    folder.
    """
    folders = run_folders(run)
    config, record = shared_config(folders)
    path = Path(out) if out else Path(run) / "figures"
    with styled():
        drawn = {"learning_curves": learning_curves(folders)}
        whole = next((f for f in folders if f.agent_file.is_file()), None)
        # Maps and exact answers need our environments; a network of one's own cannot be built from here.
        ours = config.env in ENVIRONMENTS and not record.get("custom_env")
        if ours and not record.get("custom_network") and whole:
            agent, env = Agent.load(whole.agent_file), make(config.env, config.env_options)
            whole.refuse_changed_spaces(env.spec)
            drawn |= agent_figures(agent, env)
        return [save(figure, path / f"{name}.png") for name, figure in drawn.items()]


def agent_figures(agent: Agent, env: Any) -> dict[str, Figure]:
    """The figures of one agent by name: those that its environment calls for."""
    if isinstance(env, CatAndMouse):
        return {"ways_past_the_cat": ways_past_the_cat(agent, env)}
    if not agent.knows_c:  # all other figures ask for C
        return {} if isinstance(env, FrozenLake) else {"trajectories": trajectories(agent, env)}
    figures = {"heat_maps": heat_maps, "horizon_curve": horizon_curve}
    if isinstance(env, FrozenLake):
        figures["policy_by_horizon"] = policy_by_horizon
    else:
        figures["trajectories"] = trajectories
    return {name: figures[name](agent, env) for name in sorted(figures)}
