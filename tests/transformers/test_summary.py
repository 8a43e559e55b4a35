"""Summary statistics against pandas and plain loops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode import SummaryStatsTransformer
from skpolyode.embedders.direct import STATISTICS


def plainly(times, x, duration, n_rows, mean):
    """The statistics of one channel, one after the other."""
    seen = ~np.isnan(x)
    n = seen.sum()
    if n == 0:
        return [mean, 0, mean, mean, mean, mean, 0, 0, 0, 0, duration, duration]
    t, x = times[seen], pd.Series(x[seen])
    gaps = np.diff(t) if n > 1 else np.array([duration])
    slope = np.polyfit(t - t.mean(), x, 1)[0] if n > 1 else 0.0
    change = x.diff().abs().mean() if n > 1 else 0.0
    levels = [x.mean(), x.std(ddof=0), x.min(), x.max(), x.iloc[0], x.iloc[-1]]
    return [*levels, change, slope, n, n / n_rows, gaps.mean(), gaps.max()]


@given(st.integers(0, 2**20))
def test_statistics(seed):
    rng = np.random.default_rng(seed)
    series = []
    for n in rng.integers(1, 9, 4):
        values = rng.normal(size=(n, 3)) * 10
        values[rng.uniform(size=values.shape) < 0.4] = np.nan
        values[0, 0] = 3.0
        series.append((np.sort(rng.uniform(0, 5, n)), values))
    train = [*series, ([0.0], [[1.0, 2.0, 3.0]])]
    embedder = SummaryStatsTransformer().fit(train)
    found = embedder.transform(series)
    for (times, values), own in zip(series, found, strict=True):
        kept = ~np.isnan(values).all(axis=1)
        times, values = times[kept], values[kept]
        duration = times[-1] - times[0]
        expected = [
            statistic
            for j in range(3)
            for statistic in plainly(
                times, values[:, j], duration, len(times), embedder.scaler_.mean[j]
            )
        ]
        np.testing.assert_allclose(own, [*expected, duration], atol=1e-9)


def test_names():
    embedder = SummaryStatsTransformer().fit([([0.0], [[1.0, 2.0]])])
    names = embedder.get_feature_names_out().tolist()
    assert names[: len(STATISTICS)] == [f"x0_{name}" for name in STATISTICS]
    assert names[-1] == "duration"
    assert len(names) == 2 * len(STATISTICS) + 1


@pytest.mark.parametrize("scale", [1e-300, 1e150, 1e300])
def test_finite_for_any_size_of_values(scale):
    series = [([0.0, 1.0, 3.0], np.array([1.0, -2.0, 0.5]) * scale), ([0.0], [scale])]
    found = SummaryStatsTransformer().fit_transform(series)
    assert np.isfinite(found).all()
    deviation = np.std([1.0, -2.0, 0.5]) * scale
    assert found[0, STATISTICS.index("std")] == pytest.approx(deviation)
