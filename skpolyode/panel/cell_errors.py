"""Known errors of observations: standard deviations, one for each cell, in the units of values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.cells import read_values
from skpolyode.panel.checks import first_misplaced
from skpolyode.panel.readers.lists import names_in
from skpolyode.panel.rows import Rows

_LABELLED = (pd.DataFrame, pd.Series)


def read_errors(errors: Any, rows: Rows, name: str, *, by_series: bool = False) -> np.ndarray:
    """Errors (n_obs, D) of rows, from one array, or from one per series (`by_series`)."""
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
    """Extend a reader of rows to add their errors, if there are any."""
    if errors is None:
        return reader

    def read(data: Any, faults: Faults, time_unit: str | None) -> Rows:
        data = list(data) if isinstance(data, Iterator) else data
        rows = reader(data, faults, time_unit)
        if rows.unreadable:  # later checks report it
            return rows
        if by_series:
            names = (f"{faults.name}: {faults.series(k)}" for k in range(len(rows.lengths)))
            aligned = list(errors)
            if len(aligned) == len(rows.lengths):  # else `read_errors` raises
                aligned = list(map(like_values, aligned, data, names))
        else:
            aligned = like_values(errors, data[1], faults.name)
        return rows.with_beside(errors=read_errors(aligned, rows, faults.name, by_series=by_series))

    return read


def like_values(errors: Any, values: Any, name: str) -> Any:
    """Errors with columns in the order of the values; a ValueError if the labels differ."""
    if not (isinstance(errors, _LABELLED) and isinstance(values, _LABELLED)):
        return errors
    if isinstance(errors, pd.DataFrame) and isinstance(values, pd.DataFrame):
        found, wanted = names_in(errors.columns), names_in(values.columns)
        if found and wanted and found != wanted:
            if sorted(found) != sorted(wanted):
                raise ValueError(
                    f"{name}: errors have the columns {list(found)}, but values have "
                    f"{list(wanted)}: give each column of values its errors under the same name, "
                    "NaN where not known."
                )
            errors = errors.iloc[:, [found.index(column) for column in wanted]]
    found, index = errors.index, values.index
    differs = names_in(found) and names_in(index) and not found.equals(index)
    if len(found) == len(index) and (differs or first_misplaced(found, index) is not None):
        raise ValueError(
            f"{name}: errors have another index than values: give them that of values, with "
            "errors.reindex(values.index), or errors.set_axis(values.index) if their rows are in "
            "the order of values."
        )
    return errors
