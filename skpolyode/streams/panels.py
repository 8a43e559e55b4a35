"""How files hold panels and inputs; they are checked, as files may come from anyone."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from skpolyode.panel import Inputs, Panel
from skpolyode.panel.cells import MICROSECONDS, Times
from skpolyode.panel.checks import build_rows
from skpolyode.panel.rows import Rows, are_offsets
from skpolyode.saving.codec import register
from skpolyode.saving.frames import checked_zone

_CLOCK = ("counts", "ticks", "per_unit", "unit", "tz")


def _panel_state(panel: Panel) -> dict[str, Any]:
    names = (field.name for field in fields(Rows) if field.name not in ("times", "unreadable"))
    state = {name: getattr(panel.rows.times, name) for name in _CLOCK}
    return state | {name: getattr(panel.rows, name) for name in names}


def _panel(state: dict[str, Any]) -> Panel:
    """Panel from the state that a file holds."""
    counts, ticks, per_unit, unit, tz = (state.pop(name) for name in _CLOCK)
    rows = Rows(Times(counts, unit, checked_zone(tz), ticks, per_unit), **state)
    fit = are_offsets(rows.offsets, len(counts)) and rows.values.shape[0] == len(counts)
    for whole, length in ((ticks, len(counts)), (rows.origin, len(rows.offsets) - 1)):
        fit &= whole is None or (whole.shape == (length,) and whole.dtype == np.int64)
    fit &= rows.origin is None or per_unit / MICROSECONDS.get(unit, 1) in (1, 1000)
    if not fit:
        raise ValueError("times and rows that are not of one panel")
    labels = {name: state[name] for name in ("ids", "channel_names", "static")}
    checked = build_rows("panel", lambda *_: rows, None, empty="keep", **labels)
    as_it_was = ("has_ids", "has_channel_names", "keeps_empty", "inputs")
    checked = replace(checked, **{name: state[name] for name in as_it_was})
    return Panel.from_rows(checked, checked=False)


register(Panel, _panel_state, _panel, part="streams")
register(
    Inputs,
    lambda inputs: {"panel": inputs.panel, "kinds": inputs.kinds},
    lambda state: Inputs(**state),
    part="streams",
)
