"""Transformers: from ragged irregular series to fixed-length embeddings, and back."""

from skpolyode.transformers.hippo import HiPPOTransformer
from skpolyode.transformers.imputer import PanelImputer
from skpolyode.transformers.interpolation import InterpolationTransformer
from skpolyode.transformers.legendre_fit import LegendreFitTransformer
from skpolyode.transformers.polyode import PolyODETransformer
from skpolyode.transformers.resampler import Resampler
from skpolyode.transformers.static import StaticFeatures
from skpolyode.transformers.summary import SummaryStatsTransformer

__all__ = [
    "HiPPOTransformer",
    "InterpolationTransformer",
    "LegendreFitTransformer",
    "PanelImputer",
    "PolyODETransformer",
    "Resampler",
    "StaticFeatures",
    "SummaryStatsTransformer",
]
