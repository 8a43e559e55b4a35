r"""HiPPO-RNN: a gated cell whose memory is an exact polynomial projection over true gaps.

The cell reads a polynomial memory c of a few signals u, which it writes itself::

    h_k = GRU([m x, m, s, log(1 + gap), c], h),   u_k = W_u h_k,   c = memory of the path of u

with the mask m of an observation x and static covariates s. Between observations u goes along
lines: it is held, and at the next observation the line is put in the place of what was held. The
memory takes both in by exact steps over the gap, whatever its length. (A. Gu, T. Dao, S. Ermon, A.
Rudra, C. Re, "HiPPO: recurrent memory with optimal polynomial projections", NeurIPS 2020, section
2.5 for the cell; its code takes bilinear steps, those of the sliding window for all gaps alike.)

Forecasts are a polynomial of the time since the last observation, with coefficients from h.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from skpolyode.memory import Memory
from skpolyode.models.contract import Prediction, SequenceModel, State
from skpolyode.models.layers import (
    AgeHead,
    Start,
    drawn,
    observed_inputs,
    where_observed,
)
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["HiPPORNN"]


class HiPPORNN(SequenceModel):
    """A gated cell with an exact polynomial memory of what it writes, over packed observations.

    The state has the parts `h` (n, H), the written signals `u` (n, M), their memory `c` (n, M, N),
    and the times `since` the last and `elapsed` since the first observation, both (n, 1).

    Parameters
    ----------
    n_channels : int
        Number of channels D.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the cell.
    hidden_size : int, default=64
        Length H of the state of the cell.
    memory : Memory
        Measure with N coefficients a signal, in the model's unit of time.
    n_signals : int, default=1
        Number M of signals that the cell writes.
    head_size : int, default=64
        Width of the hidden layer of the head.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import HiPPORNN, pack
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = HiPPORNN(1, hidden_size=4, memory=LegTMemory(3, 2.0), generator=generator).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> {name: tuple(part.shape) for name, part in model.embed(data).items()}
    {'h': (1, 4), 'u': (1, 1), 'c': (1, 1, 3), 'since': (1, 1), 'elapsed': (1, 1)}
    """

    def __init__(
        self,
        n_channels: int,
        n_static: int = 0,
        hidden_size: int = 64,
        *,
        memory: Memory,
        n_signals: int = 1,
        head_size: int = 64,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_channels, n_static, hidden_size)
        self.memory, self.n_signals = memory, n_signals
        n_inputs = 2 * n_channels + n_static + 1 + n_signals * memory.n_coefficients
        self.start = Start(n_static, hidden_size)
        self.cell = drawn(nn.GRUCell, n_inputs, hidden_size, generator=generator)
        self.write = drawn(nn.Linear, hidden_size, n_signals, generator=generator)
        self.head = AgeHead(hidden_size, head_size, n_channels, generator)

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations: learned, with what static covariates say."""
        u = data.x.new_zeros(len(rows), self.n_signals)
        never = data.x.new_zeros(len(rows), 1)
        h, c = torch.tanh(self.start(data, rows)), self._memory(u).constant(u)
        return {"h": h, "u": u, "c": c, "since": never, "elapsed": never}

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps: the memory moves on, of signals that are held."""
        since = state["since"] + gap[:, None].to(state["since"].dtype)
        c = self._memory(state["c"]).hold(state["c"], state["u"], gap, elapsed)
        times = {"since": since, "elapsed": elapsed[:, None].to(since.dtype)}
        return state | {"c": c} | times

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; as it was where nothing was observed."""
        now, age = observed_inputs(data, rows), torch.log1p(state["since"])
        h = self.cell(torch.cat([now, age, state["c"].flatten(1)], dim=1), state["h"])
        u, memory = self.write(h), self._memory(h)
        # What is written first was always so; what comes later is led up to by a line.
        first = (data.elapsed[rows] == 0)[:, None]
        rise = torch.where(first, 0.0, u - state["u"])
        gap = torch.where(first[:, 0], 1.0, data.gap[rows])[:, None].expand_as(rise)
        bridged = state["c"] + memory.bridge(rise, gap, data.elapsed[rows])
        c = torch.where(first[..., None], memory.constant(u), bridged)
        new = {"h": h, "u": u, "c": c, "since": torch.zeros_like(state["since"])}
        return where_observed(data.mask[rows], new, state)

    def _memory(self, like: torch.Tensor) -> Memory:
        """The memory, where the model computes and in its type."""
        return self.memory.to(like.device, like.dtype)

    def predict(self, state: State) -> Prediction:
        """A polynomial of the time since the cell was set."""
        return Prediction(self.head(state["h"], state["since"]))

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """The memory of the signals (n, M N), and the state of the cell (n, H).

        With a measure of the whole history also its length in windows, which the coefficients do
        not tell.
        """
        blocks = {"memory": state["c"].flatten(1), "hidden": state["h"]}
        if self.memory.needs_duration:
            blocks["duration"] = state["elapsed"] / (self.memory.window or 1.0)
        return blocks


def _arguments(model: HiPPORNN) -> dict[str, Any]:
    names = ("n_channels", "n_static", "hidden_size")
    return dict(zip(names, model.sizes, strict=True)) | {
        "memory": model.memory,
        "n_signals": model.n_signals,
        "head_size": model.head.inner.out_features,
    }


register_module(HiPPORNN, _arguments)
