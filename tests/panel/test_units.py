"""Standardising channels, of any finite size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skpolyode.embedders import ChannelScaler
from skpolyode.panel import Panel
from skpolyode.panel.query import choose_window
from skpolyode.panel.select import observed_part, typical_gap
from skpolyode.transformers.polyode import choose_context, choose_step_size

CELLS = st.floats(-1e150, 1e150) | st.just(np.nan)


@given(arrays(np.float64, st.tuples(st.integers(1, 9), st.integers(1, 3)), elements=CELLS))
def test_transform_is_finite_and_inverted(values):
    scaler = ChannelScaler.of(values)
    standardised = scaler.transform(values)
    seen = ~np.isnan(values)
    assert (np.isfinite(standardised) == seen).all()
    assert abs(standardised[seen]).max(initial=0) <= np.sqrt(len(values)) * (1 + 1e-9)
    size = np.where(seen, abs(values), 0).max(axis=0) + np.finfo(float).tiny
    back = scaler.inverse(standardised)
    assert (abs(np.where(seen, back - values, 0)) <= 1e-12 * size).all()


@pytest.mark.parametrize("factor", [1e-200, 1e-3, 1.0, 1e200])
def test_mean_and_deviation_of_observed_values(factor):
    rng = np.random.default_rng(0)
    values = rng.normal(3, [1, 20], size=(400, 2))
    values[rng.random(values.shape) < 0.3] = np.nan
    scaler = ChannelScaler.of(values * factor)
    np.testing.assert_allclose(scaler.mean, np.nanmean(values, axis=0) * factor)
    np.testing.assert_allclose(scaler.scale, np.nanstd(values, axis=0) * factor)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, -3e8, 1e-310])
def test_a_constant_is_zero(value):
    values = np.full((1000, 1), value)
    scaler = ChannelScaler.of(values)
    np.testing.assert_array_equal(scaler.transform(values), 0)
    assert scaler.scale[0] > 0


def test_rounding_errors_are_not_blown_up():
    values = np.array([[0.1 + 0.2], [0.3], [0.3], [0.1 + 0.2]])
    assert abs(ChannelScaler.of(values).transform(values)).max() < 1e-9


def test_a_channel_never_observed_keeps_its_units():
    scaler = ChannelScaler.of(np.full((4, 1), np.nan))
    assert scaler.mean == [0]
    assert scaler.scale == [1]


def test_rows_are_relative_to_the_first_observation():
    nan = np.nan
    panel = Panel.from_series(
        [([3, 4, 6, 7], [[nan, nan], [1, nan], [nan, 2], [nan, nan]]), ([5], [[0, 0]])]
    )
    rows = observed_part(panel)
    assert rows.elapsed.tolist() == [0, 2, 0]
    assert rows.offsets.tolist() == [0, 2, 3]
    assert rows.start.tolist() == [4, 5]
    assert rows.end.tolist() == [6, 5]
    assert typical_gap(rows) == 2


def rows_of(*gaps):
    times = [np.concatenate([[0.0], np.cumsum(own)]) for own in gaps]
    return Panel.from_series([(t, t) for t in times])


def test_the_typical_gap_is_the_mean_of_gaps_that_are_not_enormous():
    assert typical_gap(rows_of([1.0, 2.0, 3.0], [2.0])) == 2.0
    assert typical_gap(rows_of([1.0] * 9 + [3.0])) == pytest.approx(1.2)
    # One of 1000 counts as four times the third quartile.
    assert typical_gap(rows_of([1.0] * 9 + [1000.0])) == pytest.approx(1.3)
    assert typical_gap(rows_of([1.0] * 9 + [1e30])) == pytest.approx(1.3)
    assert typical_gap(rows_of([1.0] * 6 + [2.0] * 3 + [100.0])) == pytest.approx(2.0)
    assert typical_gap(rows_of([])) == 1.0


def test_automatic_windows_and_steps():
    rows = rows_of([1.0] * 10, [1.0] * 30, [])
    assert choose_window("auto", rows) == 30.0  # the longest series
    assert choose_window(7, rows) == 7.0
    assert choose_window("auto", rows_of([])) == 1.0
    assert choose_context("auto", 30.0, rows, 8) == 4.0  # two coefficients an observation
    assert choose_context("auto", 30.0, rows, 1) == 1.0
    assert choose_context("auto", 5.0, rows, 8) == 5.0  # one memory serves both
    assert choose_context("auto", 30.0, rows, 200) == 30.0
    assert choose_context(6, 30.0, rows, 8) == 6.0
    assert choose_step_size("auto", rows, 8.0, 5) == pytest.approx(2 / 3)
    assert choose_step_size("auto", rows, 8.0, 20) == 0.5


def test_time_differences_are_taken_before_anything_is_rounded():
    """Seconds since 1970 with gaps of a millisecond."""
    start = 1.7e9
    rows = Panel.from_series([(start + np.arange(4) * 0.0078125, np.arange(4))])
    assert rows.elapsed.tolist() == [0, 0.0078125, 0.015625, 0.0234375]
