"""The memory of one series, in numpy.

With so few numbers nearly all time goes into calls: torch takes two to four microseconds for one,
numpy one or less. Few series and single updates of streams are computed here, everything else by
:class:`~skpolyode.memory.base.Memory`; both read the same tables.
"""

from __future__ import annotations

import numpy as np

from skpolyode.cubic import hermite_derivatives
from skpolyode.memory.base import Memory
from skpolyode.memory.knots import LONGEST_PART, SHORTEST_GAP
from skpolyode.memory.tables import N_ORDERS


class SingleMemory:
    """Moves the memory of one series, as the memory that it is made from.

    Parameters
    ----------
    memory : Memory
        In float64, on the CPU.

    Attributes
    ----------
    horizon : float
        Age beyond which a knot is forgotten (may be infinite).
    """

    def __init__(self, memory: Memory) -> None:
        self.horizon = memory.horizon
        self._memory = memory
        transitions = memory.transitions
        self._tables = [table.numpy() for table in transitions.tables]
        self._spacing, self._base = transitions.spacing, transitions.base
        self._n_cells = transitions.n_cells
        terms = transitions.terms.numpy().reshape(-1, *transitions.A_T.shape)
        self._taylor = np.concatenate(terms, axis=1)  # c @ it: all terms of the series at once
        self._exponents = np.arange(len(terms))
        responses = memory.responses
        self._responses, self._grid = responses.table.numpy(), responses.spacing
        size = self._responses.shape[1]
        self._over_k = 1.0 / np.maximum(np.arange(size), 1.0)
        # Row q of the weights of steps are the Taylor terms, moved N_ORDERS - 1 - q places on.
        self._moved = np.arange(size) + np.arange(N_ORDERS)[:, None]

    def propagate(self, c: np.ndarray, gap: float, elapsed: float) -> np.ndarray:
        """Coefficients (D, N) after `gap` of a signal that is zero."""
        cells = self._memory.relative_gap(gap, elapsed) / self._spacing
        cell = min(round(min(cells, self._n_cells)), self._n_cells - 1)
        powers = min(cells - cell, 0.5) ** self._exponents
        c = powers @ (c @ self._taylor).reshape(len(c), len(powers), -1)
        for table in self._tables:
            c = c @ table[cell % self._base].T
            cell //= self._base
        return c

    def respond(self, steps: np.ndarray, age: np.ndarray, elapsed: float) -> np.ndarray:
        """Coefficients (P, D, N) of knots with `steps` (P, D, Q), `age` (P,) after them."""
        own = self._memory.relative_age(age, elapsed)
        cell = np.minimum(np.rint(own / self._grid), len(self._responses) - 1)
        offset = own - cell * self._grid
        n_orders = steps.shape[2]
        unit = self._memory.unit_at(elapsed)
        if unit < 1e100:
            units = unit ** np.arange(n_orders)
        else:  # as of the memory of many: no overflow
            units = np.array([1.0, unit, 1e300, 1e300][:n_orders])
        factors = np.empty((len(offset), len(self._over_k)))
        factors[:, 0] = 1.0
        factors[:, 1:n_orders] = offset[:, None]
        factors[:, n_orders:] = np.minimum(offset, self._grid)[:, None]
        # Taylor terms ``offset**k / k!`` (P, M), behind N_ORDERS - 1 zeros.
        terms = np.zeros((len(offset), len(self._over_k) + N_ORDERS - 1))
        np.cumprod(factors * self._over_k, axis=1, out=terms[:, N_ORDERS - 1 :])
        weights = (steps * units) @ terms[:, self._moved[:n_orders]]
        return weights @ self._responses[cell.astype(np.int64)]

    def follow(self, c: np.ndarray, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Coefficients (D, N) at the end of cubic pieces, all of the same length.

        `path` (2, K + 1, D) holds values and slopes; it is followed in the parts of
        :mod:`skpolyode.memory.knots`.
        """
        n_steps = path.shape[1] - 1
        c = self.propagate(c, n_steps * step, elapsed)
        for last in range(n_steps, 0, -LONGEST_PART):
            rest = (n_steps - last) * step
            if rest > self.horizon:
                break
            part = path[:, max(last - LONGEST_PART, 0) : last + 1]
            driven = self._driven(part, step, elapsed - rest)
            c = c + (self.propagate(driven, rest, elapsed) if rest else driven)
        return c

    def _driven(self, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Memory (D, N) of a path alone; those of its pieces that are forgotten are left out."""
        n_steps = path.shape[1] - 1
        n_kept = min(n_steps, 1 + int(min(self.horizon / step, n_steps)))
        age = np.arange(n_kept, 0, -1) * step
        step = max(step, SHORTEST_GAP)
        (y0, y1), (d0, d1) = ((part[:-1], part[1:]) for part in path[:, n_steps - n_kept :])
        curve_start, curve_end, jerk = hermite_derivatives((y1 - y0) / step, d0, d1, step)
        knots = np.zeros((*y0.shape, 4))
        knots[0, :, 0], knots[0, :, 1] = y0[0], d0[0]
        knots[..., 2], knots[..., 3] = curve_start, jerk
        knots[1:, :, 2] -= curve_end[:-1]
        knots[1:, :, 3] -= jerk[:-1]
        return self.respond(knots, age, elapsed).sum(axis=0)

    def hold(self, c: np.ndarray, value: np.ndarray, gap: float, elapsed: float) -> np.ndarray:
        """Coefficients (D, N) after a `gap` of the constant signal `value` (D,)."""
        response = self.respond(value[None, :, None], np.array([gap]), elapsed)
        return self.propagate(c, gap, elapsed) + response[0]
