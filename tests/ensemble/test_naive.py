"""Naive forecasts against plain loops, and records that grow row by row."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.ensemble.naive import NAIVE, Records, naive_forecasts, records_at
from tests.ensemble.cases import no_inputs

RNG = np.random.default_rng(0)
LENGTHS = [7, 1, 12, 3]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
TIMES = np.concatenate([np.cumsum(RNG.exponential(size=n)) for n in LENGTHS])
TIMES -= np.repeat(TIMES[OFFSETS[:-1]], LENGTHS)
VALUES = np.where(RNG.random((sum(LENGTHS), 3)) < 0.4, np.nan, RNG.normal(size=(sum(LENGTHS), 3)))
VALUES[OFFSETS[2] : OFFSETS[3], 1] = np.nan  # never seen in this series


def plain(times: np.ndarray, values: np.ndarray, when: float) -> dict[str, float]:
    """Forecasts of one channel from its observations."""
    if not len(times):
        return dict.fromkeys(NAIVE, 0.0)
    t, x = times[-1], values[-1]
    last_four = list(zip(times, values, strict=True))[-4:]
    apart = [pair for pair in last_four if t - pair[0] >= 0.5]
    t0, x0 = apart[-1] if apart else last_four[0]
    return {
        "last": x,
        "moving_average": np.mean([value for _, value in last_four]),
        "mean": values.mean(),
        "local_drift": x + (when - t) * (x - x0) / max(t - t0, 0.5),
        "drift": x + (when - t) * (x - values[0]) / max(t - times[0], 0.5),
    }


def test_each_is_that_of_a_plain_loop():
    rows = np.arange(len(TIMES))
    records = records_at(TIMES, VALUES, OFFSETS, rows, no_inputs(len(TIMES)))
    for row in rows:
        first = OFFSETS[np.searchsorted(OFFSETS, row, side="right") - 1]
        own, when = slice(first, row + 1), TIMES[row] + 1.7
        leads = records[row].time_since(np.array(when))
        found = naive_forecasts(records[row], np.where(np.isinf(leads), 0.0, leads))
        for j in range(3):
            seen = ~np.isnan(VALUES[own, j])
            expected = plain(TIMES[own][seen], VALUES[own, j][seen], when)
            assert found[j].tolist() == pytest.approx([expected[name] for name in NAIVE])
            assert np.isinf(leads[j]) == (not seen.any())


def test_records_grow_row_by_row():
    records = Records.blank(len(LENGTHS), 3)
    for k in range(max(LENGTHS)):
        own = np.flatnonzero(np.array(LENGTHS) > k)
        rows = OFFSETS[own] + k
        mask = ~np.isnan(VALUES[rows])
        packed = records.pack()
        packed[own] = (
            records[own].updated(TIMES[rows], VALUES[rows], mask, no_inputs(len(own))).pack()
        )
        records = Records.unpack(packed)
        expected = records_at(TIMES, VALUES, OFFSETS, rows, no_inputs(len(TIMES))).columns
        for column, wanted in zip(records[own].columns, expected, strict=True):
            np.testing.assert_allclose(column, wanted, rtol=1e-13, atol=1e-13)


def test_no_series_takes_the_digits_of_another():
    values, offsets = np.array([[1e300], [3.0], [4.0]]), np.array([0, 1, 3])
    asked = np.array([0, 2]), no_inputs(3)
    records = records_at(np.array([0.0, 0.0, 1.0]), values, offsets, *asked)
    assert naive_forecasts(records[1], np.zeros(1))[0, NAIVE.index("mean")] == 3.5


def test_all_that_starts_from_the_last_value_is_there_at_no_lead():
    records = records_at(TIMES, VALUES, OFFSETS, OFFSETS[1:] - 1, no_inputs(len(TIMES)))
    found = naive_forecasts(records, np.zeros((4, 3)))
    for name in ("local_drift", "drift"):
        np.testing.assert_array_equal(found[..., NAIVE.index(name)], found[..., 0])
