"""Streams: embeddings that follow series as observations come in, in constant memory."""

from skpolyode.embedders import Embedder, ModelEmbedder
from skpolyode.streams.kinds import HiPPOStream, ModelStream
from skpolyode.streams.stream import SeriesStream, merge

__all__ = ["HiPPOStream", "ModelStream", "merge"]


def stream_class(embedder: Embedder) -> type[SeriesStream]:
    """Class of streams for an embedder."""
    return ModelStream if isinstance(embedder, ModelEmbedder) else HiPPOStream
