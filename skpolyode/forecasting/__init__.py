"""Forecasting: continue irregular series, with prediction intervals, and score forecasts."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from skpolyode.errors import require
from skpolyode.forecasting.evaluation import evaluate_forecasts

__all__ = ["evaluate_forecasts"]

if TYPE_CHECKING:
    from skpolyode.forecasting.forecaster import PolyODEForecaster as PolyODEForecaster
else:
    _FORECASTER = "PolyODEForecaster"
    __all__ += [_FORECASTER] if find_spec("sktime") else []

    def __getattr__(name):
        if name != _FORECASTER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        require("sktime", extra="sktime", what=name)
        return import_module("skpolyode.forecasting.forecaster").PolyODEForecaster
