r"""HiPPO-RNN: a gated cell whose memory is an exact polynomial projection over true gaps.

The cell reads a polynomial memory c of a few signals u, which it also writes::

    h_k = GRU([m x, m, s, log(1 + gap), c], h),   u_k = W_u h_k,   c = memory of the path of u

with the mask m of an observation x and static covariates s. Between observations u is linear: it
is held, and at the next observation a line replaces the held value. The memory follows both by
exact steps over a gap of any length. (A. Gu, T. Dao, S. Ermon, A. Rudra, C. Re, "HiPPO: recurrent
memory with optimal polynomial projections", NeurIPS 2020, section 2.5 for the cell; its code takes
bilinear steps, for the sliding window the same for all gaps.)

Forecasts are a polynomial of the time since the last observation, with coefficients from h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions
from torch import Tensor, nn

from skpolyode.dynamics.field import drawn
from skpolyode.memory import MEMORIES, PATH_MEASURES, Memory
from skpolyode.models.contract import Packed, Prediction, Sizes, State
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import (
    AgeHead,
    SiblingModel,
    SiblingTransformer,
    observed_inputs,
    where_observed,
)
from skpolyode.transformers.base import COUNT, DURATION, Duration


@register_module
@dataclass(eq=False, repr=False, kw_only=True)
class HiPPORNN(SiblingModel):
    """A gated cell with an exact polynomial memory of the signals that it writes.

    The state has the parts `h` (n, H), the written signals `u` (n, M), their memory `c` (n, M, N),
    and the times `since` the last and `elapsed` since the first observation, both (n, 1).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the cell.
    hidden_size : int, default=64
        Length H of the state of the cell.
    generator : torch.Generator or None, default=None
        Source of the initial weights.
    memory : Memory
        Measure with N coefficients per signal, in the model's unit of time.
    n_signals : int, default=1
        Number M of signals that the cell writes.
    head_size : int, default=64
        Width of the hidden layer of the head.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import HiPPORNN
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = HiPPORNN(1, hidden_size=4, memory=LegTMemory(3, 2.0), generator=generator).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> {name: tuple(part.shape) for name, part in model.embed(data).items()}
    {'h': (1, 4), 'u': (1, 1), 'c': (1, 1, 3), 'since': (1, 1), 'elapsed': (1, 1)}
    """

    memory: Memory
    n_signals: int = 1
    head_size: int = 64

    def _make_layers(self, generator: torch.Generator | None) -> None:
        size, n_memory = self.hidden_size, self.n_signals * self.memory.n_coefficients
        n_inputs = 2 * self.n_channels + self.n_static + 1 + n_memory
        self.cell = drawn(nn.GRUCell, n_inputs, size, generator=generator)
        self.write = drawn(nn.Linear, size, self.n_signals, generator=generator)
        self.head = AgeHead(size, self.head_size, self.n_channels, generator)

    def initial(self, data: Packed, rows: Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        u = data.x.new_zeros(len(rows), self.n_signals)
        never = data.x.new_zeros(len(rows), 1)
        h, c = torch.tanh(self.start(data, rows)), self.memory.constant(u)
        return {"h": h, "u": u, "c": c, "since": never, "elapsed": never}

    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps: the memory follows the held signals."""
        since = state["since"] + gap[:, None].to(state["since"].dtype)
        c = self.memory.hold(state["c"], state["u"], gap, elapsed)
        return state | {"c": c, "since": since, "elapsed": elapsed[:, None].to(since.dtype)}

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after observations; unchanged where nothing was observed."""
        now, age = observed_inputs(data, rows), torch.log1p(state["since"])
        h = self.cell(torch.cat([now, age, state["c"].flatten(1)], dim=1), state["h"])
        u, memory = self.write(h), self.memory  # (n, M)
        # The first signals are constant in the past; a line leads to later ones.
        first = (data.elapsed[rows] == 0)[:, None]
        rise = torch.where(first, 0.0, u - state["u"])
        gap = torch.where(first[:, 0], 1.0, data.gap[rows])[:, None].expand_as(rise)  # (n, M)
        bridged = state["c"] + memory.bridge(rise, gap, data.elapsed[rows])
        c = torch.where(first[..., None], memory.constant(u), bridged)
        new = {"h": h, "u": u, "c": c, "since": torch.zeros_like(state["since"])}
        return where_observed(data.mask[rows], new, state)

    def predict(self, state: State) -> Prediction:
        """A polynomial in the time since the last observation."""
        return Prediction(self.head(state["h"], state["since"]))

    def features(self, state: State) -> dict[str, Tensor]:
        """The memory of the signals (n, M N), and the state of the cell (n, H).

        With a measure of the whole history, the length of the history in windows as well, which the
        coefficients do not contain.
        """
        blocks = {"memory": state["c"].flatten(1), "hidden": state["h"]}
        if self.memory.whole_history:
            blocks["duration"] = state["elapsed"] / (self.memory.window or 1.0)
        return blocks


class HiPPORNNTransformer(SiblingTransformer):
    """Embed irregular series by a gated cell with a polynomial memory (HiPPO-RNN).

    At each observation a gated recurrent cell writes a few signals, mixtures of what was observed
    and of its state; a memory of orthogonal polynomials follows these signals by exact steps over
    true gaps, and the cell reads it. The embedding is that memory, with the state of the cell.

    Use it where the past matters but there are too many channels for a memory of each: they share a
    few signals. The signals are mixtures that help to forecast, and cannot be turned back into the
    series.

    Parameters
    ----------
    n_coefficients : int, default=32
        Coefficients of the memory of each signal that the cell writes. It determines the number of
        signals: all together have 32 coefficients per channel, but no more than 256. By default
        there are as many signals as channels, up to eight; a lower number makes more and coarser
        signals.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history, however long.
    window : float, timedelta, str or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series of `fit` that is no outlier. Lower it if only the recent past matters. Not
        used by "legs".
    hidden_size : int or "auto", default="auto"
        Length of the state of the cell. "auto" takes 32 per channel, but no more than 256.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    HiPPOTransformer : The memory of the observations themselves, without training.
    PolyODETransformer : A memory of the channels, driven by learned dynamics.

    Notes
    -----
    With the mask m of an observation x and static covariates s::

        h' = GRU([m x, m, s, log(1 + gap), c], h),   u = W h' + b,   c' = memory of the path of u
        forecast = network(h', time since then)

    The memory follows the signals along straight lines. Forecasts far ahead tend to a constant for
    each state. Static covariates also set the initial state. With ``measure="legs"`` the last
    feature is "duration0", the length of the history, relative to the longest training series.

    A gap of any length costs two products with tables of the memory.

    References
    ----------
    A. Gu, T. Dao, S. Ermon, A. Rudra and C. Re, "HiPPO: recurrent memory with optimal polynomial
    projections", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import HiPPORNNTransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> transformer = HiPPORNNTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 40)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "n_coefficients": [COUNT],
        "measure": [StrOptions(set(PATH_MEASURES))],
        "window": DURATION,
    }

    model = HiPPORNN

    def __init__(
        self,
        *,
        n_coefficients: int = 32,
        measure: str = "legt",
        window: Duration = "auto",
        **training: Any,
    ) -> None:
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        measure = MEMORIES[self.measure]
        window = sizes.window(self.window, measure.whole_history)
        n_signals = max(1, sizes.of_state("auto") // self.n_coefficients)
        return {"memory": measure(self.n_coefficients, window), "n_signals": n_signals}
