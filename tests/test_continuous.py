"""The learner for continuous actions: targets and losses by hand, heads, statistics of inputs, peers."""

from dataclasses import replace
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from clearning.agents.continuous import (
    actor_loss,
    critic_loss,
    example_target,
    objective,
    start,
    update,
)
from clearning.agents.learner import Pace
from clearning.config import Config
from clearning.core.recursions import C_RULE, NAIVE_RULE, TDM_RULE, cost_rule, rule_for, steps_to_go
from clearning.envs import CatAndMouse
from clearning.networks import build_network, with_statistics
from clearning.networks.actor_critic import HeadsActorCritic, spread_actions
from clearning.networks.inputs import NormalisedInputs
from clearning.types import Batch, EnvSpec, Episodes, Method

SPEC = EnvSpec(
    name="probe",
    observation_low=(-1.0, -1.0),
    observation_high=(1.0, 1.0),
    goal_low=(-1.0,),
    goal_high=(1.0,),
    action_names=(),
    max_episode_steps=5,
    achieved_at=(1,),
    action_low=(-1.0,),
    action_high=(1.0,),
)
CONFIG = Config(hidden=(16, 16), max_horizon=4, features="normalised", batch_size=8)
FORMS = ["all-horizons", "sampled-horizon"]


class Stub(eqx.Module):
    """Logits and actions that are simply given."""

    outputs: Any  # (critics, proposals, K), at s'
    actor: Any = None
    critics: Any = ()

    def backed_up(self, horizon):
        return jnp.arange(1, self.outputs.shape[-1] + 1)

    def before(self, observation, goal, horizon):
        return self.outputs

    def at(self, observation, goal, action, horizon):
        return self.outputs[:, 0]

    def shift(self, values):
        return jnp.roll(values, 1)

    def proposals(self, observation, goal, horizon):
        weights = jnp.array([[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
        return self.outputs[0], weights, jnp.array([[0.5], [-1.0]])


def logit(p):
    return np.log(p) - np.log1p(-np.asarray(p))


def example(**changed: Any) -> Batch:
    x = Batch(
        observation=jnp.zeros(2),
        action=jnp.zeros(1),
        next_observation=jnp.zeros(2),
        goal=jnp.zeros(1),
        horizon=jnp.int32(2),
        reached_before=jnp.bool_(False),
        reached=jnp.bool_(False),
        dead=jnp.bool_(False),
        min_steps=jnp.float32(0),
        distance=jnp.float32(0),
    )
    return x._replace(**changed)


# Two critics, two proposals, three horizons; the doubtful critic counts, then the better proposal.
PROBABILITIES = np.array([[[0.1, 0.5, 0.6], [0.3, 0.4, 0.9]], [[0.2, 0.4, 0.7], [0.2, 0.6, 0.8]]])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, [0.0, 0.2, 0.4]),
        ({"reached": jnp.bool_(True)}, [1.0, 1.0, 1.0]),
        ({"dead": jnp.bool_(True)}, [0.0, 0.0, 0.0]),
        ({"min_steps": jnp.float32(2)}, [0.0, 0.0, 0.4]),
    ],
)
def test_targets_by_hand(changed, expected):
    target = Stub(jnp.asarray(logit(PROBABILITIES)))
    for run in (example_target, jax.jit(example_target, static_argnums=0)):
        np.testing.assert_allclose(run(C_RULE, target, example(**changed)), expected, rtol=1e-5, atol=1e-6)


def test_the_target_of_one_proposal_is_never_better_than_of_two():
    two = Stub(jnp.asarray(logit(PROBABILITIES)))
    one = Stub(two.outputs[:, :1])
    assert (example_target(C_RULE, two, example()) >= example_target(C_RULE, one, example())).all()


def test_critic_loss_sums_over_critics_and_knows_reached_goals():
    network = Stub(jnp.zeros((2, 2, 3)))
    y = jnp.array([0.0, 1.0, 0.5])
    assert float(critic_loss(C_RULE, network, True, example(), y)) == pytest.approx(2 * np.log(2), rel=1e-5)
    there = example(reached_before=jnp.bool_(True))
    assert float(critic_loss(C_RULE, network, True, there, y)) == 0.0
    assert float(critic_loss(NAIVE_RULE, network, False, there, y)) == pytest.approx(2.0)


def test_actor_loss_weighs_each_proposals_own_horizons():
    network = Stub(jnp.asarray(logit(PROBABILITIES)))
    config = replace(CONFIG, actor_objective="value")
    own = (PROBABILITIES[0, 0, 0] + PROBABILITIES[0, 1, 1:].mean()) / 2
    assert float(actor_loss(C_RULE, network, config, 0.0, example())) == pytest.approx(-own, rel=1e-5)
    expected = -own + 2.0 * np.mean([0.25, 1.0])
    assert float(actor_loss(C_RULE, network, config, 2.0, example())) == pytest.approx(expected, rel=1e-5)


def test_what_is_sure_already_does_not_move_the_actor():
    """log C has a slope where C is small and none where it is 1; the logit always has one."""

    def slope(objective: str, output: float) -> float:
        config = replace(CONFIG, actor_objective=objective)
        loss = lambda x: actor_loss(C_RULE, Stub(x * jnp.ones((1, 2, 3))), config, 0.0, example())  # noqa: E731
        return float(-jax.grad(loss)(output))

    assert slope("log", 9.0) < 1e-3
    assert slope("log", -9.0) > 0.99
    assert slope("logit", 9.0) == pytest.approx(1.0)
    assert slope("value", -9.0) < 1e-3
    assert slope("log-mean", 9.0) < 1e-3
    assert slope("log-mean", -9.0) > 0.99


def test_the_logarithm_of_a_mean_does_not_prefer_haste():
    """Where an early horizon is hopeless, log C pulls hardest there; the mean counts all of them alike."""
    network = Stub(jnp.asarray(logit(PROBABILITIES)))
    config = replace(CONFIG, actor_objective="log-mean")
    own = (np.log(PROBABILITIES[0, 0, 0]) + np.log(PROBABILITIES[0, 1, 1:].mean())) / 2
    assert float(actor_loss(C_RULE, network, config, 0.0, example())) == pytest.approx(-own, rel=1e-5)

    def pull(name: str) -> np.ndarray:
        """How much more is gained by raising C at an early horizon, where it is 0.01, than at a late one."""
        outputs, weights = jnp.asarray(logit(np.array([[0.01, 0.5]]))), jnp.array([[0.5, 0.5]])
        slopes = jax.grad(
            lambda x: objective(C_RULE, replace(config, actor_objective=name), x, weights).sum()
        )
        per_probability = slopes(outputs)[0] / np.array([0.01 * 0.99, 0.5 * 0.5])
        return per_probability[0] / per_probability[1]

    assert pull("log") == pytest.approx(50, rel=1e-3)
    assert pull("log-mean") == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize(("heads", "parts"), [(1, [4]), (2, [2, 2]), (4, [1, 1, 1, 1])])
def test_heads_share_out_the_horizons(heads, parts):
    network = build_network(SPEC, replace(CONFIG, actor_heads=heads), jax.random.key(0))
    assert isinstance(network, HeadsActorCritic)
    _, weights, _ = network.proposals(jnp.zeros(2), jnp.zeros(1), jnp.arange(1, 5))
    np.testing.assert_allclose(weights.sum(1), np.ones(heads), rtol=1e-6)
    assert (weights > 0).sum(1).tolist() == parts
    assert ((weights > 0).sum(0) == 1).all()


@pytest.mark.parametrize("form", FORMS)
def test_the_parts_of_a_network_agree(form):
    """The curve is what `at` says of the actions that `propose` gives."""
    network = build_network(SPEC, replace(CONFIG, form=form, actor_heads=1), jax.random.key(1))
    s, g = jnp.array([0.3, -0.2]), jnp.array([0.7])
    curve = network.curve(s, g)
    assert curve.shape == (1, 4)
    for h in range(1, 5):
        action = network.propose(s, g, jnp.int32(0), jnp.int32(h))
        assert (jnp.abs(action) <= 1).all()
        outputs = network.at(s, g, action, network.backed_up(jnp.int32(h)))
        at_h = outputs[0, h - 1] if form == "all-horizons" else outputs[0, 0]
        np.testing.assert_allclose(curve[0, h - 1], at_h, rtol=1e-4, atol=1e-5)


def test_spread_actions_stand_beside_the_actors_and_compete_with_them():
    config = replace(CONFIG, actor_heads=2)
    alone = build_network(SPEC, config, jax.random.key(1))
    network = build_network(SPEC, replace(config, spread_actions=9, spread_in_targets=5), jax.random.key(1))
    s, g, every = jnp.array([0.3, -0.2]), jnp.array([0.7]), jnp.arange(1, 5)
    curve = network.curve(s, g)
    np.testing.assert_allclose(curve[:2], alone.curve(s, g), rtol=1e-5)
    for i, action in enumerate(spread_actions(9, 1)):
        assert network.propose(s, g, jnp.int32(2 + i), jnp.int32(1)) == action
        np.testing.assert_allclose(curve[2 + i], network.at(s, g, action, every)[0], rtol=1e-4, atol=1e-5)
    chosen_from = network.before(s, g, every)
    assert chosen_from.shape == (CONFIG.critics, 7, 4)
    np.testing.assert_allclose(chosen_from[0], curve[:7], rtol=1e-5)
    assert len(network.proposals(s, g, every)[0]) == 2  # what the actor learns


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_spread_actions_are_near_every_action_and_at_every_bound(dimensions):
    actions = spread_actions(40, dimensions)
    asked = np.random.default_rng(0).uniform(-1, 1, (500, dimensions))
    apart = np.abs(asked[:, None] - actions).max(-1).min(-1)
    assert apart.max() < 2 / 40 ** (1 / dimensions)  # a grid's is half of that
    assert (np.abs(actions) <= 1).all()
    assert (actions == 1).any(0).all()
    assert (actions == -1).any(0).all()


def random_batch(key, count: int) -> Batch:
    keys = jax.random.split(key, 4)
    state = jax.random.uniform(keys[0], (count, 2), minval=-1.0)
    action = jax.random.uniform(keys[1], (count, 1), minval=-1.0)
    goal = jax.random.uniform(keys[2], (count, 1), minval=-1.0)
    zeros = jnp.zeros(count)
    return Batch(
        observation=state,
        action=action,
        next_observation=state.at[:, 1].set(action[:, 0]),
        goal=goal,
        horizon=jax.random.randint(keys[3], (count,), 1, 5),
        reached_before=zeros > 0,
        reached=jnp.abs(action - goal)[:, 0] < 0.3,
        dead=zeros > 0,
        min_steps=zeros,
        distance=jnp.abs(action - goal)[:, 0],
    )


@pytest.mark.parametrize("form", FORMS)
def test_one_step_world_is_learned(form):
    """The next position is the action itself, so every goal is one step away: the actor must name it."""
    config = replace(CONFIG, form=form, hidden=(64, 64), target_rate=0.05, actor_objective="logit")
    network = build_network(SPEC, config, jax.random.key(0))

    @jax.jit
    def train(weights):
        def body(weights, key):
            learner, metrics = update(
                eqx.combine(weights, rest),
                random_batch(key, 128),
                C_RULE,
                config,
                Pace(jnp.float32(3e-3)),
                False,
            )
            return eqx.filter(learner, eqx.is_array), metrics["loss"]

        return jax.lax.scan(body, weights, jax.random.split(jax.random.key(1), 800))

    weights, rest = eqx.partition(start(network), eqx.is_array)
    weights, losses = train(weights)
    learned = eqx.combine(weights, rest).network
    assert losses[-50:].mean() < losses[:50].mean() / 2
    goals = jnp.linspace(-0.8, 0.8, 9)[:, None]
    named = jax.vmap(lambda g: learned.propose(jnp.zeros(2), g, jnp.int32(0), jnp.int32(1)))(goals)
    assert (jnp.abs(named - goals) < 0.3).all()
    values = jax.nn.sigmoid(jax.vmap(lambda g: learned.curve(jnp.zeros(2), g))(goals))
    assert (values > 0.8).all()


def test_actor_moves_only_every_so_often():
    config = replace(CONFIG, actor_delay=2)
    learner = start(build_network(SPEC, config, jax.random.key(0)))
    batch = random_batch(jax.random.key(2), 16)
    step = eqx.filter_jit(lambda l: update(l, batch, C_RULE, config, Pace(jnp.float32(1e-3)), False)[0])
    once = step(learner)
    twice = step(once)
    same = lambda a, b: eqx.tree_equal(eqx.filter(a, eqx.is_array), eqx.filter(b, eqx.is_array))  # noqa: E731
    assert same(once.network.actor, learner.network.actor)
    assert not same(twice.network.actor, once.network.actor)
    assert not same(once.network.critics, learner.network.critics)


def test_statistics_are_those_of_everything_seen():
    rng = np.random.default_rng(0)
    inputs = NormalisedInputs(SPEC)
    rows = []
    for _ in range(3):
        episodes = Episodes(
            observation=rng.normal(3.0, 2.0, (4, 6, 2)).astype(np.float32),
            achieved=rng.normal(size=(4, 6, 1)).astype(np.float32),
            action=np.zeros((4, 5, 1), np.float32),
            goal=rng.normal(size=(4, 1)).astype(np.float32),
            length=rng.integers(1, 6, 4).astype(np.int32),
            dead=np.zeros(4, bool),
            success=np.zeros(4, bool),
        )
        inputs = inputs.updated(jax.tree.map(jnp.asarray, episodes))
        for i, length in enumerate(episodes.length):
            for goal in (episodes.goal[i], episodes.achieved[i, length]):
                for t in range(length + 1):  # the padding behind an episode's end must not count
                    s = episodes.observation[i, t]
                    rows.append(np.concatenate([s, goal, goal - s[1:]]))
    rows = np.array(rows)
    assert float(inputs.count) == len(rows)
    np.testing.assert_allclose(inputs.mean, rows.mean(0), rtol=1e-4, atol=1e-5)
    s, g = jnp.array([4.0, 2.0]), jnp.array([0.5])
    expected = (np.array([4.0, 2.0, 0.5, -1.5]) - rows.mean(0)) / rows.std(0)
    np.testing.assert_allclose(inputs(s, g), expected, rtol=1e-3, atol=1e-4)
    far = inputs(jnp.array([1e6, -1e6]), g)
    assert far.max() == 5.0
    assert far.min() == -5.0


def test_statistics_leave_other_networks_alone():
    network = build_network(CatAndMouse().spec, Config(max_horizon=4), jax.random.key(0))
    assert with_statistics(network, None) is network  # pyright: ignore[reportArgumentType]


# The peers' rules ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reached", "dead", "after", "expected"),
    [(1, 0, -3.0, 0.0), (0, 0, -3.0, -3.7), (0, 1, -3.0, -10.0)],
)
def test_steps_to_go_by_hand(reached, dead, after, expected):
    assert float(steps_to_go(0.9)(reached, dead, after)) == pytest.approx(expected, rel=1e-5)


def test_no_horizon_always_looks_ahead():
    target = Stub(jnp.full((2, 1, 1), -2.0))
    assert float(example_target(cost_rule(0.5), target, example())[0]) == pytest.approx(-2.0)
    half = Stub(target.outputs / 2)
    assert float(example_target(cost_rule(0.5), half, example())[0]) == pytest.approx(-1.5)


def test_distance_rule_ends_in_the_distance():
    target = Stub(jnp.full((2, 1, 3), -0.7))
    x = example(distance=jnp.float32(0.25))
    np.testing.assert_allclose(example_target(TDM_RULE, target, x), [-0.25, -0.7, -0.7], rtol=1e-6)
    still = x._replace(dead=jnp.bool_(True))
    np.testing.assert_allclose(example_target(TDM_RULE, target, still), [-0.25] * 3, rtol=1e-6)


def test_naive_horizon_aware_q_by_hand():
    target = Stub(jnp.array([[[0.25, 0.5, 0.75]], [[0.5, 0.25, 1.0]]]))  # the lesser critic counts
    rule = rule_for("naive-q", 0.9)
    np.testing.assert_allclose(example_target(rule, target, example()), [0.0, 0.25, 0.25], rtol=1e-6)
    there = example()._replace(reached=jnp.bool_(True))
    np.testing.assert_allclose(example_target(rule, target, there), [1.0] * 3, rtol=1e-6)
    np.testing.assert_allclose(rule.loss(jnp.float32(0.5), jnp.float32(0.25)), 0.0625)


def test_every_method_has_a_rule():
    for method in get_args(Method):
        assert rule_for(method, 0.9).loss is not None
