"""Sampled futures of whatever forecasts, and the questions that they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state

from skpolyode.errors import check_share, plain_repr
from skpolyode.futures.crossings import Window, first_crossings, grid_leads
from skpolyode.futures.samples import SamplePaths, channel_at, check_line, sign_of
from skpolyode.panel import Panel, offsets_from, query_times
from skpolyode.panel.query import name_query, refuse_early
from skpolyode.panel.select import observed_part, observed_series, series_chunks
from skpolyode.panel.selection import refuse_reordered
from skpolyode.panel.units import Units

_MOST_TIMES = 50_000  # that are forecast at once, to bound memory
_MOST_VALUES = 200_000  # of sampled paths that are computed at once, to bound memory
_FURTHEST = 20.0  # standard deviations from the mean that a line may be


class Ahead(NamedTuple):
    """Forecasts at Q times after the last rows of series, and how far off they may be."""

    values: np.ndarray  # float64 (Q, D), in standard deviations from the mean
    leads: np.ndarray  # float64 (Q, D): time since the channel was last observed, inf if never
    signs: np.ndarray  # float64 (Q, D, S): of how large errors will be
    expected: np.ndarray  # float64 (Q, D): unit of the errors; 0 of what is known


class KnownErrors(Protocol):
    """How far off forecasts are; an embedder carries it, and does not look inside."""

    def signs(
        self, values: np.ndarray, offsets: np.ndarray, rows: np.ndarray, expected: np.ndarray
    ) -> np.ndarray:
        """What errors (n, D) depend on, (n, D, S), after rows (n,); some size is `expected`."""

    def draw(self, n_samples: int, rng: np.random.RandomState) -> np.ndarray | None:
        """Which courses of errors (n_samples,) are taken; None if none are known."""

    def known_between(self) -> tuple[float, float]:
        """First and last time since an origin at which courses are known; held outside."""

    def sample(self, ahead: Ahead, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Values (Q, n_samples) of a channel on the drawn courses, in standard deviations."""


class Futures:
    """Base of what forecasts and knows its errors: sampled futures of series that are read."""

    def _error_calibration(self) -> KnownErrors | None:
        """Errors of the forecasts, with their paths if they are known."""
        raise NotImplementedError

    def _forecast_units(self) -> tuple[Units, bool]:
        """Units of the forecasts, and whether observations are noisy."""
        raise NotImplementedError

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Forecasts at times (Q,) from the last rows on, of series whose rows are all observed."""
        raise NotImplementedError

    def _sampled(
        self,
        panel: Panel,
        flat: np.ndarray,
        offsets: np.ndarray,
        calibration: KnownErrors,
        drawn: np.ndarray,
    ) -> SamplePaths:
        """Drawn futures at times (Q,) of series whose last rows hold an observation."""
        refuse_early(panel, flat, offsets, panel.end, _EARLY)
        ahead = self._ahead(panel, flat, offsets, calibration)
        scaler = self._forecast_units()[0].scaler
        samples = np.empty((len(flat), len(drawn), panel.n_channels))
        for rows in _stretches(len(flat), len(drawn)):
            for j in range(panel.n_channels):
                samples[rows, :, j] = calibration.sample(_at(ahead, rows), drawn, j)
            samples[rows] = scaler.inverse(samples[rows])
        return SamplePaths(panel.like(flat, scaler.inverse(ahead.values), offsets), samples)

    def _crossings(
        self,
        panel: Panel,
        threshold: float,
        last: np.ndarray,
        channel: str | int | None,
        direction: str,
        coverage: float,
        calibration: KnownErrors,
        drawn: np.ndarray,
    ) -> pd.DataFrame:
        """When drawn futures cross a line, up to the `last` time (n_series,)."""
        sign = sign_of(direction)
        check_share("coverage", coverage)
        j = channel_at(panel, channel)
        line = self._line(threshold, panel, j)
        end, horizon = panel.end, last - panel.end
        gap, reach = self._forecast_units()[0].time_scale, calibration.known_between()[1]
        leads = [grid_leads(own, gap, reach) for own in horizon]
        found = np.empty((panel.n_series, len(drawn)))
        is_beyond = np.empty(panel.n_series, bool)
        for part in series_chunks([len(own) for own in leads], _MOST_TIMES):
            counts = offsets_from([len(own) for own in leads[part]])
            flat = np.concatenate(leads[part]) + np.repeat(end[part], np.diff(counts))
            ahead = self._ahead(panel[part], flat, counts, calibration)
            now = _at(ahead, counts[:-1])
            is_beyond[part] = (now.expected[:, j] == 0) & (sign * (now.values[:, j] - line) >= 0)
            for i, k in enumerate(range(panel.n_series)[part]):
                own = _at(ahead, slice(*counts[i : i + 2]))
                heights = sign * (_sampled_values(calibration, own, drawn, j) - line)
                found[k] = first_crossings(leads[k], heights)
        found[found > horizon[:, None]] = np.inf
        found[is_beyond] = 0.0
        window = Window.of(found, coverage)
        status = np.where(np.isinf(window.median), "censored", "crosses")
        columns = {"status": np.where(is_beyond, "already", status)}
        columns["probability"] = window.probability
        for name in ("earliest", "median", "latest"):
            since = getattr(window, name)
            own = np.where(since < horizon, end + since, last)
            at = panel.like(own, np.zeros((len(own), panel.n_channels)), np.arange(len(own) + 1))
            columns[name] = at.user_times()
        return pd.DataFrame(columns, index=pd.Index(panel.ids, tupleize_cols=False))

    def _drawn(self, n_samples: int, random_state: Any) -> tuple[KnownErrors, np.ndarray]:
        """What is known of errors, and which of their paths (n_samples,) are taken."""
        calibration = self._error_calibration()
        if not isinstance(n_samples, Integral) or isinstance(n_samples, bool) or n_samples < 1:
            raise ValueError(f"n_samples must be an int of at least 1, got {n_samples!r}.")
        if isinstance(random_state, np.random.Generator):
            random_state = np.random.RandomState(random_state.bit_generator)
        rng = np.random.RandomState() if random_state is None else check_random_state(random_state)
        drawn = None if calibration is None else calibration.draw(n_samples, rng)
        if drawn is None:
            raise ValueError(
                "the errors of forecasts are not known: fit again with this version, on series of "
                "two rows or more; of PolyODEForecaster, ask the forecaster itself."
            )
        return calibration, drawn

    def _ahead(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, calibration: KnownErrors
    ) -> Ahead:
        """Forecasts at times (Q,) from the last rows on; the exact observations at the last row.

        Errors grow from none there, but those of observations with noise.
        """
        units, filters = self._forecast_units()
        counts = np.diff(offsets)
        since = times - np.repeat(panel.end, counts)
        ahead = self._outlook(panel, times, offsets)
        last = panel.offsets[1:] - 1
        now = np.repeat(units.scaler.read(panel.values[last]), counts, axis=0)
        is_noisy = np.full(now.shape, filters)
        if panel.errors is not None:
            is_noisy |= np.repeat(panel.errors[last] > 0, counts, axis=0)
        is_known = (since == 0)[:, None] & ~np.isnan(now) & ~is_noisy
        return ahead._replace(
            values=np.where(is_known, now, ahead.values),
            leads=np.where(
                is_noisy, np.maximum(ahead.leads, calibration.known_between()[0]), ahead.leads
            ),
            expected=np.where(is_known, 0.0, ahead.expected),
        )

    def _line(self, threshold: float, panel: Panel, channel: int) -> float:
        """A threshold in standard deviations from the mean."""
        scaler, name = self._forecast_units()[0].scaler, panel.channel_names[channel]
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


class SamplesFutures(Futures):
    """Mixin of estimators: sampled futures of series, and when they cross a line."""

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        """The series that are continued, with the channels of fit."""
        raise NotImplementedError

    def sample_paths(
        self,
        X: Any,
        times: Any,
        relative_to: str | None = None,
        *,
        n_samples: int = 200,
        random_state: Any = None,
        inputs: Any = None,
    ) -> SamplePaths:
        """Sample futures of series: whole courses, joint in time and across channels.

        A course is the forecast and a whole path of errors, as a backtest of series that did not
        train the model has made them. At each time, as many courses are inside each interval as
        its probability says. The same paths are drawn for each series, so that an answer does not
        depend on the other series in `X`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, as in `forecast`.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from, as in `forecast`.
        n_samples : int, default=200
            Number of courses. At most 500 different error paths are known.
        random_state : int, RandomState, Generator or None, default=None
            Draws the courses.
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
        known = self._drawn(n_samples, random_state)
        panel = self._observed(self._continued_panel(X, inputs))
        return self._sampled(panel, *query_times(panel, times, relative_to), *known)

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
        """When series will first reach a line, and how sure that is.

        Sampled courses are followed from the last observation on, on a grid finer than the gaps of
        the series of `fit`, with straight lines between. The grid is the same for all series and
        however far one looks: the later `until` is, the more have crossed.

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
            From where on the line is crossed.
        coverage : float, default=0.9
            Probability of the window from the earliest to the latest time.
        n_samples : int, default=500
            Number of sampled courses.
        random_state : int, RandomState, Generator or None, default=0
            Draws the courses.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        DataFrame
            One row for each series in the order of `X`, with its id as the index, and no NaN:

            - ``status``: "already" if the last observation, without noise, is at the line or past
              it, "crosses" if the series more likely crosses than not, or "censored": more likely
              it does not, up to `until`.
            - ``probability`` of a crossing up to `until`; 1 where it has crossed already.
            - ``earliest``, ``median`` and ``latest`` time, of the type of the series' times. What
              lies after `until` is `until`. Of what has crossed already, the last observation.

            ``table.sort_values("earliest")`` lists first what is due first.

        Raises
        ------
        ValueError
            If `until` is not after the last observation of a series, a series has none, the line is
            far from all values of the channel, the channel or the direction is not known, or the
            errors of forecasts are not.
        """
        known = self._drawn(n_samples, random_state)
        panel = self._observed(self._continued_panel(X, inputs))
        last = read_until(panel, until, partial(query_times, panel, relative_to=relative_to))
        return self._crossings(panel, threshold, last, channel, direction, coverage, *known)

    def _observed(self, panel: Panel) -> Panel:
        """The series, without rows that hold no observation."""
        known = observed_series(panel)
        if not known.all():
            first, n_empty = plain_repr(panel.ids[np.argmin(known)]), int((~known).sum())
            raise ValueError(
                f"series {first} has no observation ({n_empty} such series), and so no future to "
                "sample: leave them out."
            )
        return observed_part(panel)


_EARLY = "its last observation ({} such times): futures start there; interpolate() tells the past."


def _stretches(n_times: int, n_samples: int) -> Iterator[slice]:
    """Stretches of times at which samples are few enough to be computed at once."""
    step = max(_MOST_VALUES // n_samples, 1)
    return (slice(start, start + step) for start in range(0, n_times, step))


def _at(ahead: Ahead, rows: Any) -> Ahead:
    """Some of the times, by an index or a slice."""
    return Ahead(*(column[rows] for column in ahead))


def _sampled_values(
    calibration: KnownErrors, ahead: Ahead, drawn: np.ndarray, channel: int
) -> np.ndarray:
    """Values (Q, n_samples) of a channel, in standard deviations."""
    stretches = _stretches(len(ahead.values), len(drawn))
    return np.concatenate([calibration.sample(_at(ahead, t), drawn, channel) for t in stretches])


def read_until(
    panel: Panel, until: Any, query: Callable[[Any], tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Time (n_series,) up to which crossings are looked for; `query` reads times of each series."""
    refuse_reordered(until, panel, "until")
    given = until
    if pd.api.types.is_list_like(until):
        given = [list(own) if pd.api.types.is_list_like(own) else [own] for own in until]
        if [len(own) for own in given] != [1] * panel.n_series:
            raise ValueError(
                f"until must be one time, or one for each of the {panel.n_series} series, got "
                f"{plain_repr(until)}."
            )
    try:
        flat, _ = query(given)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("times", "until", 1)) from None
    horizon = flat - panel.end
    if (wrong := horizon <= 0).any():
        k = int(np.argmax(wrong))
        name = name_query(panel, k, flat[k], 0 - horizon[k]).replace("times of", "until of", 1)
        raise ValueError(
            f"{name} before its last observation ({int(wrong.sum())} such series): crossings are "
            'looked for after it; give a later time, or a duration with relative_to="end".'
        )
    return flat
