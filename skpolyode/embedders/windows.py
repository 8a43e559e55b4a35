"""Long series, cut into parts that are run through side by side.

The dynamics depend on a recent past only, so that each part is run behind a stretch that brings
its state to that of a run in order. Memories are linear: what a memory of the whole history holds
is the sum of what each part has added, moved on to the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from skpolyode.embedders.memory_readout import MemoryReadout
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import State, join, select
from skpolyode.panel import Panel
from skpolyode.panel.rows import offsets_from
from skpolyode.panel.select import context_starts, observed_rows, series_of_rows, take

__all__ = ["Parts", "agree", "cut", "states_in_parts"]

_SAME_STATE = 1e-9
_PART_ROWS = 256


class Parts(NamedTuple):
    """Series cut into parts that are run through side by side, each with what it depends on."""

    panel: Panel  # of K parts as series
    start: np.ndarray  # int64 (K,): first row that a part runs through, over all series
    own: np.ndarray  # int64 (K + 1,): first row that it answers for, up to that of the next part
    later: np.ndarray  # int64: the parts that are not the first of their series

    def rows(self, chunk: slice) -> tuple[Panel, np.ndarray]:
        """Panel of some parts, and which of its rows (they follow one another) they answer for."""
        panel = self.panel[chunk]
        series = series_of_rows(panel)
        row = np.arange(panel.n_observations) + (self.start[chunk] - panel.offsets[:-1])[series]
        return panel, np.flatnonzero(row >= self.own[chunk][series])


def cut(panel: Panel, reach: float, n_rows: int) -> Parts:
    """Cut series that are much longer than `reach` into parts of about `n_rows` own rows."""
    first, lengths = panel.offsets[:-1], panel.lengths
    is_long = panel.times[panel.offsets[1:] - 1] - panel.times[first] > 2 * reach
    n_parts = np.where(is_long, np.maximum(lengths // n_rows, 1), 1)
    series = np.repeat(np.arange(panel.n_series), n_parts)
    place = np.arange(len(series)) - offsets_from(n_parts)[series]
    own = first[series] + place * lengths[series] // n_parts[series]
    start, own = own.copy(), np.append(own, panel.n_observations)
    later = np.flatnonzero(place)
    if len(later):
        start[later] = context_starts(panel, own[later] - 1, reach)
    return Parts(take(panel, series, start, own[1:]), start, own, later)


def agree(one: State, other: State) -> bool:
    """Whether states are the same, but for what a run that begins later may differ in."""
    return all(torch.allclose(one[k], other[k], rtol=0, atol=_SAME_STATE) for k in one)


def states_in_parts(
    model: SequenceModel,
    pack: Callable[[Panel], Packed],
    panel: Panel,
    past: MemoryReadout,
    reach: float,
) -> State | None:
    """State at the last observation of each series, its memory `history` put together.

    Parameters
    ----------
    model : SequenceModel
    pack : callable
        Series of a panel as the model reads them.
    panel : Panel
        Series without rows that hold no observation.
    past : MemoryReadout
        Of the memory `history`, whose measure does not depend on the age of the series.
    reach : float
        Length of the stretch before each part, in the units of `times`.

    Returns
    -------
    dict of str to Tensor or None
        None if some stretch was too short.
    """
    parts = cut(panel, reach, _PART_ROWS)
    border = np.maximum(parts.own[:-1] - 1, parts.start)  # the row before a part's own ones
    end, unit, rows = parts.own[1:] - 1, past.units.time_scale, observed_rows(parts.panel)
    at_border = torch.from_numpy(rows.times[rows.offsets[:-1] + border - parts.start] / unit)
    borders, ends = _passed(model, pack(parts.panel), at_border)
    fed_back = [name for name in ends if name != "history"]
    before, after = select(ends, parts.later - 1), select(borders, parts.later)
    if not agree(*({name: state[name] for name in fed_back} for state in (before, after))):
        return None
    series = series_of_rows(panel)[end]
    last = panel.offsets[1:] - 1
    since = torch.from_numpy(panel.times[end] - panel.times[border]) / unit
    rest = torch.from_numpy(panel.times[last[series]] - panel.times[end]) / unit
    history = ends["history"].clone()
    history[parts.later] -= past.memory.propagate(borders["history"], since, since)[parts.later]
    history = past.memory.propagate(history, rest, rest)
    state = select(ends, np.flatnonzero(end == last[series]))
    total = torch.zeros_like(state["history"])
    return state | {"history": total.index_add_(0, torch.from_numpy(series), history)}


def _passed(model: SequenceModel, data: Packed, at_border: torch.Tensor) -> list[State]:
    """States of all series at some elapsed times (B,), each that of a row, and at their ends."""
    found: list[list] = [[], []]
    for step in model.run(data):
        series = data.series[step.rows]
        at = data.elapsed[step.rows] == at_border[series], data.next[step.rows] < 0
        for own, states in zip(at, found, strict=True):
            if own.any():
                states.append((series[own], select(step.state, own)))
    return [
        select(join([state for _, state in own]), torch.cat([s for s, _ in own]).argsort())
        for own in found
    ]
