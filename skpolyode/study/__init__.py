"""Study: the choices of the paper and the solvers that it compares."""

from skpolyode.study.coupled import SOLVERS, CoupledPolyODE
from skpolyode.study.paper import ORIGINS, UPDATES, PaperPolyODE
from skpolyode.study.transformer import GRADIENTS, PaperPolyODETransformer

__all__ = [
    "GRADIENTS",
    "ORIGINS",
    "SOLVERS",
    "UPDATES",
    "CoupledPolyODE",
    "PaperPolyODE",
    "PaperPolyODETransformer",
]
