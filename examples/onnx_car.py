"""Drive Dubins' car with onnxruntime and numpy alone: no JAX, and nothing of this package.

clearning export runs/dubins-car/seed-0 --onnx car.onnx
python examples/onnx_car.py car.onnx
"""

import sys

import numpy as np
import onnxruntime

car = onnxruntime.InferenceSession(sys.argv[1])
place, angle, goal = np.array([1.0, 8.0]), 0.0, np.float32([[13.0, 9.0]])  # with no wall in the way
dial = {"goal": goal, "alpha": np.float32([0.9]), "horizon": np.int64([0])}  # h > 0 would replace alpha
for step in range(40):
    asked = dial | {"observation": np.float32([[*place, np.cos(angle), np.sin(angle)]])}
    (curve,), (action,), (h,) = car.run(["reach_curve", "action", "chosen_horizon"], asked)
    print(f"step {step} at ({place[0]:.1f}, {place[1]:.1f}): {curve[h - 1]:.0%} within {h} steps")
    if (curve == 1).all():
        break  # there
    if action < 6:  # 6 is to stay; others go backwards or forwards, after a turn by -10, 0 or 10 degrees
        angle += np.deg2rad(10) * (action % 3 - 1)
        place += (1 if action > 2 else -1) * np.array([np.cos(angle), np.sin(angle)])
