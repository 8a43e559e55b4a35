"""Records of what is known of a series, against plain loops, and row by row."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.ensemble.records import SPANS, Records, records_at
from tests.ensemble.cases import no_inputs

RNG = np.random.default_rng(0)
LENGTHS = [7, 1, 12, 3]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
TIMES = np.concatenate([np.cumsum(RNG.exponential(size=n)) for n in LENGTHS])
TIMES -= np.repeat(TIMES[OFFSETS[:-1]], LENGTHS)
VALUES = np.where(RNG.random((sum(LENGTHS), 3)) < 0.4, np.nan, RNG.normal(size=(sum(LENGTHS), 3)))
VALUES[OFFSETS[2] : OFFSETS[3], 1] = np.nan  # never seen in this series


def test_each_is_that_of_a_plain_loop():
    rows = np.arange(len(TIMES))
    records = records_at(TIMES, VALUES, OFFSETS, rows, no_inputs(len(TIMES)))
    for row in rows:
        first = OFFSETS[np.searchsorted(OFFSETS, row, side="right") - 1]
        own, when = slice(first, row + 1), TIMES[row] + 1.7
        leads = records[row].time_since(np.array(when))
        for j in range(3):
            seen = ~np.isnan(VALUES[own, j])
            t, x = TIMES[own][seen], VALUES[own, j][seen]
            assert np.isinf(leads[j]) == (not len(x))
            if not len(x):
                assert not records[row, j].pack().any()
                continue
            assert leads[j] == when - t[-1]
            assert records.last[row, j] == x[-1]
            assert records.mean[row, j] == pytest.approx(x.mean())
            weights = np.exp((t - t[-1]) / SPANS[:, None])
            np.testing.assert_allclose(records.totals[row, j], weights.sum(axis=1))
            means = [np.average(x, weights=own) for own in weights]
            np.testing.assert_allclose(records.means[row, j], means, atol=1e-12)


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


def test_long_series_are_summed_as_short_ones():
    """Over gaps of very different lengths, up to 3000 rows and a million gaps back."""
    rng, n = np.random.default_rng(0), 3000
    times = np.cumsum(rng.exponential(size=n) ** 4 * 20)
    values, none = rng.standard_normal((n, 1)).cumsum(axis=0), np.zeros(1)
    records, mask = Records.blank(1, 1), np.ones((1, 1), dtype=bool)
    for t, x in zip(times, values, strict=True):
        records = records.updated(none + t, x[None], mask, no_inputs(1))
    asked = np.array([0, n]), np.array([n - 1]), no_inputs(n)
    found = records_at(times, values, *asked)
    for column, wanted in zip(found.columns, records.columns, strict=True):
        np.testing.assert_allclose(column, wanted, rtol=1e-12)


def test_no_series_takes_the_digits_of_another():
    values, offsets = np.array([[1e300], [3.0], [4.0]]), np.array([0, 1, 3])
    asked = np.array([0, 2]), no_inputs(3)
    records = records_at(np.array([0.0, 0.0, 1.0]), values, offsets, *asked)
    assert records.mean[1, 0] == 3.5
    share = np.exp(-1.0 / SPANS)
    np.testing.assert_allclose(records.means[1, 0], (3 * share + 4) / (share + 1))
