"""Alignment of channels with those of a fit, of entries with the series, and of joined panels."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import Faults
from skpolyode.panel.cells import Times
from skpolyode.panel.checks import first_misplaced, fit_ids, read_ids
from skpolyode.panel.inputs import join_inputs
from skpolyode.panel.rows import Rows, offsets_from


def refuse_reordered(values: object, panel: Any, name: str) -> None:
    """Raise a ValueError if the pandas index of entries holds ids of series at other positions.

    Entries belong to series by position. As in scikit-learn, an index without ids is ignored; so
    are ids that were not given. The text "7" and the number 7 are the same id.
    """
    if not isinstance(values, pd.Series | pd.DataFrame) or len(values) != panel.n_series:
        return
    index, ids = list(values.index), list(pd.Index(panel.ids, tupleize_cols=False))
    if not panel.rows.has_ids or (first := first_misplaced(index, ids)) is None:
        return
    kind = "str" if isinstance(ids[first], str) else "int"
    named = name if index[first] in ids else f"{name}.set_axis({name}.index.astype({kind}))"
    raise ValueError(
        f"the index of {name} holds the ids of the series in another order: {index[first]!r} is at "
        f"position {first}, where X has {ids[first]!r}. Pass {named}.loc[panel.ids], or "
        f"{name}.to_numpy() if its entries are in the order of X."
    )


def align_to_fit(panel: Any, estimator: Any, name: str = "X") -> Any:
    """Panel with the channels that an estimator was fitted on, in its order.

    Without an attribute `channel_names_` of the estimator, the panel is returned as it is. A
    ValueError if the unit of times is not that of fit.
    """
    if not hasattr(estimator, "channel_names_"):
        return panel
    names, named, owner = estimator.channel_names_, estimator.has_channel_names_, type(estimator)
    if panel.channel_names != tuple(names):
        panel = panel.align_channels(names, named=named, owner=owner.__name__, name=name)
    unit = getattr(estimator, "time_unit_", panel.time_unit)
    if panel.time_unit != unit:
        found, wanted = (Times(panel.times, each).clock for each in (panel.time_unit, unit))
        both = panel.is_datetime and unit is not None
        remedy = f"build {name} with time_unit={unit!r} (Panel.from_frames, ...)"
        remedy = remedy if both else "give datetimes to both, or numbers"
        raise ValueError(
            f"the times of {name} are in {found}, but {owner.__name__} was fitted on times in "
            f"{wanted}: {remedy}."
        )
    return panel


def warn_of_zone(tz: str | None, fitted: str | None, what: str, stacklevel: int = 5) -> None:
    """Warn of datetimes of which only the new ones, or only those of `fit`, have a time zone."""
    if (tz is None) != (fitted is None):
        new, old = (f"the time zone {zone}" if zone else "no time zone" for zone in (tz, fitted))
        warnings.warn(
            f"{what} have {new}, those of `fit` had {old}, so that the same hour is another "
            "moment: give both the same, with tz_localize.",
            stacklevel=stacklevel,
        )


def channel_order(
    found: Sequence[str],
    wanted: Sequence[str],
    *,
    known: bool,
    named: bool,
    owner: str,
    name: str = "X",
) -> list[int]:
    """Positions of the channels that `owner` was fitted on among those found.

    `known` and `named` state whether the names found and wanted were given; for the other
    parameters see `Panel.align_channels`.
    """
    found, wanted = list(found), list(wanted)
    if known:
        if sorted(found) == sorted(wanted):
            return [found.index(channel) for channel in wanted]
        # The columns [1, 0] of a frame are those of an array, reversed.
        counted = [str(k) for k in range(len(wanted))]
        if not named and sorted(found) == sorted(counted):
            return [found.index(channel) for channel in counted]
        if named:
            unknown = [channel for channel in found if channel not in wanted]
            missing = [channel for channel in wanted if channel not in found]
            also = f", {unknown} are not known" if unknown else ""
            remedy = (
                f"{missing} are missing{also}. Give every series the channels of fit under "
                "these names, NaN where not observed."
                if missing
                else f"{unknown} are not known. Leave them out with "
                f"Panel.select_channels({wanted})."
            )
            raise ValueError(
                f"{name} has the channels {found}, but {owner} was fitted on {wanted}: {remedy}"
            )
    if len(found) != len(wanted):
        raise ValueError(
            f"{name} has {len(found)} features, but {owner} is expecting {len(wanted)} features as "
            f"input: it has the channels {', '.join(found)} in place of {', '.join(wanted)}. Give "
            "every series the channels of fit, NaN where not observed."
        )
    return list(range(len(wanted)))


def concat_rows(panels: Sequence[Any], ids: object = None) -> tuple[Rows, bool]:
    """Return the rows of all panels, and whether they have been checked."""
    if not panels:
        raise ValueError("there is no panel to concatenate.")
    # Times since the start of each series cannot be concatenated: return to the user's clock.
    panels = [
        panel if panel.rows.origin is None else panel.like(panel.times, panel.values, panel.offsets)
        for panel in panels
    ]
    times = _times([panel.rows.times for panel in panels])
    leading = next((k for k, panel in enumerate(panels) if panel.has_channel_names), 0)
    first, aligned = panels[leading], []
    names, named = first.channel_names, first.has_channel_names
    for position, panel in enumerate(panels):
        try:
            aligned.append(panel.align_channels(names, named=named, owner="the first"))
        except ValueError:
            raise ValueError(
                f"panel {position} has the channels {list(panel.channel_names)}, but panel "
                f"{leading} has {list(names)}; give all panels the same, NaN where not observed, "
                "or choose those that all have (select_channels)."
            ) from None
    tables = [panel.rows.static for panel in panels]
    if len({None if table is None else frozenset(table.columns) for table in tables}) > 1:
        raise ValueError(
            "the panels have different static columns; give all of them the same, NaN where not "
            "known."
        )
    labels = [pd.Index(panel.ids, tupleize_cols=False) for panel in panels]
    index = labels[0].append(labels[1:])
    if ids is not None:
        faults = Faults("concat", read_ids(ids))
        index = pd.Index(fit_ids(faults.ids, len(index), faults), tupleize_cols=False)
        faults.raise_if_any()
    beside = {}
    for name in dict.fromkeys(name for panel in aligned for name in panel.rows.beside):
        cells = [p.rows.beside.get(name, np.full(p.values.shape, np.nan)) for p in aligned]
        beside[name] = np.concatenate(cells)
    rows = replace(
        first.rows,
        times=times,
        values=np.concatenate([panel.values for panel in aligned]),
        beside=beside,
        limits=_joint_limits(aligned, names),
        offsets=offsets_from(np.concatenate([panel.lengths for panel in aligned])),
        ids=index.to_numpy(),
        has_ids=ids is not None or any(panel.rows.has_ids for panel in panels),
        static=None if tables[0] is None else pd.concat(tables).set_axis(index, axis=0),
        inputs=join_inputs([panel.inputs for panel in panels]),
        keeps_empty=any(panel.rows.keeps_empty for panel in panels),
    )
    return rows, all(panel.is_checked for panel in panels)


def _joint_limits(panels: Sequence[Any], names: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Limits of all panels, by the names of the leading one; a ValueError where two differ."""
    joint: dict[str, tuple[float, float]] = {}
    for panel in panels:
        leading = dict(zip(panel.channel_names, names, strict=True))
        for name, ends in panel.rows.limits.items():
            if (first := joint.setdefault(leading.get(name, name), ends)) != ends:
                raise ValueError(f"give all panels the same limits of {name!r}: {first} or {ends}.")
    return joint


def _times(parts: Sequence[Times]) -> Times:
    """Times of all rows; exact if all parts are and fit the finest resolution among them.

    A ValueError if their clocks differ.
    """
    clocks = [part.clock for part in parts]
    for position, clock in enumerate(clocks):
        if clock != clocks[0]:
            raise ValueError(
                f"panel {position} has times in {clock}, panel 0 in {clocks[0]}; build all of them "
                "with one time_unit and time zone."
            )
    counts = np.concatenate([part.counts for part in parts])
    plain = Times(counts, parts[0].unit, parts[0].tz)
    if any(part.ticks is None for part in parts):
        return plain
    per_unit, limit = max(part.per_unit for part in parts), np.iinfo(np.int64).max
    pairs = [(part.ticks, per_unit // part.per_unit) for part in parts]
    if any(np.abs(ticks).max(initial=0) > limit // factor for ticks, factor in pairs):
        return plain  # too far from 1970 for nanoseconds
    ticks = np.concatenate([ticks * factor for ticks, factor in pairs])
    return plain._replace(ticks=ticks, per_unit=per_unit)
