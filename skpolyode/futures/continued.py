"""Futures of series as sampled paths: quantiles, samples, and the times at which they cross a line.

:class:`Future` holds series with error paths that have been drawn. :class:`SamplesFutures` is
the mixin of estimators with an error model of their forecasts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from skpolyode.errors import check_share, check_shares, plain_repr
from skpolyode.futures.samples import SamplePaths, channel_at, check_line, sign_of
from skpolyode.panel import Panel, offsets_from, query_times, series_index
from skpolyode.panel.query import edge, name_query, one_time_each, refuse_early, refuse_first
from skpolyode.panel.select import Query, observed_part, observed_series, series_chunks
from skpolyode.panel.units import Units, clipped

_MOST_TIMES = 50_000  # per call of the forecast, to bound memory
_MOST_VALUES = 200_000  # of paths sampled at once, to bound memory
_FURTHEST = 20.0  # largest distance of a line from the mean, in standard deviations

# The times at which paths are evaluated for crossings.
_FINEST = 2.0  # points per typical gap
_MOST_EVEN = 4000  # evenly spaced points, at most
_GROWTH = 400  # later points over which the step grows e-fold
_NEAREST = (4.0**-4, 4.0**-3, 4.0**-2, 4.0**-1)  # first steps: errors grow fast there


class Ahead(NamedTuple):
    """Forecasts at Q times after the last rows of series, and predictors of their errors."""

    values: np.ndarray  # float64 (Q, D), in standard deviations from the mean
    leads: np.ndarray  # float64 (Q, D): time since the channel was last observed, inf if never
    predictors: np.ndarray  # float64 (Q, D, S): predictors of the size of errors
    expected: np.ndarray  # float64 (Q, D): unit of the errors; 0 for known values


class LastCells(NamedTuple):
    """Cells of the last rows of n series, and limits of their samples."""

    values: np.ndarray  # float64 (n, D), in standard deviations; NaN where not observed
    is_noisy: np.ndarray  # bool (n, D): whether the observation may differ from the signal
    floor: np.ndarray  # float64 (n, D): lower limit of samples, in the user's units
    ceiling: np.ndarray

    @classmethod
    def of(cls, panel: Panel, units: Units, filters: bool) -> Self:
        """Last rows of a panel; a model that `filters` takes all observations as noisy."""
        last = panel.offsets[1:] - 1
        values = units.scaler.read(panel.values[last])
        is_noisy = np.full(values.shape, filters)
        if panel.errors is not None:
            is_noisy |= panel.errors[last] > 0
        return cls(values, is_noisy, *units.scaler.limits_of(panel))


@dataclass(frozen=True, eq=False)
class Future:
    """Series to be continued with error paths that have been drawn.

    Parameters
    ----------
    panel : Panel
        The series; only their labels and the times of their last rows are read.
    last : LastCells
        Cells of these rows.
    units : Units
    calibration : Calibration
        Errors of the forecasts, by the ensemble.
    drawn : int64 ndarray of shape (n_samples,)
        Indices of the error paths.
    outlook : callable
        Called with a slice of the series, times (Q,) and offsets; returns forecasts (Q, D).
    """

    panel: Panel
    last: LastCells
    units: Units
    calibration: Any
    drawn: np.ndarray
    outlook: Callable[[slice, np.ndarray, np.ndarray], Ahead]

    def paths(self, times: np.ndarray, offsets: np.ndarray) -> SamplePaths:
        """Sampled futures at times (Q,), not before the last rows."""
        panel, scaler, drawn = self.panel, self.units.scaler, self.drawn
        refuse_early(panel, times, offsets, panel.end, _EARLY)
        ahead = self._ahead(slice(None), times, offsets)
        ends = [limit[series_index(offsets)] for limit in self.last[2:]]
        samples = np.empty((len(times), len(drawn), panel.n_channels))
        for rows in _time_slices(len(times), len(drawn)):
            for j in range(panel.n_channels):
                samples[rows, :, j] = self.calibration.sample(_at(ahead, rows), drawn, j)
            samples[rows] = clipped(
                scaler.inverse(samples[rows]), *(end[rows, None] for end in ends)
            )
        centre = clipped(scaler.inverse(ahead.values), *ends)
        return SamplePaths(panel.like(times, centre, offsets), samples)

    def quantiles(
        self, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> list[np.ndarray]:
        """Quantiles (Q, D) at times (Q,), one array for each probability in `alpha`."""
        ahead = self._ahead(slice(None), times, offsets)
        ends = [limit[series_index(offsets)] for limit in self.last[2:]]
        found = (self.calibration.quantile(ahead, a) for a in alpha)
        return [clipped(self.units.scaler.inverse(quantile), *ends) for quantile in found]

    def half_widths(self, times: np.ndarray, offsets: np.ndarray, level: float) -> np.ndarray:
        """Half widths (Q, D) of intervals, in standard deviations; 0 at any last observation."""
        ahead, counts = self._ahead(slice(None), times, offsets), np.diff(offsets)
        now, end = (np.repeat(x, counts, axis=0) for x in (self.last.values, self.panel.end))
        half = self.calibration.quantile(ahead, (1 + level) / 2) - ahead.values
        return np.where((times == end)[:, None] & ~np.isnan(now), 0.0, half)

    def crossings(
        self,
        threshold: float,
        until: np.ndarray,
        channel: str | int | None,
        direction: str,
        coverage: float,
    ) -> pd.DataFrame:
        """Table of first crossings of a line up to times (n_series,); see `crossing_times`."""
        sign, panel, end = sign_of(direction), self.panel, self.panel.end
        check_share("coverage", coverage)
        j, horizon = channel_at(panel, channel), until - end
        found, is_beyond = self._crossed(sign, self._line(threshold, j), j, horizon)
        window = Window.of(found, coverage)
        status = np.where(np.isinf(window.median), "censored", "crosses")
        columns = {"status": np.where(is_beyond, "already", status)}
        columns["probability"] = window.probability
        error = standard_error(window.probability, self.calibration.n_independent(horizon, j))
        columns["standard_error"] = np.where(is_beyond, 0.0, error)
        for name in ("earliest", "median", "latest"):
            since = getattr(window, name)
            when = np.where(since < horizon, end + since, until)
            at = panel.like(when, np.zeros((len(when), panel.n_channels)), np.arange(len(end) + 1))
            columns[name] = at.user_times()
        return pd.DataFrame(columns, index=pd.Index(panel.ids, tupleize_cols=False))

    def _crossed(
        self, sign: float, line: float, channel: int, horizon: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Crossing times (n_series, n_samples) since the last rows; infinite if there is none.

        Then a mask (n_series,) of series that are certainly beyond the line at their last row.
        """
        scaler, reach = self.units.scaler, self.calibration.known_between()[1]
        limits = [scaler.transform(x)[:, channel] for x in (self.last.floor, self.last.ceiling)]
        leads = [grid_leads(length, self.units.time_scale, reach) for length in horizon]
        found = np.empty((len(leads), len(self.drawn)))
        for part in series_chunks([len(lead) for lead in leads], _MOST_TIMES):
            offsets = offsets_from([len(lead) for lead in leads[part]])
            start = np.repeat(self.panel.end[part], np.diff(offsets))
            ahead = self._ahead(part, np.concatenate(leads[part]) + start, offsets)
            for i, k in enumerate(range(len(leads))[part]):
                series = _at(ahead, slice(*offsets[i : i + 2]))
                values = [
                    self.calibration.sample(_at(series, rows), self.drawn, channel)
                    for rows in _time_slices(len(series.values), len(self.drawn))
                ]
                inside = np.clip(np.concatenate(values), limits[0][k], limits[1][k])
                found[k] = first_crossings(leads[k], sign * (inside - line))
        found[found > horizon[:, None]] = np.inf
        now, is_noisy = (column[:, channel] for column in self.last[:2])
        is_beyond = ~is_noisy & (sign * (now - line) >= 0)
        found[is_beyond] = 0.0
        return found, is_beyond

    def _ahead(self, part: slice, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Forecasts of a slice of the series at times (Q,); at the last row, exact observations.

        Errors grow from 0 there, except for noisy observations.
        """
        ahead, counts = self.outlook(part, times, offsets), np.diff(offsets)
        since = times - np.repeat(self.panel.end[part], counts)
        now, is_noisy = (np.repeat(column[part], counts, axis=0) for column in self.last[:2])
        is_known = (since == 0)[:, None] & ~np.isnan(now) & ~is_noisy
        least = np.where(is_noisy, self.calibration.known_between()[0], 0.0)
        return ahead._replace(
            values=np.where(is_known, now, ahead.values),
            leads=np.maximum(ahead.leads, least),
            expected=np.where(is_known, 0.0, ahead.expected),
        )

    def _line(self, threshold: float, channel: int) -> float:
        """A threshold in standard deviations from the mean."""
        scaler, name = self.units.scaler, self.panel.channel_names[channel]
        if scaler.observed is not None and not scaler.observed[channel]:
            raise ValueError(
                f"channel {name!r} was never observed in fit: nothing is known of when it crosses "
                "a line; fit on series that have it."
            )
        check_line(threshold)
        mean, scale = scaler.mean[channel], scaler.scale[channel]
        line = (threshold - mean) / scale
        if not abs(line) <= _FURTHEST:
            raise ValueError(
                f"threshold={threshold!r} is far from all values of channel {name!r}, whose mean "
                f"was {mean:.4g} and standard deviation {scale:.4g} in fit: give it in the units "
                "of fit, or choose another channel."
            )
        return float(line)


def draw_courses(calibration: Any, n_samples: int, random_state: Any) -> tuple[Any, np.ndarray]:
    """The error model, and indices (n_samples,) of error paths; a ValueError without any."""
    if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
        raise ValueError(f"n_samples must be an int of at least 1, got {n_samples!r}.")
    if isinstance(random_state, np.random.Generator):
        random_state = np.random.RandomState(random_state.bit_generator)
    rng = np.random.RandomState() if random_state is None else check_random_state(random_state)
    if calibration is None or (drawn := calibration.draw(n_samples, rng)) is None:
        raise ValueError(_UNKNOWN)
    return calibration, drawn


_UNKNOWN = (
    "the errors of forecasts are not known: fit again with this version, on series of two rows or "
    "more."
)
_EARLY = "its last observation ({} such times): futures start there; use interpolate() before it."


def _time_slices(n_times: int, n_samples: int) -> Iterator[slice]:
    """Slices of times whose samples are few enough to be computed at once."""
    step = max(_MOST_VALUES // n_samples, 1)
    return (slice(start, start + step) for start in range(0, n_times, step))


def _at(ahead: Ahead, rows: Any) -> Ahead:
    """Select times by an index or a slice."""
    return Ahead(*(column[rows] for column in ahead))


def read_until(panel: Panel, until: Any, since: np.ndarray | None) -> np.ndarray:
    """Time (n_series,) up to which crossings are looked for; relative times count from `since`."""
    flat = one_time_each(panel, until, since, "until")
    why = (
        "before its last observation ({} such series): crossings are looked for after it; give a "
        'later time, or a duration with relative_to="end".'
    )
    early = 0 - (flat - panel.end)
    refuse_first(early >= 0, lambda k: name_query(panel, k, flat[k], early[k], "until"), why)
    return flat


def grid_leads(horizon: float, gap: float, reach: float) -> np.ndarray:
    """Times (Q,) since the last row at which paths are evaluated, up to the `horizon` or beyond.

    They begin a grid that is the same for all horizons: two points per typical gap up to a time
    `reach`, as far as errors are known, then ever fewer.
    """
    step = gap / _FINEST
    n_even = int(min(np.ceil(reach / step), _MOST_EVEN))
    n_needed = int(min(horizon / step, n_even)) + 1
    even = step * np.arange(n_needed + 1)
    n_later = np.ceil(_GROWTH * np.log1p(max(horizon / step - n_even, 0.0) / _GROWTH)) + 1
    later = step * (n_even + _GROWTH * np.expm1(np.arange(1, n_later + 1) / _GROWTH))
    near = step * np.array(_NEAREST)
    grid = np.concatenate([even[:1], near, even[1 : n_even + 1], later])
    return grid[: np.searchsorted(grid, horizon) + 1]


def first_crossings(leads: np.ndarray, heights: np.ndarray) -> np.ndarray:
    """When each of S paths of heights (Q, S) above a line first reaches it; inf if it does not.

    Paths are linear between the times `leads` (Q,).
    """
    beyond = heights >= 0
    first = beyond.argmax(axis=0)
    before, column = np.maximum(first - 1, 0), np.arange(heights.shape[1])
    below, above = heights[before, column], heights[first, column]
    rise = np.where(first > 0, above - below, 1.0)
    share = np.where(first > 0, -below / rise, 0.0)
    found = leads[before] + share * (leads[first] - leads[before])
    return np.where(beyond.any(axis=0), found, np.inf)


def standard_error(probability: np.ndarray, n_known: np.ndarray) -> np.ndarray:
    """Standard deviations (n,) of probabilities, estimated from `n_known` independent errors.

    They are those of a beta distribution, from a uniform prior (Laplace's rule).
    """
    a, b = n_known * probability + 1, n_known * (1 - probability) + 1
    return np.sqrt(a * b / (a + b + 1)) / (a + b)


class Window(NamedTuple):
    """Summary of the crossings of n series; times are since the last rows."""

    probability: np.ndarray  # (n,): of a crossing up to the horizon
    earliest: np.ndarray  # (n,): all three infinite where they lie beyond the horizon
    median: np.ndarray
    latest: np.ndarray

    @classmethod
    def of(cls, crossings: np.ndarray, coverage: float) -> Window:
        """From the crossings (n, S) of samples, infinite where there is none."""
        levels = [(1 - coverage) / 2, 0.5, (1 + coverage) / 2]
        return cls(
            np.isfinite(crossings).mean(axis=1),
            *np.quantile(crossings, levels, axis=1, method="inverted_cdf"),
        )


class SamplesFutures:
    """Mixin of estimators: quantiles and samples of futures, and times of crossings."""

    def _forecasting(self) -> Any:
        """The embedder, with `units`, `filters` and `calibration` as in a `ModelEmbedder`."""
        raise NotImplementedError

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Forecasts at times (Q,) after the last rows; each row holds an observation."""
        raise NotImplementedError

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        """The series that are continued, with the channels of fit."""
        raise NotImplementedError

    def forecast_quantiles(
        self,
        X: Any,
        times: Any,
        alpha: Sequence[float],
        relative_to: str | None = None,
        *,
        inputs: Any = None,
    ) -> dict[float, Panel]:
        """Quantiles of forecasts, calibrated by a backtest on series that did not train the model.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times, as in `forecast`.
        alpha : sequence of float
            Probabilities between 0 and 1.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        dict of float to Panel
            For each probability, the quantile of all channels at these times. The median is
            `forecast`; the other quantiles lie symmetrically around it.

        Raises
        ------
        ValueError
            As in `forecast`, or if a probability does not lie between 0 and 1.
        """
        check_shares("alpha", alpha)
        panel = self._continued_panel(X, inputs)
        flat, offsets = query_times(panel, times, relative_to)
        found = self._quantiles(panel, flat, offsets, alpha)
        return {a: panel.like(flat, x, offsets) for a, x in zip(alpha, found, strict=True)}

    def forecast_interval(
        self,
        X: Any,
        times: Any = None,
        coverage: float = 0.9,
        relative_to: str | None = None,
        *,
        inputs: Any = None,
    ) -> tuple[Panel, Panel]:
        """Intervals around forecasts, calibrated like quantiles, wider for volatile series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such, default=None
            Times, as in `forecast`. Required.
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        tuple of two Panels
            The lower and the upper ends of all channels at these times.

        Raises
        ------
        ValueError
            As in `forecast_quantiles`.

        Examples
        --------
        >>> from skpolyode import PolyODETransformer
        >>> from skpolyode.datasets import make_ode_system
        >>> panel = make_ode_system("damped_pendulum", 12, random_state=0).panel
        >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
        >>> lower, upper = model.forecast_interval(panel, [0.5, 2.0], 0.9, "end")
        >>> bool((lower.values < upper.values).all())
        True
        """
        check_share("coverage", coverage)
        ends = [(1 - coverage) / 2, (1 + coverage) / 2]
        found = self.forecast_quantiles(X, times, ends, relative_to, inputs=inputs)
        return found[ends[0]], found[ends[1]]

    def sample_paths(
        self,
        X: Any,
        times: Any = None,
        relative_to: str | None = None,
        *,
        n_samples: int = 200,
        random_state: Any = None,
        inputs: Any = None,
    ) -> SamplePaths:
        """Sample futures of series: whole paths, joint in time and across channels.

        A sample is the forecast plus a whole path of errors, taken from a backtest on series that
        did not train the model. At each time, the share of samples inside an interval is its
        probability. The same error paths are drawn for each series, so that results do not depend
        on the other series in `X`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such, default=None
            Times from the last observation on, as in `forecast`. Required.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        n_samples : int, default=200
            Number of samples. At most 500 different error paths are known.
        random_state : int, RandomState, Generator or None, default=None
            Draws the error paths.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        SamplePaths
            Its `values` have the shape (n_series, n_samples, n_times, n_channels).

        Raises
        ------
        ValueError
            If a time is before the last observation of its series, or a series has none.
        """
        series = self._futures(partial(self._continued_panel, X, inputs), n_samples, random_state)
        return series.paths(*query_times(series.panel, times, relative_to))

    def crossing_times(
        self,
        X: Any,
        threshold: float,
        until: Any,
        relative_to: str | None = None,
        *,
        channel: str | int | None = None,
        direction: str = "above",
        coverage: float = 0.9,
        n_samples: int = 500,
        random_state: Any = 0,
        inputs: Any = None,
    ) -> pd.DataFrame:
        """When series will first reach a line, and how probable that is.

        Samples are followed from the last observation on, on a grid finer than the gaps of the
        series of `fit`, and are linear between its points. The grid is the same for all series and
        for each `until`: the probability cannot fall if `until` is later.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        threshold : float
            The line, in the units of the channel.
        until : scalar or array-like of shape (n_series,)
            How far to look: a time after the last observation, for all series or for each. In the
            units and of the type of the series' times.
        relative_to : {"start", "end"} or None, default=None
            What `until` counts from: the first or the last observation of each series. None:
            absolute times.
        channel : str, int or None, default=None
            Which channel, by name or position. None: the only one.
        direction : {"above", "below"}, default="above"
            The side of the line that counts as crossed.
        coverage : float, default=0.9
            Probability of the window from the earliest to the latest time.
        n_samples : int, default=500
            Number of samples.
        random_state : int, RandomState, Generator or None, default=0
            Draws the error paths.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        DataFrame
            One row for each series in the order of `X`, with its id as the index, and no NaN:

            - ``status``: "already" if the last observation, without noise, is at or beyond the
              line; "crosses" if a crossing up to `until` is more likely than not; "censored"
              otherwise.
            - ``probability`` of a crossing up to `until`; 1 if it has crossed already.
            - ``standard_error`` of the probability, from the number of backtest errors that do not
              overlap in time; 0 if it has crossed already. It is large after a fit to one series.
              It leaves out errors of the model: true probabilities are within two standard
              errors for 80 % of the series, not for 95 %.
            - ``earliest``, ``median`` and ``latest`` time, of the type of the series' times. Times
              after `until` are set to `until`. If it has crossed already, the last observation.

            Sort by "earliest" to see what is due first.

        Raises
        ------
        ValueError
            If `until` is not after the last observation of a series, a series has none, the line is
            far from all values of the channel, the channel or the direction is not valid, or the
            errors of forecasts are not known.
        """
        series = self._futures(partial(self._continued_panel, X, inputs), n_samples, random_state)
        panel = series.panel
        last = read_until(panel, until, edge(relative_to, panel.start, panel.end))
        return series.crossings(threshold, last, channel, direction, coverage)

    def _quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> list[np.ndarray]:
        """Quantiles (Q, D) for each probability; NaN for series without any observation."""
        has_answer, (known, *asked) = Query(panel, times, offsets).answered()
        found = np.full((len(alpha), len(times), panel.n_channels), np.nan)
        if len(known):
            found[:, has_answer] = self._observed_quantiles(known, *asked, alpha)
        return list(found)

    def _observed_quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> Any:
        """As `_quantiles`, for series that were observed, without empty rows."""
        if (errors := self._forecasting().calibration) is None:
            raise ValueError(_UNKNOWN)
        series = self._continuing(panel, errors, np.empty(0, np.int64))
        return series.quantiles(times, offsets, alpha)

    def _futures(self, read: Callable[[], Panel], n_samples: int, random_state: Any) -> Future:
        """The series that `read` returns, to be continued with drawn error paths.

        All of them are observed; they have no empty rows.
        """
        courses = draw_courses(self._forecasting().calibration, n_samples, random_state)
        panel = read()
        known = observed_series(panel)
        if not known.all():
            first, n_empty = plain_repr(panel.ids[np.argmin(known)]), int((~known).sum())
            raise ValueError(
                f"series {first} has no observation ({n_empty} such series), and so no future to "
                "sample: leave them out."
            )
        return self._continuing(observed_part(panel), *courses)

    def _continuing(self, panel: Panel, calibration: Any, drawn: np.ndarray) -> Future:
        model = self._forecasting()
        last = LastCells.of(panel, model.units, model.filters)
        known = last, model.units, calibration, drawn
        return Future(panel, *known, lambda part, *asked: self._outlook(panel[part], *asked))
