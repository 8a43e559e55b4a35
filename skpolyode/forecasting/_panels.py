"""What sktime's interface cannot say: other series, real times, files without code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sktime.forecasting.base import BaseForecaster

from skpolyode.forecasting._calibration import Calibration
from skpolyode.forecasting._engine import Answers, answer
from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.query import name_query
from skpolyode.saving.objects import save_by_name
from skpolyode.transformers import PolyODETransformer

__all__ = ["PanelForecasts", "unnamed"]


def unnamed(panel: Panel) -> Panel:
    """Panel with channels named by position, since sktime's names differ between its formats."""
    return Panel(panel.times, panel.values, panel.offsets, time_unit=panel.time_unit)


class PanelForecasts:
    """Forecasts by a trained model, for a forecaster to inherit."""

    state: str
    embedder_: PolyODETransformer
    calibration_: Calibration
    save = save_by_name(BaseForecaster.save)

    def forecast(self, y: Any, times: Any) -> Panel:
        """Continue any series with the trained model; what was fitted is left as it is.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, with the channels that the model was trained on.
        times : array-like of shape (Q,) or list of such
            Times from the first row on, for all series or for each; in the units and of the type
            of the series' times. Earlier ones are answered as in `predict`.

        Returns
        -------
        Panel
            All channels at these times.

        Raises
        ------
        ValueError
            If a time is before the first row of its series.
        """
        panel, flat, offsets, answers = self._answer_panel(y, times)
        return panel.like(flat, self._quantile(answers, 0.5), offsets)

    def forecast_quantiles(self, y: Any, times: Any, alpha: Sequence[float]) -> dict[float, Panel]:
        """Quantiles of the forecasts of any series.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, as in `forecast`.
        times : array-like of shape (Q,) or list of such
            Times, as in `forecast`.
        alpha : sequence of float
            Probabilities between 0 and 1.

        Returns
        -------
        dict of float to Panel
            For each probability the quantile of all channels at these times.
        """
        wrong = [a for a in alpha if not 0 < a < 1]
        if wrong:
            raise ValueError(f"alpha must lie between 0 and 1, got {wrong[0]!r}.")
        panel, flat, offsets, answers = self._answer_panel(y, times)
        return {a: panel.like(flat, self._quantile(answers, a), offsets) for a in alpha}

    def _answer_panel(self, y: Any, times: Any) -> tuple[Panel, np.ndarray, np.ndarray, Answers]:
        if self.state == "new":
            self.check_is_fitted()
        panel = as_panel(y, name="y")
        flat, offsets = query_times(panel, times)
        ahead = flat - np.repeat(panel.times[panel.offsets[:-1]], np.diff(offsets))
        if (ahead < 0).any():
            first = int(np.argmax(ahead < 0))
            series = int(np.searchsorted(offsets, first, side="right")) - 1
            raise ValueError(
                f"{name_query(panel, series, flat[first], -ahead[first])} before its first row "
                f"({int((ahead < 0).sum())} such times): nothing is known from there."
            )
        answers = answer(self.embedder_, self.calibration_, unnamed(panel), flat, offsets)
        return panel, flat, offsets, answers

    def _quantile(self, answers: Answers, alpha: float) -> np.ndarray:
        """Quantile (Q, D) in the units of the data; the median is the forecast itself."""
        widths = self.calibration_.half_widths(answers.leads, abs(2 * alpha - 1))
        return self.embedder_.scaler_.inverse(answers.values + np.sign(alpha - 0.5) * widths)
