"""The worlds themselves: their laws against hand-worked cases, and their Gymnasium form against their own."""

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import assert_frequencies
from gymnasium.utils.env_checker import check_env

from clearning.envs import DubinsCar, FrozenLake, MiniMaze, frozen_lake, make, mini_maze
from clearning.envs.gymnasium_env import IDS, GymnasiumGoalEnv, register
from clearning.errors import UsageError
from clearning.types import EnvSpec

UP, RIGHT, DOWN, LEFT = range(4)
BACK_RIGHT, BACK, BACK_LEFT, AHEAD_RIGHT, AHEAD, AHEAD_LEFT, STAY = range(7)

WORLDS = [
    FrozenLake(),
    MiniMaze(),
    MiniMaze(stochastic=True),
    MiniMaze(random_starts=True),
    DubinsCar(),
    DubinsCar(walls=False, turn_degrees=5.0),
    DubinsCar(random_starts=True, any_goal=True),
]
MADE = [
    ("clearning/FrozenLake-v0", {}),
    ("clearning/FrozenLake-v0", {"slip": 0.0}),
    ("clearning/MiniMaze-v0", {}),
    ("clearning/MiniMaze-v0", {"stochastic": True}),
    ("clearning/DubinsCar-v0", {}),
    ("clearning/DubinsCar-v0", {"walls": False, "turn_degrees": 5.0}),
    ("clearning/DubinsCar-v0", {"random_starts": True, "any_goal": True}),
]


# Shared, because their exact tables take a while.
LAKE, SKIDDING_MAZE = FrozenLake(), MiniMaze(stochastic=True)


def cell(x: float, y: float) -> jax.Array:
    return jnp.array([x, y], jnp.float32)


def chances(env: FrozenLake | MiniMaze, at: tuple[int, int], action: int) -> dict[tuple[int, int], float]:
    """Where a step leads and how often, read off the exact table."""
    cells = [tuple(c) for c in env.cells.tolist()]
    row = env.mdp.transition[cells.index(at), action]
    return {c: round(float(p), 6) for c, p in zip(cells, row, strict=True) if p > 0}


# Frozen lake.


@pytest.mark.parametrize(
    ("at", "action", "expected"),
    [
        ((3, 5), UP, {(3, 6): 0.8, (4, 5): 0.1, (2, 5): 0.1}),
        ((3, 5), LEFT, {(2, 5): 0.8, (3, 6): 0.1, (3, 4): 0.1}),
        # Corners: what leads off the grid stays.
        ((0, 0), DOWN, {(0, 0): 0.9, (1, 0): 0.1}),
        ((0, 0), LEFT, {(0, 0): 0.9, (0, 1): 0.1}),
        ((0, 0), UP, {(0, 1): 0.8, (1, 0): 0.1, (0, 0): 0.1}),
        ((4, 6), UP, {(4, 6): 0.9, (3, 6): 0.1}),
        ((4, 6), DOWN, {(4, 5): 0.8, (4, 6): 0.1, (3, 6): 0.1}),
        ((0, 6), RIGHT, {(1, 6): 0.8, (0, 6): 0.1, (0, 5): 0.1}),
        ((4, 0), LEFT, {(3, 0): 0.8, (4, 1): 0.1, (4, 0): 0.1}),
        # The strait between the holes: the two sides are both deadly.
        ((1, 3), UP, {(1, 4): 0.8, (0, 3): 0.1, (2, 3): 0.1}),
        ((1, 2), RIGHT, {(2, 2): 0.8, (1, 3): 0.1, (1, 1): 0.1}),
        ((2, 1), UP, {(2, 2): 0.8, (1, 1): 0.1, (3, 1): 0.1}),
        # Holes keep what they have.
        ((0, 2), RIGHT, {(0, 2): 1.0}),
        ((2, 4), UP, {(2, 4): 1.0}),
    ],
)
def test_lake_slips_as_worked_by_hand(at, action, expected):
    assert chances(LAKE, at, action) == pytest.approx(expected)


def test_lake_map_and_dead_cells():
    drawn = [".....", ".....", "X.X..", "X.X..", "X.X..", ".....", "....."]  # from y = 6 down
    holes = {(x, 6 - row) for row, line in enumerate(drawn) for x, mark in enumerate(line) if mark == "X"}
    env = FrozenLake()
    dead = {tuple(c) for c in env.cells.tolist() if bool(env.is_dead(cell(*c)))}
    assert dead == holes
    np.testing.assert_array_equal(env.mdp.dead, [tuple(c) in holes for c in env.cells.tolist()])


def test_lake_steps_as_often_as_its_table_says():
    env, draws = FrozenLake(), 20_000
    keys = jax.random.split(jax.random.key(0), draws)
    landed = np.asarray(jax.vmap(lambda k: env.step(k, cell(1, 3), UP))(keys)).astype(int)
    counts = np.zeros((5, 7))
    np.add.at(counts, tuple(landed.T), 1)
    expected = np.zeros((5, 7))
    expected[1, 4], expected[0, 3], expected[2, 3] = 0.8, 0.1, 0.1
    assert_frequencies(counts, expected)


def test_lake_starts_on_ice_and_aims_anywhere():
    env, keys = FrozenLake(), jax.random.split(jax.random.key(0), 7000)
    starts = np.asarray(jax.vmap(env.initial_state)(keys)).astype(int)
    goals = np.asarray(jax.vmap(env.sample_goal)(keys)).astype(int)
    counts = np.zeros((2, 5, 7))
    np.add.at(counts[0], tuple(starts.T), 1)
    np.add.at(counts[1], tuple(goals.T), 1)
    assert_frequencies(counts[0], (~frozen_lake.HOLES).astype(float))
    assert_frequencies(counts[1], np.ones((5, 7)))


def test_lake_test_set_is_every_other_cell():
    test_set = FrozenLake().test_set()
    assert len(test_set.goal) == 34
    assert test_set.stratum.count("hole") == 6
    assert (test_set.state == (1, 0)).all()


# Mini maze.


def test_maze_counts():
    env = MiniMaze()
    test_set = env.test_set()
    assert len(env.cells) == 516
    assert len(test_set.goal) == 515
    counts = {s: test_set.stratum.count(s) for s in ("easy", "medium", "hard", "doorway")}
    assert counts == {"easy": 120, "medium": 242, "hard": 121, "doorway": 32}
    assert test_set.in_paper is not None
    assert test_set.in_paper.sum() == 483
    assert (test_set.state == (6, 6)).all()


def test_maze_walls_have_four_gaps():
    gaps = [4, 5, 6, 7, 16, 17, 18, 19]
    for wall in (11, 12):
        assert np.flatnonzero(mini_maze.FREE[wall]).tolist() == gaps
        assert np.flatnonzero(mini_maze.FREE[:, wall]).tolist() == gaps
    rooms = [i for i in range(24) if i not in (11, 12)]
    assert mini_maze.FREE[np.ix_(rooms, rooms)].all()


@pytest.mark.parametrize(
    ("at", "action", "lands"),
    [
        ((6, 6), UP, (6, 7)),
        ((6, 6), RIGHT, (7, 6)),
        ((6, 6), DOWN, (6, 5)),
        ((6, 6), LEFT, (5, 6)),
        ((0, 0), LEFT, (0, 0)),
        ((23, 23), UP, (23, 23)),
        ((10, 3), RIGHT, (10, 3)),  # one below the doorway
        ((10, 4), RIGHT, (11, 4)),  # its lowest cell
        ((12, 7), RIGHT, (13, 7)),  # out on the other side
        ((10, 8), RIGHT, (10, 8)),
        ((11, 7), UP, (11, 7)),  # a doorway's jamb
        ((16, 10), UP, (16, 11)),
        ((15, 13), DOWN, (15, 13)),
    ],
)
def test_maze_moves(at, action, lands):
    assert tuple(MiniMaze().step(jax.random.key(0), cell(*at), action).tolist()) == lands


@pytest.mark.parametrize(
    ("at", "action", "expected"),
    [
        ((6, 6), UP, {(6, 6): 0.05, (6, 7): 0.8, (6, 8): 0.15}),
        ((10, 3), RIGHT, {(10, 3): 1.0}),
        ((9, 3), RIGHT, {(9, 3): 0.2, (10, 3): 0.8}),  # a blocked landing is no move at all
        ((0, 1), DOWN, {(0, 1): 0.2, (0, 0): 0.8}),
        ((10, 4), RIGHT, {(10, 4): 0.05, (11, 4): 0.8, (12, 4): 0.15}),
    ],
)
def test_stochastic_maze_scales_the_move(at, action, expected):
    assert chances(SKIDDING_MAZE, at, action) == pytest.approx(expected)


def test_stochastic_maze_steps_as_often_as_its_table_says():
    env, keys = MiniMaze(stochastic=True), jax.random.split(jax.random.key(1), 20_000)
    landed = np.asarray(jax.vmap(lambda k: env.step(k, cell(6, 6), UP))(keys))
    assert (landed[:, 0] == 6).all()
    assert_frequencies(np.bincount(landed[:, 1].astype(int) - 6, minlength=3), np.array([0.05, 0.8, 0.15]))


@pytest.mark.parametrize("env", [FrozenLake(), MiniMaze()], ids=["lake", "maze"])
def test_nearby_goals_keep_the_distance_and_are_never_the_cell_itself(env):
    keys = jax.random.split(jax.random.key(2), 400)
    free = {tuple(c) for c in env.cells.tolist()}
    for start in [(1, 0), (0, 0), tuple(env.cells[-1].tolist())]:
        for distance in (1, 3, 100):
            sample = jax.vmap(lambda k: env.sample_goal_within(k, cell(*start), jnp.float32(distance)))  # noqa: B023
            goals = np.asarray(sample(keys))
            away = np.abs(goals - start).sum(-1)
            assert away.min() >= 1
            assert away.max() <= distance
            assert {tuple(g) for g in goals.astype(int).tolist()} <= free
            if distance == 3:  # all of them occur, none favoured
                near = [c for c in env.cells.tolist() if 1 <= np.abs(np.subtract(c, start)).sum() <= 3]
                counts = [(goals == c).all(-1).sum() for c in near]
                assert_frequencies(np.array(counts), np.ones(len(near)))


def test_nearby_goals_of_the_car_keep_the_distance():
    env, keys = DubinsCar(), jax.random.split(jax.random.key(3), 1000)
    goals = np.asarray(jax.vmap(lambda k: env.sample_goal_within(k, cell(1, 14), jnp.float32(2)))(keys))
    assert np.abs(goals - (1, 14)).max() <= 2.5
    assert goals.min() >= 0
    assert goals.max() <= 15


# Dubins' car.

RECTANGLES = [(4, -1, 6, 6), (4, 10, 6, 16), (10, 3, 13, 5), (9, 11, 12, 13)]


def in_wall(point: np.ndarray) -> bool:
    x, y = point
    return not (0 <= x <= 15 and 0 <= y <= 15) or any(
        x_low <= x <= x_high and y_low <= y <= y_high for x_low, y_low, x_high, y_high in RECTANGLES
    )


def edge_distance(point: np.ndarray) -> float:
    """How far a point is from the nearest edge of a wall or of the box."""
    rectangles = np.array([*RECTANGLES, (0, 0, 15, 15)], float)
    beyond = np.maximum(rectangles[:, :2] - point, point - rectangles[:, 2:]).max(-1)  # negative inside
    return float(np.abs(beyond).min())


def drive(state: np.ndarray, action: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """The car's rule told plainly in float64: the next state, and every point whose freedom decided it."""
    if action == STAY:
        return state, [state[:2]]
    angle = np.arctan2(state[3], state[2]) + np.deg2rad(10) * (action % 3 - 1)
    heading = np.array([np.cos(angle), np.sin(angle)])
    move = heading if action >= 3 else -heading
    asked: list[np.ndarray] = []

    def free(point: np.ndarray) -> bool:
        asked.append(point)
        return not in_wall(point)

    position, piece = state[:2], move / 5
    if free(position + move):
        return np.concatenate([position + move, heading]), asked
    ways = [piece, piece * (1, 0), piece * (0, 1)]  # in this order
    for _ in range(5):
        found = next((i for i, way in enumerate(ways) if free(position + way)), None)
        if found is None:
            break
        position = position + ways[found]
        if found > 0:
            ways = [ways[found]]  # once it slides, it goes on sliding
    return np.concatenate([position, heading]), asked


def test_car_agrees_with_recorded_transitions():
    data = np.load(Path(__file__).parent / "data" / "dubins_transitions.npz")
    states, actions, recorded = data["state"], data["action"].astype(int), data["next_state"]
    step = jax.vmap(DubinsCar().step, in_axes=(None, 0, 0))
    # Compiled and uncompiled arithmetic round differently; a run is always compiled.
    for compiled, most in ((jax.jit(step), 0.01), (step, 0.02)):
        ours = np.asarray(compiled(jax.random.key(0), jnp.asarray(states, jnp.float32), jnp.asarray(actions)))
        differ = np.flatnonzero(np.abs(ours - recorded).max(-1) > 1e-4)
        assert len(differ) <= most * len(states)
        for i in differ:
            _, asked = drive(states[i], actions[i])
            assert min(map(edge_distance, asked)) < 1e-5, "a difference that rounding does not explain"
        # The turn does not depend on any of this.
        np.testing.assert_allclose(ours[:, 2:], recorded[:, 2:], atol=1e-4)


def test_car_agrees_with_the_rule_told_plainly():
    rng = np.random.default_rng(0)
    states, actions = [], []
    while len(states) < 1500:
        position, angle = rng.uniform(0, 15, 2), rng.uniform(0, 2 * np.pi)
        if not in_wall(position):
            states.append([*position, np.cos(angle), np.sin(angle)])
            actions.append(rng.integers(7))
    told = [drive(np.array(s), a) for s, a in zip(states, actions, strict=True)]
    clear = np.array([min(map(edge_distance, asked)) > 1e-5 for _, asked in told])
    step = jax.vmap(DubinsCar().step, in_axes=(None, 0, 0))
    ours = step(jax.random.key(0), jnp.array(states, jnp.float32), jnp.array(actions))
    assert clear.mean() > 0.99
    np.testing.assert_allclose(np.asarray(ours)[clear], np.array([n for n, _ in told])[clear], atol=1e-5)


@pytest.mark.parametrize(
    ("state", "action", "lands"),
    [
        ((1, 1, 1, 0), AHEAD, (2, 1, 1, 0)),
        ((1, 1, 1, 0), BACK, (0, 1, 1, 0)),
        ((1, 1, 1, 0), STAY, (1, 1, 1, 0)),
        # Head-on into a wall at x = 4 from 3.5: two free fifths, and no way along y.
        ((3.5, 3, 1, 0), AHEAD, (3.9, 3, 1, 0)),
        # At 45° into the wall x in [4, 6] from x = 3.9: blocked at once, x blocked, all five fifths along y.
        ((3.9, 3, 0.70710678, 0.70710678), AHEAD, (3.9, 3.70710678, 0.70710678, 0.70710678)),
        # Under the lower wall's top from the left: an end point beyond a corner is taken as it is.
        ((3.6, 5.9, 0.70710678, 0.70710678), AHEAD, (4.30710678, 6.60710678, 0.70710678, 0.70710678)),
    ],
)
def test_car_moves_as_worked_by_hand(state, action, lands):
    moved = DubinsCar().step(jax.random.key(0), jnp.array(state, jnp.float32), action)
    np.testing.assert_allclose(moved, lands, atol=1e-5)


@pytest.mark.parametrize("turn", [5.0, 10.0])
def test_car_turns_even_where_it_is_blocked(turn):
    env = DubinsCar(turn_degrees=turn)
    moved = env.step(jax.random.key(0), jnp.array([0.0, 0.0, 1.0, 0.0]), BACK_LEFT)
    np.testing.assert_allclose(moved[:2], 0.0, atol=1e-6)
    np.testing.assert_allclose(moved[2:], [np.cos(np.deg2rad(turn)), np.sin(np.deg2rad(turn))], atol=1e-6)


def test_car_heading_stays_a_direction():
    env = DubinsCar()
    actions = jax.random.randint(jax.random.key(4), (1000,), 0, 7)

    def move(state, action):
        state = env.step(jax.random.key(0), state, action)
        return state, state

    _, states = jax.lax.scan(move, env.initial_state(jax.random.key(0)), actions)
    np.testing.assert_allclose(np.linalg.norm(states[:, 2:], axis=-1), 1.0, atol=1e-6)
    assert not bool(jax.vmap(env.is_blocked)(states[:, :2]).any())


def test_car_test_set_and_training_goals():
    env = DubinsCar()
    test_set = env.test_set()
    counts = {s: test_set.stratum.count(s) for s in ("easy", "medium", "hard")}
    assert counts == {"easy": 39, "medium": 65, "hard": 88}
    assert not any(in_wall(g) for g in test_set.goal)
    goals = np.asarray(jax.vmap(env.sample_goal)(jax.random.split(jax.random.key(5), 4000)))
    expected = {tuple(g) for g in test_set.goal.tolist() if max(g) < 15}
    assert {tuple(g) for g in goals.tolist()} == expected


def test_car_goal_is_a_square():
    env = DubinsCar()
    goal = cell(5, 5)
    assert bool(env.reached(cell(5.5, 4.5), goal))
    assert not bool(env.reached(cell(5.51, 5), goal))


def test_car_starts_anywhere_free_when_asked():
    env = DubinsCar(random_starts=True, any_goal=True)
    keys = jax.random.split(jax.random.key(6), 3000)
    starts, goals = np.asarray(jax.vmap(env.initial_state)(keys)), np.asarray(jax.vmap(env.sample_goal)(keys))
    assert not any(in_wall(p) for p in np.concatenate([starts[:, :2], goals]))
    np.testing.assert_allclose(np.linalg.norm(starts[:, 2:], axis=-1), 1.0, atol=1e-6)
    assert np.ptp(starts[:, :2], axis=0).min() > 14
    # Uniform over the free area: the left strip's share is its share of the area.
    walls = 2 * 6 + 2 * 5 + 3 * 2 + 3 * 2
    left = int((goals[:, 0] < 4).sum())
    assert_frequencies(np.array([left, len(goals) - left]), np.array([60.0, 225 - walls - 60]))


# All of them.


@pytest.mark.parametrize("env", WORLDS, ids=str)
def test_every_world_jits_and_vmaps(env):
    spec = env.spec
    assert isinstance(spec, EnvSpec)
    keys = jax.random.split(jax.random.key(0), 8)

    @jax.jit
    @jax.vmap
    def walk(key):
        state, goal = env.initial_state(key), env.sample_goal(key)
        state = env.step(key, state, jax.random.randint(key, (), 0, spec.num_actions))
        achieved = env.achieved_goal(state)
        return env.observe(state), achieved, env.is_dead(state), env.reached(achieved, goal)

    observation, achieved, dead, reached = walk(keys)
    assert observation.shape == (8, spec.observation_size)
    assert achieved.shape == (8, spec.goal_size)
    assert dead.shape == reached.shape == (8,)
    assert dead.dtype == reached.dtype == bool
    assert (observation >= jnp.array(spec.observation_low)).all()
    assert (observation <= jnp.array(spec.observation_high)).all()
    np.testing.assert_array_equal(spec.goal_check.achieved(observation), achieved)


@pytest.mark.parametrize("env", WORLDS, ids=str)
def test_step_bound_is_a_lower_bound(env):
    """No step changes the distance to a goal by more than the spec claims."""
    bound = env.spec.step_bound
    free = replace(env, random_starts=True) if hasattr(env, "random_starts") else env

    def change(key):
        key_state, key_goal, key_action, key_step = jax.random.split(key, 4)
        state, goal = free.initial_state(key_state), free.sample_goal(key_goal)
        moved = free.step(key_step, state, jax.random.randint(key_action, (), 0, env.spec.num_actions))
        before, after = (bound.min_steps(env.achieved_goal(s), goal) for s in (state, moved))
        return before - after, env.reached(env.achieved_goal(state), goal), before

    drop, reached, before = jax.vmap(change)(jax.random.split(jax.random.key(7), 2000))
    assert drop.max() <= 1
    assert (before[reached] == 0).all()


def test_a_world_by_name_refuses_what_it_does_not_know():
    assert make("dubins-car", {"turn_degrees": 5.0}) == DubinsCar(turn_degrees=5.0)
    with pytest.raises(UsageError, match="Did you mean 'mini-maze'"):
        make("mini-mase")
    with pytest.raises(UsageError, match="no option 'wall'; its options are walls, turn_degrees"):
        make("dubins-car", {"wall": False})


# The Gymnasium form.


@pytest.mark.parametrize(("id_", "options"), MADE)
def test_gymnasium_checker_passes(id_, options):
    with gymnasium.make(id_, render_mode="rgb_array", **options) as env:
        check_env(env.unwrapped)


def test_registered_once_with_the_time_limits_of_the_paper():
    register()
    limits = {id_: gymnasium.spec(id_).max_episode_steps for id_ in IDS}
    assert limits == {
        "clearning/FrozenLake-v0": 50,
        "clearning/MiniMaze-v0": 200,
        "clearning/DubinsCar-v0": 100,
        "clearning/CatAndMouse-v0": 20,
    }


def test_options_reach_the_world_and_wrong_ones_are_refused():
    env = gymnasium.make("clearning/DubinsCar-v0", walls=False, turn_degrees=5.0).unwrapped
    assert env.functional == DubinsCar(walls=False, turn_degrees=5.0)
    with pytest.raises(UsageError, match="no option 'wals'"):
        gymnasium.make("clearning/DubinsCar-v0", wals=False)
    with pytest.raises(UsageError, match="no render mode 'human'"):
        GymnasiumGoalEnv(DubinsCar(), render_mode="human")


@pytest.mark.parametrize(("id_", "options"), MADE)
def test_both_forms_walk_the_same_trajectory(id_, options):
    env = gymnasium.make(id_, **options)
    seen, _ = env.reset(seed=3)
    world, key = env.unwrapped.functional, env.unwrapped.key
    state, goal = jnp.asarray(seen["observation"]), jnp.asarray(seen["desired_goal"])
    actions = np.random.default_rng(0).integers(world.spec.num_actions, size=40)
    step = jax.jit(world.step)
    for t, action in enumerate(actions):
        seen, reward, terminated, truncated, info = env.step(action)
        state = step(jax.random.fold_in(key, t), state, action)
        achieved = world.achieved_goal(state)
        np.testing.assert_array_equal(seen["observation"], world.observe(state))
        np.testing.assert_array_equal(seen["achieved_goal"], achieved)
        assert info == {"is_success": bool(world.reached(achieved, goal)), "dead": bool(world.is_dead(state))}
        assert terminated == (info["is_success"] or info["dead"])
        assert not truncated
        assert reward == (0.0 if info["is_success"] else -1.0)
        if terminated:
            break


@pytest.mark.parametrize(("id_", "options"), MADE)
def test_same_seed_same_trajectory(id_, options):
    def walk(env: gymnasium.Env, seed: int) -> np.ndarray:
        env.action_space.seed(0)
        seen, _ = env.reset(seed=seed)
        rows = [np.concatenate(list(seen.values()))]
        for _ in range(60):
            seen, *_, over, cut, _ = env.step(env.action_space.sample())
            if over or cut:
                seen, _ = env.reset()  # which goes on from the same generator
            rows.append(np.concatenate(list(seen.values())))
        return np.array(rows)

    env, twin = gymnasium.make(id_, **options), gymnasium.make(id_, **options)
    np.testing.assert_array_equal(walk(env, 1), walk(twin, 1))
    assert (walk(env, 2) != walk(twin, 1)).any()


def test_time_runs_out_as_truncation():
    env = gymnasium.make("clearning/DubinsCar-v0")
    env.reset(seed=0, options={"goal": [14, 14]})
    ends = [env.step(STAY)[2:4] for _ in range(100)]
    assert ends == [(False, False)] * 99 + [(False, True)]


def test_a_hole_is_dead_and_ends_the_episode():
    env = gymnasium.make("clearning/FrozenLake-v0", slip=0.0)
    _, info = env.reset(seed=0, options={"state": [1, 3], "goal": [4, 6]})
    assert info == {"is_success": False, "dead": False}
    _, reward, terminated, _, info = env.step(LEFT)
    assert (reward, terminated, info) == (-1.0, True, {"is_success": False, "dead": True})
    env.reset(options={"state": [1, 3], "goal": [0, 3]})
    _, reward, terminated, _, info = env.step(LEFT)
    assert (reward, terminated, info) == (0.0, True, {"is_success": True, "dead": True})


def test_a_reached_goal_ends_the_episode_but_is_not_dead():
    env = gymnasium.make("clearning/MiniMaze-v0")
    env.reset(seed=0, options={"goal": [6, 7]})
    seen, reward, terminated, _, info = env.step(UP)
    assert (reward, terminated, info) == (0.0, True, {"is_success": True, "dead": False})
    np.testing.assert_array_equal(seen["achieved_goal"], [6, 7])


@pytest.mark.parametrize(
    ("env", "state", "goal"),
    [
        (FrozenLake(), [1, 3], [4, 6]),
        (FrozenLake(), [0, 3], [0, 0]),  # a hole: an odd start, but a cell of the map
        (MiniMaze(), [11, 5], [23, 23]),
        (DubinsCar(), [7.5, 7.5, 0, 1], [15, 15]),
    ],
)
def test_reset_starts_where_it_is_told(env, state, goal):
    wrapped = GymnasiumGoalEnv(env)
    seen, _ = wrapped.reset(seed=0, options={"state": state})
    np.testing.assert_array_equal(seen["observation"], np.float32(state))
    seen, _ = wrapped.reset(options={"goal": goal})
    np.testing.assert_array_equal(seen["desired_goal"], np.float32(goal))
    seen, info = wrapped.reset(options={"state": np.array(state), "goal": np.array(goal)})
    np.testing.assert_array_equal(seen["observation"], np.float32(state))
    np.testing.assert_array_equal(seen["desired_goal"], np.float32(goal))
    assert set(info) == {"is_success", "dead"}


@pytest.mark.parametrize(
    ("position", "lands"),
    [
        ((-1e-4, 15 + 1e-4), (0, 15)),
        ((4 + 5e-5, 3), (4 + 5e-5, 3)),  # inside a wall by less than rounding may add
        ((np.float32(15.0001), 1), (15, 1)),
    ],
)
def test_reset_forgives_rounding(position, lands):
    wrapped = GymnasiumGoalEnv(DubinsCar())
    seen, _ = wrapped.reset(seed=0, options={"state": [*position, 1, 0]})
    np.testing.assert_array_equal(seen["observation"][:2], np.float32(lands))
    assert wrapped.observation_space.contains(seen)


@pytest.mark.parametrize(
    ("env", "options", "words"),
    [
        (DubinsCar(), {"start": [0, 0, 1, 0]}, "no option 'start'; its options are 'state' and 'goal'"),
        (DubinsCar(), {"state": [0, 0]}, r"state has shape \(2,\): it must have shape \(4,\)"),
        (DubinsCar(), {"state": "here"}, r"state must be an array of numbers of shape \(4,\), not 'here'"),
        (DubinsCar(), {"state": [np.nan, 0, 1, 0]}, r"state \(nan, 0, 1, 0\) is not finite"),
        (DubinsCar(), {"state": [5, 3, 1, 0]}, r"\(5, 3\) is inside a wall: choose a free point"),
        (DubinsCar(), {"state": [-0.001, 3, 1, 0]}, r"outside the box: x and y must be in 0\.\.15"),
        (
            DubinsCar(),
            {"state": [1, 1, 1, 1]},
            r"heading \(1, 1\) is not a direction: cos² \+ sin² must be 1",
        ),
        (DubinsCar(), {"goal": [16, 3]}, r"\(16, 3\) is out of bounds, which are 0\.\.15 and 0\.\.15"),
        (DubinsCar(), {"goal": [np.inf, 3]}, "not finite"),
        (DubinsCar(), {"goal": [1, 2, 3]}, r"goal has shape \(3,\): it must have shape \(2,\)"),
        (MiniMaze(), {"state": [11, 0]}, r"\(11, 0\) is inside a wall: choose a free cell"),
        (MiniMaze(), {"state": [24, 0]}, r"off the map: x must be in 0\.\.23"),
        (FrozenLake(), {"state": [1.5, 0]}, "not a cell: both coordinates must be whole numbers"),
        (FrozenLake(), {"goal": [1, 7]}, r"out of bounds, which are 0\.\.4 and 0\.\.6"),
    ],
)
def test_reset_refuses_with_a_reason(env, options, words):
    with pytest.raises(UsageError, match=words) as caught:
        GymnasiumGoalEnv(env).reset(seed=0, options=options)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_inner_walls_are_open_ground_when_switched_off():
    seen, _ = GymnasiumGoalEnv(DubinsCar(walls=False)).reset(seed=0, options={"state": [5, 3, 1, 0]})
    np.testing.assert_array_equal(seen["observation"], [5, 3, 1, 0])


def test_steps_out_of_turn_are_refused():
    env = GymnasiumGoalEnv(FrozenLake(), render_mode="rgb_array")
    with pytest.raises(UsageError, match=r"call reset\(\) first"):
        env.step(0)
    with pytest.raises(UsageError, match=r"call reset\(\) first"):
        env.render()
    env.reset(seed=0)
    with pytest.raises(UsageError, match=r"no action 4: choose one of 0\.\.3"):
        env.step(4)


def test_without_a_render_mode_there_is_no_picture_but_a_warning():
    env = GymnasiumGoalEnv(FrozenLake())
    with pytest.warns(UserWarning, match="render\\(\\) does nothing without a render mode"):
        assert env.render() is None


def test_a_state_of_several_parts_cannot_be_given():
    class Parts(FrozenLake):
        def initial_state(self, key):
            return {"cell": super().initial_state(key)}

    with pytest.raises(UsageError, match="state is not one vector: leave 'state' out"):
        GymnasiumGoalEnv(Parts()).reset(seed=0, options={"state": [1, 0]})


def test_where_every_goal_is_reached_at_the_start_an_episode_begins_all_the_same():
    class Everywhere(FrozenLake):
        def reached(self, achieved, goal):
            return jnp.array(True)

    seen, info = GymnasiumGoalEnv(Everywhere()).reset(seed=0)
    assert info["is_success"]
    assert tuple(seen["desired_goal"].tolist()) in {tuple(c) for c in FrozenLake().cells.tolist()}


def test_compute_reward_takes_any_leading_shape():
    env = GymnasiumGoalEnv(DubinsCar())
    achieved = np.array([[[0, 0], [3, 3.5], [3, 4]], [[2.4, 3], [3, 3], [15, 15]]], np.float32)
    expected = np.array([[-1, 0, -1], [-1, 0, -1]], np.float32)
    rewards = env.compute_reward(achieved, np.broadcast_to([3.0, 3.0], achieved.shape), {})
    np.testing.assert_array_equal(rewards, expected)
    assert rewards.dtype == np.float32
    np.testing.assert_array_equal(env.compute_reward(achieved, np.float32([3, 3]), {}), expected)
    one = env.compute_reward(achieved[0, 1], np.float32([3, 3]), {})
    assert np.shape(one) == ()
    assert one.dtype == np.float32
    assert one == 0


def test_compute_reward_agrees_with_step():
    env = gymnasium.make("clearning/MiniMaze-v0", random_starts=True)
    env.action_space.seed(0)
    env.reset(seed=0)
    for _ in range(50):
        seen, reward, over, cut, info = env.step(env.action_space.sample())
        assert reward == env.unwrapped.compute_reward(seen["achieved_goal"], seen["desired_goal"], info)
        if over or cut:
            env.reset()


def test_step_is_compiled_once():
    env = gymnasium.make("clearning/FrozenLake-v0")
    env.reset(seed=0)
    for state in ([0, 0], [4, 4], [3, 1]):
        env.reset(options={"state": state})
        env.step(UP)
        env.reset()
        env.step(np.int64(RIGHT))
    assert env.unwrapped._step._cache_size() == 1


@pytest.mark.parametrize(
    ("env", "one", "other"),
    [
        (FrozenLake(), (1, 0), (1, 3)),
        (MiniMaze(), (6, 6), (7, 6)),
        (DubinsCar(), (7, 8, 1, 0), (7, 8, 0, 1)),  # only the heading differs
        (DubinsCar(walls=False), (0, 0, 1, 0), (5, 3, 1, 0)),
    ],
    ids=str,
)
def test_rendering_shows_the_state(env, one, other):
    wrapped = GymnasiumGoalEnv(env, render_mode="rgb_array")
    images = []
    for state in (one, other, one):
        wrapped.reset(seed=0, options={"state": state, "goal": [3, 6]})
        images.append(wrapped.render())
    assert images[0].dtype == np.uint8
    assert images[0].ndim == 3
    assert images[0].shape[2] == 3
    assert 470 <= max(images[0].shape) <= 490
    assert min(images[0].shape[:2]) >= 300
    assert (images[0] != images[1]).any()
    np.testing.assert_array_equal(images[0], images[2])


def test_pictures_show_what_is_where():
    from matplotlib.colors import to_rgb

    from clearning.envs import draw

    def colour_at(image: np.ndarray, env, x: float, y: float) -> np.ndarray:
        x_low, y_low, x_high, y_high = draw.extent(env)
        border = draw.BORDER if isinstance(env, DubinsCar) else 0.02 * max(x_high - x_low, y_high - y_low)
        scale = max(image.shape) / (max(x_high - x_low, y_high - y_low) + 2 * border)
        return (
            image[int(image.shape[0] - (y - y_low + border) * scale), int((x - x_low + border) * scale)] / 255
        )

    lake, maze, car = FrozenLake(), MiniMaze(), DubinsCar()
    for env, state, goal, spots in [
        (
            lake,
            (1, 0),
            (1, 6),
            {(0, 3): draw.HOLE, (2.2, 4.2): draw.HOLE, (1, 0): draw.AGENT, (1, 6): draw.GOAL},
        ),
        (maze, (6, 6), (2, 20), {(11, 0): draw.WALL, (6, 6): draw.AGENT, (2, 20): draw.GOAL}),
        (car, (2, 8, 0, 1), (13, 9), {(5, 5.8): draw.WALL, (12.8, 3.2): draw.WALL, (2, 8): draw.AGENT}),
    ]:
        image = draw.render_rgb(env, state, goal)
        for spot, colour in spots.items():
            np.testing.assert_allclose(colour_at(image, env, *spot), to_rgb(colour), atol=0.02)
    np.testing.assert_allclose(colour_at(image, car, 5.5, 8.5), to_rgb(draw.FLOOR), atol=0.02)


def test_a_world_without_a_picture_says_so():
    from matplotlib.figure import Figure

    from clearning.envs import draw

    with pytest.raises(UsageError, match="no picture of object: only FrozenLake, MiniMaze, DubinsCar and"):
        draw.render_rgb(object(), (0, 0), (0, 0))
    ax = Figure().add_axes((0, 0, 1, 1))
    for part in (draw.draw_map, partial(draw.draw_state, state=(0, 0)), partial(draw.draw_goal, goal=(0, 0))):
        with pytest.raises(UsageError, match="no picture of object"):
            part(ax, object())
    assert not ax.patches  # nothing is half drawn


def test_importing_the_worlds_does_not_import_matplotlib():
    code = "import sys, clearning.envs; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # stable-baselines3's own warnings are not ours to fix
def test_stable_baselines3_learns_on_the_car_unchanged():
    sb3 = pytest.importorskip("stable_baselines3", reason="the peers extra is not installed")
    model = sb3.DQN(
        "MultiInputPolicy",
        gymnasium.make("clearning/DubinsCar-v0"),
        replay_buffer_class=sb3.HerReplayBuffer,
        learning_starts=110,  # hindsight needs one finished episode
        seed=0,
        device="cpu",
    )
    model.learn(300)
    assert model.num_timesteps == 300
    seen, _ = gymnasium.make("clearning/DubinsCar-v0").reset(seed=0)
    action, _ = model.predict(seen, deterministic=True)
    assert 0 <= int(action) < 7
