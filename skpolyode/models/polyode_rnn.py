r"""PolyODE-RNN: the signal and the memory of PolyODE, driven by a learned state.

The state h = [y, w] holds the signals y and numbers w that mean what training makes of them. One
vector field moves both between observations, ``dh/dt = phi(h)``. At an observation x with mask m,
static covariates s and gain K::

    w' = GRU([m x, m, m (x - y), s], w),   y' = y + m K (x - y)

A memory follows the path of y, bridged to the observations as that of PolyODE::

    c_j' = c_j + m_j K_j (x_j - y_j) rho(time since the previous observation of j)

The dynamics never see it: what they know of the past is what w has kept. (w is the state of
ODE-RNN, whose forecast is a map of the state; y, bridge and memory are those of PolyODE, whose
hidden state is set anew from the memory instead. The combination is ours.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import nn

from skpolyode.cubic import CubicPath
from skpolyode.dynamics import STEPPERS, WalledMLP, integrate
from skpolyode.memory import Memory
from skpolyode.models.contract import Prediction, SequenceModel, State
from skpolyode.models.followed import corrected, remembered
from skpolyode.models.gain import Gain
from skpolyode.models.layers import Start, drawn
from skpolyode.models.packed import Packed
from skpolyode.saving.modules import register_module

__all__ = ["PolyODERNN"]


class PolyODERNN(SequenceModel):
    """Signals that a learned state drives, and their polynomial memory, over packed observations.

    The state has the part `h` (n, D + H), the signals first. Once the model has been set to `eval`
    it has a part `history` (n, D, N) as well: training does without the memory.

    Parameters
    ----------
    n_channels : int
        Number of channels D.
    n_static : int, default=0
        Features of static covariates: they set the start, and are inputs of the cell.
    hidden_size : int, default=64
        Length H of the learned part of the state.
    history : Memory or None, default=None
        Measure with N coefficients a channel, in the model's unit of time; None follows no path.
    hidden_layer_sizes : sequence of int, default=(64, 64)
        Widths of the hidden layers of the vector field, which stands still at first.
    step_size : float, default=0.5
        Longest integration step.
    max_gap : float, default=64.0
        Longest gap that is integrated; after it the state is held.
    stepper : str, default="rk4"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    gain : Gain or None, default=None
        Share of an innovation that the signal takes over; None is all of it.
    generator : torch.Generator or None, default=None
        Source of the initial weights.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODERNN, pack
    >>> generator = torch.Generator().manual_seed(0)
    >>> model = PolyODERNN(1, hidden_size=4, history=LegTMemory(3, 2.0), generator=generator)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> state = model.double().eval().embed(pack(times, values, np.array([0, 3])))
    >>> {name: tuple(part.shape) for name, part in state.items()}
    {'h': (1, 5), 'history': (1, 1, 3)}
    >>> state["h"][0, 0].item()  # the signal is the last observation
    0.0
    """

    def __init__(
        self,
        n_channels: int,
        n_static: int = 0,
        hidden_size: int = 64,
        *,
        history: Memory | None = None,
        hidden_layer_sizes: Sequence[int] = (64, 64),
        step_size: float = 0.5,
        max_gap: float = 64.0,
        stepper: str = "rk4",
        gain: Gain | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.sizes = (n_channels, n_static, hidden_size)
        self.history, self.gain = history, gain
        self.step_size, self.max_gap, self.stepper_name = step_size, max_gap, stepper
        size = n_channels + hidden_size
        self.start = Start(n_static, size)
        self.field = WalledMLP(size, hidden_layer_sizes, generator=generator).stand_still()
        self.cell = drawn(nn.GRUCell, 3 * n_channels + n_static, hidden_size, generator=generator)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Move or convert the weights, as of any module, and the memory along with them."""
        super()._apply(fn, recurse)
        if self.history is not None:
            weight = next(self.field.parameters())
            self.history = self.history.to(weight.device, weight.dtype)
        return self

    @property
    def filters(self) -> bool:
        """Whether it has a gain."""
        return self.gain is not None

    @property
    def signals(self) -> slice:
        """Coordinates of a state that are the signals."""
        return slice(0, self.sizes[0])

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """State before the first observations: learned, with what static covariates say."""
        h = self.start(data, rows)
        if self.history is None or self.training:
            return {"h": h}
        return {"h": h, "history": self.history.constant(h[:, self.signals])}

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps; one without memory, which is all that training needs, stays so."""
        h, memory = state["h"], self.history
        if memory is None or "history" not in state:
            return {"h": self._integrate(h, gap, None)[0]}
        h, path = self._integrate(h, gap, self.signals)
        assert path is not None
        way = path, h[:, self.signals], gap, elapsed, self.max_gap
        return {"h": h, "history": remembered(memory, state["history"], *way)}

    def _integrate(
        self, h: torch.Tensor, gap: torch.Tensor, recorded: slice | None
    ) -> tuple[torch.Tensor, CubicPath | None]:
        return integrate(
            self.field,
            h,
            gap.clamp(max=self.max_gap),
            step_size=self.step_size,
            stepper=STEPPERS[self.stepper_name],
            recorded=recorded,
        )

    def observe(self, state: State, data: Packed, rows: torch.Tensor) -> State:
        """State after observations; as it was where nothing was observed."""
        y, w = state["h"].split([self.sizes[0], self.sizes[2]], dim=1)
        x, mask = data.x[rows], data.mask[rows]
        rise = torch.where(mask, x - y, 0.0)
        read = [torch.where(mask, x, 0.0), mask.to(x.dtype), rise, data.static[rows]]
        w = torch.where(mask.any(dim=1, keepdim=True), self.cell(torch.cat(read, dim=1), w), w)
        if (share := self.share(data, rows)) is None:
            y = torch.where(mask, x, y)
        else:
            rise = share * rise
            y = y + rise
        after = {"h": torch.cat([y, w], dim=1)}
        if self.history is not None and "history" in state:
            after["history"] = state["history"] + corrected(self.history, rise, data, rows)
        return after

    def share(self, data: Packed, rows: torch.Tensor) -> torch.Tensor | None:
        """Share (n, D) of the innovations of some rows that is taken over; None is all."""
        return None if self.gain is None else self.gain(data.channel_gap[rows], data.seen[rows])

    def predict(self, state: State) -> Prediction:
        """The signals."""
        return Prediction(state["h"][:, self.signals])

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """Coefficients (n, D, N) of the path, and the state (n, D + H), the signals first."""
        if "history" not in state:
            return {"hidden": state["h"]}
        return {"coefficients": state["history"], "hidden": state["h"]}


def _arguments(model: PolyODERNN) -> dict[str, Any]:
    names = ("n_channels", "n_static", "hidden_size")
    return dict(zip(names, model.sizes, strict=True)) | {
        "history": model.history,
        "hidden_layer_sizes": [layer.out_features for layer in model.field.layers][:-1],
        "step_size": model.step_size,
        "max_gap": model.max_gap,
        "stepper": model.stepper_name,
        "gain": model.gain,
    }


register_module(PolyODERNN, _arguments)
