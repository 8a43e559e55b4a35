r"""Gradients through many Runge-Kutta steps of a network, written by hand.

Training takes hundreds of thousands of steps of few rows, where an operation costs more than its
arithmetic. Torch's own backward pass takes four operations for each layer of each stage: what goes
on to the input, what the weights and biases get, and their sums over all stages and steps. Here
only the first is taken stage by stage; the weights get theirs at the end, from one product over all
stages of all steps. With ``g`` the gradient of the end of a step of `NetworkSteps`::

    z' = z + h (W_n s + b_n),   s = sum_i b_i s_i     ->  ds_i = b_i (h g) W_n + dt_i C
    t_i = C s_i + d,   s_i = features(u + h sum_j a_ij t_j)  ->  dt_j = h sum_i a_ij dv_i
    u = W_1 z + b_1                                   ->  dz = g + (sum_i dv_i) W_1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F

from skpolyode.dynamics.field import ACTIVATION
from skpolyode.dynamics.steppers import Stepper, combine, weighted_sum
from skpolyode.dynamics.steps import NetworkSteps

__all__ = ["take_rounds"]


def take_rounds(
    steps: NetworkSteps,
    y: torch.Tensor,
    order: torch.Tensor,
    lengths: Sequence[torch.Tensor],
    recorded: slice | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Take rounds of steps, of ever fewer rows; differentiable.

    Parameters
    ----------
    steps : NetworkSteps
        Of a field with a hidden layer or more.
    y : Tensor of shape (B, M)
        States at the start; all of them take the first step.
    order : int64 Tensor of shape (B,)
        In which they are counted in rounds: those that take most steps first.
    lengths : sequence of Tensor of shape (n, 1)
        Of the steps of each round, which the first n of them take; n does not rise.
    recorded : slice or None, default=None
        Coordinates that are asked for after each step; none by default.

    Returns
    -------
    end : Tensor of shape (B, M)
        Each row of `y` after its last step.
    signals : Tensor of shape (T, D)
        Recorded coordinates after the steps of all rounds, one round after the other.
    """
    first, inner, last, turn, _ = steps.layers
    weights = [tensor for layer in (first, *inner, last, turn) for tensor in layer]
    return _Rounds.apply(steps, order, tuple(lengths), recorded or slice(0), y, *weights)


class _Stage(NamedTuple):
    """What one evaluation of the features keeps for its gradient."""

    before: list[torch.Tensor]  # (n, H) of each hidden layer, before its activation
    after: list[torch.Tensor]  # and after it; the last are the features


class _Round(NamedTuple):
    """What a step keeps for its gradient."""

    h: torch.Tensor  # (n, 1)
    inside: torch.Tensor  # (n, M): nearest point of the box to where it started
    beyond: torch.Tensor | None  # bool (n, M): what was outside of it; None if nothing
    stages: list[_Stage]
    mean: torch.Tensor  # (n, H'), of the features


class _Rounds(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        steps: NetworkSteps,
        order: torch.Tensor,
        lengths: tuple[torch.Tensor, ...],
        recorded: slice,
        y: torch.Tensor,
        *weights: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The steps of `NetworkSteps.step`, to the last bit."""
        ctx.steps, ctx.weights, ctx.recorded, ctx.rounds = steps, weights, recorded, []
        ctx.order, ctx.inverse = order, order.argsort()
        y, finished, signals = y.index_select(0, order), [], []
        for h in lengths:
            finished.append(y[len(h) :])
            y, kept = _forward(steps, weights, y[: len(h)], h)
            ctx.rounds.append(kept)
            signals.append(y[:, recorded])
        end = torch.cat([y, *reversed(finished)]).index_select(0, ctx.inverse)
        return end, torch.cat(signals)

    @staticmethod
    def backward(
        ctx: Any, of_end: torch.Tensor, of_signals: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        """Gradients of the states at the start and of the weights."""
        sums = _Sums(ctx.steps.stepper, ctx.weights)
        parts = of_signals.split([len(kept.h) for kept in ctx.rounds])
        of_end = of_end.index_select(0, ctx.order)
        grad = of_end[:0]
        for kept, part in zip(reversed(ctx.rounds), reversed(parts), strict=True):
            if len(grad) < len(kept.h):  # these took their last step
                grad = torch.cat([grad, of_end[len(grad) : len(kept.h)]])
            if part.shape[1]:
                grad[:, ctx.recorded] += part
            of_drive = sums.take(kept, grad)
            if kept is not ctx.rounds[0] or ctx.needs_input_grad[4]:
                grad = sums.of_start(kept, grad, of_drive, ctx.steps.pull)
        of_start = grad.index_select(0, ctx.inverse) if ctx.needs_input_grad[4] else None
        return None, None, None, None, of_start, *sums.of_weights()


def _forward(
    steps: NetworkSteps, weights: tuple[torch.Tensor, ...], y: torch.Tensor, h: torch.Tensor
) -> tuple[torch.Tensor, _Round]:
    """End of a step from `y` (n, M), and what its gradient needs."""
    first_weight, first_bias, *inner, weight, bias, turn, turned = weights
    low, high = y.aminmax()
    is_inside = low.item() >= -steps.wall and high.item() <= steps.wall
    inside = y if is_inside else steps.inside(y)
    drive = F.linear(inside, first_weight, first_bias)
    stages, turns = [_features(drive, inner)], []
    for row in steps.stepper.a:
        turns.append(F.linear(stages[-1].after[-1], turn, turned))
        stages.append(_features(combine(drive, h, row, turns), inner))
    mean = weighted_sum(steps.stepper.b, [stage.after[-1] for stage in stages])
    end = torch.addcmul(y, h, F.linear(mean, weight, bias))
    if is_inside:
        return end, _Round(h, inside, None, stages, mean)
    end = torch.addcmul(end, y - inside, torch.expm1(-steps.pull * h))
    return end, _Round(h, inside, y != inside, stages, mean)


def _features(drive: torch.Tensor, inner: Sequence[torch.Tensor]) -> _Stage:
    """What the last layer reads, and all before it."""
    before, after = [drive], [ACTIVATION.of_tensor(drive)]
    for weight, bias in zip(inner[::2], inner[1::2], strict=True):
        before.append(F.linear(after[-1], weight, bias))
        after.append(ACTIVATION.of_tensor(before[-1]))
    return _Stage(before, after)


class _Sums:
    """Gradients of the outputs of each layer beside its inputs, to be multiplied at the end."""

    def __init__(self, stepper: Stepper, weights: tuple[torch.Tensor, ...]) -> None:
        self.stepper = stepper
        self.matrices = weights[::2]  # first, inner ones, last, turn
        self.pairs: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in self.matrices]

    def take(self, kept: _Round, grad: torch.Tensor) -> torch.Tensor:
        """Gradient (n, H) of the drive at the start of a step, from that of its end."""
        *_, last, turn = self.matrices
        scaled = kept.h * grad
        self.pairs[-2].append((scaled, kept.mean))
        of_mean = scaled @ last
        of_drive: torch.Tensor | None = None
        of_turns: list[torch.Tensor | None] = [None] * len(kept.stages)
        for i in reversed(range(len(kept.stages))):
            of_turn, stage = of_turns[i], kept.stages[i]
            if of_turn is None:
                own = of_mean * self.stepper.b[i]
            else:
                self.pairs[-1].append((of_turn, stage.after[-1]))
                own = torch.addmm(of_mean, of_turn, turn, beta=self.stepper.b[i])
            own = self._through(stage, own)
            of_drive = own if of_drive is None else of_drive + own
            for j, share in enumerate(self.stepper.a[i - 1] if i else ()):
                if share:
                    part, before = own * (share * kept.h), of_turns[j]
                    of_turns[j] = part if before is None else before + part
        self.pairs[0].append((of_drive, kept.inside))
        return of_drive

    def of_start(
        self, kept: _Round, grad: torch.Tensor, of_drive: torch.Tensor, pull: float
    ) -> torch.Tensor:
        """Gradient (n, M) of the start of a step, from those of its end and its drive."""
        first = self.matrices[0]
        if kept.beyond is None:
            return torch.addmm(grad, of_drive, first)
        moved = torch.where(kept.beyond, torch.expm1(-pull * kept.h) * grad, of_drive @ first)
        return grad + moved

    def _through(self, stage: _Stage, grad: torch.Tensor) -> torch.Tensor:
        """Gradient (n, H) of the drive, from that of the features."""
        for k in range(len(stage.before) - 1, 0, -1):
            grad = ACTIVATION.backward(grad, stage.before[k])
            self.pairs[k].append((grad, stage.after[k - 1]))
            grad = grad @ self.matrices[k]
        return ACTIVATION.backward(grad, stage.before[0])

    def of_weights(self) -> list[torch.Tensor]:
        """Gradients of weights and biases, in their order."""
        result = []
        for matrix, pairs in zip(self.matrices, self.pairs, strict=True):
            if not pairs:  # no method with one stage turns the drive
                result += [torch.zeros_like(matrix), matrix.new_zeros(len(matrix))]
                continue
            grad, inputs = (torch.cat(column) for column in zip(*pairs, strict=True))
            result += [grad.t() @ inputs, grad.sum(dim=0)]
        return result
