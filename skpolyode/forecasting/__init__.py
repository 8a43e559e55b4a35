"""Forecasting: continue irregular series, with prediction intervals, and score forecasts."""

from skpolyode.forecasting.evaluation import evaluate_forecasts
from skpolyode.forecasting.forecaster import PolyODEForecaster

__all__ = ["PolyODEForecaster", "evaluate_forecasts"]
