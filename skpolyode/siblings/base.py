"""Base classes of the siblings of PolyODE: of their models and of their transformers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from skpolyode.dynamics.field import drawn
from skpolyode.models.contract import Packed, SequenceModel, Sizes, State
from skpolyode.transformers.base import COUNT_OR_AUTO
from skpolyode.transformers.neural import NeuralTransformer

LONGEST = 1e9
"""Units of time after which nothing changes any more, so that times may be infinite."""


def draw_normal(tensor: Tensor, scale: float, generator: torch.Generator | None) -> None:
    """Fill a tensor with normal random numbers of standard deviation `scale`.

    Nothing is drawn on the device "meta", where a model is made when it is loaded: torch would
    import 800 modules for it, which takes seconds.
    """
    if not tensor.is_meta:
        tensor.normal_(0, scale, generator=generator)


def hidden_layer(
    n_in: int, width: int, n_out: int, curve: type[nn.Module], generator: torch.Generator | None
) -> nn.Sequential:
    """A network with one hidden layer."""
    first = drawn(nn.Linear, n_in, width, generator=generator)
    return nn.Sequential(first, curve(), drawn(nn.Linear, width, n_out, generator=generator))


class Start(nn.Module):
    """Learned state before the first observation: ``b + W static``, zero at first.

    Parameters
    ----------
    n_static : int
        Features of static covariates.
    size : int
        Length of the state.
    """

    def __init__(self, n_static: int, size: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(size, dtype=torch.float32))
        weight = torch.zeros(size, n_static, dtype=torch.float32)
        self.weight = nn.Parameter(weight) if n_static else None

    def forward(self, data: Packed, rows: Tensor) -> Tensor:
        """States (n, size) of series, given by their first rows."""
        if self.weight is None:
            return self.bias.expand(len(rows), -1)
        return torch.addmm(self.bias, data.static[rows], self.weight.t())


class AgeHead(nn.Module):
    """Polynomials of degree 4 of the time since an observation; a network gives the coefficients.

    The variable is ``t / (2 + t)``: near the observation it grows linearly in time, and later tends
    to a constant, so that forecasts are bounded. A network with the time among its inputs overfits
    more (HiPPO-RNN, 200 series of Lorenz63: error 0.15 instead of 0.11).

    Parameters
    ----------
    n_inputs : int
        Length of the input of the network.
    width : int
        Width of the hidden layer.
    n_channels : int
        Number D of polynomials.
    generator : torch.Generator or None
        Source of the weights.
    """

    def __init__(
        self, n_inputs: int, width: int, n_channels: int, generator: torch.Generator | None
    ) -> None:
        super().__init__()
        self.inner = drawn(nn.Linear, n_inputs, width, generator=generator)
        self.outer = drawn(nn.Linear, width, 5 * n_channels, generator=generator)

    def forward(self, x: Tensor, since: Tensor) -> Tensor:
        """Values (n, D), from inputs (n, `n_inputs`) and times (n, 1)."""
        hidden = nn.functional.silu(self.inner(x))
        coefficients = self.outer(hidden).unflatten(1, (-1, 5))  # (n, D, 5)
        since = since.clamp(max=LONGEST)
        share = since / (2.0 + since)
        powers = share ** torch.arange(5, device=since.device)  # (n, 5)
        return (coefficients * powers[:, None]).sum(dim=2)


def observed_inputs(data: Packed, rows: Tensor) -> Tensor:
    """Observed values, mask and static covariates (n, 2 D + S): the input of plain cells."""
    x = data.x[rows]
    return torch.cat([x, data.mask[rows].to(x.dtype), data.static[rows]], dim=1)


def where_observed(mask: Tensor, new: State, old: State) -> State:
    """Parts of `new` in the rows with an observation in `mask` (n, D), else those of `old`."""
    rows = mask.any(dim=1)
    if rows.all():
        return old | new
    return old | {
        name: torch.where(rows.view(-1, *[1] * (part.ndim - 1)), part, old[name])
        for name, part in new.items()
    }


@dataclass(eq=False, repr=False)
class SiblingModel(SequenceModel):
    """Base of models: the fields of a subclass are arguments of its constructor."""

    n_channels: int
    n_static: int = 0
    hidden_size: int = 64
    _: KW_ONLY
    generator: InitVar[torch.Generator | None] = None

    def __post_init__(self, generator: torch.Generator | None) -> None:
        super().__init__()
        self.start = Start(self.n_static, self.start_size)
        self._make_layers(generator)

    @property
    def start_size(self) -> int:
        """Length of the learned state before the first observations."""
        return self.hidden_size

    @abstractmethod
    def _make_layers(self, generator: torch.Generator | None) -> None:
        """Make the layers, with weights drawn from the generator."""


class SiblingTransformer(NeuralTransformer):
    """Base of transformers: a subclass defines its model and the options of the model.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the state. "auto" takes 32 per channel, but no more than 256.
    %(training)s
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {"hidden_size": COUNT_OR_AUTO}

    model: ClassVar[type[SiblingModel]]

    def __init__(self, *, hidden_size: int | str = "auto", **training: Any) -> None:
        self.hidden_size = hidden_size
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> SiblingModel:
        shape = sizes.n_channels, sizes.n_static, sizes.of_state(self.hidden_size)
        return self.model(*shape, **self._model_options(sizes), generator=generator)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        """Arguments of the model's constructor, besides the sizes and the generator."""
        return {"inputs": sizes.inputs} if self.uses_inputs else {}
