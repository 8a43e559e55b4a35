"""Sequence models: their contract, the data layout that they run on, and PolyODE."""

from skpolyode.models.contract import Prediction, SequenceModel, Step
from skpolyode.models.packed import Packed, pack
from skpolyode.models.polyode import PolyODE

__all__ = [
    "Packed",
    "PolyODE",
    "Prediction",
    "SequenceModel",
    "Step",
    "pack",
]
