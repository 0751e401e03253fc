"""The paper's other methods for numbered actions: their losses, targets, data and dials by hand."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from test_learning_rule import AVERAGED, every_example, example, logit, risky_or_safe, train
from test_relabel import LENGTHS, Line, draw, line_buffer, only

from clearning import Agent, UsageError
from clearning.agents import check_method, gcsl
from clearning.agents.discrete import example_target
from clearning.config import Config
from clearning.core.recursions import D_RULE, GCSL_RULE, cost_rule
from clearning.core.tabular import optimal_d
from clearning.engine import collecting_dial
from clearning.envs import CatAndMouse, DubinsCar, FrozenLake
from clearning.evaluate import steps_to_take
from clearning.networks import build_network
from clearning.networks.layers import GROUPS, MLP, PLANES, MinMax, cumulated_logits
from clearning.presets import PEERS, PRESETS, preset
from clearning.rollout import collect, dial_horizon, dial_policy, own_dial
from clearning.types import Batch

LAKE = FrozenLake()
S, G = [1.0, 0.0], [1.0, 6.0]


class Fixed(eqx.Module):
    """Outputs (actions, 1) that depend on nothing."""

    outputs: Array

    def curve(self, observation, goal):
        return self.outputs

    def backed_up(self, horizon):
        return horizon[None]

    def at(self, observation, goal, horizon):
        return self.outputs

    before = at

    def shift(self, values):
        return values


# GCSL ---------------------------------------------------------------------------------------------


def test_gcsl_learns_the_action_taken_by_cross_entropy():
    """Logits of probabilities 1/2, 1/4 and 1/4: taking action 1 costs log 4; the slope is p − 1[a]."""
    network = Fixed(jnp.log(jnp.array([[2.0], [1.0], [1.0]])))
    x = example(action=jnp.int32(1))
    loss, slope = jax.value_and_grad(lambda n: gcsl.example_loss(GCSL_RULE, n, x))(network)
    assert float(loss) == pytest.approx(np.log(4), rel=1e-6)
    np.testing.assert_allclose(slope.outputs[:, 0], [0.5, -0.75, 0.25], atol=1e-6)


def gcsl_batch(**settings) -> tuple[np.ndarray, np.ndarray, Batch]:
    """Steps from s to the goal, steps left in the episode, and the batch."""
    batch = draw(Line(), line_buffer(), method="gcsl", **only("future"), **settings)
    e, t = batch.observation.astype(int).T
    goal_episode, goal_step = np.divmod(batch.goal[:, 0].astype(int), 100)
    np.testing.assert_array_equal(goal_episode, e)
    return goal_step - t, np.array(LENGTHS)[e] - t, batch


def test_gcsl_goals_are_any_later_state():
    ahead, left, _ = gcsl_batch(max_horizon=1)
    assert ((ahead >= 1) & (ahead <= left)).all()
    assert set(ahead[left == 6]) == {1, 2, 3, 4, 5, 6}


def test_gcsl_told_the_horizon_sees_the_steps_to_its_goal():
    ahead, left, batch = gcsl_batch(form="sampled-horizon", max_horizon=3)
    np.testing.assert_array_equal(batch.horizon, ahead)
    assert set(ahead[left == 6]) == {1, 2, 3}
    assert (ahead <= left).all()


# HER ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reached", "dead", "expected"), [(False, False, -2.5), (True, False, 0.0), (False, True, -10.0)]
)
def test_her_targets_count_steps_with_the_double_choice(reached, dead, expected):
    """The network prefers action 1, which the target values at −5/3: −1 − 0.9 · 5/3 = −2.5."""
    online = Fixed(jnp.array([[-3.0], [-1.0], [-2.0]]))
    target = Fixed(jnp.array([[-1.0], [-5 / 3], [-0.5]]))
    x = example(reached=jnp.bool_(reached), dead=jnp.bool_(dead), horizon=jnp.int32(1))
    np.testing.assert_allclose(example_target(cost_rule(0.9), online, target, x), [expected], rtol=1e-6)


# A-learning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("end", "length"), [(True, 2), (False, 6)])
def test_reaching_the_goal_need_not_end_an_episode(end, length):
    sure = FrozenLake(slip=0.0, max_episode_steps=6)
    right = lambda key, observation, goal, step: jnp.int32(1)  # noqa: E731
    start, goal = jnp.array([[0.0, 0.0]]), jnp.array([[2.0, 0.0]])
    ran = collect(sure, right, jax.random.key(0), start, goal, 6, end_at_success=end)
    assert int(ran.length[0]) == length
    assert bool(ran.success[0])


# D-learning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gamma", "reached", "dead", "expected"),
    [(0.5, False, False, 0.2), (1.0, False, False, 0.4), (0.5, True, False, 1.0), (0.5, False, True, 0.0)],
)
def test_d_targets_by_hand(gamma, reached, dead, expected):
    """Values 0.4 and 0.9 at s'; the network prefers the action that the target values at 0.4."""
    online, target = Fixed(logit([[0.8], [0.3]])), Fixed(logit([[0.4], [0.9]]))
    x = example(horizon=jnp.float32(gamma), reached=jnp.bool_(reached), dead=jnp.bool_(dead))
    np.testing.assert_allclose(example_target(D_RULE, online, target, x), [expected], rtol=1e-5)


GAMMAS = np.array([0.3, 0.9], np.float32)


class DiscountTable(eqx.Module):
    """Logits (discounts, states, goals, actions) for one-hot states and goals."""

    logits: Array

    def backed_up(self, gamma):
        return gamma[None]

    def at(self, observation, goal, gamma):
        asked = (gamma == GAMMAS).astype(jnp.float32)
        return jnp.einsum("d,s,g,dsga->a", asked, observation, goal, self.logits)[:, None]

    before = at

    def shift(self, values):
        return values


def test_table_reaches_d_star_for_every_discount():
    mdp = risky_or_safe()
    examples = every_example(mdp, 1)
    one = [examples._replace(horizon=jnp.full(examples.action.shape, g)) for g in GAMMAS]
    batch = jax.tree.map(lambda *v: jnp.concatenate(v), *one)
    start = DiscountTable(jax.random.normal(jax.random.key(0), (2, 5, 5, 2)))
    learner, _ = train(start, batch, D_RULE, AVERAGED, mask_reached=True)
    found = np.asarray(jax.nn.sigmoid(learner.network.logits)).transpose(0, 1, 3, 2)  # (γ, s, a, g)
    asked = np.broadcast_to(~mdp.reached[:, None, :] & ~mdp.dead[:, None, None], found.shape[1:])
    for d, gamma in zip(found, GAMMAS, strict=True):
        np.testing.assert_allclose(d[asked], optimal_d(mdp, float(gamma))[asked], atol=0.02)


def test_d_learning_draws_discounts_uniformly_and_acts_with_the_one_given():
    batch = draw(Line(), line_buffer(), method="d-learning", form="sampled-horizon")
    np.testing.assert_allclose(np.quantile(batch.horizon, [0.1, 0.5, 0.9]), [0.1, 0.5, 0.9], atol=0.02)

    class Chances(eqx.Module):
        """Action 0 is there at once half of the time (1/2); action 1 for sure in four steps (γ³)."""

        def at(self, observation, goal, gamma):
            return jnp.stack([jnp.full(gamma.shape, 0.5), gamma**3, 0 * gamma, 0 * gamma])

    agent = Agent(Chances(), LAKE.spec, Config(method="d-learning", form="sampled-horizon", discount=0.9))
    assert agent.act(S, G) == 1
    assert agent.act(S, G, discount=0.5) == 0
    with pytest.raises(UsageError, match="d-learning has no alpha: it acts by discount"):
        agent.act(S, G, alpha=0.5)


# Monotone networks --------------------------------------------------------------------------------


def test_hazards_cumulate_by_hand():
    """Hazards of 1/2 leave 1/2, 1/4 and 1/8 behind: odds of 1, 3 and 7."""
    np.testing.assert_allclose(cumulated_logits(jnp.zeros(3)), np.log([1, 3, 7]), rtol=1e-5, atol=1e-6)
    sure_at_two = cumulated_logits(logit([0.2, 1 - 1e-6, 0.5]))
    np.testing.assert_allclose(jax.nn.sigmoid(sure_at_two), [0.2, 1.0, 1.0], atol=1e-5)


def test_hazards_are_finite_however_sure():
    extreme = jnp.array([-200.0, -80.0, -20.0, 0.0, 60.0, 200.0])
    slope = jax.jacobian(cumulated_logits)(extreme)
    assert np.isfinite(cumulated_logits(extreme)).all()
    assert np.isfinite(slope).all()
    # Small hazards are their own C: the logit passes through.
    assert float(cumulated_logits(jnp.array([-20.0]))[0]) == pytest.approx(-20.0, abs=1e-4)


def test_min_max_by_hand():
    """At h = ½, planes of slopes 1 and 2: min(max(½ + 0, 2(½ − 1)), max(½ + 3, 2(½ − 4))) = ½."""
    offsets = jnp.full((GROUPS, PLANES), -100.0).at[0, :2].set(jnp.array([0.0, -1.0]))
    offsets = offsets.at[1, :2].set(jnp.array([3.0, -4.0])).at[2:, 0].set(50.0)
    network = MinMax(MLP((1, GROUPS * PLANES), False, jax.random.key(0)), 1, 10)
    slopes = jnp.ones((1, GROUPS, PLANES)).at[..., 1].set(2.0)
    network = eqx.tree_at(
        lambda n: (n.mlp.layers[0].weight, n.mlp.layers[0].bias, n.log_slopes),
        network,
        (jnp.zeros((GROUPS * PLANES, 1)), offsets.ravel(), jnp.log(slopes)),
    )
    assert network(jnp.array([7.0, 0.5])).tolist() == pytest.approx([0.5])


@pytest.mark.parametrize("form", ["all-horizons", "sampled-horizon"])
def test_c_never_falls_with_the_horizon(form):
    config = Config(form=form, monotone=True, hidden=(16,), max_horizon=12, features="scaled")
    network = build_network(LAKE.spec, config, jax.random.key(0))
    # Any numbers, not only those it starts with: slopes that start out positive would hide a missing exp.
    arrays, rest = eqx.partition(network, eqx.is_inexact_array)
    keys = iter(jax.random.split(jax.random.key(2), len(jax.tree.leaves(arrays))))
    arrays = jax.tree.map(lambda v: jax.random.normal(next(keys), v.shape), arrays)
    network = eqx.combine(arrays, rest)
    cells = jax.random.uniform(jax.random.key(1), (50, 2, 2), maxval=6.0)
    curves = np.asarray(jax.nn.sigmoid(jax.vmap(lambda c: network.curve(*c))(cells)))
    assert curves.shape == (50, 4, 12)
    assert np.diff(curves).min() >= -1e-6  # rounding
    assert np.diff(curves).max() > 0.01


# What users meet ----------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", PEERS)
def test_every_method_is_a_prefix_of_every_preset(peer):
    for name in PRESETS:
        config = preset(f"{peer}/{name}")
        assert config.env == preset(name).env
        assert config != preset(name)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "her", "max_horizon": 1, "form": "sampled-horizon"}, "her has no horizon as an input"),
        ({"method": "tdm", "form": "sampled-horizon", "rule_out": True}, "rule_out is for probabilities"),
        ({"final_share": 1.0, "updates_per_step": 0.5}, "final_share goes with updates_per_episode"),
    ],
)
def test_settings_that_would_go_wrong_unseen_are_refused(settings, words):
    with pytest.raises(UsageError, match=words):
        Config(**settings)


def test_a_horizon_that_a_method_always_starts_from_does_not_shorten_its_tests():
    config = preset("tdm/paper/dubins-car")
    steps = lambda dial: steps_to_take(DubinsCar().spec, dial)  # noqa: E731
    own = own_dial(config)
    assert own.horizon == 50
    assert steps(own) == 100
    assert steps(own._replace(horizon=7, again=False)) == 7
    assert steps(own._replace(horizon=7, receding=True)) == 100


def test_tdm_counts_down_again_and_again():
    dial = own_dial(preset("tdm/paper/dubins-car"))
    values = jnp.zeros((7, 50))
    found = [int(dial_horizon(values, DubinsCar().spec, dial, S, G, t, False)) for t in (0, 1, 49, 50, 99)]
    assert found == [50, 49, 1, 50, 1]


def test_prefixes_set_what_their_methods_need():
    assert preset("gcsl/paper/mini-maze").goal_future == 1.0
    her = preset("her/paper/mini-maze")
    assert (her.goal_future, her.goal_episode, her.goal_nearby, her.discount) == (0.8, 0.2, 0.0, 0.98)
    # What has no horizon must not be asked at one: its target would be of an input that is never trained.
    for name in ("her/paper/mini-maze", "td3/paper/fetch-pick-and-place", "gcsl/paper/mini-maze"):
        assert (preset(name).form, preset(name).max_horizon) == ("all-horizons", 1)
    tdm = preset("tdm/dubins-car")
    assert (tdm.end_at_success, tdm.goal_tries, tdm.pair_tries, tdm.rule_out) == (False, 1, 1, False)
    assert tdm.vote == 0
    assert (preset("cat-and-mouse").critics, preset("td3/cat-and-mouse").critics) == (1, 2)
    # Places in metres and rotations are of one size only with a scale.
    assert preset("tdm/paper/hand-manipulate-pen-full").goal_scale[0] == 10.0
    # A way by goals that came before is nothing to imitate; values may be learned from it.
    assert preset("mini-maze").new_goal_at_success
    assert preset("her/mini-maze").new_goal_at_success
    assert not preset("gcsl/mini-maze").new_goal_at_success
    a = preset("a-learning/dubins-car")
    assert (a.end_at_success, a.goal_tries, a.pair_tries) == (False, 1, 1)
    assert preset("monotone/dubins-car").monotone
    beyond = preset("past-holes/her/paper/frozen-lake")
    assert (beyond.method, beyond.dead_ends, her.dead_ends) == ("her", False, True)
    with pytest.raises(UsageError, match="gcsl/dubins-car"):
        preset("gscl/dubins-car")


@pytest.mark.parametrize(
    ("method", "spec", "words"),
    [
        ("td3", LAKE.spec, "td3 is for continuous actions, and those of frozen-lake are numbered: use her"),
        ("her", CatAndMouse().spec, "use td3"),
        ("gcsl", CatAndMouse().spec, "gcsl is for numbered actions"),
    ],
)
def test_methods_for_the_other_kind_of_action_are_refused(method, spec, words):
    with pytest.raises(UsageError, match=words):
        check_method(spec, Config(method=method, max_horizon=1))


@pytest.mark.parametrize("method", ["gcsl", "her"])
def test_methods_without_c_act_and_refuse_the_rest(method):
    network = Fixed(jnp.array([[0.0], [1.0], [3.0], [2.0]]))
    agent = Agent(network, LAKE.spec, Config(method=method, max_horizon=1))
    assert agent.act(S, G) == 2
    words = f"trained by {method} acts, but has not learned how surely"
    for ask in (lambda: agent.reach_probability(S, G, 24), lambda: agent.reach_curve(S, G)):
        with pytest.raises(UsageError, match=words):
            ask()
    with pytest.raises(UsageError, match=words):
        agent.min_horizon(S, G)
    for dial in ({"horizon": 3}, {"alpha": 0.5}, {"discount": 0.5}):
        with pytest.raises(UsageError, match="it acts in one way only"):
            agent.act(S, G, **dial)


def test_gcsl_collects_by_drawing_from_its_policy_and_acts_by_the_likeliest():
    config = preset("gcsl/frozen-lake")
    network = Fixed(jnp.log(jnp.array([[0.1], [0.2], [0.3], [0.4]])))
    collecting = collecting_dial(config, line_buffer())
    assert config.epsilon == 0.0

    def shares(dial):
        policy = dial_policy(network, LAKE.spec, dial)
        keys = jax.random.split(jax.random.key(0), 4000)
        actions = jax.vmap(lambda k: policy(k, jnp.array(S), jnp.array(G), jnp.int32(0)))(keys)
        return np.bincount(actions, minlength=4) / len(keys)

    np.testing.assert_allclose(shares(collecting), [0.1, 0.2, 0.3, 0.4], atol=0.03)
    np.testing.assert_array_equal(shares(own_dial(config)), [0, 0, 0, 1])
    assert not collecting_dial(preset("frozen-lake"), line_buffer()).drawn


def test_own_dials():
    assert own_dial(preset("gcsl/dubins-car")).horizon == 0
    told = Config(method="gcsl", form="sampled-horizon", max_horizon=20)
    assert own_dial(told).horizon == 20
    assert own_dial(preset("d-learning/dubins-car")).discount == 0.9
    assert own_dial(preset("dubins-car")).discount is None
