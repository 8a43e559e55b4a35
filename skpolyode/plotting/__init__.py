"""Displays of embeddings, reconstructions, forecasts and trainings, like those of scikit-learn.

A display is made from arrays, or from a fitted estimator and series by `from_estimator`; `plot`
draws it, optionally on given axes, and keeps the artists as attributes. The first plot loads
matplotlib.
"""

from skpolyode.plotting.models import ReliabilityDisplay, TrainingDisplay
from skpolyode.plotting.series import (
    CoefficientDisplay,
    CrossingDisplay,
    ForecastDisplay,
    ReconstructionDisplay,
    RiskDisplay,
)

__all__ = [
    "CoefficientDisplay",
    "CrossingDisplay",
    "ForecastDisplay",
    "ReconstructionDisplay",
    "ReliabilityDisplay",
    "RiskDisplay",
    "TrainingDisplay",
]
