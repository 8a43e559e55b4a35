"""Training PolyODE on intervals, faster than other models by its reset and its linear memory.

An observation resets most of the state from data and memory. So training goes on from the state
after it without the memory, and the data nearly fix that state. A refresh therefore runs through
parts of long series side by side, each from the state that the last refresh has found at its start.
The first refresh starts from the states of straight lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from skpolyode.models.contract import Packed, Prediction, State
from skpolyode.models.gain import Passed
from skpolyode.models.polyode import PolyODE
from skpolyode.training.tasks.interval import IntervalTask

# While the field is far off, midpoint steps, the states of straight lines and short intervals show
# it where to go, and cost less.
_COARSE_SHARE = 1 / 8  # of the training
_COARSE_STEPS = 4  # longest intervals in it
_CHUNK = 4096  # intervals at once: bounds memory


class PolyODETask(IntervalTask):
    """Intervals of a PolyODE, from states `z` just before the observations that begin them.

    Beside them the memories `c` after these observations are stored.

    Parameters
    ----------
    model : PolyODE
    data : Packed
        Training and validation series together: one pass serves both.
    held_out : bool Tensor of shape (n_series,)
        Series that only validate. If there are none, the training error is taken instead.
    horizon : int, default=1
        Observations forecast from each stored state without updates in between.
    length : int, default=1
        Observations forecast one after the other, with the updates in between.
    furthest : int, default=1
        Observations that some minibatches forecast; see
        :class:`~skpolyode.training.tasks.IntervalTask`.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> from skpolyode.training.tasks import PolyODETask
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> task = PolyODETask(model, data, torch.tensor([False]))
    >>> error = task.refresh()  # stores the states, before each epoch
    >>> task.loss(torch.tensor([0, 1])).item() == error
    True
    """

    model: PolyODE

    hidden_share = 0.5
    """With all updates, free runs of half a series have 1.85 times the error of gradients through
    one observation, on ten real sets; with half of them to the end, 0.99 times. If the share falls
    to nothing, errors of the next observation are 0.76 to 0.99 times those of a share that stays on
    three simulated sets, and 0.91 times on eleven real ones; those of free runs are 1.04 times."""

    fewest_far = 64
    """With 32, and one minibatch of four that looks far, squared errors of whole histories 5, 10,
    20 and 40 cycles ahead are 1.09, 0.98, 0.93 and 1.22 times as large on smoothed turbofan
    engines, 1.23, 1.20, 1.20 and 1.12 times on raw ones, and those 4, 8 and 16 rows ahead 1.14,
    1.24 and 1.46 times on fourteen sensors."""

    forgotten_share = 0.5
    """Share of the departures without the learned state, so that the field does not depend on it
    where signal and memory are better predictors. With it and the states of a run, root mean
    squared errors one cycle ahead fall from 0.182 and 0.114 to 0.107 and 0.109 on raw turbofan
    engines (two seeds), and squared ones from 0.0116 to 0.0082 on Lorenz63 (0.0070 by the states
    alone)."""

    part_rows = 32
    """Rows of the parts of long series that a refresh runs through side by side. Whole series of
    200 rows would take half of the time of a fit. The learned state gets this much further into a
    series with each refresh."""

    def __post_init__(self, held_out: torch.Tensor) -> None:
        super().__post_init__(held_out)
        self.starts_anew = self.model.field.stands_still
        self.n_refreshed = 0

    def take(self, data: Packed, held_out: torch.Tensor) -> None:
        """Continue with other series, from the states of straight lines."""
        super().take(data, held_out)
        # All that a field which stands still depends on.
        memory = self.model.memory
        c = data.x.new_zeros(*data.x.shape, memory.n_coefficients, dtype=memory.dtype)
        z = data.x.new_zeros(len(data.x), self.model.size)
        z[:, self.model.signals] = data.x
        self.states = {"z": z, "c": c}
        self.is_new = True
        validating = (data.next >= 0) & self.scored
        if data.knot is not None:
            validating &= ~data.knot
        self.validating = validating.nonzero()[:, 0]

    @property
    def scans(self) -> bool:
        """Whether a refresh goes through whole series; their parts side by side cost less.

        If all channels are observed together, a run can start from the states of rows.
        """
        return not bool(self.data.mask.all())

    def keeps_states(self, progress: float) -> bool:
        """Whether the coarse part continues, which keeps the states of its beginning."""
        return self.n_refreshed > 0 and self.starts_anew and progress < _COARSE_SHARE

    @torch.no_grad()
    def refresh(self, progress: float = 1.0) -> float:
        """Store the state before every observation, and return the validation error.

        In the coarse first part the states stay those of straight lines, and the error is
        preliminary: the model's own states may be worse.
        """
        self.model.is_coarse = self.starts_anew and progress < _COARSE_SHARE
        self.is_preliminary = self.keeps_states(progress)
        if self.is_preliminary:
            return self._validate()
        error = super().refresh(progress)
        self.n_refreshed += 1
        self.is_new = False
        return self._validate() if self.model.is_coarse else error

    def _estimated(self, predictions: torch.Tensor) -> dict[str, torch.Tensor]:
        """Noise and gain of a filter."""
        if (gain := self.model.gain) is None:
            return {}
        passed = self._passed() if gain.known_errors == "none" else None
        gain.estimate(self.data, predictions, passed, self.counted)
        return {f"gain.{name}": x.clone() for name, x in gain.named_buffers()}

    def _passed(self) -> Passed:
        """Forecasts from the stored states, past the observations that these come before."""
        again = (self.data.mask & self.data.seen).any(dim=1)
        rows = (again & (self.data.next >= 0)).nonzero()[:, 0]

        z, steer = self.states["z"], self.model.steer
        parts = self._forecasts(rows, lambda part: steer({"z": z[part]}, self.data, part))
        following, predictions = (torch.cat(column) for column in zip(*parts, strict=True))
        return Passed(rows, following, predictions)

    def _forecasts(
        self, rows: torch.Tensor, depart: Callable[[torch.Tensor], State]
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Rows of the next observations, and their forecasts from states that `depart` at rows."""
        for part in rows.split(_CHUNK):
            state, following = self.model.arrive(depart(part), self.data, part)
            yield following, self.model.predict(state).mean

    def _validate(self) -> float:
        """Validation error from the stored states."""
        data = self.data
        errors = torch.zeros_like(data.x)
        for rows, predictions in self._forecasts(self.validating, self._depart):
            errors[rows] = (data.x[rows] - predictions).square()
        return self._validation_error(errors)

    def _pass(
        self, block: list[slice], progress: float
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, State]]:
        """States of the present weights; within long series, from those of the last refresh."""
        starts, later = {}, block[self.part_rows :: self.part_rows]
        if later and not (self.is_new or self.scans or progress == 1):  # where parts start
            device = self.data.x.device
            rows = torch.cat([torch.arange(r.start, r.stop, device=device) for r in later])
            starts = {"starts": (rows, self._stored(rows))}
        for step in self.model.run_block(self.data, block, **starts):
            before = self._known(step.before["z"], step.before["c"], step.rows)
            yield step.rows, step.prediction.mean, {"z": before, "c": step.state["c"]}

    def _known(self, z: torch.Tensor, c: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """States just before rows, with the memory there in place of its copy, which is reset."""
        channels, rest = self.model.split(z)
        reset = torch.cat([channels[..., :1], c.to(z.dtype)], dim=-1)
        channels = torch.where(self.data.mask[rows][..., None], reset, channels)
        return torch.cat([channels.flatten(1), rest], dim=1)

    def _set_out(self, rows: torch.Tensor) -> State:
        """States after the observations at `rows`, some of which do not know the learned state."""
        state, forgotten = self._before(rows), self._forgotten(rows)
        forgotten &= self.data.gap[rows] > 0  # a first state is what covariates have set
        signals, learned, inputs = state["z"].split(self.model.parts, dim=1)
        learned = torch.where(forgotten[:, None], 0.0, learned)
        return self._observed(state | {"z": torch.cat([signals, learned, inputs], dim=1)}, rows)

    def _observed(self, state: State, rows: torch.Tensor) -> State:
        """States after the observations at `rows`, without memory: the dynamics need none.

        The memory of a filter follows its forecasts, which change. Otherwise the memory after the
        observations serves as it was stored.
        """
        if self.model.filters:
            known = state if "c" in state else state | {"c": self._stored(rows)["c"]}
            return {"z": self.model.observe(known, self.data, rows)["z"]}
        return {"z": self.model.reset(state["z"], self.states["c"][rows], self.data, rows)}

    def _leads(
        self, state: State, rows: torch.Tensor, reach: int
    ) -> Iterator[tuple[Prediction, torch.Tensor]]:
        """As for any model, but all in one run, in which no series waits for another."""
        if self.data.inputs is not None:
            yield from super()._leads(state, rows, reach)
            return
        starts, targets = [], []  # of each lead: the states that it starts from, and its rows
        start = torch.arange(len(rows), device=rows.device)
        for _ in range(1, reach):
            rows = self.data.next[rows]
            start, rows = start[rows >= 0], rows[rows >= 0]
            if len(rows):
                starts.append(start)
                targets.append(rows)
        if not starts:
            return
        gone_on, start = torch.cat(starts).unique(return_inverse=True)
        order = start.argsort(stable=True)
        gaps = self.data.gap[torch.cat(targets)[order]]
        signals = self.model.visit(state["z"][gone_on], start[order], gaps)[order.argsort()]
        yield from zip(map(Prediction, signals.split([*map(len, starts)])), targets, strict=True)

    def _stored(self, rows: torch.Tensor) -> State:
        z = self.states["z"][rows]
        return {"z": z, "c": self.model.split(z)[0][..., 1:].to(self.model.memory.dtype)}

    def _chosen(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows followed by a short gap in the coarse part, if there are any; all rows later."""
        if not self.model.is_coarse:
            return rows
        short = self.data.gap[self.data.next[rows]] <= _COARSE_STEPS * self.model.step_size
        return rows[short] if short.any() else rows
