"""PolyODE with the choices of the paper: what an observation does, and what was before the first.

At an observation the paper resets ``h0_j := x_j, h_j := c_j`` and leaves the memory alone: the
remembered path jumps there. A series starts from ``h = 0, c = 0``: it remembers that the signal
was zero, and the first values are jumps as well.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.memory import Memory
from skpolyode.models import Packed, PolyODE
from skpolyode.models.contract import State
from skpolyode.saving.codec import register

__all__ = ["ORIGINS", "UPDATES", "PaperPolyODE"]

UPDATES = ("jump", "bridge")
ORIGINS = ("zero", "constant")


class PaperPolyODE(PolyODE):
    """As :class:`~skpolyode.models.PolyODE`, with the paper's update and start of a series.

    Parameters
    ----------
    field : WalledMLP
        Vector field on the flat state, of length D (1 + N).
    memory : Memory
        Measure with N coefficients.
    step_size : float
        Longest integration step.
    max_gap : float
        Longest gap that is integrated; after it the signal is held.
    update : {"jump", "bridge"}, default="jump"
        Whether the remembered path steps to an observation, as in the paper, or is bridged to it.
    origin : {"zero", "constant"}, default="zero"
        What is remembered from before the first observation of a channel: zero, as in the paper,
        or its first value.
    stepper : str, default="rk4"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    start : nn.Module or None, default=None
        Maps static covariates (rows, S) to what they add to a flat state that is set anew.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import pack
    >>> from benchmarks.paper.study import PaperPolyODE
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PaperPolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> data = pack(np.array([0.0]), np.array([[1.0]]), np.array([0, 1]))
    >>> model.embed(data)["z"][0].tolist()  # the signal is known, the past is zero
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """

    def __init__(
        self,
        field: WalledMLP,
        memory: Memory,
        *,
        step_size: float,
        max_gap: float,
        update: str = "jump",
        origin: str = "zero",
        stepper: str = "rk4",
        start: nn.Module | None = None,
    ) -> None:
        super().__init__(
            field, memory, step_size=step_size, max_gap=max_gap, stepper=stepper, start=start
        )
        self.update = update
        self.origin = origin

    @property
    def arguments(self) -> dict[str, Any]:
        """What makes a model of the same settings, with the same field, memory and start."""
        ours = ("history", "gain", "cell", "inputs")
        shared = {name: value for name, value in super().arguments.items() if name not in ours}
        return shared | {"update": self.update, "origin": self.origin}

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations; what static covariates say is not remembered."""
        state = super().initial(data, rows)
        if self.origin == "zero":
            state["c"] = torch.zeros_like(state["c"])
        return state

    def corrected(
        self, memory: Memory, signal: torch.Tensor, data: Packed, rows: torch.Tensor
    ) -> torch.Tensor:
        """What the observations of some rows add to a memory that followed `signal` (n, D)."""
        rise = torch.where(data.mask[rows], data.x[rows] - signal, 0.0)
        # From before the first observation of a channel there is nothing to bridge.
        first, later = (torch.where(data.seen[rows] == seen, rise, 0.0) for seen in (False, True))
        c = memory.constant(first if self.origin == "constant" else torch.zeros_like(first))
        if self.update == "bridge":
            c = c + memory.bridge(later, data.channel_gap[rows], data.elapsed[rows])
        return c


register(
    PaperPolyODE,
    lambda model: model.arguments,
    lambda state: PaperPolyODE(**state).float(),
    place=lambda model, device: model if device is None else model.to(device),
)
