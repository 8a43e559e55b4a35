r"""GRU-ODE-Bayes: a continuous gated cell between observations, a Bayesian jump at them.

Between observations a state h in (-1, 1) follows the continuous limit of a gated recurrent unit::

    dh/dt = v (1 - z) (u - h),   r, z = sigmoid(U h + b),   u = tanh(U_h (r h) + b_h)

A head gives mean and log standard deviation (mu, s) of each channel. At an observation x with mask
m the state jumps by a discrete unit that reads, of each channel, how the forecast was wrong::

    f_j = m_j relu(q_j W_j + b_j),   q_j = [x, mu, 2 s, (x - mu) exp(-s)]_j,   h' = GRU(f, h)

The loss is the negative log-likelihood before the jump plus ``lambda KL(N(mu', exp(s')^2) ||
N(x, 0.01^2))`` after it, in standardised units. (E. De Brouwer, J. Simm, A. Arany, Y. Moreau,
"GRU-ODE-Bayes: continuous modeling of sporadically-observed time series", NeurIPS 2019.)

The cell relaxes at a rate of at most v, so that the unit of time would decide what it can follow:
v is learned, one rate for each entry of the state.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from skpolyode.dynamics import STEPPERS, integrate
from skpolyode.models.contract import Prediction, SequenceModel, State
from skpolyode.models.layers import Start, drawn
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["GRUODEBayes"]

_FASTEST = 2.0  # rate, in units of time, that a step of half a unit still follows
_NOISE = 0.01  # standard deviation of an observation, in the divergence after a jump
_WEIGHT = 1e-4  # of that divergence
_LOG_SCALES = (-5.0, 3.0)  # between which log standard deviations are kept
_PREPARED = 25  # what is read of each channel's forecast and error
_PREPARED_BIAS = 0.1


class GRUODEBayes(SequenceModel):
    """A continuous gated cell that jumps at observations, over packed observations.

    The state has the part `h` (n, H).

    Parameters
    ----------
    n_channels : int
        Number of channels D.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the jump.
    hidden_size : int, default=64
        Length H of the state.
    head_size : int, default=64
        Width of the hidden layer of the head.
    step_size : float, default=0.5
        Longest integration step.
    max_gap : float, default=64.0
        Longest gap that is integrated; after it the state is held.
    stepper : str, default="midpoint"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import GRUODEBayes, pack
    >>> model = GRUODEBayes(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> model.embed(data)["h"].shape
    torch.Size([1, 4])
    """

    def __init__(
        self,
        n_channels: int,
        n_static: int = 0,
        hidden_size: int = 64,
        *,
        head_size: int = 64,
        step_size: float = 0.5,
        max_gap: float = 64.0,
        stepper: str = "midpoint",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_channels, n_static, hidden_size)
        self.step_size, self.max_gap, self.stepper_name = step_size, max_gap, stepper
        self.start = Start(n_static, hidden_size)
        self.gates = drawn(nn.Linear, hidden_size, 2 * hidden_size, generator=generator)
        self.candidate = drawn(nn.Linear, hidden_size, hidden_size, generator=generator)
        self.speed_logit = nn.Parameter(torch.zeros(hidden_size))
        self.head = nn.Sequential(
            drawn(nn.Linear, hidden_size, head_size, generator=generator),
            nn.ReLU(),
            drawn(nn.Linear, head_size, 2 * n_channels, generator=generator),
        )
        self.prepare = nn.Parameter(torch.empty(n_channels, 4, _PREPARED))
        self.prepare_bias = nn.Parameter(torch.full((n_channels, _PREPARED), _PREPARED_BIAS))
        with torch.no_grad():
            self.prepare.normal_(0, (2 / (4 + _PREPARED)) ** 0.5, generator=generator)
        n_inputs = n_channels * _PREPARED + n_static
        self.jump = drawn(nn.GRUCell, n_inputs, hidden_size, generator=generator)

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations: learned, with what static covariates say."""
        return {"h": torch.tanh(self.start(data, rows))}

    def field(self, h: torch.Tensor) -> torch.Tensor:
        """Time derivative (rows, H) at `h` (rows, H)."""
        r, z = torch.sigmoid(self.gates(h)).chunk(2, dim=1)
        rate = _FASTEST * torch.sigmoid(self.speed_logit)
        return rate * (1 - z) * (torch.tanh(self.candidate(r * h)) - h)

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps."""
        gap, stepper = gap.clamp(max=self.max_gap), STEPPERS[self.stepper_name]
        h, _ = integrate(self.field, state["h"], gap, step_size=self.step_size, stepper=stepper)
        return {"h": h}

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; as it was where nothing was observed."""
        h, x, mask = state["h"], data.x[rows], data.mask[rows]
        mean, log_scale = self.predict(state)
        error = (x - mean) * torch.exp(-log_scale)
        q = torch.stack([x, mean, 2 * log_scale, error], dim=2)  # (n, D, 4)
        f = torch.relu(torch.einsum("ndq,dqp->ndp", q, self.prepare) + self.prepare_bias)
        f = (f * mask[..., None]).flatten(1)
        jumped = self.jump(torch.cat([f, data.static[rows]], dim=1), h)
        return {"h": torch.where(mask.any(dim=1, keepdim=True), jumped, h)}

    def predict(self, state: State) -> Prediction:
        """A normal distribution of each channel."""
        mean, log_scale = self.head(state["h"]).chunk(2, dim=1)
        return Prediction(mean, log_scale.clamp(*_LOG_SCALES))

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """The state."""
        return state

    def update_loss(self, state: State, data: Packed, rows: torch.Tensor) -> torch.Tensor:
        """Weighted divergence of the distribution after a jump from that of the observation."""
        mean, log_scale = self.predict(state)
        square = torch.exp(2 * log_scale) + (mean - data.x[rows]).square()
        return _WEIGHT * (math.log(_NOISE) - log_scale + square / (2 * _NOISE**2) - 0.5)


def _arguments(model: GRUODEBayes) -> dict[str, Any]:
    names = ("n_channels", "n_static", "hidden_size")
    return dict(zip(names, model.sizes, strict=True)) | {
        "head_size": model.head[0].out_features,
        "step_size": model.step_size,
        "max_gap": model.max_gap,
        "stepper": model.stepper_name,
    }


register_module(GRUODEBayes, _arguments)
