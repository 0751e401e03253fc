"""The main job in one go: train Dubins' car, compare with the optimum and the paper, draw the figures."""

import shutil
import sys
import time
from pathlib import Path

import clearning
from clearning.plots import plot_run
from clearning.report.evaluation import evaluate_runs
from clearning.report.tables import print_evaluation

run = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo")
if run.exists():
    shutil.rmtree(run)  # the demo starts afresh each time

print("Training Dubins' car: reach any point among walls, from one corner, turning at most 10° a step.\n")
began = time.monotonic()
agent = clearning.train("dubins-car", seed=0, out=run)
minutes = (time.monotonic() - began) / 60
print(f"\nTrained in {minutes:.1f} minutes. Testing all 192 goals beside the shortest possible paths:\n")
print_evaluation(evaluate_runs(str(run), dial=None))

start, goal = (0.0, 0.0, 1.0, 0.0), (14.0, 14.0)
print("\nFrom (0, 0) heading east, how surely is (14, 14) reached within h steps?")
for h in (12, 16, 20, 24, 30):
    print(f"  h = {h:2d}: {100 * agent.reach_probability(start, goal, h):5.1f} %")
enough = agent.min_horizon(start, goal, 0.9)
print(f"  90 % sure within {enough} steps.\n" if enough else "  Not 90 % sure within 50 steps.\n")

print("Figures:")
for path in plot_run(run, None):
    print(f"  {path}")
