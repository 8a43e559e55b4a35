"""PolyODE for one series at a time, in numpy: the same arithmetic at a third of the time.

See :mod:`skpolyode.memory.single` for why there is a second way. The mathematics is that of
:class:`~skpolyode.models.polyode.PolyODE`, with one gap and one observation.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import expit

from skpolyode.dynamics import Stepper, WalledMLP
from skpolyode.memory.single import SingleMemory
from skpolyode.models.polyode import PolyODE

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
        self._field = _SingleField(model.field)
        self._memory = SingleMemory(model.memory)
        self._stepper = model.stepper
        self._step_size, self._max_gap = model.step_size, model.max_gap
        self._bridges = model.update == "bridge"

    def advance(
        self, z: np.ndarray, c: np.ndarray, gap: float, elapsed: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """State and memory after a gap without observations; the memory follows the signal."""
        integrated = min(gap, self._max_gap)
        n_steps = max(1, math.ceil(integrated / self._step_size - 1e-6))
        step, rest = integrated / n_steps, gap - integrated
        end, path = self._trace(z.ravel(), n_steps, step, width=z.shape[1])
        z = end.reshape(z.shape)
        c = self._follow(c, path, step, elapsed - rest)
        if rest > 0:
            c = self._memory.hold(c, z[:, 0], rest, elapsed)
        return z, c

    def _trace(
        self, y: np.ndarray, n_steps: int, step: float, width: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """State (M,) after some steps, and signals and their slopes (2, K + 1, D) on the way."""
        path = np.empty((2, n_steps + 1, len(y) // width))
        for k in range(n_steps + 1):
            slope = self._field(y)
            path[0, k], path[1, k] = y[::width], slope[::width]
            if k < n_steps:
                y = _runge_kutta(self._stepper, self._field, y, slope, step)
        return y, path

    def _follow(self, c: np.ndarray, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Memory at the end of a path of cubic pieces; those that are forgotten are left out."""
        n_steps = path.shape[1] - 1
        n_kept = min(n_steps, 1 + int(min(self._memory.horizon / step, n_steps)))
        (y0, y1), (d0, d1) = ((part[:-1], part[1:]) for part in path[:, n_steps - n_kept :])
        rise = (y1 - y0) / step
        curve_start = (6 * rise - 4 * d0 - 2 * d1) / step  # second derivative at both ends
        curve_end = (-6 * rise + 2 * d0 + 4 * d1) / step
        jerk = (curve_end - curve_start) / step
        knots = np.zeros((*y0.shape, 4))
        knots[0, :, 0], knots[0, :, 1] = y0[0], d0[0]
        knots[..., 2], knots[..., 3] = curve_start, jerk
        knots[1:, :, 2] -= curve_end[:-1]
        knots[1:, :, 3] -= jerk[:-1]
        age = np.arange(n_kept, 0, -1) * step
        driven = self._memory.respond(knots, age, elapsed).sum(axis=0)
        return self._memory.propagate(c, n_steps * step, elapsed) + driven

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
        if self._bridges and (again := np.flatnonzero(mask & seen)).size:
            gap = channel_gap[again]
            ramps = np.zeros((len(again), 1, 2))
            ramps[:, 0, 1] = rise[again] / gap
            c[again] += self._memory.respond(ramps, gap, elapsed)[:, 0]
        z = z.copy()
        z[mask, 0] = x[mask]
        z[mask, 1:] = (c if offset is None else c + offset)[mask]
        return z, c


class _SingleField:
    """The vector field at one state."""

    def __init__(self, field: WalledMLP) -> None:
        layers = [(w.detach().numpy(), b.detach().numpy()) for w, b in field.affine()]
        *self._inner, self._last = [(np.ascontiguousarray(w.T), b) for w, b in layers]
        self._wall, self._pull = field.wall, field.pull

    def __call__(self, y: np.ndarray) -> np.ndarray:
        inside = out = np.minimum(np.maximum(y, -self._wall), self._wall)
        for weight, bias in self._inner:
            drive = out.dot(weight) + bias
            out = drive * expit(drive)  # SiLU
        weight, bias = self._last
        return out.dot(weight) + bias - self._pull * (y - inside)


def _runge_kutta(
    stepper: Stepper, field: _SingleField, y: np.ndarray, slope: np.ndarray, step: float
) -> np.ndarray:
    """One step from `y`, where ``slope = field(y)``."""
    slopes = [slope]
    for row in stepper.a:
        slopes.append(field(_combine(y, step, row, slopes)))
    return _combine(y, step, stepper.b, slopes)


def _combine(
    y: np.ndarray, step: float, weights: tuple[float, ...], slopes: list[np.ndarray]
) -> np.ndarray:
    for weight, slope in zip(weights, slopes, strict=True):
        if weight:
            y = y + (weight * step) * slope
    return y
