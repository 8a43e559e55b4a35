"""Irregular time series as ordinary data, for scikit-learn: neural ODEs with polynomial memory."""

from skpolyode.panel import Panel
from skpolyode.transformers import PolyODETransformer

__version__ = "0.1.0.dev0"

__all__ = ["Panel", "PolyODETransformer", "__version__"]
