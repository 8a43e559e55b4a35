"""Forecasts of panels, whose times and series need not fit into sktime's formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sktime.forecasting.base import BaseForecaster

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.inputs import with_inputs
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.paths import Answers, PathCalibration
from skpolyode.errors import check_share
from skpolyode.forecasting.engine import Trained, answer
from skpolyode.futures.continued import Ahead
from skpolyode.futures.sampling import SamplesFutures
from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.selection import align_to_fit
from skpolyode.structural.forecaster import StructuralModels
from skpolyode.transformers.neural import NeuralTransformer

FITTED = (*(f"{name}_" for name in Trained._fields), "channel_names_", "has_channel_names_")
"""Attributes that training sets."""

_MOMENT = 1e-6  # typical gaps after the last row, which itself has an in-sample forecast
_N_LEVELS = 50  # quantiles that a variance is computed from


class PanelForecaster(SamplesFutures, BaseForecaster):
    """Base of forecasters of any series, at any times, with intervals.

    Attributes
    ----------
    transformer_ : transformer
        The trained model.
    calibration_ : Calibration
        Half widths of the intervals, by channel and lead.
    path_calibration_ : PathCalibration
        Half widths between observations.
    structural_ : StructuralModels or None
        Models of level, trend and season; None with ten series or more.
    channel_names_ : tuple of str
        Names of the channels in training.
    has_channel_names_ : bool
        Whether these names were given; channels are then matched by name.
    """

    transformer_: NeuralTransformer
    structural_: StructuralModels | None
    calibration_: Calibration
    path_calibration_: PathCalibration

    @property
    def _trained(self) -> Trained:
        return Trained(*(getattr(self, f"{name}_") for name in Trained._fields))

    def forecast(
        self, y: Any, times: Any, relative_to: str | None = None, *, inputs: Any = None
    ) -> Panel:
        """Forecast any series with the trained model, which does not change.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, with the channels of training.
        times : array-like of shape (Q,) or list of such
            Times from the first row on, for all series or for each; in the units and of the type of
            the series' times. Times up to the last row get in-sample values, as in `predict`.
        relative_to : {"start", "end"} or None, default=None
            Count `times` from the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times, like those of
            the series.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs in addition to those of the series; see `PolyODETransformer.forecast`.

        Returns
        -------
        Panel
            All channels at these times.

        Raises
        ------
        ValueError
            If a time is before the first row of its series.
        """
        return self.forecast_quantiles(y, times, [0.5], relative_to, inputs=inputs)[0.5]

    def interpolate(self, y: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Values at any times: the path between observations, and forecasts after the last one.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, as in `forecast`.
        times : array-like of shape (Q,), list of such or None, default=None
            Times, as in `forecast`. None: the times of the series.
        relative_to : {"start", "end"} or None, default=None
            As in `forecast`.

        Returns
        -------
        Panel
            All channels at these times: the centres of `interpolate_interval`.

        See Also
        --------
        interpolate_interval : Intervals around these values.
        """
        panel, flat, offsets, answers = self._path(y, times, relative_to)
        return panel.like(flat, self._quantile(answers, 0.5), offsets)

    def interpolate_interval(
        self, y: Any, times: Any = None, coverage: float = 0.9, relative_to: str | None = None
    ) -> tuple[Panel, Panel]:
        """Intervals around `interpolate`, for values that were not observed.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            As in `interpolate`.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        coverage : float, default=0.9
            As in `forecast_interval`.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        tuple of two Panels
            The lower and the upper ends of intervals for an observation. Where a channel was
            observed, both are the observation, unless the transformer treats observations as noisy.
            After the last observation of a channel, the ends are those of `forecast_interval`.
            Before the first row, intervals are as wide as those of a forecast of equal lead.
        """
        check_share("coverage", coverage)
        panel, flat, offsets, answers = self._path(y, times, relative_to)
        lower, upper = (
            panel.like(flat, self._quantile(answers, (1 + side * coverage) / 2), offsets)
            for side in (-1, 1)
        )
        return lower, upper

    def _quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> list[np.ndarray]:
        answers = answer(self._trained, panel, times, offsets)
        return [self._quantile(answers, a) for a in alpha]

    def _path(
        self, y: Any, times: Any, relative_to: str | None
    ) -> tuple[Panel, np.ndarray, np.ndarray, Answers]:
        """Aligned series, query times (Q,), offsets of those of each series, and the answers."""
        panel = self._aligned(y)
        observed = panel.times, panel.offsets
        flat, offsets = observed if times is None else query_times(panel, times, relative_to)
        return panel, flat, offsets, answer(self._trained, panel, flat, offsets, path_at_rows=True)

    def _aligned(self, y: Any) -> Panel:
        """Panel with times since its start; channels are matched by name if both have names."""
        if self.state == "new":
            self.check_is_fitted()
        return align_to_fit(as_panel(y, name="y"), self, "y").since_start()

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        """Series with the channels of training, and additional inputs."""
        panel = self._aligned(X)
        if inputs is None:
            return panel
        encoder = self.transformer_.embedder_.inputs
        return with_inputs(panel, encoder, inputs, type(self).__name__)[0]

    def _forecasting(self) -> ModelEmbedder:
        if self.state == "new":
            self.check_is_fitted()
        return replace(self.transformer_.embedder_, calibration=self.calibration_)

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        # At the last row the forecaster answers with the forecast of that row.
        end = np.repeat(panel.end, np.diff(offsets))
        least = _MOMENT * self.transformer_.time_scale_
        later = np.maximum(times, end + np.maximum(least, 4 * np.spacing(np.abs(end))))
        answers = answer(self._trained, panel, later, offsets)
        return Ahead(answers.values, answers.leads, answers.signs, answers.expected)

    def _quantile(self, answers: Answers, alpha: float) -> np.ndarray:
        """Quantile (Q, D) in the units of the data, within limits; the median is the forecast."""
        widths = self._half_widths(answers, abs(2 * alpha - 1))
        ends = answers.values + np.sign(alpha - 0.5) * widths
        return np.clip(self.transformer_.scaler_.inverse(ends), answers.floor, answers.ceiling)

    def _variance(self, answers: Answers) -> np.ndarray:
        """Variance (Q, D): the mean square of half widths over levels, in the units of the data."""
        levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
        square = np.mean([self._half_widths(answers, level) ** 2 for level in levels], axis=0)
        return square * self.transformer_.scaler_.scale**2

    def _half_widths(self, answers: Answers, level: float) -> np.ndarray:
        """Half widths (Q, D) of the intervals at a level, in standard deviations."""
        return answers.half_widths(self.calibration_, self.path_calibration_, level)
