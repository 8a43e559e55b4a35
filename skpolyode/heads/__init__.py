"""Classifiers and regressors: an embedding or a resampled path, and what learns from it."""

from skpolyode.heads.classifier import PolyODEClassifier
from skpolyode.heads.minirocket import MiniRocket
from skpolyode.heads.regressor import PolyODERegressor

__all__ = ["MiniRocket", "PolyODEClassifier", "PolyODERegressor"]
