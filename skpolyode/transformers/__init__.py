"""Transformers: from ragged irregular series to fixed-length embeddings, and back."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily

if TYPE_CHECKING:
    from skpolyode.transformers.hippo import HiPPOTransformer as HiPPOTransformer
    from skpolyode.transformers.imputer import PanelImputer as PanelImputer
    from skpolyode.transformers.interpolation import (
        InterpolationTransformer as InterpolationTransformer,
    )
    from skpolyode.transformers.legendre_fit import LegendreFitTransformer as LegendreFitTransformer
    from skpolyode.transformers.polyode import PolyODETransformer as PolyODETransformer
    from skpolyode.transformers.resampler import Resampler as Resampler
    from skpolyode.transformers.static import StaticFeatures as StaticFeatures
    from skpolyode.transformers.summary import SummaryStatsTransformer as SummaryStatsTransformer
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "hippo": ["HiPPOTransformer"],
            "imputer": ["PanelImputer"],
            "interpolation": ["InterpolationTransformer"],
            "legendre_fit": ["LegendreFitTransformer"],
            "polyode": ["PolyODETransformer"],
            "resampler": ["Resampler"],
            "static": ["StaticFeatures"],
            "summary": ["SummaryStatsTransformer"],
        },
    )
