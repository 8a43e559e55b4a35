"""Forecasting: continue irregular series, with prediction intervals, and score forecasts."""

from skpolyode.errors import require

require("sktime", extra="sktime", what="skpolyode.forecasting")

from skpolyode.forecasting.evaluation import evaluate_forecasts  # noqa: E402
from skpolyode.forecasting.forecaster import PolyODEForecaster  # noqa: E402

__all__ = ["PolyODEForecaster", "evaluate_forecasts"]
