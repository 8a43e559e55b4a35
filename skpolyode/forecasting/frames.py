"""Between sktime and this package: input that sktime may misread, its frames and horizons."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset
from sktime.forecasting.base import ForecastingHorizon

from skpolyode.errors import check_shares, plain_repr
from skpolyode.panel import Inputs, Panel, offsets_from, query_times
from skpolyode.panel.cells import as_timedelta
from skpolyode.panel.convert import has_channels_first
from skpolyode.panel.query import moments, refuse_words
from skpolyode.panel.readers.long import refuse_repeated_rows, refuse_swapped_levels
from skpolyode.transformers.input import unchanged_by_errors


def is_foreign(y: Any) -> bool:
    """Whether y has a type that sktime cannot read: this package reads it, or raises an error."""
    if isinstance(y, list | tuple):
        return not y or not all(isinstance(frame, pd.DataFrame) for frame in y)
    return y is None or isinstance(y, dict | Panel)


def check_countable(y: Any) -> None:
    """Raise an error if sktime cannot read y, or its horizons cannot count on the index."""
    if is_foreign(y) and not isinstance(y, Panel):
        raise TypeError(
            f"y is a {type(y).__name__}, a type that sktime does not read: use pretrain(y) and "
            "forecast(y, times), or give DataFrames."
        )
    if isinstance(y, np.ndarray) and y.ndim in (2, 3):
        _refuse_other_axes(y)
    zones = {str(getattr(frame.index, "tz", None)) for frame in y} if isinstance(y, list) else ()
    if len(zones) > 1:
        raise TypeError(
            f"y has series of the time zones {sorted(zones)}: give all of them one, with "
            "tz_convert, or with tz_localize where there is none."
        )
    if isinstance(y, Panel) and y.is_datetime:
        raise TypeError(
            "y is a Panel, a type that sktime does not read: use fit(y.to_sktime()), or "
            "pretrain(y) and forecast(y, times)."
        )
    index = y.index if isinstance(y, pd.Series | pd.DataFrame) else None
    if isinstance(index, pd.MultiIndex):
        refuse_swapped_levels(index, "y")
    times = None if index is None else index.get_level_values(-1)
    if isinstance(y, Panel) or (times is not None and pd.api.types.is_float_dtype(times)):
        raise TypeError(
            "sktime's horizons cannot count on a Panel or on an index of real numbers: use "
            "pretrain(panel) and forecast(panel, times), or index y by datetimes."
        )
    if times is not None and pd.api.types.infer_dtype(times) == "string":
        raise TypeError(
            f"the index of y holds text, such as {times[0]!r}: convert it with pandas.to_datetime."
        )
    date = [] if not isinstance(y, pd.DataFrame) else [*y.select_dtypes(["datetime", "datetimetz"])]
    if date:
        raise TypeError(f"y has the column {date[0]!r} of times: use y.set_index({date[0]!r}).")


def _refuse_other_axes(y: np.ndarray) -> None:
    """Refuse, or warn of, arrays in which sktime would find more channels than times."""
    if not y.size:
        raise ValueError(f"y is empty: an array of shape {y.shape}.")
    n_times, n_channels = y.shape if y.ndim == 2 else y.shape[:0:-1]
    if n_channels < max(n_times, 2):
        return
    its, ours = "(time, channel)", "(series, time)"
    if y.ndim == 3:
        its, ours = "(series, channel, time)", "(series, time, channel)"
    message = (
        f"y of shape {y.shape} is {its} for sktime: {n_channels} channels at {n_times} times. If "
        f"it is {ours}, use pretrain(Panel.from_array(y)) and forecast(y, times)"
    )
    if y.ndim == 3 and has_channels_first(n_times, n_channels):
        raise ValueError(f"{message}; if not, pretrain(Panel.from_sktime(y)).")
    warnings.warn(f"{message}.", stacklevel=4)


def warn_of_exogenous(X: Any, transformer: Any) -> None:
    """Warn of exogenous series that the model does not use, which sktime then drops."""
    if X is not None and not getattr(transformer, "uses_inputs", transformer is None):
        warnings.warn(
            f"{type(transformer).__name__} does not use exogenous series: X is ignored. Take "
            "PolyODETransformer, ODERNNTransformer or GRUODEBayesTransformer, or give what was "
            "measured with y as further channels of y.",
            stacklevel=3,
        )


def undone_by_errors(method: Callable[..., Any]) -> Callable[..., Any]:
    """Method whose errors leave the forecaster unchanged: sktime writes before it checks."""

    @functools.wraps(method)
    def undoing(self: Any, *args: Any, **kwargs: Any) -> Any:
        with unchanged_by_errors(self):
            # sktime changes this dict in place, and replaces all else.
            self._converter_store_y = dict(self._converter_store_y)
            return method(self, *args, **kwargs)

    return undoing


def in_zone_of(known: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame | None:
    """`new` in the time zone of `known`, and with its frequency if the times keep to it."""
    if known is None or new is None:
        return new
    old, given = (getattr(frame.index, "levels", [frame.index])[-1] for frame in (known, new))
    zones = [getattr(times, "tz", None) for times in (old, given)]
    if None in zones or str(zones[0]) == str(zones[1]):
        return new
    times = given.tz_convert(old.tz)
    with suppress(ValueError):
        times.freq = old.freq or times.freq
    is_series = not isinstance(new.index, pd.MultiIndex)
    return new.set_axis(times if is_series else new.index.set_levels(times, level=-1))


def with_levels(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Method that refuses levels that are not numbers between 0 and 1."""

    @functools.wraps(method)
    def asking(self: Any, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(method).bind(self, *args, **kwargs).arguments.get(name)
        if given is not None:
            check_shares(name, np.atleast_1d(given))
        return method(self, *args, **kwargs)

    return asking


@dataclass(frozen=True)
class Context:
    """The past of each series when a forecast is made.

    Parameters
    ----------
    y : DataFrame
        The series, as given.
    X : DataFrame or None
        Inputs of the series, as given.
    freq : offset or None
        Step of integer horizons, if the index has no frequency.
    panel : Panel
        The series with times since their start, sorted by instance. Inputs are linear.
    instances : Index or None
        Labels of the series, one or more levels; None for a single series.
    cutoffs : tuple of Index
        The last time of each series, as an index of length one and of the user's type.
    time_name : hashable
        Name of the index level of times.
    """

    y: pd.DataFrame
    X: pd.DataFrame | None
    freq: Any
    panel: Panel
    instances: pd.Index | None
    cutoffs: tuple[pd.Index, ...]
    time_name: Any

    def label(self, series: int) -> str:
        """Name one series in a message."""
        if self.instances is None:
            return ""
        return f" of instance {plain_repr(self.instances[series])}"


@dataclass(frozen=True)
class Query:
    """Query times of each series of a context, and the index of the answer."""

    times: np.ndarray  # float64 (Q,), in the units of the panel
    offsets: np.ndarray  # int64 (n_series + 1,)
    index: pd.Index

    def rows_at(self, values: np.ndarray, index: pd.Index) -> np.ndarray:
        """Rows of an answer (Q, D) in the order of another index, whose labels may repeat."""
        first = np.flatnonzero(~self.index.duplicated())
        return values[first[self.index[first].get_indexer(index)]]


def extended(
    y: pd.DataFrame | None, new: pd.DataFrame | None, name: str = "y"
) -> pd.DataFrame | None:
    """`y` with the rows of `new`, whose observations replace those of `y`."""
    if y is None or new is None:
        return y if new is None else new
    if list(new.columns) != list(y.columns):
        raise ValueError(
            f"{name} has the channels {list(new.columns)}, but the forecaster was fitted on "
            f"{list(y.columns)}: give all of them in that order, NaN where not observed."
        )
    refuse_repeated_rows(new, name)
    _refuse_other_clock(y, new, name)
    return new.astype(np.float64).combine_first(y)


def _refuse_other_clock(y: pd.DataFrame, new: pd.DataFrame, name: str) -> None:
    """Raise a ValueError if times are of another kind, or if only `y` or `new` has a time zone."""
    known, given = (frame.index.get_level_values(-1) for frame in (y, new))
    kinds = ["numbers" if t.dtype.kind in "iuf" else type(t).__name__ for t in (known, given)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"the times of {name} are of the kind {kinds[1]}, but those of fit are of the kind "
            f"{kinds[0]}: give {name} the same kind of index."
        )
    if not isinstance(known, pd.DatetimeIndex) or (known.tz is None) == (given.tz is None):
        return
    zones = ["no time zone" if t.tz is None else f"the time zone {t.tz}" for t in (given, known)]
    zone = None if known.tz is None else str(known.tz)
    level = ", level=-1" if isinstance(new.index, pd.MultiIndex) else ""
    raise ValueError(
        f"the datetimes of {name} have {zones[0]}, but the forecaster was fitted on datetimes with "
        f"{zones[1]}: give {name}.tz_localize({zone!r}{level}), once its clock is that of fit."
    )


def channel_places(fitted: pd.Index, given: pd.Index, is_unnamed: bool = False) -> np.ndarray:
    """Positions of the given channels among those of fit; an unnamed one matches a single channel.

    Raises
    ------
    ValueError
        If they are not the same channels; their order does not matter.
    """
    if is_unnamed and len(fitted) == 1:
        return np.array([0])
    places = fitted.get_indexer(given)
    if sorted(places) != list(range(len(fitted))):
        raise ValueError(
            f"y has the channels {list(given)}, but the forecaster was fitted on {list(fitted)}: "
            "give all of them under these names, in any order, NaN where not observed."
        )
    return places


def read_context(y: pd.DataFrame, freq: Any = None, X: pd.DataFrame | None = None) -> Context:
    """Context of a frame with one index level (a series) or more (instances, then time).

    Parameters
    ----------
    y : DataFrame
        Rows of an instance may be scattered, but are in the order of time.
    freq : str or offset, optional
        Step of integer horizons, if the index has no frequency.
    X : DataFrame or None, default=None
        Inputs of the same instances, at any times. They are linear: a row of y depends on the row
        of X at its time, unlike with values that are held constant from there on.
    """
    refuse_repeated_rows(y, "y")
    freq = to_offset(freq)
    times = y.index.get_level_values(-1)
    if isinstance(times, pd.TimedeltaIndex):
        raise TypeError(
            "y is indexed by a TimedeltaIndex, from which sktime's horizons cannot count; use a "
            "DatetimeIndex (add a start date) or integers."
        )
    names = _names(y)
    if not isinstance(y.index, pd.MultiIndex):
        panel = Panel.from_frames([y], channel_names=names)
        if X is not None:
            rows = Panel.from_frames([X.sort_index()], channel_names=_names(X), empty="keep")
            panel = panel.with_inputs(Inputs(rows, "linear"))
        return Context(y, X, freq, _matched(panel, y), None, (_plain(times[-1:]),), times.name)
    labels = y.index.droplevel(-1)
    instances = labels.unique()  # in the order of the panel: that of their first rows
    order = instances.argsort()
    panel = Panel.from_sktime(y, channel_names=names)[order]
    last = np.empty(len(instances), dtype=np.int64)
    last[instances.get_indexer(labels)] = np.arange(len(y))  # later rows overwrite earlier ones
    cutoffs = tuple(_plain(times[row : row + 1]) for row in last[order])
    if X is not None:
        ordered = X.sort_index(level=-1)
        rows = Panel.from_sktime(ordered, channel_names=_names(X), empty="keep")
        known = ordered.index.droplevel(-1).unique()
        place = known.get_indexer(instances[order])
        if (place < 0).any():
            raise ValueError(
                f"X has no rows of the instances {instances[order][place < 0].to_list()[:5]}, "
                "which y has: give each of them X."
            )
        rows = replace(rows[place].rows, ids=panel.ids)
        panel = panel.with_inputs(Inputs(Panel.from_rows(rows), "linear"))
    return Context(y, X, freq, _matched(panel, y), instances[order], cutoffs, times.name)


def _names(X: pd.DataFrame) -> list[str]:
    """Names of the columns of X, which may be numbers."""
    return [str(name) for name in X.columns]


def _matched(panel: Panel, y: pd.DataFrame) -> Panel:
    """Panel with times since its start, and channels by position unless all names are text."""
    named = all(isinstance(name, str) for name in y.columns)
    rows = replace(panel.rows, has_channel_names=named)
    return Panel.from_rows(rows, panel.is_checked, panel.is_observed).since_start()


def _plain(cutoff: pd.Index) -> pd.Index:
    """Cutoff without a frequency, which need not be that of the series."""
    return pd.DatetimeIndex(cutoff, freq=None) if isinstance(cutoff, pd.DatetimeIndex) else cutoff


def read_horizon(context: Context, fh: ForecastingHorizon) -> Query:
    """Query times of a `ForecastingHorizon`, counted from the cutoff of each series."""
    values = fh.to_pandas()
    counts = pd.api.types.is_integer_dtype(values.dtype)
    absolute, keys = {}, []
    for series, cutoff in enumerate(context.cutoffs):
        is_datetime = isinstance(cutoff, pd.DatetimeIndex)
        step = _own_step(context, series, fh) if is_datetime and counts and fh.is_relative else None
        keys.append((cutoff[0], step))
        if keys[-1] in absolute:  # 2 ms a call
            continue
        if isinstance(cutoff, pd.DatetimeIndex | pd.PeriodIndex) and counts and not fh.is_relative:
            raise TypeError(
                f"fh holds the integers {values.tolist()} as absolute times, but y is indexed by a "
                f"{type(cutoff).__name__}; give an index of that type."
            )
        if not is_datetime and isinstance(values, pd.TimedeltaIndex):
            raise TypeError(
                f"fh holds durations, but y is indexed by a {type(cutoff).__name__}; give "
                "integers, or index y by datetimes."
            )
        if step is None:
            absolute[keys[-1]] = fh.to_absolute_index(cutoff)
            continue
        # sktime would use the name of the step, which loses its holidays.
        absolute[keys[-1]] = moved = pd.DatetimeIndex([cutoff[0] + k * step for k in values])
        with suppress(ValueError):
            moved.freq = step
    return _query(context, [absolute[key] for key in keys])


def spelled_horizon(fh: Any, cutoff: pd.Index) -> Any:
    """Convert text, and datetimes outside an index, to a horizon that sktime reads."""
    values = [fh] if isinstance(fh, str | datetime | np.datetime64) else fh
    if not isinstance(values, list | tuple | np.ndarray) or not len(values):
        return fh
    if not all(isinstance(value, str | datetime | np.datetime64) for value in values):
        return fh
    if isinstance(cutoff, pd.PeriodIndex):
        refuse_words(values, "fh")
        return pd.PeriodIndex(values, freq=cutoff.freq)
    if not isinstance(cutoff, pd.DatetimeIndex):
        raise TypeError(
            f"fh: got {plain_repr(values[0])}, but the index of y counts: give integers."
        )
    with suppress(TypeError, ValueError):
        return pd.TimedeltaIndex([as_timedelta(value) for value in values])
    return moments(values, cutoff.tz, "fh", "; durations are text such as '90min'")


def _own_step(context: Context, series: int, fh: ForecastingHorizon) -> pd.DateOffset:
    """Step of an integer horizon: that of the horizon, else of the series, else of the context.

    sktime gives a horizon without a frequency that of the first series.
    """
    lent = None if context.freq is None else context.freq.freqstr
    freq = fh.freq
    if freq in (None, lent):
        times = context.panel[[series]].user_times()
        found = _declared(context.y.index, times)
        if found is None and len(times) > 2:
            found = pd.infer_freq(times)
        freq = context.freq if found is None else found
    if freq is None:
        raise TypeError(
            f"fh counts {fh.to_pandas().tolist()} steps, but the datetimes{context.label(series)} "
            "in y are without a frequency and have no steps; ask for times (a DatetimeIndex) or "
            "for durations (Timedeltas), or give the step: ForecastingHorizon(fh, freq=...)."
        )
    return to_offset(freq)


def _declared(index: pd.Index, times: pd.DatetimeIndex) -> pd.DateOffset | None:
    """Frequency of an index, or of its level of times, if the times of a series keep to it."""
    freq = (index.levels[-1] if isinstance(index, pd.MultiIndex) else index).freq
    if freq is None:
        return None
    kept = times == pd.date_range(times[0], periods=len(times), freq=freq)
    return freq if kept.all() else None  # before pandas 3, `equals` compares resolutions, too


def read_index(context: Context, index: pd.Index) -> Query:
    """Query of each series at its rows of an index, with instances as in the context."""
    if context.instances is None:
        return _query(context, [index])
    codes = context.instances.get_indexer(index.droplevel(-1))
    if (codes < 0).any():
        unknown = index.droplevel(-1)[codes < 0].unique().to_list()
        raise ValueError(
            f"instances {unknown[:5]} are not known to the forecaster ({len(unknown)} such); fit "
            "or update it with their past first."
        )
    times = index.get_level_values(-1)
    # A stable sort, because rows of instances may be scattered.
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(1, len(context.instances)))
    return _query(context, [times[rows] for rows in np.split(order, bounds)])


def _query(context: Context, times: list[pd.Index]) -> Query:
    known = [k for k, asked in enumerate(times) if len(asked)]
    flat, _ = query_times(context.panel[known], [times[k] for k in known])
    counts = np.array([len(asked) for asked in times])
    offsets = offsets_from(counts)
    starts = context.panel.start
    early = flat < np.repeat(starts, counts)
    if early.any():
        first = int(np.flatnonzero(early)[0])
        series = int(np.searchsorted(offsets, first, side="right")) - 1
        raise ValueError(
            f"fh asks for {times[series][first - offsets[series]]}{context.label(series)}, which "
            f"is before its first row ({int(early.sum())} such times): nothing is known from "
            "there; ask for later times."
        )
    joined = times[known[0]].append([times[k] for k in known[1:]])
    if context.instances is None:
        return Query(flat, offsets, times[0].rename(context.time_name))
    repeated = context.instances.repeat(counts)
    levels = [repeated.get_level_values(k) for k in range(repeated.nlevels)]
    names = [*repeated.names, context.time_name]
    return Query(flat, offsets, pd.MultiIndex.from_arrays([*levels, joined], names=names))
