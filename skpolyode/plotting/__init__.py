"""Displays: figures of what a memory holds and of what a forecast says, in scikit-learn's style.

A display is made of arrays, or of a fitted estimator and series by `from_estimator`; `plot` draws
it, on axes of yours if you like, and keeps the artists as attributes. matplotlib is loaded by the
first plot.
"""

from skpolyode.plotting.coefficients import CoefficientDisplay
from skpolyode.plotting.forecast import ForecastDisplay
from skpolyode.plotting.reconstruction import ReconstructionDisplay
from skpolyode.plotting.reliability import ReliabilityDisplay

__all__ = ["CoefficientDisplay", "ForecastDisplay", "ReconstructionDisplay", "ReliabilityDisplay"]
