"""The smallest neural transformer: what `docs/extending_models.md` tells, and nothing more."""

from __future__ import annotations

import torch
from torch import nn

from skpolyode.models import Prediction, SequenceModel
from skpolyode.saving import register_estimator, register_module
from skpolyode.transformers.neural import NeuralTransformer, Sizes


@register_module
class ToyModel(SequenceModel):
    """A cell that takes in observations; between them its state fades."""

    def __init__(self, n_channels: int, size: int) -> None:
        super().__init__()
        self.n_channels, self.size = n_channels, size
        self.cell, self.readout = nn.GRUCell(2 * n_channels, size), nn.Linear(size, n_channels)

    def initial(self, data, rows):
        return {"h": data.x.new_zeros(len(rows), self.size)}

    def flow(self, state, gap, elapsed):
        return {"h": state["h"] * torch.exp(-gap).to(state["h"].dtype)[:, None]}

    def observe(self, state, data, rows):
        inputs = torch.cat([data.x[rows], data.mask[rows].to(data.x.dtype)], dim=1)
        return {"h": self.cell(inputs, state["h"])}

    def predict(self, state):
        return Prediction(self.readout(state["h"]))

    def features(self, state):
        return {"h": state["h"]}


class ToyTransformer(NeuralTransformer):
    """Embed series by a cell that forgets.

    Parameters
    ----------
    size : int, default=4
        Length of the state, and number of features.
    %(training)s
    """

    def __init__(self, *, size: int = 4, **training) -> None:
        self.size = size
        super().__init__(**training)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> ToyModel:
        model = ToyModel(sizes.n_channels, self.size)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.5, 0.5, generator=generator)
        return model


register_estimator(ToyTransformer)
