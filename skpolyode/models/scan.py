"""The pass over all observations, every series at its own pace.

Each round takes one integration step of every series still running; those that thereby arrive at
their next observation take it in and go on from there. No series waits for another one with a
longer gap, so the number of rounds is that of the series with most steps, not the sum, over
observations, of the longest gap at each: on Lorenz63 80 rounds instead of 330, of more rows each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch

from skpolyode.cubic import CubicPath
from skpolyode.dynamics import NetworkSteps, count_steps
from skpolyode.dynamics.steps import Start
from skpolyode.models.contract import State, Step, join
from skpolyode.models.packed import Packed

if TYPE_CHECKING:
    from skpolyode.models.polyode import PolyODE

__all__ = ["scan"]


class _Paths(NamedTuple):
    """Where the paths of the intervals are written down: one place for each series of a block."""

    values: torch.Tensor  # (B, K + 1, D): the signal at the ends of the steps
    slopes: torch.Tensor  # (B, K + 1, D): its derivative there

    def record(self, steps: NetworkSteps, run: _Running) -> Start:
        """Write down the signal and its derivative after the steps taken; begin the next."""
        flat = run.z.flatten(1)
        start = steps.begin(flat)
        place = run.place, run.taken
        self.values.index_put_(place, flat[:, steps.recorded])
        self.slopes.index_put_(place, steps.slope(flat, start))
        return start

    def of(self, run: _Running) -> CubicPath:
        """Those of some series at the end of their interval."""
        last = int(run.n_steps.max()) + 1
        columns = (part[run.place, :last].transpose(0, 1) for part in self)
        return CubicPath(*columns, run.step, run.n_steps)


class _Running(NamedTuple):
    """Series on their way to their next observation."""

    place: torch.Tensor  # int64 (B,): of the series in the block
    target: torch.Tensor  # int64 (B,): row of that observation
    z: torch.Tensor  # (B, D, 1 + N): state after the steps taken
    memories: State  # parts (B, D, N or M): memories at the last observation
    taken: torch.Tensor  # int64 (B,)
    n_steps: torch.Tensor  # int64 (B,): steps of the interval
    step: torch.Tensor  # float64 (B,): their length

    def select(self, index: torch.Tensor) -> _Running:
        """Some of them; `index_select` takes half of the time of brackets."""
        memories = {name: part.index_select(0, index) for name, part in self.memories.items()}
        columns = (x if x is self.memories else x.index_select(0, index) for x in self)
        return _Running(*columns)._replace(memories=memories)

    def join(self, other: _Running) -> _Running:
        pairs = zip(self, other, strict=True)
        return _Running(*(join(list(p)) if isinstance(p[0], dict) else torch.cat(p) for p in pairs))


def scan(model: PolyODE, data: Packed, block: list[slice]) -> Iterator[Step]:
    """Run a block of series over all their observations.

    Parameters
    ----------
    model : PolyODE
    data : Packed
    block : list of slice
        Rows of the block, as :meth:`Packed.blocks` gives them.

    Yields
    ------
    Step
        The observations taken in by a round.
    """
    steps = NetworkSteps(model.field, model.stepper, model.signals)
    rows = torch.arange(block[0].start, block[0].stop, device=data.x.device)
    step = _take_in(model, data, rows, model.initial(data, rows))
    yield step
    gaps = data.gap[block[0].start : block[-1].stop].clamp(max=model.max_gap)
    n_knots = int(count_steps(gaps, model.step_size).max()) + 1
    path = data.x.new_zeros(len(rows), n_knots, data.x.shape[1])
    paths = _Paths(path, path.clone())
    run = _depart(model, data, step, rows - block[0].start)
    while len(run.target):
        start = paths.record(steps, run)
        arrived = run.taken == run.n_steps
        if arrived.any():
            there = run.select(arrived.nonzero()[:, 0])
            step = _arrive(model, data, there, paths.of(there))
            yield step
            new = _depart(model, data, step, there.place)
            on_the_way = (~arrived).nonzero()[:, 0]
            pairs = zip(start, paths.record(steps, new), strict=True)
            start = Start(*(torch.cat([x.index_select(0, on_the_way), y]) for x, y in pairs))
            run = run.select(on_the_way).join(new)
        flat = run.z.flatten(1)
        end = steps.end(flat, start, run.step.to(flat.dtype)[:, None])
        run = run._replace(z=end.view_as(run.z), taken=run.taken + 1)


def _depart(model: PolyODE, data: Packed, step: Step, place: torch.Tensor) -> _Running:
    """Set out from observations just taken in, those that are the last of their series left out."""
    going_on = (data.next[step.rows] >= 0).nonzero()[:, 0]
    target = data.next[step.rows[going_on]]
    gap = data.gap[target].clamp(max=model.max_gap)
    n_steps = count_steps(gap, model.step_size)
    memories = {name: step.state[name][going_on] for name in model.memories}
    z, taken = step.state["z"][going_on], torch.zeros_like(n_steps)
    return _Running(place[going_on], target, z, memories, taken, n_steps, gap / n_steps)


def _arrive(model: PolyODE, data: Packed, run: _Running, path: CubicPath) -> Step:
    """Let the memory follow the path of the interval, then take in the observation."""
    gap, elapsed = data.gap[run.target], data.elapsed[run.target]
    memories = model.remember(run.memories, path, run.z[..., 0], gap, elapsed)
    return _take_in(model, data, run.target, {"z": run.z} | memories)


def _take_in(model: PolyODE, data: Packed, rows: torch.Tensor, before: State) -> Step:
    return Step(rows, before, model.predict(before), model.observe(before, data, rows))
