"""Saving and loading: fitted estimators in one file that holds numbers and text, never code."""

from skpolyode.saving.objects import load

__all__ = ["load"]
