"""Implicit multistep methods: each step solves an equation, by Newton's method.

The dynamics of this package are not stiff and do not need them; solvers are compared with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from skpolyode.dynamics.field import ACTIVATION, WalledMLP
from skpolyode.dynamics.integrate import STEPPERS, Field

__all__ = ["MULTISTEPS", "ImplicitStepper", "Multistep"]

_MAX_ITERATIONS = 30


@dataclass(frozen=True)
class Multistep:
    """An implicit Adams method: ``y' = y + h (w_0 f(y') + w_1 f(y) + w_2 f(before) + ...)``.

    Parameters
    ----------
    name : str
    weights : tuple of float
        Weights of the slopes, the newest (unknown) one first; as many as the order.
    """

    name: str
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        for power in range(self.order):
            moment = sum(w * (1.0 - age) ** power for age, w in enumerate(self.weights))
            if abs(moment - 1 / (power + 1)) > 1e-12:
                raise ValueError(
                    f"{self.name} is not of order {self.order}: its integral of s**{power} over "
                    f"a step is {moment}, not {1 / (power + 1)}"
                )

    @property
    def order(self) -> int:
        """Order of convergence."""
        return len(self.weights)

    @property
    def n_past(self) -> int:
        """Number of known slopes that a step uses."""
        return len(self.weights) - 1


MULTISTEPS = {
    method.name: method
    for method in (
        Multistep("backward_euler", (1.0,)),
        # Four steps, order 5; the 251/270 in the appendix of the PolyODE paper is a misprint.
        Multistep("adams_moulton", (251 / 720, 646 / 720, -264 / 720, 106 / 720, -19 / 720)),
    )
}


class ImplicitStepper:
    """Steps of a multistep method along one integration, in place of a `Stepper`.

    It remembers the slopes of its last steps, so each integration needs a new one. Its first
    steps, for which there are no past slopes, are those of the classical Runge-Kutta method.

    Parameters
    ----------
    field : WalledMLP
        The vector field.
    method : Multistep
    """

    def __init__(self, field: WalledMLP, method: Multistep) -> None:
        self.field, self.method = field, method
        self.past: list[Tensor] = []  # newest first

    def step(
        self,
        field: Field,
        y: Tensor,
        slope: Tensor,
        h: Tensor,
    ) -> Tensor:
        """One step of length `h` (rows, 1) from `y` (rows, M), where ``slope = field(y)``."""
        # Rows that have arrived are cut off at the end of the batch.
        past = [slope, *(before[: len(y)] for before in self.past)]
        self.past = past[: self.method.n_past]
        if len(self.past) < self.method.n_past:
            return STEPPERS["rk4"].step(field, y, slope, h)
        newest, *known = self.method.weights
        start = y + h * sum(w * f for w, f in zip(known, self.past, strict=True))
        return self._solve(field, start, y + h * slope, newest * h)

    def _solve(self, field: Field, start: Tensor, guess: Tensor, h: Tensor) -> Tensor:
        """Root of ``z - h field(z) = start``, differentiable in `start` and the weights."""
        tolerance = torch.finfo(guess.dtype).eps ** 0.75
        with torch.no_grad():
            z, inverse, before = guess, self._factors(guess, h), float("inf")
            for _ in range(_MAX_ITERATIONS):
                change = self._change(inverse, start + h * field(z) - z)
                z = z + change
                if (change.abs() <= tolerance * (1 + z.abs())).all():
                    break
                # Factors cost as much as 15 iterations and are kept while they serve. Across the
                # wall of the field, where its slope jumps, they do not.
                if not (size := change.abs().max()) < before / 4:
                    inverse = self._factors(z, h)
                before = size
            else:
                raise ValueError(
                    f"solver={self.method.name!r}: the equation of a step was not solved in "
                    f"{_MAX_ITERATIONS} Newton iterations. Lower step_size or learning_rate_init, "
                    "or use solver='exact'."
                )
        if torch.is_grad_enabled():
            # One more step, with the inverse held constant, has the derivative of the root
            # (implicit function theorem); the iteration leaves no trace for autograd.
            z = z + self._change(self._factors(z, h), start + h * field(z) - z)
        return z

    @torch.no_grad()
    def _factors(self, z: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        identity = torch.eye(z.shape[1], dtype=z.dtype, device=z.device)
        return torch.linalg.lu_factor(identity - h[:, :, None] * jacobian(self.field, z))

    @staticmethod
    def _change(inverse: tuple[Tensor, Tensor], residual: Tensor) -> Tensor:
        return torch.linalg.lu_solve(*inverse, residual[:, :, None])[:, :, 0]


def jacobian(field: WalledMLP, z: Tensor) -> Tensor:
    """Derivatives (rows, M, M) of the field at `z` (rows, M): entry (i, j) is df_i / dz_j."""
    out = z.clamp(-field.wall, field.wall)
    inside = torch.diag_embed((z == out).to(z.dtype))
    (first, bias), *later = field.affine()
    drive, matrix = F.linear(out, first, bias), first @ inside
    for weight, bias in later:
        slope = ACTIVATION.backward(torch.ones_like(drive), drive)
        matrix = weight @ (slope[:, :, None] * matrix)
        drive = F.linear(ACTIVATION.of_tensor(drive), weight, bias)
    return matrix - field.pull * (torch.eye(z.shape[1], dtype=z.dtype, device=z.device) - inside)
