"""Importance of observations, channels or periods, and forecast errors of single channels."""

from skpolyode.inspection.channels import channel_errors
from skpolyode.inspection.importance import ImportanceDisplay, observation_importance

__all__ = ["ImportanceDisplay", "channel_errors", "observation_importance"]
