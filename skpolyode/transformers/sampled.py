"""Sampled futures of transformers: what they know of their forecasts and of the errors of these."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.trained_model import take_known
from skpolyode.futures.errors import Ahead, KnownErrors
from skpolyode.futures.sampling import SamplesFutures
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import time_since_seen
from skpolyode.panel.units import Units
from skpolyode.transformers.input import read_panel, warn_of_unknown_inputs


class SampledTransformer(SamplesFutures):
    """Mixin of transformers that forecast."""

    embedder_: ModelEmbedder

    def _error_calibration(self) -> KnownErrors | None:
        check_is_fitted(self)
        return self.embedder_.calibration

    def _forecast_units(self) -> tuple[Units, bool]:
        return self.embedder_.units, self.embedder_.filters

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        return read_panel(self, X, reset=False, inputs=inputs)

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        warn_of_unknown_inputs(panel, times, offsets)
        model, last = self.embedder_, panel.offsets[1:] - 1
        known, series = model.known(panel), series_index(offsets)
        values = model.forecast_values(panel, times, offsets, known=known)
        since = model.elapsed(panel, times, series)
        expected = model.stacking.expected_errors(take_known(known, series), since)
        leads = time_since_seen(panel, last[series], times)
        own = panel.offsets, last[series], expected
        signs = model.calibration.signs(model.standardised(panel).values, *own)
        return Ahead(model.units.scaler.transform(values), leads, signs, np.ones(values.shape))
