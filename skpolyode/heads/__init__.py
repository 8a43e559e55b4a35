"""Classifiers and regressors of irregular series: a transformer, features and a head."""

from skpolyode.heads.classifier import PolyODEClassifier
from skpolyode.heads.minirocket import MiniRocket
from skpolyode.heads.regressor import PolyODERegressor

__all__ = ["MiniRocket", "PolyODEClassifier", "PolyODERegressor"]
