"""Base classes of the siblings of PolyODE: of their models and of their transformers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from skpolyode.dynamics import STEPPERS, integrate
from skpolyode.models.contract import InputSizes, Packed, SequenceModel, Sizes, State
from skpolyode.siblings.layers import Start
from skpolyode.transformers.base import COUNT_OR_AUTO
from skpolyode.transformers.neural import NeuralTransformer


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

    def initial(self, data: Packed, rows: torch.Tensor) -> State:
        """Learned state before the first observations, which depends on static covariates."""
        return {"h": nn.functional.pad(self.start(data, rows), (0, self.inputs.n_state))}

    def flow(self, state: State, gap: torch.Tensor, elapsed: torch.Tensor) -> State:
        """State after gaps."""
        gap, stepper = gap.clamp(max=self.max_gap), STEPPERS[self.stepper]
        h, _ = integrate(self.field, state["h"], gap, step_size=self.step_size, stepper=stepper)
        return {"h": h}

    def features(self, state: State) -> dict[str, torch.Tensor]:
        """The state, without inputs."""
        return {"h": state["h"][:, : self.hidden_size]}


class SiblingTransformer(NeuralTransformer):
    """Base of transformers: a subclass defines its model and the options of the model.

    Parameters
    ----------
    hidden_size : int or "auto", default="auto"
        Length of the state. "auto" takes 32 per channel, but no more than 256.
    %(training)s
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        **NeuralTransformer._parameter_constraints,
        "hidden_size": COUNT_OR_AUTO,
    }

    model: ClassVar[type[SiblingModel]]

    def __init__(self, *, hidden_size: int | str = "auto", **training: Any) -> None:
        self.hidden_size = hidden_size
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> SiblingModel:
        options = self._model_options(sizes)
        return self.model(*sizes.of_model(self.hidden_size), **options, generator=generator)

    def _model_options(self, sizes: Sizes) -> dict[str, Any]:
        """Arguments of the model's constructor, besides the sizes and the generator."""
        raise NotImplementedError
