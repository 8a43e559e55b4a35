"""Decomposition of series: level, trend and season are removed, and restored in forecasts.

Each forecast uses only what came before it: the components are fitted to the rows up to its origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from skpolyode.panel import Panel
from skpolyode.panel.select import observed_rows, series_of_rows, take
from skpolyode.panel.units import ChannelScaler, typical_gap
from skpolyode.saving.codec import saved

__all__ = [
    "FEWEST_VALUES",
    "LONGEST_PAST",
    "MAX_HARMONICS",
    "Decomposition",
    "DecompositionSettings",
    "Residuals",
    "choose_decomposition",
]

MAX_HARMONICS = 6  # of a season
LONGEST_PAST = 1000  # rows that a fit looks back on; of longer series the last ones
FEWEST_VALUES = 12  # to learn a few coefficients from


@dataclass(frozen=True)
class DecompositionSettings:
    """How components are fitted, and by how much forecasts have to gain from them."""

    season_ridge: float = 0.5  # rows that speak for no season
    trend_ridge: float = 0.02  # rows that speak for no trend
    n_reweightings: int = 3  # of outliers, in the robust regression
    outlier: float = 3.0  # standard deviations (from the median error), beyond which weights fall
    scale_prior: float = 4.0  # rows that speak for the scale that is usual at the series' level
    fewest_series: int = 4  # for their levels to be compared
    least_spread: float = 0.01  # variance of the logarithms of levels that are told apart


_SETTINGS = DecompositionSettings()


class Residuals(NamedTuple):
    """Residuals of the rows up to each of O origins, and the components that restore values."""

    panel: Panel  # O series that end in their origins, or the whole series if nothing was removed
    last: np.ndarray  # int64 (O,): rows of the origins in the panel
    end: np.ndarray  # float64 (O,): times of the origins
    scale: np.ndarray  # float64 (O, D): the residuals were divided by it
    coefficients: np.ndarray  # float64 (O, p, D): of level, trend and season
    decomposition: Decomposition | None  # None if nothing was removed

    @classmethod
    def unchanged(cls, panel: Panel, origins: np.ndarray) -> Self:
        """The values themselves."""
        shape = len(origins), panel.n_channels
        nothing = np.ones(shape), np.zeros((shape[0], 0, shape[1]))
        return cls(panel, origins, panel.times[origins], *nothing, None)

    def restoring(self, origin: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shift and scale, each (Q, D), that turn residuals at times (Q,) into values.

        `origin` (Q,) says which of the O origins each time belongs to.
        """
        if self.decomposition is None:
            return np.zeros((len(times), self.scale.shape[1])), self.scale[origin]
        basis = self.decomposition.basis(times - self.end[origin])
        return np.einsum("qp,qpd->qd", basis, self.coefficients[origin]), self.scale[origin]


@saved
@dataclass(frozen=True, eq=False)
class Decomposition:
    """Which components are removed from series.

    Parameters
    ----------
    trend : bool
        Whether a line is removed.
    periods : tuple of float
        Lengths of the seasons, in the units of `times`.
    by_series : bool
        Whether each series has a level and a scale of its own.
    gap : float
        Typical time between observations.
    span : float
        Typical length of a series.
    usual : float64 ndarray of shape (D, 2)
        Scale that is usual for series of some level: slope and intercept of the logarithm of the
        scale, as a line in the logarithm of the level.
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

    @property
    def is_none(self) -> bool:
        """Whether nothing is removed."""
        return not (self.trend or self.periods or self.by_series)

    def basis(self, since: np.ndarray) -> np.ndarray:
        """Functions (n, p) of times (n,) since an origin: level, trend and harmonics."""
        columns = [np.ones_like(since)]
        if self.trend:
            columns.append(since / self.span)
        for period in self.periods:
            n_harmonics = int(np.clip(period / (2 * self.gap), 1, MAX_HARMONICS))
            for k in range(1, n_harmonics + 1):
                angle = 2 * np.pi * k * since / period
                columns += [np.cos(angle), np.sin(angle)]
        return np.stack(columns, axis=1)

    def prior(self, scaler: ChannelScaler) -> tuple[np.ndarray, np.ndarray]:
        """Shift and scale (D,) of a series before its first row; `scaler` is that of residuals."""
        if self.is_none:
            return np.zeros_like(scaler.mean), np.ones_like(scaler.mean)
        scale = self.moments[1] / scaler.scale
        return self.moments[0] - scale * scaler.mean, scale

    def residuals(self, panel: Panel) -> Panel:
        """Residuals of whole series."""
        return self.remove(panel, panel.offsets[1:] - 1, longest=None).panel

    def remove(
        self, panel: Panel, origins: np.ndarray, longest: int | None = LONGEST_PAST
    ) -> Residuals:
        """Remove the components from the rows up to each origin (O,), a row of the panel.

        These are at most the `longest` last rows before it; None: all.
        """
        if self.is_none or not len(origins):
            return Residuals.unchanged(panel, origins)
        series = series_of_rows(panel)[origins]
        start = panel.offsets[:-1][series]
        if longest is not None:
            start = np.maximum(start, origins + 1 - longest)
        pasts, end = take(panel, series, start, origins + 1), panel.times[origins]
        basis = self.basis(pasts.times - np.repeat(end, pasts.lengths))
        ridge = np.full(basis.shape[1], _SETTINGS.season_ridge)
        ridge[: 1 + self.trend] = [1e-9, _SETTINGS.trend_ridge][: 1 + self.trend]
        values, scale = np.empty_like(pasts.values), np.ones((len(origins), panel.n_channels))
        coefficients = np.zeros((len(origins), basis.shape[1], panel.n_channels))
        for i, rows in enumerate(map(slice, pasts.offsets[:-1], pasts.offsets[1:])):
            for j in range(panel.n_channels):
                x = pasts.values[rows, j]
                seen = ~np.isnan(x)
                coefficients[i, :, j] = _robust_fit(basis[rows][seen], x[seen], ridge)
                values[rows, j] = x - basis[rows] @ coefficients[i, :, j]
                if self.by_series:
                    scale[i, j] = self._scale(j, coefficients[i, 0, j], values[rows, j][seen])
        values /= np.repeat(scale, pasts.lengths, axis=0)
        residuals = Panel.from_rows(replace(pasts.rows, values=values), checked=False)
        return Residuals(residuals, pasts.offsets[1:] - 1, end, scale, coefficients, self)

    def _scale(self, channel: int, level: float, residuals: np.ndarray) -> float:
        """Root mean square of the residuals, shrunk to what is usual at this level."""
        slope, at_one = self.usual[channel]
        usual = np.exp(at_one + slope * np.log(max(abs(level), 1e-300)))
        prior = _SETTINGS.scale_prior
        squares = residuals @ residuals + prior * usual**2
        return float(np.sqrt(squares / (len(residuals) + prior))) or 1.0


def _robust_fit(basis: np.ndarray, x: np.ndarray, ridge: np.ndarray) -> np.ndarray:
    """Coefficients (p,) of least squares in which outliers count less (Huber's weights)."""
    if not len(x):
        return np.zeros(basis.shape[1])
    if basis.shape[1] == 1:
        return np.array([x.mean()])
    level = np.median(x)
    x, weight = x - level, np.ones(len(x))
    for _ in range(_SETTINGS.n_reweightings):
        weighted = basis * weight[:, None]
        found = np.linalg.solve(weighted.T @ basis + np.diag(ridge), weighted.T @ x)
        wrong = np.abs(x - basis @ found)
        limit = _SETTINGS.outlier * 1.4826 * np.median(wrong)
        weight = np.where(wrong > limit, limit / np.maximum(wrong, 1e-300), 1.0)
    found[0] += level
    return found


def choose_decomposition(
    panel: Panel, *, detrend: bool | str, period: Sequence[float] | str | None, normalize: str
) -> Decomposition:
    """What to remove from the series of a panel, as the user asked.

    What is "auto" is left to the ensemble, whose members know trends, seasons and levels.

    Parameters
    ----------
    panel : Panel
        Without rows that hold no observation.
    detrend, period, normalize
        As in `PolyODEForecaster`.
    """
    rows = observed_rows(panel)
    span = float(np.median(rows.end - rows.start)) or 1.0
    scaler = ChannelScaler.of(rows.values)
    moments = np.stack([scaler.mean, scaler.scale])
    periods = () if period is None or isinstance(period, str) else tuple(period)
    parts = detrend is True, periods, normalize == "series"
    return Decomposition(*parts, typical_gap(rows), span, _usual_scales(panel), moments)


def _usual_scales(panel: Panel) -> np.ndarray:
    """Line (D, 2) of the logarithm of a series' scale in that of its level; see `Decomposition`."""
    found = np.zeros((panel.n_channels, 2))
    series = series_of_rows(panel)
    for j, x in enumerate(panel.values.T):
        seen = ~np.isnan(x)
        count = np.bincount(series[seen], minlength=panel.n_series)
        level = np.bincount(series[seen], x[seen], panel.n_series) / np.maximum(count, 1)
        squares = np.bincount(series[seen], (x - level[series])[seen] ** 2, panel.n_series)
        scale = np.sqrt(squares / np.maximum(count - 1, 1))
        some = (count > 1) & (scale > 0) & (level != 0)
        if not some.any():
            continue
        a, b = np.log(np.abs(level[some])), np.log(scale[some])
        spread = a.var()
        slope = np.clip(np.mean((a - a.mean()) * (b - b.mean())) / max(spread, 1e-12), 0.0, 1.0)
        if some.sum() < _SETTINGS.fewest_series or spread < _SETTINGS.least_spread:
            slope = 0.0
        found[j] = slope, np.median(b - slope * a)
    return found
