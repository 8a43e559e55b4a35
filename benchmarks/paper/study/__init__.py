"""PolyODE with the choices of the paper, and the solvers that the paper compares.

Import this package before you load a file with one of its estimators.
"""

from benchmarks.paper.study.coupled import SOLVERS, CoupledPolyODE
from benchmarks.paper.study.paper import ORIGINS, UPDATES, PaperPolyODE
from benchmarks.paper.study.transformer import GRADIENTS, PaperPolyODETransformer

__all__ = [
    "GRADIENTS",
    "ORIGINS",
    "SOLVERS",
    "UPDATES",
    "CoupledPolyODE",
    "PaperPolyODE",
    "PaperPolyODETransformer",
]
