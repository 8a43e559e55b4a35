"""Which of level, trend and season to take out of series: by what simple forecasts gain from it.

The comparison trains nothing. Rolling origins in the last part of the series, which is held out,
are forecast by the rivals of :mod:`skpolyode.ensemble.naive` with each choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.signal import lombscargle

from skpolyode.ensemble.decompose import Decomposition
from skpolyode.ensemble.naive import records_at, simple_forecasts
from skpolyode.panel import Panel
from skpolyode.panel.select import observed_rows, series_of_rows
from skpolyode.panel.units import ChannelScaler, typical_gap

__all__ = ["checked_choices", "select_decomposition"]

_GAIN = 0.8  # share of the error that has to be left by each part
_MOST_ORIGINS = 60
_LEADS = 24  # rows ahead that are compared
_MOST_ROWS = 2000  # that periods are searched in
_FEWEST_ROWS = 20  # for a trend or a season to be found
_PERIODS_IN_SPAN = 2.5  # at least
_FEWEST_SERIES = 4  # for their levels to be compared
_LITTLE_SPREAD = 0.01  # of the logarithms of levels
_LEAST_SHARE = 0.1  # of the cells that are observed: fewer count as so many
_FEWEST_VALUES = 12  # of a channel, to learn three weights from and as many to compare
_LEVEL_GAIN = 0.8  # share of the error that has to be left in units of the series
_MOST_LEVEL_GAIN = 1.0  # of a channel, as a logarithm: more makes no difference


def checked_choices(parameters: dict[str, Any]) -> dict[str, Any]:
    """Choices among the parameters of a forecaster; a ValueError names one that makes no sense."""
    share, n_epochs = parameters["calibration_fraction"], parameters["update_epochs"]
    if not 0 < share < 1:
        raise ValueError(f"calibration_fraction must be between 0 and 1, got {share!r}.")
    if n_epochs < 0:
        raise ValueError(f"update_epochs must not be negative, got {n_epochs!r}.")
    detrend, period, normalize = (parameters[k] for k in ("detrend", "period", "normalize"))
    if not (isinstance(detrend, bool | np.bool_) or detrend == "auto"):
        raise ValueError(f'detrend must be True, False or "auto", got {detrend!r}.')
    if normalize not in ("auto", "channel", "series"):
        raise ValueError(f'normalize must be "auto", "channel" or "series", got {normalize!r}.')
    if period is not None and not (isinstance(period, str) and period == "auto"):
        try:
            lengths = np.atleast_1d(np.asarray(period, dtype=np.float64))
        except (TypeError, ValueError):
            lengths = np.empty(0)
        if (
            lengths.ndim != 1
            or not len(lengths)
            or not (lengths > 0).all() & (lengths < np.inf).all()
        ):
            raise ValueError(
                f'period must be a positive length, some of them, None or "auto", got {period!r}.'
            )
        period = tuple(lengths.tolist())
    return {"detrend": detrend, "period": period, "normalize": normalize}


def select_decomposition(
    panel: Panel,
    ends: np.ndarray,
    *,
    detrend: bool | str,
    period: float | Sequence[float] | str | None,
    normalize: str,
) -> Decomposition:
    """What to take out of the series of a panel.

    Parameters
    ----------
    panel : Panel
        Without rows that hold no observation.
    ends : int64 ndarray of shape (n_series,)
        First held-out row of each series.
    detrend, period, normalize
        As of the forecaster.
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
        seasons = [(), *_found_periods(panel, ends)]
    else:
        seasons = [() if period is None else tuple(period)]
    options = [replace(plain, trend=t, periods=s) for t, s in product(trends, seasons)]
    origins, targets = _questions(panel, (panel.offsets[:-1] + ends) // 2)
    if len(options) == 1 or not len(origins):
        return options[0]
    errors = np.array([_simple_errors(option, panel, origins, targets) for option in options])
    # At each number of rows ahead in those without, of the best simple forecast over all.
    relative = np.log(np.maximum(errors, 1e-12) / np.maximum(errors[0].min(axis=0), 1e-12))
    gained = np.exp(relative.mean(axis=2).min(axis=1))
    # A doubled period has harmonics between those of the one that was found.
    parts = np.array([o.trend + bool(o.periods) + (o.periods in seasons[2:]) / 2 for o in options])
    gained /= _GAIN**parts
    best = int(gained.argmin())
    return options[best]


def _questions(
    panel: Panel, ends: np.ndarray, most: int = _MOST_ORIGINS
) -> tuple[np.ndarray, np.ndarray]:
    """Origins (O,) in what is held out, and rows ahead of each (O, K); -1 after the end."""
    stop = panel.offsets[1:]
    bounds = zip(panel.offsets[:-1], ends, stop, strict=True)
    origins = [np.arange(max(end - 1, first), last - 1) for first, end, last in bounds]
    origins = np.concatenate(origins) if len(origins) else np.empty(0, dtype=np.int64)
    if len(origins) > most:
        origins = origins[np.linspace(0, len(origins) - 1, most).round().astype(np.int64)]
    targets = origins[:, None] + np.arange(1, _LEADS + 1)
    return origins, np.where(targets < stop[series_of_rows(panel)[origins]][:, None], targets, -1)


def _simple_errors(
    option: Decomposition, panel: Panel, origins: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """Mean squared errors (6, K) of simple forecasts of what is left, K rows ahead."""
    left = option.remove(panel, origins)
    origin, ahead = np.nonzero(targets >= 0)
    rows = targets[origin, ahead]
    leads = (panel.times[rows] - left.end[origin])[:, None] / option.gap
    records = _records(left.panel, option.gap)[origin]
    simple = simple_forecasts(records, np.broadcast_to(leads, records.shape[:2]))
    simple = np.concatenate([simple, np.zeros((*simple.shape[:2], 1))], axis=2)
    own = left.of(origin)
    expected = own.scale[..., None] * simple + option.base(own, panel.times[rows])[..., None]
    wrong = (expected - panel.values[rows][..., None]) / option.moments[1][:, None]
    squares = (
        np.nanmean(wrong**2, axis=1) if np.isfinite(wrong).any() else np.ones(wrong.shape[::2])
    )
    n_leads = int(ahead.max()) + 1
    return np.stack([np.nanmean(squares[ahead == k], axis=0) for k in range(n_leads)], axis=1)


def _records(pasts: Panel, gap: float) -> np.ndarray:
    start = np.repeat(pasts.times[pasts.offsets[:-1]], pasts.lengths)
    last = pasts.offsets[1:] - 1
    return records_at((pasts.times - start) / gap, pasts.values, pasts.offsets, last)


def _usual_scales(panel: Panel) -> np.ndarray:
    """For each channel how the logarithm of a series' scale goes with that of its level, (D, 2)."""
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
        if some.sum() < _FEWEST_SERIES or spread < _LITTLE_SPREAD:
            slope = 0.0
        found[j] = slope, np.median(b - slope * a)
    return found


def _levels_differ(panel: Panel, plain: Decomposition) -> bool:
    """Whether one line for all series forecasts others better in units of their own.

    The next value is regressed on the last one, the mean of the last four and that of all, with the
    weights of half of the series, and forecast in the other half; errors are in each series' own
    scale, as a user sees them.
    """
    if panel.n_series < _FEWEST_SERIES:
        return False
    ends = panel.offsets[:-1] + (2 * panel.lengths + 4) // 5
    # Where cells are missing, as many more rows, so that there are values of each channel.
    share = max(float(np.mean(~np.isnan(panel.values))), _LEAST_SHARE)
    origins, targets = _questions(panel, ends, round(_MOST_ORIGINS / share))
    if not len(origins):
        return False
    option = replace(plain, by_series=True)
    left, rows = option.remove(panel, origins), targets[:, 0]
    own = _records(left.panel, option.gap)
    which = series_of_rows(panel)[origins] % 2 == 0
    logs, counts = [], []
    for j in range(panel.n_channels):
        level, scale = left.parts[:, 0, j], left.scale[:, j]
        x = simple_forecasts(own[:, j], np.zeros(len(own)))[:, :3]  # in units of the series
        y = (panel.values[rows, j] - level) / scale
        known = np.isfinite(y)
        raw_x, raw_y = x * scale[:, None] + level[:, None], y * scale + level
        errors = [
            _regressed(x, y, which, known),
            _regressed(raw_x, raw_y, which, known) / scale,
        ]
        tested = known & ~which
        if min(tested.sum(), (known & which).sum()) >= _FEWEST_VALUES:
            sizes = [np.mean(np.minimum(e[tested] ** 2, 1e12)) for e in errors]
            gain = np.log((sizes[0] + 1e-12) / (sizes[1] + 1e-12))
            logs.append(np.clip(gain, -_MOST_LEVEL_GAIN, _MOST_LEVEL_GAIN))
            counts.append(tested.sum())
    # Of many channels a few are seldom observed, or constant: they do not decide for the others.
    return bool(logs) and float(np.average(logs, weights=counts)) < np.log(_LEVEL_GAIN)


def _regressed(x: np.ndarray, y: np.ndarray, train: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Errors (n,) of a line in x (n, 3) that was fitted to some of y (n,)."""
    design = np.column_stack([np.ones(len(x)), x])
    some = train & known
    weights = np.linalg.lstsq(design[some], y[some], rcond=1e-9)[0]
    return design @ weights - y


def _found_periods(panel: Panel, ends: np.ndarray) -> list[tuple[float, ...]]:
    """The strongest period in what may be seen of the series, and twice that one."""
    known = [slice(s, e) for s, e in zip(panel.offsets[:-1], ends, strict=True)]
    spans = [panel.times[k][-1] - panel.times[k][0] for k in known if k.stop - k.start > 1]
    if not spans or max(k.stop - k.start for k in known) < _FEWEST_ROWS:
        return []
    span = max(spans)
    rows = observed_rows(panel)
    highest = 0.5 / typical_gap(rows)
    lowest = _PERIODS_IN_SPAN / span
    if lowest >= highest:
        return []
    grid = np.arange(lowest, highest, 1 / (5 * span))[:_MOST_ROWS]
    powers = _power(panel, known, grid)
    if not powers.any():
        return []
    peak = grid[powers.argmax()]
    fine = np.linspace(max(peak - 1 / (5 * span), lowest), peak + 1 / (5 * span), 41)
    period = float(1 / fine[_power(panel, known, fine).argmax()])
    doubled = [(2 * period,)] if 2 * period * _PERIODS_IN_SPAN <= span else []
    return [(period,), *doubled]


def _power(panel: Panel, known: list[slice], frequencies: np.ndarray) -> np.ndarray:
    """Lomb and Scargle's power of all channels of all series, without their lines."""
    total = np.zeros(len(frequencies))
    for rows in known:
        times, values = panel.times[rows][-_MOST_ROWS:], panel.values[rows][-_MOST_ROWS:]
        for x in values.T:
            seen = ~np.isnan(x)
            if seen.sum() < _FEWEST_ROWS:
                continue
            t = times[seen] - times[seen][-1]
            line = np.polynomial.Polynomial.fit(t, x[seen], 1)
            left = x[seen] - line(t)
            if left.any():
                power = lombscargle(t, left, 2 * np.pi * frequencies, normalize=True)
                total += seen.sum() * power
    return total
