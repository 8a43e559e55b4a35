"""Layers of diagonal state spaces, as a transformer."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from sklearn.utils._param_validation import StrOptions

from skpolyode.memory import LegTMemory
from skpolyode.models import S4, Packed, SequenceModel
from skpolyode.training.loop import Task
from skpolyode.training.tasks import SegmentTask
from skpolyode.transformers._training import COUNT, POSITIVE
from skpolyode.transformers.neural import NeuralTransformer, Sizes

__all__ = ["S4Transformer"]


class S4Transformer(NeuralTransformer):
    """Embed irregular series by layers of diagonal state spaces, exact over true gaps (S4).

    Each layer drives linear states by its features, by the exact solution over every gap, and mixes
    what is read of them. The embedding is the output of the last layer at the last observation.

    Take it for long series in which more than the recent past helps to forecast: its states decay
    at speeds of their own, some within an observation, some over a hundred. Layers are computed for
    many observations at once, and training goes through segments of up to 64 of them: `batch_size`
    counts their intervals, and "auto" makes 32 minibatches an epoch; ``n_items`` of `history_`
    counts segments.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Number of features of each layer, and of the embedding. "auto" takes 32 a channel, as many
        as `PolyODETransformer` has coefficients, but no more than 256.
    n_layers : int, default=2
        Number of layers.
    state_size : int, default=8
        Length of the state of each feature, in real numbers; even. Raise it for long series.
    inputs : {"impulses", "held"}, default="impulses"
        What the features of an observation are until the next one: they were an impulse at the
        observation, or they go on. Choose "held" where the signal is one of steps.
    memory : bool, default=False
        Whether a polynomial memory of the observations, joined by lines, is an input of the first
        layer, and a part of the embedding: as `HiPPOTransformer` has it, of 32 coefficients a
        channel. This is our reading of the "Extended-S4" of the PolyODE paper, which says no more
        than the name.
    window : float or "auto", default="auto"
        Length of the past in that memory, in the units of `times`. "auto" takes the length of the
        longest series of `fit`.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    HiPPORNNTransformer : A gated cell with a memory of polynomials.

    Notes
    -----
    For each feature u of a layer, with the gap g to the next observation::

        dx/dt = lambda x + s b u,   y = 2 Re(C x) + D u,   next u = u + GLU(W GELU(y))

    ``lambda`` has negative real parts, s is a learned speed; layers are normalised first. The first
    features are a map of values, mask, static covariates and gap. Forecasts are a network of the
    outputs of all layers, with the states as they are by then.

    Two complex products a state, layer and observation, whatever the gap. Static covariates also
    set the features that series start from.

    References
    ----------
    A. Gu, K. Goel and C. Re, "Efficiently modeling long sequences with structured state spaces",
    ICLR 2022; A. Gu, A. Gupta, K. Goel and C. Re, "On the parameterization and initialization of
    diagonal state space models", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import S4Transformer
    >>> rng = np.random.default_rng(0)
    >>> times = [np.sort(rng.uniform(0, 6, size=n)) for n in (12, 15, 9, 14, 11, 13)]
    >>> series = [(t, np.sin(2 * t + phase)) for phase, t in enumerate(times)]
    >>> embedder = S4Transformer(hidden_size=8, state_size=4, max_epochs=2, random_state=0)
    >>> embedder.fit_transform(series).shape
    (6, 8)
    >>> embedder.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": [COUNT, StrOptions({"auto"})],
        "n_layers": [COUNT],
        "state_size": [COUNT],
        "inputs": [StrOptions({"held", "impulses"})],
        "memory": ["boolean"],
        "window": [POSITIVE, StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        hidden_size: int | str = "auto",
        n_layers: int = 2,
        state_size: int = 8,
        inputs: str = "impulses",
        memory: bool = False,
        window: float | str = "auto",
        **training: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.n_layers = n_layers
        self.state_size = state_size
        self.inputs = inputs
        self.memory = memory
        self.window = window
        super().__init__(**training)

    def _new_task(self, model: SequenceModel, data: Packed, held_out: torch.Tensor) -> Task:
        return SegmentTask(model, data, held_out, **self._looks_ahead(data, held_out))

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> S4:
        if self.state_size % 2:
            raise ValueError(f"state_size must be even, got {self.state_size}.")
        return S4(
            sizes.n_channels,
            sizes.n_static,
            sizes.of_state(self.hidden_size),
            pairs=[self.state_size // 2] * self.n_layers,
            inputs=self.inputs,
            memory=LegTMemory(32, sizes.window(self.window)) if self.memory else None,
            generator=generator,
        ).float()
