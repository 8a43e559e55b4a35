"""Any combiner serves: what it knows of a series is its own affair, in forecasts as in streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skpolyode.panel.units import Standardised
from tests.quick import no_stacking
from tests.transformers.data import oscillators, small


class Peak:
    """Forecasts that approach the highest value of each channel."""

    leads, reads_inputs = np.array([0.0, np.inf]), False

    def start(self, n_series, n_channels):
        return {"highest": np.full((n_series, n_channels), -9.0)}

    def known_at(self, rows: Standardised, asked):
        start = rows.offsets[np.searchsorted(rows.offsets, asked, side="right") - 1]
        parts = [rows.values[i : j + 1] for i, j in zip(start, asked, strict=True)]
        return {"highest": np.array([np.nanmax(part, axis=0, initial=-9.0) for part in parts])}

    def updated(self, known, rows):
        return {"highest": np.fmax(known["highest"], rows.values)}

    def of_series(self, scaler, panel, rows, times):
        return {}, 1.0

    def combine(self, given, known, series, elapsed, driven):
        share = np.exp(-elapsed / 20)[:, None]
        return share * given["run"] + (1 - share) * known["highest"][series]


def test_forecasts_and_streams_combine_alike():
    series = oscillators(4)
    with no_stacking():
        model = small(n_coefficients=2, hidden_layer_sizes=(3,)).fit(series)
    alone = model.forecast(series, [1.0, 40.0], relative_to="end")
    model.embedder_ = replace(model.embedder_, stacking=Peak())
    found = model.forecast(series, [1.0, 40.0], relative_to="end")
    highest = [np.nanmax(values, axis=0) for _, values in series]
    assert np.abs(found.values - alone.values).max() > 0.1
    np.testing.assert_allclose(found.values[1::2], highest, atol=0.3)

    stream = model.stream(4)
    for number, (times, values) in enumerate(series):
        for time, row in zip(times, values, strict=True):
            stream = stream.update(time, row, series=number)
    again = stream.forecast([1.0, 40.0], relative_to="end")
    np.testing.assert_allclose(again.values, found.values, rtol=0, atol=1e-9)
    resumed = model.stream(series).forecast([1.0, 40.0], relative_to="end")
    np.testing.assert_allclose(resumed.values, found.values, rtol=0, atol=1e-9)
    plain = stream.forecast([1.0, 40.0], relative_to="end", combine=False)
    assert plain.values == pytest.approx(alone.values, abs=1e-9)
