"""Inputs of the series of a stream: reading them, and following them between observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.inputs import with_inputs
from skpolyode.errors import FaultKind, Faults
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import State, put, select
from skpolyode.panel import Inputs, Panel, offsets_from
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.select import at_times, keep_rows, series_of_rows

_LATE = FaultKind(
    "inputs that come too late",
    "give inputs with the observations that follow them, or before; the stream is as it was",
)


class DrivenGap(NamedTuple):
    """Gaps from the last observations of n series to new ones, through the knots of inputs."""

    panel: Panel  # rows at both observations of each series; or at the new one
    course: Packed  # of these rows, and the knots; elapsed times are those of the series
    row: torch.Tensor  # int64 (n,): of the last observation, or of the first knot before any
    target: torch.Tensor  # int64 (n,): of the new one

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
        clock = panel.rows.times
        clock = clock._replace(axis=replace(clock.axis, tz=zone))
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
