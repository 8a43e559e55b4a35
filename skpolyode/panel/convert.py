"""The one conversion of user input to a panel: containers are recognised, and read or refused."""

from __future__ import annotations

import datetime
import numbers
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from skpolyode.errors import Faults
from skpolyode.panel.cells import (
    NUMBER_KINDS,
    column_names,
    column_of,
    foreign,
    is_id_name,
    is_nested,
    is_time_name,
    polars_schema,
)
from skpolyode.panel.checks import build_rows, check_rows
from skpolyode.panel.panel import Panel
from skpolyode.panel.readers.lists import (
    GROUPED,
    is_grouped,
    names_in,
    rows_from_array,
    rows_from_frames,
    rows_from_series,
    rows_from_tables,
    rows_from_vectors,
    series_by_id,
)
from skpolyode.panel.rows import Rows, inside_series, require_series

_FEWEST_STEPS = 8  # rising values that look like times; a random walk does so in 1 of 256 cases
_KEY_COLUMNS = 3  # first columns of a long table, which include ids and times
_NUMBER = re.compile(r"-?\d+\.?\d*(e[+-]?\d+)?$")
_DATE = re.compile(r"\d{4}-\d\d(-\d\d|$)")
_DIGITS = r"(\d+\.?\d*)"
_TEXT_AND_DATES = (
    *(str, bytes, np.datetime64, np.timedelta64),
    *(datetime.date, datetime.timedelta, pd.Period),
)


def first_of(X: Any) -> Any:
    """Return the first element of a list, a tuple or a 1-D array of objects, else None."""
    is_objects = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    return X[0] if (is_objects or isinstance(X, list | tuple)) and len(X) else None


def is_vector(item: Any) -> bool:
    """Return whether an object is a 1-D sequence of cells."""
    if hasattr(item, "ndim"):
        return item.ndim == 1
    return isinstance(item, list | tuple) and (len(item) == 0 or np.ndim(item[0]) == 0)


class Reader(NamedTuple):
    """A kind of container: how to recognise it, and how to read its rows."""

    kind: str
    accepts: Callable[[Any], bool]
    read: Callable[[Any, Faults, str | None], Rows]
    is_ragged: bool = True  # whether scikit-learn's validation cannot read it


def _is_list_of_pairs(X: Any) -> bool:
    first = first_of(X)
    if not isinstance(first, tuple) or len(first) == 0:
        return False
    # (values, times) are accepted too, so that the error can describe them.
    return is_vector(first[0]) or (len(first) == 2 and is_vector(first[1]))


def _is_list_of_frames(X: Any) -> bool:
    first = first_of(X)
    return isinstance(first, pd.DataFrame | pd.Series) or bool(column_names(first))


def _is_list_of_tables(X: Any) -> bool:
    return getattr(first_of(X), "ndim", 0) == 2


def _is_ragged_list(X: Any) -> bool:
    return is_vector(first_of(X)) and all(map(is_vector, X)) and len(set(map(len, X))) > 1


def _is_dict_of_series(X: Any) -> bool:
    reader = _reader_of(list(X.values())) if isinstance(X, Mapping) else None
    return reader is not None and reader.is_ragged


def _is_array(X: Any) -> bool:
    array_like = hasattr(X, "__array__") or hasattr(X, "__array_interface__")
    return array_like or isinstance(X, list | tuple)


def _rows_from_dict(X: Mapping[Any, Any], faults: Faults, time_unit: str | None) -> Rows:
    return _reader_of(series := series_by_id(X, faults)).read(series, faults, time_unit)


def has_channels_first(n_rows: int, n_columns: int) -> bool:
    """Whether a table (time, channel) is so wide that it may be (channel, time)."""
    return n_columns >= 2 * max(n_rows, 2)  # the shortest series has 4 times


def _rows_from_tables(tables: Any, faults: Faults, time_unit: str | None) -> Rows:
    shapes = {getattr(table, "shape", ()) for table in tables}
    if len({shape[:1] for shape in shapes}) == 1 and all(
        len(shape) == 2 and has_channels_first(*shape) for shape in shapes
    ):
        shape, name = tables[0].shape, faults.name
        raise ValueError(
            f"{name} has arrays of shape {shape}, which may be (channel, time), as aeon has it: "
            f"[x.T for x in {name}]; or (time, channel), with {shape[0]} times of {shape[1]} "
            f"channels: Panel.from_series([(range(len(x)), x) for x in {name}])."
        )
    rows = rows_from_tables(tables, faults, time_unit)
    remedies = "[x.T for x in {}]", "Panel.from_series([(range(len(x)), x) for x in {}])"
    _warn_of_other_reading(rows, shapes, remedies, faults.name)
    return rows


def shape_of(X: Any) -> tuple[int, ...]:
    """Shape of an array or table, or of lists of lists of vectors; else ()."""
    if shape := getattr(X, "shape", None):
        return tuple(shape)
    try:
        return np.shape(X) if is_vector(first_of(first_of(X))) else ()
    except ValueError:  # not rectangular
        return ()


def _rows_from_array(array: Any, faults: Faults, time_unit: str | None) -> Rows:
    shape = shape_of(array)
    if len(shape) == 3 and has_channels_first(*shape[1:]):
        given = faults.name if hasattr(array, "shape") else f"np.array({faults.name})"
        raise ValueError(
            f"{faults.name} of shape {shape} may be (series, channel, time), as sktime and "
            f"aeon have it: Panel.from_sktime({given}); or (series, time, channel), with "
            f"{shape[1]} times of {shape[2]} channels: Panel.from_array({faults.name})."
        )
    rows = rows_from_array(array, faults, time_unit, column_times(array))
    if len(shape) == 3:
        remedies = "Panel.from_sktime({})", "Panel.from_array({})"
        _warn_of_other_reading(rows, {shape[1:]}, remedies, faults.name)
    return rows


def _warn_of_other_reading(
    rows: Rows, shapes: set[tuple[int, ...]], remedies: tuple[str, str], name: str
) -> None:
    """Warn of tables (time, channel) that may have channels first, or times as their first column.

    The remedies read them transposed, and as they are.
    """
    n_times, n_channels = rows.lengths.max(initial=0), rows.values.shape[1]
    first = rows.values[:, :1]  # may be infinite: faults are raised later
    rises = (first[1:] > first[:-1])[inside_series(rows.offsets, len(first))]
    transposed, plain = (remedy.format(name) for remedy in remedies)
    if len(shapes) == 1 and n_channels >= max(shapes.pop()[0], 2):
        other = f"If channels come first, as sktime and aeon have it, give {transposed}"
    elif n_channels > 1 and len(rises) >= _FEWEST_STEPS and rises.all():
        other = (
            "The first rises in every series, as times do: if it holds the times, give "
            f"[(x[:, 0], x[:, 1:]) for x in {name}]"
        )
    else:
        return
    warnings.warn(
        f"{name} is read as (time, channel), with {n_times} times of {n_channels} channels. "
        f"{other}. {plain} reads it as it is, without this warning.",
        stacklevel=5,
    )


# The first reader that accepts an input reads it. To support another container, add an entry.
READERS = (
    Reader("a list of (times, values) pairs", _is_list_of_pairs, rows_from_series),
    Reader("a list of DataFrames or Series indexed by time", _is_list_of_frames, rows_from_frames),
    Reader("a list of 2-D arrays (time, channel)", _is_list_of_tables, _rows_from_tables),
    Reader(
        "a list of 1-D arrays of different length (univariate)", _is_ragged_list, rows_from_vectors
    ),
    Reader("a dict of such series by their ids", _is_dict_of_series, _rows_from_dict),
    Reader(
        "a 3-D array (series, time, channel); a 2-D array or DataFrame (series, time)",
        _is_array,
        _rows_from_array,
        is_ragged=False,
    ),
)
_FORMATS = (
    f"Accepted: a Panel or a list of them; {'; '.join(reader.kind for reader in READERS)}. For "
    "one long table use Panel.from_long, for sktime's containers Panel.from_sktime."
)


def as_panel(X: Any, *, name: str = "X") -> Panel:
    """Convert any accepted input to a `Panel`.

    Parameters
    ----------
    X : Panel, list or array-like
        The series: a `Panel` (returned as it is); a list of panels; a list, tuple or 1-D object
        array of pairs (times, values); a list of DataFrames or Series indexed by time; a list of
        frames of polars or pyarrow, of arrays of shape (L, D), or of different shapes (L,), at
        times 0, 1, ..., L - 1; a dict of such series, whose keys are the ids; an array of shape
        (n_series, n_times, D), in which rows of NaN at the end of a series are padding; an array,
        frame or list of lists of shape (n_series, n_times), each row a univariate series at times
        0, 1, ..., n_times - 1.
    name : str, default="X"
        Name of the input in error messages.

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

    Warns
    -----
    UserWarning
        If arrays may have channels first, or times as their first column.

    Examples
    --------
    >>> from skpolyode.panel import as_panel
    >>> as_panel([[1.0, 2.0, 4.0], [3.0, 5.0, 7.0]])
    Panel(2 series, 1 channel, 6 observations, 100% of cells observed, times 0 to 2)
    >>> as_panel([([0.0, 2.5], [1.0, 2.0]), ([0.3], [4.0])]).lengths
    array([2, 1])
    """
    if (panels := _panels_in(X)) is not None:
        index = X.index if isinstance(X, pd.DataFrame | pd.Series) else None
        has_ids = index is not None and index.is_unique and names_in(index) is not None
        X = Panel.concat(panels, ids=index if has_ids else None)
        if index is not None and not has_ids:  # its index names no series
            X = Panel.from_rows(replace(X.rows, has_ids=False), X.is_checked)
    if isinstance(X, Panel):
        require_series(X.n_series, name)
        if not X.is_checked:
            faults = Faults(name, X.ids, X.channel_names)
            check_rows(X.rows, faults)
            faults.raise_if_any()
        return X
    if isinstance(X, Mapping):
        require_series(len(X), name)
    if issparse(X):
        raise TypeError(f"{name} is sparse, but sparse data have no times. {_FORMATS}")
    if reason := refusal(X):
        code = re.sub(r"\bX\b", name, reason) if name.isidentifier() else reason
        raise TypeError(f"{name} {code}")
    reader = _reader_of(X)
    if reader is None:
        raise TypeError(f"{name} must be a collection of series, got {type(X)}. {_FORMATS}")
    return Panel.from_rows(build_rows(name, reader.read, X))


def is_ragged(X: Any) -> bool:
    """Return whether an input is a collection of series, not one rectangular array.

    Parameters
    ----------
    X : object
        The input of an estimator.

    Returns
    -------
    bool
        True for a `Panel` and for lists, tuples, dicts and 1-D object arrays of panels, pairs,
        frames or 2-D arrays; False for arrays, frames and lists of lists of numbers, which
        scikit-learn's validation can read. True also for invalid input (one bare pair, a frame
        indexed by times or with a column of them, text, a generator), for which `as_panel` raises
        an error.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.panel import is_ragged
    >>> is_ragged([([0.0, 1.0], [5.0, 6.0])]), is_ragged(np.zeros((3, 4)))
    (True, False)
    """
    if isinstance(X, Panel) or refusal(X) or _panels_in(X) is not None:
        return True
    if issparse(X):  # scikit-learn raises the error
        return False
    reader = _reader_of(X)
    is_empty = isinstance(X, list | tuple) and len(X) == 0
    return reader is None or reader.is_ragged or holds_text(X) or is_empty


def _panels_in(X: Any) -> list[Panel] | None:
    """Return the panels in a list, an array of objects or one column of a frame."""
    cells = X
    if isinstance(X, pd.DataFrame | pd.Series) or (isinstance(X, np.ndarray) and X.dtype == object):
        cells = np.asarray(X, dtype=object)
        cells = cells[:, 0] if cells.ndim == 2 and cells.shape[1] == 1 else cells
    return list(cells) if isinstance(first_of(cells), Panel) else None


def _reader_of(X: Any) -> Reader | None:
    return next((reader for reader in READERS if reader.accepts(X)), None)


def refusal(X: Any) -> str | None:
    """Return why an input would be misread, and how to pass it; None if it is read correctly."""
    first = first_of(list(X.values()) if isinstance(X, Mapping) else X)
    if isinstance(first, tuple) and isinstance(X, list):  # what most users give
        return f"{GROUPED}." if is_grouped(first) else None
    if reason := foreign(X, "X") or foreign(first):
        return f"must be converted: {reason}."
    if is_grouped(X) or is_grouped(first):
        return f"{GROUPED}."
    if isinstance(X, pd.Series) and X.dtype.kind != "O":
        return "is one bare Series; wrap it in a list, [X]: its index holds the times."
    if isinstance(X, Iterator):
        kind = type(X).__name__
        return f"is a {kind}, which can be read only once; pass list(X), or Panel.from_series(X)."
    if isinstance(X, tuple) and len(X) == 2 and is_vector(X[0]) and not isinstance(X[0], pd.Series):
        return "is one bare pair (times, values); wrap it in a list: [(times, values)]."
    if isinstance(X, list | tuple) and len(X) > 0 and all(map(_may_be_pair, X)):
        return (
            "is a list of lists of two, which may be [times, values]: make tuples of them, "
            f"[tuple(pair) for pair in X]; or 2 times of {len(first[0])} channels: "
            "Panel.from_array(X)."
        )
    return _frame_refusal(X) if isinstance(X, pd.DataFrame) or column_names(X) else None


def _may_be_pair(item: Any) -> bool:
    """Whether an item is a list of two vectors, and the first may hold times."""
    if not (isinstance(item, list) and len(item) == 2 and all(map(is_vector, item))):
        return False
    times, values = item
    if len(times) != len(values) or len(times) < 2:
        return False
    try:  # the shortest array with channels first also has 4 times
        return len(times) >= 4 or all(t < u for t, u in pairwise(times))
    except TypeError:
        return False


def _frame_refusal(X: Any) -> str | None:
    """Reason to refuse frames whose rows are not series: a row per time, nested frames."""
    is_pandas = isinstance(X, pd.DataFrame)
    if is_pandas and isinstance(X.index, pd.MultiIndex):
        return (
            "is a DataFrame with a MultiIndex, whose rows are time points and not series; "
            "convert it with Panel.from_sktime(X), or with Panel.from_long(X.reset_index(), ...)."
        )
    if is_pandas and is_nested(X):
        return "is a DataFrame whose cells hold whole series; convert it with Panel.from_sktime(X)."
    meaning = "each row of a flat frame is a series and each column a moment of all series"
    if times := _time_columns(X):
        return (
            f"has columns of times ({', '.join(times)}), but {meaning}; convert a table with a row "
            f"for each time with Panel.from_long(X, id=..., time={times[0]!r})."
        )
    if ids := [name for name in column_names(X) if is_id_name(name)]:
        return (
            f"has a column of ids ({ids[0]}), but {meaning}; convert a table with a row for each "
            f"time with Panel.from_long(X, id={ids[0]!r}, time=...), or move the ids of a row for "
            f"each series to the index with X.set_index({ids[0]!r})."
        )
    kinds = pd.DatetimeIndex | pd.TimedeltaIndex | pd.PeriodIndex
    if is_pandas and (isinstance(X.index, kinds) or X.index.dtype.kind == "f"):
        return (
            f"is one DataFrame with a {type(X.index).__name__} of {X.index.dtype}, which looks "
            "like times, but each row of a flat frame is a series; pass a list, [X], if it is one "
            "series indexed by time, and Panel.from_array(X) if its rows are series."
        )
    return _column_names_refusal(X) or _long_table_refusal(X)


def _time_columns(X: Any) -> list[str]:
    """Columns of times, found by type, else by name."""
    if isinstance(X, pd.DataFrame):
        kinds = ((str(name), kind) for name, kind in X.dtypes.items())
        found = [n for n, kind in kinds if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype)]
    else:
        found = [name for name, kind in polars_schema(X).items() if kind.is_temporal()]
    return found or [str(name) for name in column_names(X) if is_time_name(name)]


def _column_names_refusal(X: Any) -> str | None:
    """Reason to refuse a flat frame whose columns have names other than times in steps of one."""
    names, numbered = column_names(X), {}
    if not names or column_times(X) is not None:
        return None
    times = [name for name in names if _is_time(name)]
    if not times:
        times = list(numbered := _numbered(names))
    others = [name for name in names if name not in times]
    if len(numbered) == len(names) and _are_steps(list(numbered.values())):
        return None
    if len(times) <= 2 * len(others):
        return _long_table_refusal(X) or (
            f"has columns whose names are not those of times ({', '.join(map(str, names[:3]))}), "
            "but each row of a flat frame is a series and each column a moment of all series; pass "
            "[X] if it is one series with a row for each time, and Panel.from_array(X) if its rows "
            "are series."
        )
    of = "Z" if others else "X"
    read, first = f"{of}.column{'_name' * hasattr(X, 'column_names')}s", times[0]
    if isinstance(first, str):
        number = f"re.search(r'{_DIGITS.strip('()')}', name)[0]" if numbered else "name"
        is_date = _DATE.match(first)
        read = f"pandas.to_datetime({read})" if is_date else f"[float({number}) for name in {read}]"
    return (
        f"has columns that name times ({str(first)!r}, ...)"
        + (f" beside {others}" if others else "")
        + ", but those of a flat frame are the moments 0, 1, ...; read the times with "
        f"Panel.from_array({of}, times={read}, sort=True), or drop them with {of}.to_numpy()"
        + (f", where Z is X without {others}." if others else ".")
    )


def _is_time(name: object) -> bool:
    if isinstance(name, str):
        return bool(_NUMBER.match(name) or _DATE.match(name))
    return isinstance(name, (numbers.Real, *_TEXT_AND_DATES))


def _numbered(names: list[Any]) -> dict[str, float]:
    """Numbered names, such as "h6" and "h12", or "1st" and "2nd", with their numbers."""
    parts = {name: re.split(_DIGITS, name) for name in names if isinstance(name, str)}
    parts = {name: found for name, found in parts.items() if len(found) == 3}
    words = Counter(found[0] for found in parts.values())
    word = max(words, key=words.__getitem__, default="")
    found = {name: float(found[1]) for name, found in parts.items() if found[0] == word}
    return found if len(set(found.values())) == len(found) else {}


def column_times(X: Any) -> np.ndarray | None:
    """Return the times in the column names of a flat frame: whole numbers in steps of one.

    None if the names are not such times; the columns are then the times 0, 1, ...
    """
    try:
        times = np.array(column_names(X), dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return times if _are_steps(times) else None


def _are_steps(times: Sequence[float] | np.ndarray) -> bool:
    return len(times) > 0 and times[0] % 1 == 0 and bool((np.diff(times) == 1).all())


def _long_table_refusal(X: Any) -> str | None:
    """Reason to refuse a table with one column constant like ids while another rises like times."""
    names = column_names(X)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    head = {name: np.asarray(column_of(X, name)) for name in names[:_KEY_COLUMNS]}
    for id, ids in head.items():
        codes, known = pd.factorize(ids)
        same = np.diff(codes) == 0  # rows of a series are adjacent
        if ids.dtype.kind == "f" or not 1 < len(known) == len(ids) - same.sum() < len(ids) - 1:
            continue
        for time, times in head.items():
            if times.dtype.kind not in "iuf":
                continue
            steps = np.diff(times.astype(np.float64))
            if (steps[same] > 0).all() and (steps[~same] < 0).any():
                return (
                    f"looks like a table with a row for each time, of {len(known)} series "
                    f"({id!r} stays while {time!r} rises), but each row of a flat frame is a "
                    f"series; read it with Panel.from_long(X, id={id!r}, time={time!r}), or, if "
                    "its rows are series, with Panel.from_array(X)."
                )
    return None


def holds_text(X: Any) -> bool:
    """Return whether 2-D input holds text or dates, which are not measurements.

    scikit-learn would read "1.5" as 1.5, and a date as a number of days.
    """
    if isinstance(X, pd.DataFrame):
        columns = (X.iloc[:, k] for k in range(X.shape[1]))
        return any(_has_text(cells) for cells in columns if cells.dtype.kind not in NUMBER_KINDS)
    if isinstance(X, np.ndarray):
        is_text = X.dtype.kind in "USmM"
        return is_text or (X.dtype == object and X.ndim == 2 and _has_text(X.ravel()))
    if isinstance(X, list | tuple):
        return any(isinstance(row, list | tuple) and _has_text(row) for row in X)
    return any(kind.to_python() in (str, bytes) for kind in polars_schema(X).values())


def _has_text(cells: Iterable[object]) -> bool:
    return any(isinstance(cell, _TEXT_AND_DATES) and cell is not pd.NaT for cell in cells)
