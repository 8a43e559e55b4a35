"""Backtests with rolling origins: known rows are forecast from the rows before them.

The errors of these forecasts set the weights of an ensemble and the widths of intervals. They
depend on the *lead*, the time since a channel was last observed. Forecasts of one series that
overlap in time share their errors: :func:`effective_count` counts those that do not overlap, and
:func:`folds_of` keeps those that share errors in one fold.

Users also forecast series whose beginning is missing. The end of each long series is therefore
used as one more series, a *window*. No forecast of a window sees the rows before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.constants import golden

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.paths import rows_until
from skpolyode.ensemble.member import RollingOrigins
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import series_of_rows, take

FEWEST_FOLDS = 3  # series, to judge each by models of the others
FEWEST_TO_HOLD_OUT = 10  # series, to hold some out; rows of a series, to hold out its end
PRIOR_COUNT = 10.0  # forecasts that the priors of weights and of offsets are worth
_CHUNK = 1000  # forecasts at a time, to bound memory
_N_DENSITIES = 64  # candidate densities of forecasts


@dataclass(frozen=True)
class BacktestSettings:
    """How far and how often a backtest forecasts.

    Forecasts often reach half a series ahead. On stays of PhysioNet 2012, from 24 hours to the
    next 24, weights learned up to two contexts (8 hours) gave an error of 5.85, up to 33 hours
    5.64 (in thousandths, first split of `benchmarks/physionet_forecasts.py`). Thinning leaves few
    forecasts of rare channels, such as laboratory values. Three draws of the origins gave 5.60,
    5.77 and 5.56, and 5.53, 5.74 and 5.44 with more of these forecasts. Three times as many origins
    gain nothing.
    """

    reach_share: float = 0.5  # of the median duration; lower bound of the longest lead
    reach_contexts: int = 2  # longest lead otherwise, in contexts of the model
    reach_gaps: int = 32  # the same for a model without a context, in typical gaps
    max_rows: int = 4000  # rows that observe the rarest channel; larger sets are sampled,
    enough_series: int = 100  # but at least this many series are kept, including windows
    max_origins: int = 1000  # more are subsampled
    max_targets: int = 64  # mean number of forecasts from one origin; more are thinned
    max_cells: int = 1_000_000  # forecasts times channels; bounds memory and time
    pairs_a_knot: int = 50  # forecasts for each knot or bin of leads
    max_knots: int = 8  # knots or bins of leads
    rare: float = 0.1  # share of the rows; channels observed less often keep more forecasts
    first_knot: float = 0.02  # quantile of the leads at the first knot, or the lead of the next row
    max_windows: int = 1  # windows of one series
    rows_a_window: int = 40  # longer series have more windows, up to that number
    window_share: float = 0.0  # of a series' rows: fewest in a window, most before its origins
    jump: float = 2.0  # typical errors of training; the excess is not enlarged


_SETTINGS = BacktestSettings()


def with_windows(
    panel: Panel, rng: np.random.RandomState, settings: BacktestSettings = _SETTINGS
) -> tuple[Panel, np.ndarray]:
    """Panel of the series, then windows (random row to end of a long one); the series of each."""
    every, shortest = np.arange(panel.n_series), FEWEST_TO_HOLD_OUT
    n_windows = np.clip(panel.lengths // settings.rows_a_window, 1, settings.max_windows)
    long = np.repeat(every, np.where(panel.lengths >= 2 * shortest, n_windows, 0))
    n_rows = np.maximum(settings.window_share * panel.lengths[long], shortest).astype(np.int64)
    later = rng.randint(shortest, panel.lengths[long] - n_rows + 1)
    whose, nothing = np.concatenate([every, long]), np.zeros_like(every)
    start = panel.offsets[whose] + np.concatenate([nothing, later])
    return take(panel, whose, start, panel.offsets[whose + 1]), whose


def rolling_origins(
    model: ModelEmbedder,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None = None,
    settings: BacktestSettings = _SETTINGS,
) -> RollingOrigins:
    """Choose origins, and the later rows that are forecast from each.

    Without `earliest`, windows of the series are added.

    Parameters
    ----------
    model : ModelEmbedder
        Its context sets the longest lead.
    panel : Panel
        Each row holds an observation.
    rng : RandomState
        Draws the windows, and subsamples series and origins if there are too many.
    earliest : int64 ndarray of shape (n_series,) or None, default=None
        First row of each series that may be forecast. None: its second row.
    settings : BacktestSettings
    """
    reach = settings.reach_gaps * model.units.time_scale
    if model.recent is not None:
        reach = settings.reach_contexts * model.recent.window
    reach = max(reach, settings.reach_share * float(np.median(panel.end - panel.start)))
    whose, n_known = np.arange(panel.n_series), panel.lengths
    if earliest is None:
        share = settings.window_share or 1.0
        most = np.maximum(share * n_known, 2 * FEWEST_TO_HOLD_OUT)
        panel, whose = with_windows(panel, rng, settings)
        earliest, n_known = panel.offsets[:-1], np.append(n_known, most[whose[len(most) :]])
    n_before = np.maximum(earliest - panel.offsets[:-1], 1)
    n_cells = (~np.isnan(panel.values)).sum(axis=0)
    rarest = int(np.min(n_cells[n_cells > 0], initial=panel.n_observations))
    most = max(settings.enough_series, settings.max_rows * len(whose) // max(rarest, 1))
    if len(whose) > most:
        kept = np.sort(rng.choice(len(whose), most, replace=False))
        panel, whose, n_before, n_known = panel[kept], whose[kept], n_before[kept], n_known[kept]
    series, end = series_of_rows(panel), panel.offsets[1:]
    earliest = panel.offsets[:-1] + n_before
    rows = np.arange(panel.n_observations)
    latest = np.minimum(end - 1, panel.offsets[:-1] + n_known)
    origins = rows[(rows >= earliest[series] - 1) & (rows < latest[series])]
    if len(origins) > settings.max_origins:
        origins = np.sort(rng.choice(origins, settings.max_origins, replace=False))
    most = settings.max_cells // (panel.n_channels * max(len(origins), 1))
    most = max(2, min(settings.max_targets, most))
    seen = ~np.isnan(panel.values)
    is_rare = seen[:, seen.mean(axis=0) < settings.rare].any(axis=1)  # rows of rare channels
    of_series = np.searchsorted(origins, panel.offsets)
    last = rows_until(panel.times, panel.offsets, panel.times[origins] + reach, of_series)
    n_ahead = np.maximum(last - origins, 1)
    targets = []
    for row, n_rows, ahead in zip(origins, n_ahead, _thinned(n_ahead, most), strict=True):
        if is_rare.any():
            rare = 1 + np.flatnonzero(is_rare[row + 1 : row + 1 + n_rows])
            rare = rare[np.linspace(0, len(rare) - 1, min(len(rare), most)).astype(np.int64)]
            ahead = np.union1d(ahead, rare)
        targets.append(row + ahead)
    origin = np.repeat(np.arange(len(origins)), [len(target) for target in targets])
    targets = np.concatenate([*targets, rows[:0]])
    return RollingOrigins.of(model, panel, whose, origins, targets, origin)


def _thinned(n_ahead: np.ndarray, most: int) -> Iterator[np.ndarray]:
    """For each origin, steps to the rows to forecast, among `n_ahead` (O,); `most` on average.

    All rows near the origin are forecast, where the error grows fastest, and fewer further away.
    Their density depends on the distance alone. If the end of each series were always included,
    most forecasts far ahead would be of series ends.
    """
    distance = np.arange(1, n_ahead.max(initial=1) + 1)
    for dense in np.geomspace(len(distance), 1, _N_DENSITIES):
        passed = np.append(0.0, np.minimum(dense / distance, 1.0).cumsum())
        if passed[n_ahead].sum() <= most * len(n_ahead):
            break
    # The fractional parts of multiples of the golden ratio are evenly spread.
    starts = np.arange(len(n_ahead)) * (golden - 1) % 1
    for n_rows, start in zip(n_ahead, starts, strict=True):
        whole = np.floor(passed[: n_rows + 1] + start)
        yield 1 + np.flatnonzero(whole[1:] != whole[:-1])


def chunks(n_forecasts: int) -> Iterator[slice]:
    """Slices of up to 1000 forecasts."""
    return (slice(start, start + _CHUNK) for start in range(0, n_forecasts, _CHUNK))


def are_known(leads: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Mask of the forecasts with a known error and a positive, finite lead."""
    return np.isfinite(leads) & np.isfinite(actual) & (leads > 0)


def knots_of(leads: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Leads (J,) at which weights are learned, evenly spaced on a logarithmic scale.

    They span the leads (M, D) of the forecasts with a known error; empty without any.
    """
    leads = leads[are_known(leads, actual)]
    if not len(leads):
        return leads
    last, next_row = leads.max(), max(leads.min(), 1.0)  # long regular series have few leads of 1
    first = min(np.quantile(leads, _SETTINGS.first_knot), next_row)
    n_knots = int(np.clip(len(leads) // _SETTINGS.pairs_a_knot, 1, _SETTINGS.max_knots))
    return np.unique(np.geomspace(first, last, n_knots)) if n_knots > 1 else np.array([last])


def nearness(leads: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Weights (..., J) that interpolate smoothly between the knots around leads (...).

    They sum to 1, and have no kinks: a cubic step leads from one knot to the next.
    """
    place = np.interp(leads, knots, np.arange(len(knots)))
    near = np.maximum(1 - np.abs(place[..., None] - np.arange(len(knots))), 0.0)
    return near * near * (3 - 2 * near)


def equal_bins(
    leads: np.ndarray, size: int = _SETTINGS.pairs_a_knot, most: int = _SETTINGS.max_knots
) -> list[np.ndarray]:
    """Positions of leads (m,) in up to `most` bins of about equal count, `size` or more each.

    Equal leads, as in regular series, share a bin.
    """
    order, n_bins = np.argsort(leads, kind="stable"), int(np.clip(len(leads) // size, 1, most))
    ends = np.cumsum([len(part) for part in np.array_split(order, n_bins)])[:-1]
    cuts = [0]
    for cut in np.searchsorted(leads[order], leads[order[ends - 1]], side="right"):
        if min(cut - cuts[-1], len(leads) - cut) >= size:
            cuts.append(cut)
    return np.split(order, cuts[1:])


def folds_of(series: np.ndarray, n_folds: int, times: np.ndarray | None = None) -> np.ndarray:
    """Fold (M,) of each forecast, from 0 to ``n_folds - 1``: all forecasts of a series share one.

    With fewer than three series and forecast `times` (M,), folds are blocks in time of each series.
    """
    which, counts = np.unique(series, return_inverse=True, return_counts=True)[1:]
    if times is None or len(counts) >= min(n_folds, FEWEST_FOLDS):
        return which % n_folds
    order, rank = np.lexsort((times, which)), np.empty(len(which), dtype=np.int64)
    rank[order] = np.arange(len(which)) - offsets_from(counts)[which[order]]
    return rank * n_folds // counts[which]


def enlarged(
    errors: np.ndarray, is_new: np.ndarray, series: np.ndarray, trust: float
) -> np.ndarray:
    """Errors (M, D) of `series` (M,), those of training as large as the new ones, a mask (M,).

    Errors on series that trained the model are too small. They are multiplied by the median ratio
    of held-out errors to the median error in training of the channel, shrunk towards 1: that of
    `trust` more held-out series. Training does not help to foresee jumps, so at most `jump` median
    errors of each error are enlarged.
    """
    sizes = np.abs(errors)
    typical = np.array([_median(column) for column in sizes[~is_new].T])
    typical[~(typical > 0)] = np.nan
    ratio, n_new = _median(sizes[is_new] / typical), len(np.unique(series[is_new]))
    if not ratio > 1:
        return errors
    more = ratio ** (2 * n_new / (n_new + trust)) - 1
    within = np.minimum(sizes, _SETTINGS.jump * np.nan_to_num(typical))
    large = np.copysign(np.sqrt(errors**2 + more * within**2), errors)
    return np.where(is_new[:, None], errors, large)


def _median(values: np.ndarray) -> float:
    """Median of the finite values; NaN without any."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def effective_count(
    series: np.ndarray, times: np.ndarray, lead: float, power: float = 1.0
) -> float:
    """Number of non-overlapping forecasts with about one `lead`, for `times` (M,) of `series` (M,).

    Errors of one series may still be alike: a `power` below 1 reduces the number of each.
    """
    order = np.argsort(series, kind="stable")
    series, times = series[order], times[order]
    first = np.flatnonzero(np.diff(series, prepend=-1))
    latest, earliest = (f.reduceat(times, first) for f in (np.maximum, np.minimum))
    counts = np.diff(np.append(first, len(series)))
    return float((np.minimum(counts, 1 + np.floor((latest - earliest) / lead)) ** power).sum())
