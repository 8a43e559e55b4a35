r"""Runge-Kutta steps of a network, taken where the network is narrow.

A network ``W_n s + b_n`` with features ``s = features(u)`` of the drive ``u = W_1 z + b_1`` of its
first layer moves that drive by ``du/dt = C s + d``, ``C = W_1 W_n`` and ``d = W_1 b_n``.
Runge-Kutta methods commute with linear maps, so the drive can take all stages of a step, and only
the mean of their features goes back to the state::

    s_i = features(u + h sum_j a_ij (C s_j + d)),   z' = z + h (W_n sum_i b_i s_i + b_n)

These are the steps of the field up to rounding. The state is as long as all memories together, the
drive only as wide as a hidden layer: measured by `benchmarks/gradient_step.py`.

The wall is looked at once a step: what of the state is beyond it decays as ``exp(-pull h)``, the
rest is moved by the network. Inside the box the order is that of the method, beyond it one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.nn import functional as F

from skpolyode.dynamics.field import ACTIVATION, WalledMLP
from skpolyode.dynamics.steppers import Stepper, combine, weighted_sum

__all__ = ["FieldSteps", "Layers", "NetworkSteps", "Start", "steps_of"]

Field = Callable[[torch.Tensor], torch.Tensor]
Affine = tuple[torch.Tensor, torch.Tensor]  # weight and bias


class Start(NamedTuple):
    """What a network says where a step starts."""

    drive: torch.Tensor  # (rows, H), of its first layer
    features: torch.Tensor  # (rows, H'), that its last layer reads


class Layers(NamedTuple):
    """Weights and biases of a network, as its steps use them."""

    first: Affine
    inner: list[Affine]
    last: Affine
    turn: Affine  # from the features to the derivative of the drive
    is_linear: bool

    @classmethod
    def of(cls, field: WalledMLP) -> Layers:
        """Those of a field, differentiable; the drive of a single layer is the state."""
        *hidden, (weight, bias) = field.affine()  # the last layer: (M, H'), (M,)
        if hidden:
            first, *inner = hidden  # of the first: (H, M), (H,)
            turn = first[0] @ weight, first[0] @ bias  # C (H, H') and d (H,): no M is left
            return cls(first, inner, (weight, bias), turn, False)
        identity = torch.eye(len(bias), dtype=bias.dtype, device=bias.device)
        return cls((identity, torch.zeros_like(bias)), [], (weight, bias), (weight, bias), True)

    def features(self, drive: torch.Tensor) -> torch.Tensor:
        """What the last layer reads, from the drive of the first."""
        if self.is_linear:
            return drive
        activation = ACTIVATION.of_tensor
        out = activation(drive)
        for weight, bias in self.inner:
            out = activation(F.linear(out, weight, bias))
        return out


class NetworkSteps:
    """Steps of a Runge-Kutta method along a network, with its present weights.

    Parameters
    ----------
    field : WalledMLP
    stepper : Stepper
    recorded : slice or None, default=None
        Coordinates whose derivative is asked for.

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
        self.stepper, self.layers = stepper, Layers.of(field)
        self.wall, self.pull = field.wall, field.pull
        self.by_hand = field.by_hand and not self.layers.is_linear
        self.recorded = recorded
        if recorded is not None:
            self.readout = [part[recorded].contiguous() for part in self.layers.last]

    def begin(self, y: torch.Tensor) -> Start:
        """What the network says where a step starts, at `y` (rows, M)."""
        return self._at(self.inside(y))

    def _at(self, y: torch.Tensor) -> Start:
        """What the network says at a point of the box."""
        drive = F.linear(y, *self.layers.first)
        return Start(drive, self.layers.features(drive))

    def slope(self, y: torch.Tensor, start: Start) -> torch.Tensor:
        """Derivative of the recorded coordinates there."""
        y = y[:, self.recorded]
        return F.linear(start.features, *self.readout).add(y - self.inside(y), alpha=-self.pull)

    def end(self, y: torch.Tensor, start: Start, h: torch.Tensor) -> torch.Tensor:
        """End of the step, of length `h` (rows, 1)."""
        moved = self._moved(y, start, h)
        # What is inside the box is moved by zero.
        return torch.addcmul(moved, y - self.inside(y), torch.expm1(-self.pull * h))

    def step(self, y: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """`end` of what `begin` gives, to the last bit; cheaper where all is inside of the wall."""
        low, high = y.detach().aminmax()
        if low >= -self.wall and high <= self.wall:
            return self._moved(y, self._at(y), h)
        return self.end(y, self.begin(y), h)

    def _moved(self, y: torch.Tensor, start: Start, h: torch.Tensor) -> torch.Tensor:
        """Where the network leads to in a step."""
        # All stages in the drive (rows, H); the state (rows, M) is touched once, at the end.
        stages, turns = [start.features], []
        for row in self.stepper.a:
            turns.append(F.linear(stages[-1], *self.layers.turn))
            stages.append(self.layers.features(combine(start.drive, h, row, turns)))
        mean = weighted_sum(self.stepper.b, stages)
        return torch.addcmul(y, h, F.linear(mean, *self.layers.last))

    def learns(self, y: torch.Tensor) -> bool:
        """Whether gradients are asked for that `take_rounds` gives."""
        asked = y.requires_grad or self.layers.turn[0].requires_grad
        return self.by_hand and asked and torch.is_grad_enabled()

    def inside(self, y: torch.Tensor) -> torch.Tensor:
        """Nearest point of the box."""
        return y.clamp(-self.wall, self.wall)


class FieldSteps:
    """As :class:`NetworkSteps`, along any function of the state."""

    def __init__(self, field: Field, stepper: Stepper, recorded: slice | None = None) -> None:
        self.field, self.stepper, self.recorded = field, stepper, recorded

    def learns(self, y: torch.Tensor) -> bool:
        """Gradients are left to torch."""
        return False

    def begin(self, y: torch.Tensor) -> torch.Tensor:
        """What is known where a step starts."""
        return self.field(y)

    def slope(self, y: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Derivative of the recorded coordinates there."""
        return start[:, self.recorded]

    def end(self, y: torch.Tensor, start: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """End of the step."""
        return self.stepper.step(self.field, y, start, h)

    def step(self, y: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        """`end` of what `begin` gives."""
        return self.end(y, self.begin(y), h)


def steps_of(
    field: Field, stepper: Stepper, recorded: slice | None = None
) -> NetworkSteps | FieldSteps:
    """Steps along a field, the faster ones where it is a network."""
    kind = NetworkSteps if isinstance(field, WalledMLP) else FieldSteps
    return kind(field, stepper, recorded)
