"""Importance of observations, channels or periods, and forecast errors of single channels."""

from skpolyode.inspection.importance import (
    ImportanceDisplay,
    channel_errors,
    observation_importance,
)

__all__ = ["ImportanceDisplay", "channel_errors", "observation_importance"]
