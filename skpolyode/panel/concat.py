"""Panels one behind the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.channels import align_channels
from skpolyode.panel.labels import fit_ids, read_ids
from skpolyode.panel.rows import Rows, offsets_from
from skpolyode.panel.storage import PanelStorage


def concat_rows(panels: Sequence[PanelStorage], ids: object = None) -> tuple[Rows, bool]:
    """Return the rows of all panels, and whether they are known to be without faults."""
    if not panels:
        raise ValueError("there is no panel to concatenate.")
    first = panels[0]
    for position, panel in enumerate(panels):
        if panel.rows.axis != first.rows.axis:
            raise ValueError(
                f"panel {position} has times in {_meaning(panel)}, panel 0 in {_meaning(first)}; "
                "build all of them with one time_unit and time zone."
            )
    named = next((panel for panel in panels if panel.has_channel_names), first)
    names, known = named.channel_names, named.has_channel_names
    aligned = [
        align_channels(panel, names, named=known, owner="another panel", name=f"panel {position}")
        for position, panel in enumerate(panels)
    ]
    labels = [pd.Index(panel.ids, tupleize_cols=False) for panel in panels]
    rows = replace(
        named.rows,
        times=np.concatenate([panel.times for panel in aligned]),
        **_ticks([panel.rows for panel in panels]),
        values=np.concatenate([panel.values for panel in aligned]),
        offsets=offsets_from(np.concatenate([panel.lengths for panel in aligned])),
        ids=labels[0].append(labels[1:]).to_numpy(),
        static=_static(panels),
        keeps_empty=any(panel.rows.keeps_empty for panel in panels),
    )
    if ids is not None:
        faults = Faults("concat", read_ids(ids))
        own = fit_ids(faults.ids, len(rows.ids), faults)
        faults.raise_if_any()
        static = rows.static
        if static is not None:
            static = static.set_axis(pd.Index(own, tupleize_cols=False), axis=0)
        rows = replace(rows, ids=own, static=static)
    return rows, all(panel.is_checked for panel in panels)


def _ticks(parts: Sequence[Rows]) -> dict[str, Any]:
    """Exact times of all rows, where all parts have such."""
    per_unit = max(part.per_unit for part in parts)
    if any(part.ticks is None for part in parts):
        return {"ticks": None, "per_unit": 1}
    factors = [per_unit // part.per_unit for part in parts]
    limit = np.iinfo(np.int64).max
    fits = all(
        np.abs(part.ticks).max(initial=0) <= limit // factor
        for part, factor in zip(parts, factors, strict=True)
    )
    if not fits:  # too far from 1970 for nanoseconds
        return {"ticks": None, "per_unit": 1}
    scaled = [part.ticks * factor for part, factor in zip(parts, factors, strict=True)]
    return {"ticks": np.concatenate(scaled), "per_unit": per_unit}


def _meaning(panel: PanelStorage) -> str:
    if panel.time_unit is None:
        return "plain numbers"
    zone = f" of the time zone {panel.tz}" if panel.tz else ""
    return f"datetimes{zone} counted in {panel.time_unit!r}"


def _static(panels: Sequence[PanelStorage]) -> pd.DataFrame | None:
    tables = [panel.rows.static for panel in panels]
    columns = {None if table is None else frozenset(table.columns) for table in tables}
    if len(columns) > 1:
        raise ValueError(
            "the panels have different static columns; give all of them the same, NaN where not "
            "known."
        )
    return None if tables[0] is None else pd.concat(tables)
