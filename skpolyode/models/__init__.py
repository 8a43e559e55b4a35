"""Sequence models: their contract, the data layout that they run on, and PolyODE."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily

if TYPE_CHECKING:
    from skpolyode.models.contract import Prediction as Prediction
    from skpolyode.models.contract import SequenceModel as SequenceModel
    from skpolyode.models.contract import Step as Step
    from skpolyode.models.packed import Packed as Packed
    from skpolyode.models.packed import pack as pack
    from skpolyode.models.polyode import PolyODE as PolyODE
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "contract": ["Prediction", "SequenceModel", "Step"],
            "packed": ["Packed", "pack"],
            "polyode": ["PolyODE"],
        },
    )
