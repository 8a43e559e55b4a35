"""Input that sktime cannot read or may misread, and repairs of its side effects."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import check_shares
from skpolyode.panel import Panel
from skpolyode.panel.convert import has_channels_first
from skpolyode.panel.readers.long import refuse_swapped_levels
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


def in_zone_of_fit(method: Callable[..., Any]) -> Callable[..., Any]:
    """Method that checks X and y, and converts their times to the time zones of `fit`."""

    @functools.wraps(method)
    def converting(self: Any, *args: Any, **kwargs: Any) -> Any:
        X, y = method(self, *args, **kwargs)
        if not self.is_fitted:
            return X, y
        return _in_zone_of(self._context.X, X), _in_zone_of(self._context.y, y)

    return converting


def _in_zone_of(known: pd.DataFrame | None, new: pd.DataFrame | None) -> pd.DataFrame | None:
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
