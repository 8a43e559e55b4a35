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
    from skpolyode.embedders.model import ModelEmbedder as ModelEmbedder
    from skpolyode.embedders.summary import SummaryEmbedder as SummaryEmbedder
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "base": ["Embedder", "MemoryReadout"],
            "direct": ["LeastSquaresEmbedder", "PathEmbedder"],
            "model": ["ModelEmbedder"],
            "summary": ["SummaryEmbedder"],
        },
    )
    __all__ += ["ChannelScaler", "Units"]
