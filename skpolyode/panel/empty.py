"""Empty parts of panels: series without observations are skipped, and answers about them are NaN.

Rows and series without any observation are dropped once, where data come in; what computes with
them then relies on `Panel.is_observed`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from skpolyode.panel.checks import build_rows
from skpolyode.panel.inputs import Inputs
from skpolyode.panel.panel import Panel
from skpolyode.panel.rows import Rows, offsets_from
from skpolyode.panel.select import observed_part, observed_series
from skpolyode.panel.timeaxis import TimeAxis, Times


def drop_empty(panel: Panel, name: str = "X") -> Panel:
    """Leave out series and rows without any observation: nothing can be learned from them."""
    observed = observed_series(panel)
    if not observed.any():
        raise ValueError(f"{name} has no observation in any series: there is nothing to learn.")
    return observed_part(panel if observed.all() else panel[observed])


def fill_rows(
    panel: Panel, compute: Callable[[Panel], np.ndarray], width: Callable[[], int]
) -> np.ndarray:
    """Compute a row (n_series, width) for each series, filled with NaN for empty series.

    `compute` gets a panel without empty rows and series.
    """
    observed = observed_series(panel)
    if observed.all():
        return compute(observed_part(panel))
    rows = np.full((panel.n_series, width()), np.nan)
    if observed.any():
        rows[observed] = compute(observed_part(panel[observed]))
    return rows


def fill_values(
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    compute: Callable[[Panel, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Compute values (n_queries, D) at times (n_queries,), filled with NaN for empty series.

    The times of each series start at `offsets` (n_series + 1,). `compute` gets a panel without
    empty rows and series, and the times and offsets of its series.
    """
    observed = observed_series(panel)
    if observed.all():
        return compute(observed_part(panel), times, offsets)
    counts = np.diff(offsets)
    asked = np.repeat(observed, counts)
    values = np.full((len(times), panel.n_channels), np.nan)
    if observed.any():
        part = observed_part(panel[observed])
        values[asked] = compute(part, times[asked], offsets_from(counts[observed]))
    return values


def blank_panel(
    n_series: int,
    channel_names: Sequence[str],
    *,
    time_unit: str | None = None,
    tz: str | None = None,
    has_channel_names: bool = True,
    origin: np.ndarray | None = None,
    per_unit: int = 1,
    inputs: Inputs | None = None,
    **labels: object,
) -> Panel:
    """Panel without rows: the meaning of its times (as in `Rows`), ids, static rows and inputs.

    `inputs` are those of the series in their order.
    """
    ticks = None if origin is None else np.empty(0, dtype=np.int64)
    times = Times(np.empty(0), TimeAxis(time_unit, tz), ticks, per_unit)
    blank = Rows(times, np.empty((0, len(channel_names))), np.zeros(n_series + 1, dtype=np.int64))
    blank = build_rows(
        "stream", lambda *_: blank, None, channel_names=channel_names, empty="keep", **labels
    )
    given = {"has_channel_names": has_channel_names, "origin": origin, "inputs": inputs}
    return Panel.from_rows(replace(blank, keeps_empty=False, **given), checked=False)
