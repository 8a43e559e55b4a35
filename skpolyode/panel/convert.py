"""The one conversion of user input to a panel."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
from scipy.sparse import issparse

from skpolyode.errors import Faults
from skpolyode.panel.checks import check_rows
from skpolyode.panel.panel import Panel, build_panel
from skpolyode.panel.readers.arrays import rows_from_array
from skpolyode.panel.readers.lists import rows_from_frames, rows_from_series, rows_from_tables
from skpolyode.panel.readers.refused import first_of, is_array, is_vector, refusal
from skpolyode.panel.rows import Rows, require_series


class Reader(NamedTuple):
    """A kind of container: how it is told from others, and how its rows are read."""

    kind: str
    accepts: Callable[[Any], bool]
    read: Callable[..., Rows]
    is_ragged: bool = True  # whether scikit-learn's own validation cannot read it


def _is_list_of_pairs(X: Any) -> bool:
    first = first_of(X)
    return isinstance(first, tuple) and len(first) > 0 and is_vector(first[0])


def _is_list_of_frames(X: Any) -> bool:
    return isinstance(first_of(X), pd.DataFrame | pd.Series)


def _is_list_of_tables(X: Any) -> bool:
    first = first_of(X)
    return not isinstance(first, list | tuple) and getattr(first, "ndim", 0) == 2


# The first that accepts an input reads it. Another container is another entry.
READERS = (
    Reader("a list of (times, values) pairs", _is_list_of_pairs, rows_from_series),
    Reader("a list of DataFrames or Series indexed by time", _is_list_of_frames, rows_from_frames),
    Reader("a list of 2-D arrays (time, channel)", _is_list_of_tables, rows_from_tables),
    Reader(
        "a 3-D array (series, time, channel); a 2-D array or DataFrame (series, time)",
        is_array,
        partial(rows_from_array, times=None),
        is_ragged=False,
    ),
)
_FORMATS = (
    f"Accepted: a Panel; {'; '.join(reader.kind for reader in READERS)}. For one long table use "
    "Panel.from_long, for sktime's containers Panel.from_sktime."
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
        require_series(X.n_series, name)
        if not X.is_checked:
            faults = Faults(name, X.ids, X.channel_names)
            check_rows(X.rows, faults)
            faults.raise_if_any()
        return X
    if issparse(X):
        raise TypeError(f"{name} is sparse, but sparse data have no times. {_FORMATS}")
    if reason := refusal(X):
        raise TypeError(f"{name} {reason}")
    reader = _reader_of(X)
    if reader is None:
        raise TypeError(f"{name} must be a collection of series, got {type(X)}. {_FORMATS}")
    return build_panel(Panel, name, reader.read, X, {})


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
    if isinstance(X, Panel) or refusal(X):
        return True
    reader = _reader_of(X)
    return reader is not None and reader.is_ragged


def _reader_of(X: Any) -> Reader | None:
    return next((reader for reader in READERS if reader.accepts(X)), None)
