"""Sequence models: their contract, the data layout that they run on, and PolyODE."""

from typing import TYPE_CHECKING

from skpolyode.lazy import lazily

if TYPE_CHECKING:
    from skpolyode.models.contract import Packed as Packed
    from skpolyode.models.contract import Prediction as Prediction
    from skpolyode.models.contract import SequenceModel as SequenceModel
    from skpolyode.models.contract import Step as Step
    from skpolyode.models.contract import pack as pack
    from skpolyode.models.polyode import PolyODE as PolyODE
else:
    __getattr__, __dir__, __all__ = lazily(
        __name__,
        {
            "contract": ["Packed", "Prediction", "SequenceModel", "Step", "pack"],
            "polyode": ["PolyODE"],
        },
    )
