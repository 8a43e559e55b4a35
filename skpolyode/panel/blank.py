"""Panels of series that have no rows yet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skpolyode.errors import Faults
from skpolyode.panel.labels import fit_ids, fit_static, read_ids
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import Rows
from skpolyode.panel.timeaxis import TimeAxis

__all__ = ["blank_panel"]


def blank_panel(
    n_series: int,
    channel_names: Sequence[str],
    *,
    ids: object = None,
    static: object = None,
    time_unit: str | None = None,
    tz: str | None = None,
) -> Panel:
    """Panel without rows: labels, and the meaning of times, for `Panel.like`."""
    faults = Faults("stream", read_ids(ids), tuple(channel_names))
    labels = fit_ids(faults.ids, n_series, faults)
    table = fit_static(static, labels, faults)
    faults.raise_if_any()
    rows = Rows(
        times=np.empty(0),
        values=np.empty((0, len(channel_names))),
        offsets=np.zeros(n_series + 1, dtype=np.int64),
        axis=TimeAxis(time_unit, tz),
        ids=labels,
        channel_names=tuple(channel_names),
        static=table,
    )
    return Panel._of(rows, checked=False)
