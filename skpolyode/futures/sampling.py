"""Sampled futures of whatever forecasts, and the questions that they answer."""

from __future__ import annotations

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

_MOST_VALUES = 2_000_000  # of sampled paths at once, to bound memory
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

    def sample(self, ahead: Ahead, drawn: np.ndarray, channel: int) -> np.ndarray:
        """Values (Q, n_samples) of a channel on the drawn courses, in standard deviations."""


class SamplesFutures:
    """Mixin of what forecasts and knows its errors: sampled futures, and when they cross a line."""

    def _error_calibration(self) -> KnownErrors | None:
        """Errors of the forecasts, with their paths if they are known."""
        raise NotImplementedError

    def _forecast_units(self) -> tuple[Units, bool]:
        """Units of the forecasts, and whether observations are noisy."""
        raise NotImplementedError

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        """The series that are continued, with the channels of fit."""
        raise NotImplementedError

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Forecasts at times (Q,) from the last rows on, of series whose rows are all observed."""
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
        random_state : int, RandomState instance or None, default=None
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

    def _sampled(
        self,
        panel: Panel,
        flat: np.ndarray,
        offsets: np.ndarray,
        calibration: KnownErrors,
        drawn: np.ndarray,
    ) -> SamplePaths:
        """Drawn futures at times (Q,) of series whose rows are all observed."""
        refuse_early(panel, flat, offsets, panel.end, _EARLY)
        ahead = self._ahead(panel, flat, offsets)
        scaler = self._forecast_units()[0].scaler
        samples = np.empty((len(flat), len(drawn), panel.n_channels))
        for j in range(panel.n_channels):
            samples[..., j] = calibration.sample(ahead, drawn, j)
        forecast = panel.like(flat, scaler.inverse(ahead.values), offsets)
        return SamplePaths(forecast, scaler.inverse(samples))

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
        the series of `fit`, with straight lines between.

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
        random_state : int, RandomState instance or None, default=0
            Draws the courses.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs, as in `forecast`.

        Returns
        -------
        DataFrame
            One row for each series in the order of `X`, with its id as the index, and no NaN:

            - ``status``: "beyond" if the series is at the line or beyond now, "crosses" if it more
              likely crosses than not, or "censored": more likely it does not, up to `until`.
            - ``probability`` of a crossing up to `until`; 1 of a series that is beyond.
            - ``earliest``, ``median`` and ``latest`` time, of the type of the series' times. What
              lies after `until` is `until`. Of a series that is beyond, its last observation.

            ``table.sort_values("earliest")`` lists first what is due first.

        Raises
        ------
        ValueError
            If `until` is not after the last observation of a series, a series has none, the line is
            far from all values of the channel, the channel or the direction is not known, or the
            errors of forecasts are not.
        """
        calibration, drawn = self._drawn(n_samples, random_state)
        sign = sign_of(direction)
        check_share("coverage", coverage)
        panel = self._observed(self._continued_panel(X, inputs))
        j = channel_at(panel, channel)
        units, _ = self._forecast_units()
        line = self._line(threshold, panel, j)
        end, last = panel.end, _read_until(panel, until, relative_to)
        horizon = last - end
        found, is_beyond = np.empty((panel.n_series, n_samples)), np.empty(panel.n_series, bool)
        leads = grid_leads(horizon, units.time_scale)
        for part in series_chunks([len(own) for own in leads], max(_MOST_VALUES // n_samples, 1)):
            counts = offsets_from([len(own) for own in leads[part]])
            flat = np.concatenate(leads[part]) + np.repeat(end[part], np.diff(counts))
            ahead = self._ahead(panel[part], flat, counts)
            heights = sign * (calibration.sample(ahead, drawn, j) - line)
            is_beyond[part] = sign * (ahead.values[counts[:-1], j] - line) >= 0
            for i, k in enumerate(range(panel.n_series)[part]):
                found[k] = first_crossings(leads[k], heights[counts[i] : counts[i + 1]])
        found[is_beyond] = 0.0
        window = Window.of(found, coverage)
        status = np.where(np.isinf(window.median), "censored", "crosses")
        columns = {"status": np.where(is_beyond, "beyond", status)}
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
        rng = np.random.RandomState() if random_state is None else check_random_state(random_state)
        drawn = None if calibration is None else calibration.draw(n_samples, rng)
        if drawn is None:
            raise ValueError(
                "the errors of forecasts are not known: fit again with this version, on series of "
                "two rows or more; of PolyODEForecaster, ask the forecaster itself."
            )
        return calibration, drawn

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

    def _ahead(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        """Forecasts at times (Q,) from the last rows on; the exact observations at the last row."""
        units, filters = self._forecast_units()
        counts = np.diff(offsets)
        since = times - np.repeat(panel.end, counts)
        ahead = self._outlook(panel, times, offsets)
        last = panel.offsets[1:] - 1
        now = np.repeat(units.scaler.read(panel.values[last]), counts, axis=0)
        is_known = (since == 0)[:, None] & ~np.isnan(now)
        is_known &= not filters
        if panel.errors is not None:
            is_known &= ~np.repeat(panel.errors[last] > 0, counts, axis=0)
        values = np.where(is_known, now, ahead.values)
        return ahead._replace(values=values, expected=np.where(is_known, 0.0, ahead.expected))

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


_EARLY = "its last observation ({} such times): futures start there; interpolate() tells the past."


def _read_until(panel: Panel, until: Any, relative_to: str | None) -> np.ndarray:
    """Time (n_series,) up to which crossings are looked for."""
    refuse_reordered(until, panel, "until")
    given = [[time] for time in until] if np.ndim(until) == 1 else until
    try:
        flat, _ = query_times(panel, given, relative_to)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("times", "until", 1)) from None
    if len(flat) != panel.n_series:
        raise ValueError(
            f"until must be one time, or one for each of the {panel.n_series} series, got "
            f"{plain_repr(until)}."
        )
    horizon = flat - panel.end
    if (wrong := horizon <= 0).any():
        k = int(np.argmax(wrong))
        name = name_query(panel, k, flat[k], 0 - horizon[k]).replace("times of", "until of", 1)
        raise ValueError(
            f"{name} before its last observation ({int(wrong.sum())} such series): crossings are "
            'looked for after it; give a later time, or a duration with relative_to="end".'
        )
    return flat
