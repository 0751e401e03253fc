"""Videos: that the picture and the panel show what happens and what the agent says."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import assert_refused, run, untrained_run
from PIL import Image
from point_goal import PointGoal

from clearning import recording, video
from clearning.agent import Agent
from clearning.config import replace_settings
from clearning.envs import ENVIRONMENTS, ExternalEnv, make_world
from clearning.errors import ClearningError, UsageError
from clearning.presets import gymnasium_defaults, preset
from clearning.report.opening import complete_dial
from clearning.rollout import Dial

TINY = {"hidden": (8,), "max_horizon": 10}
POINT = {"env": "point_goal:PointGoal-v0", "processes": 1, "parallel_envs": 2, "test_episodes": 4}


@pytest.fixture(scope="module")
def lake_run(tmp_path_factory) -> Path:
    config = replace_settings(preset("frozen-lake"), TINY)
    return untrained_run(tmp_path_factory.mktemp("lake") / "run", config)


@pytest.fixture(scope="module")
def point_run(tmp_path_factory) -> Path:
    config = replace_settings(gymnasium_defaults(), TINY | POINT)
    return untrained_run(tmp_path_factory.mktemp("point") / "run", config)


@pytest.fixture
def no_encoder(monkeypatch):
    monkeypatch.setattr(video, "mp4_encoder", lambda: None)


def durations(path: Path) -> list[int]:
    with Image.open(path) as film:
        found = []
        for i in range(getattr(film, "n_frames", 1)):
            film.seek(i)
            found.append(film.info["duration"])
        return found


@pytest.mark.parametrize("name", ["lake_run", "point_run"])
def test_without_an_encoder_it_is_a_gif(name, request, capsys, no_encoder):
    folder = request.getfixturevalue(name)
    code, out, _ = run(capsys, "video", str(folder), "--episodes", "2", "--horizon", "2")
    assert code == 0
    reached = int(re.fullmatch(r"Wrote .*video\.gif: 2 episodes, .* in (\d); .*\.", out.strip()).group(1))
    shown = durations(folder / "video.gif")
    assert shown.count(round(1000 * video.HOLD)) == 2  # both ends are held
    assert shown[0] == round(1000 * video.LOOK)
    assert len(shown) <= 2 * 3
    assert 0 <= reached <= 2
    with Image.open(folder / "video.gif") as film:
        assert film.size == (2 * recording.SIDE, recording.SIDE)
    assert not list(folder.glob(".*"))  # no unfinished file is left


def test_with_an_encoder_it_is_an_mp4_of_even_pace(lake_run, tmp_path, monkeypatch):
    sent = []

    class Encoder:
        @staticmethod
        def write_frames(path, size, fps, **_):
            Path(path).write_bytes(b"film")
            assert size == (2 * recording.SIDE, recording.SIDE)
            while True:
                sent.append((yield))

    monkeypatch.setattr(video, "mp4_encoder", lambda: Encoder)
    dial = Dial(horizon=1)
    written = video.write_video(lake_run, tmp_path / "film.mp4", 1, dial, fps=10)
    assert written.path.read_bytes() == b"film"
    assert len(sent) == round(10 * video.LOOK) + round(10 * video.HOLD)
    assert "pip install" not in str(written)


def test_episodes_end_with_the_horizon_and_repeat_with_the_seed(lake_run):
    agent = Agent.load(lake_run / "agent.safetensors")
    env = recording.rendering_env(agent.config)
    world = ExternalEnv(env, None, agent.spec.max_episode_steps)
    begin = recording.starts(env, 2, seed=3)
    assert [s.seed for s in begin] == [s.seed for s in recording.starts(env, 2, seed=3)]
    assert [s.seed for s in begin] != [s.seed for s in recording.starts(env, 2, seed=4)]
    ends: list[bool] = []
    first = list(video.frames(agent, world, begin, Dial(horizon=2), ends=ends))
    again = list(video.frames(agent, world, begin, Dial(horizon=2)))
    assert len(ends) == 2
    assert sum(seconds == video.HOLD for _, seconds in first) == 2
    assert len(first) <= 6
    for (picture, _), (other, _) in zip(first, again, strict=True):
        np.testing.assert_array_equal(picture, other)


def test_the_panel_shows_the_curve_and_the_choice():
    panel = video.Panel(20, "A world", Dial(0.9))
    empty = panel.image()
    curve = np.linspace(0.0, 0.8, 20)
    panel.choose("episode 1 of 1, step 3", curve, 15)
    np.testing.assert_array_equal(panel.line.get_ydata(), curve)
    assert panel.dot.get_data() == ([15], [curve[14]])
    assert panel.state.get_text() == f"h = 15,  C = {curve[14]:.2f}"
    assert panel.level.get_ydata()[0] == pytest.approx(0.9 * 0.8)
    chosen = panel.image()
    assert (chosen != empty).any()
    panel.end("episode 1 of 1, step 4", np.ones(20), success=True)
    assert not panel.dot.get_visible()
    assert panel.state.get_text() == "goal reached"
    panel.choose("episode 1 of 1, step 3", curve, 15)
    np.testing.assert_array_equal(panel.image(), chosen)  # nothing of another state is left


def test_a_fixed_horizon_has_no_level():
    panel = video.Panel(20, "A world", Dial(horizon=7))
    panel.choose("", np.linspace(0.0, 0.8, 20), 7)
    assert not panel.level.get_visible()
    assert panel.dot.get_visible()


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_world_of_ours_is_filmed_on_its_test_goals(name):
    env = recording.rendering_env(preset(name))
    (start,) = recording.starts(env, 1, seed=0)
    seen, _ = env.reset(seed=start.seed, options=start.options)
    assert seen["desired_goal"].tolist() in make_world(preset(name)).test_set().goal.tolist()
    picture = recording.picture(env, name)
    assert picture.shape == (recording.SIDE, recording.SIDE, 3)
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--episodes", "0"], "at least 1 episode"),
        (["--fps", "0"], "at least 1 frame"),
        (["--out", "film.avi"], "must end in .mp4 or .gif"),
        (["--out", "film.mp4"], "pip install imageio-ffmpeg"),
        (["--horizon", "11"], "must be in 1..10"),
        (["--alpha", "0"], "alpha must lie in (0, 1]"),
    ],
)
def test_bad_input_gets_a_clear_sentence(capsys, lake_run, no_encoder, arguments, words):
    code, _, err = run(capsys, "video", str(lake_run), *arguments)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1


def test_an_environment_with_other_spaces_than_the_agents_is_told(capsys, tmp_path, no_encoder):
    folder = untrained_run(tmp_path / "run", replace_settings(gymnasium_defaults(), TINY | POINT))
    record = json.loads((folder / "config.json").read_text())
    record["config"]["env_options"] = {"extra": 3}
    (folder / "config.json").write_text(json.dumps(record))
    words = (
        "The agent is of another world: the observations of PointGoal-v0 are not what they were: 2 numbers"
    )
    assert_refused(capsys, ["video", str(folder)], 1, words)


def test_the_panel_picks_the_horizon_that_the_agent_acts_with(point_run):
    """Naive horizon-aware Q has probabilities as they are, where C-learning has logits."""
    config = replace_settings(preset("frozen-lake"), {"method": "naive-q", "form": "sampled-horizon"} | TINY)
    agent = Agent.load(untrained_run(point_run.parent / "naive", config) / "agent.safetensors")
    look = video._looker(agent, complete_dial(None, agent))
    for x in range(5):
        _, horizon = look(np.array([x, 0.0]), np.array([1.0, 6.0]), 0)
        assert horizon == agent.dialled_horizon([x, 0], [1, 6])


def test_a_video_keeps_the_agents_own_voting(tmp_path, monkeypatch, no_encoder):
    folder = untrained_run(tmp_path / "car", replace_settings(preset("dubins-car"), TINY))
    shown, frames = [], video.frames
    monkeypatch.setattr(video, "frames", lambda *arguments: shown.append(arguments[3]) or frames(*arguments))
    video.write_video(folder, episodes=1, dial=Dial(0.5))
    assert (shown[0].vote, shown[0].alpha) == (2, 0.5)


def test_a_mujoco_arm_is_filmed(tmp_path, capsys, no_encoder):
    pytest.importorskip("gymnasium_robotics")
    config = replace_settings(preset("fetch-reach"), TINY | {"processes": 1})
    folder = untrained_run(tmp_path / "run", config)
    code, _, err = run(capsys, "video", str(folder), "--episodes", "1", "--horizon", "2")
    if "could not be drawn" in err:
        pytest.skip("MuJoCo cannot draw on this machine")
    assert code == 0, err
    with Image.open(folder / "video.gif") as film:
        picture = np.asarray(film.convert("RGB"))
    assert len(np.unique(picture[:, : recording.SIDE].reshape(-1, 3), axis=0)) > 50  # an arm, not a blank


def test_an_environment_that_takes_no_render_mode_is_told():
    config = replace_settings(gymnasium_defaults(), {"env": "goal_worlds:Point-v0"})
    with pytest.raises(
        UsageError, match=r"^goal_worlds:Point-v0 cannot be drawn: it takes no render_mode\.$"
    ):
        recording.rendering_env(config)
    other = replace_settings(config, {"env": "point_goal:PointGoal-v0", "env_options": {"colour": "red"}})
    with pytest.raises(UsageError, match="unexpected keyword argument 'colour'"):
        recording.rendering_env(other)


@pytest.mark.parametrize(
    ("render", "words"),
    [(lambda: 1 / 0, "could not be drawn: ZeroDivisionError: division by zero."),
     (lambda: None, "could not be drawn: its render() gives no picture."),
     (lambda: np.zeros((9, 9)), "could not be drawn: its render() gives no picture.")],
)  # fmt: skip
def test_a_picture_that_fails_is_told(render, words):
    env = PointGoal()
    env.render = render
    with pytest.raises(ClearningError) as failure:
        recording.picture(env, "The point")
    assert str(failure.value) == f"The point {words}"


def test_a_picture_fills_a_white_square():
    """The point's own is twice as wide as high."""
    shown = recording.picture_of(replace_settings(gymnasium_defaults(), POINT))
    assert shown.shape == (recording.SIDE, recording.SIDE, 3)
    assert (shown < 128).any()
    middle = shown[recording.SIDE // 4 : -recording.SIDE // 4]
    assert (shown < 128).sum() == (middle < 128).sum()


def test_what_is_no_run_or_cannot_be_drawn_is_told(capsys, lake_run, tmp_path, no_encoder):
    code, _, err = run(capsys, "video", str(tmp_path))
    assert (code, "not a run folder" in err) == (2, True)
    settings = TINY | POINT | {"env_options": {"drawable": False}}
    blind = untrained_run(tmp_path / "blind", replace_settings(gymnasium_defaults(), settings))
    code, _, err = run(capsys, "video", str(blind))
    assert (code, "has no render mode" in err, err.count("\n")) == (2, True, 1)
    record = json.loads((blind / "config.json").read_text())
    (blind / "config.json").write_text(json.dumps(record | {"custom_env": True}))
    code, _, err = run(capsys, "video", str(blind))
    assert (code, "your own environment" in err) == (2, True)
    (tmp_path / "file").write_text("")
    code, _, err = run(capsys, "video", str(lake_run), "--out", str(tmp_path / "file" / "film.gif"))
    assert (code, "Could not write" in err) == (1, True)
