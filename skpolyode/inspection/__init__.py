"""Importance of observations, channels or stretches of time, and channels that are broken."""

from skpolyode.inspection.channels import channel_errors
from skpolyode.inspection.display import ImportanceDisplay
from skpolyode.inspection.importance import observation_importance

__all__ = ["ImportanceDisplay", "channel_errors", "observation_importance"]
