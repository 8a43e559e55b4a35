"""The state that log-signatures drive, as a transformer."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import Interval, StrOptions

from skpolyode.models import NeuralRDE
from skpolyode.transformers._training import COUNT
from skpolyode.transformers.neural import NeuralTransformer, Sizes

__all__ = ["NeuralRDETransformer"]


class NeuralRDETransformer(NeuralTransformer):
    """Embed irregular series by a state that log-signatures of the path drive (Neural RDE).

    What was observed is a path of time, last values and counts of observations. The log-signature
    of each stretch of it, its increments, areas and so on, moves a learned state. The embedding is
    the state after the last observation. With ``depth=1`` it is a Neural CDE.

    Take it where the order of events in different channels tells something, and for series with
    many more observations than are needed to follow them: then longer stretches, at depth 2 or 3,
    sum them up. For sparse samples of smooth dynamics the others forecast better.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the state, and number of features. "auto" takes 32 a channel, as many features as
        `PolyODETransformer` has coefficients, but no more than 256.
    depth : int, default=2
        Depth of the log-signatures, 1 to 3. A state holds ``(1 + 2 D)**depth`` numbers for D
        channels: use 1 for more than about ten.
    stretch : int, default=1
        Observations of each stretch. With more of them the state is moved less often, and less
        finely.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    ODERNNTransformer : Reads values instead of their changes.

    Notes
    -----
    With the log-signature l of the path from the start of a stretch until now::

        dz/ds = W (f(z) * P l) for s in [0, 1],   forecast = network(z(1))

    f is a network that ends in tanh, W and P are matrices. The path is causal: between observations
    time goes on, up to 16 typical gaps, and values and counts stand still until they step.
    The first observation, and static covariates, set the state that series start from.

    Each observation costs four evaluations of the network, whatever the gap.

    References
    ----------
    J. Morrill, C. Salvi, P. Kidger, J. Foster and T. Lyons, "Neural rough differential equations
    for long time series", ICML 2021; P. Kidger, J. Morrill, J. Foster and T. Lyons, "Neural
    controlled differential equations for irregular time series", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import NeuralRDETransformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = NeuralRDETransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> embedder.fit_transform(series).shape
    (6, 8)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": [COUNT, StrOptions({"auto"})],
        "depth": [Interval(Integral, 1, 3, closed="both")],
        "stretch": [COUNT],
    }

    def __init__(
        self,
        *,
        hidden_size: int | str = "auto",
        depth: int = 2,
        stretch: int = 1,
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.depth = depth
        self.stretch = stretch
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> NeuralRDE:
        return NeuralRDE(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            depth=self.depth,
            stretch=self.stretch,
            generator=generator,
        )
