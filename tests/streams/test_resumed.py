"""A stream that goes on from series is one that has taken in every row by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.streams.cases import VARIANTS, fitted
from tests.transformers.data import Pairs, short_oscillators


def row_by_row(transformer: Any, series: Pairs) -> Any:
    """Stream that has taken in every row by itself: nothing of the batch's code is in it."""
    stream = transformer.stream(len(series))
    for k, (times, values) in enumerate(series):
        for time, row in zip(times, values, strict=True):
            stream.update(time, row, series=k)
    return stream


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_a_channel_last_seen_in_the_first_row_is_gone_on_from(name, n_rows):
    """Also in the very first row of all."""
    transformer = fitted(name)
    series = [(t[:8], x[:8].copy()) for t, x in short_oscillators(3, seed=7)]
    for k, (_, x) in enumerate(series):
        x[0], x[1:n_rows, k % 2] = [0.4, -0.7], np.nan
        x[1:, 1 - k % 2] = 0.3
    resumed = transformer.stream([(t[:n_rows], x[:n_rows]) for t, x in series])
    for k, (t, x) in enumerate(series):
        resumed.update(t[n_rows:], x[n_rows:], k)
    expected = row_by_row(transformer, series).embedding()
    np.testing.assert_allclose(resumed.embedding(), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(transformer.transform(series), expected, rtol=0, atol=1e-10)
