"""Training on segments of series, for models that process many observations at once."""

from __future__ import annotations

import torch

from skpolyode.models.contract import Packed, Prediction, State, join, select
from skpolyode.training.tasks import IntervalTask, Minibatches


class SegmentTask(IntervalTask):
    """Train on segments of series, with all updates in them, from their stored first states.

    An :class:`IntervalTask` runs over a few observations from each one. Here each observation is
    processed once, and its gradient reaches back to the start of its segment. That costs less if a
    model computes a segment at once.

    Parameters
    ----------
    model : SequenceModel
    data : Packed
        Training and validation series together.
    held_out : bool Tensor of shape (n_series,)
        Mask of series that only validate. If there are none, the training error is used.
    horizon : int, default=1
        Observations forecast from each one without updates in between.
    length : int, default=1
        Intervals of a segment.
    furthest : int, default=1
        As in :class:`IntervalTask`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.models import pack
    >>> from skpolyode.siblings import S4
    >>> from skpolyode.siblings.segment import SegmentTask
    >>> model = S4(1, hidden_size=4, generator=torch.Generator().manual_seed(0)).double()
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> task = SegmentTask(model, data, torch.tensor([False]), length=64)
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> abs(task.loss(torch.tensor([0])).item() - error) < 1e-12
    True
    """

    minibatches = Minibatches(32, smallest=8, n_most=1024)
    """Each observation is processed once, not four times, and stays in memory."""

    usual_length = 64

    forgotten_share = 0.0
    """Segments begin at their stored states."""

    def take(self, data: Packed, held_out: torch.Tensor) -> None:
        """Continue with other series, whose states are not known yet."""
        super().take(data, held_out)
        starts = self.items[data.steps()[self.items] % self.length == 0]
        self.item_size = len(self.items) / len(starts) if len(starts) else 1.0
        self.items = starts
        self.place = torch.full_like(data.series, -1)  # (P,), index of a row in the stored states
        self.place[starts] = torch.arange(len(starts), device=starts.device)

    @property
    def n_stored(self) -> int:
        """Number of rows whose states are stored: the starts of segments."""
        return len(self.items)

    def _store(self, rows: torch.Tensor, states: State) -> None:
        """Store the states at the starts of segments."""
        place = self.place[rows]
        super()._store(place[place >= 0], select(states, place >= 0))

    def _stored(self, rows: torch.Tensor) -> State:
        """States just before the first rows of segments, from the last refresh."""
        return select(self.states, self.place[rows])

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Mean loss over all intervals of a minibatch of segments."""
        parts = self._segments(self.items[index])
        steps = list(self.model.run_from(self._before(parts[0]), self.data, parts))
        updates = [self._update_loss(step.state, step.rows) for step in steps[:-1]]
        state, rows = join([step.before for step in steps[1:]]), torch.cat(parts[1:])
        columns = zip(*(step.prediction for step in steps[1:]), strict=True)
        prediction = Prediction(*(None if x[0] is None else torch.cat(x) for x in columns))
        loss = self._mean_loss(prediction, rows) + torch.stack(updates).mean()
        return self._with_leads(loss, 1.0, state, rows)

    def _segments(self, first: torch.Tensor) -> list[torch.Tensor]:
        """Rows of each step of segments, from their first rows; longest segments first."""
        steps = [first]
        for _ in range(self.length):
            steps.append(torch.where(steps[-1] >= 0, self.data.next[steps[-1]], -1))
        rows = torch.stack(steps)  # (length + 1, n), -1 after the end of a series
        lengths = (rows >= 0).sum(dim=0)
        rows = rows[:, lengths.argsort(descending=True, stable=True)]
        return [step for now in rows if len(step := now[now >= 0])]
