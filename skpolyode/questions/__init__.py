"""A path and its questions: values, slopes, means and integrals, and their uncertainty."""

from skpolyode.questions.path import Path

__all__ = ["Path"]
