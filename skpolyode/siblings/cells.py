r"""Cells whose state follows a vector field between observations: ODE-RNN and GRU-ODE-Bayes.

ODE-RNN: a neural ODE between observations, a gated cell at observations.

Between observations ``dh/dt = f(h)``, at an observation x with mask m ``h' = GRU([m x, m], h)``;
forecasts are a linear map of h. f reads the values of known inputs, and the cell the impulses. (Y.
Rubanova, R. T. Q. Chen, D. Duvenaud, "Latent ODEs for irregularly-sampled time series", NeurIPS
2019; forward in time and with the true gaps, unlike the encoder in its code.)

GRU-ODE-Bayes: a continuous gated cell between observations, a Bayesian jump at observations.

Between observations a state h in (-1, 1) follows the continuous limit of a gated recurrent unit::

    dh/dt = v (1 - z) (u - h),   r, z = sigmoid(U h + b),   u = tanh(U_h (r h) + b_h)

A head gives mean and log standard deviation (mu, s) of each channel. At an observation x with mask
m the state jumps by a discrete unit that reads the error of the forecast of each channel::

    f_j = m_j relu(q_j W_j + b_j),   q_j = [x, mu, 2 s, (x - mu) exp(-s)]_j,   h' = GRU(f, h)

The loss is the negative log-likelihood before the jump plus ``lambda KL(N(mu', exp(s')^2) ||
N(x, 0.01^2))`` after it, in standardised units. (E. De Brouwer, J. Simm, A. Arany, Y. Moreau,
"GRU-ODE-Bayes: continuous modeling of sporadically-observed time series", NeurIPS 2019.)

The cell relaxes at a rate of at most v. With a fixed v the unit of time would limit the dynamics
that it can follow, so v is learned for each entry of the state.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.dynamics.field import drawn
from skpolyode.models.contract import InputSizes, Packed, Prediction, Sizes, State, driven_update
from skpolyode.saving.modules import register_module
from skpolyode.siblings.base import (
    SiblingModel,
    SiblingTransformer,
    draw_normal,
    hidden_layer,
    observed_inputs,
)
from skpolyode.transformers.base import COUNT
from skpolyode.transformers.neural import layer_sizes


@dataclass(eq=False, repr=False, kw_only=True)
class DrivenCell(SiblingModel):
    """Base of cells whose state follows a vector field between observations.

    The subclass defines the `field`. The state has the part `h` (n, H), followed by inputs.
    """

    step_size: float = 0.5
    max_gap: float = 64.0
    stepper: str = "midpoint"
    inputs: Sequence[int] = (0, 0, 0)

    def __post_init__(self, generator: torch.Generator | None) -> None:
        self.inputs = InputSizes(*self.inputs)
        super().__post_init__(generator)

    def initial(self, data: Packed, rows: Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        return {"h": nn.functional.pad(self.start(data, rows), (0, self.inputs.n_state))}

    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps."""
        gap, stepper = gap.clamp(max=self.max_gap), STEPPERS[self.stepper]
        h, _ = integrate(self.field, state["h"], gap, step_size=self.step_size, stepper=stepper)
        return {"h": h}

    def features(self, state: State) -> dict[str, Tensor]:
        """The state, without inputs."""
        return {"h": state["h"][:, : self.hidden_size]}


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

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
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
        self, *, hidden_layer_sizes: Sequence[int] | int = (100,), **training: Any
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        super().__init__(**training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        widths = layer_sizes(self.hidden_layer_sizes)
        return super()._model_options(sizes) | {"hidden_layer_sizes": widths}


_NOISE = 0.01  # standard deviation of an observation, in the divergence after a jump
_WEIGHT = 1e-4  # weight of that divergence in the loss


@register_module
@dataclass(eq=False, repr=False, kw_only=True)
class GRUODEBayes(DrivenCell):
    """A continuous gated cell that jumps at observations.

    The state has the part `h` (n, H).

    Parameters
    ----------
    n_channels : int
        Number D of channels.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the jump.
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
    head_size : int, default=64
        Width of the hidden layer of the head.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import GRUODEBayes
    >>> model = GRUODEBayes(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> model.embed(data)["h"].shape
    torch.Size([1, 4])
    """

    head_size: int = 64

    def _make_layers(self, generator: torch.Generator | None) -> None:
        hidden_size, n_channels = self.hidden_size, self.n_channels
        n_read = hidden_size + self.inputs.n_levels
        self.gates = drawn(nn.Linear, n_read, 2 * hidden_size, generator=generator)
        self.candidate = drawn(nn.Linear, n_read, hidden_size, generator=generator)
        self.speed_logit = nn.Parameter(torch.zeros(hidden_size, dtype=torch.float32))
        self.head = hidden_layer(hidden_size, self.head_size, 2 * n_channels, nn.ReLU, generator)
        # P = 25 features of each channel, from its value, forecast, scale and error.
        self.prepare = nn.Parameter(torch.empty(n_channels, 4, 25, dtype=torch.float32))
        self.prepare_bias = nn.Parameter(torch.full((n_channels, 25), 0.1, dtype=torch.float32))
        with torch.no_grad():
            draw_normal(self.prepare, (2 / (4 + 25)) ** 0.5, generator)
        n_seen = n_channels * 25 + self.n_static + self.inputs.n_impulse
        self.jump = drawn(nn.GRUCell, n_seen, hidden_size, generator=generator)

    def initial(self, data: Packed, rows: Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        return {"h": torch.tanh(super().initial(data, rows)["h"])}

    def field(self, state: Tensor) -> Tensor:
        """Time derivative (rows, H) at a state (rows, H), possibly followed by inputs."""
        if not self.inputs.n_state:
            return self._moved(state, state[:, :0])
        sizes = self.hidden_size, self.inputs.n_levels, self.inputs.n_linear
        h, u, slopes = state.split(sizes, dim=1)
        still = torch.zeros_like(u[:, : self.inputs.n_hold])
        return torch.cat([self._moved(h, u), still, slopes, torch.zeros_like(slopes)], dim=1)

    def _moved(self, h: Tensor, u: Tensor) -> Tensor:
        """Time derivative (rows, H) of `h` under inputs `u`."""

        def read(x: Tensor) -> Tensor:
            return torch.cat([x, u], dim=1) if self.inputs.n_levels else x

        r, z = torch.sigmoid(self.gates(read(h))).chunk(2, dim=1)
        # Rates are at most 2 per unit of time, stable with steps of half a unit.
        rate = 2.0 * torch.sigmoid(self.speed_logit)
        return rate * (1 - z) * (torch.tanh(self.candidate(read(r * h))) - h)

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after observations and impulses; unchanged where there are none."""
        h, x, mask = state["h"][:, : self.hidden_size], data.x[rows], data.mask[rows]
        mean, log_scale = self.predict(state)
        error = (x - mean) * torch.exp(-log_scale)
        q = torch.stack([x, mean, 2 * log_scale, error], dim=2)  # (n, D, 4)
        f = torch.relu(torch.einsum("ndq,dqp->ndp", q, self.prepare) + self.prepare_bias)
        f = (f * mask[..., None]).flatten(1)  # (n, D P)
        seen = torch.cat([f, data.static[rows]], dim=1)
        return {"h": driven_update(self.jump, seen, h, data, rows, self.inputs.n_state)}

    def predict(self, state: State) -> Prediction:
        """A normal distribution for each channel."""
        mean, log_scale = self.head(state["h"][:, : self.hidden_size]).chunk(2, dim=1)
        return Prediction(mean, log_scale.clamp(-5.0, 3.0))

    def update_loss(self, state: State, data: Packed, rows: Tensor) -> Tensor:
        """Weighted divergence of the distribution after a jump from that of the observation."""
        mean, log_scale = self.predict(state)
        square = torch.exp(2 * log_scale) + (mean - data.x[rows]).square()
        return _WEIGHT * (math.log(_NOISE) - log_scale + square / (2 * _NOISE**2) - 0.5)


class GRUODEBayesTransformer(SiblingTransformer):
    """Embed irregular series by a continuous gated cell that jumps at observations (GRU-ODE-Bayes).

    Between observations a bounded state follows the continuous limit of a gated recurrent unit; at
    an observation it jumps, depending on the forecast of each observed channel and its error. The
    model forecasts normal distributions and is trained by their likelihood. The embedding is the
    state after the last observation.

    Use it where channels are observed one at a time and series are noisy: each channel is read by
    separate weights, and an error counts relative to its forecast standard deviation. The state
    forgets what does not help to forecast, and cannot be turned back into the series.

    Parameters
    ----------
    head_size : int, default=64
        Width of the hidden layer that gives mean and scale of the channels.
    learning_rate_init : float, default=0.1
        Peak of the one-cycle schedule. Lower it if training diverges.
    hidden_size : int or "auto", default="auto"
        Length of the state, and number of features. "auto" takes 32 per channel, as many features
        as `PolyODETransformer` has coefficients, but no more than 256.
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

    The rates v are learned, so that the unit of time does not limit the dynamics; they are at most
    two per typical gap, stable with midpoint steps of half such a gap. After 64 typical gaps
    without observations the state is held. The loss is the negative log-likelihood of observations
    plus, with weight 1e-4, the divergence of the distribution after the jump from a normal one of
    standard deviation 0.01 around the observation. Static covariates set the initial state, and are
    inputs of each jump.

    The cost of a gap grows with its length: two evaluations of the cell per half a typical gap.

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
    >>> transformer = GRUODEBayesTransformer(hidden_size=8, max_epochs=2, random_state=0)
    >>> transformer.fit_transform(series).shape
    (6, 8)
    >>> transformer.forecast(series, [6.5, 7.0])
    Panel(6 series, 1 channel, 12 observations, 100% of cells observed, times 6.5 to 7)
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {"head_size": [COUNT]}

    uses_inputs = True
    model = GRUODEBayes

    def __init__(
        self, *, head_size: int = 64, learning_rate_init: float = 0.1, **training: Any
    ) -> None:
        self.head_size = head_size
        super().__init__(learning_rate_init=learning_rate_init, **training)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        return super()._model_options(sizes) | {"head_size": self.head_size}
