"""PolyODE with dynamics and memory integrated together by a standard solver. For study.

The memory is not stiff (the magnitudes of its eigenvalues differ by a factor of 1.4 at N = 32) but
far from normal: what many steps multiply it by may grow by orders of magnitude before it decays.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import torch
from torch import nn

from skpolyode.cubic import CubicPath
from skpolyode.dynamics import WalledMLP
from skpolyode.memory import LegTMemory, Memory, legt_matrices
from skpolyode.models.packed import Packed
from skpolyode.models.polyode import PolyODE
from skpolyode.models.scan import Step
from skpolyode.study.solvers import COUPLED, Pair, System, odeint

__all__ = ["SOLVERS", "CoupledPolyODE"]

SOLVERS = ("exact", *COUPLED)

_WORST = 100.0  # growth of errors, in a memory that itself never grows, that leaves it worthless
_LARGEST = 10.0  # memory, over the largest signal, that cannot be one of a signal


class CoupledPolyODE(PolyODE):
    """As :class:`PolyODE`, with one solver for dynamics and memory together. For study.

    Parameters
    ----------
    field : WalledMLP
        Vector field on the flat state, of length D (1 + N).
    memory : LegTMemory
        Its differential equation is solved; it is itself only asked at observations.
    solver : {"euler", "rk4", "dopri5", "backward_euler", "adams_moulton"}
        The method.
    step_size : float
        Longest integration step.
    max_gap : float
        Longest gap that is integrated; after it the signal is held.
    update : {"bridge", "jump"}, default="bridge"
        As of :class:`PolyODE`.
    start : nn.Module or None, default=None
        As of :class:`PolyODE`.
    unit : float, default=1.0
        The model's unit of time in the user's, for messages.

    Raises
    ------
    ValueError
        If the memory is of another measure, or diverges with steps of this length.
    ImportError
        If "dopri5" is asked for and torchdiffeq is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import CoupledPolyODE, PolyODE, pack
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> memory = LegTMemory(4, window=2.0)
    >>> settings = {"step_size": 0.05, "max_gap": 40.0}
    >>> model = CoupledPolyODE(field, memory, solver="adams_moulton", **settings)
    >>> exact = PolyODE(field, memory, **settings)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> with torch.no_grad():
    ...     error = model.embed(data)[1] - exact.embed(data)[1]
    >>> bool(error.abs().max() < 1e-4)
    True
    """

    separable = False

    def __init__(
        self,
        field: WalledMLP,
        memory: Memory,
        *,
        solver: str,
        step_size: float,
        max_gap: float,
        update: str = "bridge",
        start: nn.Module | None = None,
        unit: float = 1.0,
    ) -> None:
        if not isinstance(memory, LegTMemory):
            raise ValueError(
                f"solver={solver!r} solves the equation of measure='legt' only; use "
                "solver='exact' for other measures."
            )
        if solver == "dopri5":
            odeint()
        _check_step(solver, memory.n_coefficients, memory.window * unit, step_size * unit)
        super().__init__(
            field, memory, step_size=step_size, max_gap=max_gap, update=update, start=start
        )
        self.solver, self.method = solver, COUPLED[solver]
        self.matrices = [
            torch.tensor(matrix / memory.unit, dtype=memory.dtype, device=memory.device)
            for matrix in memory.matrices(memory.n_coefficients)
        ]

    @property
    def system(self) -> System:
        """What the method integrates."""
        return System(self.field, *self.matrices, self.step_size)

    def flow(self, z: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """States (B, D, 1 + N) after gaps (B,) without observations."""
        gap = gap.clamp(max=self.max_gap)
        return self.method.flow(self.system, z.flatten(1), gap).view_as(z)

    def trace(self, z: torch.Tensor, gap: torch.Tensor) -> tuple[torch.Tensor, CubicPath]:
        """As :meth:`flow`, and the path of the signals (up to `max_gap`)."""
        gap = gap.clamp(max=self.max_gap)
        end, path = self.method.trace(self.system, z.flatten(1), gap, self.signals)
        return end.view_as(z), path

    def advance(
        self, z: torch.Tensor, c: torch.Tensor, gap: torch.Tensor, elapsed: torch.Tensor
    ) -> Pair:
        """State and memory after gaps without observations, integrated together."""
        integrated = gap.clamp(max=self.max_gap)
        z, c = self.method.advance(self.system, z, c, integrated)
        if (gap > integrated).any():
            c = self.memory.hold(c, z[..., 0], gap - integrated, elapsed)
        return z, c

    def block_steps(self, data: Packed, block: list[slice]) -> Iterator[Step]:
        """Run over some series: all first observations, then all second ones, ..."""
        largest = _LARGEST * max(self.field.wall, float(data.x.abs().max()))
        first, *later = block
        rows = torch.arange(first.start, first.stop, device=data.x.device)
        z = self.initial_state(data, rows)
        c = self.memory.constant(z[..., 0])
        step = Step(rows, z[..., 0], *self.observe(z, c, data, rows))
        yield step
        for part in later:
            rows = torch.arange(part.start, part.stop, device=data.x.device)
            before = step.z[: len(rows)], step.c[: len(rows)]
            z, c = self.advance(*before, data.gap[part], data.elapsed[part])
            self._check_size(c, largest)
            step = Step(rows, z[..., 0], *self.observe(z, c, data, rows))
            yield step

    def _check_size(self, c: torch.Tensor, largest: float) -> None:
        if not (size := c.norm(dim=2).max()) <= largest:
            raise ValueError(
                f"solver={self.solver!r} has diverged: the remembered signal has a size of "
                f"{size:.3g} standard deviations, which no signal here can have. Halve step_size, "
                "lower learning_rate_init, or use solver='exact'."
            )


@lru_cache
def _check_step(solver: str, n_coefficients: int, window: float, step_size: float) -> None:
    """Raise a ValueError, with the longest step that will do, if the memory diverges."""
    short = share = step_size / window
    if _stable(solver, n_coefficients, share):
        return
    while not _stable(solver, n_coefficients, short):
        share, short = short, short / 2
    for _ in range(6):  # to a hundredth, on the stable side
        middle = (short + share) / 2
        stable = _stable(solver, n_coefficients, middle)
        short, share = (middle, share) if stable else (short, middle)
    raise ValueError(
        f"solver={solver!r} diverges with step_size={step_size:g}: its steps amplify errors in the "
        f"memory (n_coefficients={n_coefficients}, window={window:g}), which itself never grows, "
        f"more than {_WORST:g} times. Use a step_size of at most {0.995 * short * window:.3g}, or "
        "solver='exact'."
    )


def _stable(solver: str, n_coefficients: int, share: float) -> bool:
    """Whether steps of a share of the window let a memory decay, without too great a detour.

    Eigenvalues would not tell: double precision gets them wrong with many coefficients, and for
    a matrix that is far from normal they do not speak of the detour.
    """
    A = torch.from_numpy(legt_matrices(n_coefficients)[0])
    peak = 0.0
    for power in COUPLED[solver].powers(share * A, count=1000 + int(20 / share)):
        size = float(torch.linalg.matrix_norm(power))
        peak = max(peak, size)
        if not size <= _WORST:
            return False
        if size < 0.1:
            return True
    return size < peak / 2
