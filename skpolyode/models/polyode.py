r"""PolyODE: dynamics that forecast between observations, and a memory that they drive.

Between observations ``dz/dt = phi(z)`` moves the state z = [h0, h_1..h_D] and the memory follows
the signal h0 exactly. At an observation of channel j::

    bridge:  c_j += (x_j - h0_j) rho(time since the previous observation of j)
    reset:   h0_j := x_j,   h_j := c_j

The memory never feeds back into phi between observations. (De Brouwer & Krishnan, ICLR 2023,
section 3; the bridge is ours, ``update="jump"`` is the paper's.)
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from skpolyode.cubic import CubicPath
from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.memory import Memory
from skpolyode.models.packed import Packed
from skpolyode.models.scan import Step, scan

__all__ = ["UPDATES", "PolyODE"]

UPDATES = ("bridge", "jump")


class PolyODE(nn.Module):
    """The alternation of dynamics and memory over packed observations.

    Values are in standard deviations of their channel and times in units of the model.

    Parameters
    ----------
    field : WalledMLP
        Vector field on the flat state, of length D (1 + N).
    memory : Memory
        Measure with N coefficients.
    step_size : float
        Longest integration step.
    max_gap : float
        Longest gap that is integrated; after it the signal is held. The dynamics cannot know
        anything that long after the last observation, and cost would grow with the gap.
    update : {"bridge", "jump"}, default="bridge"
        Whether the remembered path is bridged to each observation, or steps there as in the paper.
    solver : str, default="rk4"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    start : nn.Module or None, default=None
        Maps static covariates (rows, S) to what they add to a flat state that is set anew.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> state, coefficients = model.embed(data)
    >>> state.shape, coefficients.shape
    (torch.Size([1, 1, 5]), torch.Size([1, 1, 4]))
    >>> state[0, 0, 0].item()  # the signal is the last observation
    0.0
    """

    separable = True
    """Whether the memory follows a path that is integrated without it."""

    def __init__(
        self,
        field: WalledMLP,
        memory: Memory,
        *,
        step_size: float,
        max_gap: float,
        update: str = "bridge",
        solver: str = "rk4",
        start: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.field = field
        self.memory = memory
        self.step_size = step_size
        self.max_gap = max_gap
        self.update = update
        self.stepper = STEPPERS[solver]
        self.start = start

    @property
    def signals(self) -> slice:
        """Coordinates of a flat state that are the signals."""
        return slice(None, None, 1 + self.memory.n_coefficients)

    def flow(self, z: torch.Tensor, gap: torch.Tensor) -> torch.Tensor:
        """States (B, D, 1 + N) after gaps (B,) without observations."""
        return self._integrate(z, gap, None)[0]

    def trace(self, z: torch.Tensor, gap: torch.Tensor) -> tuple[torch.Tensor, CubicPath]:
        """As :meth:`flow`, and the path of the signals (up to `max_gap`)."""
        end, path = self._integrate(z, gap, self.signals)
        assert path is not None
        return end, path

    def _integrate(
        self, z: torch.Tensor, gap: torch.Tensor, recorded: slice | None
    ) -> tuple[torch.Tensor, CubicPath | None]:
        end, path = integrate(
            self.field,
            z.flatten(1),
            gap.clamp(max=self.max_gap),
            step_size=self.step_size,
            stepper=self.stepper,
            recorded=recorded,
        )
        return end.view_as(z), path

    def advance(
        self, z: torch.Tensor, c: torch.Tensor, gap: torch.Tensor, elapsed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """State and memory after gaps without observations; the memory follows the signal."""
        z, path = self.trace(z, gap)
        return z, self.remember(c, path, z[..., 0], gap, elapsed)

    def remember(
        self,
        c: torch.Tensor,
        path: CubicPath,
        end: torch.Tensor,
        gap: torch.Tensor,
        elapsed: torch.Tensor,
    ) -> torch.Tensor:
        """Memory after the path of a gap, its `end` held for what is not integrated."""
        return self.memory.propagate(c, gap, elapsed) + self.driven(path, end, gap, elapsed)

    def driven(
        self, path: CubicPath, end: torch.Tensor, gap: torch.Tensor, elapsed: torch.Tensor
    ) -> torch.Tensor:
        """What the path of a gap adds to the memory; see :meth:`remember`."""
        rest = gap - path.step * path.n_steps
        c = self.memory.driven(path, elapsed - rest)
        if (held := gap > self.max_gap).any():
            after = self.memory.hold(c[held], end[held], rest[held], elapsed[held])
            c = c.index_put((held.nonzero()[:, 0],), after)
        return c

    def observe(
        self, z: torch.Tensor, c: torch.Tensor, data: Packed, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """State and memory after taking in the observations of some rows."""
        c = c + self.corrected(z[..., 0], data, rows)
        return self.reset(z, c, data, rows), c

    def corrected(self, signal: torch.Tensor, data: Packed, rows: torch.Tensor) -> torch.Tensor:
        """What the observations of some rows add to a memory that followed `signal` (n, D)."""
        mask, seen = data.mask[rows], data.seen[rows]
        rise = torch.where(mask, data.x[rows] - signal, 0.0)
        # The first observation of a channel shifts its whole remembered past, which at the start
        # of a series makes it the constant x: no step from 0 is remembered.
        c = self.memory.constant(torch.where(seen, 0.0, rise))
        if self.update == "bridge":
            rise = torch.where(seen, rise, 0.0)
            c = c + self.memory.bridge(rise, data.channel_gap[rows], data.elapsed[rows])
        return c

    def reset(
        self, z: torch.Tensor, c: torch.Tensor, data: Packed, rows: torch.Tensor
    ) -> torch.Tensor:
        """State after the observations of some rows, from that before and the memory after."""
        hidden = c.to(z.dtype)
        if self.start is not None:
            hidden = hidden + self._offset(data, rows)[..., 1:]
        anew = torch.cat([data.x[rows][..., None], hidden], dim=-1)
        return torch.where(data.mask[rows][..., None], anew, z)

    def _offset(self, data: Packed, rows: torch.Tensor) -> torch.Tensor:
        """What static covariates add to a state (n, D, 1 + N) that is set anew.

        They set h(0); as every observation resets h_j := c_j, which would erase them, they are
        added there too.
        """
        assert self.start is not None
        return self.start(data.static[rows]).unflatten(1, (data.x.shape[1], -1))

    def static_part(self, data: Packed, rows: torch.Tensor) -> torch.Tensor:
        """Part of the states after the observations of some rows that `start` contributed."""
        mask = data.mask[rows]
        anew = mask | (data.elapsed[rows] == 0)[:, None]
        signal, hidden = self._offset(data, rows).split([1, self.memory.n_coefficients], dim=2)
        return torch.cat([signal * (anew & ~mask)[..., None], hidden * anew[..., None]], dim=2)

    def initial_state(self, data: Packed, rows: torch.Tensor) -> torch.Tensor:
        """State (n, D, 1 + N) before the first observations of series."""
        if self.start is not None:
            return self._offset(data, rows)
        return data.x.new_zeros(len(rows), data.x.shape[1], 1 + self.memory.n_coefficients)

    def steps(self, data: Packed) -> Iterator[Step]:
        """Run over all observations of all series, in the order of :func:`scan`."""
        for block in data.blocks():
            yield from self.block_steps(data, block)

    def block_steps(self, data: Packed, block: list[slice]) -> Iterator[Step]:
        """Run over all observations of some series; see :func:`scan`."""
        return scan(self, data, block)

    def predictions(self, data: Packed) -> torch.Tensor:
        """Signal (P, D) just before each observation."""
        result = torch.empty_like(data.x)
        for step in self.steps(data):
            result[step.rows] = step.prediction
        return result

    def embed(self, data: Packed) -> tuple[torch.Tensor, torch.Tensor]:
        """State (B, D, 1 + N) and memory (B, D, N) at the last observation of each series."""
        ends: list[tuple[torch.Tensor, ...]] = []
        for step in self.steps(data):
            ended = (data.next[step.rows] < 0).nonzero()[:, 0]
            if len(ended):
                ends.append((data.series[step.rows][ended], step.z[ended], step.c[ended]))
        series, z, c = (torch.cat(parts) for parts in zip(*ends, strict=True))
        order = series.argsort()
        return z[order], c[order]
