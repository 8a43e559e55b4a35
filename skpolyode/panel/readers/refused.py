"""Kinds of input that would be misunderstood, each with the way to pass it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.readers.sktime import is_nested


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
    """Refuse pandas and polars frames with columns of datetimes, durations or periods."""
    if isinstance(X, pd.DataFrame):
        columns = [
            str(name)
            for name, kind in X.dtypes.items()
            if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype)
        ]
    else:
        schema = getattr(X, "schema", None)
        known = schema.items() if isinstance(schema, Mapping) else ()
        columns = [name for name, kind in known if kind.is_temporal()]
    if not columns:
        return None
    return (
        f"has columns of times ({', '.join(columns)}), but each row of a flat frame is "
        "a series and each column a moment of all series; convert a table with a row for each "
        f"time with Panel.from_long(X, id=..., time={columns[0]!r})."
    )


def _bare_pair(X: Any) -> str | None:
    if not isinstance(X, tuple) or len(X) != 2 or isinstance(X[0], pd.Series):
        return None
    if not is_vector(X[0]):
        return None
    return "is one bare pair (times, values); wrap it in a list: [(times, values)]."


_RULES = (_multiindex, _nested, _columns_of_times, _bare_pair)


def first_of(X: Any) -> Any:
    """Return the first element of a list, a tuple or a 1-D array of objects, None of the rest."""
    is_objects = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    return X[0] if (is_objects or isinstance(X, list | tuple)) and len(X) else None


def is_vector(item: Any) -> bool:
    """Tell whether an object is a 1-D sequence of cells."""
    if hasattr(item, "ndim"):
        return item.ndim == 1
    return isinstance(item, list | tuple) and (len(item) == 0 or np.ndim(item[0]) == 0)


def is_array(X: Any) -> bool:
    """Tell whether numpy can make an array of an object."""
    array_like = hasattr(X, "__array__") or hasattr(X, "__array_interface__")
    return array_like or isinstance(X, list | tuple)
