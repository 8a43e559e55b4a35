"""The gated cell with a polynomial memory of what it writes, as a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from skpolyode.memory import MEMORIES
from skpolyode.models import HiPPORNN
from skpolyode.transformers._training import COUNT, POSITIVE
from skpolyode.transformers.neural import NeuralTransformer, Sizes

__all__ = ["HiPPORNNTransformer"]


class HiPPORNNTransformer(NeuralTransformer):
    """Embed irregular series by a gated cell with a polynomial memory of its own (HiPPO-RNN).

    At each observation a gated recurrent cell writes a few signals, mixtures of what was observed
    and of its own state; a memory of orthogonal polynomials follows these signals by exact steps
    over true gaps, and is what the cell can recall. The embedding is that memory, with the state
    of the cell.

    Take it where the past matters and there is too much of it to remember channel by channel: many
    channels share a few signals. The signals are what helps to forecast; they are mixtures, and
    not to be turned back into the series.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the state of the cell. "auto" takes 32 a channel, but no more than 256.
    n_coefficients : int, default=32
        Coefficients of the memory of each signal that the cell writes. There are so many signals
        that all have 32 coefficients a channel, but no more than 256: with the default as many
        signals as channels, up to eight. Lower it for more and coarser ones.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history, however long.
    window : float or "auto", default="auto"
        Length of the remembered past, in the units of `times`. "auto" takes the length of the
        longest series of `fit`. Lower it if only the recent past matters. Not used by "legs".
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

    The memory takes the signals in along straight lines. Forecasts far ahead tend to a constant of
    each state. Static covariates also set the state that series start from. With
    ``measure="legs"`` the last feature is "duration0", the length of the history, in lengths of the
    longest series of training.

    A gap costs the same however long it is: two products with tables of the memory.

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
    >>> embedder = HiPPORNNTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> embedder.fit_transform(series).shape
    (6, 40)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": [COUNT, StrOptions({"auto"})],
        "n_coefficients": [COUNT],
        "measure": [StrOptions({"legt", "legs"})],
        "window": [POSITIVE, StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        hidden_size: int | str = "auto",
        n_coefficients: int = 32,
        measure: str = "legt",
        window: float | str = "auto",
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> HiPPORNN:
        window = sizes.window("auto" if self.measure == "legs" else self.window)
        model = HiPPORNN(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            memory=MEMORIES[self.measure](self.n_coefficients, window),
            n_signals=max(1, sizes.of_state("auto") // self.n_coefficients),
            generator=generator,
        )
        return model.float()
