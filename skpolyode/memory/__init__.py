"""Memories: exact online projection of a signal onto orthogonal polynomials (HiPPO).

This layer knows no networks. A memory moves coefficients over gaps, adds what a known path
contributes, bridges innovations, and turns coefficients back into the signal.
"""

from skpolyode.memory.base import Memory
from skpolyode.memory.legt import LegTMemory, legt_basis, legt_matrices

MEMORIES: dict[str, type[LegTMemory]] = {"legt": LegTMemory}
"""Measures by the name that users give; a new one is one file and one entry here."""

__all__ = ["MEMORIES", "LegTMemory", "Memory", "legt_basis", "legt_matrices"]
