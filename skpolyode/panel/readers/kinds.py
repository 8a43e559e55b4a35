"""Recognition of containers, and refusal of those that would be misread."""

from __future__ import annotations

import datetime
import numbers
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.panel.cells import NUMBER_KINDS

_KEY_COLUMNS = 3  # first columns of a long table, which include ids and times
_TIME_NAMES = frozenset(
    f"{unit}{plural}"
    for unit in ("time", "timestamp", "datetime", "date", "day", "hour", "minute", "second")
    for plural in ("", "s")
)
_NUMBER = re.compile(r"-?\d+\.?\d*(e[+-]?\d+)?$")
_DATE = re.compile(r"\d{4}-\d\d(-\d\d|$)")
_DIGITS = r"(\d+\.?\d*)"
_TEXT_AND_DATES = (
    *(str, bytes, np.datetime64, np.timedelta64),
    *(datetime.date, datetime.timedelta, pd.Period),
)


def is_id_name(name: object) -> bool:
    """Return whether a column has a typical name of ids."""
    text = str(name).lower()
    return text == "id" or text.endswith("_id")


def is_time_name(name: object) -> bool:
    """Return whether a column has a typical name of times."""
    return str(name).lower() in _TIME_NAMES


def column_names(X: Any) -> list[Any]:
    """Return the names of the columns of a pandas, polars or pyarrow frame, else none."""
    if isinstance(X, pd.DataFrame):
        return list(X.columns)
    return list(getattr(X, "column_names", _polars_schema(X)))


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


def _numbered(names: list[Any]) -> dict[str, float]:
    """Numbered names, such as "h6" and "h12", or "1st" and "2nd", with their numbers."""
    parts = {name: re.split(_DIGITS, name) for name in names if isinstance(name, str)}
    parts = {name: found for name, found in parts.items() if len(found) == 3}
    words = Counter(found[0] for found in parts.values())
    word = max(words, key=words.__getitem__, default="")
    found = {name: float(found[1]) for name, found in parts.items() if found[0] == word}
    return found if len(set(found.values())) == len(found) else {}


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


def _long_table_refusal(X: Any) -> str | None:
    """Reason to refuse a table with one column constant like ids while another rises like times."""
    names = column_names(X)
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return None
    head = {name: np.asarray(column(X, name)) for name in names[:_KEY_COLUMNS]}
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


def column(frame: Any, name: object) -> pd.Series | np.ndarray:
    """Return a column of a pandas or polars frame."""
    found = frame[name]
    if isinstance(found, pd.DataFrame):
        raise ValueError(f"column {name!r} occurs more than once.")
    if isinstance(found, pd.Series):
        return found
    array = found.to_numpy()  # `to_pandas` of polars needs pyarrow
    zone = getattr(getattr(found, "dtype", None), "time_zone", None)  # pyarrow has none
    if zone is None:
        return array
    return pd.Series(pd.DatetimeIndex(array).tz_localize("UTC").tz_convert(zone))


def as_pandas(table: Any) -> Any:
    """Convert a polars or pyarrow frame to pandas, with the same columns."""
    names = [] if isinstance(table, pd.DataFrame) else column_names(table)
    return pd.DataFrame({name: column(table, name) for name in names}) if names else table


def _polars_schema(X: Any) -> Mapping[str, Any]:
    schema = getattr(X, "schema", None)
    return schema if isinstance(schema, Mapping) else {}


def _time_columns(X: Any) -> list[str]:
    """Columns of times, found by type, else by name."""
    if isinstance(X, pd.DataFrame):
        kinds = ((str(name), kind) for name, kind in X.dtypes.items())
        found = [n for n, kind in kinds if kind.kind in "mM" or isinstance(kind, pd.PeriodDtype)]
    else:
        found = [name for name, kind in _polars_schema(X).items() if kind.is_temporal()]
    return found or [str(name) for name in column_names(X) if is_time_name(name)]


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
    return any(kind.to_python() in (str, bytes) for kind in _polars_schema(X).values())


def _has_text(cells: Iterable[object]) -> bool:
    return any(isinstance(cell, _TEXT_AND_DATES) and cell is not pd.NaT for cell in cells)


def first_of(X: Any) -> Any:
    """Return the first element of a list, a tuple or a 1-D array of objects, else None."""
    is_objects = isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1
    return X[0] if (is_objects or isinstance(X, list | tuple)) and len(X) else None


def is_vector(item: Any) -> bool:
    """Return whether an object is a 1-D sequence of cells."""
    if hasattr(item, "ndim"):
        return item.ndim == 1
    return isinstance(item, list | tuple) and (len(item) == 0 or np.ndim(item[0]) == 0)


def is_nested(X: pd.DataFrame) -> bool:
    """Return whether the cells of a frame hold whole series."""
    return X.size > 0 and isinstance(X.iat[0, 0], pd.Series | np.ndarray)


def refusal(X: Any) -> str | None:
    """Return why an input would be misread, and how to pass it; None if it is read correctly."""
    if isinstance(X, pd.api.typing.DataFrameGroupBy):
        return "is a groupby; pass dict(list(X)), whose keys are the ids."
    if isinstance(X, pd.Series) and X.dtype.kind != "O":
        return "is one bare Series; wrap it in a list, [X]: its index holds the times."
    if isinstance(X, Iterator):
        return f"is a {type(X).__name__}, which can be read only once; pass list(X)."
    if isinstance(X, tuple) and len(X) == 2 and is_vector(X[0]) and not isinstance(X[0], pd.Series):
        return "is one bare pair (times, values); wrap it in a list: [(times, values)]."
    first = first_of(X)
    if isinstance(first, tuple) and len(first) == 2 and isinstance(first[1], pd.DataFrame):
        key, frame = first
        is_times = isinstance(key, tuple) and len(key) == len(frame)
        if isinstance(key, str | tuple | numbers.Number) and not is_times:
            return "is a list of pairs (key, frame); pass dict(X), whose keys are the ids."
    if isinstance(X, list | tuple) and len(X) > 0 and all(map(_may_be_pair, X)):
        return (
            "is a list of lists of two, which may be [times, values]: make tuples of them, "
            f"[tuple(pair) for pair in X]; or 2 times of {len(first[0])} channels: "
            "Panel.from_array(X)."
        )
    return _frame_refusal(X)


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
