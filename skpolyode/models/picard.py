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

from skpolyode.models.followed import driven
from skpolyode.models.packed import Packed

if TYPE_CHECKING:
    from skpolyode.models.polyode import PolyODE

__all__ = ["CHUNK", "observed_states", "picard_predictions", "sweep"]

CHUNK = 4096  # intervals at once: bounds memory


@torch.no_grad()
def sweep(
    model: PolyODE, data: Packed, block: list[slice], states: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """States and memories after every observation of a block, from earlier such states.

    Parameters
    ----------
    model : PolyODE
    data : Packed
    block : list of slice
        Rows of the block, n together, as :meth:`Packed.blocks` gives them.
    states : Tensor of shape (n, D, 1 + N)
        States after the observations, as an earlier pass left them.

    Returns
    -------
    predictions : Tensor of shape (n, D)
        Signal just before each observation.
    z : Tensor of shape (n, D, 1 + N)
        States after the observations.
    c : Tensor of shape (n, D, N)
        Memories after them.
    """
    begin = block[0].start
    rows = torch.arange(begin, block[-1].stop, device=states.device)
    first = rows[: block[0].stop - begin]
    ends = torch.empty_like(states)
    initial = model.initial(data, first)
    ends[: len(first)], start = initial["z"], initial["c"]
    c = start.new_zeros(*states.shape[:2], start.shape[-1])
    c[: len(first)] = start
    origins = rows[data.next[rows] >= 0]
    # Intervals of about the same length together: none is padded to a much longer one.
    origins = origins[data.gap[data.next[origins]].argsort()]
    for some in origins.split(CHUNK):
        target = data.next[some]
        gap, elapsed = data.gap[target], data.elapsed[target]
        end, path = model.trace(states[some - begin], gap)
        ends[target - begin] = end
        own = end[..., 0], gap, elapsed, model.max_gap
        c[target - begin] = driven(model.memory, path, *own)
    for some in rows.split(CHUNK):
        c[some - begin] += model.corrected(model.memory, ends[some - begin, :, 0], data, some)
    _accumulate(model, data, block, c)
    return ends[..., 0], model.reset(ends, c, data, rows), c


def observed_states(model: PolyODE, x: torch.Tensor) -> torch.Tensor:
    """States (n, D, 1 + N) of observations `x` (n, D) of which nothing else is known."""
    states = x.new_zeros(*x.shape, 1 + model.memory.n_coefficients)
    states[..., 0] = x
    return states


def picard_predictions(model: PolyODE, data: Packed, n_sweeps: int) -> torch.Tensor:
    """Signal just before each observation, after some sweeps from the observations alone.

    Parameters
    ----------
    model : PolyODE
    data : Packed
    n_sweeps : int
        Each brings the result about ten times closer to that of :meth:`PolyODE.predictions`.

    Returns
    -------
    Tensor of shape (P, D)

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack, picard_predictions
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> with torch.no_grad():
    ...     error = picard_predictions(model, data, n_sweeps=3) - model.predictions(data)
    >>> bool(error.abs().max() < 1e-3)
    True
    """
    predictions = torch.empty_like(data.x)
    for block in data.blocks():
        rows = slice(block[0].start, block[-1].stop)
        states = observed_states(model, data.x[rows])
        for _ in range(n_sweeps):
            predictions[rows], states, _ = sweep(model, data, block, states)
    return predictions


def _accumulate(model: PolyODE, data: Packed, block: list[slice], c: torch.Tensor) -> None:
    """Add to each memory, in place, what is left of those before it in its series."""
    begin = block[0].start
    for earlier, rows in pairwise(block):
        n_rows = rows.stop - rows.start  # the longest series, which come first
        before = c[earlier.start - begin :][:n_rows]
        kept = model.memory.propagate(before, data.gap[rows], data.elapsed[rows])
        c[rows.start - begin : rows.stop - begin] += kept
