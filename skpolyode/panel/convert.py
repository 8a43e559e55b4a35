"""The one conversion of user input to a panel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from skpolyode.errors import Faults
from skpolyode.panel.build import (
    rows_from_array,
    rows_from_frames,
    rows_from_series,
    rows_from_tables,
)
from skpolyode.panel.checks import check_rows
from skpolyode.panel.nested import is_nested
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import require_series

_FORMATS = (
    "Accepted: a Panel; a list of (times, values) pairs; a list of DataFrames or Series indexed "
    "by time; a list of 2-D arrays (time, channel); a 3-D array (series, time, channel); a 2-D "
    "array or DataFrame (series, time). For one long table use Panel.from_long, for sktime's "
    "containers Panel.from_sktime."
)


def as_panel(X: Any, *, name: str = "X") -> Panel:
    """Convert any accepted input to a `Panel`.

    Parameters
    ----------
    X : Panel, list or array-like
        The series: a `Panel` (returned as it is); a list, tuple or 1-D object array of pairs
        (times, values); a list of DataFrames or Series indexed by time; a list of arrays of shape
        (L, D), at times 0, 1, ..., L - 1; an array of shape (n_series, n_times, D), in which rows
        of NaN at the end of a series are padding; an array, frame or list of lists of shape
        (n_series, n_times), each row a univariate series at times 0, 1, ..., n_times - 1.
    name : str, default="X"
        The word for the input in error messages.

    Returns
    -------
    Panel
        The series.

    Raises
    ------
    ValueError
        If anything is wrong with the series: one error that lists the first ten faults.
    TypeError
        If the input is of a kind that cannot be series.

    Examples
    --------
    >>> from skpolyode.panel import as_panel
    >>> as_panel([[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]])
    Panel(2 series, 1 channel, 6 observations, 100% of cells observed, times 0 to 2)
    >>> as_panel([([0.0, 2.5], [1.0, 2.0]), ([0.3], [4.0])]).lengths
    array([2, 1])
    """
    if isinstance(X, Panel):
        return _checked(X, name)
    _refuse(X, name)
    elements = _elements(X)
    if elements is None or not is_ragged(elements):
        return Panel._build(name, rows_from_array, X, {}, times=None)
    first = elements[0]
    if isinstance(first, pd.DataFrame | pd.Series):
        builder = rows_from_frames
    else:
        builder = rows_from_series if isinstance(first, tuple) else rows_from_tables
    return Panel._build(name, builder, elements, {})


def is_ragged(X: Any) -> bool:
    """Tell whether an input is a collection of series, not one rectangular array.

    Parameters
    ----------
    X : object
        The input of an estimator.

    Returns
    -------
    bool
        True for a `Panel` and for lists, tuples and 1-D object arrays of pairs, frames or 2-D
        arrays; False for arrays, frames and lists of lists of numbers, which scikit-learn's own
        validation can read. True also for what would pass for such an array but is none (one bare
        pair, frames with a MultiIndex or with columns of datetimes, nested frames), so that
        `as_panel` gets to refuse it.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel import is_ragged
    >>> is_ragged([([0.0, 1.0], [5.0, 6.0])]), is_ragged(np.zeros((3, 4)))
    (True, False)
    """
    if isinstance(X, Panel) or _is_bare_pair(X) or _is_frame_of_many_times(X):
        return True
    if _columns_of_times(X):
        return True
    elements = _elements(X)
    if elements is None or len(elements) == 0:
        return False
    first = elements[0]
    if isinstance(first, pd.DataFrame | pd.Series):
        return True
    if isinstance(first, tuple):
        return len(first) > 0 and _is_vector(first[0])
    return not isinstance(first, list) and getattr(first, "ndim", 0) == 2


def _elements(X: Any) -> Sequence[Any] | None:
    if isinstance(X, list | tuple):
        return X
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        return list(X)
    return None


def _is_vector(item: Any) -> bool:
    if hasattr(item, "ndim"):
        return item.ndim == 1
    return isinstance(item, list | tuple) and (len(item) == 0 or np.ndim(item[0]) == 0)


def _checked(panel: Panel, name: str) -> Panel:
    require_series(panel.n_series, name)
    if not panel._checked:
        faults = Faults(name, panel.ids, panel.channel_names)
        check_rows(panel._rows, faults)
        faults.raise_if_any()
    return panel


def _refuse(X: Any, name: str) -> None:
    """Raise for kinds of input that would be misunderstood, with the way to pass them."""
    if issparse(X):
        raise TypeError(f"{name} is sparse, but sparse data have no times. {_FORMATS}")
    if isinstance(X, pd.DataFrame) and isinstance(X.index, pd.MultiIndex):
        raise TypeError(
            f"{name} is a DataFrame with a MultiIndex, whose rows are time points and not series; "
            "convert it with Panel.from_sktime(X), or with Panel.from_long(X.reset_index(), ...)."
        )
    if isinstance(X, pd.DataFrame) and is_nested(X):
        raise TypeError(
            f"{name} is a DataFrame whose cells hold whole series; convert it with "
            "Panel.from_sktime(X)."
        )
    if columns := _columns_of_times(X):
        raise TypeError(
            f"{name} has columns of times ({', '.join(columns)}), but each row of a flat frame is "
            "a series and each column a moment of all series; convert a table with a row for each "
            f"time with Panel.from_long(X, id=..., time={columns[0]!r})."
        )
    if _is_bare_pair(X):
        raise TypeError(
            f"{name} is one bare pair (times, values); wrap it in a list: [(times, values)]."
        )
    array_like = hasattr(X, "__array__") or hasattr(X, "__array_interface__")
    if not isinstance(X, list | tuple) and not array_like:
        raise TypeError(f"{name} must be a collection of series, got {type(X)}. {_FORMATS}")


def _columns_of_times(X: Any) -> list[str]:
    """Name the columns of a pandas or polars frame that hold datetimes, durations or periods."""
    if isinstance(X, pd.DataFrame):
        return [
            str(name)
            for name, kind in X.dtypes.items()
            if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype)
        ]
    schema = getattr(X, "schema", None)
    if not isinstance(schema, Mapping):
        return []
    return [name for name, kind in schema.items() if kind.is_temporal()]


def _is_bare_pair(X: Any) -> bool:
    if not isinstance(X, tuple) or len(X) != 2 or isinstance(X[0], pd.Series):
        return False
    return _is_vector(X[0])


def _is_frame_of_many_times(X: Any) -> bool:
    return isinstance(X, pd.DataFrame) and (isinstance(X.index, pd.MultiIndex) or is_nested(X))
