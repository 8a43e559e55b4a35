"""Level, trend and season of a series: taken out before the dynamics are learned, put back after.

Each forecast knows only what came before it: the parts are fitted to the rows up to its origin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from skpolyode.panel import Panel
from skpolyode.panel.select import series_of_rows, take
from skpolyode.saving.codec import saved

__all__ = ["Decomposed", "Decomposition"]

_LONGEST_PAST = 1000  # rows that parts are fitted to: of long series the last ones
_MOST_HARMONICS = 6
_RIDGE = 0.5  # rows that speak for no season
_TREND_RIDGE = 0.02  # and for no trend
_ROUNDS = 3  # of reweighting
_OUTLIER = 3.0  # standard deviations (of a normal distribution of the same median) that count fully
_ROWS_OF_PRIOR = 4.0  # that speak for the usual scale of series of this level


class Decomposed(NamedTuple):
    """What is left of the past of O origins, each as a series of its own, and how to go back."""

    panel: Panel  # O series that end in their origins
    parts: np.ndarray  # float64 (O, p, D): coefficients of level, trend and season
    scale: np.ndarray  # float64 (O, D)
    end: np.ndarray  # float64 (O,): times of the origins
    span: float  # that times are divided by in the trend

    def of(self, which: np.ndarray) -> Self:
        """As many as `which` (Q,) says, without the series."""
        return self._replace(
            panel=None, parts=self.parts[which], scale=self.scale[which], end=self.end[which]
        )


@saved
@dataclass(frozen=True, eq=False)
class Decomposition:
    """What is taken out of series.

    Parameters
    ----------
    trend : bool
        Whether a line is.
    periods : tuple of float
        Of the seasons, in the units of `times`.
    by_series : bool
        Whether each series has a level and a scale of its own.
    gap : float
        Typical time between observations.
    span : float
        Typical length of a series.
    usual : float64 ndarray of shape (D, 2)
        Logarithm of the scale of series of this channel, by that of their level: slope, and
        value where that is 0.
    moments : float64 ndarray of shape (2, D)
        Means and standard deviations of the channels of all series.
    """

    trend: bool
    periods: tuple[float, ...]
    by_series: bool
    gap: float
    span: float
    usual: np.ndarray
    moments: np.ndarray

    def left(self, panel: Panel) -> Panel:
        """What is left of whole series."""
        if self.is_none:
            return panel
        return self.remove(panel, panel.offsets[1:] - 1, longest=None).panel

    @property
    def is_none(self) -> bool:
        """Whether nothing is taken out."""
        return not (self.trend or self.periods or self.by_series)

    @property
    def _ridge(self) -> np.ndarray:
        """Of each function (p,) of the basis."""
        n_functions = self.basis(np.zeros(1)).shape[1]
        ridge = [1e-9, *[_TREND_RIDGE] * self.trend]
        return np.array([*ridge, *[_RIDGE] * (n_functions - len(ridge))])

    def basis(self, since: np.ndarray) -> np.ndarray:
        """Functions (n, p) of times (n,) since an origin: level, trend and harmonics."""
        columns = [np.ones_like(since)]
        if self.trend:
            columns.append(since / self.span)
        for period in self.periods:
            n_harmonics = int(np.clip(period / (2 * self.gap), 1, _MOST_HARMONICS))
            for k in range(1, n_harmonics + 1):
                angle = 2 * np.pi * k * since / period
                columns += [np.cos(angle), np.sin(angle)]
        return np.stack(columns, axis=1)

    def remove(
        self, panel: Panel, origins: np.ndarray, longest: int | None = _LONGEST_PAST
    ) -> Decomposed:
        """Take them out of the rows up to each origin (O,), the last known row of its series.

        These are at most the `longest` last ones; None: all.
        """
        series = series_of_rows(panel)[origins]
        start = panel.offsets[:-1][series]
        if longest is not None:
            start = np.maximum(start, origins + 1 - longest)
        pasts, end = take(panel, series, start, origins + 1), panel.times[origins]
        since = pasts.times - np.repeat(end, pasts.lengths)
        basis, values = self.basis(since), np.empty_like(pasts.values)
        parts = np.zeros((len(origins), basis.shape[1], panel.n_channels))
        scale = np.ones((len(origins), panel.n_channels))
        for i, rows in enumerate(map(slice, pasts.offsets[:-1], pasts.offsets[1:])):
            for j in range(panel.n_channels):
                x = pasts.values[rows, j]
                seen = ~np.isnan(x)
                parts[i, :, j] = _fitted(basis[rows][seen], x[seen], self._ridge)
                values[rows, j] = x - basis[rows] @ parts[i, :, j]
                if self.by_series:
                    scale[i, j] = self._scale(j, parts[i, 0, j], values[rows, j][seen])
        values /= np.repeat(scale, pasts.lengths, axis=0)
        left = Panel.from_rows(replace(pasts.rows, values=values), checked=False)
        return Decomposed(left, parts, scale, end, self.span)

    def _scale(self, channel: int, level: float, left: np.ndarray) -> float:
        """Root mean square of what is left, with that of the usual series of this level."""
        slope, at_one = self.usual[channel]
        usual = np.exp(at_one + slope * np.log(max(abs(level), 1e-300)))
        squares = left @ left + _ROWS_OF_PRIOR * usual**2
        return float(np.sqrt(squares / (len(left) + _ROWS_OF_PRIOR))) or 1.0

    def base(self, adjusted: Decomposed, times: np.ndarray) -> np.ndarray:
        """What was taken out (Q, D), at times (Q,), one of each origin."""
        return np.einsum("qp,qpd->qd", self.basis(times - adjusted.end), adjusted.parts)


def _fitted(basis: np.ndarray, x: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Coefficients (p,) of least squares in which outliers count less (Huber's weights)."""
    if not len(x):
        return np.zeros(basis.shape[1])
    if basis.shape[1] == 1:
        return np.array([x.mean()])
    level = np.median(x)
    x, weight = x - level, np.ones(len(x))
    for _ in range(_ROUNDS):
        weighted = basis * weight[:, None]
        found = np.linalg.solve(weighted.T @ basis + np.diag(ridge), weighted.T @ x)
        wrong = np.abs(x - basis @ found)
        limit = _OUTLIER * 1.4826 * np.median(wrong)
        weight = np.where(wrong > limit, limit / np.maximum(wrong, 1e-300), 1.0)
    found[0] += level
    return found
