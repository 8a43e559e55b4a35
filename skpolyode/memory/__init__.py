"""Memories: exact online projection of a signal onto orthogonal polynomials (HiPPO).

A memory moves coefficients over gaps, adds the contribution of a known path, bridges innovations,
and turns coefficients back into the signal. Nothing here knows about networks.
"""

from skpolyode.memory.base import Memory
from skpolyode.memory.measures import (
    FouTMemory,
    LagTMemory,
    LegSMemory,
    LegTMemory,
    fout_matrices,
    lagt_matrices,
    legs_matrices,
    legt_basis,
    legt_matrices,
)

# Measures by name. A new one needs one class and one entry here.
MEMORIES: dict[str, type[Memory]] = {
    "legt": LegTMemory,
    "legs": LegSMemory,
    "lagt": LagTMemory,
    "fout": FouTMemory,
}

PATH_MEASURES = ("legt", "legs")
"""Those offered by trained models, whose memory follows a learned path."""

__all__ = [
    "MEMORIES",
    "PATH_MEASURES",
    "FouTMemory",
    "LagTMemory",
    "LegSMemory",
    "LegTMemory",
    "Memory",
    "fout_matrices",
    "lagt_matrices",
    "legs_matrices",
    "legt_basis",
    "legt_matrices",
]
