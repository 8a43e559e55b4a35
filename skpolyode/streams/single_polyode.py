"""PolyODE for one series at a time, in numpy: the same arithmetic at a third of the time.

See :mod:`skpolyode.memory.single` for why there is a second way. The mathematics is that of
:class:`~skpolyode.models.polyode.PolyODE`, with one gap and one observation.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import expit

from skpolyode.dynamics import Stepper, WalledMLP
from skpolyode.dynamics.field import ACTIVATION
from skpolyode.dynamics.steps import Layers
from skpolyode.memory.knots import SHORTEST_GAP
from skpolyode.models import PolyODE
from skpolyode.models.gain import Gain
from skpolyode.streams.clock import Moment
from skpolyode.streams.single_memory import SingleMemory

__all__ = ["SinglePolyODE"]

_Parts = dict[str, np.ndarray]


class SinglePolyODE:
    """Runs one series through gaps and observations, as the model that it is made from.

    A state has the parts of the model's, without the axis of the series.

    Parameters
    ----------
    model : PolyODE
        In float64, on the CPU. What it learns later is not seen.
    """

    def __init__(self, model: PolyODE) -> None:
        self._signals = model.signals
        self._steps = _SingleSteps(model.field, model.stepper, self._signals)
        self._memories = {name: SingleMemory(memory) for name, memory in model.memories.items()}
        self._step_size, self._max_gap = model.step_size, model.max_gap
        self._start = model.start
        self._gain = None if model.gain is None else _SingleGain(model.gain)

    def take_in(self, state: _Parts, x: np.ndarray, moment: Moment) -> _Parts:
        """State after the next observation; the part `static` is what covariates say.

        `x` (D,) is standardised, anything where not observed; `moment` is that of one series.
        """
        offset = None
        if self._start is not None:
            static = torch.from_numpy(state["static"])
            offset = self._start(static).numpy().reshape(state["z"].shape)[:, 1:]
        if moment.elapsed > 0:
            state = self.flow(state, moment.gap, moment.elapsed)
        return self.observe(state, x, moment, offset)

    def flow(self, state: _Parts, gap: float, elapsed: float) -> _Parts:
        """State after a gap without observations; memories follow the signal."""
        integrated = min(gap, self._max_gap)
        n_steps = max(1, math.ceil(integrated / self._step_size - 1e-6))
        step, rest = integrated / n_steps, gap - integrated
        end, path = self._trace(state["z"].ravel(), n_steps, step)
        z = end.reshape(state["z"].shape)
        moved = {"z": z}
        for name, memory in self._memories.items():
            c = memory.follow(state[name], path, step, elapsed - rest)
            moved[name] = memory.hold(c, z[:, 0], rest, elapsed) if rest > 0 else c
        return moved

    def _trace(self, y: np.ndarray, n_steps: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        """State (M,) after some steps, and signals and their slopes (2, K + 1, D) on the way."""
        path = np.empty((2, n_steps + 1, len(y[self._signals])))
        for k in range(n_steps + 1):
            drive, features = self._steps.begin(y)
            path[0, k], path[1, k] = y[self._signals], self._steps.slope(y, features)
            if k < n_steps:
                y = self._steps.end(y, drive, features, step)
        return y, path

    def observe(
        self, state: _Parts, x: np.ndarray, moment: Moment, offset: np.ndarray | None
    ) -> _Parts:
        """State after an observation.

        `offset` (D, N) is what static covariates add to a hidden state that is set anew.
        """
        z, mask = state["z"].copy(), moment.mask
        rise, moved = x - z[:, 0], {"z": z}
        first, again = mask & ~moment.seen, np.flatnonzero(mask & moment.seen)
        gap = np.maximum(moment.channel_gap[again], SHORTEST_GAP)
        if self._gain is not None:
            signal = x.copy()
            signal[again] = z[again, 0] + (share := self._gain(gap, again)) * rise[again]
            rise[again], x = share * rise[again], signal
        ramps = np.zeros((len(again), 1, 2))
        ramps[:, 0, 1] = rise[again] / gap
        for name, memory in self._memories.items():
            c = moved[name] = state[name].copy()
            c[first, 0] += rise[first]
            if again.size:
                c[again] += memory.respond(ramps, gap, moment.elapsed)[:, 0]
        z[mask, 0] = x[mask]
        hidden = moved["c"] if offset is None else moved["c"] + offset
        z[mask, 1:] = hidden[mask]
        return moved


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


class _SingleGain:
    """As :class:`~skpolyode.models.gain.Gain`, for channels that were seen before."""

    def __init__(self, gain: Gain) -> None:
        self._known, self._added = gain.known.detach().numpy(), gain.added.detach().numpy()

    def __call__(self, gap: np.ndarray, channels: np.ndarray) -> np.ndarray:
        """Gains (n,) of some `channels` (n,), `gap` (n,) after their last observations."""
        return expit(np.logaddexp(self._known[channels], self._added[channels] + np.log(gap)))


def _affine(x: np.ndarray, layer: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    weight, bias = layer
    return x.dot(weight) + bias


def _weighted(weights: tuple[float, ...], parts: list[np.ndarray]) -> np.ndarray:
    return sum(w * part for w, part in zip(weights, parts, strict=True) if w)
