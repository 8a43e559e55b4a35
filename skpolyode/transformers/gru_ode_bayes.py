"""The continuous gated cell with a Bayesian jump, as a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from skpolyode.models import GRUODEBayes
from skpolyode.transformers._training import COUNT
from skpolyode.transformers.neural import NeuralTransformer, Sizes

__all__ = ["GRUODEBayesTransformer"]


class GRUODEBayesTransformer(NeuralTransformer):
    """Embed irregular series by a continuous gated cell that jumps at observations (GRU-ODE-Bayes).

    Between observations a bounded state follows the continuous limit of a gated recurrent unit; at
    an observation it jumps, by what was expected of each observed channel and how wrong that was.
    The model forecasts normal distributions and is trained by their likelihood. The embedding is
    the state after the last observation.

    Take it where channels are observed one at a time and series are noisy: each channel is read by
    weights of its own, and an error counts by what was expected of it. Its state forgets what does
    not help to forecast; there is nothing to turn back into the series.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the state, and number of features. "auto" takes 32 a channel, as many features as
        `PolyODETransformer` has coefficients, but no more than 256.
    head_size : int, default=64
        Width of the hidden layer that gives mean and scale of the channels.
    learning_rate_init : float, default=0.1
        Peak of the one-cycle schedule. Lower it if training diverges.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    ODERNNTransformer : A plain cell, and a free vector field between observations.
    LinODENetTransformer : A linear latent state, which costs no integration.

    Notes
    -----
    With the state h, the gates r and z and the candidate u of a gated recurrent unit, and the
    forecast mean mu and standard deviation sigma of each channel::

        dh/dt = v (1 - z) (u - h),   h' = GRU(f(m, [x, mu, log sigma^2, (x - mu) / sigma]), h)

    The rates v are learned, so that the unit of time does not decide what the cell can follow; none
    is more than two a typical gap, which the steps of half such a gap (midpoint) still follow.
    After 64 typical gaps without observations the state is held. The loss is the negative
    log-likelihood of what was observed plus, with weight 1e-4, the divergence of the distribution
    after the jump from a normal one of standard deviation 0.01 around the observation. Static
    covariates set the state that series start from, and are inputs of each jump.

    The cost of a gap grows with its length, two evaluations of the cell for half a typical gap.

    References
    ----------
    E. De Brouwer, J. Simm, A. Arany and Y. Moreau, "GRU-ODE-Bayes: continuous modeling of
    sporadically-observed time series", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import GRUODEBayesTransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = GRUODEBayesTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> embedder.fit_transform(series).shape
    (6, 8)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": [COUNT, StrOptions({"auto"})],
        "head_size": [COUNT],
    }

    def __init__(
        self,
        *,
        hidden_size: int | str = "auto",
        head_size: int = 64,
        learning_rate_init: float = 0.1,
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.head_size = head_size
        super().__init__(learning_rate_init=learning_rate_init, **training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> GRUODEBayes:
        return GRUODEBayes(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            head_size=self.head_size,
            generator=generator,
        )
