"""Sequence models: their contract, the data layout that they run on, and PolyODE."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily

if TYPE_CHECKING:
    from skpolyode.models.contract import Prediction, SequenceModel, Step
    from skpolyode.models.packed import Packed, pack
    from skpolyode.models.polyode import PolyODE
else:
    _HOMES = {
        "Packed": "packed",
        "PolyODE": "polyode",
        "Prediction": "contract",
        "SequenceModel": "contract",
        "Step": "contract",
        "pack": "packed",
    }
    __getattr__, __dir__ = lazily(__name__, _HOMES)

__all__ = [
    "Packed",
    "PolyODE",
    "Prediction",
    "SequenceModel",
    "Step",
    "pack",
]
