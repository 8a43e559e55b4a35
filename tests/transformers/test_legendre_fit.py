"""Least squares on the polynomials, against a plain solution series by series."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode import HiPPOTransformer, LegendreFitTransformer
from skpolyode.memory import legt_basis
from tests.closeness import assert_same_but_for_rounding


def plain_fit(times, values, end, window, size, alpha):
    kept = times >= end - window
    basis = legt_basis(1 - (end - times[kept]) / window, size)
    n = np.arange(size)
    weights = np.concatenate([basis / np.sqrt(kept.sum()), np.diag(np.sqrt(alpha * n * (n + 1)))])
    right = np.concatenate([values[kept] / np.sqrt(kept.sum()), np.zeros(size)])
    return np.linalg.lstsq(weights, right, rcond=None)[0]


@given(st.integers(0, 2**20), st.sampled_from([1e-6, 1e-3, 1.0]))
def test_minimises_the_stated_sum(seed, alpha):
    rng = np.random.default_rng(seed)
    series = []
    for n in rng.integers(1, 12, 5):
        values = rng.normal(size=(n, 2))
        values[: n // 2, 0] = np.nan
        values[-1] = 1.0
        series.append((np.sort(rng.uniform(0, 5, n)), values))
    embedder = LegendreFitTransformer(n_coefficients=6, alpha=alpha, window=2.0).fit(series)
    found = embedder.transform(series).reshape(5, 2, 6)
    for (times, values), own in zip(series, found, strict=True):
        scaled = embedder.scaler_.transform(values)
        for j in range(2):
            seen = ~np.isnan(values[:, j])
            expected = plain_fit(times[seen], scaled[seen, j], times[-1], 2.0, 6, alpha)
            np.testing.assert_allclose(own[j], expected, atol=1e-6)


def test_many_series_of_different_lengths_fill_several_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    series = [(np.sort(rng.uniform(0, 4, n)), rng.normal(size=n)) for n in rng.integers(1, 30, 60)]
    embedder = LegendreFitTransformer(n_coefficients=8).fit(series)
    whole = embedder.transform(series)
    monkeypatch.setattr("skpolyode.embedders.direct.CHUNK_ROWS", 64)
    np.testing.assert_allclose(embedder.transform(series), whole, atol=1e-9)


def test_nothing_does_better_at_the_observed_points():
    """It is the ceiling: without a penalty no other coefficients fit the points better."""
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 3, 80))
    series = [(times, np.sin(4 * times) + 0.3 * rng.normal(size=80))]
    errors = []
    for cls in (LegendreFitTransformer, HiPPOTransformer):
        embedder = cls(n_coefficients=12, window=times[-1] - times[0])
        past = embedder.fit(series).reconstruct(series).values
        errors.append(np.square(past[:, 0] - series[0][1]).mean())
    assert errors[0] < errors[1]


def test_polynomials_are_fitted_exactly():
    times = np.array([0.0, 0.4, 0.5, 1.1, 1.7, 2.0, 2.1])
    series = [(times, 1 + times - 2 * times**3)]
    embedder = LegendreFitTransformer(n_coefficients=4, alpha=0.0, window=2.1).fit(series)
    past = embedder.reconstruct(series, [0.2, 0.9, 1.9])
    np.testing.assert_allclose(past.values[:, 0], 1 + past.times - 2 * past.times**3, atol=1e-9)


def test_fewer_points_than_coefficients_without_a_penalty():
    """The shortest of all exact fits."""
    series = [([0.0, 0.2, 1.0], [1.0, 3.0, 2.0])]
    embedder = LegendreFitTransformer(n_coefficients=9, alpha=0.0, window=1.0).fit(series)
    np.testing.assert_allclose(embedder.reconstruct(series).values[:, 0], [1, 3, 2], atol=1e-7)


def test_a_channel_seen_only_before_the_window_is_held():
    series = [([0.0, 1.0, 5.0, 5.5], [[1.0, 3.0], [2.0, 4.0], [0.0, np.nan], [1.0, np.nan]])]
    embedder = LegendreFitTransformer(n_coefficients=4, window=1.0).fit(series)
    past = embedder.reconstruct(series, [4.6, 5.5]).values[:, 1]
    np.testing.assert_allclose(past, 4.0, atol=1e-3)


def test_a_negative_penalty_is_refused():
    with pytest.raises(ValueError, match="The 'alpha' parameter"):
        LegendreFitTransformer(alpha=-1.0).fit([([0.0, 1.0], [1.0, 2.0])])


@pytest.mark.parametrize("alpha", [0.0, 1e-18])
def test_without_a_penalty_batch_mates_do_not_matter(alpha):
    """Where the points leave coefficients open, and where they nearly do."""
    rng = np.random.default_rng(0)
    series = [(np.sort(rng.uniform(0, 4, n)), rng.normal(size=n)) for n in (2, 5, 7, 8, 9, 12, 30)]
    series += [(np.array([0.0, 1e-7, 2e-7, 3.0]), rng.normal(size=4))]
    embedder = LegendreFitTransformer(n_coefficients=8, alpha=alpha, window=4.0).fit(series)
    together = embedder.transform(series)
    for k, one in enumerate(series):
        # Nearly open coefficients multiply what is rounded.
        assert_same_but_for_rounding(embedder.transform([one])[0], together[k], 1e-9)
        if k < 7 and alpha == 0:
            values = embedder.scaler_.transform(one[1][:, None])[:, 0]
            expected = plain_fit(one[0], values, one[0][-1], 4.0, 8, 0.0)
            close = 1e-6 * abs(expected).max()
            np.testing.assert_allclose(together[k], expected, rtol=0, atol=close)
