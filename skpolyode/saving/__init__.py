"""Saving and loading: fitted estimators in one file of numbers and text, without code."""

from skpolyode.saving.modules import register_module
from skpolyode.saving.objects import load, register_estimator

__all__ = ["load", "register_estimator", "register_module"]
