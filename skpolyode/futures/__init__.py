"""Futures of series as samples: joint courses, and when they cross a line."""

from skpolyode.futures.samples import SamplePaths

__all__ = ["SamplePaths"]
