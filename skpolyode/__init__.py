"""Irregular time series as ordinary data, for scikit-learn: neural ODEs with polynomial memory."""

from skpolyode.heads import PolyODEClassifier, PolyODERegressor
from skpolyode.panel import Panel
from skpolyode.saving import load
from skpolyode.siblings import (
    GRUODEBayesTransformer,
    HiPPORNNTransformer,
    LinODENetTransformer,
    NeuralRDETransformer,
    ODERNNTransformer,
    PastDecoder,
    PolyODERNNTransformer,
    S4Transformer,
)
from skpolyode.transformers import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    PanelImputer,
    PolyODETransformer,
    Resampler,
    StaticFeatures,
    SummaryStatsTransformer,
)
from skpolyode.versions import show_versions

__version__ = "0.1.0.dev0"

__all__ = [
    "GRUODEBayesTransformer",
    "HiPPORNNTransformer",
    "HiPPOTransformer",
    "InterpolationTransformer",
    "LegendreFitTransformer",
    "LinODENetTransformer",
    "NeuralRDETransformer",
    "ODERNNTransformer",
    "Panel",
    "PanelImputer",
    "PastDecoder",
    "PolyODEClassifier",
    "PolyODERNNTransformer",
    "PolyODERegressor",
    "PolyODETransformer",
    "Resampler",
    "S4Transformer",
    "StaticFeatures",
    "SummaryStatsTransformer",
    "__version__",
    "load",
    "show_versions",
]
