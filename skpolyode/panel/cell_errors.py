"""Known errors of observations: standard deviations, one for each cell, in the units of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skpolyode.errors import Faults
from skpolyode.panel.cells import read_values
from skpolyode.panel.rows import Rows

__all__ = ["join_errors", "read_errors", "with_errors"]


def read_errors(errors: Any, rows: Rows, name: str, *, by_series: bool = False) -> np.ndarray:
    """Errors (n_obs, D) of rows that were just read, from one array or one `by_series`."""
    if by_series:
        parts = [_numbers(part, name) for part in errors]
        found = [len(part) for part in parts]
        if found != rows.lengths.tolist():
            raise ValueError(
                f"{name}: errors must be one array for each series, of its length: the series have "
                f"{_some(rows.lengths)} rows, the errors {_some(found)}."
            )
        parts = [part[:, None] if part.ndim == 1 else part for part in parts]
        table = np.concatenate(parts) if len({part.shape[1:] for part in parts}) == 1 else parts[0]
    else:
        table = _numbers(errors, name)
    shape = rows.values.shape
    if table.shape != shape and (*table.shape, 1) != shape:
        raise ValueError(
            f"{name}: errors must have the shape of the values, {shape}, got {table.shape}: give "
            "one standard deviation for each cell, NaN where not known."
        )
    return table.reshape(shape)


def with_errors(
    reader: Callable[..., Rows], errors: Any, *, by_series: bool = False
) -> Callable[..., Rows]:
    """Let a reader of rows add their errors, if there are any."""
    if errors is None:
        return reader

    def read(data: Any, faults: Faults, time_unit: str | None) -> Rows:
        rows = reader(data, faults, time_unit)
        if rows.unreadable:  # which the checks tell
            return rows
        own = read_errors(errors, rows, faults.name, by_series=by_series)
        return replace(rows, errors=own)

    return read


def _numbers(errors: Any, name: str) -> np.ndarray:
    array, bad = read_values(errors)
    if bad:
        raise TypeError(f"{name}: errors must be numbers, NaN where not known; {bad[0]}.")
    return array.astype(np.float64)


def _some(lengths: Sequence[int]) -> str:
    return ", ".join([*map(str, lengths[:3]), *["..."] * (len(lengths) > 3)])


def join_errors(panels: Sequence[Any]) -> np.ndarray | None:
    """Errors of panels one behind the other: NaN for those that have none, None if no one has."""
    if all(panel.errors is None for panel in panels):
        return None
    return np.concatenate(
        [
            np.full(panel.values.shape, np.nan) if panel.errors is None else panel.errors
            for panel in panels
        ]
    )
