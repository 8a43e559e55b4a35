"""Weights averaged over the last steps of a training."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import nn


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of all weights of a module, with the names of its `state_dict`."""
    return copy.deepcopy(dict(module.state_dict()))


@contextmanager
def applied(weights: dict[str, torch.Tensor], module: nn.Module) -> Iterator[None]:
    """Give the module these weights until the end of the block."""
    present = weights_of(module)
    module.load_state_dict(weights)
    try:
        yield
    finally:
        module.load_state_dict(present)


class WeightAverage:
    """Exponential moving average of the weights of a module.

    The weights of one step contain the noise of its gradient, the more the higher the learning
    rate; their average cancels it [1]_. The first `span` steps are averaged evenly, so that the
    weights before training are forgotten at once.

    Parameters
    ----------
    module : nn.Module
        The module that is trained. Its present weights are the average before the first step.

    Attributes
    ----------
    weights : dict of str to Tensor
        The average, with the names of the module's `state_dict`.
    n_steps : int
        Steps that were averaged.

    References
    ----------
    .. [1] B. T. Polyak and A. B. Juditsky, "Acceleration of stochastic approximation by
       averaging", SIAM Journal on Control and Optimization, 1992.

    Examples
    --------
    >>> import torch
    >>> from skpolyode.training.averaging import WeightAverage, applied
    >>> module = torch.nn.Linear(1, 1, bias=False)
    >>> average = WeightAverage(module)
    >>> for weight in (1.0, 3.0, 4.0):
    ...     _ = torch.nn.init.constant_(module.weight, weight)
    ...     average.update(span=2)
    >>> average.weights["weight"].item()  # 2 after two steps
    3.0
    >>> with applied(average.weights, module):
    ...     print(module.weight.item())
    3.0
    >>> module.weight.item()
    4.0
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.weights = weights_of(module)
        self.n_steps = 0

    @torch.no_grad()
    def update(self, span: float) -> None:
        """Take in the weights of a step; about `span` steps count."""
        self.n_steps += 1
        share = max(1 / self.n_steps, 1 / max(span, 1.0))
        for name, now in self.module.state_dict().items():
            if now.is_floating_point():
                self.weights[name].lerp_(now, share)
            else:
                self.weights[name].copy_(now)

    def keep(self, names: Collection[str]) -> None:
        """Drop weights that the module lost."""
        self.weights = {name: self.weights[name] for name in names}
