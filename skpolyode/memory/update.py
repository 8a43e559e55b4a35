"""What a memory takes in from a model: the path of its signals, and observations."""

from __future__ import annotations

import torch

from skpolyode.cubic import CubicPath
from skpolyode.memory.base import Memory


def drive(
    memory: Memory,
    path: CubicPath,
    end: torch.Tensor,
    gap: torch.Tensor,
    elapsed: torch.Tensor,
    max_gap: float,
) -> torch.Tensor:
    """Coefficients (n, D, N) that the path of gaps (n,) adds to a memory.

    A path ends at `max_gap`; for the rest of a longer gap its `end` (n, D) is held. `elapsed` (n,)
    is the time since the start of the series at the end of the gap.
    """
    rest = gap - path.step * path.n_steps
    c = memory.driven(path, elapsed - rest)
    if (held := gap > max_gap).any():
        after = memory.hold(c[held], end[held], rest[held], elapsed[held])
        c = c.index_put((held.nonzero()[:, 0],), after)
    return c


def take_in(
    memory: Memory,
    rise: torch.Tensor,
    seen: torch.Tensor,
    gap: torch.Tensor,
    elapsed: torch.Tensor,
) -> torch.Tensor:
    """Coefficients (n, D, N) that observations add to a memory whose signal they move by `rise`.

    `rise` (n, D) is zero where nothing was observed. `seen` (n, D) says which channels were
    observed before, and `gap` (n, D) how long ago: a ramp bends the path since then. The first
    observation of a channel shifts its whole past, so that no step from zero is remembered.
    """
    c = memory.constant(torch.where(seen, 0.0, rise))
    return c + memory.bridge(torch.where(seen, rise, 0.0), gap, elapsed)
