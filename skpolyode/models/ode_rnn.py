r"""ODE-RNN: a neural ODE between observations, a gated cell at them.

Between observations ``dh/dt = f(h)``, at an observation x with mask m ``h' = GRU([m x, m], h)``;
forecasts are a linear map of h. (Y. Rubanova, R. T. Q. Chen, D. Duvenaud, "Latent ODEs for
irregularly-sampled time series", NeurIPS 2019; forward in time and by the true gaps, unlike the
encoder in its code.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.models.contract import Prediction, SequenceModel, State
from skpolyode.models.layers import Start, drawn, observed_inputs
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["ODERNN"]


class ODERNN(SequenceModel):
    """A neural ODE between observations and a gated cell at them, over packed observations.

    The state has the part `h` (n, H).

    Parameters
    ----------
    n_channels : int
        Number of channels D.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the cell.
    hidden_size : int, default=64
        Length H of the state.
    hidden_layer_sizes : sequence of int, default=(100,)
        Widths of the hidden layers of the vector field, which stands still at first.
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
    >>> from skpolyode.models import ODERNN, pack
    >>> model = ODERNN(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
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
        hidden_layer_sizes: Sequence[int] = (100,),
        step_size: float = 0.5,
        max_gap: float = 64.0,
        stepper: str = "midpoint",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_channels, n_static, hidden_size)
        self.step_size, self.max_gap, self.stepper_name = step_size, max_gap, stepper
        self.start = Start(n_static, hidden_size)
        self.field = WalledMLP(hidden_size, hidden_layer_sizes, generator=generator).stand_still()
        self.cell = drawn(nn.GRUCell, 2 * n_channels + n_static, hidden_size, generator=generator)
        self.readout = drawn(nn.Linear, hidden_size, n_channels, generator=generator)

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations: learned, with what static covariates say."""
        return {"h": self.start(data, rows)}

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps."""
        gap, stepper = gap.clamp(max=self.max_gap), STEPPERS[self.stepper_name]
        h, _ = integrate(self.field, state["h"], gap, step_size=self.step_size, stepper=stepper)
        return {"h": h}

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; as it was where nothing was observed."""
        h, any_observed = state["h"], data.mask[rows].any(dim=1, keepdim=True)
        return {"h": torch.where(any_observed, self.cell(observed_inputs(data, rows), h), h)}

    def predict(self, state: State) -> Prediction:
        """A linear map of the state."""
        return Prediction(self.readout(state["h"]))

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """The state."""
        return state


def _arguments(model: ODERNN) -> dict[str, Any]:
    names = ("n_channels", "n_static", "hidden_size")
    return dict(zip(names, model.sizes, strict=True)) | {
        "hidden_layer_sizes": [layer.out_features for layer in model.field.layers][:-1],
        "step_size": model.step_size,
        "max_gap": model.max_gap,
        "stepper": model.stepper_name,
    }


register_module(ODERNN, _arguments)
