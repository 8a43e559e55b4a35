r"""Runge-Kutta steps of a network, taken where the network is narrow.

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
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from skpolyode.dynamics.field import ACTIVATION, WalledMLP
from skpolyode.dynamics.steppers import Stepper, combine, weighted_sum

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
        drive = F.linear(self.inside(y), *self.layers.first)
        return Begun(drive, self.layers.stage(drive).after[-1])

    def slope(self, y: Tensor, start: Begun) -> Tensor:
        """Derivative of the recorded coordinates there."""
        y = y[:, self.recorded]
        inside = y.clamp(-self.wall, self.wall)
        return F.linear(start.features, *self.readout).add(y - inside, alpha=-self.pull)

    def end(self, y: Tensor, start: Begun, h: Tensor) -> Tensor:
        """End of the step of length `h` (rows, 1)."""
        mean = self._mean(y, start.drive, [Activations([], [start.features])], h)
        moved = self._moved(y, h, mean)
        # Coordinates inside the box add exactly zero here.
        return torch.addcmul(moved, y - self.inside(y), torch.expm1(-self.pull * h))

    def step(self, y: Tensor, h: Tensor, tape: list[TakenStep] | None = None) -> Tensor:
        """`end` of what `begin` gives, to the last bit; cheaper where all rows are in the box.

        If a `tape` is given, the step is appended to it for its gradient.
        """
        low, high = y.detach()[:, : y.shape[1] - self.field.n_inputs].aminmax()
        # Also false where any number is NaN.
        all_inside = low.item() >= -self.wall and high.item() <= self.wall
        if not all_inside and tape is None:
            return self.end(y, self.begin(y), h)
        inside = y if all_inside else self.inside(y)
        drive = F.linear(inside, *self.layers.first)
        stages = [self.layers.stage(drive)]
        mean = self._mean(y, drive, stages, h)
        end = self._moved(y, h, mean)
        if not all_inside:
            end = torch.addcmul(end, y - inside, torch.expm1(-self.pull * h))
        if tape is not None:
            tape.append(TakenStep(h, inside, None if all_inside else y != inside, stages, mean))
        return end

    def _moved(self, y: Tensor, h: Tensor, mean: Tensor) -> Tensor:
        """`y` (rows, M) after a step without the pull of the wall."""
        rate = F.linear(mean, *self.layers.last)
        return torch.addcmul(y, h, rate + self.field.drift(y) if self.field.n_linear else rate)

    def _mean(self, y: Tensor, drive: Tensor, stages: list[Activations], h: Tensor) -> Tensor:
        """Mean (rows, H') of the features over a step, whose stages after the first it adds."""
        # All of this happens in the drive (rows, H), not in the longer state (rows, M).
        turns: list[Tensor] = []
        drift = F.linear(self.field.drift(y), self.layers.first[0]) if self.field.n_linear else None
        for row in self.stepper.a:
            turn = F.linear(stages[-1].after[-1], *self.layers.turn)
            turns.append(turn if drift is None else turn + drift)
            stages.append(self.layers.stage(combine(drive, h, row, turns)))
        return weighted_sum(self.stepper.b, [stage.after[-1] for stage in stages])

    def inside(self, y: Tensor) -> Tensor:
        """Nearest point of the box."""
        return self.field.inside(y)


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
