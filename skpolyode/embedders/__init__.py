"""Fitted objects that embed, reconstruct and forecast, without scikit-learn."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily
from skpolyode.panel.units import ChannelScaler, Units

if TYPE_CHECKING:
    from skpolyode.embedders.base import Embedder
    from skpolyode.embedders.direct import LeastSquaresEmbedder, PathEmbedder
    from skpolyode.embedders.memory_readout import MemoryReadout
    from skpolyode.embedders.model import ModelEmbedder
    from skpolyode.embedders.summary import SummaryEmbedder
else:
    _HOMES = {
        "Embedder": "base",
        "LeastSquaresEmbedder": "direct",
        "MemoryReadout": "memory_readout",
        "ModelEmbedder": "model",
        "PathEmbedder": "direct",
        "SummaryEmbedder": "summary",
    }
    __getattr__, __dir__ = lazily(__name__, _HOMES)

__all__ = [
    "ChannelScaler",
    "Embedder",
    "LeastSquaresEmbedder",
    "MemoryReadout",
    "ModelEmbedder",
    "PathEmbedder",
    "SummaryEmbedder",
    "Units",
]
