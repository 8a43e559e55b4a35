"""The interface between the training loop and a task, and a decision taken during training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch


class Task:
    """The preparation of each epoch of a training, and the loss of a minibatch.

    Attributes
    ----------
    items : Tensor of shape (n, ...)
        What minibatches are drawn from.
    is_preliminary : bool
        Whether the last validation error cannot be compared with later ones.
    item_size : float
        Mean number of intervals between observations of an item.
    scans : bool
        Whether `refresh` goes through series in order, which costs as much as the gradients.
    found : mapping of str to Tensor
        Entries of the module's `state_dict` that the last `refresh` has estimated from the data;
        gradients do not learn them.
    series_errors : Tensor of shape (2, n) or None
        Sums of the squared errors of the last validation error, by series, and their numbers; None
        if they are not known.
    error_ahead : float or None
        Error of forecasts further ahead, at the last refresh; None if there is none. The weights
        with the least product of both errors are kept. For noisy series the error of the next
        observation is least before the dynamics are any good.
    """

    items: torch.Tensor
    series_errors: torch.Tensor | None = None
    error_ahead: float | None = None
    is_preliminary = False
    item_size = 1.0
    scans = False
    found: Mapping[str, torch.Tensor] = {}

    def refresh(self, progress: float = 1.0) -> float:
        """Prepare an epoch, which may change `items`; returns the present validation error.

        `progress` is the share of the epochs that is done, 1 at the end.
        """
        raise NotImplementedError

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Loss of a minibatch, given by positions in `items`."""
        raise NotImplementedError

    def keeps_states(self, progress: float) -> bool:
        """Whether the next `refresh` will leave what was prepared as it is."""
        return False


class Turn(NamedTuple):
    """A decision taken during training.

    Parameters
    ----------
    epoch : int
        Epoch before which it is taken.
    decide : callable
        Returns what was decided.
    apply : callable
        Changes the module accordingly. Parameters that the module loses are not trained on.
    """

    epoch: int
    decide: Callable[[], Any]
    apply: Callable[[Any], None]
