r"""ODE-RNN: a neural ODE between observations, a gated cell at observations.

Between observations ``dh/dt = f(h)``, at an observation x with mask m ``h' = GRU([m x, m], h)``;
forecasts are a linear map of h. f reads the values of known inputs, and the cell the impulses. (Y.
Rubanova, R. T. Q. Chen, D. Duvenaud, "Latent ODEs for irregularly-sampled time series", NeurIPS
2019; forward in time and with the true gaps, unlike the encoder in its code.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.dynamics.field import drawn
from skpolyode.models.contract import Packed, Prediction, Sizes, State, driven_update
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import DrivenCell, SiblingTransformer, observed_inputs
from skpolyode.transformers.base import COUNT
from skpolyode.transformers.neural import layer_sizes


@register_module
@dataclass(eq=False, repr=False, kw_only=True)
class ODERNN(DrivenCell):
    """A neural ODE between observations and a gated cell at observations.

    The state has the part `h` (n, H).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the cell.
    hidden_size : int, default=64
        Length H of the state.
    generator : torch.Generator or None, default=None
        Source of the initial weights.
    step_size : float, default=0.5
        Longest integration step.
    max_gap : float, default=64.0
        Longest gap that is integrated; after it the state is held.
    stepper : str, default="midpoint"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    inputs : sequence of int, default=(0, 0, 0)
        Numbers of inputs of the kinds "hold", "linear" and "impulse". In `h` the values of the
        first two follow the state, then slopes.
    hidden_layer_sizes : sequence of int, default=(100,)
        Widths of the hidden layers of the vector field, which is 0 initially.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import ODERNN
    >>> model = ODERNN(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> model.embed(data)["h"].shape
    torch.Size([1, 4])
    """

    hidden_layer_sizes: Sequence[int] = (100,)

    def _make_layers(self, generator: torch.Generator | None) -> None:
        driven, size = self.inputs, self.hidden_size
        levels = {"n_levels": driven.n_levels, "n_linear": driven.n_linear}
        self.field = WalledMLP(size, self.hidden_layer_sizes, **levels, generator=generator)
        self.field.stand_still()
        n_seen = 2 * self.n_channels + self.n_static + driven.n_impulse
        self.cell = drawn(nn.GRUCell, n_seen, size, generator=generator)
        self.readout = drawn(nn.Linear, size, self.n_channels, generator=generator)

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations and impulses; unchanged where there are none."""
        h, seen = state["h"][:, : self.hidden_size], observed_inputs(data, rows)
        return {"h": driven_update(self.cell, seen, h, data, rows, self.inputs.n_state)}

    def predict(self, state: State) -> Prediction:
        """A linear map of the state."""
        return Prediction(self.readout(state["h"][:, : self.hidden_size]))


class ODERNNTransformer(SiblingTransformer):
    """Embed irregular series by a gated cell with a neural ODE between observations (ODE-RNN).

    Between observations a state follows a learned vector field; at an observation a gated recurrent
    cell reads the values and their mask. The embedding is the state after the last
    observation.

    Use it where only the next observations matter: it makes no assumptions on channels, noise or
    dynamics. Its state forgets what does not help to forecast, and cannot be turned back into the
    series.

    Parameters
    ----------
    hidden_layer_sizes : tuple of int or int, default=(100,)
        Widths of the hidden layers of the vector field.
    hidden_size : int or "auto", default="auto"
        Length of the state, and number of features. "auto" takes 32 per channel, as many features
        as `PolyODETransformer` has coefficients, but no more than 256.
    %(training)s

    Attributes
    ----------
    %(trained)s

    See Also
    --------
    GRUODEBayesTransformer : Reads each channel together with its forecast.
    LinODENetTransformer : A linear latent state, which costs no integration.

    Notes
    -----
    With the state h, the mask m of an observation x and static covariates s::

        dh/dt = f(h),   h' = GRU([m x, m, s], h),   forecast = W h + b

    The field f is that of `PolyODETransformer`: a multilayer perceptron that is 0 initially, with a
    wall that bounds free runs. Steps are half the typical gap (midpoint); after 64 typical gaps
    without observations the state is held. Static covariates also set the initial state.

    The cost of a gap grows with its length: two evaluations of the field per half a typical gap.

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
    >>> transformer = ODERNNTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 8)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "hidden_layer_sizes": ["array-like", COUNT],
    }

    uses_inputs = True
    model = ODERNN

    def __init__(
        self,
        *,
        hidden_layer_sizes: Sequence[int] | int = (100,),
        **training: Any,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        widths = layer_sizes(self.hidden_layer_sizes)
        return super()._model_options(sizes) | {"hidden_layer_sizes": widths}
