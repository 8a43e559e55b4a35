r"""PolyODE-RNN: the signal and the memory of PolyODE, driven by a learned state.

The state h = [y, w] holds the signals y and a learned part w. One vector field moves both between
observations, ``dh/dt = phi(h)``. At an observation x with mask m, static covariates s and gain K::

    w' = GRU([m x, m, m (x - y), s], w),   y' = y + m K (x - y)

A memory follows the path of y, bridged to the observations as that of PolyODE::

    c_j' = c_j + m_j K_j (x_j - y_j) rho(time since the previous observation of j)

The dynamics never see the memory: what they know of the past is in w. (w is the state of ODE-RNN,
whose forecast is a map of the state; y, bridge and memory are those of PolyODE, which resets its
hidden state from the memory instead. The combination is ours.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions
from torch import nn

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.embedders import MemoryReadout, ModelEmbedder
from skpolyode.memory import MEMORIES, PATH_MEASURES, Memory
from skpolyode.memory.update import drive, take_in
from skpolyode.models.contract import Prediction, SequenceModel, Sizes, State
from skpolyode.models.gain import Gain
from skpolyode.models.layers import Start, drawn
from skpolyode.models.packed import Packed
from skpolyode.panel import Panel
from skpolyode.panel.select import observed_rows
from skpolyode.panel.units import choose_window
from skpolyode.saving.modules import register_module
from skpolyode.transformers.neural import NeuralTransformer
from skpolyode.transformers.parameters import (
    COUNT,
    DURATION,
    Duration,
    check_coefficients,
    layer_sizes,
)

__all__ = ["PolyODERNN", "PolyODERNNTransformer"]


@register_module
class PolyODERNN(SequenceModel):
    """Signals that a learned state drives, and their polynomial memory.

    The state has the part `h` (n, D + H), the signals first, and in `eval` mode the part `history`
    (n, D, N), the memory: training does without it.

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the cell.
    hidden_size : int, default=64
        Length H of the learned part of the state.
    history : Memory or None, default=None
        Measure with N coefficients a channel, in the model's unit of time; None follows no path.
    hidden_layer_sizes : sequence of int, default=(64, 64)
        Widths of the hidden layers of the vector field, which stands still at first.
    step_size : float, default=0.5
        Longest integration step.
    max_gap : float, default=64.0
        Longest gap that is integrated; after it the state is held.
    stepper : str, default="rk4"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    gain : Gain or None, default=None
        Share of an innovation by which an observation moves the signal; None is all of it.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import PolyODERNN
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = PolyODERNN(1, hidden_size=4, history=LegTMemory(3, 2.0), generator=generator)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> state = model.double().eval().embed(pack(times, values, np.array([0, 3])))
    >>> {name: tuple(part.shape) for name, part in state.items()}
    {'h': (1, 5), 'history': (1, 1, 3)}
    >>> state["h"][0, 0].item()  # the signal is the last observation
    0.0
    """

    def __init__(
        self,
        n_channels: int,
        n_static: int = 0,
        hidden_size: int = 64,
        *,
        history: Memory | None = None,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        step_size: float = 0.5,
        max_gap: float = 64.0,
        stepper: str = "rk4",
        gain: Gain | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_channels, self.n_static, self.hidden_size = n_channels, n_static, hidden_size
        self.history, self.gain = history, gain
        self.hidden_layer_sizes = list(hidden_layer_sizes)
        self.step_size, self.max_gap, self.stepper = step_size, max_gap, stepper
        size = n_channels + hidden_size
        self.start = Start(n_static, size)
        self.field = WalledMLP(size, hidden_layer_sizes, generator=generator).stand_still()
        self.cell = drawn(nn.GRUCell, 3 * n_channels + n_static, hidden_size, generator=generator)

    @property
    def signals(self) -> slice:
        """Coordinates of a state that are the signals."""
        return slice(0, self.n_channels)

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        h = self.start(data, rows)
        if self.history is None or self.training:
            return {"h": h}
        return {"h": h, "history": self.history.constant(h[:, self.signals])}

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps; a state without memory, which training uses, has none after them."""
        follows = "history" in state
        h, path = integrate(
            self.field,
            state["h"],
            gap.clamp(max=self.max_gap),
            step_size=self.step_size,
            stepper=STEPPERS[self.stepper],
            recorded=self.signals if follows else None,
        )
        if not follows:
            return {"h": h}
        c = self.history.propagate(state["history"], gap, elapsed)
        signal = h[:, self.signals]  # (n, D)
        c = c + drive(self.history, path, signal, gap, elapsed, self.max_gap)
        return {"h": h, "history": c}

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; unchanged where nothing was observed."""
        y, w = state["h"].split([self.n_channels, self.hidden_size], dim=1)  # (n, D), (n, H)
        x, mask = data.x[rows], data.mask[rows]
        rise = torch.where(mask, x - y, 0.0)
        read = [torch.where(mask, x, 0.0), mask.to(x.dtype), rise, data.static[rows]]
        w = torch.where(mask.any(dim=1, keepdim=True), self.cell(torch.cat(read, dim=1), w), w)
        if (share := self.share(data, rows)) is None:
            y = torch.where(mask, x, y)
        else:
            rise = share * rise
            y = y + rise
        after = {"h": torch.cat([y, w], dim=1)}
        if "history" in state:
            last = data.seen[rows], data.channel_gap[rows], data.elapsed[rows]
            after["history"] = state["history"] + take_in(self.history, rise, *last)
        return after

    def predict(self, state: State) -> Prediction:
        """The signals."""
        return Prediction(state["h"][:, self.signals])

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """Coefficients (n, D, N) of the path, and the state (n, D + H), the signals first."""
        if "history" not in state:
            return {"hidden": state["h"]}
        return {"coefficients": state["history"], "hidden": state["h"]}


_BLOCKS = {
    "full": ("coefficients", "hidden"),
    "coefficients": ("coefficients",),
    "hidden": ("hidden",),
}


class PolyODERNNTransformer(NeuralTransformer):
    """Embed irregular series by a polynomial memory of a path that a learned state drives.

    As in `PolyODETransformer`, a memory of orthogonal polynomials follows a signal. Here a learned
    state drives the signal: that of `ODERNNTransformer`, which a gated cell updates at
    observations, in place of the memory itself. The embedding is the memory, which
    `inverse_transform` turns back into the series, and the state.

    Use it where observations are precise and series are samples of some dynamics: it forecasts
    Lorenz63 and Lorenz96 at least as well as any other model here, and remembers as
    `PolyODETransformer` does, for 1.4 to 4 times its training. With noise, or few short series,
    `PolyODETransformer` is better: its dynamics see only signal and memory, and overfit less.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the learned state. "auto" takes 32 per channel, but no more than 256. Lower it for
        few series.
    n_coefficients : int, default=32
        Coefficients per channel. Raise it if the window holds more than about ten swings of the
        signal, which costs no training; lower it for fewer features.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history, however long.
    window : float, timedelta, str or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series of `fit`. Lower it if only the recent past matters. Not used by "legs".
    hidden_layer_sizes : tuple of int or int, default=(64, 64)
        Widths of the hidden layers of the vector field.
    embedding : {"full", "coefficients", "hidden"}, default="full"
        What `transform` returns: the coefficients, the state that forecasts go on from (signals
        first), or both.
    observations : {"exact", "noisy"}, default="exact"
        "exact" sets the signal to what is observed, so that paths pass through all observations.
        "noisy" learns how far it goes towards them: all of the way but for a little where there is
        no noise.
    %(training)s

    Attributes
    ----------
    window_ : float
        Length of the remembered past, in the units of `times`.
    coverage_ : float
        Share of the typical (median) series that the window covers.
    observations_per_coefficient_ : float
        Rows of the typical series in the window for each coefficient: about two or more are too
        much to remember well.
    %(trained)s

    See Also
    --------
    PolyODETransformer : Dynamics that see signal and memory only; better with noise.
    ODERNNTransformer : The learned state alone.

    Notes
    -----
    With the state h = [y, w], the mask m of an observation x and static covariates s::

        dh/dt = f(h),   w' = GRU([m x, m, m (x - y), s], w),   y' = y + m K (x - y)

    The gain K is 1, or that of the channel, learned with the time since its last observation. The
    coefficients are those of the path of y, bent by a ramp at each observation to end in y'. Steps
    are two thirds of the typical gap (of order four); after 64 typical gaps without observations
    the state is held. Static covariates also set the state that series start from.

    The cost of a gap grows with its length, six evaluations of the field for a typical gap.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023, for signal and memory.

    Y. Rubanova, R. T. Q. Chen and D. Duvenaud, "Latent ODEs for irregularly-sampled time series",
    NeurIPS 2019, for the state.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import PolyODERNNTransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> settings = {"hidden_size": 8, "n_coefficients": 16, "max_epochs": 2, "random_state": 0}
    >>> embedder = PolyODERNNTransformer(**settings)
    >>> embedder.fit_transform(series).shape
    (6, 25)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": [COUNT, StrOptions({"auto"})],
        "n_coefficients": [COUNT],
        "measure": [StrOptions(set(PATH_MEASURES))],
        "window": DURATION,
        "hidden_layer_sizes": ["array-like", COUNT],
        "embedding": [StrOptions(set(_BLOCKS))],
        "observations": [StrOptions({"exact", "noisy"})],
    }

    has_coefficients = True

    def __init__(
        self,
        *,
        hidden_size: int | str = "auto",
        n_coefficients: int = 32,
        measure: str = "legt",
        window: Duration = "auto",
        hidden_layer_sizes: Sequence[int] | int = (64, 64),
        embedding: str = "full",
        observations: str = "exact",
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        self.hidden_layer_sizes = hidden_layer_sizes
        self.embedding = embedding
        self.observations = observations
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> PolyODERNN:
        measure = MEMORIES[self.measure]
        window = sizes.window("auto" if measure.whole_history else self.window)
        return PolyODERNN(
            *sizes.of_model(self.hidden_size),
            history=measure(self.n_coefficients, window),
            hidden_layer_sizes=layer_sizes(self.hidden_layer_sizes),
            step_size=2 / 3,  # of the typical gap
            gain=Gain(sizes.n_channels) if self.observations == "noisy" else None,
            generator=generator,
        ).float()

    def _new_embedder(self, panel: Panel, generator: torch.Generator) -> ModelEmbedder:
        embedder, rows = super()._new_embedder(panel, generator), observed_rows(panel)
        whole = MEMORIES[self.measure].whole_history
        window = choose_window("auto" if whole else self.window, rows)
        self._describe_window(rows, window)
        memory = embedder.model.history.to("cpu", torch.float64)
        past = MemoryReadout(memory, window, embedder.units)
        return replace(embedder, blocks=_BLOCKS[self.embedding], past=past)

    def _continued(self, embedder: ModelEmbedder) -> ModelEmbedder:
        memory, gain = embedder.past.memory, embedder.model.gain
        fitted = {
            "measure": next(name for name, kind in MEMORIES.items() if type(memory) is kind),
            "n_coefficients": memory.n_coefficients,
            "observations": "exact" if gain is None else "noisy",
        }
        for name, value in fitted.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"warm_start=True continues the last fit, which had {name}={value!r}; keep it "
                    "or set warm_start=False."
                )
        return replace(super()._continued(embedder), blocks=_BLOCKS[self.embedding])

    def _check_invertible(self) -> None:
        check_coefficients(self.embedder_.blocks)

    def _channel_features(self) -> list[list[str]]:
        past, blocks = self.embedder_.past, self.embedder_.blocks
        return [[f"c{n}" for n in range(past.n_coefficients)]] if "coefficients" in blocks else []
