"""Training on more series than it needs: each epoch goes through a part of them, drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skpolyode.models.packed import Packed
from skpolyode.training.tasks.interval import IntervalTask, SeriesTask

__all__ = ["SubsampledTask"]


class SubsampledTask:
    """A task that goes on with another part of the series in each epoch.

    What a gradient needs does not grow with the data, so that neither does an epoch. Parts are
    dealt from the series in random order; no series comes again before all others came. Where the
    states of a part cost a pass in order through its series, as much as its gradients, they serve
    two epochs.

    Parameters
    ----------
    new_task : callable
        Makes the task, an :class:`IntervalTask` or :class:`SeriesTask`, of a part: its data, and
        which of its series only validate.
    read : callable
        From positions (n,) of series to such a part. It adds the series that validate, always
        the same.
    n_series : int
        How many there are to learn from.
    n_drawn : int
        How many of them are a part.
    seed : int
        Of the order of the series; nothing else is drawn.

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
        new_task: Callable[[Packed, torch.Tensor], IntervalTask | SeriesTask],
        read: Callable[[np.ndarray], tuple[Packed, torch.Tensor]],
        *,
        n_series: int,
        n_drawn: int,
        seed: int,
    ) -> None:
        self.read, self.n_series, self.n_drawn, self.seed = read, n_series, n_drawn, seed
        self.task = new_task(*read(self.positions(0)))
        self.minibatches = self.task.minibatches
        self.number, self.is_used = 0, False
        self.may_stay = self.stays = False
        self.error = float("inf")

    def positions(self, number: int) -> np.ndarray:
        """Series of a part, counted from 0 through all epochs."""
        turns = np.arange(self.n_drawn) + number * self.n_drawn
        deals, places = np.divmod(turns, self.n_series)
        return np.concatenate([self._order(k)[places[deals == k]] for k in np.unique(deals)])

    def _order(self, deal: int) -> np.ndarray:
        """In which all series are dealt for one time."""
        return np.random.default_rng((self.seed, deal)).permutation(self.n_series)

    @property
    def items(self) -> torch.Tensor:
        """What of the present part is learned from."""
        return self.task.items

    @property
    def item_size(self) -> float:
        """Intervals of an item, in the mean."""
        return self.task.item_size

    @property
    def data(self) -> Packed:
        """The present part, with what validates."""
        return self.task.data

    @property
    def is_preliminary(self) -> bool:
        """Whether the last `refresh` gave an error that is not to be compared with later ones."""
        return self.stays or self.task.is_preliminary

    def refresh(self, progress: float = 1.0) -> float:
        """Go on with the next part, unless the task keeps its own; returns the validation error."""
        self.stays = self.may_stay and progress < 1
        if self.stays:  # with the states as they are, and the error of then
            self.may_stay = False
            return self.error
        if self.is_used and not self.task.keeps_states(progress):
            self.number += 1
            self.task.take(*self.read(self.positions(self.number)))
        self.is_used = True
        self.error = self.task.refresh(progress)
        self.may_stay = self.task.scans and not self.task.keeps_states(progress)
        return self.error

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Loss of some items."""
        return self.task.loss(index)

    def state_dict(self) -> dict[str, Any]:
        """Which part it is, and what was prepared of it."""
        own = {"number": self.number, "may_stay": self.may_stay, "stays": self.stays}
        return own | {"error": self.error, "task": self.task.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to a part."""
        self.number, self.is_used = state["number"], True
        self.may_stay, self.stays, self.error = (state[k] for k in ("may_stay", "stays", "error"))
        self.task.take(*self.read(self.positions(self.number)))
        self.task.load_state_dict(state["task"])
