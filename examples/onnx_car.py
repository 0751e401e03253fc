"""Drive Dubins' car with onnxruntime and numpy alone: no JAX, and nothing of this package.

clearning export runs/dubins-car/seed-0 --onnx car.onnx
python examples/onnx_car.py car.onnx
"""

import sys

import numpy as np
import onnxruntime

WALLS = np.array([[4, -1, 6, 6], [4, 10, 6, 16], [10, 3, 13, 5], [9, 11, 12, 13]])  # x, y to x, y


def main() -> None:
    car = onnxruntime.InferenceSession(sys.argv[1])
    state, goal = np.array([0.0, 0.0, 1.0, 0.0]), np.array([14.0, 14.0])
    dial = {"alpha": np.float32([0.9]), "horizon": np.int64([0])}  # a horizon over 0 would replace alpha
    for step in range(60):
        pair = {"observation": np.float32([state]), "goal": np.float32([goal])}
        (curve,), (action,), (horizon,) = car.run(["reach_curve", "action", "chosen_horizon"], pair | dial)
        if (curve == 1).all():
            print(f"There after {step} steps.")
            return
        chance = f"{100 * curve[horizon - 1]:.0f} % within {horizon} steps"
        print(f"({state[0]:4.1f}, {state[1]:4.1f}): {chance}, action {action}")
        state = drive(state, action)
    print("Not there after 60 steps.")


def drive(state: np.ndarray, action: int) -> np.ndarray:
    """Turn by at most 10° and move by one; where a wall is in the way, slide along it."""
    turn, length = (0, 0) if action == 6 else (np.deg2rad(10) * (action % 3 - 1), 1 if action > 2 else -1)
    heading = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ state[2:]
    position, move = state[:2], length * heading
    ways = [move / 5, move / 5 * [1, 0], move / 5 * [0, 1]] if blocked(position + move) else [move]
    for _ in range(5 if len(ways) > 1 else 1):
        free = [way for way in ways if not blocked(position + way)]
        ways = ways if free and free[0] is ways[0] else free[:1]
        position = position + ways[0] if ways else position
    return np.concatenate([position, heading])


def blocked(point: np.ndarray) -> bool:
    in_wall = ((point >= WALLS[:, :2]) & (point <= WALLS[:, 2:])).all(1).any()
    return bool(in_wall or (point < 0).any() or (point > 15).any())


if __name__ == "__main__":
    main()
