"""Signals that are given in advance: their coefficients without any recurrence.

The memory is linear, so what it holds of a piecewise polynomial is a sum over its pieces. A piece
is answered by its two knots, from a table; where it is so short that the steps of its derivatives
would cancel to rounding errors, by Gauss quadrature of the impulse response instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from skpolyode.memory.base import Memory
from skpolyode.memory.knots import SHORTEST_GAP, Knots

__all__ = ["Pieces", "gauss_nodes", "remember"]

# Shortest piece that is answered by knots, as a share of the past that counts, by the degree of
# the pieces. Rounding errors grow as 1e-16 / share**degree: a part in 1e10 with these.
_SHORTEST = {0: 0.0, 1: 1e-5, 3: 1 / 160}

# A longer piece, in the units of the model, is remembered as a line: the cube of its age overflows.
_LONGEST = 1e95
_CHUNK = 4096  # pieces at once: their responses stay in the cache
_N_NODES = 8  # of the quadrature over a stretch: exact for a cubic times degree 12


class Pieces(NamedTuple):
    """Polynomial pieces of many signals, which are zero before their first piece.

    The pieces of a row follow one another up to the present: one ends where the next starts.
    """

    row: torch.Tensor  # int64 (P,), not decreasing
    age: torch.Tensor  # float64 (P,): time between the start of the piece and now
    start: torch.Tensor  # float64 (P, D, Q): value and first Q - 1 derivatives at its start
    end: torch.Tensor  # float64 (P, D, Q): the same at its end

    @property
    def last(self) -> torch.Tensor:
        """Whether the piece is the last of its row, bool (P,)."""
        last = torch.ones_like(self.row, dtype=torch.bool)
        last[:-1] = self.row[1:] != self.row[:-1]
        return last

    @property
    def age_end(self) -> torch.Tensor:
        """Time (P,) between the end of the piece and now."""
        return torch.where(self.last, 0.0, self.age.roll(-1))


def remember(memory: Memory, pieces: Pieces, elapsed: torch.Tensor) -> torch.Tensor:
    """Coefficients of signals that are given as a whole.

    Parameters
    ----------
    memory : Memory
        Remembers them.
    pieces : Pieces
        Of B rows and D channels.
    elapsed : float64 Tensor of shape (B,)
        Time since the start of each row's history, now.

    Returns
    -------
    float64 Tensor of shape (B, D, N)
    """
    last, age_end = pieces.last, pieces.age_end
    length = pieces.age - age_end
    counts = elapsed.clamp(max=memory.horizon)[pieces.row]
    kept = (age_end <= memory.horizon) & (length > SHORTEST_GAP)
    short = kept & (length < _SHORTEST[pieces.start.shape[2] - 1] * counts)
    if (far := length > _LONGEST).any():
        pieces, short = _as_lines(pieces, far, age_end, memory.horizon), short & ~far

    total = elapsed.new_zeros(len(elapsed), pieces.start.shape[1], memory.n_coefficients)
    # Knots of the signal that consists of the pieces `whole`, and is zero elsewhere.
    whole = kept & ~short
    begins = torch.where(whole[:, None, None], pieces.start, 0.0)
    ends = torch.where((whole & ~last)[:, None, None], pieces.end, 0.0).roll(1, 0)
    used = (whole | (whole & ~last).roll(1)) & (pieces.age > 0)
    knots = Knots(pieces.row[used], pieces.age[used], (begins - ends)[used])
    for row, age, steps in zip(*(column.split(_CHUNK) for column in knots), strict=True):
        total.index_add_(0, row, memory.respond(steps, age, elapsed[row]))
    node, weight = gauss_nodes(_N_NODES)
    for stretch in _stretches(memory, pieces, length, short, elapsed):
        # A stretch of signal is an integral of impulses.
        width = stretch.length[:, None]
        since = stretch.since[:, None] + node * width  # (P, nodes)
        powers = [since**q / math.factorial(q) for q in range(stretch.start.shape[2])]
        strength = stretch.start @ torch.stack(powers, dim=1) * (weight * width)[:, None]
        impulses = memory.impulse(strength, stretch.age[:, None] - since, elapsed[stretch.row])
        total.index_add_(0, stretch.row, impulses)
    return total


def _as_lines(pieces: Pieces, far: torch.Tensor, age_end: torch.Tensor, horizon: float) -> Pieces:
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


class _Stretches(NamedTuple):
    """Parts of short pieces, none too long for a cluster of impulses."""

    row: torch.Tensor  # int64 (P,)
    age: torch.Tensor  # float64 (P,): of the start of the piece
    start: torch.Tensor  # float64 (P, D, Q): value and derivatives there
    since: torch.Tensor  # float64 (P,): from there to the start of the stretch
    length: torch.Tensor  # float64 (P,)


def _stretches(
    memory: Memory, pieces: Pieces, length: torch.Tensor, short: torch.Tensor, elapsed: torch.Tensor
) -> Iterator[_Stretches]:
    """Equal parts of the pieces `short`, some thousands at a time."""
    own = memory.relative_age(length[short], elapsed[pieces.row[short]])
    counts = (own / memory.longest_cluster).ceil().long()
    piece = short.nonzero()[:, 0].repeat_interleave(counts)
    place = torch.arange(len(piece)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    part = (length[short] / counts).repeat_interleave(counts)
    if len(piece):
        for i, k, h in zip(*(x.split(_CHUNK) for x in (piece, place, part)), strict=True):
            yield _Stretches(pieces.row[i], pieces.age[i], pieces.start[i], k * h, h)


@lru_cache
def gauss_nodes(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    node, weight = np.polynomial.legendre.leggauss(count)
    return torch.from_numpy((1 + node) / 2), torch.from_numpy(weight / 2)
