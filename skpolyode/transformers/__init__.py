"""Transformers: from ragged irregular series to fixed-length embeddings, and back."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily

if TYPE_CHECKING:
    from skpolyode.transformers.hippo import HiPPOTransformer
    from skpolyode.transformers.imputer import PanelImputer
    from skpolyode.transformers.interpolation import InterpolationTransformer
    from skpolyode.transformers.legendre_fit import LegendreFitTransformer
    from skpolyode.transformers.polyode import PolyODETransformer
    from skpolyode.transformers.resampler import Resampler
    from skpolyode.transformers.static import StaticFeatures
    from skpolyode.transformers.summary import SummaryStatsTransformer
else:
    _HOMES = {
        "HiPPOTransformer": "hippo",
        "InterpolationTransformer": "interpolation",
        "LegendreFitTransformer": "legendre_fit",
        "PanelImputer": "imputer",
        "PolyODETransformer": "polyode",
        "Resampler": "resampler",
        "StaticFeatures": "static",
        "SummaryStatsTransformer": "summary",
    }
    __getattr__, __dir__ = lazily(__name__, _HOMES)

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
