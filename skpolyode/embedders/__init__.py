"""Fitted objects that embed, reconstruct and forecast, without scikit-learn."""

from skpolyode.embedders.base import Embedder
from skpolyode.embedders.direct import LeastSquaresEmbedder, PathEmbedder
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.summary import SummaryEmbedder
from skpolyode.panel.units import ChannelScaler, Units

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
