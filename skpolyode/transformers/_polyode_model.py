"""From a fitted PolyODE estimator to its torch model, and to states of series."""

from __future__ import annotations

import copy
from functools import partial

import numpy as np
import torch
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.memory import MEMORIES, Memory
from skpolyode.models import CoupledPolyODE, Packed, PolyODE, pack
from skpolyode.panel import Panel
from skpolyode.panel.select import observed_part, recent_part
from skpolyode.transformers._chunks import map_chunks
from skpolyode.transformers._input import ChannelScaler, observed_rows
from skpolyode.transformers._static import StaticEncoder

__all__ = ["CONTEXT_WINDOWS", "PolyODEModel"]

# How much of the past a state depends on, in windows, for measures that forget: with 32
# coefficients, and trained, it depends on no more to 1e-12.
CONTEXT_WINDOWS = {"legt": 4}
_SAME_STATE = 1e-9
_CHUNK_ROWS = 32_000  # embedded together by one thread
_WINDOWS_INTEGRATED = 20  # a gap longer than this many windows is not integrated to its end


class PolyODEModel:
    """Mixin of what a fitted estimator computes states with."""

    n_coefficients: int
    measure: str
    update: str
    solver: str
    device: str
    window_: float
    step_size_: float
    time_scale_: float
    scaler_: ChannelScaler
    field_: WalledMLP
    static_: StaticEncoder | None
    start_: nn.Module | None

    def _model(self, dtype: torch.dtype, *, copy_field: bool = True) -> PolyODE:
        field, start = self.field_, self.start_
        if copy_field:
            field, start = copy.deepcopy((field, start))
            start = start if start is None else start.to(dtype)
            field = field.to(dtype)
        memory = self._memory(dtype, self.device)
        settings = {
            "step_size": self.step_size_ / self.time_scale_,
            "max_gap": self._max_gap() / self.time_scale_,
            "update": self.update,
            "start": start,
        }
        if self.solver == "exact":
            return PolyODE(field, memory, **settings)
        return CoupledPolyODE(field, memory, solver=self.solver, unit=self.time_scale_, **settings)

    def _memory(self, dtype: torch.dtype = torch.float64, device: str = "cpu") -> Memory:
        window = self.window_ / self.time_scale_
        return MEMORIES[self.measure](self.n_coefficients, window, dtype=dtype, device=device)

    def _pack(self, panel: Panel, dtype: torch.dtype) -> Packed:
        rows = observed_rows(panel)
        values = self.scaler_.transform(rows.values)
        static = None if self.start_ is None else self.static_.transform(panel)
        packed = pack(rows.times / self.time_scale_, values, rows.offsets, static=static)
        return packed.to(torch.device(self.device), dtype)

    def _max_gap(self) -> float:
        """Longest gap that is integrated, in whole steps."""
        n_steps = np.ceil(_WINDOWS_INTEGRATED * self.window_ / self.step_size_)
        return float(n_steps * self.step_size_)

    def _states(self, model: PolyODE, panel: Panel) -> tuple[torch.Tensor, torch.Tensor]:
        """State (B, D, 1 + N) and memory (B, D, N) at the last observation of each series.

        Of long series only the recent part is run through, if one of twice the time and twice the
        rows makes no difference: the memory forgets, and the dynamics are set anew at each
        observation, but badly trained ones, and those that cross a long gap, may carry on more.
        """
        panel, reach, states = observed_part(panel), self._context(), None
        n_rows = np.zeros(panel.n_series, dtype=np.int64)
        while True:
            part = recent_part(panel, reach, n_rows)
            before = states
            with torch.no_grad():
                states = model.embed(self._pack(part, torch.float64))
            if part is panel or (before is not None and _agree(before, states)):
                return states
            reach, n_rows = 2 * reach, 2 * part.lengths

    def _all_states(self, panel: Panel) -> list[torch.Tensor]:
        """As `_states`, in chunks."""
        states = partial(self._states, self._model(torch.float64))
        parts = map_chunks(states, panel, n_rows=_CHUNK_ROWS)
        return [torch.cat(columns) for columns in zip(*parts, strict=True)]

    def _context(self) -> float:
        """Length of the past that a state depends on."""
        return CONTEXT_WINDOWS.get(self.measure, np.inf) * self.window_


def _agree(one: tuple[torch.Tensor, ...], other: tuple[torch.Tensor, ...]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.allclose(a, b, rtol=0, atol=_SAME_STATE) for a, b in pairs)
