"""Rows from arrays: flat ones, and those with an axis of series."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.cell_errors import like_values, read_errors
from skpolyode.panel.cells import BadCell, read_values, text_columns
from skpolyode.panel.checks import TEXT, note_bad_cells
from skpolyode.panel.readers.lists import names_in
from skpolyode.panel.rows import Rows, are_offsets, offsets_from, require_series
from skpolyode.panel.timeaxis import TimeBlock, join_times, read_times


def rows_from_flat(
    data: tuple[object, object, object], faults: Faults, time_unit: str | None
) -> Rows:
    """Read flat times, values and offsets."""
    block, (array, bad), bounds = read_times(data[0]), read_values(data[1]), np.asarray(data[2])
    if block.data.ndim != 1 or array.ndim not in (1, 2) or len(array) != block.data.size:
        raise ValueError(
            f"{faults.name}: flat times must be of shape (n_obs,) and values (n_obs, D), got "
            f"{block.data.shape} and {array.shape}."
        )
    if not are_offsets(bounds, len(array)):
        raise ValueError(
            f"{faults.name}: offsets must be integers that rise from 0 to the number of rows, "
            f"{len(array)}, got {bounds!r}."
        )
    require_series(len(bounds) - 1, faults.name)
    values = np.array(array[:, None] if array.ndim == 1 else array, dtype=np.float64)
    rows = Rows(join_times([block], time_unit), values, bounds.astype(np.int64))
    note_bad_cells(bad, rows, faults)
    return rows


def rows_from_array(
    array: object,
    faults: Faults,
    time_unit: str | None,
    times: object = None,
    errors: object = None,
) -> Rows:
    """Read an array of shape (n, time), or of shape (n, time, channel) without its padding."""
    values, bad = _cells(array, faults)
    has_padding = values.ndim == 3
    values = (values if has_padding else values[:, :, None]).astype(np.float64)
    block = TimeBlock(np.arange(values.shape[1])) if times is None else read_times(times)
    if block.data.shape not in (values.shape[1:2], values.shape[:2]):
        raise ValueError(
            f"{faults.name}: times must be of shape {values.shape[1:2]} (for all series) or "
            f"{values.shape[:2]} (for each), got {block.data.shape}."
        )
    is_labelled = isinstance(array, pd.DataFrame) and names_in(array.index) is not None
    if faults.ids is None and is_labelled and array.index.is_unique:
        faults.ids = array.index.to_numpy()
    clock = join_times([block._replace(data=block.data.ravel())], time_unit)
    place = np.arange(block.data.size).reshape(block.data.shape)  # index of each cell's time
    place = np.broadcast_to(place, values.shape[:2])
    bounds = np.arange(len(values) + 1) * values.shape[1]
    rows = Rows(clock.at(place.ravel()), values.reshape(place.size, -1), bounds)
    note_bad_cells(bad, rows, faults)
    if errors is not None:
        errors = like_values(errors, array, faults.name)
        table = read_errors(errors, replace(rows, values=values), faults.name)
        rows = rows.with_beside(errors=table.reshape(rows.values.shape))
    kept = ~np.isnan(values).all(axis=2)
    if block.data.ndim == 2:  # padding: the time is NaN as well
        kept |= ~np.isnan(clock.counts[place])
    elif has_padding:  # padding: after the last observation
        kept = np.maximum.accumulate(kept[:, ::-1], axis=1)[:, ::-1]
    else:
        return rows
    return rows if kept.all() else rows.at(kept.ravel(), offsets_from(kept.sum(axis=1)))


def _cells(array: object, faults: Faults) -> tuple[np.ndarray, list[BadCell]]:
    """Values (n, time) or (n, time, channel) of an array, and its cells that are not numbers."""
    try:
        values, bad = read_values(array)
    except ValueError as error:
        raise ValueError(f"{faults.name}: {error}") from error
    if isinstance(array, pd.DataFrame):
        text = text_columns(bad, *array.shape)
        lines = [f"column {array.columns[k]!r} holds text, {cell}" for k, cell in text.items()]
        faults.add(TEXT, lines)
        bad = [cell for cell in bad if cell.position % array.shape[1] not in text]
    if values.ndim:
        require_series(len(values), faults.name)
    if values.ndim not in (2, 3):
        raise ValueError(
            f"{faults.name}: expected a 2-D array (series, time) or a 3-D array (series, time, "
            f"channel), got shape {values.shape}; give series of different length as a list of "
            "(times, values)."
        )
    if values.shape[1] == 0:
        raise ValueError(f"{faults.name} is empty: its {len(values)} series have no time points.")
    return values, bad
