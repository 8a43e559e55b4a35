"""From raw rows to rows that a panel may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

import numpy as np

from skpolyode.errors import Faults
from skpolyode.panel.checks import check_rows
from skpolyode.panel.labels import fit_channel_names, fit_ids, fit_static
from skpolyode.panel.merge import Duplicates, check_duplicates, merge_duplicates, sort_rows
from skpolyode.panel.rows import Rows


class PanelOptions(TypedDict, total=False):
    """Keyword parameters that all ways of building a panel share; see `Panel`."""

    ids: object
    channel_names: Sequence[str] | None
    static: object
    time_unit: str | None
    sort: bool
    duplicates: Duplicates


def finish(
    rows: Rows,
    faults: Faults,
    *,
    channel_names: Sequence[str] | None = None,
    static: object = None,
    sort: bool = False,
    duplicates: Duplicates = "error",
) -> Rows:
    """Sort, merge and check rows, fit the labels, and raise all faults together."""
    check_duplicates(duplicates)
    if sort:
        rows = sort_rows(rows)
    if duplicates != "error":
        rows = merge_duplicates(rows, duplicates)
    n_channels = rows.values.shape[1]
    if n_channels == 0:
        raise ValueError(
            f"{faults.name} has 0 feature(s) (channels) while a minimum of 1 is required."
        )
    given = rows.channel_names if channel_names is None else channel_names
    names = fit_channel_names(given, n_channels, faults)
    faults.channel_names = names
    check_rows(rows, faults)
    ids = fit_ids(faults.ids, rows.n_input, faults)
    table = fit_static(rows.static if static is None else static, ids, faults)
    faults.raise_if_any()
    values = np.ascontiguousarray(rows.values)
    return replace(rows, values=values, ids=ids, channel_names=names, static=table, positions=None)
