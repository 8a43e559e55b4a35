"""PolyODE with dynamics and memory integrated together by a standard solver.

The memory is not stiff (the magnitudes of its eigenvalues differ by a factor of 1.4 at N = 32) but
far from normal: what many steps multiply it by may grow by orders of magnitude before it decays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Self

import torch
from torch import nn

from benchmarks.paper.study.paper import PaperPolyODE
from benchmarks.paper.study.solvers import COUPLED, Method, System, odeint
from skpolyode.cubic import CubicPath
from skpolyode.dynamics import WalledMLP
from skpolyode.memory import LegTMemory, Memory, legt_matrices
from skpolyode.models import Packed, SequenceModel, Step
from skpolyode.models.contract import State
from skpolyode.saving.codec import register
from skpolyode.training.tasks import IntervalTask, PolyODETask

__all__ = ["SOLVERS", "CoupledPolyODE", "CoupledTask"]

SOLVERS = ("exact", *COUPLED)

_WORST = 100.0  # growth of errors, in a memory that itself never grows, that leaves it worthless
_LARGEST = 10.0  # memory, over the largest signal, that cannot be one of a signal


class CoupledPolyODE(PaperPolyODE):
    """As :class:`PaperPolyODE`, with one solver for dynamics and memory together.

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
    update : {"jump", "bridge"}, default="jump"
        As of :class:`PaperPolyODE`.
    origin : {"zero", "constant"}, default="zero"
        As of :class:`PaperPolyODE`.
    start : nn.Module or None, default=None
        As of :class:`PaperPolyODE`.
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
    >>> from skpolyode.models import pack
    >>> from benchmarks.paper.study import CoupledPolyODE, PaperPolyODE
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> memory = LegTMemory(4, window=2.0)
    >>> settings = {"step_size": 0.05, "max_gap": 40.0}
    >>> model = CoupledPolyODE(field, memory, solver="adams_moulton", **settings)
    >>> exact = PaperPolyODE(field, memory, **settings)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> with torch.no_grad():
    ...     error = model.embed(data)["c"] - exact.embed(data)["c"]
    >>> bool(error.abs().max() < 1e-4)
    True
    """

    memory: LegTMemory

    def __init__(
        self,
        field: WalledMLP,
        memory: Memory,
        *,
        solver: str,
        step_size: float,
        max_gap: float,
        update: str = "jump",
        origin: str = "zero",
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
        settings = {"step_size": step_size, "max_gap": max_gap, "update": update, "origin": origin}
        super().__init__(field, memory, **settings, start=start)
        self.solver, self.unit = solver, unit
        self._write_down()

    def _write_down(self) -> None:
        """Matrices of the equation, of the type of the memory and on its device."""
        self.matrices = [
            torch.tensor(
                matrix / self.memory.unit, dtype=self.memory.dtype, device=self.memory.device
            )
            for matrix in self.memory.matrices(self.memory.n_coefficients)
        ]

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self._write_down()
        return self

    @property
    def arguments(self) -> dict[str, Any]:
        """What makes a model of the same settings, with the same field, memory and start."""
        shared = {k: v for k, v in super().arguments.items() if k != "stepper"}
        return shared | {"solver": self.solver, "unit": self.unit}

    @property
    def method(self) -> Method:
        """What integrates."""
        return COUPLED[self.solver]

    @property
    def system(self) -> System:
        """What is integrated."""
        return System(self.field, *self.matrices, self.step_size)

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps, both parts integrated together; one without memory stays so."""
        z, integrated = state["z"], gap.clamp(max=self.max_gap)
        if "c" not in state:
            return {"z": self.method.flow(self.system, z, integrated)}
        channels, c = self.method.advance(self.system, self.split(z)[0], state["c"], integrated)
        if (gap > integrated).any():
            c = self.memory.hold(c, channels[..., 0], gap - integrated, elapsed)
        return {"z": channels.flatten(1), "c": c}

    def trace(self, z: torch.Tensor, gap: torch.Tensor) -> tuple[torch.Tensor, CubicPath]:
        """States z after gaps (n,), and the path of the signals (up to `max_gap`)."""
        return self.method.trace(self.system, z, gap.clamp(max=self.max_gap), self.signals)

    def run_block(self, data: Packed, block: list[slice]) -> Iterator[Step]:
        """Run over some series: all first observations, then all second ones, and so on."""
        largest = _LARGEST * max(self.field.wall, float(data.x.abs().max()))
        for step in SequenceModel.run_block(self, data, block):
            if not (size := step.before["c"].norm(dim=2).max()) <= largest:
                raise ValueError(
                    f"solver={self.solver!r} has diverged: the remembered signal has a size of "
                    f"{size:.3g} standard deviations, which no signal here can have. Halve "
                    "step_size, lower learning_rate_init, or use solver='exact'."
                )
            yield step


register(
    CoupledPolyODE,
    lambda model: model.arguments,
    lambda state: CoupledPolyODE(**state).float(),
    place=lambda model, device: model if device is None else model.to(device),
)


class CoupledTask(PolyODETask):
    """Intervals of dynamics that are integrated together with the memory."""

    scans = True
    _leads = IntervalTask._leads


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
