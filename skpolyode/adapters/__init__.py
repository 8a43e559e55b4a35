"""Adapters: the transformers of this package inside other libraries."""

from skpolyode.adapters.resampling import SeriesResampler
from skpolyode.adapters.sktime import SeriesFeatures

__all__ = ["SeriesFeatures", "SeriesResampler"]
