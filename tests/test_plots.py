"""Figures: that they are written, and that they show what the agent says and what is true."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure

import clearning
from clearning import UsageError, plots
from clearning.agent import Agent
from clearning.config import Config, replace_settings
from clearning.envs import CatAndMouse, DubinsCar, FrozenLake, MiniMaze, cat_and_mouse, frozen_lake, search
from clearning.envs.search import NEVER, fewest_steps
from clearning.errors import ClearningError
from clearning.evaluate import exact_c, run_episodes, run_horizons
from clearning.networks import build_network
from clearning.plots import learning
from clearning.plots.style import title_of
from clearning.presets import gymnasium_defaults, preset
from clearning.rollout import Dial
from clearning.runs import RunFolder, run_folders

TINY = {"episodes": 20, "hidden": (8,), "updates_per_episode": 4, "batch_size": 32}
# With four headings the car meets so few states that a search takes a moment.
CAR_OPTIONS = {"turn_degrees": 90.0}
CAR = DubinsCar(**CAR_OPTIONS)
OF_ALL = {"learning_curves", "heat_maps", "horizon_curve"}


@pytest.fixture(scope="module", autouse=True)
def cheap():
    """A coarse search for the car, and quick compilations: most of these tests' time went there."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "CELL", 0.25)
        patch.setattr(search, "CHUNK", 2048)
        search._car_steps.cache_clear()
        yield
    search._car_steps.cache_clear()  # other tests' searches are fine ones
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One tiny run of each environment: the frozen lake's is trained, the others hold what a run would."""
    root = tmp_path_factory.mktemp("runs")
    clearning.train("frozen-lake", out=root / "frozen-lake", quiet=True, **TINY)
    untrained_run(root / "mini-maze", MiniMaze())
    untrained_run(root / "dubins-car", CAR, env_options=CAR_OPTIONS)
    return {name: root / name for name in ("frozen-lake", "mini-maze", "dubins-car")}


def untrained_run(path: Path, env, **settings) -> None:
    """A run folder whose agent has learned nothing: figures need no training, which takes long to compile."""
    config = replace_settings(preset(env.spec.name), TINY | settings)
    run = RunFolder(path)
    run.create(config, 0, env.spec.name, {"custom_env": False, "custom_network": False})
    for steps, success in ((400, 0.1), (800, 0.3)):
        append_row(run, steps, success, train_success=success)
    Agent(build_network(env.spec, config, jax.random.key(0)), env.spec, config).save(run.agent_file)


def append_row(run, steps, success, **more):
    counts = {"episodes": steps // 20, "env_steps": steps, "updates": steps}
    run.append_metrics({**counts, "eval_success": success, "eval_steps": 20.0, **more})


class Known:
    """An agent that answers from a function (state, goals) -> probabilities (goals, H), with 30 horizons."""

    max_horizon = 30
    config = SimpleNamespace(skip_ruled_out=False)

    def __init__(self, curve):
        self.reach_curve = curve

    def reach_probability(self, state, goal, horizon):
        curve = self.reach_curve(state, np.atleast_2d(goal))[:, horizon - 1]
        return curve if np.ndim(goal) > 1 else float(curve[0])


class Optimal(Known):
    """The best policy on the frozen lake, by dynamic programming."""

    def __init__(self, env: FrozenLake):
        self.exact = exact_c(env, self.max_horizon)
        self.number = {tuple(c): i for i, c in enumerate(env.cells.tolist())}
        super().__init__(lambda s, g: self.exact[:, self._at(s)].max(1)[:, [self._at(x) for x in g]].T)

    def act(self, state, goal, horizon):
        return int(self.exact[horizon - 1, self._at(state), :, self._at(goal)].argmax())

    def _at(self, cell) -> int:
        return self.number[tuple(np.asarray(cell, int).tolist())]


def says(value: float) -> Known:
    return Known(lambda state, goals: np.full((len(goals), Known.max_horizon), value))


def knows_the_way(env) -> Known:
    """Certain from the fewest steps on, as is right where nothing is left to chance."""

    def curve(state, goals):
        steps = fewest_steps(env, state, goals)[:, None]
        return ((steps != NEVER) & (steps <= np.arange(1, Known.max_horizon + 1))).astype(float)

    return Known(curve)


def images(figure: Figure) -> list[np.ma.MaskedArray]:
    return [ax.images[0].get_array() for ax in figure.axes if ax.images]


# Whole runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "own"),
    [("frozen-lake", "policy_by_horizon"), ("mini-maze", "trajectories"), ("dubins-car", "trajectories")],
)
def test_figures_are_written(runs, name, own):
    paths = plots.plot_run(runs[name], None)
    assert {p.stem for p in paths} == OF_ALL | {own}
    for path in paths:
        assert path.parent == runs[name] / "figures"
        header = path.read_bytes()[:24]
        assert header[1:4] == b"PNG"
        assert int.from_bytes(header[16:20], "big") >= 4 * plots.DPI  # at least four inches wide


def copy_run(source: Path, target: Path, **record) -> Path:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("figures"))
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | record))
    return target


@pytest.mark.parametrize("what", ["custom_env", "custom_network"])
def test_a_custom_run_gets_the_learning_curve(runs, tmp_path, what):
    run = copy_run(runs["frozen-lake"], tmp_path / "run", **{what: True})
    assert plots.plot_run(run, tmp_path / "out") == [tmp_path / "out" / "learning_curves.png"]


def test_a_run_without_an_agent_yet_gets_the_learning_curve(runs, tmp_path):
    run = copy_run(runs["frozen-lake"], tmp_path / "run")
    (run / "agent.safetensors").unlink()
    assert [p.stem for p in plots.plot_run(run)] == ["learning_curves"]


def test_seeds_share_a_learning_curve(runs, tmp_path):
    rows = {"seed-0": [(100, 0.2), (200, 0.6)], "seed-1": [(120, 0.4), (180, 0.8), (300, 1.0)]}
    for seed, points in rows.items():
        run = RunFolder(copy_run(runs["mini-maze"], tmp_path / "maze" / seed))
        run.metrics_file.unlink()
        for steps, success in points:
            append_row(run, steps, success)
    figure = plots.learning_curves(run_folders(tmp_path / "maze"))
    left, right = figure.axes
    lines = {line.get_label(): line for line in left.lines}
    x, y = lines["test, mean"].get_data()
    assert (x[0], x[-1]) == (120, 200)  # where both seeds have been
    assert y[0] == pytest.approx(100 * (0.28 + 0.4) / 2)
    assert y[-1] == pytest.approx(100 * (0.6 + 0.8 + 0.2 * 20 / 120) / 2)
    assert "paper's final, its 483 goals" in lines
    assert lines["paper's final, its 483 goals"].get_ydata()[0] == pytest.approx(86.89)
    optimum = next(line for line in right.lines if str(line.get_label()).startswith("optimum"))
    assert optimum.get_ydata()[0] == pytest.approx(14.71, abs=0.05)
    assert any("bootstrap" in str(c.get_label()) for c in left.collections)


def test_the_papers_figure_is_for_the_papers_world_only():
    assert learning._paper_success(Config(env="dubins-car"), DubinsCar(any_goal=True)) == pytest.approx(86.15)
    assert learning._paper_success(Config(env="dubins-car"), DubinsCar(walls=False)) is None
    assert learning._paper_success(Config(env="mini-maze"), MiniMaze(stochastic=True)) is None
    assert learning._paper_success(Config(env="frozen-lake"), FrozenLake()) is None


def test_bootstrap_interval_holds_the_mean_and_shrinks_with_agreement():
    values = np.array([[0.0, 0.5], [1.0, 0.5], [0.5, 0.5], [0.2, 0.5]])
    low, high = learning._bootstrap(values)
    assert 0 <= low[0] < values[:, 0].mean() < high[0] <= 1
    assert low[1] == pytest.approx(0.5)
    assert high[1] == pytest.approx(0.5)


# Bad input -----------------------------------------------------------------------------------------


def test_bad_input_is_refused(runs, tmp_path):
    with pytest.raises(UsageError, match="no run folder"):
        plots.plot_run(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds none"):
        plots.plot_run(tmp_path)
    with pytest.raises(UsageError, match="one by one"):
        plots.plot_run(runs["frozen-lake"].parent)
    with pytest.raises(UsageError, match="no runs"):
        plots.learning_curves([])
    with pytest.raises(UsageError, match="frozen lake, not mini-maze"):
        plots.policy_by_horizon(says(0.5), MiniMaze())
    with pytest.raises(UsageError, match="no map of object"):
        plots.heat_maps(says(0.5), object())
    with pytest.raises(UsageError, match="at least 1"):
        plots.reachability_overlap(says(0.5), FrozenLake(), [0, 5])


def test_a_run_without_metrics_says_so(runs, tmp_path):
    run = copy_run(runs["frozen-lake"], tmp_path / "run")
    (run / "metrics.csv").unlink()
    with pytest.raises(ClearningError, match="no metrics yet"):
        plots.plot_run(run)


def test_a_place_that_cannot_be_written_to_says_so(runs, tmp_path):
    run = copy_run(runs["frozen-lake"], tmp_path / "run", custom_env=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ClearningError, match="Could not write"):
        plots.plot_run(run, tmp_path / "file" / "figures")


# The policy by horizon -----------------------------------------------------------------------------


def test_the_optimal_way_runs_between_the_holes_when_time_is_short():
    env = FrozenLake()
    agent, start, goal = Optimal(env), frozen_lake.START, frozen_lake.FAR_GOAL
    short = plots.most_likely_way(agent, env, start, goal, 6)
    np.testing.assert_array_equal(short, [(1, y) for y in range(7)])
    long = plots.most_likely_way(agent, env, start, goal, 24)
    np.testing.assert_array_equal(long[1], (2, 0))
    np.testing.assert_array_equal(long[-1], goal)
    assert long[:, 0].max() == 4
    assert not frozen_lake.HOLES[tuple(long.astype(int).T)].any()


def test_a_way_ends_with_its_horizon():
    env = FrozenLake()
    way = plots.most_likely_way(Optimal(env), env, frozen_lake.START, frozen_lake.FAR_GOAL, 3)
    assert len(way) == 4


def test_titles_tell_the_learned_and_the_optimal_probability():
    figure = plots.policy_by_horizon(Optimal(FrozenLake()), FrozenLake())
    titles = [ax.get_title() for ax in figure.axes]
    assert [t.split("\n")[0] for t in titles] == ["h = 6", "h = 12", "h = 16", "h = 24"]
    assert titles[0].endswith("learned 0.26\noptimal 0.26")
    assert titles[3].endswith("learned 0.99\noptimal 0.99")


def test_many_ways_over_the_lake_are_shown_in_rows():
    env = FrozenLake()
    figure = plots.compare_lake_ways([(str(h), Optimal(env), h) for h in range(6, 13)], env)
    shown = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in shown] == [str(h) for h in range(6, 13)]
    assert len({ax.get_subplotspec().rowspan.start for ax in shown}) == 2


# Heat maps -----------------------------------------------------------------------------------------


def test_overlap_of_one_who_knows_and_one_who_denies():
    assert plots.reachability_overlap(knows_the_way(CAR), CAR, [3, 7, 15]) == {3: 1.0, 7: 1.0, 15: 1.0}
    assert plots.reachability_overlap(says(0.0), CAR, [3, 7]) == {3: 0.0, 7: 0.0}
    everywhere = plots.reachability_overlap(says(1.0), CAR, [3, 7, 15])
    assert 0 < everywhere[3] < everywhere[7] < everywhere[15] < 1
    assert plots.reachable_share(CAR, [3, 7, 15]) == pytest.approx(everywhere)
    assert plots.reachability_overlap(Optimal(FrozenLake()), FrozenLake(), [6, 24]) == {6: 1.0, 24: 1.0}
    assert plots.reachability_overlap(knows_the_way(MiniMaze()), MiniMaze(), [9]) == {9: 1.0}


def test_overlap_counts_free_goals_in_the_whole_box():
    goals = plots.goals_of(CAR)
    assert len(plots.goals_of(DubinsCar(walls=False))) == 61 * 61
    assert not np.asarray(CAR.is_blocked(goals)).any()
    steps = fewest_steps(CAR, np.array([0, 0, 1, 0]), goals)
    assert (steps != NEVER).all()
    assert plots.reachability_overlap(says(1.0), CAR, [7])[7] == pytest.approx((steps <= 7).mean())


def test_the_reachability_world_is_seen_from_the_centre():
    env = DubinsCar(walls=False, turn_degrees=5.0, random_starts=True, any_goal=True)
    np.testing.assert_array_equal(plots.viewpoint(env), [7.5, 7.5, 1, 0])
    np.testing.assert_array_equal(plots.viewpoint(DubinsCar()), [0, 0, 1, 0])
    np.testing.assert_array_equal(plots.viewpoint(MiniMaze()), [6, 6])


def test_heat_maps_show_what_the_agent_says(runs):
    agent, state = clearning.load(runs["frozen-lake"]), np.array(frozen_lake.START, np.float32)
    shown = images(plots.heat_maps(agent, FrozenLake(), [5, 20]))
    assert len(shown) == 4
    exact = exact_c(FrozenLake(), 20)
    number = {tuple(c): i for i, c in enumerate(FrozenLake().cells.tolist())}
    for x, y in [(1, 6), (4, 2), (0, 3)]:
        for i, h in enumerate((5, 20)):
            assert shown[i][y, x] == pytest.approx(agent.reach_probability(state, [x, y], h), abs=1e-6)
            true = exact[h - 1, number[frozen_lake.START], :, number[x, y]].max()
            assert shown[2 + i][y, x] == pytest.approx(true)


def test_the_cars_heat_maps_show_what_the_agent_says(runs):
    agent = clearning.load(runs["dubins-car"])
    figure = plots.heat_maps(agent, CAR, [7, 15])
    shown = images(figure)[:2]  # the colour bar comes after
    for picture, h in zip(shown, (7, 15), strict=True):
        assert picture.shape == (61, 61)
        said = agent.reach_probability([0, 0, 1, 0], [2, 12], h)
        assert picture[4 * 12, 4 * 2] == pytest.approx(said, abs=1e-6)
        assert picture.mask[4 * 3, 4 * 5]  # inside a wall
        assert not picture.mask[4 * 8, 4 * 5]  # in the gap between two
    overlap = plots.reachability_overlap(agent, CAR, [7, 15])
    for ax, h in zip(figure.axes, (7, 15), strict=False):
        assert ax.get_title().startswith(f"h = {h}, IoU = {overlap[h]:.2f}\n")


def test_what_memory_held_before_does_not_show_in_a_heat_map():
    pieces = [np.full((61, 61), 1e308) for _ in range(100)]
    del pieces  # memory of a picture's size is free now, and still full of it
    picture = images(plots.heat_maps(says(0.4), CAR, [7]))[0]
    assert picture.mask.any()
    assert not picture.data[picture.mask].any()


def test_horizons_beyond_an_agents_sight_are_left_out():
    assert set(plots.reachability_overlap(says(0.0), FrozenLake(), [6, 40])) == {6}
    assert set(plots.reachability_overlap(says(0.0), FrozenLake(), [40])) == {30}


# Curves and trajectories ---------------------------------------------------------------------------


def test_the_curve_of_one_who_knows_lies_on_the_truth():
    figure = plots.horizon_curve(knows_the_way(MiniMaze()), MiniMaze())
    lines = [line for line in figure.axes[0].lines if len(line.get_xdata()) == Known.max_horizon]
    marks = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert len(lines) == 6
    assert len(marks) == 3
    for learned, true in zip(lines[::2], lines[1::2], strict=True):
        np.testing.assert_array_equal(learned.get_ydata(), true.get_ydata())
    near = lines[0].get_ydata()
    assert marks[0].get_xdata()[0] == 1 + int(np.argmax(near == 1))  # h_α is where certainty begins


def test_goals_are_spread_out():
    goals = MiniMaze().test_set().goal
    chosen = plots.spread_out(goals, np.array([6.0, 6.0]), 12)
    assert len(np.unique(chosen, axis=0)) == 12
    between = np.abs(chosen[:, None] - chosen).max(-1) + 99 * np.eye(12)
    assert between.min() >= 4
    assert len(plots.spread_out(goals[:5], np.array([6.0, 6.0]), 12)) == 5


# Cat and mouse, and Gymnasium ----------------------------------------------------------------------


class AroundTheCat:
    """Straight at the goal when in a hurry, past the cat's north when there is time."""

    def curve(self, observation, goal):
        hurry = jnp.arange(1, 25) < 14
        return jnp.stack([jnp.where(hurry, 2.0, 0.0), jnp.where(hurry, 0.0, 2.0)])

    def propose(self, observation, goal, index, horizon):
        over = jnp.where(observation[0] < 7.0, jnp.array([5.0 + 2.5, 9.5]), goal)
        toward = jnp.where(index == 0, goal, over) - observation
        return toward / jnp.maximum(jnp.linalg.norm(toward), 1.0)


def test_the_way_past_the_cat_widens_with_time():
    config = SimpleNamespace(method="c-learning", alpha=0.9, vote=0, skip_ruled_out=False)
    curve = lambda s, g: np.linspace(0.0, 1.0, 24)  # noqa: E731
    agent = SimpleNamespace(network=AroundTheCat(), max_horizon=24, config=config)
    agent.knows_c, agent.reach_curve = True, curve
    figure = plots.ways_past_the_cat(agent, CatAndMouse(), horizons=(5, 24, 40), rollouts=60)
    left, above, below = figure.axes
    lines = {line.get_label(): line.get_ydata() for line in above.lines}
    best = 100 * cat_and_mouse.exact_success(cat_and_mouse.START, cat_and_mouse.GOAL, 24)
    np.testing.assert_allclose(lines["exact optimum"], best)
    assert (lines["success"][:4] == 0).all()
    assert (lines["success"] <= best + 25).all()  # 60 rollouts: four standard errors
    horizons, nearest = below.lines[0].get_data()
    assert horizons[0] == 5
    assert nearest[0] < 1.0
    assert len([line for line in left.lines if len(line.get_xdata()) > 2]) >= 3
    with pytest.raises(UsageError, match="cat-and-mouse, not mini-maze"):
        plots.ways_past_the_cat(agent, MiniMaze())


def test_a_policy_without_a_horizon_has_one_way_past_the_cat():
    config = replace_settings(preset("td3/cat-and-mouse"), {"hidden": (4,)})
    network = build_network(CatAndMouse().spec, config, jax.random.key(0))
    figure = plots.ways_past_the_cat(Agent(network, CatAndMouse().spec, config), CatAndMouse(), rollouts=20)
    left, above, _ = figure.axes
    assert len([line for line in left.lines if len(line.get_xdata()) > 2]) <= 3
    labels = {line.get_label() for line in above.lines}
    assert "success" in labels
    assert "C at the start" not in labels


def test_many_horizons_run_as_each_alone_would():
    env, network = CatAndMouse(), AroundTheCat()
    start, goal = np.tile(np.float32([1, 5, 0]), (40, 1)), np.tile(np.float32([9, 5]), (40, 1))
    many = dict(zip((8, 20), run_horizons(network, env, 3, start, goal, (8, 20)), strict=True))
    for h, found in many.items():
        alone = run_episodes(network, env, Config(), Dial(horizon=h), 3, start, goal)
        np.testing.assert_array_equal(found.success, alone.success)
        np.testing.assert_array_equal(found.length, alone.length)
        np.testing.assert_array_equal(found.dead, alone.dead)


def test_episodes_go_in_portions_where_many_actions_are_proposed(monkeypatch):
    env, network = CatAndMouse(), AroundTheCat()
    start, goal = np.tile(np.float32([1, 5, 0]), (10, 1)), np.tile(np.float32([9, 5]), (10, 1))
    start[:, 1] += 0.1 * np.arange(10)
    (whole,) = run_horizons(network, env, 3, start, goal, (20,))
    monkeypatch.setattr("clearning.evaluate.ROWS", 4 * len(network.curve(start[0], goal[0])))
    (portions,) = run_horizons(network, env, 3, start, goal, (20,))
    assert portions.achieved.shape == whole.achieved.shape
    # Ways are certain, how far they come is not: the first portion has the same luck, others their own.
    np.testing.assert_array_equal(portions.length[:4], whole.length[:4])
    np.testing.assert_array_equal(portions.achieved[:, :2], whole.achieved[:, :2])


def test_worlds_are_called_by_their_names():
    assert title_of(MiniMaze()) == "Mini maze"
    assert title_of(MiniMaze(stochastic=True)) == "Mini maze, stochastic"


def test_a_gymnasium_run_gets_the_learning_curve(tmp_path, monkeypatch):
    run = RunFolder(tmp_path / "run")
    config = replace_settings(gymnasium_defaults(), {"env": "FetchReach-v4"})
    run.create(config, 0, "fetch-reach", {"custom_env": False, "custom_network": False})
    for steps, success in ((400, 0.1), (800, 0.3)):
        append_row(run, steps, success)
    run.agent_file.write_bytes(b"")
    assert [p.stem for p in plots.plot_run(run.path)] == ["learning_curves"]
    rows = run.metrics() | {"eval_held": np.array([0.05, 0.2])}
    monkeypatch.setattr(RunFolder, "metrics", lambda self: rows)
    left = plots.learning_curves([run]).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in left.lines}
    np.testing.assert_allclose(lines["test, at any step"], [10, 30])
    np.testing.assert_allclose(lines["test, at the last step"], [5, 20])
