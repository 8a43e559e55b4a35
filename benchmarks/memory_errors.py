"""Two errors of the sliding memory: that of projecting onto polynomials, and of its equation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.polynomial import legendre
from numpy.typing import ArrayLike
from scipy.special import zeta

from skpolyode.memory import LegTMemory, legt_basis
from skpolyode.memory.tables import gauss_nodes


def reconstruction_error_bound(
    lipschitz: float,
    jumps: ArrayLike = (),
    jump_ages: ArrayLike | None = None,
    *,
    window: float,
    n_coefficients: int,
    form: str = "sharp",
    constants: tuple[float, float, float] = (1.0, 1.0, 1.0),
) -> float:
    r"""Bound on the error of projecting a signal onto the polynomials of its window.

    Parameters
    ----------
    lipschitz : float
        Largest slope of the signal between its jumps, in units of value per unit of time.
    jumps : array-like of shape (K,), default=()
        Sizes of the jumps within the window, for example the innovations at observations.
    jump_ages : array-like of shape (K,) or None, default=None
        Time of each jump before now, in [0, window]; needed by "sharp" if there are jumps.
    window : float
        Length of the window, in the units of the times.
    n_coefficients : int
        Number of coefficients `N`.
    form : {"sharp", "position_free", "paper"}, default="sharp"
        "sharp" uses the ages of the jumps; "position_free" holds wherever they are; "paper" is the
        printed Result 3.1, see the notes.
    constants : tuple of float, default=(1.0, 1.0, 1.0)
        C0, C1 and C2 of "paper", which does not specify them.

    Returns
    -------
    float
        Bound on the root mean square error over the window.

    Raises
    ------
    ValueError
        If `form` is unknown, or ages of jumps are missing, too many or outside the window.

    Warns
    -----
    UserWarning
        With ``form="paper"``: that expression is not a bound.

    See Also
    --------
    legt_closure_error : The error that the memory's equation adds to that of the projection.

    Notes
    -----
    With b the position of a jump J in the window scaled to [-1, 1], the bound is

    .. math::

        \frac{W L}{\sqrt{6 N (N+1)}} + \sum_i |J_i| \sqrt{T_N(b_i)}, \qquad
        T_N(b) = \frac{1 - b}{2} - \frac{(1-b)^2}{4}
        - \sum_{n=1}^{N-1} \frac{(P_{n-1}(b) - P_{n+1}(b))^2}{4 (2n+1)}.

    The first term follows from ``sum n (n+1) c_n^2 = 1/2 int (1 - y^2) f'(y)^2 dy``, the second
    is the exact error of unit steps, superposed. T vanishes at both ends: a jump now costs
    nothing. "position_free" replaces it by ``kappa / N``, with kappa = 1/4 for N = 1 and 3/16
    above: a constant that was checked numerically for every N up to 130, not proved.

    "paper" is the root of ``C0 W^2 L^2 (K+1)^2 / (N (2N-1)) + (C1 W L (K+1) S + C2 S^2) zeta(3/2,
    N)`` with K jumps and S the sum of their sizes. Its derivation does not hold (a sum is replaced
    by a product, an absolute value is taken after an integral, the jumps are assumed in the inner
    part of the window): with C0 = 1/8, as derived there, zigzags without any jump exceed the first
    term. It also bounds a squared error that grows with the number of jumps whatever their size,
    and falls more slowly with N. It is here for comparison.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023, Result 3.1.

    Examples
    --------
    >>> from benchmarks.memory_errors import reconstruction_error_bound
    >>> bound = reconstruction_error_bound(2.0, [0.5], [1.0], window=5.0, n_coefficients=32)
    >>> round(bound, 3)
    0.157
    """
    sizes = np.abs(np.asarray(jumps, dtype=np.float64)).ravel()
    rise = window * lipschitz
    if form == "paper":
        warnings.warn(
            'form="paper" is the printed Result 3.1 with constants of your choice; it is not a '
            'bound. Use form="sharp" or "position_free".',
            stacklevel=2,
        )
        N, pieces, total = n_coefficients, len(sizes) + 1, sizes.sum()
        first = constants[0] * (rise * pieces) ** 2 / (N * (2 * N - 1))
        others = constants[1] * rise * pieces * total + constants[2] * total**2
        return math.sqrt(first + others * zeta(1.5, N))
    smooth = rise / math.sqrt(6 * n_coefficients * (n_coefficients + 1))
    if form == "sharp":
        ages = np.asarray(() if jump_ages is None else jump_ages, dtype=np.float64).ravel()
        if len(ages) != len(sizes):
            raise ValueError(
                f"jump_ages must hold one age for each of the {len(sizes)} jumps, got {len(ages)}; "
                'form="position_free" needs none.'
            )
        if not ((ages >= 0) & (ages <= window)).all():
            raise ValueError(
                f"jump_ages must be in [0, {window:g}], the window; got {ages.tolist()}."
            )
        b, n = 1 - 2 * ages / window, np.arange(1, n_coefficients)
        values = legendre.legvander(b, n_coefficients)  # (K, N + 1)
        gains = (values[:, n - 1] - values[:, n + 1]) ** 2 / (4 * (2 * n + 1))
        tails = np.maximum((1 - b) / 2 - ((1 - b) / 2) ** 2 - gains.sum(axis=1), 0.0)
    elif form == "position_free":
        # The largest N T_N(b) over b and N >= 2, found numerically for N <= 130; exact for N = 1.
        kappa = 3 / 16 if n_coefficients > 1 else 1 / 4
        tails = np.full(len(sizes), kappa / n_coefficients)
    else:
        raise ValueError(f'form must be "sharp", "position_free" or "paper", got {form!r}.')
    return float(smooth + sizes @ np.sqrt(tails))


def legt_closure_error(
    signal: Callable[[np.ndarray], np.ndarray],
    *,
    window: float,
    n_coefficients: int,
    time: float = 0.0,
    breaks: Sequence[float] = (),
) -> float:
    r"""Distance between the memory's coefficients and the projection of the signal.

    The equation of the sliding window needs the value that leaves it, and takes it from the
    reconstruction. The coefficients are therefore not exactly the projection of the last window.

    Parameters
    ----------
    signal : callable
        Maps times (M,) to values (M,). It is evaluated over several windows before `time`, as far
        back as the memory reaches.
    window : float
        Length of the window, in the units of the times.
    n_coefficients : int
        Number of coefficients `N`.
    time : float, default=0.0
        Moment at which the coefficients are compared.
    breaks : sequence of float, default=()
        Times at which the signal or its slope jumps. Pass all that lie before `time`, or the
        integrals are not accurate.

    Returns
    -------
    float
        Euclidean distance of the coefficients: the root mean square difference, over the window,
        of the two reconstructions.

    See Also
    --------
    reconstruction_error_bound : Bound on the error of the projection itself.

    Examples
    --------
    >>> import numpy as np
    >>> from benchmarks.memory_errors import legt_closure_error
    >>> legt_closure_error(np.sin, window=5.0, n_coefficients=32) < 1e-12
    True
    """
    memory = LegTMemory(n_coefficients, window)
    # Panels that are short against both the polynomials and the window.
    width = window / max(8.0, n_coefficients**2 / 64)
    start = time - memory.horizon
    inner = [b for b in breaks if start < b < time]
    edges = np.unique([start, time - window, time, *np.arange(time, start, -width), *inner])
    node, weight = gauss_nodes(24)
    length = np.diff(edges)[:, None]
    times = edges[:-1, None] + length * node
    strength = (signal(times.ravel()).reshape(times.shape) * length * weight).ravel()
    ages = time - times.ravel()
    impulses = memory.impulse(
        torch.from_numpy(strength)[:, None, None],
        torch.from_numpy(ages)[:, None],
        torch.zeros(len(ages), dtype=torch.float64),
    )
    remembered = impulses.sum(dim=0)[0].numpy()
    inside = ages <= window
    basis = legt_basis(1 - ages[inside] / window, n_coefficients)
    return float(np.linalg.norm(remembered - strength[inside] @ basis / window))
