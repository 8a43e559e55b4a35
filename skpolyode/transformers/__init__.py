"""Transformers: from ragged irregular series to fixed-length embeddings, and back."""

from skpolyode.transformers.polyode import PolyODETransformer

__all__ = ["PolyODETransformer"]
