"""Forecasts of rows of known series from the rows before them, to learn from what came of them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from skpolyode.ensemble.naive import time_since
from skpolyode.ensemble.ridge import DirectRidge, Sample
from skpolyode.ensemble.stacking import ANCHORED, Backtest, StackedForecast, knots_of, members_of
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import Standardised, Units

__all__ = [
    "Forecasts",
    "backtest_from",
    "learn_stacking",
    "ridge_sample",
    "rolling_origins",
    "run_backtest",
]

_REACH_CONTEXTS = 2  # longest lead that is tried
_REACH_GAPS = 32  # the same, in typical gaps, of a model without a context
_PAST_SHARE = 0.4  # of a series that forecasts know at least
_MAX_ORIGINS = 1000
_MAX_TARGETS = 64  # forecasts from one origin
_MAX_CELLS = 1_000_000  # of all forecasts
_SAME = 1e-6
_FEWEST_TO_REGRESS = 10  # series, or the regression would be of their own errors
_ORIGINS_TO_REGRESS, _TARGETS_TO_REGRESS = 6000, 10


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
    ) -> tuple[np.ndarray, np.ndarray]:
        """Records (Q, D, 12) up to many origins, and their time (Q,) then."""


def run_backtest(
    embedder: Forecasts,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None = None,
    sample: Sample | None = None,
) -> Backtest:
    """Forecast later rows from earlier ones, as far ahead as two contexts.

    Parameters
    ----------
    embedder : Forecasts
    panel : Panel
        Without rows that hold no observation.
    rng : RandomState
        Draws some of the origins, where there are many.
    earliest : int64 ndarray of shape (n_series,) or None, default=None
        First row of each series that may be forecast. None: origins know two fifths of their
        series, since forecasts that are asked for know much of theirs as well.
    sample : Sample or None, default=None
        Of other series, which regressions learn from.
    """
    origins, rows, counts = rolling_origins(embedder, panel, rng, earliest)
    actual = embedder.standardised(panel).values[rows]
    series = series_of_rows(panel)[rows]
    targets = counts, panel.times[rows], actual, series
    return backtest_from(embedder, panel, origins, *targets, sample)


def learn_stacking(
    embedder: Forecasts, trained: Panel, tested: Panel | None, rng: np.random.RandomState
) -> StackedForecast:
    """Weights of model and simple forecasts, as a backtest on held-out series teaches.

    Without such series those that were trained on stand in.
    """
    sample = None if tested is None else ridge_sample(embedder, trained, rng)
    backtest = run_backtest(embedder, trained if tested is None else tested, rng, sample=sample)
    return StackedForecast.learn(backtest, *embedder.range_of(trained))


def ridge_sample(embedder: Forecasts, panel: Panel, rng: np.random.RandomState) -> Sample | None:
    """What regressions learn from, of the series that the model was trained on; None of few."""
    if panel.n_series < _FEWEST_TO_REGRESS:
        return None
    most = _ORIGINS_TO_REGRESS, _TARGETS_TO_REGRESS
    origins, rows, counts = rolling_origins(embedder, panel, rng, panel.offsets[:-1] + 1, most)
    records, elapsed = embedder.known_from(panel, origins, panel.times[rows], counts)
    ahead = np.ones(len(rows), dtype=bool)
    ahead[offsets_from(counts)[:-1]] = False
    actual = embedder.units.scaler.read(panel.values[rows])
    return Sample(records[ahead], elapsed[ahead], actual[ahead])


def backtest_from(
    embedder: Forecasts,
    panel: Panel,
    origins: np.ndarray,
    counts: np.ndarray,
    times: np.ndarray,
    actual: np.ndarray,
    series: np.ndarray,
    sample: Sample | None = None,
) -> Backtest:
    """Forecast from the rows up to some origins (O,).

    Of each origin the first of its times (M,) is its own: forecasts there show whether the free run
    starts from the last observation, and are no backtest. `actual` (M, D) is standardised; `series`
    (M,) says which forecasts share their errors. A regression is learned from the `sample`, and
    tried as well.
    """
    if not len(origins):
        none = np.empty((0, panel.n_channels))
        members = members_of(none, np.empty((*none.shape, 12)), none)
        return Backtest(none, members, none, series, times, ANCHORED)
    run = embedder.runs_from(panel, origins, times, counts)
    records, elapsed = embedder.known_from(panel, origins, times, counts)
    at_origin = np.zeros(len(times), dtype=bool)
    at_origin[offsets_from(counts)[:-1]] = True
    error = run[at_origin] - embedder.units.scaler.read(panel.values[origins])
    if embedder.filters:
        starters = ANCHORED[:1]  # a filter knows better than one observation
    elif (np.abs(error[~np.isnan(error)]) < _SAME).all():
        starters = ANCHORED
    else:
        starters = ANCHORED[1:]
    leads = time_since(records, elapsed[:, None])
    regressed = regression = None
    if sample is not None:
        knots = knots_of(leads[~at_origin], actual[~at_origin])
        tested = Sample(*(x[~at_origin] for x in (records, elapsed, actual)))
        regression = DirectRidge.learn(knots, sample, tested)
    if regression is not None:
        regressed = regression.at(records, elapsed)
    members = members_of(run, records, np.where(np.isinf(leads), 0.0, leads), regressed)
    times = times / embedder.units.time_scale
    backtest = Backtest(leads, members, actual, series, times, starters, regression)
    return backtest.of(~at_origin)


def rolling_origins(
    embedder: Forecasts,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None,
    most: tuple[int, int] = (_MAX_ORIGINS, _MAX_TARGETS),
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Origins, the rows that each is tried on (it is the first of them), and how many these are.

    There are not more than `most` origins, and targets of each.
    """
    most_origins, most = most
    series = series_of_rows(panel)
    first, end = panel.offsets[:-1], panel.offsets[1:]
    if earliest is None:
        earliest = first + np.floor(_PAST_SHARE * panel.lengths).astype(np.int64)
    earliest = np.maximum(earliest, first + 1)
    rows = np.arange(panel.n_observations)
    origins = rows[(rows >= earliest[series] - 1) & (rows < end[series] - 1)]
    if len(origins) > most_origins:
        origins = np.sort(rng.choice(origins, most_origins, replace=False))
    most = max(2, min(most, _MAX_CELLS // (panel.n_channels * max(len(origins), 1))))
    recent = embedder.recent
    reach = _REACH_GAPS * embedder.units.time_scale
    if recent is not None:
        reach = _REACH_CONTEXTS * recent.window
    targets = []  # of each origin: all rows that follow within reach, thinned if too many
    for row in origins:
        later = panel.times[row + 1 : end[series[row]]]
        n_rows = max(int(np.searchsorted(later, panel.times[row] + reach, "right")), 1)
        steps = np.arange(n_rows + 1)
        if n_rows > most:  # dense near the origin, where the error grows fastest
            steps = np.unique([0, *np.geomspace(1, n_rows, most).round().astype(np.int64)])
        targets.append(row + steps)
    counts = np.array([len(own) for own in targets], dtype=np.int64)
    return origins, np.concatenate([*targets, rows[:0]]), counts
