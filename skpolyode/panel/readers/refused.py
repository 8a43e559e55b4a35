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
    return next((reason for rule in _RULES if (reason := rule(X))), None)


def _multiindex(X: Any) -> str | None:
    if not isinstance(X, pd.DataFrame) or not isinstance(X.index, pd.MultiIndex):
        return None
    return (
        "is a DataFrame with a MultiIndex, whose rows are time points and not series; "
        "convert it with Panel.from_sktime(X), or with Panel.from_long(X.reset_index(), ...)."
    )


def _nested(X: Any) -> str | None:
    if not isinstance(X, pd.DataFrame) or not is_nested(X):
        return None
    return "is a DataFrame whose cells hold whole series; convert it with Panel.from_sktime(X)."


def _columns_of_times(X: Any) -> str | None:
    """Refuse frames with columns of datetimes, durations or periods, or of ids or times by name."""
    if isinstance(X, pd.DataFrame):
        columns = [
            str(name)
            for name, kind in X.dtypes.items()
            if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype)
        ]
    else:
        columns = [name for name, kind in schema_of(X).items() if kind.is_temporal()]
    columns = columns or [str(name) for name in column_names(X) if is_time_name(name)]
    if not columns:
        return None
    return (
        f"has columns of times ({', '.join(columns)}), but each row of a flat frame is "
        "a series and each column a moment of all series; convert a table with a row for each "
        f"time with Panel.from_long(X, id=..., time={columns[0]!r})."
    )


def _column_of_ids(X: Any) -> str | None:
    ids = [name for name in column_names(X) if is_id_name(name)]
    if not ids:
        return None
    return (
        f"has a column of ids ({ids[0]}), but each row of a flat frame is a series and each "
        "column a moment of all series; convert a table with a row for each time with "
        f"Panel.from_long(X, id={ids[0]!r}, time=...), or move the ids of a row for each series "
        f"to the index with X.set_index({ids[0]!r})."
    )


def _index_of_times(X: Any) -> str | None:
    if not isinstance(X, pd.DataFrame):
        return None
    kinds = pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex
    if not isinstance(X.index, kinds) and X.index.dtype.kind != "f":
        return None
    return (
        f"is one DataFrame with a {type(X.index).__name__} of {X.index.dtype}, which looks like "
        "times, but each row of a flat frame is a series; pass a list, [X], if it is one series "
        "indexed by time, and Panel.from_array(X) if its rows are series."
    )


def _bare_pair(X: Any) -> str | None:
    if not isinstance(X, tuple) or len(X) != 2 or isinstance(X[0], pd.Series):
        return None
    if not is_vector(X[0]):
        return None
    return "is one bare pair (times, values); wrap it in a list: [(times, values)]."


def _groups(X: Any) -> str | None:
    first = first_of(X)
    if not isinstance(first, tuple) or len(first) != 2:
        return None
    key, frame = first
    if not isinstance(frame, pd.DataFrame) or not isinstance(key, str | tuple | numbers.Number):
        return None
    if isinstance(key, tuple) and len(key) == len(frame):  # a tuple of times
        return None
    return "is a list of pairs (key, frame); pass dict(X), whose keys are the ids."


def _iterator(X: Any) -> str | None:
    if not isinstance(X, Iterator):
        return None
    return f"is a {type(X).__name__}, which can be read only once; pass list(X)."


_RULES = (
    _multiindex,
    _nested,
    _columns_of_times,
    _column_of_ids,
    _index_of_times,
    _bare_pair,
    _groups,
    _iterator,
)
