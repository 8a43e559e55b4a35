"""Linear recurrences of many series at once, in time-major order, with their gradient.

What is left of a layer of state spaces to compute in order, once all else is computed for all
observations at once: one complex product a step, in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch

__all__ = ["LinearRecurrence", "before_each"]


def before_each(sizes: Sequence[int], device: torch.device) -> torch.Tensor:
    """Positions (P - n,) of the rows just before those of all steps but the first, of n rows.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each step, which do not increase: those of series that go on come first.
    device : torch.device

    Examples
    --------
    >>> import torch
    >>> from skpolyode.models.recurrence import before_each
    >>> before_each([3, 2, 2], torch.device("cpu")).tolist()
    [0, 1, 3, 4]
    """
    starts = np.cumsum([0, *sizes])
    later = [torch.arange(n, device=device) for n in sizes[1:]]
    parts = [int(start) + rows for start, rows in zip(starts, later, strict=False)]
    return torch.cat([torch.empty(0, dtype=torch.int64, device=device), *parts])


class LinearRecurrence(torch.autograd.Function):
    """Complex states ``y_0 = x``, ``y_k = turn_k y_{k-1} + push_k`` of series, all P rows together.

    Complex numbers are two real ones, in the second dimension. ``apply(x, turn, push, sizes)``
    takes `x` (n, 2, ...), `turn` and `push` (P - n, 2, ...) of the later rows, and the rows of
    each step, which do not increase; it returns (P, 2, ...). The gradient is the recurrence that
    runs back with the conjugate of `turn`.

    Examples
    --------
    Two series, the second of which has one row less:

    >>> import torch
    >>> from skpolyode.models.recurrence import LinearRecurrence
    >>> x, turn = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0, 1.0]]).repeat(3, 1)
    >>> LinearRecurrence.apply(x, turn, torch.zeros(3, 2), [2, 2, 1]).tolist()
    [[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 2.0], [-1.0, 0.0]]
    """

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, turn: torch.Tensor, push: torch.Tensor, sizes: Sequence[int]
    ) -> torch.Tensor:
        """All states."""
        y = torch.cat([x, push])
        for before, now, moved in _steps(sizes):
            _add_product(y[now], turn[moved], y[before])
        ctx.save_for_backward(turn, y)
        ctx.sizes = sizes
        return y

    @staticmethod
    def backward(ctx: Any, given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Gradients of start, factors and additions."""
        turn, y = ctx.saved_tensors
        n, back, of_y = ctx.sizes[0], turn.clone(), given.clone()
        back[:, 1].neg_()
        for before, now, moved in reversed(_steps(ctx.sizes)):
            _add_product(of_y[before], back[moved], of_y[now])
        previous = y[before_each(ctx.sizes, y.device)]
        previous[:, 1].neg_()
        of_turn = torch.zeros_like(turn)
        _add_product(of_turn, previous, of_y[n:])
        return of_y[:n], of_turn, of_y[n:], None


def _steps(sizes: Sequence[int]) -> list[tuple[slice, slice, slice]]:
    """Of each step but the first: rows before it that go on, its own, and these without the n."""
    starts = np.cumsum([0, *sizes]).tolist()
    return [
        (
            slice(earlier, earlier + stop - start),
            slice(start, stop),
            slice(start - sizes[0], stop - sizes[0]),
        )
        for earlier, (start, stop) in zip(starts, pairwise(starts[1:]), strict=False)
    ]


def _add_product(y: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Add to the first rows y, in place, the complex products a b."""
    (ar, ai), (br, bi) = a.unbind(1), b.unbind(1)
    y[:, 0].addcmul_(ar, br).addcmul_(ai, bi, value=-1)
    y[:, 1].addcmul_(ar, bi).addcmul_(ai, br)
