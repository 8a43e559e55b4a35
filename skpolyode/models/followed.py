"""A memory that follows the path of a signal, bridged to what is observed."""

from __future__ import annotations

import torch

from skpolyode.cubic import CubicPath
from skpolyode.memory import Memory
from skpolyode.models.packed import Packed

__all__ = ["corrected", "driven", "remembered"]


def driven(
    memory: Memory,
    path: CubicPath,
    end: torch.Tensor,
    gap: torch.Tensor,
    elapsed: torch.Tensor,
    max_gap: float,
) -> torch.Tensor:
    """What the path of gaps (n,) adds to a memory; beyond `max_gap` its `end` (n, D) is held."""
    rest = gap - path.step * path.n_steps
    c = memory.driven(path, elapsed - rest)
    if (held := gap > max_gap).any():
        after = memory.hold(c[held], end[held], rest[held], elapsed[held])
        c = c.index_put((held.nonzero()[:, 0],), after)
    return c


def remembered(
    memory: Memory,
    c: torch.Tensor,
    path: CubicPath,
    end: torch.Tensor,
    gap: torch.Tensor,
    elapsed: torch.Tensor,
    max_gap: float,
) -> torch.Tensor:
    """Memory after the path of gaps (n,), from that before, `c` (n, D, N); see :func:`driven`."""
    return memory.propagate(c, gap, elapsed) + driven(memory, path, end, gap, elapsed, max_gap)


def corrected(memory: Memory, rise: torch.Tensor, data: Packed, rows: torch.Tensor) -> torch.Tensor:
    """What observations add to a memory whose signal they move by `rise` (n, D).

    The first observation of a channel shifts its whole remembered past, which at the start of a
    series makes it a constant: no step from 0 is remembered.
    """
    seen = data.seen[rows]
    c = memory.constant(torch.where(seen, 0.0, rise))
    rise = torch.where(seen, rise, 0.0)
    return c + memory.bridge(rise, data.channel_gap[rows], data.elapsed[rows])
