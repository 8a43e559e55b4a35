"""Backtests with rolling origins: known rows are forecast from the rows before them.

The errors of such forecasts teach the weights of an ensemble and the widths of intervals. They
depend on the *lead*, the time since a channel was last observed. Forecasts of one series that
overlap in time share their errors: :func:`effective_count` tells how many do not overlap, and
:func:`folds_of` keeps those that share errors in one fold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from skpolyode.ensemble.decompose import Residuals
from skpolyode.ensemble.naive import NAIVE, NEGLIGIBLE, Records, naive_forecasts
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import Standardised, Units

__all__ = [
    "ANCHORED",
    "CHUNK",
    "FEWEST_TO_HOLD_OUT",
    "N_FOLDS",
    "Backtest",
    "BacktestSettings",
    "Forecasts",
    "RollingOrigins",
    "Sample",
    "are_known",
    "effective_count",
    "equal_bins",
    "folds_of",
    "knots_of",
    "members_of",
    "nearness",
    "rolling_origins",
    "run_backtest",
    "sample_records",
]

ANCHORED = ("run", "last", "local_drift", "drift")
"""Members that start from the last observation, provided that the free run does."""

N_FOLDS = 5  # of cross-fitting
FEWEST_TO_HOLD_OUT = 10  # series, for some of them, or rows of a series, for its end
CHUNK = 1000  # forecasts at a time, to bound memory


@dataclass(frozen=True)
class BacktestSettings:
    """How far and how often a backtest forecasts."""

    reach_contexts: int = 2  # longest lead, in contexts of the model
    reach_gaps: int = 32  # longest lead of a model without a context, in typical gaps
    # Forecasts that users ask for know most of their series, so backtests know much of theirs:
    past_share: float = 0.4  # share of a series before its first origin
    max_origins: int = 1000  # more are subsampled
    max_targets: int = 64  # forecasts from one origin; more are thinned
    max_cells: int = 1_000_000  # forecasts times channels; bounds memory and time
    pairs_a_knot: int = 50  # forecasts for each knot or bin of leads
    max_knots: int = 8  # knots or bins of leads
    first_knot: float = 0.02  # quantile of the leads where the first knot lies


_SETTINGS = BacktestSettings()
_RIDGE_SAMPLE = BacktestSettings(max_origins=6000, max_targets=10)


class Forecasts(Protocol):
    """What a backtest asks of a trained model with its units; `ModelEmbedder` has it."""

    units: Units
    recent: Any
    filters: bool

    def standardised(self, panel: Panel) -> Standardised:
        """Rows of a panel in the units of the model."""

    def range_of(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Least and largest value (D,) of each channel."""

    def runs_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Free runs (Q, D) from many origins."""

    def known_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> tuple[Records, np.ndarray]:
        """Records (Q, D) up to many origins, and the times (Q,) asked in the records' units."""


class RollingOrigins(NamedTuple):
    """O origins in a panel, and the rows that are forecast from each.

    The first row of each origin is the origin itself. A forecast there, at a lead of zero, tells
    whether the free run starts from the last observation.
    """

    panel: Panel  # without rows that hold no observation
    origins: np.ndarray  # int64 (O,): rows, rising
    rows: np.ndarray  # int64 (M + O,)
    counts: np.ndarray  # int64 (O,): of the rows that belong to each origin

    @property
    def times(self) -> np.ndarray:
        """Times (M + O,) that are forecast."""
        return self.panel.times[self.rows]

    @property
    def series(self) -> np.ndarray:
        """Series (M + O,) of the rows."""
        return series_of_rows(self.panel)[self.rows]

    @property
    def is_ahead(self) -> np.ndarray:
        """Mask (M + O,) of the rows that lie after their origin."""
        mask = np.ones(len(self.rows), dtype=bool)
        mask[offsets_from(self.counts)[:-1]] = False
        return mask


class Sample(NamedTuple):
    """What is known before M forecasts, and what came."""

    records: Records  # (M, D)
    elapsed: np.ndarray  # float64 (M,): times that are forecast, in the units of the records
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    series: np.ndarray  # int64 (M,)

    @property
    def leads(self) -> np.ndarray:
        """Times (M, D) since the channels were last observed, infinite if they never were."""
        return self.records.time_since(self.elapsed[:, None])

    def of(self, kept: np.ndarray) -> Sample:
        """The forecasts that a mask (M,) keeps."""
        return Sample(self.records[kept], *(column[kept] for column in self[1:]))


class Backtest(NamedTuple):
    """M forecasts of known rows from rows before them, and what came."""

    leads: np.ndarray  # float64 (M, D), inf of a channel that was not observed before
    members: np.ndarray  # float64 (M, D, G): free run, naive forecasts, and ridge if there is one
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    series: np.ndarray  # int64 (M,)
    times: np.ndarray  # float64 (M,): that are forecast, in typical gaps
    anchored: tuple[str, ...]  # members that are right at a lead of zero
    sample: Sample | None = None  # what the members are computed from

    def of(self, kept: np.ndarray) -> Backtest:
        """The forecasts that a mask (M,) keeps."""
        return Backtest(*(column[kept] for column in self[:5]), self.anchored)


def rolling_origins(
    model: Forecasts,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None = None,
    settings: BacktestSettings = _SETTINGS,
) -> RollingOrigins:
    """Choose origins, and the rows within the reach of each that are forecast from there.

    Parameters
    ----------
    model : Forecasts
        Its context decides how far ahead rows are forecast.
    panel : Panel
        Without rows that hold no observation.
    rng : RandomState
        Subsamples the origins, where there are too many.
    earliest : int64 ndarray of shape (n_series,) or None, default=None
        First row of each series that may be forecast. None: that after the past share.
    settings : BacktestSettings
    """
    series = series_of_rows(panel)
    first, end = panel.offsets[:-1], panel.offsets[1:]
    if earliest is None:
        earliest = first + np.floor(settings.past_share * panel.lengths).astype(np.int64)
    earliest = np.maximum(earliest, first + 1)
    rows = np.arange(panel.n_observations)
    origins = rows[(rows >= earliest[series] - 1) & (rows < end[series] - 1)]
    if len(origins) > settings.max_origins:
        origins = np.sort(rng.choice(origins, settings.max_origins, replace=False))
    most = settings.max_cells // (panel.n_channels * max(len(origins), 1))
    most = max(2, min(settings.max_targets, most))
    reach = settings.reach_gaps * model.units.time_scale
    if model.recent is not None:
        reach = settings.reach_contexts * model.recent.window
    targets = []
    for row in origins:
        later = panel.times[row + 1 : end[series[row]]]
        n_rows = max(int(np.searchsorted(later, panel.times[row] + reach, "right")), 1)
        steps = np.arange(n_rows + 1)
        if n_rows > most:  # dense near the origin, where the error grows fastest
            steps = np.unique([0, *np.geomspace(1, n_rows, most).round().astype(np.int64)])
        targets.append(row + steps)
    counts = np.array([len(own) for own in targets], dtype=np.int64)
    return RollingOrigins(panel, origins, np.concatenate([*targets, rows[:0]]), counts)


def sample_records(model: Forecasts, panel: Panel, rng: np.random.RandomState) -> Sample | None:
    """Draw from the training series what a ridge regression learns; None of few series."""
    if panel.n_series < FEWEST_TO_HOLD_OUT:
        return None
    first = panel.offsets[:-1] + 1
    asked = rolling_origins(model, panel, rng, first, _RIDGE_SAMPLE)
    known = model.known_from(panel, asked.origins, asked.times, asked.counts)
    actual = model.units.scaler.read(panel.values[asked.rows])
    return Sample(*known, actual, asked.series).of(asked.is_ahead)


def run_backtest(model: Forecasts, asked: RollingOrigins, residuals: Residuals) -> Backtest:
    """Forecast the rows of rolling origins, each from the rows up to its origin.

    `residuals` are those of the series up to each origin, which the model forecasts from.
    """
    past, last, n_channels = residuals.panel, residuals.last, asked.panel.n_channels
    run, known = np.empty((0, n_channels)), (Records.blank(0, n_channels), np.empty(0))
    if len(last):
        run = model.runs_from(past, last, asked.times, asked.counts)
        known = model.known_from(past, last, asked.times, asked.counts)
    shift, scale = residuals.restoring(np.repeat(np.arange(len(last)), asked.counts), asked.times)
    actual = model.units.scaler.read((asked.panel.values[asked.rows] - shift) / scale)
    is_ahead, sample = asked.is_ahead, Sample(*known, actual, asked.series)
    error = (run - actual)[~is_ahead]
    if model.filters:
        anchored = ANCHORED[:1]  # a filter knows better than one noisy observation
    elif (np.abs(error[~np.isnan(error)]) < NEGLIGIBLE).all():
        anchored = ANCHORED
    else:
        anchored = ANCHORED[1:]
    sample, times = sample.of(is_ahead), asked.times[is_ahead] / model.units.time_scale
    members = members_of(run[is_ahead], sample.records, sample.leads)
    return Backtest(sample.leads, members, sample.actual, sample.series, times, anchored, sample)


def members_of(
    run: np.ndarray, records: Records, leads: np.ndarray, ridge: np.ndarray | None = None
) -> np.ndarray:
    """Members (..., 6) of the ensemble at leads (...): free run and naive forecasts.

    The forecasts of a `ridge` (...) regression are the seventh. A free run that is no finite
    number is replaced by the last value. The run takes the place of a drift where there is one
    observation only, and of all other members where there is none.
    """
    naive = naive_forecasts(records, np.where(np.isinf(leads), 0.0, leads))
    run = np.where(np.isfinite(run), run, naive[..., 0])
    needed = np.where(np.isin(NAIVE, ["local_drift", "drift"]), 2, 1)
    naive = np.where(records.n_values[..., None] < needed, run[..., None], naive)
    members = [run[..., None], naive]
    if ridge is not None:
        members.append(np.where(records.n_values < 1, run, ridge)[..., None])
    return np.concatenate(members, axis=-1)


def are_known(leads: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Mask of the forecasts whose error is known and that lie ahead of an observation."""
    return np.isfinite(leads) & np.isfinite(actual) & (leads > 0)


def knots_of(leads: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Leads (J,) that weights are learned at, evenly spread on a logarithmic scale.

    They span the leads (M, D) of the forecasts whose error is known; none without any.
    """
    leads = leads[are_known(leads, actual)]
    if not len(leads):
        return leads
    first, last = np.quantile(leads, _SETTINGS.first_knot), leads.max()
    n_knots = int(np.clip(len(leads) // _SETTINGS.pairs_a_knot, 1, _SETTINGS.max_knots))
    return np.unique(np.geomspace(first, last, n_knots)) if n_knots > 1 else np.array([last])


def nearness(leads: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Weights (..., J) that interpolate leads (...) linearly between the knots around them."""
    place = np.interp(leads, knots, np.arange(len(knots)))
    return np.maximum(1 - np.abs(place[..., None] - np.arange(len(knots))), 0.0)


def equal_bins(
    leads: np.ndarray, size: int = _SETTINGS.pairs_a_knot, most: int = _SETTINGS.max_knots
) -> list[np.ndarray]:
    """Positions of leads (m,) in up to `most` bins of equal count, of `size` leads or more."""
    n_bins = int(np.clip(len(leads) // size, 1, most))
    return np.array_split(np.argsort(leads, kind="stable"), n_bins)


def folds_of(series: np.ndarray, n_folds: int, times: np.ndarray | None = None) -> np.ndarray:
    """Fold (M,) of each forecast, from 0 to ``n_folds - 1``: all forecasts of a series share one.

    With fewer series than folds, the folds are blocks in time of each series, if the `times`
    (M,) that are forecast are given.
    """
    which, counts = np.unique(series, return_inverse=True, return_counts=True)[1:]
    if times is None or len(counts) >= n_folds:
        return which % n_folds
    order, rank = np.lexsort((times, which)), np.empty(len(which), dtype=np.int64)
    rank[order] = np.arange(len(which)) - offsets_from(counts)[which[order]]
    return rank * n_folds // counts[which]


def effective_count(series: np.ndarray, times: np.ndarray, lead: float) -> float:
    """How many forecasts with about one lead, for some times (M,) of series, do not overlap."""
    order = np.argsort(series, kind="stable")
    series, times = series[order], times[order]
    first = np.flatnonzero(np.diff(series, prepend=-1))
    latest, earliest = (f.reduceat(times, first) for f in (np.maximum, np.minimum))
    counts = np.diff(np.append(first, len(series)))
    return float(np.minimum(counts, 1 + np.floor((latest - earliest) / lead)).sum())
