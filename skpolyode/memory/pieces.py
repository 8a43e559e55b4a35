"""Signals that are given in advance: their coefficients without any recurrence.

:func:`remember` computes what a memory holds of them. The memory is linear, so that is a sum over
the pieces. A piece is answered by its two knots, from a table; where it is so short that the steps
of its derivatives would cancel to rounding errors, by Gauss quadrature of the impulse response
instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from skpolyode.memory.base import SHORTEST_GAP, Memory
from skpolyode.memory.measures import gauss_nodes
from skpolyode.memory.tables import CACHED, split_rows

# Shortest piece that is answered by knots, as a share of the past that counts, by the degree of
# the pieces. Rounding errors grow as 1e-16 / share**degree: a part in 1e10 with these.
_SHORTEST = {0: 0.0, 1: 1e-5, 3: 1 / 160}
_CHUNK = CACHED // 64  # pieces at once: the responses to them stay in the cache


class Pieces(NamedTuple):
    """Polynomial pieces of many signals, which are zero before their first piece.

    The pieces of a row follow one another up to the present: one ends where the next starts.
    """

    row: Tensor  # int64 (P,), not decreasing
    age: Tensor  # float64 (P,): time between the start of the piece and now
    start: Tensor  # float64 (P, D, Q): value and first Q - 1 derivatives at its start
    end: Tensor  # float64 (P, D, Q): the same at its end

    @property
    def last(self) -> Tensor:
        """Whether the piece is the last of its row, bool (P,)."""
        last = torch.ones_like(self.row, dtype=torch.bool)
        last[:-1] = self.row[1:] != self.row[:-1]
        return last

    @property
    def age_end(self) -> Tensor:
        """Time (P,) between the end of the piece and now."""
        return torch.where(self.last, 0.0, self.age.roll(-1))


def remember(memory: Memory, pieces: Pieces, elapsed: Tensor) -> Tensor:
    """Coefficients that a memory holds of signals, after all of their pieces.

    Parameters
    ----------
    memory : Memory
        Remembers the signals.
    pieces : Pieces
        Signals of B rows and D channels.
    elapsed : float64 Tensor of shape (B,)
        Time since the start of each row's history, now.

    Returns
    -------
    float64 Tensor of shape (B, D, N)

    See Also
    --------
    project : The exact projection of the same signals.
    """
    last, age_end = pieces.last, pieces.age_end
    length = pieces.age - age_end
    past = elapsed.clamp(max=memory.horizon)[pieces.row]  # the past that counts
    kept = (age_end <= memory.horizon) & (length > SHORTEST_GAP)
    short = kept & (length < _SHORTEST[pieces.start.shape[2] - 1] * past)
    if (far := length > 1e95).any():  # the cube of a longer age overflows
        pieces, short = _as_lines(pieces, far, age_end, memory.horizon), short & ~far

    total = elapsed.new_zeros(len(elapsed), pieces.start.shape[1], memory.n_coefficients)
    # Knots of the signal that consists of the pieces `whole`, and is zero elsewhere.
    whole = kept & ~short
    begins = torch.where(whole[:, None, None], pieces.start, 0.0)
    ends = torch.where((whole & ~last)[:, None, None], pieces.end, 0.0).roll(1, 0)
    used = (whole | (whole & ~last).roll(1)) & (pieces.age > 0)
    knots = pieces.row[used], pieces.age[used], (begins - ends)[used]
    for row, age, steps in split_rows(_CHUNK, *knots):
        total.index_add_(0, row, memory.respond(steps, age, elapsed[row]))
    if short.any():
        for row, impulses in _respond_to_short(memory, pieces, length, short, elapsed):
            total.index_add_(0, row, impulses)
    return total


def _as_lines(pieces: Pieces, far: Tensor, age_end: Tensor, horizon: float) -> Pieces:
    """The pieces `far` as lines between their ends, from the `horizon` on."""
    age, start, end = pieces.age.clone(), pieces.start.clone(), pieces.end.clone()
    length = age[far] - age_end[far]
    inside = length.clamp(max=horizon)
    age[far] = age_end[far] + inside
    value, rise = end[far][..., :1], end[far][..., :1] - start[far][..., :1]
    slope = rise / length[:, None, None]
    line = torch.cat([value, slope, 0 * slope, 0 * slope], dim=2)[..., : end.shape[2]]
    end[far] = line
    line[..., :1] -= slope * inside[:, None, None]
    start[far] = line
    return Pieces(pieces.row, age, start, end)


def _respond_to_short(
    memory: Memory, pieces: Pieces, length: Tensor, short: Tensor, elapsed: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows (P,) and coefficients (P, D, N) of parts of the pieces `short`, a chunk at a time.

    Each is cut into equal stretches, none too long for a cluster of impulses. A stretch of signal
    is an integral of impulses.
    """
    node, weight = map(torch.from_numpy, gauss_nodes(8))  # exact for a cubic times degree 12
    relative = memory.relative_age(length[short], elapsed[pieces.row[short]])
    counts = (relative / memory.responses.impulses.radius).ceil().long()  # stretches of each piece
    piece = short.nonzero()[:, 0].repeat_interleave(counts)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    place = torch.arange(len(piece), device=piece.device) - first
    widths = (length[short] / counts).repeat_interleave(counts)
    for i, k, h in split_rows(_CHUNK, piece, place, widths):
        row, width = pieces.row[i], h[:, None]
        since = (k * h)[:, None] + node * width  # (P, nodes), from the start of the piece
        powers = [since**q / math.factorial(q) for q in range(pieces.start.shape[2])]
        strength = pieces.start[i] @ torch.stack(powers, dim=1) * (weight * width)[:, None]
        yield row, memory.impulse(strength, pieces.age[i][:, None] - since, elapsed[row])
