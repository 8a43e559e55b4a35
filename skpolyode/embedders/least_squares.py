"""Least squares on the polynomials, at the observed points only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from skpolyode.embedders.direct import DirectEmbedder
from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.embedders.paths import ChannelRows, split_channels
from skpolyode.memory import legt_basis
from skpolyode.panel.select import Observed
from skpolyode.saving.codec import saved
from skpolyode.units import Units

__all__ = ["LeastSquaresEmbedder"]

_SMALLEST_PENALTY = 1e-9
_NOTHING = 1e-8  # singular values, beside the largest, that the points say nothing about
_BLOCK_ROWS = 16_384  # padded rows fitted at once: 4 MB of basis at N = 32


@saved
@dataclass(frozen=True, eq=False)
class LeastSquaresEmbedder(DirectEmbedder):
    """Coefficients of the penalised fit to the observations in the window.

    They minimise ``mean_i (x_i - f(t_i))**2 + alpha sum_n n (n+1) c_n**2``.

    Parameters
    ----------
    units : Units
        The unit of time is the window.
    past : MemoryReadout
        How coefficients are read.
    alpha : float
        Weight of the penalty, in variances of the channel.

    Examples
    --------
    >>> from skpolyode import LegendreFitTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = LegendreFitTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> embedder.alpha, embedder.features(panel).shape
    (1e-05, (2, 4))
    """

    units: Units
    past: MemoryReadout
    alpha: float

    def coefficients_of(self, rows: Observed) -> np.ndarray:
        """Coefficients (B, D, N) of some series."""
        duration, series, size = rows.end - rows.start, rows.series, self.past.n_coefficients
        age = (duration[series] - rows.times) / self.past.window
        scaler = self.units.scaler
        values = scaler.read(rows.values)
        result = np.zeros((len(duration), values.shape[1], size))
        n = np.arange(size)
        penalty = self.alpha * n * (n + 1.0)
        # A penalty decides what the points leave open, if rounding leaves anything of it.
        solve = _solve if self.alpha >= _SMALLEST_PENALTY else _solve_shortest
        for group in split_channels(age, values, series):
            group = _in_window(group)
            for members, chosen in _blocks(group.series):
                result[members[:, None], group.channels] = solve(group, chosen, penalty)
        return result


def _in_window(rows: ChannelRows) -> ChannelRows:
    """Rows within the window, where `times` are ages in windows; the last one is kept anyway."""
    last = np.append(rows.series[1:] != rows.series[:-1], True)
    kept = last | (rows.times <= 1.0 + 1e-9)  # the start of the longest series, but for rounding
    return ChannelRows(
        rows.channels, rows.series[kept], np.minimum(rows.times[kept], 1.0), rows.values[kept]
    )


def _blocks(series: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Series of similar length: which (b,), and the rows of each (b, L), -1 where padded."""
    members, starts, counts = np.unique(series, return_index=True, return_counts=True)
    order = np.argsort(counts, kind="stable")
    members, starts, counts = members[order], starts[order], counts[order]
    at = 0
    while at < len(members):
        fits = counts[at:] * np.arange(1, len(members) - at + 1) <= _BLOCK_ROWS
        stop = at + max(1, int(fits.argmin()) if not fits.all() else len(fits))
        place = np.arange(counts[stop - 1])
        inside = place < counts[at:stop, None]
        yield members[at:stop], np.where(inside, starts[at:stop, None] + place, -1)
        at = stop


def _solve(rows: ChannelRows, chosen: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """Coefficients (b, D, N) from rows (b, L) of the group."""
    basis = legt_basis(1.0 - rows.times[chosen], len(penalty)) * (chosen >= 0)[..., None]
    count = (chosen >= 0).sum(axis=1)[:, None, None]
    gram = basis.mT @ basis / count + np.diag(penalty)
    right = basis.mT @ rows.values[chosen] / count
    return np.linalg.solve(gram, right).mT


def _solve_shortest(rows: ChannelRows, chosen: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    """The same without a penalty to speak of: the shortest of all solutions.

    A series at a time and without padding, as rounding decides what counts as a solution: what
    else is in the block must not.
    """
    size, result = len(penalty), []
    for own in chosen:
        own = own[own >= 0]
        basis = legt_basis(1.0 - rows.times[own], size)  # (L, N)
        left = np.concatenate([basis, np.diag(np.sqrt(len(own) * penalty))])
        right = np.concatenate([rows.values[own], np.zeros((size, rows.values.shape[1]))])
        result.append(np.linalg.lstsq(left, right, rcond=_NOTHING)[0].T)
    return np.stack(result)
