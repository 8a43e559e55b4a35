"""The linear latent ODE with a filter, as a transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from skpolyode.models import LinODENet
from skpolyode.transformers._checks import layer_sizes
from skpolyode.transformers._training import COUNT
from skpolyode.transformers.neural import NeuralTransformer, Sizes

__all__ = ["LinODENetTransformer"]


class LinODENetTransformer(NeuralTransformer):
    """Embed irregular series by a linear latent ODE and a Kalman-like filter (LinODENet).

    Between observations a latent state follows a linear ODE, whose solution is exact for any gap
    and needs no solver; at an observation it is decoded, corrected by the error of the forecast,
    and encoded again. The embedding is the latent state after the last observation.

    Take it where gaps are of very different lengths: they cost nothing, and are exact however long.
    Its embedding remembers what helps to forecast, and little else of the past; there is nothing to
    turn back into the series.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the latent state, and number of features; even, and at least the number of
        channels. "auto" takes 32 a channel, as many features as `PolyODETransformer` has
        coefficients, but no more than 256.
    hidden_layer_sizes : tuple of int or int, default=(64, 64)
        Widths inside the residual blocks of the decoder, and of the encoder.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    PolyODETransformer : Nonlinear dynamics, and a memory that can be read back.

    Notes
    -----
    With the latent state z, the decoder psi, the encoder phi and the mask m of an observation x::

        dz/dt = A z,   u = psi(z),   z' = phi(u - F(m (u_obs - x)))

    Forecasts are u_obs, the first entries of u. ``F(0) = 0``, so that the filter changes nothing
    where the forecast was right. Decoder, encoder and F are residual networks that start as the
    identity (ReZero), and A as a skew-symmetric matrix. A is held in its eigenbasis, with positive
    decay rates: a gap costs a cosine and a sine a pair of entries, and forecasts stay bounded for
    any gap. Static covariates set the state that series start from.

    The cost of training and embedding is that of a small network at each observation, whatever the
    gaps.

    References
    ----------
    R. Scholz, S. Born, N. Duong-Trung, M. N. Cruz-Bournazou and L. Schmidt-Thieme, "Latent linear
    ODEs with neural Kalman filtering for irregular time series forecasting", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import LinODENetTransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = LinODENetTransformer(hidden_size=8, max_epochs=2, random_state=0)
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
        hidden_layer_sizes: Sequence[int] | int = (64, 64),
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.hidden_layer_sizes = hidden_layer_sizes
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> LinODENet:
        return LinODENet(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            block_sizes=layer_sizes(self.hidden_layer_sizes),
            generator=generator,
        )
