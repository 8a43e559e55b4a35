"""Known errors of observations: standard deviations, one for each cell, in the units of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skpolyode.errors import Faults
from skpolyode.panel.cells import read_values
from skpolyode.panel.rows import Rows


def read_errors(errors: Any, rows: Rows, name: str, *, by_series: bool = False) -> np.ndarray:
    """Errors (n_obs, D) of rows that were just read, from one array or one `by_series`."""
    shape, parts = rows.values.shape, []
    for part in errors if by_series else [errors]:
        array, bad = read_values(part)
        if bad:
            raise TypeError(f"{name}: errors must be numbers, NaN where not known; {bad[0]}.")
        array = array if array.ndim == len(shape) else array[..., None]
        parts.append(array.astype(np.float64))
    lengths = rows.lengths.tolist() if by_series else [shape[0]]
    found = [part.shape for part in parts]
    if found != [(n, *shape[1:]) for n in lengths]:
        whose = "each series" if by_series else "the values"
        raise ValueError(
            f"{name}: errors must have the shape of {whose}, {shape}, got {found[:3]}: give one "
            "standard deviation for each cell, NaN where not known."
        )
    return np.concatenate(parts)


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


def join_errors(panels: Sequence[Any]) -> np.ndarray | None:
    """Errors of panels one behind the other: NaN for those that have none, None if no one has."""
    if all(panel.errors is None for panel in panels):
        return None
    blank = (np.full(panel.values.shape, np.nan) for panel in panels)
    pairs = zip(panels, blank, strict=True)
    return np.concatenate([b if panel.errors is None else panel.errors for panel, b in pairs])
