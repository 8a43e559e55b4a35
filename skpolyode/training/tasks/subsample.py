"""Training on a large set: each epoch goes through another subsample of the series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skpolyode.models.packed import Packed
from skpolyode.training.tasks.interval import IntervalTask


class SubsampledTask:
    """A task that continues with another subsample of the series in each epoch.

    All other attributes and methods are those of the task of the present subsample.

    The cost of an epoch then does not grow with the data. Subsamples are dealt from the series in
    random order, so that no series is drawn again before all others were. If storing the states of
    a subsample takes a pass in order, which costs as much as its gradients, they serve two epochs.

    Parameters
    ----------
    new_task : callable
        Makes the task, such as an :class:`IntervalTask`, of the data of a subsample and of which of
        its series only validate.
    read : callable
        From positions (n,) of series to these two. It adds the series that validate, always the
        same.
    n_series : int
        Number of series to learn from.
    n_drawn : int
        Number of series in a subsample.
    seed : int
        Seed of the order of the series; nothing else is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training.tasks import PolyODETask, SubsampledTask
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> levels = np.arange(12.0)  # of constant series; the first two validate
    >>> def read(positions):
    ...     values = np.repeat(levels[[0, 1, *(2 + positions)]], 3)[:, None]
    ...     data = pack(np.arange(len(values)) % 3.0, values, np.arange(0, len(values) + 1, 3))
    ...     return data, torch.arange(data.n_series) < 2
    >>> task = SubsampledTask(
    ...     lambda *part: PolyODETask(model, *part), read, n_series=10, n_drawn=5, seed=0
    ... )
    >>> seen = []
    >>> for epoch in range(2):
    ...     error = task.refresh(epoch / 2)
    ...     seen.append(set(task.data.x[task.items, 0].tolist()))
    >>> [len(part) for part in seen], sorted(seen[0] | seen[1]) == list(levels[2:])
    ([5, 5], True)
    """

    def __init__(
        self,
        new_task: Callable[[Packed, torch.Tensor], IntervalTask],
        read: Callable[[np.ndarray], tuple[Packed, torch.Tensor]],
        *,
        n_series: int,
        n_drawn: int,
        seed: int,
    ) -> None:
        self.read, self.n_series, self.n_drawn, self.seed = read, n_series, n_drawn, seed
        self.task = new_task(*read(self.positions(0)))
        self.number, self.is_used = 0, False
        self.may_stay = self.stays = False
        self.error = float("inf")

    def positions(self, number: int) -> np.ndarray:
        """Series of a subsample, counted from 0 through all epochs."""
        turns = np.arange(self.n_drawn) + number * self.n_drawn
        deals, places = np.divmod(turns, self.n_series)
        found = []
        for deal in np.unique(deals):  # of all series, each deal in another order
            order = np.random.default_rng((self.seed, deal)).permutation(self.n_series)
            found.append(order[places[deals == deal]])
        return np.concatenate(found)

    def __getattr__(self, name: str) -> Any:
        if name == "task":  # it is not made yet
            raise AttributeError(name)
        return getattr(self.task, name)

    @property
    def is_preliminary(self) -> bool:
        """Whether the last validation error cannot be compared with later ones."""
        return self.stays or self.task.is_preliminary

    def refresh(self, progress: float = 1.0) -> float:
        """Continue with the next subsample, unless its states serve once more.

        Returns the validation error.
        """
        self.stays = self.may_stay and progress < 1
        if self.stays:  # the states and the error are those of the last epoch
            self.may_stay = False
            return self.error
        if self.is_used and not self.task.keeps_states(progress):
            self.number += 1
            self.task.take(*self.read(self.positions(self.number)))
        self.is_used = True
        self.error = self.task.refresh(progress)
        self.may_stay = self.task.scans and not self.task.keeps_states(progress)
        return self.error
