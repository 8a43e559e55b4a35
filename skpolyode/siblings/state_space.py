"""Diagonal state spaces, exact over any gap, and linear recurrences of many series at once.

A pass over many observations computes everything except the recurrence for all observations at
once; the recurrence is then one complex product per step, in place, with an explicit gradient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from skpolyode.siblings.layers import LONGEST, draw_normal

_SLOWLY = 0.1  # learning rate of eigenvalues and time scales, relative to that of other vectors


class DiagonalStateSpace(nn.Module):
    r"""State spaces of H features, ``dx/dt = lambda x + s b u``, ``y = 2 Re(C x) + D u``.

    ``lambda = s (-exp(a) + i w)`` with a speed s of each feature. At first ``exp(a) = 1/2`` and
    ``w = 0, pi, 2 pi, ...`` (S4D-Lin), b is one, C is random.

    Parameters
    ----------
    n_features : int
        Number H of features.
    n_pairs : int
        Number K of complex states of each feature.
    is_held : bool
        Whether a feature is held after an observation, or is an impulse at it.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(
        self, n_features: int, n_pairs: int, is_held: bool, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.is_held = is_held
        self.log_speed = nn.Parameter(torch.empty(n_features, 1, 1, dtype=torch.float32))
        spectrum = torch.full((2, n_features, n_pairs), math.log(0.5), dtype=torch.float32)
        if not spectrum.is_meta:  # there arithmetic is slow, as in `draw_normal`
            spectrum[1] = math.pi * torch.arange(n_pairs)
            spectrum /= _SLOWLY
        self.spectrum = nn.Parameter(spectrum)
        # Complex numbers as two real ones, in the first dimension.
        self.b = nn.Parameter(torch.zeros(2, n_features, n_pairs, dtype=torch.float32))
        self.c = nn.Parameter(torch.empty(2, n_features, n_pairs, dtype=torch.float32))
        self.d = nn.Parameter(torch.empty(n_features, dtype=torch.float32))
        with torch.no_grad():
            self.b[0] = 1.0
            # Time scales of 1 to 100 units of time.
            low, high = math.log(0.01) / _SLOWLY, math.log(1.0) / _SLOWLY
            self.log_speed.uniform_(low, high, generator=generator)
            draw_normal(self.c, 0.5**0.5, generator)
            draw_normal(self.d, 1.0, generator)

    def rates(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Complex rates lambda (H, K) with negative real parts, and speeds (H, 1)."""
        decay, frequency = (_SLOWLY * self.spectrum).unbind(0)
        speed = torch.exp(_SLOWLY * self.log_speed[..., 0])
        return torch.complex(-speed * torch.exp(decay), speed * frequency), speed

    def flow(self, x: torch.Tensor, u: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """Exact states (n, 2, H, K) after gaps (n,), with features `u` (n, H) if they are held."""
        turn, weight = self.over(gap)
        (c, s), (real, imaginary) = turn.unbind(1), x.unbind(1)
        moved = torch.stack([c * real - s * imaginary, s * real + c * imaginary], dim=1)
        return moved if weight is None else torch.addcmul(moved, weight, u[:, None, :, None])

    def over(self, gap: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Complex factors (n, 2, H, K) of states, and of held features, over gaps (n,)."""
        (rates, speed), (gap, row) = self.rates(), gap.unique(return_inverse=True)
        gap = gap.clamp(max=LONGEST).to(speed.dtype)[:, None, None]
        # Real arithmetic: complex functions of torch are several times slower.
        a, b = gap * rates.real, gap * rates.imag  # (gaps, H, K)
        cosine, sine, size = torch.cos(b), torch.sin(b), torch.exp(a)
        turn = torch.stack([size * cosine, size * sine], dim=1)[row]  # exp(lambda gap)
        if not self.is_held:
            return turn, None
        # exp(lambda gap) - 1, accurate for short gaps as well
        less = torch.expm1(a) * cosine - 2 * torch.sin(b / 2).square(), size * sine
        factor = speed * torch.complex(*self.b) / rates  # (H, K)
        p, q = factor.real, factor.imag
        weight = torch.stack([p * less[0] - q * less[1], q * less[0] + p * less[1]], dim=1)
        return turn, weight[row]

    def scan(
        self, x: torch.Tensor, u: torch.Tensor, gap: torch.Tensor, sizes: Sequence[int]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """States before and after many observations, in time-major order, P together.

        Parameters
        ----------
        x : Tensor of shape (n, 2, H, K)
            States before the first observations.
        u : Tensor of shape (P, H)
            Features at the observations.
        gap : float64 Tensor of shape (P - n,)
            Gaps before the other observations.
        sizes : sequence of int
            Observations of each step, not increasing; the first is n.

        Returns
        -------
        before, after : Tensor of shape (P, 2, H, K)
        """
        turn, weight = self.over(gap)
        if weight is not None:
            push = weight * u[before_each(sizes, u.device), None, :, None]  # (P - n, 2, H, K)
            before = after = LinearRecurrence.apply(x, turn, push, sizes)
        else:
            kick = self.rates()[1] * self.b * u[:, None, :, None]  # (P, 2, H, K)
            after = LinearRecurrence.apply(x + kick[: sizes[0]], turn, kick[sizes[0] :], sizes)
            before = after - kick
        return before, after

    def observe(self, x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """States (n, 2, H, K) after observations with features `u` (n, H)."""
        if self.is_held:
            return x
        _, speed = self.rates()
        return torch.addcmul(x, speed * self.b, u[:, None, :, None])

    def forward(self, x: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        """Outputs (n, H) of states and features."""
        sign = x.new_tensor([1.0, -1.0])[:, None, None]
        # The sum over states is a product with ones: short sums of torch are ten times slower.
        real = (x * (sign * self.c)).sum(dim=1) @ x.new_ones(x.shape[-1])  # Re(C x)
        return 2 * real + self.d * u


def before_each(sizes: Sequence[int], device: torch.device) -> torch.Tensor:
    """Positions (P - n,) of the predecessors of all rows after the first step of n rows.

    Parameters
    ----------
    sizes : sequence of int
        Rows of each step, not increasing: series that continue come first.
    device : torch.device

    Examples
    --------
    >>> import torch
    >>> from skpolyode.siblings.state_space import before_each
    >>> before_each([3, 2, 2], torch.device("cpu")).tolist()
    [0, 1, 3, 4]
    """
    starts = np.cumsum([0, *sizes])
    later = [torch.arange(n, device=device) for n in sizes[1:]]
    parts = [int(start) + rows for start, rows in zip(starts, later, strict=False)]
    return torch.cat([torch.empty(0, dtype=torch.int64, device=device), *parts])


class LinearRecurrence(torch.autograd.Function):
    """Complex states ``y_0 = x``, ``y_k = turn_k y_{k-1} + push_k`` of series, all P rows at once.

    Complex numbers are pairs of real ones, in the second dimension. ``apply(x, turn, push, sizes)``
    takes `x` (n, 2, ...), `turn` and `push` (P - n, 2, ...) of the later rows, and the number of
    rows of each step, not increasing; it returns (P, 2, ...). The gradient is the backward
    recurrence with the conjugate of `turn`.

    Examples
    --------
    Two series, the second of which has one row less:

    >>> import torch
    >>> from skpolyode.siblings.state_space import LinearRecurrence
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
    """For each step but the first: the previous rows, its rows, and these without the first n."""
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
    """Add the complex products a b to y, in place."""
    (ar, ai), (br, bi) = a.unbind(1), b.unbind(1)
    y[:, 0].addcmul_(ar, br).addcmul_(ai, bi, value=-1)
    y[:, 1].addcmul_(ar, bi).addcmul_(ai, br)
