"""Kinds of input that would be misunderstood, each with the way to pass it."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

import pandas as pd

from skpolyode.panel.readers.kinds import (
    column_names,
    first_of,
    is_id_name,
    is_nested,
    is_time_name,
    is_vector,
    schema_of,
)


def refusal(X: Any) -> str | None:
    """Say what is wrong with an input as a whole and how to pass it, or None."""
    if isinstance(X, pd.DataFrame) and isinstance(X.index, pd.MultiIndex):
        return (
            "is a DataFrame with a MultiIndex, whose rows are time points and not series; "
            "convert it with Panel.from_sktime(X), or with Panel.from_long(X.reset_index(), ...)."
        )
    if isinstance(X, pd.DataFrame) and is_nested(X):
        return "is a DataFrame whose cells hold whole series; convert it with Panel.from_sktime(X)."
    if reason := _no_flat_frame(X):
        return reason
    is_pair = isinstance(X, tuple) and len(X) == 2 and not isinstance(X[0], pd.Series)
    if is_pair and is_vector(X[0]):
        return "is one bare pair (times, values); wrap it in a list: [(times, values)]."
    first = first_of(X)
    if isinstance(first, tuple) and len(first) == 2 and isinstance(first[1], pd.DataFrame):
        key, frame = first
        is_times = isinstance(key, tuple) and len(key) == len(frame)
        if isinstance(key, str | tuple | numbers.Number) and not is_times:
            return "is a list of pairs (key, frame); pass dict(X), whose keys are the ids."
    if isinstance(X, pd.api.typing.DataFrameGroupBy):
        return "is a groupby; pass dict(list(X)), whose keys are the ids."
    if isinstance(X, Iterator):
        return f"is a {type(X).__name__}, which can be read only once; pass list(X)."
    return None


def _no_flat_frame(X: Any) -> str | None:
    """Refuse frames with columns of times or of ids, by type or by name, or indexed by times."""
    if isinstance(X, pd.DataFrame):
        columns = [
            str(name)
            for name, kind in X.dtypes.items()
            if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype)
        ]
    else:
        columns = [name for name, kind in schema_of(X).items() if kind.is_temporal()]
    columns = columns or [str(name) for name in column_names(X) if is_time_name(name)]
    if columns:
        return (
            f"has columns of times ({', '.join(columns)}), but each row of a flat frame is "
            "a series and each column a moment of all series; convert a table with a row for each "
            f"time with Panel.from_long(X, id=..., time={columns[0]!r})."
        )
    if ids := [name for name in column_names(X) if is_id_name(name)]:
        return (
            f"has a column of ids ({ids[0]}), but each row of a flat frame is a series and each "
            "column a moment of all series; convert a table with a row for each time with "
            f"Panel.from_long(X, id={ids[0]!r}, time=...), or move the ids of a row for each "
            f"series to the index with X.set_index({ids[0]!r})."
        )
    if not isinstance(X, pd.DataFrame):
        return None
    kinds = pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex
    if isinstance(X.index, kinds) or X.index.dtype.kind == "f":
        return (
            f"is one DataFrame with a {type(X.index).__name__} of {X.index.dtype}, which looks "
            "like times, but each row of a flat frame is a series; pass a list, [X], if it is one "
            "series indexed by time, and Panel.from_array(X) if its rows are series."
        )
    return None
