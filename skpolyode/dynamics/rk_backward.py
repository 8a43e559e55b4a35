r"""Gradients through many Runge-Kutta steps of a network, written by hand.

Training takes hundreds of thousands of steps of few rows, where the overhead of an operation
exceeds its arithmetic. Torch's own backward pass takes four operations for each layer of each
stage: the gradient of the input, those of weights and biases, and their sums over all stages and
steps. Here only the first is computed stage by stage; the gradients of the weights come at the
end, from one product over all stages of all steps. With ``g`` the gradient of the end of a step of
`NetworkSteps`::

    z' = z + h (W_n s + b_n),   s = sum_i b_i s_i     ->  ds_i = b_i (h g) W_n + dt_i C
    t_i = C s_i + d,   s_i = features(u + h sum_j a_ij t_j)  ->  dt_j = h sum_i a_ij dv_i
    u = W_1 z + b_1                                   ->  dz = g + (sum_i dv_i) W_1

:func:`take_rounds` is the only door: it takes this way where gradients are asked for, and the
plain loop otherwise. The forward pass of both is `NetworkSteps.step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from skpolyode.dynamics.field import ACTIVATION
from skpolyode.dynamics.steps import FieldSteps, NetworkSteps, TakenStep

Pairs = list[tuple[Tensor, Tensor]]


def take_rounds(
    steps: NetworkSteps | FieldSteps,
    y: Tensor,
    order: Tensor,
    lengths: Sequence[Tensor],
    recorded: slice = slice(0),
) -> tuple[Tensor, Tensor]:
    """Take rounds of steps, each of no more rows than the one before; differentiable.

    Parameters
    ----------
    steps : NetworkSteps or FieldSteps
        What a step is.
    y : Tensor of shape (B, M)
        States at the start; all rows take the first step.
    order : int64 Tensor of shape (B,)
        The rows, those that take most steps first.
    lengths : sequence of Tensor of shape (n, 1)
        Length of the step of each round, which the first n rows of that order take; n does not
        rise.
    recorded : slice, default=slice(0)
        Coordinates to return after each step; none by default.

    Returns
    -------
    end : Tensor of shape (B, M)
        Each row of `y` after its last step.
    signals : Tensor of shape (T, D)
        Recorded coordinates after the steps of all rounds, one round after the other.
    """
    if steps.by_hand and torch.is_grad_enabled():
        first, inner, last, turn, _ = steps.layers
        if y.requires_grad or turn[0].requires_grad:
            weights = [tensor for affine in (first, *inner, last, turn) for tensor in affine]
            return _Rounds.apply(steps, order, lengths, recorded, y, *weights)
    return _rounds(steps.step, y, order, lengths, recorded)


def _rounds(
    step: Callable[[Tensor, Tensor], Tensor],
    y: Tensor,
    order: Tensor,
    lengths: Sequence[Tensor],
    recorded: slice,
) -> tuple[Tensor, Tensor]:
    y, finished, signals = y.index_select(0, order), [], [y[:0, recorded]]
    for h in lengths:
        if len(h) < len(y):
            finished.append(y[len(h) :])
            y = y[: len(h)]
        y = step(y, h)
        signals.append(y[:, recorded])
    end = torch.cat([y, *reversed(finished)])
    return end.index_select(0, order.argsort()), torch.cat(signals)


class _Rounds(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: NetworkSteps,
        order: Tensor,
        lengths: Sequence[Tensor],
        recorded: slice,
        y: Tensor,
        *weights: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The plain loop with a tape. The `weights` are those of `steps`, for torch to see."""
        ctx.steps, ctx.order, ctx.recorded, ctx.tape = steps, order, recorded, []
        ctx.matrices = weights[::2]  # of the first layer, the inner ones, the last, and the turn
        return _rounds(lambda y, h: steps.step(y, h, ctx.tape), y, order, lengths, recorded)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, of_end: Tensor, of_signals: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the states at the start and of the weights."""
        # Gradients of the outputs of each matrix (n, H) beside its inputs (n, H'), by step.
        pairs: list[Pairs] = [[] for _ in ctx.matrices]
        parts = of_signals.split([len(taken.h) for taken in ctx.tape])
        of_end = of_end.index_select(0, ctx.order)
        grad = of_end[:0]  # (n, M), of the ends of a step; n rises from the last to the first
        for taken, part in zip(reversed(ctx.tape), reversed(parts), strict=True):
            if len(grad) < len(taken.h):  # this was the last step of these rows
                grad = torch.cat([grad, of_end[len(grad) : len(taken.h)]])
            if part.shape[1]:
                grad[:, ctx.recorded] += part
            of_drive = _of_drive(ctx, taken, grad, pairs)
            if taken is ctx.tape[0] and not ctx.needs_input_grad[4]:
                break
            if taken.beyond is None:
                grad = torch.addmm(grad, of_drive, ctx.matrices[0])
            else:
                decay = torch.expm1(-ctx.steps.pull * taken.h) * grad
                grad = grad + torch.where(taken.beyond, decay, of_drive @ ctx.matrices[0])
        of_weights: list[Tensor] = []
        for matrix, products in zip(ctx.matrices, pairs, strict=True):
            if products:
                out, into = (torch.cat(column) for column in zip(*products, strict=True))
                of_weights += [out.t() @ into, out.sum(dim=0)]
            else:  # a method with one stage never turns the drive
                of_weights += [torch.zeros_like(matrix), matrix.new_zeros(len(matrix))]
        of_start = grad.index_select(0, ctx.order.argsort()) if ctx.needs_input_grad[4] else None
        return None, None, None, None, of_start, *of_weights


def _of_drive(ctx: Any, taken: TakenStep, grad: Tensor, pairs: list[Pairs]) -> Tensor:
    """Gradient (n, H) of the drive at the start of a step, from that of its end (n, M)."""
    stepper, (*_, last, turn) = ctx.steps.stepper, ctx.matrices
    scaled = taken.h * grad
    pairs[-2].append((scaled, taken.mean))
    of_mean = scaled @ last
    of_drive: Tensor | None = None
    of_turns: list[Tensor | None] = [None] * len(taken.stages)  # (n, H), the dt_j
    for i in reversed(range(len(taken.stages))):
        of_turn, stage = of_turns[i], taken.stages[i]
        if of_turn is None:
            of_stage = of_mean * stepper.b[i]
        else:
            pairs[-1].append((of_turn, stage.after[-1]))
            of_stage = torch.addmm(of_mean, of_turn, turn, beta=stepper.b[i])
        for k in range(len(stage.before) - 1, 0, -1):  # back through the hidden layers
            of_stage = ACTIVATION.backward(of_stage, stage.before[k])
            pairs[k].append((of_stage, stage.after[k - 1]))
            of_stage = of_stage @ ctx.matrices[k]
        of_stage = ACTIVATION.backward(of_stage, stage.before[0])  # dv_i
        of_drive = of_stage if of_drive is None else of_drive + of_stage
        for j, share in enumerate(stepper.a[i - 1] if i else ()):
            if share:
                part, before = of_stage * (share * taken.h), of_turns[j]
                of_turns[j] = part if before is None else before + part
    pairs[0].append((of_drive, taken.inside))
    return of_drive
