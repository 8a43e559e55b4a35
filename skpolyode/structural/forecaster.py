"""Structural models of single series as an estimator.

Forecasts are averages over many structural models (Bayesian model averaging). A model's weight is
its posterior probability given the series so far (as in Raftery, Karny and Ettler, "Online
prediction under model uncertainty via dynamic model averaging", Technometrics 2010, without
forgetting). Except for the choice of models, a forecast depends only on the rows up to its origin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from skpolyode.ensemble.backtest import chunks
from skpolyode.ensemble.periods import (
    LONGEST_PAST,
    alternatives,
    likeliest,
    likely_periods,
    read_period,
    shared_seasons,
    without_line,
)
from skpolyode.errors import naming_owner
from skpolyode.panel import Panel, as_panel, offsets_from, query_times, series_index
from skpolyode.panel.query import refuse_early
from skpolyode.panel.select import drop_empty, fill_values, series_of_rows
from skpolyode.panel.selection import align_to_fit, warn_of_zone
from skpolyode.panel.units import CellLimits, clipped, warn_of_codes, within_limits
from skpolyode.saving.codec import saved
from skpolyode.saving.objects import register_estimator
from skpolyode.structural.components import (
    Components,
    Filtered,
    draw_components,
    kalman_filter,
    predict,
    similar_points,
    sobol_points,
)
from skpolyode.transformers.base import SeriesEstimator
from skpolyode.transformers.input import check_sizes

FEWEST_VALUES = 12  # of a series, to search for a season


@dataclass(frozen=True)
class StructuralSettings:
    """Number of models to draw, and limits of their forecasts."""

    n_drawn: int = 128  # models per round, both with a season and without
    n_turns: int = 3  # rounds; after the first, models like the likeliest so far
    n_alike: int = 8  # likeliest models that get the same weight: one alone does not decide
    many: int = 16  # channels times series; above, a quarter as many models are drawn
    n_periods: int = 4  # candidate periods of the season
    reach: float = 3.0  # how far forecasts may leave the range of past values, in ranges


SETTINGS = StructuralSettings()


class StructuralForecasts(NamedTuple):
    """Forecasts of Q values, or of Q rows with D channels."""

    means: np.ndarray  # float64 (Q,) or (Q, D)
    deviations: np.ndarray  # float64, the same shape: standard deviations of the errors


class _Series(NamedTuple):
    """Observations of a channel of one series."""

    times: np.ndarray
    values: np.ndarray


@saved(gap="positive", scales="2", groups="H", priors="H")
@dataclass(frozen=True, eq=False)
class _Models:
    """Models of one channel.

    Parameters
    ----------
    gap : float
        Median time between its observations.
    scales : float64 ndarray of shape (2,)
        Standard deviations of the steps of its values, and of their logarithms.
    groups : tuple of Components
        Models without a season, then models with one.
    priors : tuple of float
        Log prior probability of each model of a group.
    """

    gap: float
    scales: np.ndarray
    groups: tuple[Components, ...]
    priors: tuple[float, ...]

    def forecasts(
        self, series: _Series, last: np.ndarray, times: np.ndarray
    ) -> StructuralForecasts:
        """Forecasts (Q,) at `times` (Q,), each from the observations up to position `last` (Q,).

        Long series are filtered in blocks: a forecast uses up to LONGEST_PAST observations.
        """
        found, half = StructuralForecasts(*np.empty((2, len(last)))), LONGEST_PAST // 2
        block = last // half
        for k in np.unique(block):
            asked = np.flatnonzero(block == k)
            start = max(int(k) - 1, 0) * half
            seen = _Series(*(column[start : last[asked].max() + 1] for column in series))
            part = self._forecasts(seen, last[asked] - start, times[asked])
            found.means[asked], found.deviations[asked] = part
        return found

    def _forecasts(
        self, series: _Series, last: np.ndarray, times: np.ndarray
    ) -> StructuralForecasts:
        """`forecasts` for one block of a series."""
        elapsed = (series.times - series.times[0]) / self.gap
        asked, place = np.unique(last, return_inverse=True)
        runs = [self.run(series, models, asked) for models in self.groups]
        odds = [run.log_likelihood[last] + p for run, p in zip(runs, self.priors, strict=True)]
        weights = softmax(np.hstack(odds), axis=1)
        lowest = np.minimum.accumulate(series.values)[last]
        highest = np.maximum.accumulate(series.values)[last]
        room, (means, squares) = SETTINGS.reach * (highest - lowest), np.zeros((2, len(last)))
        low, high, first = lowest - room, highest + room, series.values[0]
        # In a model of logarithms the error is proportional to the forecast: too small at a trough,
        # too large at a peak. The geometric mean with the past level compensates for that.
        level = (np.abs(series.values).cumsum() / np.arange(1, len(elapsed) + 1))[last]
        widest = np.where(last < FEWEST_VALUES, np.inf, highest - lowest)
        shares = np.split(weights, np.cumsum([len(models) for models in self.groups[:-1]]), axis=1)
        for models, run, share in zip(self.groups, runs, shares, strict=True):
            scale = self._scale(models)
            for chunk in chunks(len(last)):
                row = last[chunk]
                known = run.states[row], run.covariances, run.phases, place[chunk]
                lead = (times[chunk] - series.times[row]) / self.gap
                expected, variance = predict(models, *known, elapsed[row], lead)
                expected = expected * scale
                logs = first * np.exp(np.minimum(expected, 100.0)) if first > 0 else 0.0
                expected = np.where(models.is_log, logs, first + expected)
                expected = np.clip(expected, low[chunk, None], high[chunk, None])
                unit = np.where(models.is_log, np.sqrt(np.abs(expected) * level[chunk, None]), 1.0)
                variance = (scale * unit) ** 2 * variance * run.scale[row]
                variance = np.minimum(variance, widest[chunk, None] ** 2)
                means[chunk] += (share[chunk] * expected).sum(axis=1)
                spread = variance + (expected - first) ** 2
                squares[chunk] += (share[chunk] * spread).sum(axis=1)
        variance = np.maximum(squares - (means - first) ** 2, 0.0)
        return StructuralForecasts(means, np.sqrt(variance))

    def run(self, series: _Series, models: Components, asked: np.ndarray | None = None) -> Filtered:
        """Filter a series; likelihoods are those of its values, also in models of logarithms.

        Covariances are kept only after the observations `asked`.
        """
        times, x = (series.times - series.times[0]) / self.gap, series.values[:, None]
        positive = series.values > 0
        logs = np.log(np.where(positive, series.values, 1.0))[:, None]
        seen = np.where(models.is_log, logs - logs[0], x - x[0]) / self._scale(models)
        found = kalman_filter(times, seen, models, asked)
        units = np.log(self._scale(models)) + np.where(models.is_log, logs, 0.0)
        units[0] = 0.0
        likelihood = found.log_likelihood - units.cumsum(axis=0)
        impossible = models.is_log & ~np.logical_and.accumulate(positive)[:, None]
        return found._replace(log_likelihood=np.where(impossible, -1e300, likelihood))

    def _scale(self, models: Components) -> np.ndarray:
        return np.where(models.is_log, self.scales[1], self.scales[0])


@saved(channels="D")
@dataclass(frozen=True, eq=False)
class StructuralModels:
    """Structural models of each channel.

    Parameters
    ----------
    channels : tuple of _Models or None
        None for channels that were not observed.
    """

    channels: tuple[_Models | None, ...]

    @classmethod
    def learn(cls, panel: Panel, seed: int, period: Sequence[float] | None = None) -> Self:
        """Draw models at random, and keep those that explain the series best.

        `period` lists the lengths of seasons; None: search for them.
        """
        size = SETTINGS.n_drawn
        if panel.n_channels * panel.n_series > SETTINGS.many:
            size //= 4
        channels = []
        for j in range(panel.n_channels):
            all_series = (_observed(panel, j, i) for i in range(panel.n_series))
            known = [_Series(*(x[-LONGEST_PAST:] for x in s)) for s in all_series if len(s.times)]
            channels.append(_learn_channel(known, size, seed, period) if known else None)
        return cls(tuple(channels))

    def forecast_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> StructuralForecasts:
        """Forecasts (Q, D) at `times` (Q,), from the rows up to their origins.

        `origins` (O,) are row numbers. The first ``counts[0]`` times belong to the first of them,
        and so on. NaN for channels without an observation up to the origin.
        """
        found = StructuralForecasts(*np.full((2, len(times), panel.n_channels), np.nan))
        origin = np.repeat(origins, counts)
        series = series_of_rows(panel)[origin]
        for i in np.unique(series):
            asked = np.flatnonzero(series == i)
            rows = np.arange(panel.offsets[i], panel.offsets[i + 1])
            for j, models in enumerate(self.channels):
                seen = ~np.isnan(panel.values[rows, j])
                last = seen.cumsum()[origin[asked] - rows[0]] - 1
                known = last >= 0
                if models is not None and known.any():
                    query = _observed(panel, j, i), last[known], times[asked[known]]
                    for column, part in zip(found, models.forecasts(*query), strict=True):
                        column[asked[known], j] = part
        return found


def _observed(panel: Panel, channel: int, series: int) -> _Series:
    rows = slice(panel.offsets[series], panel.offsets[series + 1])
    seen = ~np.isnan(panel.values[rows, channel])
    return _Series(panel.times[rows][seen], panel.values[rows, channel][seen])


def _learn_channel(
    series: list[_Series], size: int, seed: int, period: Sequence[float] | None
) -> _Models:
    """Choose the models of one channel, from its series."""
    gaps = np.concatenate([np.diff(s.times) for s in series])
    gap = float(np.median(gaps)) if len(gaps) else 1.0
    positive = all((s.values > 0).all() for s in series)
    scales = np.array([_typical_step(series), _typical_step(series, np.log) if positive else 1.0])
    models = _Models(gap, scales, (), ())
    plain, odds, errors = _search(models, series, size, seed, (), positive)
    groups, likelihoods, priors = [plain], [odds], [0.0]
    if period is None:
        best = [error[:, row.argmax()] for error, row in zip(errors, odds, strict=True)]
        seasons = [(p,) for p in _candidate_periods(series, gap, best)]
        times, values = (np.concatenate(column) for column in zip(*series, strict=True))
        rows = times / gap, values[:, None], offsets_from([len(s.times) for s in series])
        seasons += [periods for periods in shared_seasons(*rows) if len(periods) > 1]
        spans = [(s.times[-1] - s.times[0]) / gap for s in series]
        prior = -np.log(max(max(spans) / 2, 1.0))  # number of distinct periods to choose from
    else:
        seasons, prior = alternatives([p / gap for p in period]), 0.0
        long = [(t / gap, without_line(t, x)) for t, x in series if len(t) > FEWEST_VALUES]
        seasons = [likeliest(seasons, long)] if seasons else []
    if seasons:
        seasonal, odds, _ = _search(models, series, size, seed, seasons, positive)
        groups, priors = [plain, seasonal], [0.0, prior]
        likelihoods.append(odds + prior)
    odds, is_log = np.hstack(likelihoods), np.concatenate([group.is_log for group in groups])
    # Keep half as many models as a round draws, ranked by their relative likelihood in the series
    # they suit best. At least an eighth of them model values, not logarithms.
    likely = (odds - odds.max(axis=1, keepdims=True)).max(axis=0)
    n_kept = SETTINGS.n_drawn // 2
    kept, n_plain = np.zeros(len(likely), dtype=bool), n_kept // 8
    kept[np.argsort(-likely, kind="stable")[: n_kept - n_plain]] = True
    rest = np.argsort(-np.where(kept | is_log, -np.inf, likely), kind="stable")
    kept[rest[:n_plain]] = True
    parts = np.split(kept, np.cumsum([len(group) for group in groups])[:-1])
    chosen = [(group.of(kept), p) for group, kept, p in zip(groups, parts, priors, strict=True)]
    chosen = [(group, p) for group, p in chosen if len(group)]
    return _Models(gap, scales, *map(tuple, zip(*chosen, strict=True)))


def _typical_step(series: list[_Series], scale: object = np.asarray) -> float:
    """Standard deviation of steps, on a scale; 1 if there are none."""
    steps = np.concatenate([np.diff(scale(s.values)) for s in series])
    size = float(np.std(steps)) if len(steps) else 0.0
    return size if size > 1e-12 * max(np.abs(scale(s.values)).max() for s in series) else 1.0


def _search(
    models: _Models,
    series: list[_Series],
    size: int,
    seed: int,
    seasons: Sequence[tuple[float, ...]],
    positive: bool,
) -> tuple[Components, np.ndarray, list[np.ndarray]]:
    """Draw models evenly, then twice as many that resemble the likeliest so far.

    Returns the models, the log likelihood (S, G) of each series, and its one-step errors (n, G).
    """
    seeds = np.random.RandomState(seed + len(seasons)).randint(2**31 - 1, size=SETTINGS.n_turns)

    def evaluated(candidates: np.ndarray) -> tuple[Components, np.ndarray, list[np.ndarray]]:
        drawn = draw_components(candidates, seasons, positive=positive)
        runs = [models.run(s, drawn) for s in series]
        odds = np.stack([run.log_likelihood[-1] for run in runs])
        return drawn, odds, [run.errors for run in runs]

    points = sobol_points(size, seeds[0])
    runs = [evaluated(points)]
    for turn_seed in seeds[1:]:
        odds = np.hstack([run[1] for run in runs])
        least = np.sort(odds, axis=1)[:, -SETTINGS.n_alike :][:, :1]
        share = softmax(np.minimum(odds, least) / 2, axis=1).mean(axis=0)
        others = similar_points(points, share, max(len(seasons), 1), size, turn_seed)
        runs.append(evaluated(others))
        points = np.concatenate([points, others])
    drawn, odds, errors = zip(*runs, strict=True)
    joined = [np.hstack(each) for each in zip(*errors, strict=True)]
    return reduce(Components.joined, drawn), np.hstack(odds), joined


def _candidate_periods(series: list[_Series], gap: float, errors: list[np.ndarray]) -> list[float]:
    """Likely periods of the longest series, from their values and one-step errors, in gaps."""
    found = []
    order = sorted(range(len(series)), key=lambda i: -len(series[i].times))
    for i in order[: SETTINGS.n_periods // 2]:
        if len(series[i].times) <= FEWEST_VALUES:
            continue
        times = (series[i].times[1:] - series[i].times[0]) / gap
        versions = [errors[i][1:], series[i].values[1:]]
        versions = [without_line(times, x) for x in versions]
        found.append(likely_periods(times, versions, SETTINGS.n_periods))
    turns = [p for turn in zip_longest(*found) for p in turn if p is not None]
    return list(dict.fromkeys(turns))[: SETTINGS.n_periods]


_LARGEST = 1e150  # squares of such values are still numbers


@register_estimator
class StructuralForecaster(SeriesEstimator):
    """Forecast single series by models of level, trend and season, at irregular times.

    Hundreds of linear state-space models are drawn for each channel. Their levels are constant,
    random walks or mean-reverting; they have trends, seasons (long ones also with one value per
    phase) and cycles, in values or logarithms. The likeliest are kept and averaged, weighted by the
    probability of the series so far under each (Bayesian model averaging; Raftery, Karny and
    Ettler, Technometrics 2010, without forgetting). The models are Kalman filters in continuous
    time and need no grid. Use it for one or a few series that are too short for learned dynamics;
    `PolyODEForecaster` then includes it in its ensemble.

    Parameters
    ----------
    period : float, timedelta, str, sequence of such, "auto" or None, default="auto"
        Lengths of seasons: in the units of `times` or, for datetimes, durations such as "7D".
        "auto": search for them; None: no season.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw of models; pass an int to draw the same ones in each fit.

    Attributes
    ----------
    models_ : StructuralModels
        The models that were kept, by channel.
    limits_ : CellLimits
        Smallest and largest credible value of each channel. Cells outside count as not observed,
        with a warning that names them.

    See Also
    --------
    skpolyode.PolyODEForecaster : Learned dynamics, combined with these models.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.structural import StructuralForecaster
    >>> months = np.arange(60.0)
    >>> sales = [(months, 100 + 2 * months + 10 * np.sin(months * np.pi / 6))]
    >>> forecaster = StructuralForecaster(random_state=0).fit(sales)
    >>> forecaster.forecast(sales, [63.0, 69.0]).values.round(0).ravel().tolist()
    [236.0, 228.0]
    """

    def __init__(
        self, period: float | Sequence[float] | str | None = "auto", random_state: Any = None
    ) -> None:
        self.period = period
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw models, and keep those that explain the series best.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : None, default=None
            Ignored.

        Returns
        -------
        self
        """
        panel = as_panel(X)
        with naming_owner(self):
            period = read_period(self.period, panel.time_unit)
        limits = CellLimits.of(panel)
        known = within_limits(panel, limits)
        warn_of_codes(known)
        check_sizes(known, largest=_LARGEST)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.models_ = StructuralModels.learn(drop_empty(known), seed, period)
        self.channel_names_, self.has_channel_names_ = panel.channel_names, panel.has_channel_names
        self.limits_, self.time_unit_, self.tz_ = limits, panel.time_unit, panel.tz
        return self

    def forecast(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Continue series beyond their last observations.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            Series with the channels of `fit`.
        times : array-like of shape (Q,) or list of such, default=None
            Times after the last observations, for all series or for each. Required.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; None:
            absolute times, like those of the series.

        Returns
        -------
        Panel
            All channels at these times, within their limits (see `Panel.with_limits`); NaN for a
            channel or a series that was never observed.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series.
        """
        return self._answers(X, times, relative_to, "means")

    def forecast_std(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviations of the errors of `forecast`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            Series with the channels of `fit`.
        times : array-like of shape (Q,) or list of such, default=None
            Times after the last observations, for all series or for each. Required.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from.

        Returns
        -------
        Panel
            Standard deviations of future observations, in the units of the channels.
        """
        return self._answers(X, times, relative_to, "deviations")

    def _answers(self, X: Any, times: Any, relative_to: str | None, name: str) -> Panel:
        """Panel of a field of `StructuralForecasts`."""
        check_is_fitted(self)
        panel = within_limits(align_to_fit(as_panel(X), self), self.limits_)
        warn_of_zone(panel.tz, self.tz_, "the times of X", stacklevel=4)
        check_sizes(panel, largest=_LARGEST)
        flat, offsets = query_times(panel, times, relative_to)

        def compute(known: Panel, asked: np.ndarray, starts: np.ndarray) -> np.ndarray:
            why = "its last observation ({} such times): a forecast starts there."
            refuse_early(known, asked, starts, known.end, why)
            last = known.offsets[1:] - 1
            found = getattr(self.models_.forecast_from(known, last, asked, np.diff(starts)), name)
            ends = (end[series_index(starts)] for end in self.limits_.kept_by(known))
            return clipped(found, *ends) if name == "means" else found

        return panel.like(flat, fill_values(panel, flat, offsets, compute), offsets)
