r"""Integration: Runge-Kutta methods, steps of a network, loops over intervals, and gradients.

:func:`integrate` passes through one interval of each row, :func:`rollout` through several that
follow one another.

A network ``W_n s + b_n`` with features ``s = features(u)`` of the drive ``u = W_1 z + b_1`` of its
first layer moves that drive by ``du/dt = C s + d``, ``C = W_1 W_n`` and ``d = W_1 b_n``.
Runge-Kutta methods commute with linear maps, so all stages of a step can be computed for the
drive, and only the mean of their features goes back to the state::

    s_i = features(u + h sum_j a_ij (C s_j + d)),   z' = z + h (W_n sum_i b_i s_i + b_n)

These are the steps of the field up to rounding. The state is as long as all memories together, the
drive only as wide as a hidden layer; `benchmarks/gradient_step.py` measures the difference.

Linear inputs move the drive as well, by ``W_1 drift(z)``, which is constant over a step.

The wall is checked once a step: the part of the state beyond it decays as ``exp(-pull h)``, the
rest is moved by the network. Inside the box the order is that of the method, beyond it one.

Training takes hundreds of thousands of steps of few rows, where the overhead of an operation
exceeds its arithmetic. Torch's own backward pass takes four operations for each layer of each
stage: the gradient of the input, those of weights and biases, and their sums over all stages and
steps. Here the gradients are written by hand, and only the first is computed stage by stage; those
of the weights come at the end, from one product over all stages of all steps. With ``g`` the
gradient of the end of a step of `NetworkSteps`::

    z' = z + h (W_n s + b_n),   s = sum_i b_i s_i     ->  ds_i = b_i (h g) W_n + dt_i C
    t_i = C s_i + d,   s_i = features(u + h sum_j a_ij t_j)  ->  dt_j = h sum_i a_ij dv_i
    u = W_1 z + b_1                                   ->  dz = g + (sum_i dv_i) W_1

:func:`take_rounds` computes them so where gradients are asked for, and takes the plain loop
otherwise. The forward pass of both is `NetworkSteps.step`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from skpolyode.cubic import CubicPath
from skpolyode.dynamics.field import ACTIVATION, WalledMLP


@dataclass(frozen=True)
class Stepper:
    """An explicit Runge-Kutta method: ``y + h sum_i b_i k_i``.

    Parameters
    ----------
    name : str
        Name that users give.
    order : int
        Order of convergence.
    a : tuple of tuples
        Strictly lower triangular stage weights, row i for stage i + 1.
    b : tuple of float
        Weights of the stages.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS
    >>> y, k = torch.ones(1, 1), torch.full((1, 1), -1.0)
    >>> step = torch.full((1, 1), 0.1)
    >>> round(STEPPERS["rk4"].step(torch.neg, y, k, step).item(), 6)
    0.904837
    """

    name: str
    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]

    def step(
        self, field: Callable[[Tensor], Tensor], y: Tensor, slope: Tensor, h: Tensor
    ) -> Tensor:
        """One step of length `h` (rows, 1) from `y` (rows, M), where ``slope = field(y)``."""
        slopes = [slope]  # (rows, M) of each stage
        for row in self.a:
            slopes.append(field(combine(y, h, row, slopes)))
        return combine(y, h, self.b, slopes)


def combine(y: Tensor, h: Tensor, weights: tuple[float, ...], slopes: list[Tensor]) -> Tensor:
    """``y + h sum_i weights_i slopes_i``."""
    for weight, slope in zip(weights, slopes, strict=True):
        if weight:
            y = torch.addcmul(y, h, slope, value=weight)
    return y


def weighted_sum(weights: Sequence[float], parts: Sequence[Tensor]) -> Tensor:
    """``sum_i weights_i parts_i``."""
    (first, part), *others = [pair for pair in zip(weights, parts, strict=True) if pair[0]]
    total = part * first
    for weight, part in others:
        total = total.add(part, alpha=weight)
    return total


STEPPERS = {
    stepper.name: stepper
    for stepper in (
        Stepper("euler", 1, (), (1.0,)),
        Stepper("midpoint", 2, ((0.5,),), (0.0, 1.0)),
        Stepper("rk4", 4, ((0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    )
}


Field = Callable[[Tensor], Tensor]
Affine = tuple[Tensor, Tensor]  # weight and bias


class Begun(NamedTuple):
    """Evaluation of the network where a step starts."""

    drive: Tensor  # (rows, H), output of the first layer before its activation
    features: Tensor  # (rows, H'), input of the last layer

    def select(self, index: Tensor) -> Begun:
        """The same of some of its rows."""
        return Begun(*(x.index_select(0, index) for x in self))


class Activations(NamedTuple):
    """One evaluation of the features, with all that its gradient needs."""

    before: list[Tensor]  # (rows, H) of each hidden layer, before its activation
    after: list[Tensor]  # the same after it; the last ones are the features


class TakenStep(NamedTuple):
    """A step as its gradient needs it."""

    h: Tensor  # (rows, 1), length of the step
    inside: Tensor  # (rows, M): nearest point of the box to where it started
    beyond: Tensor | None  # bool (rows, M): coordinates beyond the wall; None if none
    stages: list[Activations]
    mean: Tensor  # (rows, H'), of the features, weighted as the method says


class Layers(NamedTuple):
    """Weights and biases of a network, in the form that its steps use."""

    first: Affine  # (H, M), (H,)
    inner: list[Affine]
    last: Affine  # (M, H'), (M,)
    turn: Affine  # C (H, H') and d (H,): from the features to the derivative of the drive
    is_linear: bool

    @classmethod
    def of(cls, field: WalledMLP) -> Layers:
        """Layers of a field, differentiable; without hidden layers the drive is the state."""
        *hidden, last = field.affine()
        if hidden:
            first, *inner = hidden
            return cls(first, inner, last, (first[0] @ last[0], first[0] @ last[1]), False)
        identity = torch.eye(len(last[1]), dtype=last[1].dtype, device=last[1].device)
        return cls((identity, torch.zeros_like(last[1])), [], last, last, True)

    def stage(self, drive: Tensor) -> Activations:
        """Evaluate the features at a drive (rows, H)."""
        if self.is_linear:
            return Activations([], [drive])
        before, after = [drive], [ACTIVATION.of_tensor(drive)]
        for weight, bias in self.inner:
            before.append(F.linear(after[-1], weight, bias))
            after.append(ACTIVATION.of_tensor(before[-1]))
        return Activations(before, after)


class NetworkSteps:
    """Steps of a Runge-Kutta method along a network, with the weights that it has now.

    Parameters
    ----------
    field : WalledMLP
        The network.
    stepper : Stepper
        The Runge-Kutta method.
    recorded : slice or None, default=None
        Coordinates whose derivative `slope` gives.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS, NetworkSteps, WalledMLP
    >>> field = WalledMLP(3, (8,), generator=torch.Generator().manual_seed(0))
    >>> steps = NetworkSteps(field, STEPPERS["rk4"])
    >>> y, h = torch.zeros(2, 3), torch.full((2, 1), 0.1)
    >>> steps.end(y, steps.begin(y), h).shape
    torch.Size([2, 3])
    """

    def __init__(self, field: WalledMLP, stepper: Stepper, recorded: slice | None = None) -> None:
        self.stepper, self.layers, self.field = stepper, Layers.of(field), field
        self.wall, self.pull = field.wall, field.pull
        # Gradients of steps under linear inputs are not written by hand.
        self.by_hand = field.by_hand and not self.layers.is_linear and not field.n_linear
        self.recorded = recorded
        if recorded is not None:
            self.readout = [part[recorded].contiguous() for part in self.layers.last]

    def begin(self, y: Tensor) -> Begun:
        """Evaluate the network where a step starts, at `y` (rows, M)."""
        drive = F.linear(self.field.inside(y), *self.layers.first)
        return Begun(drive, self.layers.stage(drive).after[-1])

    def slope(self, y: Tensor, start: Begun) -> Tensor:
        """Derivative of the recorded coordinates there."""
        y = y[:, self.recorded]
        inside = y.clamp(-self.wall, self.wall)
        return F.linear(start.features, *self.readout).add(y - inside, alpha=-self.pull)

    def end(self, y: Tensor, start: Begun, h: Tensor) -> Tensor:
        """End of the step of length `h` (rows, 1)."""
        moved, _ = self._moved(y, start.drive, [Activations([], [start.features])], h)
        # Coordinates inside the box add exactly zero here.
        return torch.addcmul(moved, y - self.field.inside(y), torch.expm1(-self.pull * h))

    def step(self, y: Tensor, h: Tensor, tape: list[TakenStep] | None = None) -> Tensor:
        """`end` of what `begin` gives, to the last bit; cheaper where all rows are in the box.

        If a `tape` is given, the step is appended to it for its gradient.
        """
        low, high = y.detach()[:, : y.shape[1] - self.field.n_inputs].aminmax()
        # Also false where any number is NaN.
        all_inside = low.item() >= -self.wall and high.item() <= self.wall
        if not all_inside and tape is None:
            return self.end(y, self.begin(y), h)
        inside = y if all_inside else self.field.inside(y)
        drive = F.linear(inside, *self.layers.first)
        stages = [self.layers.stage(drive)]
        end, mean = self._moved(y, drive, stages, h)
        if not all_inside:
            end = torch.addcmul(end, y - inside, torch.expm1(-self.pull * h))
        if tape is not None:
            tape.append(TakenStep(h, inside, None if all_inside else y != inside, stages, mean))
        return end

    def _moved(
        self, y: Tensor, drive: Tensor, stages: list[Activations], h: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`y` (rows, M) after a step without the pull of the wall, and mean (rows, H') features.

        The stages after the first are added.
        """
        # All of this happens in the drive (rows, H), not in the longer state (rows, M).
        turns: list[Tensor] = []
        drift = F.linear(self.field.drift(y), self.layers.first[0]) if self.field.n_linear else None
        for row in self.stepper.a:
            turn = F.linear(stages[-1].after[-1], *self.layers.turn)
            turns.append(turn if drift is None else turn + drift)
            stages.append(self.layers.stage(combine(drive, h, row, turns)))
        mean = weighted_sum(self.stepper.b, [stage.after[-1] for stage in stages])
        rate = F.linear(mean, *self.layers.last)
        rate = rate + self.field.drift(y) if self.field.n_linear else rate
        return torch.addcmul(y, h, rate), mean


class FieldSteps:
    """As :class:`NetworkSteps`, along any function of the state."""

    by_hand = False

    def __init__(self, field: Field, stepper: Stepper, recorded: slice | None = None) -> None:
        self.field, self.stepper, self.recorded = field, stepper, recorded

    def begin(self, y: Tensor) -> Tensor:
        """Derivative (rows, M) where a step starts."""
        return self.field(y)

    def slope(self, y: Tensor, start: Tensor) -> Tensor:
        """Derivative of the recorded coordinates there."""
        return start[:, self.recorded]

    def end(self, y: Tensor, start: Tensor, h: Tensor) -> Tensor:
        """End of the step of length `h` (rows, 1)."""
        return self.stepper.step(self.field, y, start, h)

    def step(self, y: Tensor, h: Tensor) -> Tensor:
        """`end` of what `begin` gives."""
        return self.end(y, self.begin(y), h)


def steps_of(
    field: Field, stepper: Stepper, recorded: slice | None = None
) -> NetworkSteps | FieldSteps:
    """Steps along a field: the faster ones if it is a network."""
    kind = NetworkSteps if isinstance(field, WalledMLP) else FieldSteps
    return kind(field, stepper, recorded)


def count_steps(gap: Tensor, step_size: float) -> Tensor:
    """Number of equal steps, none longer than `step_size`, that make up each gap.

    A gap that is a multiple of `step_size` up to rounding takes exactly that multiple, so that
    results do not depend on the unit of time.

    Parameters
    ----------
    gap : float64 Tensor of shape (B,)
        Length of each interval, positive.
    step_size : float
        Longest step, in the units of `gap`.

    Returns
    -------
    int64 Tensor of shape (B,)

    Examples
    --------
    >>> import torch
    >>> from skpolyode.dynamics import count_steps
    >>> count_steps(torch.tensor([0.01, 0.1, 0.25, 3 * 0.1]), step_size=0.1).tolist()
    [1, 1, 3, 3]
    """
    return (gap / step_size - 1e-6).ceil().clamp(min=1).long()


def _count_rows(n_steps: Tensor) -> Tensor:
    """How many rows take at least 1, 2, 3, ... steps."""
    return torch.bincount(n_steps)[1:].flip(0).cumsum(0).flip(0)


def integrate(
    field: Field,
    z: Tensor,
    gap: Tensor,
    *,
    step_size: float,
    stepper: Stepper,
    recorded: slice | None = None,
) -> tuple[Tensor, CubicPath | None]:
    """Integrate ``dz/dt = field(z)`` over one interval for each row, each of its own length.

    Parameters
    ----------
    field : WalledMLP or callable
        Maps (rows, M) to (rows, M). A network itself is faster than a function that evaluates it.
    z : Tensor of shape (B, M)
        States at the start.
    gap : float64 Tensor of shape (B,)
        Length of each interval, positive.
    step_size : float
        Longest step, in the units of `gap`.
    stepper : Stepper
        The Runge-Kutta method.
    recorded : slice or None, default=None
        Coordinates whose path is recorded; none by default.

    Returns
    -------
    end : Tensor of shape (B, M)
        States at the end.
    path : CubicPath or None
        The recorded coordinates: cubic Hermite from values and derivatives at the steps' ends.

    Examples
    --------
    Decay over two gaps of different length:

    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS, integrate
    >>> gap = torch.tensor([1.0, 2.0], dtype=torch.float64)
    >>> start = torch.ones(2, 1)
    >>> end, path = integrate(torch.neg, start, gap, step_size=0.5, stepper=STEPPERS["rk4"])
    >>> [round(x, 2) for x in end.flatten().tolist()]
    [0.37, 0.14]
    """
    n_steps = count_steps(gap, step_size)
    step, order = gap / n_steps, n_steps.argsort(descending=True, stable=True)
    h = step[order].to(z.dtype)[:, None]
    # The batch shrinks as rows with short gaps finish: those with most steps come first.
    lengths = [h[:n_rows] for n_rows in _count_rows(n_steps).tolist()]
    steps = steps_of(field, stepper, recorded)
    if recorded is None:
        return take_rounds(steps, z, order, lengths)[0], None
    values, slopes, inverse = [], [], order.argsort()

    def record(y: Tensor, h: Tensor) -> Tensor:
        start = steps.begin(y)
        values.append(y[:, recorded])
        slopes.append(steps.slope(y, start))
        return steps.end(y, start, h)

    end, _ = _rounds(record, z, order, lengths, slice(0))
    last = end[order]
    ends = last[:, recorded], steps.slope(last, steps.begin(last))
    pairs = zip((values, slopes), ends, strict=True)
    grids = (_grid(starts, at_end, n_steps[order])[:, inverse] for starts, at_end in pairs)
    return end, CubicPath(*grids, step, n_steps)


def _grid(starts: list[Tensor], last: Tensor, n_steps: Tensor) -> Tensor:
    """Padded grid (K + 1, B, D) from the starts of the steps and the end of each row."""
    grid = last.new_zeros(len(starts) + 1, *last.shape)
    for k, start in enumerate(starts):
        grid[k, : len(start)] = start
    grid[n_steps, torch.arange(len(last), device=last.device)] = last
    return grid


def rollout(
    field: Field,
    z: Tensor,
    row: Tensor,
    gap: Tensor,
    *,
    step_size: float,
    stepper: Stepper,
    recorded: slice,
) -> Tensor:
    """Integrate ``dz/dt = field(z)`` through several intervals of each row, one after the other.

    The steps are those of :func:`~skpolyode.dynamics.integrate` over one interval after the other,
    where each interval would take as many rounds as the longest one of all rows. Here a row starts
    its next interval as soon as it ends one, so that the number of rounds is that of the row with
    most steps in all.

    Parameters
    ----------
    field : WalledMLP or callable
        Maps (rows, M) to (rows, M).
    z : Tensor of shape (B, M)
        States at the start.
    row : int64 Tensor of shape (Q,)
        Row of `z` that each interval belongs to, not decreasing; each row has an interval.
    gap : float64 Tensor of shape (Q,)
        Length of each interval, positive; those of a row are in the order of time.
    step_size : float
        Longest step, in the units of `gap`.
    stepper : Stepper
        The Runge-Kutta method.
    recorded : slice
        Coordinates to return.

    Returns
    -------
    Tensor of shape (Q, D)
        Recorded coordinates at the end of each interval.

    Examples
    --------
    Decay from one, read at two times, and from two, read at one:

    >>> import torch
    >>> from skpolyode.dynamics import STEPPERS, rollout
    >>> start, row = torch.tensor([[1.0], [2.0]]), torch.tensor([0, 0, 1])
    >>> gap, settings = torch.ones(3, dtype=torch.float64), {"step_size": 0.5, "recorded": slice(1)}
    >>> found = rollout(torch.neg, start, row, gap, stepper=STEPPERS["rk4"], **settings)
    >>> [round(x, 2) for x in found.flatten().tolist()]
    [0.37, 0.14, 0.74]
    """
    n_steps = count_steps(gap, step_size)
    totals = torch.zeros(len(z), dtype=torch.int64, device=z.device).index_add(0, row, n_steps)
    order = totals.argsort(descending=True, stable=True)
    rank = order.argsort()[row]  # (Q,): place of its row among those with most steps first
    n_rows = _count_rows(totals)  # (rounds,)
    done = n_steps.cumsum(0) - (totals.cumsum(0) - totals)[row]  # (Q,): steps of the row by its end
    # Length of each step of each row, (rounds, B, 1).
    of_step = torch.arange(len(gap), device=gap.device).repeat_interleave(n_steps)
    place = torch.arange(len(of_step), device=gap.device) - (n_steps.cumsum(0) - done)[of_step]
    lengths = z.new_zeros(len(n_rows), len(z), 1)
    lengths[place, rank[of_step], 0] = (gap / n_steps)[of_step].to(z.dtype)
    rounds = [h[:n] for h, n in zip(lengths, n_rows.tolist(), strict=True)]
    _, signals = take_rounds(steps_of(field, stepper), z, order, rounds, recorded)
    return signals[(n_rows.cumsum(0) - n_rows)[done - 1] + rank]


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
