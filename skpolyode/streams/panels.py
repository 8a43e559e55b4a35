"""Panels of streams: what users pass to `update`, and what files hold.

New observations are a small panel that continues a stream. Inputs are followed between
observations. What files hold is checked, as they may come from anyone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from skpolyode.embedders import ChannelScaler, ModelEmbedder
from skpolyode.embedders.encoders import with_inputs
from skpolyode.errors import FaultKind, Faults, plain_repr
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import State, put, select
from skpolyode.panel import Inputs, Panel, offsets_from
from skpolyode.panel.cells import MICROSECONDS, Times, as_pandas, join_times, rectangular
from skpolyode.panel.checks import (
    DUPLICATE,
    RESTARTED,
    TOO_LARGE,
    UNSORTED,
    build_rows,
    check_rows,
    note_cells,
    note_extremes,
    some_of,
)
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.query import check_kind, read_instants
from skpolyode.panel.readers.lists import names_in
from skpolyode.panel.readers.long import Table, group_rows
from skpolyode.panel.rows import Rows, are_offsets, default_channel_names
from skpolyode.panel.select import keep_rows, series_of_rows
from skpolyode.panel.selection import channel_order, refuse_reordered, warn_of_zone
from skpolyode.panel.units import note_judged
from skpolyode.saving.codec import checked_zone, register, register_attributes

AS_WAS = "; the stream is as it was"
_REMEDIES = {  # instead of options that only panels have
    DUPLICATE: "merge observations of equal time into one row, NaN where not observed",
}
_REMEDIES |= dict.fromkeys(
    (RESTARTED, UNSORTED),
    "if a clock started again there (midnight, a counter at its limit, a logger), add what it had "
    "counted; if not, give each series its observations in the order of time",
)


def at_times(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, values: Any = None, **others: Any
) -> Panel:
    """Panel of the same series with other rows, on the same clock; by default all values are 0.

    `others` are fields of `Rows`.
    """
    if values is None:
        values = np.zeros((len(times), panel.n_channels))
    clock = panel.rows.times._replace(counts=times, ticks=None)
    others = {"beside": {}} | others
    rows = replace(panel.rows, times=clock, values=values, offsets=offsets, **others)
    return panel.from_rows(rows, checked=False)


def new_rows(
    panel: Panel,
    series: np.ndarray,
    times: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    **beside: np.ndarray,
) -> Panel:
    """Panel of new rows, on the clock of `panel`; its ids are positions of series in `panel`."""
    origin = None if panel.rows.origin is None else panel.rows.origin[series]
    labels = {"ids": series, "static": None, "inputs": None, "keeps_empty": True, "origin": origin}
    return at_times(panel, times, offsets, values, beside=beside, **labels)


def read_rows(
    panel: Panel,
    last: np.ndarray,
    scaler: ChannelScaler,
    times: Any,
    values: Any,
    series: Any,
    errors: Any = None,
) -> Panel:
    """Read new observations of series of a panel, whose last times are `last` (B,).

    Returns a panel of :func:`new_rows`, in ascending order of the positions.

    Raises
    ------
    ValueError
        If they are not valid; one error lists the first faults.
    TypeError
        If their times are of another kind than those of the panel.
    """
    if 0 == np.size(times) == np.size(values):
        none = np.empty(0, dtype=np.int64)
        return new_rows(panel, none, np.empty(0), np.empty((0, panel.n_channels)), np.zeros(1, int))
    block, one_row = read_instants(times, panel, "update: times"), np.ndim(times) == 0
    if block.data.ndim != 1:
        raise ValueError(f"update: times must be one-dimensional, got shape {block.data.shape}.")
    check_kind(block, panel, "update: times", like="those of the transformer's fit")
    clock = join_times([block], panel.time_unit)._replace(tz=panel.tz)
    columns = _columns(values, panel, one_row, "values")
    if series is None:
        refuse_reordered(values, panel, "values")
    clock = clock.at(np.zeros(len(columns[0]), dtype=np.int64)) if one_row else clock
    _refuse_lengths("times", len(clock.counts), columns)
    chosen, codes = np.unique(_owners(series, len(columns[0]), panel.ids), return_inverse=True)
    faults = _faults(panel, chosen, also=AS_WAS)
    table = Table(codes, panel.ids[chosen], clock, faults)
    rows = group_rows(table, columns, panel.channel_names)
    if errors is not None:
        known = _columns(errors, panel, one_row, "errors")
        _refuse_lengths("errors", len(known[0]), columns)
        rows = rows.with_beside(errors=group_rows(table, known, panel.channel_names).values)
    faults.raise_if_any()
    hidden = hidden_cells(rows, scaler, _faults(panel, chosen))
    rows = rows.with_cells(lambda cells: np.where(hidden, np.nan, cells))
    cells = np.hstack([rows.values, *rows.beside.values()])  # errors without a value are faults
    rows = rows.keep(~np.isnan(cells).all(axis=1))
    counts = rows.times.counts
    if (origin := panel.rows.origin) is not None:
        counts = panel.rows.since_origin(rows.times, np.repeat(origin[chosen], rows.lengths))
    filled = rows.lengths > 0
    chosen, offsets = chosen[filled], np.append(0, rows.offsets[1:][filled])
    new = new_rows(panel, chosen, counts, rows.values, offsets, **rows.beside)
    check_new(panel, scaler, new, last[chosen])
    return new


def hidden_cells(rows: Rows, scaler: ChannelScaler, doubts: Faults) -> np.ndarray:
    """Mask (n_rows, D) of the cells that are taken as not observed, with a warning of them."""
    if scaler.limits is None:
        return np.zeros(rows.values.shape, dtype=bool)
    judged = scaler.limits.judge(rows.values, rows.errors)
    note_judged(judged, rows, doubts)
    doubts.warn_if_any(stacklevel=4)
    return judged.hidden


def check_new(panel: Panel, scaler: ChannelScaler, new: Panel, last: np.ndarray) -> None:
    """Raise one error for all faults of new rows, which follow the `last` times of their series.

    A row at the last time, unless this is -inf, is checked together with the new ones.
    """
    begun = np.isfinite(last) & np.isfinite(new.times).all()  # rows of unknown time are counted
    first = new.offsets[:-1][begun]
    times = new.rows.times._replace(counts=np.insert(new.times, first, last[begun]))
    rows = new.rows.with_cells(lambda cells: np.insert(cells, first, np.nan, axis=0))
    rows = replace(rows, times=times, offsets=new.offsets + offsets_from(begun))
    faults = _faults(panel, new.ids, remedies=_REMEDIES, also=AS_WAS)
    check_rows(rows, faults)
    if not faults:
        note_extremes(rows, faults)
    wrong = scaler.is_too_far(rows.values) & np.isfinite(rows.values)
    note_cells(TOO_LARGE, wrong, "{:g} is too large", rows, faults)
    faults.raise_if_any()


def _faults(panel: Panel, series: np.ndarray, **remedies: Any) -> Faults:
    return Faults("update", panel.ids, panel.channel_names, positions=series, **remedies)


def _refuse_lengths(what: str, length: int, columns: list[Any]) -> None:
    if length != (n_rows := len(columns[0])):
        raise ValueError(
            f"update: {length} {what} for {n_rows} rows of values: give one for each row."
        )


def read_series(series: Any, ids: np.ndarray, name: str = "series") -> np.ndarray:
    """Positions of series, which are given by position or by ids that are text, one or many."""
    chosen, n_series = np.atleast_1d(np.asarray(series)), len(ids)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iuUO":
        raise TypeError(
            f"{name} must be positions of series, whole numbers, or ids that are text, got "
            f"{plain_repr(series)}."
        )
    if chosen.dtype.kind in "UO":
        found = pd.Index(ids, tupleize_cols=False).get_indexer(chosen.astype(object))
        if (found < 0).any():
            unknown = plain_repr(chosen[int(np.argmin(found))])
            raise ValueError(
                f"{name}: there is no series with the id {unknown}; ids are {some_of(ids)}."
            )
        return found.astype(np.int64)
    outside = (chosen < 0) | (chosen >= n_series)
    if outside.any():
        raise ValueError(
            f"{name} must be from 0 to {n_series - 1}, the positions of the {n_series} series, got "
            f"{chosen[outside][0]}."
        )
    return chosen.astype(np.int64)


def begun_at(panel: Panel, times: Any) -> Panel:
    """Panel without rows whose times count from the first datetimes, in their time zone.

    Before, its zone is that of `fit`, or of inputs.
    """
    block = read_instants(times, panel, "update: times")
    if block.kind != "datetime":
        return panel
    read, clock = join_times([block], panel.time_unit), panel.rows.times
    if not (known := np.isfinite(read.counts)).any():
        return panel
    if (driven := getattr(getattr(panel.inputs, "stored", None), "tz", None)) is None:
        warn_of_zone(block.tz, panel.tz, "times of this stream", stacklevel=4)
    clock, origin = clock._replace(tz=driven or block.tz), None
    if read.ticks is not None:
        clock = clock._replace(ticks=np.empty(0, dtype=np.int64), per_unit=read.per_unit)
        origin = np.full(panel.n_series, read.ticks[known].min())
    return Panel.from_rows(replace(panel.rows, times=clock, origin=origin), checked=False)


def _columns(values: Any, panel: Panel, one_row: bool, name: str) -> list[Any]:
    """Cells of each channel; frames, Series and dicts are matched by name."""
    wanted, named = panel.channel_names, panel.has_channel_names
    if isinstance(values, Mapping):  # channels that it leaves out were not observed
        if named and (unknown := [key for key in values if key not in wanted]):
            raise ValueError(f"{name}: there is no channel {unknown[0]!r}, only {list(wanted)}.")
        row = {**dict.fromkeys(wanted if named else (), np.nan), **values}
        values = pd.DataFrame([row] if one_row else row)
    elif isinstance(values, pd.Series) and one_row and len(wanted) > 1:
        values = values.to_frame().T
    values = as_pandas(values)
    if isinstance(values, pd.DataFrame):
        found = names_in(values.columns)
        columns = [values.iloc[:, k] for k in range(values.shape[1])]
    else:
        array, found = rectangular(values), None
        if array.ndim < 2:
            array = array.reshape((1, -1) if one_row and len(wanted) > 1 else (-1, 1))
        if array.ndim > 2:
            raise ValueError(
                f"update: {name} must be 2-D, a column for each channel, got {array.ndim}-D."
            )
        columns = list(array.T)
    labels = {"named": named, "owner": "the model", "name": f"update: {name}"}
    names = default_channel_names(len(columns)) if found is None else found
    order = channel_order(names, wanted, known=found is not None, **labels)
    return [columns[k] for k in order]


def _owners(series: Any, n_rows: int, ids: np.ndarray) -> np.ndarray:
    """Position of the series of each row."""
    owner = np.arange(len(ids)) if series is None else read_series(series, ids, "update: series")
    if len(owner) == n_rows:
        return owner
    if len(owner) > 1 or np.ndim(series) > 0:
        raise ValueError(
            f"update: {n_rows} rows for {len(owner)} series: pass series, the position or the id "
            "of the series that each row belongs to."
        )
    return np.repeat(owner, n_rows)


_LATE = FaultKind(
    "inputs that come too late",
    "give inputs with the observations that follow them, or before; the stream is as it was",
)


class DrivenGap(NamedTuple):
    """Gaps from the last observations of n series to new ones, through the knots of inputs."""

    panel: Panel  # rows at both observations of each series; or at the new one
    course: Packed  # of these rows, and the knots; elapsed times are those of the series
    row: Tensor  # int64 (n,): of the last observation, or of the first knot before any
    target: Tensor  # int64 (n,): of the new one

    @classmethod
    def of(
        cls, embedder: ModelEmbedder, panel: Panel, last: np.ndarray, elapsed: np.ndarray, now: Any
    ) -> DrivenGap:
        """Gaps of the series of a panel from times `last` (n,), -inf before any, to `now` (n,)."""
        n_rows = np.where(np.isfinite(last), 2, 1)
        times = np.column_stack([last, now]).ravel()
        offsets = offsets_from(n_rows)
        panel = at_times(panel, times[np.isfinite(times)], offsets)
        course = embedder.pack(panel)
        since = course.elapsed + torch.from_numpy(elapsed).to(course.elapsed.device)[course.series]
        course = replace(course, elapsed=since)
        target = course.observations[torch.from_numpy(offsets[1:] - 1)]
        begins = (course.gap == 0).nonzero()[:, 0]
        row = begins[course.series[begins].argsort()]
        seen = course.observations[torch.from_numpy(offsets[:-1])]
        row = torch.where(torch.from_numpy(n_rows > 1).to(row.device), seen, row)
        return cls(panel, course, row, target)

    def follow(self, model: SequenceModel, state: State) -> State:
        """States just before the new observations, from those after the last ones."""
        first = self.course.knot[self.row].nonzero()[:, 0]
        if len(first):
            begun = model.steer(select(state, first), self.course, self.row[first])
            state = put(state, first, begun)
        on = (self.row != self.target).nonzero()[:, 0]
        return put(state, on, model.arrive(select(state, on), self.course, self.row[on])[0])


def add_inputs(panel: Panel, embedder: Any, inputs: Any, last: np.ndarray) -> Panel:
    """Panel with further inputs; they must be later than the `last` (B,) observations."""
    zone = getattr(getattr(inputs, "stored", inputs), "tz", None)
    if panel.tz is None and zone is not None and not np.isfinite(last).any():  # the first datetimes
        clock = panel.rows.times._replace(tz=zone)
        panel = Panel.from_rows(replace(panel.rows, times=clock), checked=False)
    joint, later = with_inputs(panel, embedder.inputs, inputs, "the transformer")
    rows = on_clock_of(Panel.from_rows(replace(panel.rows, inputs=later))).panel
    series, faults = series_of_rows(rows), Faults("update", panel.ids)

    def line(row: int) -> str:
        k = series[row]
        at, end = (panel.rows.format_from(k, t) for t in (rows.times[row], last[k]))
        return f"{faults.series(k)}: an input at {at}, but it is known up to {end}"

    faults.add_each(_LATE, np.flatnonzero(rows.times <= last[series]), line)
    faults.raise_if_any()
    return joint


def without_past(panel: Panel, last: np.ndarray) -> Panel:
    """Panel without the inputs up to the `last` (B,) observations that no longer act."""
    if panel.inputs is None:
        return panel
    stored, rows = panel.inputs.panel, on_clock_of(panel).panel
    series = series_of_rows(rows)
    kept = rows.times > last[series]
    goes_on = ~np.isnan(stored.values) & (np.array(panel.inputs.kinds) != "impulse")
    place = np.where(goes_on & ~kept[:, None], np.arange(len(kept))[:, None], -1)
    latest = np.full((panel.n_series, place.shape[1]), -1)
    np.maximum.at(latest, series, place)
    kept[latest[latest >= 0]] = True
    if kept.all():
        return panel
    inputs = Inputs(keep_rows(stored, kept), panel.inputs.kinds)
    return Panel.from_rows(replace(panel.rows, inputs=inputs), checked=False)


_CLOCK = ("counts", "ticks", "per_unit", "unit", "tz")


def joint(a: Panel, b: Panel) -> Panel:
    """Panel without rows, with the series of both."""
    both = a, b
    begun = next((panel.rows for panel in both if panel.rows.origin is not None), None)
    if begun is not None:  # before an observation there is no clock, and any will do
        started = {"times": begun.times, "origin": begun.origin[:1]}
        both = [
            p if p.rows.origin is not None else Panel.from_rows(replace(p.rows, **started))
            for p in both
        ]
    if all(np.array_equal(panel.ids, np.arange(panel.n_series)) for panel in both):
        ids = np.arange(a.n_series + b.n_series)
    else:
        ids = np.concatenate([panel.ids for panel in both])
    rows = Panel.concat(both, ids=ids).rows
    if begun is not None:
        per_unit = max(panel.rows.times.per_unit for panel in both)
        origins = [
            np.broadcast_to(p.rows.origin * (per_unit // p.rows.times.per_unit), p.n_series)
            for p in both
        ]
        clock = rows.times._replace(ticks=np.empty(0, np.int64), per_unit=per_unit)
        rows = replace(rows, times=clock, origin=np.concatenate(origins))
    return Panel.from_rows(rows, checked=False)


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
register_attributes(Inputs, "panel", "kinds", part="streams")
