"""A panel before its first row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skpolyode.errors import Faults
from skpolyode.panel.labels import fit_ids, fit_static, read_ids
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import Rows
from skpolyode.panel.timeaxis import TimeAxis


def blank_panel(
    n_series: int,
    channel_names: Sequence[str],
    *,
    ids: object = None,
    static: object = None,
    time_unit: str | None = None,
    tz: str | None = None,
    has_channel_names: bool = True,
    origin: np.ndarray | None = None,
    per_unit: int = 1,
) -> Panel:
    """Panel without rows: labels, and the meaning of times (as in `Rows`), for `Panel.like`."""
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
        has_channel_names=has_channel_names,
        static=table,
        ticks=None if origin is None else np.empty(0, dtype=np.int64),
        origin=origin,
        per_unit=per_unit,
    )
    return Panel._of(rows, checked=False)
