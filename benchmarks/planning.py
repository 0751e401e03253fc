"""Far goals with and without waypoints, for a car that looks only 12 steps ahead.

    python benchmarks/planning.py [--run FOLDER] [--episodes 700] [--goals 40]

The hard test goals of Dubins' car are 19 steps away on average: too far for such an agent to know them
reachable. Trains the preset with H = 12 (minutes on two cores) unless the folder holds a run.
"""

import argparse
import time
from pathlib import Path

import jax
import numpy as np

import clearning
from clearning.envs import DubinsCar

HORIZON, BUDGET = 12, 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--run", default="runs/planning", help="the run folder")
    parser.add_argument("--episodes", type=int, default=700, help="of the training")
    parser.add_argument("--goals", type=int, default=40, help="hard test goals to try")
    given = parser.parse_args()
    if not (Path(given.run) / "agent.safetensors").is_file():
        clearning.train("dubins-car", max_horizon=HORIZON, episodes=given.episodes, out=given.run)
    agent = clearning.load(given.run)
    test = DubinsCar().test_set()
    hard = np.flatnonzero([stratum == "hard" for stratum in test.stratum])
    goals = test.goal[np.random.default_rng(0).permutation(hard)[: given.goals]]

    began = time.perf_counter()
    planner = clearning.Planner(given.run)
    print(f"A planner over {len(planner.candidates.observation)} states: {time.perf_counter() - began:.1f} s")
    ways = {
        "without waypoints": lambda goal: lambda observation: agent.act(observation, goal),
        "with waypoints": lambda goal: planner.episode(goal, BUDGET).act,
    }
    for name, policy_for in ways.items():
        began = time.perf_counter()
        steps = np.array([steps_to(goal, policy_for(goal)) for goal in goals])
        reached = steps > 0
        spent = steps[reached].mean() if reached.any() else np.nan
        seconds = time.perf_counter() - began
        print(f"{name}: {100 * reached.mean():.1f} % of {len(goals)}, {spent:.1f} steps, {seconds:.0f} s")


def steps_to(goal: np.ndarray, act) -> int:
    """Steps until a policy reaches a goal from the test's start; 0 if it does not within the budget."""
    state = np.array([0.0, 0.0, 1.0, 0.0], np.float32)
    for step in range(1, BUDGET + 1):
        state = np.asarray(drive(jax.random.key(0), state, act(state)))
        if DubinsCar().reached(state[:2], goal):
            return step
    return 0


drive = jax.jit(DubinsCar().step)

if __name__ == "__main__":
    main()
