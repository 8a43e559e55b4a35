"""Streams: embeddings that follow series as observations come in, in constant memory."""

from skpolyode.streams.model import ModelStream
from skpolyode.streams.paths import HiPPOStream

__all__ = ["HiPPOStream", "ModelStream"]
