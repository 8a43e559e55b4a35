"""Long series, run through in parts that lie side by side.

The dynamics depend on a recent past only, and memories are linear: what a memory of the whole
history holds is the sum of what each part has added, moved on to the end. So the parts of all
series are run at once, each behind a context that brings its state to that of a run in order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from skpolyode.embedders.past import Past
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import State, join, select
from skpolyode.panel import Panel
from skpolyode.panel.select import context_starts, observed_rows, take

__all__ = ["PART_ROWS", "states_in_parts"]

PART_ROWS = 256


def states_in_parts(
    model: SequenceModel,
    pack: Callable[[Panel], Packed],
    panel: Panel,
    past: Past,
    reach: float,
    tolerance: float,
) -> State | None:
    """State at the last observation of each series, its memory `history` put together.

    Parameters
    ----------
    model : SequenceModel
    pack : callable
        Series of a panel as the model reads them.
    panel : Panel
        Series without rows that hold no observation.
    past : Past
        Of the memory `history`, whose measure does not depend on the age of the series.
    reach : float
        Length of the context of each part, in the units of `times`.
    tolerance : float
        How close the states have to be where one part follows on another.

    Returns
    -------
    dict of str to Tensor or None
        None if some context was too short.
    """
    n_parts = np.maximum(1, -(-panel.lengths // PART_ROWS))
    owner = np.repeat(np.arange(panel.n_series), n_parts)
    place = np.arange(len(owner)) - (np.cumsum(n_parts) - n_parts)[owner]
    begin = panel.offsets[owner] + place * PART_ROWS
    end = np.minimum(begin + PART_ROWS, panel.offsets[owner + 1]) - 1
    # The row before a part is its border, where its own run has to agree with the part before.
    is_later = place > 0
    border = np.where(is_later, begin - 1, begin)
    start = np.where(is_later, context_starts(panel, border, reach), begin)
    parts = take(panel, owner, start, end + 1)
    unit, rows = past.units.time_scale, observed_rows(parts)
    at_border = torch.from_numpy(rows.times[rows.offsets[:-1] + border - start] / unit)
    borders, ends = _passed(model, pack(parts), at_border)
    follows = np.flatnonzero(is_later)
    for name in ("z", "c"):
        before, after = ends[name][follows - 1], borders[name][follows]
        if not torch.allclose(before, after, rtol=0, atol=tolerance):
            return None
    since = torch.from_numpy(panel.times[end] - panel.times[border]) / unit
    rest = torch.from_numpy(panel.times[panel.offsets[owner + 1] - 1] - panel.times[end]) / unit
    history = ends["history"].clone()
    moved = past.memory.propagate(borders["history"], since, since)
    history[follows] -= moved[follows]
    history = past.memory.propagate(history, rest, rest)
    state = select(ends, np.flatnonzero(place == n_parts[owner] - 1))
    total = torch.zeros_like(state["history"])
    return state | {"history": total.index_add_(0, torch.from_numpy(owner), history)}


def _passed(model: SequenceModel, data: Packed, at_border: torch.Tensor) -> tuple[State, State]:
    """States of all series at some elapsed times (B,), each that of a row, and at their ends."""
    found: tuple[list, list] = ([], [])
    for step in model.run(data):
        series = data.series[step.rows]
        for kept, states in (
            (data.elapsed[step.rows] == at_border[series], found[0]),
            (data.next[step.rows] < 0, found[1]),
        ):
            index = kept.nonzero()[:, 0]
            if len(index):
                states.append((series[index], select(step.state, index)))
    return tuple(
        select(join([state for _, state in own]), torch.cat([s for s, _ in own]).argsort())
        for own in found
    )
