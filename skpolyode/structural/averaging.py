"""Forecasts of single series by level, slope, season and noise: many such models, averaged.

Each model's weight is the probability of what it has seen so far, so that one that a series speaks
for takes over (Raftery, Karny and Ettler, "Online prediction under model uncertainty via dynamic
model averaging", Technometrics 2010, without forgetting). Nothing but the past of a moment has a
part in its forecasts, beside which models are tried at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple, Self

import numpy as np
from scipy.special import softmax

from skpolyode.ensemble.blend import Blend
from skpolyode.panel import Panel
from skpolyode.panel.select import series_of_rows
from skpolyode.saving.codec import saved
from skpolyode.structural.components import Components, drawn, near, points
from skpolyode.structural.kalman import Filtered, ahead, filtered
from skpolyode.structural.periods import likely_periods

__all__ = ["StructuralForecasts", "StructuralModels"]

_DRAWN = 256  # models with a season, and without
_FEW_DRAWN = 64  # the same, where there are many channels of many series
_MANY = 16

_KEPT = 64
_KEPT_PLAIN = 8  # of these at least, which take no logarithm
_PERIODS = 4
_LONGEST = 1000  # rows to learn from, and at most half as many before each forecast
_FEWEST_ROWS = 12  # for a season to be looked for
_BEYOND = 3.0  # ranges of what was seen that no forecast goes beyond; one may be off by one range
_CHUNK = 1000  # forecasts at a time


class StructuralForecasts(NamedTuple):
    """Forecasts of Q values, or of the channels of Q rows."""

    means: np.ndarray  # float64 (Q,) or (Q, D)
    deviations: np.ndarray  # float64, the same: how far off they are expected to be


class _Series(NamedTuple):
    """Observations of a channel of one series."""

    times: np.ndarray
    values: np.ndarray


@saved
@dataclass(frozen=True, eq=False)
class _Models:
    """Models of one channel.

    Parameters
    ----------
    gap : float
        Typical time between its observations.
    scales : float64 ndarray of shape (2,)
        Typical step of its values, and of their logarithms.
    groups : tuple of Components
        Without a season, and with one.
    priors : tuple of float
        Logarithm of the probability of the models of each group, beforehand.
    """

    gap: float
    scales: np.ndarray
    groups: tuple[Components, ...]
    priors: tuple[float, ...]

    def forecasts(
        self, series: _Series, last: np.ndarray, times: np.ndarray
    ) -> StructuralForecasts:
        """Values (Q,) at some times (Q,), from the observations up to the `last` (Q,)."""
        found = StructuralForecasts(*np.empty((2, len(last))))
        block = last // (_LONGEST // 2)
        for own in np.unique(block):
            asked = np.flatnonzero(block == own)
            start = max(int(own) - 1, 0) * (_LONGEST // 2)
            seen = _Series(*(part[start : last[asked].max() + 1] for part in series))
            own = self._forecasts(seen, last[asked] - start, times[asked])
            found.means[asked], found.deviations[asked] = own
        return found

    def _forecasts(
        self, series: _Series, last: np.ndarray, times: np.ndarray
    ) -> StructuralForecasts:
        """As `forecasts`, of a series that is not long."""
        own = (series.times - series.times[0]) / self.gap
        asked, place = np.unique(last, return_inverse=True)
        runs = [self.run(series, models, asked) for models in self.groups]
        odds = [run.log_likelihood[last] + p for run, p in zip(runs, self.priors, strict=True)]
        weights = softmax(np.hstack(odds), axis=1)
        lowest = np.minimum.accumulate(series.values)[last]
        highest = np.maximum.accumulate(series.values)[last]
        room, (means, squares) = _BEYOND * (highest - lowest), np.zeros((2, len(last)))
        low, high = lowest - room, highest + room
        # At a trough the logarithm alone would be too sure of the trough, and at a peak too unsure.
        level = (np.abs(series.values).cumsum() / np.arange(1, len(own) + 1))[last]
        widest = np.where(last < _FEWEST_ROWS, np.inf, highest - lowest)
        begins = np.cumsum([0, *map(len, self.groups)])
        for models, run, begin in zip(self.groups, runs, begins[:-1], strict=True):
            first = series.values[0]
            for chunk in np.split(np.arange(len(last)), range(_CHUNK, len(last), _CHUNK)):
                at, lead = own[last[chunk]], (times[chunk] - series.times[last[chunk]]) / self.gap
                known = run.states[last[chunk]], run.covariances[place[chunk]]
                expected, variance = ahead(models, *known, at, lead)
                expected = expected * self._scale(models)
                logs = first * np.exp(np.minimum(expected, 100.0)) if first > 0 else 0.0
                expected = np.where(models.is_log, logs, first + expected)
                expected = np.clip(expected, low[chunk, None], high[chunk, None])
                unit = np.where(models.is_log, np.sqrt(np.abs(expected) * level[chunk, None]), 1.0)
                unit = self._scale(models) * unit
                variance = unit**2 * variance * run.scale[last[chunk]]
                variance = np.minimum(variance, widest[chunk, None] ** 2)
                weight = weights[chunk, begin : begin + len(models)]
                means[chunk] += (weight * expected).sum(axis=1)
                squares[chunk] += (weight * (variance + (expected - first) ** 2)).sum(axis=1)
        variance = np.maximum(squares - (means - series.values[0]) ** 2, 0.0)
        return StructuralForecasts(means, np.sqrt(variance))

    def run(self, series: _Series, models: Components, asked: np.ndarray | None = None) -> Filtered:
        """Models that are run through a series; their likelihoods are those of its values.

        What is not known is kept after those observations that are `asked` for.
        """
        times, x = (series.times - series.times[0]) / self.gap, series.values[:, None]
        positive = series.values > 0
        logs = np.log(np.where(positive, series.values, 1.0))[:, None]
        seen = np.where(models.is_log, logs - logs[0], x - x[0]) / self._scale(models)
        found = filtered(times, seen, models, asked)
        units = np.log(self._scale(models)) + np.where(models.is_log, logs, 0.0)
        units[0] = 0.0
        likelihood = found.log_likelihood - units.cumsum(axis=0)
        never = models.is_log & ~np.logical_and.accumulate(positive)[:, None]
        return found._replace(log_likelihood=np.where(never, -1e300, likelihood))

    def _scale(self, models: Components) -> np.ndarray:
        return np.where(models.is_log, self.scales[1], self.scales[0])


@saved
@dataclass(frozen=True, eq=False)
class StructuralModels:
    """Structural models of each channel.

    Parameters
    ----------
    channels : tuple of _Models or None
        None of channels that were not observed.
    trust : Blend
        How far forecasts lean on learned dynamics instead.
    """

    channels: tuple[_Models | None, ...]
    trust: Blend

    @classmethod
    def learn(cls, panel: Panel, *, detrend: bool | str, period: object) -> Self:
        """Find models that some series speak for.

        `detrend` and `period` are those of the forecaster: without slopes if the first is False,
        and with no other seasons than those of the second one, unless it is "auto". Dynamics are
        not trusted yet.
        """
        is_large = panel.n_channels * panel.n_series > _MANY
        size = _FEW_DRAWN if is_large else _DRAWN
        channels = []
        for j in range(panel.n_channels):
            own = [_observed(panel, j, i) for i in range(panel.n_series)]
            own = [_Series(*(part[-_LONGEST:] for part in s)) for s in own if len(s.times)]
            channels.append(_learned(own, size, detrend, period) if own else None)
        return cls(tuple(channels), Blend.none(panel.n_channels))

    def forecast_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> StructuralForecasts:
        """Values (Q, D) at some times (Q,), from the rows up to some origins.

        As many as `counts` (O,) says are from each of the origins (O,), which rise. NaN of channels
        without an observation up to there.
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
                    own = _observed(panel, j, i), last[known], times[asked[known]]
                    for column, part in zip(found, models.forecasts(*own), strict=True):
                        column[asked[known], j] = part
        return found


def _observed(panel: Panel, channel: int, series: int) -> _Series:
    rows = slice(panel.offsets[series], panel.offsets[series + 1])
    seen = ~np.isnan(panel.values[rows, channel])
    return _Series(panel.times[rows][seen], panel.values[rows, channel][seen])


def _learned(series: list[_Series], size: int, detrend: bool | str, period: object) -> _Models:
    """Models of a channel, from its series."""
    gaps = np.concatenate([np.diff(s.times) for s in series])
    gap = float(np.median(gaps)) if len(gaps) else 1.0
    positive = all((s.values > 0).all() for s in series)
    scales = np.array([_step(series), _step(series, np.log) if positive else 1.0])
    models, options = _Models(gap, scales, (), ()), {"positive": positive, "trend": bool(detrend)}
    plain, runs = _tried(models, series, size, (), options)
    groups, found, priors = [plain], [runs], [0.0]
    if isinstance(period, str):
        periods = _periods(series, gap, runs)
        spans = [(s.times[-1] - s.times[0]) / gap for s in series]
        prior = -np.log(max(max(spans) / 2, 1.0))  # so many periods could have been the one
    else:
        periods, prior = [p / gap for p in np.atleast_1d(() if period is None else period)], 0.0
    if periods:
        seasonal = _tried(models, series, size, tuple(periods), options)
        groups, found, priors = [plain, seasonal[0]], [runs, seasonal[1]], [0.0, prior]
    odds = [_odds(runs) + prior for runs, prior in zip(found, priors, strict=True)]
    chosen = _best(np.hstack(odds), np.concatenate([own.is_log for own in groups]))
    parts = np.split(chosen, np.cumsum([len(own) for own in groups])[:-1])
    kept = [(own.of(part), p) for own, part, p in zip(groups, parts, priors, strict=True)]
    kept = [(own, p) for own, p in kept if len(own)]
    return _Models(gap, scales, *map(tuple, zip(*kept, strict=True)))


def _step(series: list[_Series], of: object = np.asarray) -> float:
    """Standard deviation of steps; 1 if there are none."""
    steps = np.concatenate([np.diff(of(s.values)) for s in series])
    size = float(np.std(steps)) if len(steps) else 0.0
    return size if size > 1e-12 * max(np.abs(of(s.values)).max() for s in series) else 1.0


def _tried(
    models: _Models,
    series: list[_Series],
    size: int,
    periods: tuple[float, ...],
    options: dict[str, bool],
) -> tuple[Components, list[Filtered]]:
    """Models, some drawn and then some more near the best, and what they make of each series."""
    at = points(size, len(periods))
    own = drawn(at, periods, **options)
    runs = [models.run(s, own) for s in series]
    rng = np.random.RandomState(0)
    share = softmax(_odds(runs) / 2, axis=1).mean(axis=0)
    more = drawn(near(at[rng.choice(size, size // 2, p=share)], rng), periods, **options)
    runs = [_side_by_side(run, models.run(s, more)) for run, s in zip(runs, series, strict=True)]
    return own.joined(more), runs


def _side_by_side(one: Filtered, other: Filtered) -> Filtered:
    """What is known of both, but for states, which may be of different lengths."""
    likelihood = np.hstack([one.log_likelihood, other.log_likelihood])
    errors, scale = np.hstack([one.errors, other.errors]), np.hstack([one.scale, other.scale])
    return Filtered(likelihood, one.states[..., :0], errors, scale, one.covariances)


def _odds(runs: list[Filtered]) -> np.ndarray:
    """Log likelihoods (S, G) of whole series."""
    return np.stack([run.log_likelihood[-1] for run in runs])


def _best(odds: np.ndarray, is_log: np.ndarray) -> np.ndarray:
    """Which models (G,) to keep, by their likelihoods (S, G) in each series."""
    best = (odds - odds.max(axis=1, keepdims=True)).max(axis=0)
    kept = np.zeros(len(best), dtype=bool)
    kept[np.argsort(-best, kind="stable")[: _KEPT - _KEPT_PLAIN]] = True
    rest = np.argsort(-np.where(kept | is_log, -np.inf, best), kind="stable")
    kept[rest[:_KEPT_PLAIN]] = True
    return kept


def _periods(series: list[_Series], gap: float, runs: list[Filtered]) -> list[float]:
    """Periods in typical gaps that the longest series have, in themselves or in their errors."""
    found = []
    order = sorted(range(len(series)), key=lambda i: -len(series[i].times))
    for i in order[: _PERIODS // 2]:
        if len(series[i].times) <= _FEWEST_ROWS:
            continue
        best = runs[i].log_likelihood[-1].argmax()
        times = (series[i].times[1:] - series[i].times[0]) / gap
        versions = [runs[i].errors[1:, best], series[i].values[1:]]
        lines = [np.polynomial.Polynomial.fit(times, x, 1)(times) for x in versions]
        versions = [x - line for x, line in zip(versions, lines, strict=True)]
        found.append(likely_periods(times, versions, _PERIODS))
    turns = [p for turn in zip_longest(*found) for p in turn if p is not None]
    return list(dict.fromkeys(turns))[:_PERIODS]
