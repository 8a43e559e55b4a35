"""Records of what is known of a series, against plain loops, and row by row."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.ensemble.member import SPANS, Records
from tests.ensemble.cases import rows_of, single

RNG = np.random.default_rng(0)
LENGTHS = [7, 1, 12, 3]
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
TIMES = np.concatenate([np.cumsum(RNG.exponential(size=n)) for n in LENGTHS])
TIMES -= np.repeat(TIMES[OFFSETS[:-1]], LENGTHS)
VALUES = np.where(RNG.random((sum(LENGTHS), 3)) < 0.4, np.nan, RNG.normal(size=(sum(LENGTHS), 3)))
VALUES[OFFSETS[2] : OFFSETS[3], 1] = np.nan  # never seen in this series


def known_of(times, values, offsets, asked) -> np.ndarray:
    return Records.known_at(rows_of(times, values, offsets), np.asarray(asked))


def test_each_is_that_of_a_plain_loop():
    cells = known_of(TIMES, VALUES, OFFSETS, np.arange(len(TIMES)))
    records = Records.of(cells)
    for row, cell in enumerate(cells):
        first = OFFSETS[np.searchsorted(OFFSETS, row, side="right") - 1]
        own, when = slice(first, row + 1), TIMES[row] + 1.7
        leads = Records.of(cell).time_since(np.array(when))
        for j in range(3):
            seen = ~np.isnan(VALUES[own, j])
            t, x = TIMES[own][seen], VALUES[own, j][seen]
            assert np.isinf(leads[j]) == (not len(x))
            if not len(x):
                assert not cell[j].any()
                continue
            assert leads[j] == when - t[-1]
            assert records.last[row, j] == x[-1]
            assert records.mean[row, j] == pytest.approx(x.mean())
            weights = np.exp((t - t[-1]) / SPANS[:, None])
            np.testing.assert_allclose(records.totals[row, j], weights.sum(axis=1))
            means = [np.average(x, weights=own) for own in weights]
            np.testing.assert_allclose(records.means[row, j], means, atol=1e-12)


def test_records_grow_row_by_row():
    cells = Records.start(len(LENGTHS), 3)
    for k in range(max(LENGTHS)):
        own = np.flatnonzero(np.array(LENGTHS) > k)
        rows = OFFSETS[own] + k
        new = single(rows_of(TIMES, VALUES, OFFSETS), rows)
        cells[own] = Records.updated(cells[own], new)
        expected = known_of(TIMES, VALUES, OFFSETS, rows)
        np.testing.assert_allclose(cells[own], expected, rtol=1e-13, atol=1e-13)


def test_long_series_are_summed_as_short_ones():
    """Over gaps of very different lengths, up to 3000 rows and a million gaps back."""
    rng, n = np.random.default_rng(0), 3000
    times = np.cumsum(rng.exponential(size=n) ** 4 * 20)
    values, none = rng.standard_normal((n, 1)).cumsum(axis=0), np.zeros(1)
    cells = Records.start(1, 1)
    for t, x in zip(times, values, strict=True):
        cells = Records.updated(cells, rows_of(none + t, x[None], np.arange(2)))
    found = known_of(times, values, np.array([0, n]), [n - 1])
    np.testing.assert_allclose(found, cells, rtol=1e-12)


def test_no_series_takes_the_digits_of_another():
    values, offsets = np.array([[1e300], [3.0], [4.0]]), np.array([0, 1, 3])
    records = Records.of(known_of(np.array([0.0, 0.0, 1.0]), values, offsets, [0, 2]))
    assert records.mean[1, 0] == 3.5
    share = np.exp(-1.0 / SPANS)
    np.testing.assert_allclose(records.means[1, 0], (3 * share + 4) / (share + 1))
