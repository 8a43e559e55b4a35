"""Classifiers and regressors of irregular series: a transformer, features and a head."""

from skpolyode.heads.estimators import PolyODEClassifier, PolyODERegressor
from skpolyode.heads.features import MiniRocket

__all__ = ["MiniRocket", "PolyODEClassifier", "PolyODERegressor"]
