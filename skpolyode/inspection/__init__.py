"""Importance of observations, channels or stretches of time, by leaving them out."""

from skpolyode.inspection.display import ImportanceDisplay
from skpolyode.inspection.importance import observation_importance

__all__ = ["ImportanceDisplay", "observation_importance"]
