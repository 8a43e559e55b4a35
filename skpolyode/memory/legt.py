"""The translated Legendre measure: a uniform window that slides along with time.

The matrices and tables are in units of the window (window = 1); :class:`LegTMemory` converts.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.polynomial import legendre

from skpolyode.memory.base import Memory
from skpolyode.memory.tables import ResponseTable, TransitionTable

__all__ = ["LegTMemory", "legt_basis", "legt_matrices"]


def legt_matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Matrices of the LegT memory ``dc/dt = A c + B f`` for a window of length one.

    ``A[n, m] = -sqrt((2n+1)(2m+1)) * (1 if m <= n else (-1)**(n-m))`` and
    ``B[n] = sqrt(2n+1)``. For a window `W` divide both by `W`.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients `N` (degrees 0 to N-1).

    Returns
    -------
    A : ndarray of shape (N, N)
    B : ndarray of shape (N,)

    Notes
    -----
    This is the corrected form of Appendix A of De Brouwer & Krishnan (2023), where both cases
    of `A` are printed with the same condition. ``A e_0 = -B``: a constant is a fixed point.

    Examples
    --------
    >>> from skpolyode.memory import legt_matrices
    >>> A, B = legt_matrices(2)
    >>> A.round(3).tolist()
    [[-1.0, 1.732], [-1.732, -3.0]]
    """
    n = np.arange(n_coefficients)
    norm = np.sqrt(2.0 * n + 1.0)
    sign = np.where(n[:, None] >= n[None, :], 1.0, (-1.0) ** (n[:, None] - n[None, :]))
    return -np.outer(norm, norm) * sign, norm


def legt_basis(position: np.ndarray, n_coefficients: int) -> np.ndarray:
    r"""Orthonormal Legendre polynomials on the window.

    Parameters
    ----------
    position : array-like of shape (...)
        Place in the window: 0 is its old end, 1 is now.
    n_coefficients : int
        Number of polynomials `N`.

    Returns
    -------
    ndarray of shape (..., N)
        ``sqrt(2n+1) P_n(2 position - 1)``; orthonormal for the uniform density on [0, 1].

    Examples
    --------
    >>> from skpolyode.memory import legt_basis
    >>> legt_basis([1.0], 3).round(3).tolist()
    [[1.0, 1.732, 2.236]]
    """
    y = 2.0 * np.asarray(position, dtype=np.float64) - 1.0
    return legendre.legvander(y, n_coefficients - 1) * np.sqrt(2.0 * np.arange(n_coefficients) + 1)


class LegTMemory(Memory):
    r"""Memory of the last `window`, uniformly weighted (HiPPO-LegT), exact over any gap.

    ``dc/dt = (A c + B f) / window`` with the matrices of :func:`legt_matrices`; the past is
    ``f(s) ~ sum_n c_n sqrt(2n+1) P_n(2 (s - t) / window + 1)`` for s in [t - window, t].

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients a channel. More resolve faster wiggles: about pi coefficients a
        period within the window are needed.
    window : float
        Length of the remembered past, in the units of the gaps and ages given later.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.

    Examples
    --------
    A constant is remembered exactly over any gap:

    >>> import torch
    >>> from skpolyode.memory import LegTMemory
    >>> memory = LegTMemory(4, window=2.0)
    >>> c = memory.constant(torch.tensor([[3.0]], dtype=torch.float64))
    >>> gap = torch.tensor([0.7], dtype=torch.float64)
    >>> memory.reconstruct(c, torch.tensor([[0.0, 1.0, 2.0]]).double(), gap).squeeze().tolist()
    [3.0, 3.0, 3.0]
    """

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
        self.transitions, self.responses = _tables(n_coefficients, dtype, self.device)
        units = [self.window**k for k in range(4)]
        self._units = torch.tensor(units, dtype=torch.float64, device=device)

    @property
    def horizon(self) -> float:
        """Age beyond which a knot is forgotten to 1e-16."""
        return self.responses.horizon * self.window

    def propagate(self, c: torch.Tensor, gap: torch.Tensor, elapsed: torch.Tensor) -> torch.Tensor:
        """Coefficients after `gap` of a signal that is zero: ``exp(A gap / window) c``."""
        return self.transitions.apply(c, gap / self.window)

    def respond(
        self, steps: torch.Tensor, age: torch.Tensor, elapsed: torch.Tensor
    ) -> torch.Tensor:
        """Coefficients of knots, `age` after them; a q-th derivative scales as window**q."""
        return self.responses.apply(steps * self._units[: steps.shape[-1]], age / self.window)

    def basis(self, age: torch.Tensor, elapsed: torch.Tensor) -> torch.Tensor:
        """Polynomials at times `age` before now."""
        position = 1.0 - age.detach().cpu().numpy() / self.window
        return torch.from_numpy(legt_basis(position, self.n_coefficients)).to(age.device)


@lru_cache(maxsize=16)
def _tables(
    n_coefficients: int, dtype: torch.dtype, device: torch.device
) -> tuple[TransitionTable, ResponseTable]:
    """Tables for a window of one, shared by all memories: 20 to 100 ms to build at N = 32."""
    A, B = legt_matrices(n_coefficients)
    return TransitionTable(A, dtype, device), ResponseTable(A, B, device)
