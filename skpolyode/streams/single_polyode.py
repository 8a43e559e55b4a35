"""PolyODE for one series at a time, in numpy: the same arithmetic at a third of the time.

See :mod:`skpolyode.memory.single` for why there is a second way. The mathematics is that of
:class:`~skpolyode.models.polyode.PolyODE`, with one gap and one observation.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from skpolyode.cubic import hermite_derivatives
from skpolyode.dynamics import Stepper, WalledMLP
from skpolyode.dynamics.field import ACTIVATION
from skpolyode.dynamics.steps import Layers
from skpolyode.memory.knots import LONGEST_PART, SHORTEST_GAP
from skpolyode.models import PolyODE
from skpolyode.streams.clock import Moment
from skpolyode.streams.single_memory import SingleMemory

__all__ = ["SinglePolyODE"]


class SinglePolyODE:
    """Runs one series through gaps and observations, as the model that it is made from.

    States `z` are (D, 1 + N) and memories `c` (D, N).

    Parameters
    ----------
    model : PolyODE
        In float64, on the CPU. What it learns later is not seen.
    """

    def __init__(self, model: PolyODE) -> None:
        self._signals = model.signals
        self._steps = _SingleSteps(model.field, model.stepper, self._signals)
        self._memory = SingleMemory(model.memory)
        self._step_size, self._max_gap = model.step_size, model.max_gap
        self._start = model.start

    def take_in(
        self, state: dict[str, np.ndarray], x: np.ndarray, moment: Moment
    ) -> dict[str, np.ndarray]:
        """State after the next observation: `z` and `c`; `static` is what covariates say.

        `x` (D,) is standardised, anything where not observed; `moment` is that of one series.
        """
        z, c, offset = state["z"], state["c"], None
        if moment.elapsed > 0:
            z, c = self.advance(z, c, moment.gap, moment.elapsed)
        if self._start is not None:
            static = torch.from_numpy(state["static"])
            offset = self._start(static).numpy().reshape(z.shape)[:, 1:]
        z, c = self.observe(
            z, c, x, moment.mask, moment.seen, moment.channel_gap, moment.elapsed, offset
        )
        return {"z": z, "c": c}

    def advance(
        self, z: np.ndarray, c: np.ndarray, gap: float, elapsed: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """State and memory after a gap without observations; the memory follows the signal."""
        integrated = min(gap, self._max_gap)
        n_steps = max(1, math.ceil(integrated / self._step_size - 1e-6))
        step, rest = integrated / n_steps, gap - integrated
        end, path = self._trace(z.ravel(), n_steps, step)
        z = end.reshape(z.shape)
        c = self._follow(c, path, step, elapsed - rest)
        if rest > 0:
            c = self._memory.hold(c, z[:, 0], rest, elapsed)
        return z, c

    def _trace(self, y: np.ndarray, n_steps: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        """State (M,) after some steps, and signals and their slopes (2, K + 1, D) on the way."""
        path = np.empty((2, n_steps + 1, len(y[self._signals])))
        for k in range(n_steps + 1):
            drive, features = self._steps.begin(y)
            path[0, k], path[1, k] = y[self._signals], self._steps.slope(y, features)
            if k < n_steps:
                y = self._steps.end(y, drive, features, step)
        return y, path

    def _follow(self, c: np.ndarray, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Memory at the end of a path of cubic pieces, in the parts of `memory.knots`."""
        n_steps = path.shape[1] - 1
        c = self._memory.propagate(c, n_steps * step, elapsed)
        for last in range(n_steps, 0, -LONGEST_PART):
            rest = (n_steps - last) * step
            if rest > self._memory.horizon:
                break
            part = path[:, max(last - LONGEST_PART, 0) : last + 1]
            driven = self._driven(part, step, elapsed - rest)
            c = c + (self._memory.propagate(driven, rest, elapsed) if rest else driven)
        return c

    def _driven(self, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Memory (D, N) of a path alone; those of its pieces that are forgotten are left out."""
        n_steps = path.shape[1] - 1
        n_kept = min(n_steps, 1 + int(min(self._memory.horizon / step, n_steps)))
        age = np.arange(n_kept, 0, -1) * step
        step = max(step, SHORTEST_GAP)
        (y0, y1), (d0, d1) = ((part[:-1], part[1:]) for part in path[:, n_steps - n_kept :])
        curve_start, curve_end, jerk = hermite_derivatives((y1 - y0) / step, d0, d1, step)
        knots = np.zeros((*y0.shape, 4))
        knots[0, :, 0], knots[0, :, 1] = y0[0], d0[0]
        knots[..., 2], knots[..., 3] = curve_start, jerk
        knots[1:, :, 2] -= curve_end[:-1]
        knots[1:, :, 3] -= jerk[:-1]
        return self._memory.respond(knots, age, elapsed).sum(axis=0)

    def observe(
        self,
        z: np.ndarray,
        c: np.ndarray,
        x: np.ndarray,
        mask: np.ndarray,
        seen: np.ndarray,
        channel_gap: np.ndarray,
        elapsed: float,
        offset: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """State and memory after an observation.

        Parameters
        ----------
        z : float64 ndarray of shape (D, 1 + N)
        c : float64 ndarray of shape (D, N)
        x : float64 ndarray of shape (D,)
            Standardised, anything where not observed.
        mask : bool ndarray of shape (D,)
            What is observed.
        seen : bool ndarray of shape (D,)
            Whether the channel was observed before.
        channel_gap : float64 ndarray of shape (D,)
            Time since then.
        elapsed : float
            Time since the first observation of the series.
        offset : float64 ndarray of shape (D, N) or None
            What static covariates add to a hidden state that is set anew.
        """
        rise, c = x - z[:, 0], c.copy()
        first = mask & ~seen
        c[first, 0] += rise[first]
        if (again := np.flatnonzero(mask & seen)).size:
            gap = np.maximum(channel_gap[again], SHORTEST_GAP)
            ramps = np.zeros((len(again), 1, 2))
            ramps[:, 0, 1] = rise[again] / gap
            c[again] += self._memory.respond(ramps, gap, elapsed)[:, 0]
        z = z.copy()
        z[mask, 0] = x[mask]
        z[mask, 1:] = (c if offset is None else c + offset)[mask]
        return z, c


class _SingleSteps:
    """As :class:`~skpolyode.dynamics.NetworkSteps`, for one state (M,)."""

    def __init__(self, field: WalledMLP, stepper: Stepper, recorded: slice) -> None:
        layers = Layers.of(field)
        self._first, *self._inner, self._last, self._turn = (
            (np.ascontiguousarray(weight.detach().numpy().T), bias.detach().numpy())
            for weight, bias in (layers.first, *layers.inner, layers.last, layers.turn)
        )
        self._readout = tuple(np.ascontiguousarray(p[..., recorded]) for p in self._last)
        self._recorded = recorded
        self._is_linear, self._stepper = layers.is_linear, stepper
        self._wall, self._pull = field.wall, field.pull

    def begin(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        drive = _affine(self._inside(y), self._first)
        return drive, self._features(drive)

    def slope(self, y: np.ndarray, features: np.ndarray) -> np.ndarray:
        y = y[self._recorded]
        return _affine(features, self._readout) - self._pull * (y - self._inside(y))

    def end(self, y: np.ndarray, drive: np.ndarray, features: np.ndarray, h: float) -> np.ndarray:
        stages, turns = [features], []
        for row in self._stepper.a:
            turns.append(_affine(stages[-1], self._turn))
            stages.append(self._features(drive + h * _weighted(row, turns)))
        outside = y - self._inside(y)
        moved = y + h * _affine(_weighted(self._stepper.b, stages), self._last)
        return moved + math.expm1(-self._pull * h) * outside

    def _inside(self, y: np.ndarray) -> np.ndarray:
        return np.minimum(np.maximum(y, -self._wall), self._wall)

    def _features(self, drive: np.ndarray) -> np.ndarray:
        if self._is_linear:
            return drive
        out = ACTIVATION.of_array(drive)
        for layer in self._inner:
            out = ACTIVATION.of_array(_affine(out, layer))
        return out


def _affine(x: np.ndarray, layer: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    weight, bias = layer
    return x.dot(weight) + bias


def _weighted(weights: tuple[float, ...], parts: list[np.ndarray]) -> np.ndarray:
    return sum(w * part for w, part in zip(weights, parts, strict=True) if w)
