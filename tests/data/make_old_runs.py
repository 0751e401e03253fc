"""Writes the run folders beside it with the version that is installed; see README.md here."""

import os
import shutil
import sys
from pathlib import Path

os.environ["NPROC"] = "1"

import clearning
from clearning.runs import package_version
from clearning.training import Callbacks, Interrupted

TINY = {
    "hidden": (8,),
    "max_horizon": 10,
    "batch_size": 8,
    "random_episodes": 2,
    "parallel_envs": 2,
    "updates_per_episode": 2,
    "updates_per_step": 0.0,
    "final_share": 0.0,
    "every_counts": "episodes",
}
ROBOT = {"env_steps": 0, "test_episodes": 2, "processes": 1, "critics": 1, "pair_tries": 1, "frontier": 0.0}
RUNS = {
    "lake": ("frozen-lake", {"episodes": 20, "buffer_capacity": 600}, 10),
    "reach": ("fetch-reach", {"episodes": 8, "buffer_capacity": 300, **ROBOT}, 4),
}


def main(below: Path) -> None:
    """Each training is stopped half-way, so that it can be resumed."""
    for name, (preset, settings, stop_at) in RUNS.items():
        out = below / f"run-{package_version()}" / name
        shutil.rmtree(out, ignore_errors=True)
        rhythm = {"evaluate_every": stop_at, "checkpoint_every": stop_at}
        stop = Callbacks(after_checkpoint=lambda agent, record: False)
        try:
            clearning.train(preset, seed=3, out=out, callbacks=stop, quiet=True, **TINY, **rhythm, **settings)
        except Interrupted as stopped:
            print(stopped)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
