"""Learn from episodes that are already there: record a file, and train on it without any environment.

python examples/offline.py
"""

import tempfile
from pathlib import Path

import numpy as np

import clearning

CELLS = 10


def random_walk(rng: np.random.Generator, steps: int = 15) -> dict[str, np.ndarray]:
    """An episode as any recorder may have written it: a walk over a row of cells, left, right or staying."""
    cells, actions = [int(rng.integers(CELLS))], rng.integers(3, size=steps)
    for action in actions:
        cells.append(int(np.clip(cells[-1] + (-1, 1, 0)[action], 0, CELLS - 1)))
    position = np.array(cells, np.float32)[:, None]
    return {"observation": position, "achieved_goal": position, "action": actions}


def main() -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = clearning.save_episodes(Path(folder) / "walks.npz", (random_walk(rng) for _ in range(200)))
        agent = clearning.train(
            from_episodes=file, reached_within=0.5, max_horizon=CELLS, hidden=(64, 64), updates=1_500
        )
    for steps in (3, 5, 6, 8):
        print(f"From cell 2 to cell 8 in {steps} steps: {agent.reach_probability([2], [8], steps):.2f}")
    print(f"The first action: {('left', 'right', 'stay')[agent.act([2], [8])]}")


if __name__ == "__main__":
    main()
