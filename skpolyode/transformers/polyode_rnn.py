"""PolyODE with a learned state beside signal and memory, as a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from skpolyode.embedders import MemoryReadout, ModelEmbedder
from skpolyode.memory import MEMORIES
from skpolyode.models import PolyODERNN
from skpolyode.models.gain import Gain
from skpolyode.panel import Panel
from skpolyode.panel.select import observed_rows
from skpolyode.transformers._checks import check_coefficients, layer_sizes
from skpolyode.transformers._training import COUNT, POSITIVE
from skpolyode.transformers.neural import NeuralTransformer, Sizes
from skpolyode.units import choose_window

__all__ = ["PolyODERNNTransformer"]

_STEP = 2 / 3  # of a typical gap
_BLOCKS = {
    "full": ("coefficients", "hidden"),
    "coefficients": ("coefficients",),
    "hidden": ("hidden",),
}


class PolyODERNNTransformer(NeuralTransformer):
    """Embed irregular series by a polynomial memory of a path that a learned state drives.

    A signal is followed, and remembered by orthogonal polynomials, as in `PolyODETransformer`. What
    moves it on is learned: a state as that of `ODERNNTransformer`, which a gated cell renews at
    observations, instead of the memory itself. The embedding is that memory, which
    `inverse_transform` turns back into the series, and the state.

    Take it where observations are precise and series are samples of some dynamics: it forecasts
    Lorenz63 and Lorenz96 at least as well as any sibling, and remembers as `PolyODETransformer`
    does, for 1.4 to 4 times its training. With noise, or few short series, that one is better: its
    dynamics see only signal and memory, and overfit less.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the learned state. "auto" takes 32 a channel, but no more than 256. Lower it for
        few series.
    n_coefficients : int, default=32
        Coefficients a channel. Raise it if the window holds more than about ten swings of the
        signal, which costs no training; lower it for fewer features.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history, however long.
    window : float or "auto", default="auto"
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
        "measure": [StrOptions({"legt", "legs"})],
        "window": [POSITIVE, StrOptions({"auto"})],
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
        window: float | str = "auto",
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
        window = sizes.window("auto" if self.measure == "legs" else self.window)
        model = PolyODERNN(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            history=MEMORIES[self.measure](self.n_coefficients, window),
            hidden_layer_sizes=layer_sizes(self.hidden_layer_sizes),
            step_size=_STEP,
            gain=Gain(sizes.n_channels) if self.observations == "noisy" else None,
            generator=generator,
        )
        return model.float()

    def _new_embedder(self, panel: Panel, generator: torch.Generator) -> ModelEmbedder:
        embedder, rows = super()._new_embedder(panel, generator), observed_rows(panel)
        window = choose_window("auto" if self.measure == "legs" else self.window, rows)
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
