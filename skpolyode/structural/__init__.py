"""Structural time series models at irregular times, filtered and averaged."""

from skpolyode.structural.forecaster import StructuralForecaster

__all__ = ["StructuralForecaster"]
