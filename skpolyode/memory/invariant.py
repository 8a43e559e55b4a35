"""Measures that move along with time: ``dc/dt = (A c + B f) / unit`` with constant matrices."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np
import torch

from skpolyode.memory.base import Array, Memory, Time
from skpolyode.memory.impulses import ImpulseTable, impulse_table
from skpolyode.memory.tables import ResponseTable, TransitionTable

__all__ = ["InvariantMemory"]


class InvariantMemory(Memory):
    r"""Memory that weighs the past by age alone, exact over any gap.

    A subclass is a pair of matrices and its polynomials, both in a unit of time of its own.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients a channel.
    window : float
        Length of the remembered past, in the units of the gaps and ages given later.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.
    """

    units_per_window = 1.0
    """How many of the measure's own units of time a window is."""

    response_spacing: float | None = None
    """Grid of the response table in these units; None is that of Legendre polynomials."""

    def __init__(
        self,
        n_coefficients: int,
        window: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        super().__init__(n_coefficients, dtype=dtype, device=device)
        self.window = float(window)
        self.unit = self.window / self.units_per_window
        self.transitions, self.responses = _tables(type(self), n_coefficients, dtype, self.device)
        units = [self.unit**k for k in range(4)]
        self._units = torch.tensor(units, dtype=torch.float64, device=device)

    @staticmethod
    @abstractmethod
    def matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
        """`A` (N, N) and `B` (N,) in the measure's own unit of time."""

    @staticmethod
    @abstractmethod
    def polynomials(age: np.ndarray, n_coefficients: int) -> np.ndarray:
        """Polynomials (..., N) at an age in the measure's own unit of time."""

    @property
    def horizon(self) -> float:
        """Age beyond which a knot is forgotten to 1e-16."""
        return self.responses.horizon * self.unit

    @property
    def impulses(self) -> ImpulseTable:
        """Table of the responses to short stretches of signal."""
        return impulse_table(self.responses)

    def unit_at(self, elapsed: float) -> float:
        """The measure's own unit of time, always the same."""
        return self.unit

    def relative_age(self, age: Array, elapsed: Array | float) -> Array:
        """Ages in the measure's unit of time."""
        return age / self.unit

    def relative_gap(self, gap: Time, elapsed: Time) -> Time:
        """Gaps in the measure's unit of time, in which it is ``exp(A gap)`` that forgets."""
        return gap / self.unit

    def respond(
        self, steps: torch.Tensor, age: torch.Tensor, elapsed: torch.Tensor
    ) -> torch.Tensor:
        """Coefficients of knots, `age` after them; a q-th derivative scales as unit**q."""
        return self.responses.apply(steps * self._units[: steps.shape[-1]], age / self.unit)

    def impulse(
        self, strength: torch.Tensor, age: torch.Tensor, elapsed: torch.Tensor
    ) -> torch.Tensor:
        """Coefficients of clusters of impulses."""
        return self.impulses.apply(strength / self.unit, age / self.unit)

    @property
    def longest_cluster(self) -> float:
        """Longest cluster of impulses, in the measure's unit of time."""
        return self.impulses.radius

    def basis(self, age: torch.Tensor, elapsed: torch.Tensor) -> torch.Tensor:
        """Polynomials at times `age` before now."""
        own = age.detach().cpu().numpy() / self.unit
        return torch.from_numpy(self.polynomials(own, self.n_coefficients)).to(age.device)


@lru_cache(maxsize=32)
def _tables(
    measure: type[InvariantMemory], n_coefficients: int, dtype: torch.dtype, device: torch.device
) -> tuple[TransitionTable, ResponseTable]:
    """Tables in the measure's own unit, shared by all memories: 20 to 100 ms at N = 32."""
    A, B = measure.matrices(n_coefficients)
    responses = ResponseTable(A, B, device, spacing=measure.response_spacing)
    return TransitionTable(A, dtype, device), responses
