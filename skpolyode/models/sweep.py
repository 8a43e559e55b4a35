"""The pass over all observations as a fixed point: all intervals at once.

Which states the intervals start from is nearly fixed by the data, and hardly depends on the paths
in the intervals before. So all of them are integrated at once from the states of the last pass,
and only the memory, which is linear and cheap, goes through each series in order. Every sweep
brings the states about ten times closer to those of :func:`~skpolyode.models.scan.scan`. Depth:
the steps of the longest interval, instead of those of the longest series.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from skpolyode.models.packed import Packed

if TYPE_CHECKING:
    from skpolyode.models.polyode import PolyODE

__all__ = ["sweep"]

_CHUNK = 4096  # intervals at once: bounds memory


@torch.no_grad()
def sweep(
    model: PolyODE, data: Packed, states: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """States and memories after every observation, from earlier such states.

    Parameters
    ----------
    model : PolyODE
    data : Packed
        P rows.
    states : Tensor of shape (P, D, 1 + N)
        States after the observations, as an earlier pass left them.

    Returns
    -------
    predictions : Tensor of shape (P, D)
        Signal just before each observation.
    z : Tensor of shape (P, D, 1 + N)
        States after the observations.
    c : Tensor of shape (P, D, N)
        Memories after them.
    """
    ends = torch.empty_like(states)
    first = torch.cat([torch.arange(block[0].start, block[0].stop) for block in data.blocks()])
    first = first.to(states.device)
    ends[first] = model.initial_state(data, first)
    start = model.memory.constant(ends[first][..., 0])
    c = start.new_zeros(*states.shape[:2], start.shape[-1])
    c[first] = start
    origins = (data.next >= 0).nonzero()[:, 0]
    # Intervals of about the same length together: none is padded to a much longer one.
    origins = origins[data.gap[data.next[origins]].argsort()]
    for rows in origins.split(_CHUNK):
        target = data.next[rows]
        ends[target], path = model.trace(states[rows], data.gap[target])
        c[target] = model.driven(path, ends[target][..., 0], data.gap[target], data.elapsed[target])
    everything = torch.arange(len(data), device=states.device)
    for rows in everything.split(_CHUNK):
        c[rows] += model.corrected(ends[rows][..., 0], data, rows)
    _accumulate(model, data, c)
    return ends[..., 0], model.reset(ends, c, data, everything), c


def _accumulate(model: PolyODE, data: Packed, c: torch.Tensor) -> None:
    """Add to each memory, in place, what is left of those before it in its series."""
    for block in data.blocks():
        for earlier, rows in pairwise(block):
            n_rows = rows.stop - rows.start  # the longest series, which come first
            before = c[earlier.start : earlier.start + n_rows]
            c[rows] += model.memory.propagate(before, data.gap[rows], data.elapsed[rows])
