"""Transformers: from ragged irregular series to fixed-length embeddings, and back."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily

if TYPE_CHECKING:
    from skpolyode.transformers.imputer import PanelImputer as PanelImputer
    from skpolyode.transformers.imputer import Resampler as Resampler
    from skpolyode.transformers.polyode import PolyODETransformer as PolyODETransformer
    from skpolyode.transformers.untrained import HiPPOTransformer as HiPPOTransformer
    from skpolyode.transformers.untrained import (
        InterpolationTransformer as InterpolationTransformer,
    )
    from skpolyode.transformers.untrained import LegendreFitTransformer as LegendreFitTransformer
    from skpolyode.transformers.untrained import StaticFeatures as StaticFeatures
    from skpolyode.transformers.untrained import SummaryStatsTransformer as SummaryStatsTransformer
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "imputer": ["PanelImputer", "Resampler"],
            "polyode": ["PolyODETransformer"],
            "untrained": [
                "HiPPOTransformer",
                "InterpolationTransformer",
                "LegendreFitTransformer",
                "StaticFeatures",
                "SummaryStatsTransformer",
            ],
        },
    )
