"""Learning from recorded episodes: files, what they must hold, and trainings without an environment."""

import io
import json
import struct
import sys
import zipfile

import goal_worlds
import h5py
import jax
import minari
import numpy as np
import pytest
from conftest import assert_refused, run
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer

import clearning
from clearning import buffer as ring
from clearning import recorded
from clearning.agents import check_method
from clearning.config import Config
from clearning.envs import DubinsCar, ExternalEnv, FrozenLake
from clearning.episode_files import read_recording
from clearning.files import load_arrays
from clearning.fitness import refuse_unfit
from clearning.lock import Locked, locked
from clearning.presets import preset
from clearning.recorded import Recording, fitted, groups, offline_settings, world_of

CELLS, LENGTHS = 7, (5, 1, 9, 3, 9)


def walks(count: int = 60, steps: int = 12, never: tuple[int, int] = (-1, -1), seed: int = 0) -> list[dict]:
    """Random walks over a row of cells: action 0 left, 1 right, 2 stay. In one cell, one is never taken."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        cells, actions = [int(rng.integers(CELLS))], []
        while len(actions) < steps:
            action = int(rng.integers(3))
            if (cells[-1], action) != never:
                actions.append(action)
                cells.append(int(np.clip(cells[-1] + (-1, 1, 0)[action], 0, CELLS - 1)))
        column = np.array(cells, np.float32)[:, None]
        found.append({"observation": column, "achieved_goal": column, "action": np.array(actions)})
    return found


def arrays(**changes) -> dict[str, np.ndarray]:
    """The arrays of a small file for Dubins' car, some of them changed; None leaves one out."""
    states, rng = sum(LENGTHS) + len(LENGTHS), np.random.default_rng(1)
    whole = {
        "observation": rng.uniform(0, 1, (states, 4)),
        "action": rng.integers(7, size=states - len(LENGTHS)),
        "length": np.array(LENGTHS),
        "desired_goal": rng.uniform(0, 15, (len(LENGTHS), 2)),
    } | changes
    return {k: v for k, v in whole.items() if v is not None}


def written(folder, name: str = "a.npz", **changes) -> str:
    path = folder / name
    if name.endswith(".npz"):
        np.savez(path, **arrays(**changes))
    else:
        with h5py.File(path, "w") as file:
            for key, value in arrays(**changes).items():
                file[key] = value
    return str(path)


# Files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.hdf5"])
def test_what_is_saved_is_read_back(tmp_path, name):
    episodes = [e | {"desired_goal": [3.0], "dead": i % 2 == 0} for i, e in enumerate(walks(3))]
    found = read_recording(str(clearning.save_episodes(tmp_path / name, episodes)))
    assert found.length.tolist() == [12, 12, 12]
    np.testing.assert_array_equal(found.observation, np.concatenate([e["observation"] for e in episodes]))
    np.testing.assert_array_equal(found.action, np.concatenate([e["action"] for e in episodes]))
    assert found.dead is not None
    assert found.dead.tolist() == [True, False, True]
    assert found.desired_goal is not None
    assert found.desired_goal.tolist() == [[3.0]] * 3


def test_both_kinds_of_files_are_the_same(tmp_path):
    first, second = (read_recording(written(tmp_path, name)) for name in ("a.npz", "a.h5"))
    for name in ("observation", "action", "length", "desired_goal"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


NAN = arrays()["observation"] * np.where(np.arange(32) == 3, np.nan, 1)[:, None]
BAD = {
    "missing": ({"action": None}, "no array 'action'"),
    "misspelt": ({"desired_goal": None, "desired_goals": np.zeros((5, 2))}, "is 'desired_goal' meant?"),
    "rows": ({"action": np.zeros(26, int)}, "26 rows of action; its 5 lengths call for 27"),
    "goals": ({"desired_goal": np.zeros((4, 2))}, "4 rows of desired_goal"),
    "sizes": ({"achieved_goal": np.zeros((32, 3))}, r"and desired_goal of .* have \(3, 2\) numbers"),
    "nan": ({"observation": NAN}, "Row 3 of 'observation'"),
    "large": ({"observation": arrays()["observation"] * 1e300}, "not finite"),
    "axes": ({"observation": np.zeros(32)}, "2 axes are needed"),
    "text": ({"observation": np.full((32, 4), "a")}, "numbers are needed"),
    "no episodes": ({"length": np.zeros(0, int)}, "holds no episode"),
    "empty episode": ({"length": np.array([5, 0, 10, 3, 9])}, "length 0"),
    "share": ({"action": np.full(27, 0.5)}, "not whole numbers"),
    "negative": ({"action": np.full(27, -1)}, "numbered from 0"),
    "bounds": ({"action": np.zeros((27, 2)), "action_low": np.zeros(2)}, "or neither"),
    "bound": (
        {"action": np.zeros((27, 2)), "action_low": -np.ones(3), "action_high": np.ones(3)},
        "as many numbers",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_a_bad_file_is_told_in_one_sentence(tmp_path, name, case):
    changes, words = BAD[case]
    if name == "a.h5" and case == "text":
        changes = {"observation": np.full((32, 4), b"a")}
    with pytest.raises(clearning.ClearningError, match=words):
        read_recording(written(tmp_path, name, **changes))


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_other_arrays_may_be_there(tmp_path, name):
    assert read_recording(written(tmp_path, name, weather=np.zeros(3))).length.tolist() == list(LENGTHS)


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_a_file_larger_than_the_memory_is_not_read(tmp_path, monkeypatch, name):
    monkeypatch.setattr("clearning.episode_files.memory", lambda: 1000)
    with pytest.raises(clearning.ClearningError, match=r"holds 0\.0 GB of arrays, and this machine has 0\.0"):
        read_recording(written(tmp_path, name))


def test_python_objects_are_not_read(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, allow_pickle=True, **arrays(dead=np.array([None, {}, 1, 2, 3], object)))
    with pytest.raises(clearning.ClearningError, match="Python objects"):
        read_recording(str(path))


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
@pytest.mark.parametrize("kept", [0, 10, 700])
def test_a_truncated_file_is_told(tmp_path, name, kept):
    path = written(tmp_path, name)
    with open(path, "r+b") as file:
        file.truncate(kept)
    with pytest.raises(clearning.ClearningError, match="truncated, damaged or not"):
        read_recording(path)


def test_damage_inside_an_array_is_told(tmp_path):
    path = written(tmp_path)
    with zipfile.ZipFile(path) as archive:
        at = archive.getinfo("observation.npy").header_offset + 400
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(b"\xff" * 8)
    with pytest.raises(clearning.ClearningError, match="truncated"):
        read_recording(path)


def test_what_is_no_array_is_told(tmp_path):
    path = written(tmp_path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("notes.npy", "walked on Monday")
    with pytest.raises(clearning.ClearningError, match=r"The array 'notes' of .* is damaged"):
        read_recording(path)


def test_an_array_that_ends_before_its_directory_says_is_told(tmp_path):
    """Only who reads it to the end finds out: its checksum is that of what is there."""
    data, path = io.BytesIO(), tmp_path / "a.npz"
    np.save(data, np.array(LENGTHS))
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays(length=None).items():
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, array)
        archive.writestr("length.npy", data.getvalue()[:-8])
    content = bytearray(path.read_bytes())
    entry = content.rindex(b"PK\x01\x02")  # of the last array, in the directory
    content[entry + 24 : entry + 28] = struct.pack("<I", len(data.getvalue()))
    path.write_bytes(content)
    with pytest.raises(clearning.ClearningError, match=r"The array 'length' of .* is truncated or damaged"):
        read_recording(str(path))


def test_sizes_that_a_file_only_claims_are_not_allocated(tmp_path):
    text = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**40, 4)}
    np.lib.format.write_array_header_1_0(text, header)
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("observation.npy", text.getvalue())
    with pytest.raises(clearning.ClearningError, match="says it has"):
        read_recording(str(path))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("observation", (2**40, 4), "f8", chunks=(1024, 4))
    with pytest.raises(clearning.ClearningError, match="says it has"):
        read_recording(str(tmp_path / "a.h5"))


@pytest.mark.parametrize(
    ("name", "words"),
    [("no.npz", "no file"), ("a.txt", "must end in .npz"), ("no/such-v0", "neither a file nor")],
)
def test_a_source_that_is_not_there(tmp_path, monkeypatch, name, words):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    (tmp_path / "a.txt").write_text("")
    source = name if "-v0" in name else str(tmp_path / name)
    with pytest.raises(clearning.ClearningError, match=words):
        read_recording(source)


@pytest.mark.parametrize(
    ("package", "source", "words"),
    [
        ("h5py", "a.h5", "HDF5 files need the extra: pip install 'clearning\\[minari\\]'"),
        ("minari", "row/walks-v0", "no file row/walks-v0; if it is a Minari dataset: pip install"),
    ],
)
def test_an_extra_that_is_missing_is_named(tmp_path, monkeypatch, package, source, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.h5").write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(clearning.UsageError, match=words):
        read_recording(source)


def test_episodes_are_saved_under_a_known_ending_and_come_from_a_checkpoint(tmp_path):
    with pytest.raises(clearning.UsageError, match=r"a\.csv must end in \.npz, \.h5 or \.hdf5"):
        clearning.save_episodes(tmp_path / "a.csv", walks(1))
    with pytest.raises(clearning.UsageError, match="has no checkpoint, so there are no replayed episodes"):
        next(clearning.replayed_episodes(tmp_path))


def test_episodes_that_do_not_fit_together_are_not_saved(tmp_path):
    one, *others = walks(3)
    short = one | {"observation": one["observation"][1:]}
    for episodes, words in (([], "no episode"), ([short], "one more"), ([one, {"action": [1]}], "Episode 1")):
        with pytest.raises(clearning.ClearningError, match=words):
            clearning.save_episodes(tmp_path / "a.npz", episodes)
    with pytest.raises(clearning.ClearningError, match="differ in their sizes"):
        clearning.save_episodes(tmp_path / "a.npz", [*others, one | {"observation": np.zeros((13, 2))}])
    assert not (tmp_path / "a.npz").exists()


# Fitting a world ----------------------------------------------------------------------------------


def test_a_file_of_another_world_is_refused(tmp_path):
    ours = read_recording(written(tmp_path))
    assert fitted(ours, DubinsCar()).achieved_goal is not None  # shown by the observation
    cases = [
        (ours, FrozenLake(), "observations of .* have 4 numbers, those of frozen-lake 2"),
        (ours._replace(action=ours.action + 3), DubinsCar(), "those of dubins-car are 0..6"),
        (ours._replace(action=np.zeros((27, 2))), DubinsCar(), "are vectors, those of dubins-car numbers"),
        (ours._replace(achieved_goal=np.zeros((32, 3))), DubinsCar(), "goals of .* have 3 numbers"),
    ]
    for recording, env, words in cases:
        with pytest.raises(clearning.ClearningError, match=words):
            fitted(recording, env)


def test_goals_that_neither_a_file_nor_an_observation_shows_are_missed(tmp_path):
    class Blind(goal_worlds.Point):
        def observe(self):
            return super().observe() | {"observation": np.zeros(3, np.float32)}

    env = ExternalEnv(Blind(start=0.1), max_episode_steps=5)
    with pytest.raises(clearning.ClearningError, match="and an observation of Blind does not show it"):
        fitted(read_recording(written(tmp_path)), env)


def test_vectors_are_scaled_from_their_bounds(tmp_path):
    action = np.stack([np.linspace(-2, 2, 27), np.linspace(0, 10, 27)], 1)
    bounds = {"action_low": np.array([-2, 0]), "action_high": np.array([2, 20])}
    changes = {"action": action, "achieved_goal": arrays()["observation"][:, 1:3]} | bounds
    found = read_recording(written(tmp_path, **changes))
    world = world_of(found, 0.1)
    assert world.spec.action_high == (2, 20)
    assert world.spec.achieved_at == (1, 2)  # found in the observation
    scaled = fitted(found, world).action
    np.testing.assert_allclose([scaled.min(0), scaled.max(0)], [[-1, -1], [1, 0]], atol=1e-6)
    np.testing.assert_allclose(world.spec.in_bounds(scaled), action, atol=1e-5)
    beyond = found._replace(action=found.action + np.float32([0, 11]))
    with pytest.raises(clearning.ClearningError, match=r"coordinate 1 at 21; .* takes 0..20 there"):
        fitted(beyond, world)


def test_what_ended_by_itself_is_dead_unless_it_arrived():
    cells = np.array([[0], [1], [0], [1]], np.float32)
    ended = Recording("x", cells, np.array([1, 1]), np.array([1, 1]), cells, np.float32([[1], [5]]))
    found = fitted(ended._replace(terminated=np.array([True, True])), world_of(ended, 0.5))
    assert found.dead is not None
    assert found.dead.tolist() == [False, True]


def test_groups_lose_nothing(monkeypatch):
    """Every state carries its own number, so that any that went astray in a group or the ring is seen."""
    monkeypatch.setattr(recorded, "GROUP", 24)
    length = np.array([5, 1, 9, 3, 30, 2, 2, 2])
    states = int((length + 1).sum())
    number = np.arange(states, dtype=np.float32)[:, None]
    action = np.arange(int(length.sum()), dtype=np.int32) % 3
    recording = Recording("x", number, action, length, number + 1000, dead=length == 2)
    world = world_of(recording, 0.5)
    recording = fitted(recording, world)
    buffer = ring.init(world.spec, max(states, 8 * len(length)))
    parts = list(groups(recording))
    assert [len(p.length) for p in parts] == [2, 2, 1, 3]
    for part in parts:
        buffer = jax.jit(ring.add)(buffer, part)
    assert int(buffer.first_episode) == 0
    np.testing.assert_array_equal(buffer.observation[:states], number)
    np.testing.assert_array_equal(buffer.achieved[:states], number + 1000)
    np.testing.assert_array_equal(buffer.episode_length[:8], length)
    np.testing.assert_array_equal(buffer.episode_dead[:8], length == 2)
    np.testing.assert_array_equal(buffer.episode_goal[:8, 0], 1000 + np.cumsum(length + 1) - 1)
    np.testing.assert_array_equal(buffer.action[buffer.transition[: length.sum()]], action)


def test_the_budget_counts_updates():
    recording = Recording("x", np.zeros((1000, 4)), np.zeros(900), np.full(100, 9))
    car = offline_settings(preset("dubins-car"), recording, DubinsCar().spec)
    assert (car.updates, car.episodes, car.buffer_capacity) == (700 * 60, 0, 1000)
    assert (car.every_counts, car.evaluate_every, car.checkpoint_every) == ("updates", 25 * 60, 50 * 60)
    assert offline_settings(car, recording, DubinsCar().spec) == car  # as a resumed run finds it
    arm = offline_settings(preset("fetch-reach"), recording._replace(length=np.ones(500)), DubinsCar().spec)
    assert (arm.updates, arm.evaluate_every, arm.buffer_capacity) == (4000, 500, 4000)


def test_settings_that_recorded_episodes_cannot_serve():
    recording = Recording("x", np.zeros((2, 1)), np.zeros(1, int), np.ones(1, int), np.zeros((2, 1)))
    with pytest.raises(clearning.UsageError, match="naive-q"):
        offline_settings(preset("naive-q/dubins-car"), recording, DubinsCar().spec)
    with pytest.raises(clearning.UsageError, match=r"give the environment .* or --reached-within"):
        world_of(recording, 0.0)
    with pytest.raises(clearning.ClearningError, match="no achieved_goal"):
        world_of(recording._replace(achieved_goal=None), 0.5)
    with pytest.raises(
        clearning.UsageError, match=r"reached_within is for Gymnasium .* its own check of what"
    ):
        clearning.train("dubins-car", reached_within=0.5)
    world = world_of(recording._replace(action=np.zeros((1, 2))), 0.5)
    check_method(world.spec, Config())
    with pytest.raises(clearning.UsageError, match="numbered actions"):
        refuse_unfit(world, Config(support=0.1))
    with pytest.raises(clearning.UsageError, match="goal_nearby"):
        refuse_unfit(world, Config(goal_nearby=1.0, goal_future=0.0, goal_episode=0.0, goal_random=0.0))


# Minari -------------------------------------------------------------------------------------------


def minari_dataset(name: str, observation_space: spaces.Space, observations: list) -> None:
    buffers = [
        EpisodeBuffer(
            observations=seen,
            actions=np.array([1, 0]),
            rewards=[0.0, 0.0],
            terminations=[False, ended],
            truncations=[False, not ended],
        )
        for seen, ended in zip(observations, (True, False), strict=True)
    ]
    minari.create_dataset_from_buffers(
        name, buffers, action_space=spaces.Discrete(2), observation_space=observation_space
    )


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_a_minari_dataset_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    parts = {n: spaces.Box(0, 9, (1,), np.float32) for n in ("observation", "achieved_goal", "desired_goal")}
    way = np.array([[0], [1], [0]], np.float32)
    seen = {"observation": way, "achieved_goal": way, "desired_goal": np.full((3, 1), 5, np.float32)}
    minari_dataset("row/walks-v0", spaces.Dict(parts), [seen, seen])
    found = read_recording("row/walks-v0")
    assert found.length.tolist() == [2, 2]
    np.testing.assert_array_equal(found.observation, np.concatenate([way, way]))
    assert found.terminated is not None
    assert found.terminated.tolist() == [True, False]
    assert found.desired_goal is not None
    assert found.desired_goal.tolist() == [[5], [5]]
    minari_dataset("row/plain-v0", parts["observation"], [way, way])
    with pytest.raises(clearning.ClearningError, match="not a goal dataset"):
        read_recording("row/plain-v0")


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_a_minari_dataset_that_is_empty_or_damaged_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    way = np.array([[0], [1], [0]], np.float32)
    minari_dataset("row/walks-v0", spaces.Box(0, 9, (1,), np.float32), [way, way])
    about = tmp_path / "row" / "walks-v0" / "data" / "metadata.json"
    about.write_text(json.dumps(json.loads(about.read_text()) | {"total_episodes": 0}))
    with pytest.raises(clearning.ClearningError, match="row/walks-v0 holds no episode"):
        read_recording("row/walks-v0")
    about.write_text("{}")
    with pytest.raises(clearning.ClearningError, match="The Minari dataset row/walks-v0 could not be read"):
        read_recording("row/walks-v0")


# Trainings ----------------------------------------------------------------------------------------

SMALL = {
    "reached_within": 0.5,
    "updates": 600,
    "max_horizon": CELLS,
    "hidden": (32,),
    "batch_size": 64,
    "learning_rate": 1e-2,
    "learning_rate_decay": "cosine",
    "target_rate": 0.05,
    "updates_per_step": 0.0,
    "updates_per_episode": 5,
    "pair_tries": 1,
    "every_counts": "updates",
    "evaluate_every": 200,
    "checkpoint_every": 200,
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """A run that learned from random walks alone, and the file."""
    folder = tmp_path_factory.mktemp("row")
    file = clearning.save_episodes(folder / "walks.npz", walks())
    clearning.train(from_episodes=file, out=folder / "run", quiet=True, **SMALL)
    return folder


def test_random_walks_teach_every_way(walked):
    """The shortest way over a row of cells is known: C is 1 from as many steps on as there are cells."""
    agent = clearning.load(walked / "run")
    s, g = (x.reshape(-1, 1) for x in np.meshgrid(np.arange(CELLS), np.arange(CELLS)))
    apart = (s != g)[:, 0]
    s, g = s[apart], g[apart]
    np.testing.assert_array_equal(agent.act(s, g, horizon=np.abs(s - g)[:, 0]), (g > s)[:, 0])
    curve = agent.reach_curve(s, g)
    truth = np.arange(1, CELLS + 1) >= np.abs(s - g)
    assert np.abs(curve - truth).mean() < 0.1
    assert agent.spec.goal_check == clearning.GoalCheck((0,), "l2", 0.5)


def test_without_an_environment_the_metrics_have_a_loss_only(walked):
    rows = clearning.runs.RunFolder(walked / "run").metrics()
    assert rows["updates"].tolist() == [200, 400, 600]
    assert np.isfinite(rows["loss"]).all()
    assert np.isnan(rows["eval_success"]).all()
    assert (rows["episodes"] == 60).all()
    assert (rows["env_steps"] == 720).all()


def test_a_run_gives_its_episodes_back(walked):
    found = list(clearning.replayed_episodes(walked / "run"))
    assert len(found) == 60
    for episode, original in zip(found, walks(), strict=True):
        np.testing.assert_array_equal(episode["observation"], original["observation"])
        np.testing.assert_array_equal(episode["action"], original["action"])
        np.testing.assert_array_equal(episode["desired_goal"], original["observation"][-1])


def test_an_interrupted_run_ends_with_the_same_bits(walked):
    file = clearning.save_episodes(walked / "copy.npz", walks())
    stop = clearning.Callbacks(after_checkpoint=lambda agent, record: False)
    with pytest.raises(clearning.Interrupted, match="after 200 updates"):
        clearning.train(from_episodes=file, out=walked / "halved", callbacks=stop, quiet=True, **SMALL)
    file.unlink()  # the checkpoint has the episodes
    clearning.resume(walked / "halved", quiet=True)
    once, twice = (load_arrays(walked / f / "checkpoint.safetensors")[0] for f in ("run", "halved"))
    assert [name for name in once if once[name].tobytes() != twice[name].tobytes()] == []


def test_a_run_without_a_checkpoint_begins_with_the_same_file_or_not_at_all(walked):
    begun = walked / "begun"
    begun.mkdir()
    (begun / "config.json").write_text((walked / "run" / "config.json").read_text())
    kept = (walked / "walks.npz").read_bytes()
    clearning.save_episodes(walked / "walks.npz", walks(50))
    try:
        with pytest.raises(clearning.ClearningError, match="no longer what"):
            clearning.resume(begun, quiet=True)
    finally:
        (walked / "walks.npz").write_bytes(kept)
    # With its own file it would begin, were nobody else at work there.
    with locked(begun), pytest.raises(Locked):
        clearning.resume(begun, quiet=True)


def test_commands_on_a_run_without_an_environment(walked, capsys):
    folder = str(walked / "run")
    code, out, _ = run(capsys, "ask", folder, "--state", "1", "--goal", "4", "--horizon", "5")
    assert code == 0
    assert "probability" in out
    for command in ("eval", "calibrate", "video", "explore"):
        assert_refused(capsys, [command, folder], 2, "There is no environment to test in")
    code, out, _ = run(capsys, "plot", folder)
    assert code == 0


def test_actions_never_taken_count_as_failing(tmp_path):
    """In cell 3 nobody ever went right: with support, C of going right is 0 there and nowhere else."""
    file = clearning.save_episodes(tmp_path / "walks.npz", walks(never=(3, 1)))
    agent = clearning.train(from_episodes=file, support=0.3, quiet=True, **SMALL | {"updates": 300})
    logits = np.stack([agent.network.curve(np.float32([s]), np.float32([6])) for s in range(CELLS)])
    assert (logits[3, 1] < -1e8).all()
    assert (logits[[0, 1, 2, 4, 5], 1] > -1e8).all()
    assert (logits[:, [0, 2]] > -1e8).all()


def test_a_preset_learns_from_a_file_by_the_command_line(tmp_path, capsys):
    """With an environment it is tested as always; nothing is collected."""
    lake, rng = FrozenLake(), np.random.default_rng(0)
    cells = lake.cells[~lake.mdp.dead]
    pairs = cells[rng.integers(len(cells), size=(20, 2))].astype(np.float32)
    episodes = [{"observation": p, "achieved_goal": p, "action": [i % 4]} for i, p in enumerate(pairs)]
    file = clearning.save_episodes(tmp_path / "lake.h5", episodes)
    out, options = tmp_path / "run", ["--updates", "8", "--updates-per-episode", "4", "--hidden", "8"]
    arguments = ["train", "frozen-lake", "--from-episodes", str(file), "--out", str(out), *options]
    code, _, err = run(capsys, *arguments)
    assert code == 0, err
    rows = clearning.runs.RunFolder(out).metrics()
    assert (rows["episodes"][-1], rows["updates"][-1]) == (20, 12)  # the last two fifths come on top
    assert np.isfinite(rows["eval_success"][-1])
    other = [*arguments, "--env", "dubins-car", "--out", str(tmp_path / "other")]
    assert_refused(capsys, other, 1, "have 2 numbers, those of dubins-car 4")


def test_a_bad_file_leaves_no_folder_behind(tmp_path, capsys):
    path = written(tmp_path, action=np.full(27, 7))
    out = tmp_path / "run"
    assert_refused(
        capsys, ["train", "dubins-car", "--from-episodes", path, "--out", str(out)], 1, "has an action 7"
    )
    assert_refused(capsys, ["train", "--from-episodes", path, "--out", str(out)], 2, "--reached-within")
    assert not out.exists()
