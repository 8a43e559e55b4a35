r"""PolyODE: dynamics that forecast between observations, and a memory that they drive.

Between observations ``dz/dt = phi(z)`` moves the state z = [h0, h_1..h_N of each channel, w] and
the memory follows the signal h0 exactly. At an observation x with mask m and covariates s::

    bridge:  c_j += m_j K_j (x_j - h0_j) rho(time since the previous observation of j)
    reset:   h0_j += m_j K_j (x_j - h0_j),   h_j := c_j where m_j = 1
    cell:    w := GRU([m h0, m, m K (x - h0), s], w), with h0 after and x - h0 before the reset

Known inputs u are read by ``dz/dt = phi(z, u)``, and impulses by the cell, beside an observation or
alone: they move w, never the signal. Where an input changes, integration stops and goes on.

The gain K is 1 for exact observations; with another one this is a filter of noisy ones. The memory
never feeds back into phi between observations. Signal, memory and reset are those of De Brouwer &
Krishnan (ICLR 2023, section 3). The bridge, the gain and w, which carries on what the memory of the
recent past does not hold, are ours; w is updated as the state of ODE-RNN (Rubanova et al., 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from skpolyode.cubic import CubicPath, evaluate_path
from skpolyode.dynamics import (
    STEPPERS,
    NetworkSteps,
    Stepper,
    WalledMLP,
    count_steps,
    integrate,
    rollout,
)
from skpolyode.dynamics.integrate import Begun
from skpolyode.memory import Memory
from skpolyode.models.contract import (
    InputSizes,
    Packed,
    Prediction,
    SequenceModel,
    State,
    Step,
    driven_update,
    join,
)
from skpolyode.models.gain import Gain
from skpolyode.models.single import FEW_SERIES, SinglePolyODE
from skpolyode.saving.codec import register


class PolyODE(SequenceModel):
    """The alternation of dynamics and memory over packed observations.

    A state has the parts `z` (n, D (1 + N) + H), of each channel the signal and the hidden copy of
    its coefficients, then the learned state w, and the memory `c` (n, D, N). A second memory, which
    follows the same path but which the dynamics never see, is the part `history` (n, D, M); it is
    there in `eval` mode only, as training does without it.

    Parameters
    ----------
    field : WalledMLP
        Vector field on the state, of length D (1 + N) + H.
    memory : Memory
        Measure with N coefficients, which the hidden state copies at observations: the recent past
        that the dynamics start from.
    step_size : float
        Longest integration step.
    max_gap : float
        Longest gap that is integrated; after it the signal is held. So long after the last
        observation the dynamics know nothing, and the cost would grow with the gap.
    stepper : str, default="rk4"
        Name of a Runge-Kutta method of :data:`skpolyode.dynamics.STEPPERS`.
    history : Memory or None, default=None
        Measure, of any size and window, for the coefficients that are features; None takes
        `memory`.
    start : nn.Module or None, default=None
        Maps static covariates (rows, S) to what they add to a state that begins, and to the hidden
        copies of one that is reset.
    gain : Gain or None, default=None
        Share of an innovation by which an observation moves the signal; None is all of it.
    cell : nn.GRUCell or None, default=None
        Updates the learned state w, of length H, at observations and impulses; it reads 3 D + S
        numbers, and the impulses. None: the model of the paper, without w.
    inputs : sequence of int, default=(0, 0, 0)
        How many inputs hold, are linear and are impulses. Those with a value follow w in `z`,
        then slopes.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skpolyode.dynamics import WalledMLP
    >>> from skpolyode.memory import LegTMemory
    >>> from skpolyode.models import PolyODE, pack
    >>> field = WalledMLP(1 + 4, (8,), generator=torch.Generator().manual_seed(0)).double()
    >>> model = PolyODE(field, LegTMemory(4, window=2.0), step_size=0.5, max_gap=40.0)
    >>> times, values = np.array([0.0, 1.0, 3.0]), np.array([[1.0], [2.0], [0.0]])
    >>> data = pack(times, values, np.array([0, 3]))
    >>> state = model.embed(data)
    >>> state["z"].shape, state["c"].shape
    (torch.Size([1, 5]), torch.Size([1, 1, 4]))
    >>> state["z"][0, 0].item()  # the signal is the last observation
    0.0
    """

    steps_share_gaps = True

    def __init__(
        self,
        field: WalledMLP,
        memory: Memory,
        *,
        step_size: float,
        max_gap: float,
        stepper: str = "rk4",
        history: Memory | None = None,
        start: nn.Module | None = None,
        gain: Gain | None = None,
        cell: nn.Module | None = None,
        inputs: Sequence[int] = (0, 0, 0),
    ) -> None:
        super().__init__()
        self.inputs = InputSizes(*inputs)
        self.field = field
        self.memory = memory
        self.step_size = step_size
        self.max_gap = max_gap
        self.stepper_name = stepper
        self.is_coarse = False
        self.history = history
        self.start = start
        self.gain = gain
        self.cell = cell
        self.size = field.size  # of a state z
        n_cell, n_inputs = 0 if cell is None else cell.hidden_size, self.inputs.n_state
        # Those of the channels, of w, and of inputs.
        self.parts = self.size - n_cell - n_inputs, n_cell, n_inputs

    @property
    def memories(self) -> dict[str, Memory]:
        """Memories that follow the path, by the name of their part of a state."""
        if self.history is None or self.training:
            return {"c": self.memory}
        return {"c": self.memory, "history": self.history}

    @property
    def arguments(self) -> dict[str, Any]:
        """What makes a model of the same settings, with the same field, memory and start."""
        names = ("field", "memory", "step_size", "max_gap", "history", "start", "gain", "cell")
        settings = {name: getattr(self, name) for name in names}
        return settings | {"stepper": self.stepper_name, "inputs": self.inputs}

    @property
    def stepper(self) -> Stepper:
        """Runge-Kutta method of the integration; a cheap one while `is_coarse` is set."""
        return STEPPERS["midpoint" if self.is_coarse else self.stepper_name]

    @property
    def signals(self) -> slice:
        """Coordinates of a state z that are the signals."""
        return slice(0, self.parts[0], 1 + self.memory.n_coefficients)

    def split(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Channels (n, D, 1 + N) of states z, and the rest: the learned part, and inputs."""
        channels, rest = z.split((self.parts[0], sum(self.parts[1:])), dim=1)
        return channels.unflatten(1, (-1, 1 + self.memory.n_coefficients)), rest

    def initial(self, data: Packed, rows: Tensor) -> State:
        """State before the first observations: the default one, moved by static covariates."""
        if self.start is None:
            z = data.x.new_zeros(len(rows), self.size)
        else:
            z = functional.pad(self.start(data.static[rows]), (0, self.inputs.n_state))
        if self.gain is not None:
            z[:, self.signals] += self.gain.start
        constant = {
            name: memory.constant(z[:, self.signals]) for name, memory in self.memories.items()
        }
        return {"z": z} | constant

    def flow(self, state: State, gap: Tensor, elapsed: Tensor) -> State:
        """State after gaps; a state without memory, which training uses, has none after them."""
        if "c" not in state:
            gap = gap.clamp(max=self.max_gap)
            return {"z": integrate(self.field, state["z"], gap, **self._steps)[0]}
        z, path = self.trace(state["z"], gap)
        return {"z": z} | self.remember(state, path, z[:, self.signals], gap, elapsed)

    def observe(self, state: State, data: Packed, rows: Tensor) -> State:
        """State after the observations of some rows: bridge, then reset."""
        z, memories = state["z"], self.memories
        moved = {
            name: state[name] + self.corrected(memory, z[:, self.signals], data, rows)
            for name, memory in memories.items()
        }
        return {"z": self.reset(z, moved["c"], data, rows)} | moved

    def steer(self, state: State, data: Packed, rows: Tensor) -> State:
        """State under the inputs from some rows on; signals and memories stay."""
        if data.inputs is None:
            return state
        z = state["z"]
        return state | {"z": self.reset(z, self.split(z)[0][..., 1:], data.unseen, rows)}

    def predict(self, state: State) -> Prediction:
        """The signal."""
        return Prediction(state["z"][:, self.signals])

    def features(self, state: State) -> dict[str, Tensor]:
        """Coefficients (n, D, M), signal and recent past (n, D, 1 + N) as after a reset, w (n, H).

        All channels of that state are as after a reset: the hidden copy of a channel that was not
        observed for long has drifted, its memory has not. Next to coefficients of a longer history
        the state is scaled by the root of its share of that history, so that the squared distance
        of two embeddings is that of the histories, with the recent part counted twice.
        """
        signal = state["z"][:, self.signals, None]
        hidden = torch.cat([signal, state["c"].to(signal.dtype)], dim=-1)
        learned = {"state": self.split(state["z"])[1][:, : self.parts[1]]} if self.parts[1] else {}
        if self.history is None:
            return {"coefficients": state["c"], "hidden": hidden} | learned
        share = (self.memory.window / self.history.window) ** 0.5
        return {"coefficients": state["history"], "hidden": share * hidden} | learned

    def run_block(
        self, data: Packed, block: list[slice], starts: tuple[Tensor, State] | None = None
    ) -> Iterator[Step]:
        """Run over series, none of which waits for another; few in numpy, if that is faster.

        With `starts`, rows (n,) of the block and states just before them, the parts of the series
        from there on run beside the parts before, which end there.
        """
        rows = torch.arange(block[0].start, block[0].stop, device=data.x.device)
        single = self.single
        if single is None or len(rows) > FEW_SERIES or torch.is_grad_enabled():
            return self._scan(data, block, starts)
        return single.run(self.initial(data, rows), data, rows.tolist())

    def _scan(
        self, data: Packed, block: list[slice], starts: tuple[Tensor, State] | None
    ) -> Iterator[Step]:
        """Run over series, none of which waits for the longest gap; steps hold rows of any place.

        Each round takes one integration step of every series between two observations. Taking
        observations in costs as much as several steps. So a series waits until half of them have
        arrived; these then take in their observations together and go on. The number of rounds is
        little more than that of the series with most steps. A pass over 200 series of 30 rows takes
        0.8 of the time of one without waiting, as observations are taken in 49 times instead of 69.
        """
        steps = NetworkSteps(self.field, self.stepper, self.signals)
        rows = torch.arange(block[0].start, block[0].stop, device=data.x.device)
        step = self._take_in(self.initial(data, rows), data, rows)
        yield step
        ends = None  # rows where a part ends, as the next one starts there
        if starts is not None:
            ends = torch.zeros(len(data), dtype=torch.bool, device=data.x.device)
            rows, ends[starts[0]] = torch.cat([rows, starts[0]]), True
            state = join([step.state, self.observe(starts[1], data, starts[0])])
            step = step._replace(rows=rows, state=state)
        gaps = data.gap[block[0].start : block[-1].stop].clamp(max=self.max_gap)
        n_knots = int(count_steps(gaps, self.step_size).max()) + 1
        path = data.x.new_zeros(len(rows), n_knots, data.x.shape[1])
        paths = _Paths(path, path.clone())
        run = self._depart(step, data, torch.arange(len(rows), device=data.x.device))
        waiting: list[_Running] = []
        while len(run.target):
            start = paths.record(steps, run)
            arrived = run.taken == run.n_steps
            if arrived.any():
                waiting.append(run.select(arrived.nonzero()[:, 0]))
                moving = (~arrived).nonzero()[:, 0]
                run, start = run.select(moving), start.select(moving)
            if sum(len(some.target) for some in waiting) >= len(run.target):
                there, waiting = waiting[0].join(*waiting[1:]), []
                gap, elapsed = data.gap[there.target], data.elapsed[there.target]
                end = there.z[:, self.signals]
                memories = self.remember(there.memories, paths.of(there), end, gap, elapsed)
                step = self._take_in({"z": there.z} | memories, data, there.target)
                yield step
                new = self._depart(step, data, there.place, ends)
                pairs = zip(start, paths.record(steps, new), strict=True)
                run, start = run.join(new), Begun(*map(torch.cat, pairs))
            flat = run.z
            end = steps.end(flat, start, run.step.to(flat.dtype)[:, None])
            run = run._replace(z=end, taken=run.taken + 1)

    def _take_in(self, before: State, data: Packed, rows: Tensor) -> Step:
        return Step(rows, before, self.predict(before), self.observe(before, data, rows))

    def _depart(
        self, step: Step, data: Packed, place: Tensor, ends: Tensor | None = None
    ) -> _Running:
        """Set out from the observations of a step that are not last in their series, or at `ends`.

        These are a mask (P,) of all rows.
        """
        goes_on = data.next[step.rows] >= 0
        if ends is not None:
            goes_on &= ~ends[step.rows]
        going_on = goes_on.nonzero()[:, 0]
        target = data.next[step.rows[going_on]]
        gap = data.gap[target].clamp(max=self.max_gap)
        n_steps = count_steps(gap, self.step_size)
        memories = {name: step.state[name][going_on] for name in self.memories}
        z, taken = step.state["z"][going_on], torch.zeros_like(n_steps)
        return _Running(place[going_on], target, z, memories, taken, n_steps, gap / n_steps)

    @property
    def single(self) -> SinglePolyODE | None:
        """The same in numpy, where it can be: outside of training, in float64 on the CPU."""
        weight = next(self.field.parameters())
        exact = weight.dtype == torch.float64 and weight.device.type == "cpu"
        if self.training or not exact or type(self) is not PolyODE or any(self.inputs):
            return None
        return SinglePolyODE(self, self.start, self.cell)

    def between(
        self, state: State, row: Tensor, since: Tensor, gap: Tensor, elapsed: Tensor
    ) -> Prediction:
        """Signals before the next observations, read from the paths that memory follows."""
        furthest = since.new_zeros(len(gap)).scatter_reduce(0, row, since, "amax")
        # Ahead of the last observation the steps are whole ones, so that a forecast does not
        # depend on the other times asked for.
        n_steps = (furthest / self.step_size).ceil().clamp(min=1)
        reach = torch.where(gap.isinf(), n_steps * self.step_size, gap).clamp(max=self.max_gap)
        _, path = self.trace(state["z"], reach)
        return Prediction(evaluate_path(path, torch.minimum(since, reach[row]), row))

    def look_ahead_under(
        self, course: Packed, state: State, since: Tensor, elapsed: Tensor
    ) -> Tensor:
        """As for any model, without the memories, which no forecast reads."""
        return super().look_ahead_under(course, {"z": state["z"]}, since, elapsed)

    def trace(self, z: Tensor, gap: Tensor) -> tuple[Tensor, CubicPath]:
        """States z after gaps (n,), and the path of the signals (up to `max_gap`)."""
        gap = gap.clamp(max=self.max_gap)
        return integrate(self.field, z, gap, **self._steps, recorded=self.signals)

    def visit(self, z: Tensor, row: Tensor, gap: Tensor) -> Tensor:
        """Signals (Q, D) after gaps (Q,) that follow one another from states z.

        See :func:`~skpolyode.dynamics.rollout`: `row` (Q,) is the state that each belongs to.
        """
        gap = gap.clamp(max=self.max_gap)
        return rollout(self.field, z, row, gap, **self._steps, recorded=self.signals)

    @property
    def _steps(self) -> dict[str, Any]:
        return {"step_size": self.step_size, "stepper": self.stepper}

    def remember(
        self, state: State, path: CubicPath, end: Tensor, gap: Tensor, elapsed: Tensor
    ) -> State:
        """Memories after the path of a gap, whose `end` (n, D) is held after `max_gap`.

        Before the first observation, where only inputs are known, there is nothing to remember.
        """
        early = elapsed <= 0
        if is_early := any(self.inputs) and bool(early.any()):
            elapsed = torch.where(early, gap, elapsed)
        moved = {}
        for name, memory in self.memories.items():
            driven = memory.driven_on(path, end, gap, elapsed, self.max_gap)
            moved[name] = memory.propagate(state[name], gap, elapsed) + driven
            if is_early:
                constant = memory.constant(end)
                moved[name] = torch.where(early[:, None, None], constant, moved[name])
        return moved

    def corrected(self, memory: Memory, signal: Tensor, data: Packed, rows: Tensor) -> Tensor:
        """Coefficients that observations add to a memory which followed `signal` (n, D)."""
        known = data.seen[rows], data.channel_gap[rows], data.elapsed[rows]
        return memory.take_in(self.rise(signal, data, rows), *known)

    def rise(self, signal: Tensor, data: Packed, rows: Tensor) -> Tensor:
        """By how much (n, D) observations move a signal (n, D); 0 where there is none."""
        rise = torch.where(data.mask[rows], data.x[rows] - signal, 0.0)
        share = self.share(data, rows)
        return rise if share is None else share * rise

    def reset(self, z: Tensor, c: Tensor, data: Packed, rows: Tensor) -> Tensor:
        """State after observations, from the state before and the memory after them."""
        x, mask = data.x[rows], data.mask[rows]
        channels, rest = self.split(z)
        rise = self.rise(channels[..., 0], data, rows)
        signal = channels[..., 0] + rise if self.filters else x  # x itself, to the last bit
        hidden = c.to(z.dtype)
        if self.start is not None:  # a reset would erase what covariates have set
            set_by = self.start(data.static[rows])[:, : self.parts[0]]
            hidden = hidden + set_by.unflatten(1, (-1, channels.shape[2]))[..., 1:]
        anew = torch.cat([signal[..., None], hidden], dim=-1)  # (n, D, 1 + N)
        channels = torch.where(mask[..., None], anew, channels)
        if self.cell is not None:
            seen = [torch.where(mask, signal, 0.0), mask.to(x.dtype), rise, data.static[rows]]
            w, known = rest[:, : self.parts[1]], (data, rows, self.parts[2])
            rest = driven_update(self.cell, torch.cat(seen, dim=1), w, *known)
        elif data.inputs is not None:
            rest = data.inputs[rows][:, : self.parts[2]]
        return torch.cat([channels.flatten(1), rest], dim=1)


class _Running(NamedTuple):
    """Series that are being integrated up to their next observation."""

    place: Tensor  # int64 (B,): where their paths are written
    target: Tensor  # int64 (B,): row of that observation
    z: Tensor  # (B, D, 1 + N): state after the steps taken
    memories: State  # parts (B, D, N or M): memories at the last observation
    taken: Tensor  # int64 (B,)
    n_steps: Tensor  # int64 (B,): steps of the interval
    step: Tensor  # float64 (B,): their length

    def select(self, index: Tensor) -> _Running:
        """Some of them; `index_select` takes half of the time of brackets."""
        memories = {name: part.index_select(0, index) for name, part in self.memories.items()}
        columns = (x if x is self.memories else x.index_select(0, index) for x in self)
        return _Running(*columns)._replace(memories=memories)

    def join(self, *others: _Running) -> _Running:
        if not others:
            return self
        pairs = zip(self, *others, strict=True)
        return _Running(*(join(list(p)) if isinstance(p[0], dict) else torch.cat(p) for p in pairs))


class _Paths(NamedTuple):
    """Paths of the intervals as they are integrated: one place for each series of a block."""

    values: Tensor  # (B, K + 1, D): the signal at the ends of the steps
    slopes: Tensor  # (B, K + 1, D): its derivative there

    def record(self, steps: NetworkSteps, run: _Running) -> Begun:
        """Write down the signal and its derivative after the steps taken; begin the next."""
        flat = run.z
        start = steps.begin(flat)
        place = run.place, run.taken
        self.values.index_put_(place, flat[:, steps.recorded])
        self.slopes.index_put_(place, steps.slope(flat, start))
        return start

    def of(self, run: _Running) -> CubicPath:
        """Paths of series that are at the end of their interval."""
        last = int(run.n_steps.max()) + 1
        columns = (part[run.place, :last].transpose(0, 1) for part in self)  # (K + 1, B, D)
        return CubicPath(*columns, run.step, run.n_steps)


def _from_file(state: dict[str, Any]) -> PolyODE:
    model = PolyODE(**state)
    if model.parts[0] < 1 or model.parts[0] % (1 + model.memory.n_coefficients):
        raise ValueError("the field does not move the signals and the memory")
    return model.float()


register(PolyODE, lambda model: model.arguments, _from_file)
