r"""Standard solvers of the coupled system of dynamics and memory.

The paper hands ``dh/dt = phi(h), dc_j/dt = A c_j + B h0_j`` to one solver. Here are the methods
that it compares, as data. As `c` does not feed back, an implicit step is solved in two: Newton's
method for h, then one linear system for c.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from benchmarks.paper.study.implicit import MULTISTEPS, ImplicitStepper, Multistep
from skpolyode.cubic import CubicPath
from skpolyode.dynamics import STEPPERS, Stepper, WalledMLP, count_steps, integrate

__all__ = ["COUPLED", "Method", "Pair", "System", "odeint"]

Pair = tuple[torch.Tensor, torch.Tensor]


class System(NamedTuple):
    """The coupled system: field, ``dc/dt = A c + B h0``, and the longest step."""

    field: WalledMLP
    A: torch.Tensor
    B: torch.Tensor
    step_size: float


class Method(Protocol):
    """A way to integrate the dynamics alone, and together with the memory.

    States `z` are (B, M) for the dynamics alone and (B, D, 1 + N) beside a memory `c` (B, D, N);
    each row has a `gap` (B,) of its own.
    """

    def flow(self, system: System, z: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """States at the end, differentiable."""

    def trace(
        self, system: System, z: torch.Tensor, gap: torch.Tensor, recorded: slice
    ) -> tuple[torch.Tensor, CubicPath]:
        """States at the end, and the path of the coordinates `recorded`."""

    def advance(self, system: System, z: torch.Tensor, c: torch.Tensor, gap: torch.Tensor) -> Pair:
        """States and memory at the end."""

    def powers(self, hA: torch.Tensor, count: int) -> Iterator[torch.Tensor]:
        """What up to `count` steps multiply the memory of a zero signal by (transposed)."""


@dataclass(frozen=True)
class RungeKutta:
    """An explicit method, with steps of bounded length."""

    stepper: Stepper

    def flow(self, system: System, z: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        return self._integrate(system, z, gap)[0]

    def trace(
        self, system: System, z: torch.Tensor, gap: torch.Tensor, recorded: slice
    ) -> tuple[torch.Tensor, CubicPath]:
        return self._integrate(system, z, gap, recorded=recorded)

    def _integrate(
        self, system: System, z: torch.Tensor, gap: torch.Tensor, **options: Any
    ) -> tuple[torch.Tensor, Any]:
        options |= {"step_size": system.step_size, "stepper": self.stepper}
        return integrate(system.field, z, gap, **options)

    def advance(self, system: System, z: torch.Tensor, c: torch.Tensor, gap: torch.Tensor) -> Pair:
        field, step_size = _coupled_field(system, z), system.step_size
        end, _ = integrate(field, _join(z, c), gap, step_size=step_size, stepper=self.stepper)
        return _split(end, z)

    def powers(self, hA: torch.Tensor, count: int) -> Iterator[torch.Tensor]:
        """After 1, 2, 4, 8, ... steps, by squaring."""
        start, one = torch.eye(len(hA), dtype=hA.dtype), hA.new_ones(())
        power = self.stepper.step(lambda c: c @ hA.T, start, hA.T, one)
        for _ in range(count.bit_length()):
            yield power
            power = power @ power


@dataclass(frozen=True)
class Implicit:
    """An implicit multistep method; every gap is a start of its own.

    A multistep method needs starting values. Those of the dynamics are Runge-Kutta steps, with
    which the memory could blow up: its first steps are solved together, as one block, from the
    polynomial through all their slopes (Shampine & Watts 1969; stable whatever their length).
    """

    method: Multistep

    def flow(self, system: System, z: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        return self._integrate(system, z, gap)[0]

    def trace(
        self, system: System, z: torch.Tensor, gap: torch.Tensor, recorded: slice
    ) -> tuple[torch.Tensor, CubicPath]:
        return self._integrate(system, z, gap, recorded=recorded)

    def _integrate(
        self, system: System, z: torch.Tensor, gap: torch.Tensor, **options: Any
    ) -> tuple[torch.Tensor, Any]:
        stepper = ImplicitStepper(system.field, self.method)
        field, step_size = system.field.bind(), system.step_size
        return integrate(field, z, gap, step_size=step_size, stepper=stepper, **options)

    def advance(self, system: System, z: torch.Tensor, c: torch.Tensor, gap: torch.Tensor) -> Pair:
        end, path = self.trace(system, z.flatten(1), gap, slice(None, None, z.shape[2]))
        rows, ends = [], []
        for n_steps in path.n_steps.unique().tolist():
            row = (path.n_steps == n_steps).nonzero()[:, 0]
            drive = path.values[: n_steps + 1, row, :, None] * system.B
            *_, last = self._follow(system.A, c[row], drive, path.step[row])
            rows.append(row)
            ends.append(last)
        return end.view_as(z), torch.cat(ends)[torch.cat(rows).argsort()]

    def powers(self, hA: torch.Tensor, count: int) -> Iterator[torch.Tensor]:
        zero = hA.new_zeros(()).expand(count + 1, 1, *hA.shape)
        identity = torch.eye(len(hA), dtype=hA.dtype)[None]
        for power in self._follow(hA, identity, zero, hA.new_ones(1)):
            yield power[0]

    def _follow(
        self, A: torch.Tensor, c: torch.Tensor, drive: torch.Tensor, step: torch.Tensor
    ) -> Iterator[torch.Tensor]:
        """Memories (B, D, N) after each of K steps, of a length (B,) a row.

        `drive` (K + 1, B, D, N) is B h0 at their ends.
        """
        h = step.to(c.dtype)[:, None, None]
        newest, *known = self.method.weights
        slopes = [c @ A.T + drive[0]]  # the last one first
        n_block = min(len(drive) - 1, max(self.method.n_past - 1, 0))
        if n_block:
            # All at once, from the polynomial through all their slopes, as far as these are known.
            weights = torch.tensor(_block_weights(n_block), dtype=c.dtype, device=c.device)
            own = torch.stack([slopes[0], *drive[1 : n_block + 1]])
            rise = h[:, None] * torch.einsum("ij,jbdn->bdin", weights, own)
            solve = _solver(torch.kron(weights[:, 1:].contiguous(), A), step)
            block = solve((c[:, :, None] + rise).flatten(2)).unflatten(2, (n_block, -1))
            for k, c in enumerate(block.unbind(2), 1):
                slopes.insert(0, c @ A.T + drive[k])
                yield c
        solve = _solver(newest * A, step)
        for k in range(n_block + 1, len(drive)):
            past = sum(w * slope for w, slope in zip(known, slopes, strict=False))
            c = solve(c + h * (newest * drive[k] + past))
            slopes = [c @ A.T + drive[k], *slopes[:-1]]
            yield c


class Dopri5:
    """The adaptive method of Dormand and Prince, by torchdiffeq; step sizes are its own.

    All rows take the same steps, as shares of their gaps. The tolerances are tight, so that a
    result hardly depends on what else is in the batch.
    """

    def flow(self, system: System, z: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        return self._solve(system.field.bind(), z, gap)[-1]

    def trace(
        self, system: System, z: torch.Tensor, gap: torch.Tensor, recorded: slice
    ) -> tuple[torch.Tensor, CubicPath]:
        n_steps = count_steps(gap, system.step_size).amax().expand(len(gap))
        field = system.field.bind()
        knots = self._solve(field, z, gap, n_pieces=int(n_steps[0]))
        slopes = torch.stack([field(knot)[:, recorded] for knot in knots])
        return knots[-1], CubicPath(knots[..., recorded], slopes, gap / n_steps, n_steps)

    def advance(self, system: System, z: torch.Tensor, c: torch.Tensor, gap: torch.Tensor) -> Pair:
        return _split(self._solve(_coupled_field(system, z), _join(z, c), gap)[-1], z)

    def powers(self, hA: torch.Tensor, count: int) -> Iterator[torch.Tensor]:
        """A zero, in place of them: no step is too long, as it takes shorter ones."""
        yield torch.zeros_like(hA)

    def _solve(
        self, field: Callable, y: torch.Tensor, gap: torch.Tensor, n_pieces: int = 1
    ) -> torch.Tensor:
        """States (n_pieces + 1, B, M) at the ends of equal pieces of the gaps."""
        shares = torch.linspace(0, 1, n_pieces + 1, dtype=torch.float64, device=y.device)
        gap = gap.to(y.dtype)[:, None]
        rtol = 1e-9 if y.dtype == torch.float64 else 1e-5
        options = {"method": "dopri5", "rtol": rtol, "atol": rtol / 10}
        try:
            return odeint()(lambda _, state: gap * field(state), y, shares, **options)
        except AssertionError as error:  # "underflow in dt" or "non-finite values in state"
            raise ValueError(
                f"solver='dopri5' found no step that is short enough ({error}). Lower "
                "learning_rate_init, or use solver='exact'."
            ) from None


COUPLED: dict[str, Method] = {
    **{name: RungeKutta(STEPPERS[name]) for name in ("euler", "rk4")},
    "dopri5": Dopri5(),
    **{name: Implicit(method) for name, method in MULTISTEPS.items()},
}
"""Solvers of the coupled system, by the name that users give."""


def _join(z: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.cat([z.flatten(1), c.flatten(1)], dim=1)


def _split(y: torch.Tensor, like: torch.Tensor) -> Pair:
    """State, of the shape of `like`, and memory that were joined."""
    size = like[0].numel()
    return y[:, :size].view_as(like), y[:, size:].unflatten(1, (like.shape[1], -1))


def _coupled_field(system: System, like: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Derivative of joined states and memories."""
    phi = system.field.bind()

    def field(y: torch.Tensor) -> torch.Tensor:
        z, c = _split(y, like[: len(y)])
        return _join(phi(z.flatten(1)), c @ system.A.T + z[..., :1] * system.B)

    return field


def _solver(A: torch.Tensor, step: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    """Solution of ``x - step A x = b`` for `b` (B, D, size), factored once a length of `step`."""
    # Where observations lie on a grid there are few lengths, once rounding errors are put aside.
    unit = step.max()
    shares, index = (step / unit).round(decimals=12).unique(return_inverse=True)
    lengths = (shares * unit).to(A.dtype)[:, None, None]
    identity = torch.eye(len(A), dtype=A.dtype, device=A.device)
    factors, pivots = (part[index] for part in torch.linalg.lu_factor(identity - lengths * A))
    return lambda b: torch.linalg.lu_solve(factors, pivots, b.mT).mT


@lru_cache
def _block_weights(n_steps: int) -> np.ndarray:
    """Integrals (n, n + 1) from 0 to 1, 2, ... n of the Lagrange polynomials on 0, 1, ... n."""
    nodes, degrees = np.arange(n_steps + 1.0), np.arange(n_steps + 1)
    powers = nodes[:, None] ** degrees
    integrals = powers[1:] * nodes[1:, None] / (1 + degrees)
    return np.linalg.solve(powers.T, integrals.T).T


def odeint() -> Callable[..., Any]:
    """Integrator of torchdiffeq, which is not among the requirements."""
    try:
        return importlib.import_module("torchdiffeq").odeint
    except ImportError:
        raise ImportError(
            "solver='dopri5' needs torchdiffeq: pip install 'skpolyode[bench]', or use "
            "solver='exact'."
        ) from None
