"""The pass over all observations as a fixed point: all intervals at once.

The data nearly fix the states that the intervals start from; these hardly depend on the paths in
the intervals before. So all intervals are integrated at once from the states of the last pass, and
only the memory, which is linear and cheap, goes through each series in order. Every sweep, one
Picard iteration, brings the states about ten times closer to those of the pass in order
(:mod:`skpolyode.models.scan`); the learned part gets as far as it remembers. The depth of a sweep
is the number of steps of the longest interval, instead of that of the longest series.
"""

from __future__ import annotations

from itertools import pairwise

import torch

from skpolyode.memory.update import drive
from skpolyode.models.packed import Packed
from skpolyode.models.polyode import PolyODE

CHUNK = 4096  # intervals at once: bounds memory


@torch.no_grad()
def sweep(
    model: PolyODE, data: Packed, block: list[slice], states: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One Picard iteration: states and memories after all observations of a block.

    Parameters
    ----------
    model : PolyODE
    data : Packed
    block : list of slice
        Rows of the block, n together, as :meth:`Packed.blocks` gives them.
    states : Tensor of shape (n, M)
        States z after the observations, from an earlier pass.

    Returns
    -------
    before : Tensor of shape (n, M)
        States z just before each observation.
    c_before, c : Tensor of shape (n, D, N)
        Memories just before them, and after them.
    """
    begin = block[0].start
    rows = torch.arange(begin, block[-1].stop, device=states.device)
    first = rows[: block[0].stop - begin]
    before = torch.empty_like(states)
    initial = model.initial(data, first)
    before[: len(first)], start = initial["z"], initial["c"]
    c = start.new_zeros(len(rows), *start.shape[1:])
    c[: len(first)] = start
    origins = rows[data.next[rows] >= 0]
    # Chunks are of intervals of about the same length: none is padded to a much longer one.
    origins = origins[data.gap[data.next[origins]].argsort()]
    for chunk in origins.split(CHUNK):
        target = data.next[chunk]
        gap, elapsed = data.gap[target], data.elapsed[target]
        end, path = model.trace(states[chunk - begin], gap)
        before[target - begin] = end
        signal = end[:, model.signals]  # (n, D)
        c[target - begin] = drive(model.memory, path, signal, gap, elapsed, model.max_gap)
    added = torch.empty_like(c)
    for chunk in rows.split(CHUNK):
        own = chunk - begin
        signal = before[own][:, model.signals]
        added[own] = model.corrected(model.memory, signal, data, chunk)
    c += added
    # What each observation added is carried on, step after step, through the series.
    for earlier, later in pairwise(block):
        n_rows = later.stop - later.start  # series that go on come first
        known = c[earlier.start - begin :][:n_rows]
        kept = model.memory.propagate(known, data.gap[later], data.elapsed[later])
        c[later.start - begin : later.stop - begin] += kept
    return before, c - added, c


def observed_states(model: PolyODE, x: torch.Tensor) -> torch.Tensor:
    """States z of observations `x` (n, D) of which nothing else is known."""
    states = x.new_zeros(len(x), model.size)
    states[:, model.signals] = x
    return states


def picard_predictions(model: PolyODE, data: Packed, n_sweeps: int) -> torch.Tensor:
    """Signal just before each observation, after sweeps that start from the observations alone.

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
            before, _, c = sweep(model, data, block, states)
            states = model.reset(before, c, data, rows)
            predictions[rows] = before[:, model.signals]
    return predictions
