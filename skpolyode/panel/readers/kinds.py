"""What a container is, as far as it can be seen from outside."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.cells import NUMBER_KINDS

# Columns of a flat frame are moments, those of a frame of one series are channels: a column of
# one of these names is neither.
_TIME_NAMES = frozenset(
    f"{unit}{plural}"
    for unit in ("time", "timestamp", "datetime", "date", "day", "hour", "minute", "second")
    for plural in ("", "s")
)
_TEXT_AND_DATES = (
    str,
    bytes,
    np.datetime64,
    np.timedelta64,
    datetime.date,
    datetime.timedelta,
    pd.Period,
)


def is_id_name(name: object) -> bool:
    """Tell whether a column is called as columns of ids are."""
    text = str(name).lower()
    return text == "id" or text.endswith("_id")


def is_time_name(name: object) -> bool:
    """Tell whether a column is called as columns of times are."""
    return str(name).lower() in _TIME_NAMES


def holds_text(X: Any) -> bool:
    """Tell whether 2-D input holds text or dates, which are no measurements.

    scikit-learn would read "1.5" as 1.5, and a date as the number of its day.
    """
    if isinstance(X, pd.DataFrame):
        columns = (X.iloc[:, k] for k in range(X.shape[1]))
        return any(_has_text(column) for column in columns if column.dtype.kind not in NUMBER_KINDS)
    if isinstance(X, np.ndarray):
        is_text = X.dtype.kind in "USmM"
        return is_text or (X.dtype == object and X.ndim == 2 and _has_text(X.ravel()))
    if isinstance(X, list | tuple):
        return any(isinstance(row, list | tuple) and _has_text(row) for row in X)
    return any(kind.to_python() in (str, bytes) for kind in schema_of(X).values())


def _has_text(cells: Iterable[object]) -> bool:
    return any(isinstance(cell, _TEXT_AND_DATES) and cell is not pd.NaT for cell in cells)


def schema_of(X: Any) -> Mapping[str, Any]:
    """Return the columns of a polars frame and their kinds; nothing of anything else."""
    schema = getattr(X, "schema", None)
    return schema if isinstance(schema, Mapping) else {}


def column_names(X: Any) -> list[Any]:
    """Return the names of the columns of a pandas, polars or pyarrow frame."""
    if isinstance(X, pd.DataFrame):
        return list(X.columns)
    return list(getattr(X, "column_names", schema_of(X)))


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


def is_nested(X: pd.DataFrame) -> bool:
    """Tell whether the cells of a frame hold whole series."""
    return X.size > 0 and isinstance(X.iat[0, 0], pd.Series | np.ndarray)
