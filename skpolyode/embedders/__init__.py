"""Fitted objects that embed, reconstruct and forecast, without scikit-learn."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily
from skpolyode.panel.units import ChannelScaler as ChannelScaler
from skpolyode.panel.units import Units as Units

if TYPE_CHECKING:
    from skpolyode.embedders.base import Embedder as Embedder
    from skpolyode.embedders.base import MemoryReadout as MemoryReadout
    from skpolyode.embedders.direct import LeastSquaresEmbedder as LeastSquaresEmbedder
    from skpolyode.embedders.direct import PathEmbedder as PathEmbedder
    from skpolyode.embedders.direct import SummaryEmbedder as SummaryEmbedder
    from skpolyode.embedders.model import ModelEmbedder as ModelEmbedder
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": ["Embedder", "MemoryReadout"],
            "direct": ["LeastSquaresEmbedder", "PathEmbedder", "SummaryEmbedder"],
            "model": ["ModelEmbedder"],
        },
    )
    __all__ += ["ChannelScaler", "Units"]
