"""The trained agent: shapes, answers, refusals, saving and loading."""

import subprocess
import sys
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import clearning
from clearning import Agent, ClearningError, UsageError
from clearning.config import Config
from clearning.envs import DubinsCar, FrozenLake
from clearning.files import named_arrays

S, G = [1.0, 0.0], [1.0, 6.0]


class FixedCurve:
    """A network whose logits are given: action a's curve rises at a horizon of its own."""

    def __init__(self, logits):
        self.logits = jnp.asarray(logits)

    def curve(self, observation, goal):
        return self.logits


def fixed_agent(probabilities: np.ndarray, spec=None) -> Agent:
    p = np.clip(probabilities, 1e-6, 1 - 1e-6)
    config = Config(env="frozen-lake", max_horizon=p.shape[1])
    return Agent(FixedCurve(np.log(p / (1 - p))), spec or FrozenLake().spec, config)


@pytest.fixture(scope="module")
def agent(tmp_path_factory) -> Agent:
    return clearning.train("frozen-lake", episodes=25, updates_per_episode=4, hidden=(16,), quiet=True)


# Risky action 0 is quick and fails half of the time; action 1 needs 4 steps and is sure.
RISKY_OR_SAFE = np.array([[0.5, 0.5, 0.5, 0.5, 0.5], [0.0, 0.0, 0.0, 0.96, 0.97], [0] * 5, [0] * 5])


def test_the_dial_trades_speed_for_reliability():
    agent = fixed_agent(RISKY_OR_SAFE)
    assert agent.act(S, G, alpha=0.4) == 0
    assert agent.act(S, G, alpha=0.9) == 1
    assert agent.act(S, G, horizon=2) == 0
    assert agent.act(S, G, horizon=4) == 1


def test_neighbouring_horizons_vote_on_the_action():
    noisy = np.zeros((4, 5))
    noisy[0] = [0.0, 0.5, 0.95, 0.5, 0.5]  # best at h = 3 by an error, worse on either side
    noisy[1] = [0.0, 0.8, 0.90, 0.9, 0.9]
    agent = fixed_agent(noisy)
    assert agent.act(S, G, alpha=0.97) == 0
    voting = Agent(agent.network, agent.spec, replace(agent.config, vote=1))
    assert voting.act(S, G, alpha=0.97) == 1
    assert voting.act(S, G, horizon=3) == 0  # a horizon that is asked for is taken at its word


def test_questions_about_time_and_certainty():
    agent = fixed_agent(RISKY_OR_SAFE)
    np.testing.assert_allclose(agent.reach_curve(S, G), [0.5, 0.5, 0.5, 0.96, 0.97], atol=1e-5)
    assert agent.reach_probability(S, G, 3) == pytest.approx(0.5, abs=1e-5)
    assert agent.min_horizon(S, G, 0.9) == 4
    assert agent.min_horizon(S, G, 0.4) == 1
    assert agent.min_horizon(S, G, 0.99) is None
    many = agent.min_horizon([S, S], G, 0.99)
    assert many.mask.all()


def test_one_state_goes_with_many_goals():
    agent = fixed_agent(RISKY_OR_SAFE)
    found = agent.reachable(S, [G, S, [4.0, 6.0]], 3, probability=0.6)
    assert found.tolist() == [False, True, False]  # the second is reached already
    assert agent.reachable(S, G, 4, probability=0.9) is True
    assert agent.reachable(np.tile(S, (2, 1, 1)), np.tile(G, (1, 3, 1)), 4).shape == (2, 3)


def test_curves_can_be_made_monotone():
    curve = np.array([[0.2, 0.6, 0.4, 0.8, 0.8]])
    agent = fixed_agent(np.repeat(curve, 4, axis=0))
    np.testing.assert_allclose(agent.reach_curve(S, G, monotone=True), [0.2, 0.5, 0.5, 0.8, 0.8], atol=1e-5)
    assert agent.reach_probability(S, G, 2, monotone=True) == pytest.approx(0.5, abs=1e-5)
    assert agent.min_horizon(S, G, 0.55) == 2
    assert agent.min_horizon(S, G, 0.55, monotone=True) == 4


def test_an_action_comes_with_its_horizon_and_probability():
    agent = fixed_agent(RISKY_OR_SAFE)
    action, info = agent.act(S, G, alpha=0.4, return_info=True)
    assert (action, info.horizon, info.abstained) == (0, 1, False)
    assert info.probability == pytest.approx(0.5, abs=1e-5)
    _, info = agent.act(S, G, alpha=0.9, return_info=True)
    assert info.horizon == 4
    actions, info = agent.act([S, S], G, horizon=[2, 5], return_info=True)
    assert actions.tolist() == [0, 1]
    np.testing.assert_allclose(info.probability, [0.5, 0.97], atol=1e-5)


def test_an_agent_abstains_from_what_it_holds_unreachable():
    agent = fixed_agent(RISKY_OR_SAFE)
    assert agent.act(S, G, abstain_below=0.96) == 1  # 0.97 within 5 steps
    assert agent.act(S, G, abstain_below=0.98) is None
    assert agent.act(S, G, horizon=3, abstain_below=0.6) is None
    some, info = agent.act([S, G], G, abstain_below=0.98, return_info=True)
    assert some.mask.tolist() == info.abstained.tolist() == [True, False]  # the second is there
    with pytest.raises(UsageError, match=r"abstain_below must lie in \(0, 1\]"):
        agent.act(S, G, abstain_below=2.0)


def test_an_episode_counts_its_horizon_down():
    episode = fixed_agent(RISKY_OR_SAFE).episode(G, horizon=4)
    assert [episode.act(S) for _ in range(4)] == [1, 0, 0, 0]
    with pytest.raises(UsageError, match="used up"):
        episode.act(S)
    assert fixed_agent(RISKY_OR_SAFE).episode(G).steps_left == 5
    with pytest.raises(UsageError, match=r"whole number in 1..5, not 6"):
        fixed_agent(RISKY_OR_SAFE).episode(G, 6)


def test_an_ensemble_tells_its_disagreement():
    agents = [fixed_agent(np.full((4, 3), p)) for p in (0.2, 0.4, 0.9)]
    together = clearning.Ensemble(agents)
    found = together.reach_probability(S, G, 2)
    assert found.probability == pytest.approx(0.5, abs=1e-5)
    assert found.disagreement == pytest.approx(np.std([0.2, 0.4, 0.9]), abs=1e-5)
    assert together.reach_curve([S, S], G).disagreement.shape == (2, 3)
    assert together.min_horizon(S, G, 0.45) == 1
    assert together.min_horizon(S, G, 0.6) is None
    assert together.min_horizon([S, G], G, 0.6).mask.tolist() == [True, False]
    assert together.reachable(S, [G, S], 2, 0.6).tolist() == [False, True]
    action, choice = together.act(S, G, return_info=True)
    assert (action, choice.horizon) == (agents[0].act(S, G), 1)
    assert choice.probability == pytest.approx(0.5, abs=1e-5)
    assert choice.disagreement == pytest.approx(found.disagreement)
    assert together.act(S, G, abstain_below=0.45) == action
    assert together.act(S, G, horizon=2, abstain_below=0.6) is None
    assert together.act([S, G], G, abstain_below=0.6).mask.tolist() == [True, False]
    with pytest.raises(UsageError, match="must share"):
        clearning.Ensemble([*agents, fixed_agent(RISKY_OR_SAFE)])
    with pytest.raises(UsageError, match="at least one"):
        clearning.Ensemble([])


def test_naive_q_has_probabilities_without_a_link():
    values = np.array([[-0.2, 0.3, 1.2]] * 4)
    config = Config(env="frozen-lake", max_horizon=3, method="naive-q", form="sampled-horizon")
    agent = Agent(FixedCurve(values), FrozenLake().spec, config)
    np.testing.assert_allclose(agent.reach_curve(S, G), [0.0, 0.3, 1.0], atol=1e-6)


def test_methods_without_probabilities_say_so():
    agent = Agent(FixedCurve(np.zeros((4, 1))), FrozenLake().spec, Config(method="td3", max_horizon=1))
    assert agent.act(S, G) == 0
    for ask in (lambda: agent.reach_curve(S, G), lambda: agent.act(S, G, return_info=True)):
        with pytest.raises(UsageError, match="has not learned how surely"):
            ask()


def test_large_batches_are_answered_in_chunks(agent, monkeypatch):
    rng = np.random.default_rng(0)
    s, g = rng.integers(0, 5, (2, 37, 2)).astype(float)
    h = rng.integers(1, 51, 37)
    ask = [
        lambda: agent.act(s, g),
        lambda: agent.act(s, g, horizon=h),
        lambda: agent.reach_probability(s, g, h),
        lambda: agent.reach_curve(s, g, monotone=True),
        lambda: agent.min_horizon(s, g, 0.3).filled(0),
    ]
    whole = [f() for f in ask]
    monkeypatch.setattr("clearning.agent.CHUNK", 10)
    for f, expected in zip(ask, whole, strict=True):
        np.testing.assert_allclose(f(), expected, rtol=1e-5)


def test_a_reached_goal_answers_one():
    agent = fixed_agent(np.full((4, 5), 0.1))
    assert agent.reach_probability(G, G, 1) == 1.0
    assert agent.reach_probability(S, G, 1) == pytest.approx(0.1, abs=1e-5)
    car = fixed_agent(np.full((7, 5), 0.1), DubinsCar().spec)
    pose = [3.0, 3.0, 1.0, 0.0]
    assert car.reach_probability(pose, [3.5, 2.5], 1) == 1.0
    assert car.reach_probability(pose, [3.51, 3.0], 1) == pytest.approx(0.1, abs=1e-5)


def test_shapes_for_one_example_and_batches(agent):
    assert isinstance(agent.act(S, G), int)
    assert isinstance(agent.reach_probability(S, G, 5), float)
    assert agent.act([S, G], G).shape == (2,)
    assert agent.act(np.tile(S, (3, 2, 1)), G).shape == (3, 2)
    assert agent.reach_probability(np.tile(S, (3, 1)), G, np.array([1, 2, 50])).shape == (3,)
    assert agent.reach_curve([S, S], G).shape == (2, 50)
    batch = agent.reach_probability(np.tile(S, (4, 1)), [[x, 6.0] for x in range(4)], 9)
    single = [agent.reach_probability(S, [x, 6.0], 9) for x in range(4)]
    np.testing.assert_allclose(batch, single, rtol=1e-4)


@pytest.mark.parametrize("lead", [(2, 3), (0,)])
def test_every_question_takes_any_leading_shape(agent, lead):
    s, g = np.broadcast_to(S, (*lead, len(S))), np.broadcast_to(G, (*lead, len(G)))
    action, choice = agent.act(s, g, abstain_below=0.5, return_info=True)
    answers = [action, *choice[:3], agent.act(s, g, horizon=3), agent.dialled_horizon(s, g, 0.5)]
    answers += [agent.reach_probability(s, g, 3), agent.reach_probability(s, g, 3, monotone=True)]
    answers += [agent.min_horizon(s, g, 0.9), agent.reachable(s, g, 3), agent.episode(G, 3).act(s)]
    assert [np.shape(x) for x in answers] == [lead] * len(answers)
    assert agent.reach_curve(s, g, monotone=True).shape == (*lead, agent.max_horizon)
    assert np.ma.isMaskedArray(agent.min_horizon(s, g, 0.9))  # where there is none, no number stands


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda a: a.act([1.0], G), "observation must have 2 numbers"),
        (lambda a: a.act(S, [1.0, 2.0, 3.0]), "goal must have 2 numbers"),
        (lambda a: a.act([np.nan, 0.0], G), "observation holds NaN"),
        (lambda a: a.act(S, [np.inf, 0.0]), "goal holds NaN or infinity"),
        (lambda a: a.act(S, G, horizon=0), r"whole number in 1..50, not 0"),
        (lambda a: a.act(S, G, horizon=51), r"whole number in 1..50, not 51"),
        (lambda a: a.act(S, G, horizon=2.5), r"whole number in 1..50, not 2.5"),
        (lambda a: a.act(S, G, alpha=0.0), r"alpha must lie in \(0, 1\], not 0.0"),
        (lambda a: a.act(S, G, alpha=1.5), r"alpha must lie in \(0, 1\], not 1.5"),
        (lambda a: a.act(S, G, horizon=3, alpha=0.5), "either a horizon or alpha"),
        (lambda a: a.act([S, S, S], [G, G]), "do not go together"),
        (lambda a: a.reach_probability(S, G, 0), r"whole number in 1..50"),
        (lambda a: a.reach_probability([S, S], G, [1, 2, 3]), "must match"),
        (lambda a: a.min_horizon(S, G, 0.0), "probability must lie"),
    ],
)
def test_bad_questions_get_a_clear_sentence(agent, call, words):
    with pytest.raises(UsageError, match=words):
        call(agent)


def test_saved_and_loaded_it_is_the_same(agent, tmp_path):
    agent.save(tmp_path / "a.safetensors")
    again = clearning.load(tmp_path / "a.safetensors")
    assert again.spec == agent.spec
    assert again.config == agent.config
    np.testing.assert_array_equal(again.reach_curve(S, G), agent.reach_curve(S, G))


def test_several_runs_load_as_an_ensemble(agent, tmp_path):
    agent.save(tmp_path / "a.safetensors")
    together = clearning.load([tmp_path / "a.safetensors"] * 2)
    assert together.reach_probability(S, G, 9).probability == pytest.approx(agent.reach_probability(S, G, 9))
    assert together.reach_probability(S, G, 9).disagreement == 0


def test_loading_needs_no_environment(agent, tmp_path):
    agent.save(tmp_path / "a.safetensors")
    program = (
        "import sys; import clearning.agent as m;"
        f"a = m.Agent.load(r'{tmp_path / 'a.safetensors'}'); print(a.act([1, 0], [1, 6]))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(found.stdout) == agent.act(S, G)


def test_damaged_files_are_refused(agent, tmp_path):
    path = tmp_path / "a.safetensors"
    agent.save(path)
    whole = path.read_bytes()
    for damaged in (b"", whole[:7], whole[: len(whole) // 2], whole[:-1], b"x" * 100):
        path.write_bytes(damaged)
        with pytest.raises(ClearningError, match="truncated, damaged or not a clearning file"):
            clearning.load(path)
    flipped = bytearray(whole)
    flipped[-10] ^= 1  # inside the weights, where the format itself would not notice
    path.write_bytes(bytes(flipped))
    with pytest.raises(ClearningError, match="truncated, damaged"):
        clearning.load(path)
    with pytest.raises(ClearningError, match="There is no file"):
        clearning.load(tmp_path / "none.safetensors")


def test_weights_that_do_not_fit_are_named(agent, tmp_path):
    wider = clearning.Agent(agent.network, agent.spec, clearning.Config(env="frozen-lake", hidden=(17,)))
    wider.save(tmp_path / "a.safetensors")
    with pytest.raises(ClearningError, match=r"does not fit its config: '.*' should be"):
        clearning.load(tmp_path / "a.safetensors")


def test_custom_networks_train_save_and_load(tmp_path):
    from clearning.networks.inputs import Inputs
    from clearning.networks.layers import MLP
    from clearning.networks.numbered import AllHorizons

    def tiny(spec, config, key):
        inputs = Inputs(spec, "scaled")
        shape = (spec.num_actions, config.max_horizon)
        return AllHorizons(inputs, MLP((inputs.size(), 8, shape[0] * shape[1]), False, key), shape)

    agent = clearning.train(
        "frozen-lake", network=tiny, episodes=17, updates_per_episode=2, out=tmp_path / "run", quiet=True
    )
    assert named_arrays(agent.network)["mlp.layers[0].weight"].shape == (8, 4)
    with pytest.raises(UsageError, match="custom network"):
        clearning.load(tmp_path / "run")
    again = clearning.load(tmp_path / "run", network=tiny)
    np.testing.assert_array_equal(again.reach_curve(S, G), agent.reach_curve(S, G))
