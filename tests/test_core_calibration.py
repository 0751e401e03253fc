"""Calibration as maths: scores, mended curves and recalibrations worked by hand."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from clearning.core.calibration import (
    EDGE,
    Recalibration,
    brier,
    brier_skill,
    expected_calibration_error,
    fit_recalibration,
    monotone_curves,
    monotonicity_violations,
    recalibration_from_dict,
    reliability,
)
from clearning.errors import ClearningError

PREDICTED = np.array([0.1, 0.1, 0.9, 0.9, 0.9])
HAPPENED = np.array([0, 1, 1, 1, 1])


def test_scores_worked_by_hand():
    # Two say 0.1 and half happen: off by 0.4. Three say 0.9 and all happen: off by 0.1.
    assert expected_calibration_error(PREDICTED, HAPPENED) == pytest.approx((2 * 0.4 + 3 * 0.1) / 5)
    assert brier(PREDICTED, HAPPENED) == pytest.approx((0.01 + 0.81 + 3 * 0.01) / 5)
    # Always saying 4/5 scores 0.16.
    assert brier_skill(PREDICTED, HAPPENED) == pytest.approx(1 - 0.17 / 0.16)
    assert brier_skill(PREDICTED, np.ones(5)) is None


def test_reliability_bins_hold_their_edges():
    found = reliability(np.array([0.0, 0.1, 0.19, 1.0]), np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(found.predicted, [0.0, 0.145, 1.0])
    np.testing.assert_allclose(found.observed, [0.0, 0.5, 1.0])
    assert found.size.tolist() == [1, 2, 1]
    assert (found.low <= found.observed + 1e-12).all()
    assert (found.high >= found.observed - 1e-12).all()


def test_curves_that_fall_are_counted_and_mended():
    curves = np.array([[0.1, 0.5, 0.3, 0.9], [0.1, 0.2, 0.2, 0.3]])
    assert monotonicity_violations(curves) == pytest.approx(1 / 6)
    mended = monotone_curves(curves)
    np.testing.assert_allclose(mended, [[0.1, 0.4, 0.4, 0.9], [0.1, 0.2, 0.2, 0.3]])  # not 0.5: the mean
    assert curves[0, 1] == 0.5  # what was given is left alone


def test_isotonic_recalibration_pools_what_is_out_of_order():
    # At 0.2 nothing happens, at 0.4 half, at 0.6 nothing, at 0.8 all: 0.4 and 0.6 are pooled to 1/3.
    predicted = np.array([0.2, 0.4, 0.4, 0.6, 0.8])
    fitted = fit_recalibration("isotonic", predicted, np.array([0, 0, 1, 0, 1]))
    told = np.asarray(fitted(np.array([0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0])))
    np.testing.assert_allclose(told, [0, 0, 1 / 6, 1 / 3, 1 / 3, 1 / 3, 2 / 3, 1, 1], atol=1e-6)


def test_temperature_recalibration_finds_what_was_too_sure():
    # Says 0.9, and three of four happen: log-odds of 3 instead of 9, which is half as many logits.
    fitted = fit_recalibration("temperature", np.full(4, 0.9), np.array([1, 1, 1, 0]))
    assert fitted.temperature == pytest.approx(2.0, abs=1e-3)
    np.testing.assert_allclose(fitted(np.array([0.9, 0.1, 0.5])), [0.75, 0.25, 0.5], atol=1e-3)


MAP = {"kind": "isotonic", "temperature": 1.0, "knots": [0.0, 0.4, 1.0], "values": [0.0, 0.5, 0.9]}


@pytest.mark.parametrize(
    "record",
    [
        {},
        [],
        {"kind": "magic", "temperature": 1.0, "knots": [], "values": []},
        {"kind": "isotonic", "temperature": 1.0, "knots": [], "values": []},
        {"kind": "temperature", "temperature": 0.0, "knots": [], "values": []},
        {"kind": "temperature", "knots": [0.5], "values": []},
        {"kind": "temperature", "temperature": True},
        MAP | {"values": [0.0, 0.5]},
        MAP | {"knots": [0.5, 0.1, 0.2]},
        MAP | {"knots": [0.0, 0.4, 0.4]},
        MAP | {"values": [0.1, 0.5, 0.4]},
        MAP | {"values": [0.0, 0.5, 1.5]},
        MAP | {"values": [-0.1, 0.5, 0.9]},
    ],
)
def test_damaged_recalibrations_are_refused(record):
    with pytest.raises(ClearningError, match="recalibration is damaged"):
        recalibration_from_dict(record)


def test_reliability_tells_wilsons_interval():
    predicted, happened = np.full(8, 0.45), np.array([1, 1, 1, 0, 0, 0, 0, 0])
    found = reliability(predicted, happened)
    share, z = 3 / 8, stats.norm.ppf(0.975)
    middle = (share + z**2 / 16) / (1 + z**2 / 8)
    reach = z / (1 + z**2 / 8) * np.sqrt(share * (1 - share) / 8 + z**2 / (4 * 64))
    np.testing.assert_allclose([found.low[0], found.high[0]], [middle - reach, middle + reach], rtol=1e-6)
    assert found.predicted.tolist() == [pytest.approx(0.45)]


def test_bins_are_as_many_as_asked_for():
    predicted = np.array([0.05, 0.3, 0.55, 0.95])
    assert len(reliability(predicted, np.array([0, 1, 0, 1]), bins=2).size) == 2
    assert expected_calibration_error(predicted, np.array([0, 1, 0, 1]), bins=1) == pytest.approx(0.0375)
    assert reliability(np.array([0.85, 0.95]), np.array([1, 1])).size.tolist() == [1, 1]
    # One bin of ten holds 0.95 and 1: an edge at 1 belongs to the last bin.
    assert reliability(np.array([0.95, 1.0]), np.array([1, 1])).size.tolist() == [2]


def test_skill_is_relative_to_the_rate():
    happened = np.array([1, 0, 0, 0])
    assert brier_skill(happened.astype(float), happened) == 1.0
    assert brier_skill(np.full(4, 0.25), happened) == pytest.approx(0.0)
    assert brier_skill(np.full(4, 0.75), happened) == pytest.approx(1 - 0.4375 / 0.1875)
    assert brier_skill(np.full(4, 0.5), np.zeros(4)) is None


def test_a_fall_counts_from_a_hundredth():
    assert monotonicity_violations(np.array([[0.5, 0.491], [0.5, 0.489]])) == 0.5
    assert monotonicity_violations(np.array([[0.5, 0.75], [0.25, 0.25]])) == 0.0
    assert monotonicity_violations(np.array([[0.01, 0.0]])) == 0.0  # no more than the hundredth
    assert monotonicity_violations(np.zeros((3, 1))) == 0.0  # one horizon has no steps


@given(hnp.arrays(np.float64, (3, 6), elements=st.integers(0, 100).map(lambda i: i / 100)))
def test_mended_curves_do_not_fall_and_are_nearest(curves):
    mended = monotone_curves(curves)
    assert (np.diff(mended) >= -1e-12).all()
    np.testing.assert_allclose(mended.sum(-1), curves.sum(-1))  # least squares keeps the mean
    rising = (np.diff(curves) >= 0).all(-1)
    np.testing.assert_array_equal(mended[rising], curves[rising])
    highest = np.maximum.accumulate(curves, -1)
    assert (((mended - curves) ** 2).sum() <= ((highest - curves) ** 2).sum() + 1e-12).all()


def test_isotonic_maps_are_flat_beyond_their_ends_and_keep_few_knots():
    predicted = np.linspace(0.1, 0.9, 9)
    fitted = fit_recalibration("isotonic", predicted, (predicted > 0.45).astype(float))
    assert fitted.kind == "isotonic"
    assert fitted.knots == pytest.approx((0.1, 0.4, 0.5, 0.9))
    assert fitted.values == (0.0, 0.0, 1.0, 1.0)
    weighted = fit_recalibration("isotonic", np.array([0.2, 0.2, 0.2, 0.8]), np.array([1, 1, 1, 0]))
    assert weighted.values == pytest.approx((0.75, 0.75))  # pooled by how many there are


@pytest.mark.parametrize("temperature", [0.5, 2.0, 4.0])
def test_temperature_divides_the_logit(temperature):
    told = Recalibration("temperature", temperature)(np.array([0.2, 0.5, 0.9]))
    odds = (np.array([0.2, 0.5, 0.9]) / np.array([0.8, 0.5, 0.1])) ** (1 / temperature)
    np.testing.assert_allclose(told, odds / (1 + odds), rtol=1e-5)
    sure = Recalibration("temperature", 1.0)(np.array([0.0, 1.0]))
    np.testing.assert_allclose(sure, [EDGE, 1 - EDGE], rtol=0.2)
    assert sure[1] < 1  # or no temperature could move it
    np.testing.assert_allclose(jax.jit(Recalibration("temperature", temperature))(0.9), told[2], rtol=1e-5)


def test_temperature_is_looked_for_from_a_twentieth_to_twenty():
    half = np.array([1, 0] * 50)
    assert fit_recalibration("temperature", np.full(100, 0.9), half).temperature == pytest.approx(
        20, rel=1e-3
    )
    right = fit_recalibration("temperature", np.full(100, 0.6), np.ones(100))
    assert right.temperature == pytest.approx(1 / 20, rel=1e-3)


def test_recalibration_reads_back_what_is_written():
    assert recalibration_from_dict(None) is None
    for kind in (
        {"kind": "temperature", "temperature": 0.25, "knots": [], "values": []},
        {"kind": "isotonic", "temperature": 1.0, "knots": [0.0, 0.5], "values": [0.0, 1.0]},
        {"kind": "isotonic", "knots": [0.5, 0.6], "values": [0.5, 0.5]},
    ):
        found = recalibration_from_dict(kind)
        assert found is not None
        assert found.knots == tuple(kind["knots"])
        assert found.values == tuple(kind["values"])
        assert found.temperature == kind.get("temperature", 1.0)
        assert found in {found}  # it can be part of what is compiled
    assert jax.jit(found)(0.3) == pytest.approx(0.5)
