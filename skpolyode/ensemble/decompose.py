"""Decomposition of series: level, trend and season are removed, and restored in forecasts.

Each forecast uses only what came before it: the components are fitted to the rows up to its origin.
Which of them to remove is selected without training a model, by whether naive forecasts of rolling
origins gain from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple, Self

import numpy as np
from scipy.signal import lombscargle

from skpolyode.ensemble.naive import Records, naive_forecasts, records_at
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
    "select_decomposition",
]

MAX_HARMONICS = 6  # of a season
LONGEST_PAST = 1000  # rows that a fit looks back on; of longer series the last ones
FEWEST_VALUES = 12  # to learn a few coefficients from, or to search for a season


@dataclass(frozen=True)
class DecompositionSettings:
    """How components are fitted, and by how much forecasts have to gain from them."""

    season_ridge: float = 0.5  # rows that speak for no season
    trend_ridge: float = 0.02  # rows that speak for no trend
    n_reweightings: int = 3  # of outliers, in the robust regression
    outlier: float = 3.0  # standard deviations (from the median error), beyond which weights fall
    scale_prior: float = 4.0  # rows that speak for the scale that is usual at the series' level
    gain: float = 0.8  # share of the squared error that each component must leave, at most
    max_origins: int = 60  # of the comparison
    n_leads: int = 24  # rows ahead that are compared
    fewest_rows: int = 20  # of a series that is searched for a period
    periods_in_span: float = 2.5  # that the longest series must show, at least
    fewest_series: int = 4  # for their levels to be compared
    least_spread: float = 0.01  # variance of the logarithms of levels that are told apart
    least_density: float = 0.1  # share of observed cells; a lower one does not raise the origins


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
        return self.fit_remove(panel, origins, longest)

    def fit_remove(
        self, panel: Panel, origins: np.ndarray, longest: int | None = LONGEST_PAST
    ) -> Residuals:
        """As `remove`, but the level is removed in any case."""
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


def select_decomposition(
    panel: Panel,
    ends: np.ndarray,
    *,
    detrend: bool | str,
    period: float | Sequence[float] | str | None,
    normalize: str,
) -> Decomposition:
    """Choose what to remove from the series of a panel.

    Parameters
    ----------
    panel : Panel
        Without rows that hold no observation.
    ends : int64 ndarray of shape (n_series,)
        First held-out row of each series.
    detrend, period, normalize
        As in `PolyODEForecaster`.
    """
    rows = observed_rows(panel)
    span = float(np.median(rows.end - rows.start)) or 1.0
    scaler = ChannelScaler.of(rows.values)
    moments = np.stack([scaler.mean, scaler.scale])
    plain = Decomposition(False, (), False, typical_gap(rows), span, _usual_scales(panel), moments)
    if normalize == "series" or (normalize == "auto" and _levels_differ(panel, plain)):
        plain = replace(plain, by_series=True)
    trends = [detrend] if isinstance(detrend, bool) else [False, True]
    if isinstance(period, str):
        seasons = [(), *_found_periods(panel, ends, plain.gap)]
    else:
        seasons = [() if period is None else tuple(period)]
    options = [replace(plain, trend=t, periods=s) for t, s in product(trends, seasons)]
    origins, targets = _origins(panel, (panel.offsets[:-1] + ends) // 2)
    if len(options) == 1 or not len(origins):
        return options[0]
    errors = np.array([_naive_errors(option, panel, origins, targets) for option in options])
    # Relative to the best naive forecast without any component, at each number of rows ahead.
    relative = np.log(np.maximum(errors, 1e-12) / np.maximum(errors[0].min(axis=0), 1e-12))
    gained = np.exp(relative.mean(axis=2).min(axis=1))
    # A doubled period, which adds harmonics between those of the period found, counts half more.
    parts = np.array([o.trend + bool(o.periods) + (o.periods in seasons[2:]) / 2 for o in options])
    return options[int((gained / _SETTINGS.gain**parts).argmin())]


def _origins(
    panel: Panel, ends: np.ndarray, most: int = _SETTINGS.max_origins
) -> tuple[np.ndarray, np.ndarray]:
    """Origins (O,) in the held-out rows, and the rows ahead of each (O, K); -1 after the end."""
    stop = panel.offsets[1:]
    bounds = zip(panel.offsets[:-1], ends, stop, strict=True)
    origins = [np.arange(max(end - 1, first), last - 1) for first, end, last in bounds]
    origins = np.concatenate(origins) if len(origins) else np.empty(0, dtype=np.int64)
    if len(origins) > most:
        origins = origins[np.linspace(0, len(origins) - 1, most).round().astype(np.int64)]
    targets = origins[:, None] + np.arange(1, _SETTINGS.n_leads + 1)
    return origins, np.where(targets < stop[series_of_rows(panel)[origins]][:, None], targets, -1)


def _naive_errors(
    option: Decomposition, panel: Panel, origins: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """Mean squared errors (6, K) of naive forecasts of the residuals, K rows ahead."""
    residuals = option.fit_remove(panel, origins)
    origin, ahead = np.nonzero(targets >= 0)
    rows = targets[origin, ahead]
    leads = (panel.times[rows] - residuals.end[origin])[:, None] / option.gap
    records = _records(residuals, option.gap)[origin]
    naive = naive_forecasts(records, np.broadcast_to(leads, records.mean.shape))
    naive = np.concatenate([naive, np.zeros((*naive.shape[:2], 1))], axis=2)
    shift, scale = residuals.restoring(origin, panel.times[rows])
    expected = scale[..., None] * naive + shift[..., None]
    wrong = (expected - panel.values[rows][..., None]) / option.moments[1][:, None]
    is_known = np.isfinite(wrong).any()
    squares = np.nanmean(wrong**2, axis=1) if is_known else np.ones(wrong.shape[::2])
    n_leads = int(ahead.max()) + 1
    return np.stack([np.nanmean(squares[ahead == k], axis=0) for k in range(n_leads)], axis=1)


def _records(residuals: Residuals, gap: float) -> Records:
    panel = residuals.panel
    start = np.repeat(panel.times[panel.offsets[:-1]], panel.lengths)
    return records_at((panel.times - start) / gap, panel.values, panel.offsets, residuals.last)


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


def _levels_differ(panel: Panel, plain: Decomposition) -> bool:
    """Whether one regression for all series forecasts better in units of each series.

    The next value is regressed on the last value, the moving average and the mean. Half of the
    series teach the coefficients, the other half is forecast. Errors are relative to the scale of
    their series, as a user sees them.
    """
    if panel.n_series < _SETTINGS.fewest_series:
        return False
    ends = panel.offsets[:-1] + (2 * panel.lengths + 4) // 5
    # More origins where cells are missing, so that there are values of each channel.
    density = max(float(np.mean(~np.isnan(panel.values))), _SETTINGS.least_density)
    origins, targets = _origins(panel, ends, round(_SETTINGS.max_origins / density))
    if not len(origins):
        return False
    option = replace(plain, by_series=True)
    residuals, rows = option.fit_remove(panel, origins), targets[:, 0]
    records = _records(residuals, option.gap)
    which = series_of_rows(panel)[origins] % 2 == 0
    logs, counts = [], []
    for j in range(panel.n_channels):
        level, scale = residuals.coefficients[:, 0, j], residuals.scale[:, j]
        x = naive_forecasts(records[np.s_[:, j]], np.zeros(len(rows)))[:, :3]
        y = (panel.values[rows, j] - level) / scale
        known = np.isfinite(y)
        train, tested = known & which, known & ~which
        if min(tested.sum(), train.sum()) >= FEWEST_VALUES:
            raw_x, raw_y = x * scale[:, None] + level[:, None], y * scale + level
            errors = _errors(x, y, train), _errors(raw_x, raw_y, train) / scale
            sizes = [np.mean(np.minimum(e[tested] ** 2, 1e12)) for e in errors]
            gain = np.log((sizes[0] + 1e-12) / (sizes[1] + 1e-12))
            logs.append(np.clip(gain, -1.0, 1.0))  # no channel decides by more than a factor e
            counts.append(tested.sum())
    # Channels that are seldom observed have little weight.
    return bool(logs) and float(np.average(logs, weights=counts)) < np.log(_SETTINGS.gain)


def _errors(x: np.ndarray, y: np.ndarray, train: np.ndarray) -> np.ndarray:
    """Errors (n,) of a regression of y (n,) on x (n, 3), fitted where `train` (n,) is true."""
    design = np.column_stack([np.ones(len(x)), x])
    weights = np.linalg.lstsq(design[train], y[train], rcond=1e-9)[0]
    return design @ weights - y


def _found_periods(panel: Panel, ends: np.ndarray, gap: float) -> list[tuple[float, ...]]:
    """The strongest period in the rows before `ends`, and its double."""
    known = [slice(s, e) for s, e in zip(panel.offsets[:-1], ends, strict=True)]
    spans = [panel.times[k][-1] - panel.times[k][0] for k in known if k.stop - k.start > 1]
    if not spans or max(k.stop - k.start for k in known) < _SETTINGS.fewest_rows:
        return []
    span = max(spans)
    highest = 0.5 / gap
    lowest = _SETTINGS.periods_in_span / span
    if lowest >= highest:
        return []
    grid = np.arange(lowest, highest, 1 / (5 * span))[: 2 * LONGEST_PAST]
    powers = _power(panel, known, grid)
    if not powers.any():
        return []
    peak = grid[powers.argmax()]
    fine = np.linspace(max(peak - 1 / (5 * span), lowest), peak + 1 / (5 * span), 41)
    period = float(1 / fine[_power(panel, known, fine).argmax()])
    doubled = [(2 * period,)] if 2 * period * _SETTINGS.periods_in_span <= span else []
    return [(period,), *doubled]


def _power(panel: Panel, known: list[slice], frequencies: np.ndarray) -> np.ndarray:
    """Power of the Lomb-Scargle periodograms of all series and channels, linear trends removed."""
    total = np.zeros(len(frequencies))
    for rows in known:
        rows = slice(max(rows.start, rows.stop - 2 * LONGEST_PAST), rows.stop)
        times, values = panel.times[rows], panel.values[rows]
        for x in values.T:
            seen = ~np.isnan(x)
            if seen.sum() < _SETTINGS.fewest_rows:
                continue
            t = times[seen] - times[seen][-1]
            line = np.polynomial.Polynomial.fit(t, x[seen], 1)
            left = x[seen] - line(t)
            if left.any():
                power = lombscargle(t, left, 2 * np.pi * frequencies, normalize=True)
                total += seen.sum() * power
    return total
