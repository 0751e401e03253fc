"""The page of `clearning explore` in a real browser: what a person does there, and what is then seen."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

pytest.importorskip("playwright")
pytest.importorskip("uvicorn")
import uvicorn
from conftest import untrained_run
from playwright.sync_api import Browser, Page, expect, sync_playwright

from clearning.config import replace_settings
from clearning.explore.server import _listen, build_app
from clearning.explore.views import open_views
from clearning.presets import PRESETS, gymnasium_defaults

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = "<img src=x onerror=alert(1)> & 'run'"
PATIENCE = 60_000  # milliseconds: whatever else runs on the machine slows everything
TINY = {"hidden": (8,), "max_horizon": 6}
POINT = {"env": "point_goal:PointGoal-v0", "processes": 1, "max_episode_steps": 5}

pytestmark = pytest.mark.skipif(
    not CHROMIUM, reason="needs a chromium on the PATH, which pip does not install"
)


def untrained(folder: Path, settings: dict, preset: str | None = None, seed: int = 0) -> Path:
    config = PRESETS[preset]() if preset else gymnasium_defaults()
    return untrained_run(folder, replace_settings(config, TINY | settings), preset, seed)


@contextmanager
def served(*runs: Path) -> Iterator[str]:
    views = open_views(runs, 2)
    listening = _listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(build_app(views), log_level="warning", lifespan="off"))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@pytest.fixture(scope="module")
def lakes(tmp_path_factory) -> Iterator[str]:
    """Two untrained agents on frozen lake, side by side."""
    parent = tmp_path_factory.mktemp("lakes")
    runs = [untrained(parent / name, {}, "frozen-lake", seed) for seed, name in enumerate((HOSTILE, "other"))]
    with served(*runs) as url:
        yield url


@pytest.fixture(scope="module")
def car(tmp_path_factory) -> Iterator[str]:
    with served(untrained(tmp_path_factory.mktemp("car") / "run", {}, "dubins-car")) as url:
        yield url


@pytest.fixture(scope="module")
def film(tmp_path_factory) -> Iterator[str]:
    """Recorded episodes of an environment without a map."""
    with served(untrained(tmp_path_factory.mktemp("film") / "run", POINT)) as url:
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own, on which nothing may go wrong unseen."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(PATIENCE)
    expect.set_options(timeout=PATIENCE)
    opened, wrong = context.new_page(), []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("dialog", lambda dialog: wrong.append(dialog.message))
    yield opened
    context.close()
    assert wrong == []


def opened(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator(".readout")).not_to_have_count(0)  # `all` does not wait for the first
    for readout in page.locator(".readout").all():
        expect(readout).not_to_be_empty()
    return page


def slide(page: Page, control: str, value: float) -> None:
    page.locator(f"#{control}").fill(str(value))  # as dragging does, it sends one input event


def colours(page: Page, panel: int = 0) -> str:
    """All pixels of a panel's heat map or picture."""
    canvas = page.locator(".map canvas, .screen canvas").nth(panel)
    return canvas.evaluate("node => node.toDataURL()")


def drag(page: Page, grip: str, cells: tuple[float, float]) -> None:
    """Drag the middle of something by so many of the map's units."""
    box = page.locator(grip).first.bounding_box()
    scale = page.locator(".map svg").first.evaluate("node => node.getScreenCTM().a")
    assert box
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + scale * cells[0], y - scale * cells[1], steps=3)
    page.mouse.up()


def test_two_runs_are_shown_side_by_side_under_their_own_names(page, lakes):
    opened(page, lakes)
    names = page.locator(".panel h2").all_text_contents()
    assert [HOSTILE in names[0], "other" in names[1]] == [True, True]
    assert page.locator("img").count() == 0  # a name is text, whatever it holds
    assert colours(page, 0) != colours(page, 1)
    left, right = (page.locator(".panel").nth(i).bounding_box() for i in (0, 1))
    assert left
    assert right
    assert (left["y"], left["x"] + left["width"] <= right["x"]) == (right["y"], True)


def test_sliding_h_changes_both_pictures_and_the_answers(page, lakes):
    opened(page, lakes)
    before = [colours(page, i) for i in (0, 1)]
    slide(page, "horizon", 5)
    for readout in page.locator(".readout").all():
        expect(readout).to_contain_text("within 5 steps")
    assert all(old != colours(page, i) for i, old in enumerate(before))
    page.locator("#horizon").press("ArrowRight")
    expect(page.locator(".readout").first).to_contain_text("within 6 steps")


def test_a_click_sets_the_goal_and_a_drag_the_start(page, lakes):
    opened(page, lakes)
    start, goal = page.locator("g.start").first, page.locator("g.goal").first
    expect(start).to_have_attribute("aria-label", re.compile("^Start at 1, 0"))
    before = colours(page)
    drag(page, "g.start circle.body", (2, 1))
    expect(start).to_have_attribute("aria-label", re.compile("^Start at 3, 1"))
    page.wait_for_function(
        "before => document.querySelector('.map canvas').toDataURL() !== before", arg=before
    )
    drag(page, "g.start circle.body", (0, 0))  # a click on the start moves nothing
    expect(start).to_have_attribute("aria-label", re.compile("^Start at 3, 1"))
    box = page.locator(".map svg").first.bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(goal).to_have_attribute("aria-label", re.compile("^Goal at 2, 3"))
    expect(page.locator(".readout").first).to_contain_text("Goal 2, 3")


def test_everything_can_be_done_by_keyboard(page, lakes):
    opened(page, lakes)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate("document.activeElement.id || document.activeElement.getAttribute('class')")
        )
    wanted = {"horizon", "start", "goal", "alpha", "outline", "measure", "again", "link", "reset"}
    assert wanted <= reached
    page.locator("g.goal").first.focus()
    label = page.locator("g.goal").first.get_attribute("aria-label")
    page.keyboard.press("ArrowDown")
    expect(page.locator("g.goal").first).not_to_have_attribute("aria-label", label or "")


def test_the_true_answer_and_success_by_rollouts(page, lakes):
    opened(page, lakes)
    slide(page, "horizon", 6)
    assert page.locator(".outline").count() == 0
    page.locator("#outline").check()
    expect(page.locator(".readout").first).to_contain_text("truly 26 %")  # 0.8 to the sixth
    expect(page.locator("path.outline")).to_have_count(2)
    expect(page.locator("path.true")).to_have_count(2)
    learned = colours(page)
    page.get_by_label("true", exact=True).check()
    page.wait_for_function("old => document.querySelector('.map canvas').toDataURL() !== old", arg=learned)
    page.locator("#measure").click()
    for told in page.locator(".measured").all():
        expect(told).to_contain_text(re.compile(r"Arrives in [\d.]+ % of 1000 tries"))
    slide(page, "alpha", 0.5)
    expect(page.locator(".measured").first).to_be_hidden()  # it was measured for another dial


def test_a_link_opens_exactly_the_same_view(page, lakes, browser):
    opened(page, lakes)
    slide(page, "horizon", 3)
    slide(page, "alpha", 0.35)
    page.locator("#outline").check()
    page.get_by_label("steps allowed h").check()
    drag(page, "g.start circle.body", (1, 0))
    expect(page.locator(".readout").first).to_contain_text("truly")
    page.locator("#link").click()
    expect(page.locator("#link")).not_to_have_text("Copy link")
    context = browser.new_context()
    other = opened(context.new_page(), page.url)
    expect(other.locator(".readout").first).to_have_text(page.locator(".readout").first.text_content() or "")
    assert other.locator("g.start").first.get_attribute("aria-label") == "Start at 2, 0; arrow keys move it"
    assert (other.locator("#horizon").input_value(), other.locator("#alpha").input_value()) == ("3", "0.35")
    context.close()


def test_the_car_is_turned_by_its_knob_and_by_keys(page, car):
    opened(page, car)
    drag(page, "g.start path", (4, 4))
    heading = page.locator("#heading-value")
    expect(heading).to_have_text("0°")
    drag(page, ".knob", (-1.15, 1.15))  # from its nose to above it
    expect(heading).to_have_text("90°")
    page.locator("g.start").focus()
    page.keyboard.press(",")
    expect(heading).to_have_text("100°")


@pytest.mark.parametrize("world", ["lakes", "car", "film"])
def test_a_phone_shows_all_of_it_without_scrolling_sideways(page, world, request):
    page.set_viewport_size({"width": 360, "height": 740})
    opened(page, request.getfixturevalue(world))
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 360
    for control in page.locator("button:visible, select:visible").all():
        box = control.bounding_box()
        assert box
        assert box["height"] >= 40  # a finger's width


def test_episodes_are_seen_moment_by_moment(page, film):
    opened(page, film)
    expect(page.locator(".readout")).to_contain_text("After 0 steps")
    before, curve = colours(page), page.locator(".over-h path.learned").get_attribute("d")
    slide(page, "moment", 2)
    expect(page.locator(".readout")).to_contain_text("After 2 steps")
    page.wait_for_function("old => document.querySelector('.screen canvas').toDataURL() !== old", arg=before)
    assert page.locator(".over-h path.learned").get_attribute("d") != curve
    slide(page, "alpha", 0.05)
    expect(page.locator(".readout")).to_contain_text("Caution 0.05")
    page.locator("#episode").select_option("1")
    expect(page.locator("#moment")).to_have_value("0")
    slide(page, "moment", 5)
    expect(page.locator(".readout")).to_contain_text("The episode ended after 5 steps")
    page.locator("#link").click()
    expect(page).to_have_url(re.compile("#episode=1&moment=5&h=1&alpha=0.05$"))
    page.locator("#play").click()  # from the end it begins again
    expect(page.locator("#play")).to_have_text("Pause")
    expect(page.locator(".readout")).to_contain_text("The episode ended after 5 steps")
    expect(page.locator("#play")).to_have_text("Play")


def test_what_cannot_be_drawn_is_told_and_the_curves_are_there(page, tmp_path):
    blind = untrained(tmp_path / "blind", POINT | {"env_options": {"drawable": False}})
    with served(blind) as url:
        opened(page, url)
        expect(page.locator(".blank")).to_contain_text("No pictures: point_goal:PointGoal-v0 cannot be drawn")
        slide(page, "moment", 1)
        expect(page.locator(".readout")).to_contain_text("After 1 step")
        assert page.locator(".screen canvas").is_hidden()
