"""Conversion of cells of any kind to float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_numeric_dtype

NUMBER_KINDS = "biuf"


class BadCell(NamedTuple):
    """A cell that is not a number: its flat position in the block and what it holds."""

    position: int
    content: object

    def __str__(self) -> str:
        text = repr(self.content)
        text = text if len(text) <= 200 else f"{text[:100]}..."
        return f"got {text} ({type(self.content).__name__})"


def read_values(values: object) -> tuple[np.ndarray, Sequence[BadCell]]:
    """Return an array of numbers, and the cells that are not numbers (replaced by 0.0)."""
    values = unmasked(values)
    if isinstance(values, pd.DataFrame | pd.Series):
        array = values.to_numpy()
        if array.dtype == object:  # tested late: the dtypes of a frame take most of the time
            dtypes = values.dtypes if isinstance(values, pd.DataFrame) else [values.dtype]
            if all(map(is_numeric_dtype, dtypes)):
                array = values.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        array = rectangular(values)
    if array.dtype.kind in "mM":  # else whole numbers, which look like measurements
        array = array.astype(f"{array.dtype.kind}8[us]").astype(object)
    if array.dtype.kind in NUMBER_KINDS:
        return array, ()
    if array.dtype.kind == "c":
        raise ValueError(
            "Complex data not supported; give the real and imaginary parts as channels"
        )
    return to_float(array)


def is_missing(values: np.ndarray, missing: Any) -> np.ndarray:
    """Mask of the values that are codes for "not observed"."""
    try:
        codes = np.asarray(missing, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"missing must be numbers, such as [-999], got {missing!r}.") from None
    return np.isin(values, codes)


def text_columns(bad: Sequence[BadCell], n_rows: int, n_columns: int = 1) -> dict[int, BadCell]:
    """First bad cell of each column of a block (n_rows, n_columns) that is mostly text."""
    found: dict[int, list[BadCell]] = {}
    for cell in bad:
        if isinstance(cell.content, str):
            found.setdefault(cell.position % n_columns, []).append(cell)
    return {k: cells[0] for k, cells in found.items() if len(cells) > max(1, n_rows / 2)}


def unmasked(values: Any) -> Any:
    """Return masked arrays, and lists of them, with NaN (None, NaT) in masked cells.

    Anything else is returned as it is. numpy drops the mask silently when it converts a masked
    array to a plain one.
    """
    if isinstance(values, list | tuple) and any(isinstance(v, np.ma.MaskedArray) for v in values):
        values = np.ma.array(values)
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if values.dtype.kind in "mM":
        return values.filled(np.array("NaT", values.dtype))
    if values.dtype.kind in NUMBER_KINDS:
        return values.astype(np.float64).filled(np.nan)
    return np.where(np.ma.getmaskarray(values), None, values.data.astype(object))


def with_nan(X: Any) -> Any:
    """Return 2-D input with NaN where it is masked or missing, for scikit-learn's validation.

    The validation drops masks, and raises for `pandas.NA` in object columns. Frames stay frames.
    """
    if isinstance(X, pd.DataFrame):
        has_objects = any(dtype.kind == "O" for dtype in X.dtypes)
        return X.mask(X.isna(), np.nan) if has_objects else X
    X = unmasked(X)
    if isinstance(X, list | tuple):
        X = rectangular(X)
    if isinstance(X, np.ndarray) and X.dtype == object:
        return np.where(pd.isna(X), np.nan, X)
    return X


def rectangular(values: object) -> np.ndarray:
    """Return an array, with NaN where it is masked."""
    try:
        return np.asarray(unmasked(values))
    except ValueError as error:
        raise ValueError(
            "lists must be rectangular; give series of different length as a list of pairs "
            "(times, values), each a tuple"
        ) from error


def to_float(array: np.ndarray) -> tuple[np.ndarray, list[BadCell]]:
    """Convert an array of objects cell by cell; None and missing markers become NaN."""
    out = np.zeros(array.size)
    bad = []
    for position, cell in enumerate(array.ravel().tolist()):
        if cell is None or cell is pd.NA or cell is pd.NaT:
            out[position] = np.nan
            continue
        try:
            # float("1.5") works, but a column of text is more often a mistake than a measurement;
            # float of a numpy date is its number of ticks.
            if isinstance(cell, str | bytes | np.datetime64 | np.timedelta64):
                raise TypeError
            out[position] = float(cell)
        except (TypeError, ValueError, OverflowError):
            bad.append(BadCell(position, cell))
    return out.reshape(array.shape), bad
