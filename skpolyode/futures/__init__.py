"""Futures of series as sampled joint paths, and the times at which they cross a line."""

from skpolyode.futures.samples import SamplePaths

__all__ = ["SamplePaths"]
