"""Measures that move along with time: ``dc/dt = (A c + B f) / unit`` with constant matrices."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from skpolyode.memory.base import Array, Memory, Time
from skpolyode.memory.tables import N_ORDERS, ResponseTable, TransitionTable


class InvariantMemory(Memory):
    r"""Memory that weighs the past by age alone, exact over any gap.

    A subclass is a pair of matrices and its polynomials, both in a unit of time of the measure.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel.
    window : float
        Length of the remembered past, in the units of the gaps and ages given later.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.
    """

    units_per_window = 1.0  # length of a window in the measure's unit of time
    response_spacing: float | None = None  # of the grid in these units; None suits Legendre

    def __init__(
        self,
        n_coefficients: int,
        window: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        super().__init__(n_coefficients, float(window), dtype=dtype, device=device)
        self.unit = window / self.units_per_window
        units = [self.unit**q for q in range(N_ORDERS)]  # of the steps of q-th derivatives
        self._units = torch.tensor(units, dtype=torch.float64, device=device)

    @property
    def horizon(self) -> float:
        """Age beyond which a knot is forgotten to 1e-16."""
        return self.responses.horizon * self.unit

    @staticmethod
    @abstractmethod
    def matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
        """`A` (N, N) and `B` (N,) in the measure's unit of time."""

    @staticmethod
    @abstractmethod
    def polynomials(age: np.ndarray, n_coefficients: int) -> np.ndarray:
        """Polynomials (..., N) at an age in the measure's unit of time."""

    @classmethod
    @lru_cache(maxsize=32)
    def _tables(
        cls, n_coefficients: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[TransitionTable, ResponseTable]:
        """Tables in the measure's unit of time: 20 to 100 ms at N = 32."""
        A, B = cls.matrices(n_coefficients)
        responses = ResponseTable.of(A, B, device, cls.response_spacing)
        return TransitionTable(A, dtype, device), responses

    def unit_at(self, elapsed: float) -> float:
        """The measure's unit of time, always the same."""
        return self.unit

    def relative_age(self, age: Array, elapsed: Array | float) -> Array:
        """Ages in the measure's unit of time."""
        return age / self.unit

    def relative_gap(self, gap: Time, elapsed: Time) -> Time:
        """Gaps in the measure's unit of time: ``exp(A gap)`` forgets."""
        return gap / self.unit

    def respond(self, steps: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients of knots, `age` after them; a q-th derivative scales as unit**q."""
        return self.responses.apply(steps * self._units[: steps.shape[-1]], age / self.unit)

    def impulse(self, strength: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients of clusters of impulses."""
        return self.responses.impulses.apply(strength / self.unit, age / self.unit)

    def basis(self, age: Tensor, elapsed: Tensor) -> Tensor:
        """Polynomials at times `age` before now."""
        relative = age.detach().cpu().numpy() / self.unit
        return torch.from_numpy(self.polynomials(relative, self.n_coefficients)).to(age.device)
