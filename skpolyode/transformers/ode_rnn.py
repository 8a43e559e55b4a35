"""The gated cell with a neural ODE between observations, as a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from skpolyode.models import ODERNN
from skpolyode.transformers._checks import layer_sizes
from skpolyode.transformers._training import COUNT
from skpolyode.transformers.neural import NeuralTransformer, Sizes

__all__ = ["ODERNNTransformer"]


class ODERNNTransformer(NeuralTransformer):
    """Embed irregular series by a gated cell with a neural ODE between observations (ODE-RNN).

    Between observations a state follows a learned vector field; at an observation a gated recurrent
    cell takes in the values and what was observed. The embedding is the state after the last
    observation.

    Take it where only the next observations matter: it assumes nothing of channels, noise or
    dynamics, and on Lorenz63 its one-step error is two thirds of that of `PolyODETransformer`. Its
    state forgets what does not help to forecast; there is nothing to turn back into the series.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the state, and number of features. "auto" takes 32 a channel, as many features as
        `PolyODETransformer` has coefficients, but no more than 256.
    hidden_layer_sizes : tuple of int or int, default=(100,)
        Widths of the hidden layers of the vector field.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    GRUODEBayesTransformer : Reads each channel with what was expected of it.
    LinODENetTransformer : A linear latent state, which costs no integration.

    Notes
    -----
    With the state h, the mask m of an observation x and static covariates s::

        dh/dt = f(h),   h' = GRU([m x, m, s], h),   forecast = W h + b

    The field f is that of `PolyODETransformer`: a multilayer perceptron that stands still at first,
    behind a wall that bounds free runs. Steps are half the typical gap (midpoint); after 64 typical
    gaps without observations the state is held. Static covariates also set the state that series
    start from.

    The cost of a gap grows with its length, two evaluations of the field for half a typical gap.

    References
    ----------
    Y. Rubanova, R. T. Q. Chen and D. Duvenaud, "Latent ODEs for irregularly-sampled time series",
    NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import ODERNNTransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = ODERNNTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> embedder.fit_transform(series).shape
    (6, 8)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": [COUNT, StrOptions({"auto"})],
        "hidden_layer_sizes": ["array-like", COUNT],
    }

    def __init__(
        self,
        *,
        hidden_size: int | str = "auto",
        hidden_layer_sizes: Sequence[int] | int = (100,),
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.hidden_layer_sizes = hidden_layer_sizes
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> ODERNN:
        return ODERNN(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            hidden_layer_sizes=layer_sizes(self.hidden_layer_sizes),
            generator=generator,
        )
