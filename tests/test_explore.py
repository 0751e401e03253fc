"""The page of `clearning explore`: its arrays against the agent, and what it refuses."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it would like another package than httpx, and still works with it
    from starlette.testclient import TestClient

import httpx
from conftest import assert_refused, untrained_run

from clearning.cli import main
from clearning.config import replace_settings
from clearning.envs import DubinsCar
from clearning.envs.cat_and_mouse import exact_reach, exact_success, risk
from clearning.envs.search import fewest_steps
from clearning.errors import ClearningError, UsageError
from clearning.explore.server import HEADERS, _listen, build_app
from clearning.explore.views import SAMPLES, SEARCH_CELL, View, open_views
from clearning.presets import PEERS, PRESETS, gymnasium_defaults

WORLDS = ("frozen-lake", "mini-maze", "dubins-car", "cat-and-mouse")
STARTS = {"frozen-lake": "1,0", "mini-maze": "6,6", "dubins-car": "7.5,7.5,90", "cat-and-mouse": "1,5"}
GOALS = {"frozen-lake": "1,6", "mini-maze": "7,6", "dubins-car": "8,8.5", "cat-and-mouse": "9,5"}
HORIZONS = 6
HOSTILE = '<img src=x onerror=alert(1)> & "run"'


def untrained(folder: Path, preset: str, seed: int = 0, **settings) -> Path:
    """A run folder with a small network that has learned nothing."""
    known = {"hidden": (16,), "max_horizon": HORIZONS, "actor_heads": 1} | settings
    return untrained_run(folder, replace_settings(PRESETS[preset](), known), preset, seed)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    parent = tmp_path_factory.mktemp("explore")
    return {name: untrained(parent / name, name) for name in WORLDS}


@pytest.fixture(scope="module")
def views(runs):
    return {name: open_views([runs[name]])[0] for name in WORLDS}


@pytest.fixture(scope="module")
def clients(views):
    return {name: client(view) for name, view in views.items()}


def client(*views: View, **options) -> TestClient:
    return TestClient(build_app(views, **options), base_url="http://127.0.0.1")


def array(response) -> np.ndarray:
    assert response.status_code == 200, response.text
    shape = tuple(map(int, response.headers["x-shape"].split(",")))
    return np.frombuffer(response.content, np.uint8).reshape(shape)


def question(world: str, **more) -> dict[str, str]:
    return {"start": STARTS[world], "goal": GOALS[world], **more}


@pytest.mark.parametrize("world", WORLDS)
def test_the_world_is_described_as_its_arrays_are_laid_out(clients, views, world):
    told = clients[world].get("/api/world").json()
    lattice, view = told["lattice"], views[world]
    free = np.flatnonzero(np.array(list(lattice["kind"])) != "0")
    points = np.array(lattice["low"]) + lattice["step"] * np.stack(np.divmod(free, lattice["rows"]), -1)
    np.testing.assert_allclose(points, view.lattice.goals, atol=1e-5)
    assert len(lattice["kind"]) == lattice["columns"] * lattice["rows"]
    assert told["runs"][0]["max_horizon"] == HORIZONS
    assert len(told["colours"]) == len(told["difference_colours"]) == 256
    # What the page opens with can be asked.
    pair = {name: ",".join(map(str, told[name])) for name in ("start", "goal")}
    assert clients[world].get("/api/paths", params=pair | {"alpha": "0.9"}).status_code == 200


def test_holes_are_goals_but_no_starts(clients):
    lattice = clients["frozen-lake"].get("/api/world").json()["lattice"]
    assert lattice["kind"].count("2") == 6
    assert lattice["kind"].count("1") == 29


@pytest.mark.parametrize("world", WORLDS)
def test_heat_is_what_the_agent_says(clients, views, world):
    found = array(clients[world].get("/api/heat", params={"start": STARTS[world]}))
    view = views[world]
    x, y, *heading = map(float, STARTS[world].split(","))
    seen = [x, y, np.cos(np.deg2rad(heading[0])), np.sin(np.deg2rad(heading[0]))] if heading else [x, y]
    expected = view.agent.reach_curve(seen, view.lattice.goals)
    assert found.shape == (HORIZONS, len(view.lattice.goals))
    np.testing.assert_allclose(found.T / 255, expected, atol=0.5 / 255 + 1e-6)


@pytest.mark.parametrize("world", ["frozen-lake", "mini-maze", "cat-and-mouse"])
def test_truth_is_exact(clients, views, world):
    found = array(clients[world].get("/api/truth", params={"start": STARTS[world]})) / 255
    goals = views[world].lattice.goals.tolist()
    at = lambda *goal: found[:, goals.index(list(map(float, goal)))]  # noqa: E731
    assert found.shape == (HORIZONS, len(goals))
    assert (np.diff(found, axis=0) >= 0).all()
    if world == "frozen-lake":
        assert at(1, 6)[5] == pytest.approx(0.262144, abs=0.003)
        assert (at(1, 0) == 1).all()
    elif world == "mini-maze":
        np.testing.assert_array_equal(at(8, 7), [0, 0, 1, 1, 1, 1])
    else:
        assert at(9, 5)[5] == pytest.approx(0.572, abs=0.03)  # what `exact_success` gives


def test_the_coarse_search_of_the_car_is_nearly_as_tight():
    env, goals = DubinsCar(), np.array([[3.0, 0.0], [2.0, 3.0], [0.0, 4.0]], np.float32)
    start = np.array([0.0, 0.0, 1.0, 0.0])
    fine, coarse = fewest_steps(env, start, goals, 8), fewest_steps(env, start, goals, 8, SEARCH_CELL)
    assert fine is not None
    assert coarse is not None
    assert fine[0] == coarse[0] == 3
    found = coarse > 0
    assert (coarse[found] >= fine[found]).all()
    assert (coarse[found] <= fine[found] + 1).all()


def test_ways_from_one_start_agree_with_dynamic_programming_to_one_goal():
    start, horizons = (2.0, 3.0), 5
    goals = np.array([[6.5, 6.0], [2.25, 3.0], [3.9, 3.0], [9.0, 9.0]])
    found = exact_reach(start, goals, horizons)
    assert (found[1] == 1).all()  # there already
    assert found[2, 0] == 1  # one move
    assert found[3].max() == 0  # too far
    exact = exact_success(start, (6.5, 6.0), horizons)
    assert (found[0] <= exact + 0.005).all()
    np.testing.assert_allclose(found[0], exact, atol=0.03)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("dial", [{"alpha": "0.9"}, {"horizon": "3"}])
def test_paths_start_at_the_start_and_end_in_time(clients, views, world, dial):
    view, asked = views[world], question(world, **dial)
    found = clients[world].get("/api/paths", params=asked).json()
    x, y = map(float, asked["start"].split(",")[:2])
    goal = jnp.array(list(map(float, asked["goal"].split(","))))
    chance = world in ("frozen-lake", "cat-and-mouse")
    assert len(found["paths"]) == (SAMPLES if chance else 1)
    for path in found["paths"]:
        assert path["points"][0][:2] == [x, y]
        assert not (path["reached"] and path["dead"])
        if "horizon" in dial:
            assert len(path["points"]) <= 4
        assert path["reached"] == bool(view.env.reached(jnp.array(path["points"][-1][:2]), goal))
    seen = view._seen(view._state(list(map(float, asked["start"].split(",")))))
    np.testing.assert_allclose(found["curve"], view.agent.reach_curve(seen, goal), atol=1e-4)
    if "horizon" in dial:
        assert found["horizon"] == 3
    else:
        _, choice = view.agent.act(seen, goal, alpha=0.9, return_info=True)
        assert found["horizon"] == choice.horizon
    again = clients[world].get("/api/paths", params=asked).json()
    assert again == found  # the same link shows the same picture


def test_a_start_at_the_goal_is_a_path_of_no_steps(clients):
    asked = {"start": "2,0", "goal": "2,0", "alpha": "0.5"}
    (path,) = clients["frozen-lake"].get("/api/paths", params=asked).json()["paths"]
    assert path == {"points": [[2.0, 0.0]], "reached": True, "dead": False}
    found = clients["frozen-lake"].get("/api/success", params=asked).json()
    assert (found["success"], found["rollouts"]) == (1.0, 0)


def test_success_counts_rollouts(clients):
    asked = question("frozen-lake", horizon="6", rollouts="300")
    found = clients["frozen-lake"].get("/api/success", params=asked).json()
    assert found["rollouts"] == 300
    low, high = found["interval"]
    assert 0 <= low <= found["success"] <= high <= 1
    assert low <= 0.262144  # no policy beats the optimum
    found = clients["mini-maze"].get("/api/success", params=question("mini-maze", alpha="0.9")).json()
    assert (found["rollouts"], found["success"] in (0.0, 1.0)) == (1, True)


BAD = [
    ("heat", {}, "start takes numbers"),
    ("heat", {"start": ""}, "start takes numbers"),
    ("heat", {"start": "a,b"}, "start takes numbers"),
    ("heat", {"start": "1"}, "2 numbers, not 1"),
    ("heat", {"start": "1,0,0"}, "2 numbers, not 3"),
    ("heat", {"start": "nan,0"}, "finite"),
    ("heat", {"start": "inf,0"}, "finite"),
    ("heat", {"start": "1e400,0"}, "finite"),
    ("heat", {"start": "9,9"}, "off the map"),
    ("heat", {"start": "0.5,0"}, "whole numbers"),
    ("heat", {"start": "1,0", "run": "1"}, "run must be a whole number in 0..0"),
    ("heat", {"start": "1,0", "run": "-1"}, "run must be a whole number"),
    ("heat", {"start": "1,0", "run": "²"}, "run must be a whole number"),
    ("heat", {"start": "1,0", "goal": "1,6"}, "There is no parameter 'goal'"),
    ("truth", {"start": "1"}, "2 numbers"),
    ("world", {"x": "1"}, "there are none here"),
    ("paths", {"start": "1,0", "alpha": "0.9"}, "goal takes numbers"),
    ("paths", {"start": "1,0", "goal": "1,6"}, "either alpha or horizon"),
    ("paths", {"start": "1,0", "goal": "1,6", "alpha": "0.9", "horizon": "3"}, "either alpha or horizon"),
    ("paths", {"start": "1,0", "goal": "1,6", "alpha": "0"}, "alpha must lie in (0, 1]"),
    ("paths", {"start": "1,0", "goal": "1,6", "alpha": "nan"}, "alpha must lie in (0, 1]"),
    ("paths", {"start": "1,0", "goal": "1,6", "alpha": "0.5,0.6"}, "alpha is one number"),
    ("paths", {"start": "1,0", "goal": "1,6", "horizon": "7"}, "horizon must be in 1..6"),
    ("paths", {"start": "1,0", "goal": "1,6", "horizon": "3.5"}, "horizon must be a whole number"),
    ("paths", {"start": "1,0", "goal": "9,9", "alpha": "0.9"}, "off the map"),
    ("paths", {"start": "1,0", "goal": "1.5,6", "alpha": "0.9"}, "not a free cell"),
    (
        "paths",
        {"start": "1,0", "goal": "1,6", "alpha": "0.9", "seed": "99999999999999999999"},
        "seed must be",
    ),
    ("success", {"start": "1,0", "goal": "1,6", "alpha": "0.9", "rollouts": "0"}, "rollouts must be"),
    ("success", {"start": "1,0", "goal": "1,6", "alpha": "0.9", "rollouts": "1000000"}, "rollouts must be"),
]


@pytest.mark.parametrize(("name", "parameters", "words"), BAD)
def test_bad_requests_are_refused_with_one_sentence(clients, name, parameters, words):
    response = clients["frozen-lake"].get(f"/api/{name}", params=parameters)
    assert response.status_code == 400
    (sentence,) = response.json().values()
    assert words in sentence
    assert sentence.endswith(".")


def test_bad_starts_of_the_other_worlds(clients):
    for world, start, words in [
        ("mini-maze", "11,0", "inside a wall"),
        ("dubins-car", "5,3,0", "inside a wall"),
        ("dubins-car", "5,3", "x, y and heading"),
        ("cat-and-mouse", "-1,5", "outside the box"),
    ]:
        response = clients[world].get("/api/heat", params={"start": start})
        assert (response.status_code, words in response.json()["error"]) == (400, True)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/../server.py", 404),
        ("GET", "/%2e%2e/server.py", 404),
        ("GET", "/..%2fserver.py", 404),
        ("GET", "/main.js%00", 404),
        ("POST", "/api/heat", 405),
        ("DELETE", "/", 405),
        ("GET", "/api/heat?start=1,0&start=1,1", 400),
        ("GET", "/api/heat?%ff=%fe", 400),
        ("GET", "/api/heat?start=" + "1," * 5000, 400),
    ],
)
def test_wrong_addresses_and_methods_are_told_so(clients, method, path, status):
    response = clients["frozen-lake"].request(method, path)
    assert response.status_code == status
    assert response.json()["error"].endswith(".")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8710", "localhost:1", "LOCALHOST", "[::1]:8710"])
def test_this_machine_is_served(clients, host):
    assert clients["frozen-lake"].get("/api/world", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "evil.example@localhost", "",
     "localhost:port", "[::1", "localhost/..", "localhost evil.example"],
)  # fmt: skip
def test_other_hosts_are_refused(clients, host):
    for path in ("/", "/api/world"):
        response = clients["frozen-lake"].get(path, headers={"host": host})
        assert response.status_code == 421
        assert "<" not in response.text


def test_a_request_for_two_hosts_is_refused(clients):
    hosts = [("host", "127.0.0.1"), ("host", "evil.example")]
    assert clients["frozen-lake"].get("/api/world", headers=hosts).status_code == 421


def test_what_goes_wrong_here_is_not_told_to_the_browser(views, monkeypatch):
    monkeypatch.setattr(views["frozen-lake"], "heat", lambda start: 1 / 0)
    asked = TestClient(
        build_app([views["frozen-lake"]]), base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    response = asked.get("/api/heat", params={"start": "1,0"})
    assert response.status_code == 500
    assert response.json() == {"error": "Something went wrong here; the terminal says what."}


def answers(view: View, scope: dict[str, Any], *received: dict[str, Any]) -> list[Any]:
    """All that the application sends to whom says these things."""
    sent, left = [], iter(received)

    async def receive() -> Any:
        return next(left)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1")]
    asyncio.run(build_app([view])({"headers": headers, "path": "/", **scope}, receive, send))  # pyright: ignore[reportArgumentType]
    return sent


def test_who_has_left_is_not_searched_for(views, monkeypatch):
    """A start that is dragged over the map asks at each cell, and each search may take seconds."""
    monkeypatch.setattr(views["dubins-car"], "truth", lambda start: pytest.fail("a search for nobody"))
    scope = {"type": "http", "method": "GET", "path": "/api/truth", "query_string": b"start=7.5,7.5,90"}
    sent = answers(views["dubins-car"], scope, {"type": "http.disconnect"})
    assert [m.get("status") for m in sent] == [204, None]


def test_only_http_is_answered(views):
    assert answers(views["frozen-lake"], {"type": "websocket"}, {"type": "websocket.connect"}) == []


def test_a_host_can_be_allowed(views):
    asked = client(views["frozen-lake"], names=["Lab.example"])
    assert asked.get("/", headers={"host": "lab.example:8710"}).status_code == 200


def test_the_page_and_its_parts_are_served_and_load_nothing_from_elsewhere(clients):
    for name, kind in [("", "text/html"), ("style.css", "text/css"), ("main.js", "javascript")]:
        response = clients["frozen-lake"].get(f"/{name}")
        assert (response.status_code, kind in response.headers["content-type"]) == (200, True)
        for header, value in HEADERS.items():
            assert response.headers[header] == value
    folder = Path(__file__).parents[1] / "src" / "clearning" / "explore" / "page"
    for part in folder.iterdir():
        text = part.read_text().replace("http://www.w3.org/2000/svg", "")
        assert "//" not in text.replace("// ", ""), part.name
        assert "innerHTML" not in text
        assert "on" + "click=" not in text


def test_every_control_has_a_label_and_a_sentence():
    page = (Path(__file__).parents[1] / "src/clearning/explore/page/index.html").read_text()
    for tag in re.findall(r"<(?:input|button|fieldset)[^>]*>", page):
        hint = re.search(r'aria-describedby="([^"]+)"', tag)
        if 'type="radio"' in tag:
            continue  # described by its group
        assert hint, tag
        (sentence,) = re.findall(rf'<p id="{hint[1]}">(.*?)</p>', page)
        assert sentence.endswith(".")
    for name in re.findall(r'<input id="([^"]+)" type="range"', page):
        assert f'<label for="{name}">' in page


def test_names_of_runs_cannot_become_part_of_the_page(tmp_path):
    view = open_views([untrained(tmp_path / HOSTILE, "frozen-lake")])[0]
    asked = client(view)
    assert HOSTILE not in asked.get("/").text
    told = asked.get("/api/world")
    assert told.headers["content-type"] == "application/json"
    assert told.json()["runs"][0]["name"].endswith(HOSTILE)  # which the page sets as text


def test_two_runs_answer_side_by_side(tmp_path, runs):
    other = untrained(tmp_path / "other", "frozen-lake", seed=1)
    asked = client(*open_views([runs["frozen-lake"], other]))
    assert [r["seed"] for r in asked.get("/api/world").json()["runs"]] == [0, 1]
    first, second = (array(asked.get("/api/heat", params={"start": "1,0", "run": str(i)})) for i in (0, 1))
    assert (first != second).any()


def test_what_cannot_be_explored_is_refused(tmp_path, runs):
    with pytest.raises(UsageError, match="different worlds"):
        open_views([runs["frozen-lake"], runs["mini-maze"]])
    options = {"env_options": {"stochastic": True}}
    with pytest.raises(UsageError, match="different worlds"):
        open_views([runs["mini-maze"], untrained(tmp_path / "skids", "mini-maze", **options)])
    assert open_views([runs["mini-maze"], untrained(tmp_path / "starts", "mini-maze",
                                                    env_options={"random_starts": True})])  # fmt: skip
    her = untrained_run(tmp_path / "her", PEERS["her"](PRESETS["mini-maze"]()), "her/mini-maze")
    with pytest.raises(UsageError, match="has not learned how surely"):
        open_views([her])


def test_the_command_line_says_what_is_wrong(runs, capsys):
    def told(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(["explore", *arguments])
        return int(stop.value.code or 0), capsys.readouterr().err

    assert told("nowhere") == (2, "clearning: There is no run folder at nowhere.\n")
    code, error = told(str(runs["frozen-lake"]), "--port", "70000")
    assert (code, "0..65535" in error) == (2, True)
    with _listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ClearningError, match="Choose another with --port"):
            _listen("127.0.0.1", port)


def test_the_command_opens_the_browser_and_serves_until_ctrl_c(runs, tmp_path):
    browser, opened = tmp_path / "browser", tmp_path / "opened"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    run = str(runs["frozen-lake"])
    given = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "BROWSER": str(browser)}
    process = subprocess.Popen(
        [sys.executable, "-m", "clearning", "explore", run, "--port", "0", "--open"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | given,
    )
    try:
        assert process.stderr
        told = process.stderr.readline()
        found = re.fullmatch(r"Explore at (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\.\n", told)
        assert found, told
        url = found[1]
        world = httpx.get(f"{url}api/world", timeout=60).json()
        assert [r["name"] for r in world["runs"]] == [run]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert process.stderr.read() == ""
        assert opened.read_text() == f"{url}\n"
    finally:
        process.kill()
        process.communicate()


def test_without_the_extra_the_command_names_it(runs, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "clearning.explore.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert_refused(capsys, ["explore", str(runs["frozen-lake"])], 2, "pip install 'clearning[explore]'")


def test_a_heat_map_asks_the_network_once_and_compiles_nothing_anew(clients, views, monkeypatch, caplog):
    """What would make dragging the start slow; times themselves are for the benchmark."""
    view, asked = views["dubins-car"], []
    ask = type(view.agent).reach_curve
    monkeypatch.setattr(
        type(view.agent), "reach_curve", lambda agent, obs, goal: asked.append(goal) or ask(agent, obs, goal)
    )
    drag = lambda x: clients["dubins-car"].get("/api/heat", params={"start": f"{x},7.5,90"})  # noqa: E731
    assert drag(7.5).status_code == 200
    with jax.log_compiles(), caplog.at_level("WARNING"):
        jax.jit(lambda x: x + 1)(jnp.zeros(3))
        assert "Compiling" in caplog.text  # else the next line could not fail
        caplog.clear()
        assert [drag(x).status_code for x in (7.0, 6.5, 6.0)] == [200] * 3
        assert "Compiling" not in caplog.text
    assert [np.shape(goals) for goals in asked] == [view.lattice.goals.shape] * 4


def test_the_map_of_the_cat_has_its_risk(clients):
    told = clients["cat-and-mouse"].get("/api/world").json()
    (radius, percent), *_ = told["cat"]["rings"]
    assert 100 * float(risk(jnp.array([5.0 + radius, 5.0]))) == pytest.approx(percent)


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Two recorded episodes of an environment without a map."""
    settings = {"env": "point_goal:PointGoal-v0", "hidden": (16,), "max_horizon": HORIZONS, "processes": 1}
    config = replace_settings(gymnasium_defaults(), settings)
    return open_views([untrained_run(tmp_path_factory.mktemp("film") / "run", config)], episodes=2)[0]


def test_moments_are_what_the_agent_says_of_what_was_recorded(film):
    asked = client(film)
    told = asked.get("/api/world").json()["runs"][0]
    assert told["without_pictures"] == ""
    assert len(told["episodes"]) == 2
    for episode, (about, kept) in enumerate(zip(told["episodes"], film.films, strict=True)):
        assert about == {"steps": len(kept.observation) - 1, "reached": kept.reached}
        found = asked.get("/api/moments", params={"episode": episode, "alpha": 0.7}).json()
        curves = film.agent.reach_curve(kept.observation, kept.goal)
        np.testing.assert_allclose(found["curves"], curves, atol=1e-4)
        _, choice = film.agent.act(kept.observation, kept.goal, alpha=0.7, return_info=True)
        assert found["horizons"] == choice.horizon.tolist()
        pictures = [
            asked.get("/api/picture", params={"episode": episode, "moment": i})
            for i in range(about["steps"] + 1)
        ]
        assert all(p.headers["content-type"] == "image/jpeg" for p in pictures)
        assert len({p.content for p in pictures}) > 1
    assert "episodes.js" in asked.get("/").text


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("moments", {"episode": "0"}, "alpha takes numbers"),
        ("moments", {"episode": "0", "alpha": "2"}, "alpha must lie in (0, 1]"),
        ("moments", {"episode": "2", "alpha": "0.9"}, "episode must be a whole number in 0..1"),
        ("moments", {"run": "1", "alpha": "0.9"}, "run must be a whole number in 0..0"),
        ("picture", {"episode": "0", "moment": "99"}, "Episode 0 has no picture 99: its moments are 0.."),
        ("picture", {"episode": "0", "moment": "-1"}, "moment must be a whole number"),
        ("picture", {"frame": "0"}, "There is no parameter 'frame'"),
    ],
)
def test_bad_questions_about_episodes_are_refused(film, name, parameters, words):
    response = client(film).get(f"/api/{name}", params=parameters)
    assert (response.status_code, words in response.json()["error"]) == (400, True)
    assert client(film).get("/api/heat").status_code == 404  # there is no map


def test_episodes_of_other_worlds_do_not_go_together(tmp_path, film):
    other = replace_settings(film.agent.config, {"env_options": {"drawable": False}})
    with pytest.raises(UsageError, match="different worlds"):
        open_views([film.name, untrained_run(tmp_path / "other", other)])
    with pytest.raises(UsageError, match=r"--episodes must be in 1\.\.20, not 0"):
        open_views([film.name], episodes=0)
