"""PolyODE for one series at a time, in numpy.

The results are those of :class:`~skpolyode.models.polyode.PolyODE`, in a quarter of the time if
there is only one series. With so few numbers nearly all time goes into calls: torch takes two to
four microseconds for one, numpy one or less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn

from skpolyode.cubic import hermite_derivatives
from skpolyode.dynamics import Stepper, WalledMLP
from skpolyode.dynamics.field import ACTIVATION
from skpolyode.dynamics.integrate import Layers
from skpolyode.memory.base import LONGEST_PART, SHORTEST_GAP, Memory
from skpolyode.memory.tables import N_ORDERS
from skpolyode.models.contract import Packed, Prediction, State, Step

FEW_SERIES = 8  # take less time one by one in numpy (of 100 rows: 0.46 s, in torch 0.57 s)
_AT_ONCE = 256  # rows whose states are joined: to make tensors of each took an eighth of a pass


class SingleMemory:
    """Moves the memory of one series, by the tables of the memory that it is made from.

    Parameters
    ----------
    memory : Memory
        In float64, on the CPU.

    Attributes
    ----------
    horizon : float
        Age beyond which a knot is forgotten (may be infinite).
    """

    def __init__(self, memory: Memory) -> None:
        self.horizon = memory.horizon
        self._memory = memory
        transitions = memory.transitions
        self._tables = [table.numpy() for table in transitions.tables]
        self._spacing, self._base = transitions.spacing, transitions.base
        self._n_cells = transitions.n_cells
        terms = transitions.terms.numpy().reshape(-1, *transitions.A_T.shape)
        self._taylor = np.concatenate(terms, axis=1)  # c @ it: all terms of the series at once
        self._exponents = np.arange(len(terms))
        responses = memory.responses
        self._responses, self._grid = responses.table.numpy(), responses.spacing
        size = self._responses.shape[1]
        self._over_k = 1.0 / np.maximum(np.arange(size), 1.0)
        # Row q of the weights of steps are the Taylor terms, moved N_ORDERS - 1 - q places on.
        self._moved = np.arange(size) + np.arange(N_ORDERS)[:, None]

    def propagate(self, c: np.ndarray, gap: float, elapsed: float) -> np.ndarray:
        """Coefficients (D, N) after `gap` of a signal that is zero."""
        cells = self._memory.relative_gap(gap, elapsed) / self._spacing
        cell = min(round(min(cells, self._n_cells)), self._n_cells - 1)
        powers = min(cells - cell, 0.5) ** self._exponents
        c = powers @ (c @ self._taylor).reshape(len(c), len(powers), -1)
        for table in self._tables:
            c = c @ table[cell % self._base].T
            cell //= self._base
        return c

    def respond(self, steps: np.ndarray, age: np.ndarray, elapsed: float) -> np.ndarray:
        """Coefficients (P, D, N) of knots with `steps` (P, D, Q), `age` (P,) after them."""
        own = self._memory.relative_age(age, elapsed)
        cell = np.minimum(np.rint(own / self._grid), len(self._responses) - 1)
        offset = own - cell * self._grid
        n_orders = steps.shape[2]
        unit = self._memory.unit_at(elapsed)
        if unit < 1e100:
            units = unit ** np.arange(n_orders)
        else:  # as of the memory of many: no overflow
            units = np.array([1.0, unit, 1e300, 1e300][:n_orders])
        factors = np.empty((len(offset), len(self._over_k)))
        factors[:, 0] = 1.0
        factors[:, 1:n_orders] = offset[:, None]
        factors[:, n_orders:] = np.minimum(offset, self._grid)[:, None]
        # Taylor terms ``offset**k / k!`` (P, M), behind N_ORDERS - 1 zeros.
        terms = np.zeros((len(offset), len(self._over_k) + N_ORDERS - 1))
        np.cumprod(factors * self._over_k, axis=1, out=terms[:, N_ORDERS - 1 :])
        weights = (steps * units) @ terms[:, self._moved[:n_orders]]
        return weights @ self._responses[cell.astype(np.int64)]

    def follow(self, c: np.ndarray, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Coefficients (D, N) at the end of cubic pieces, all of the same length.

        `path` (2, K + 1, D) holds values and slopes; it is followed in the parts of
        :mod:`skpolyode.memory.base`.
        """
        n_steps = path.shape[1] - 1
        c = self.propagate(c, n_steps * step, elapsed)
        for last in range(n_steps, 0, -LONGEST_PART):
            rest = (n_steps - last) * step
            if rest > self.horizon:
                break
            part = path[:, max(last - LONGEST_PART, 0) : last + 1]
            driven = self._driven(part, step, elapsed - rest)
            c = c + (self.propagate(driven, rest, elapsed) if rest else driven)
        return c

    def _driven(self, path: np.ndarray, step: float, elapsed: float) -> np.ndarray:
        """Memory (D, N) of a path alone; those of its pieces that are forgotten are left out."""
        n_steps = path.shape[1] - 1
        step = max(step, SHORTEST_GAP)
        n_kept = min(n_steps, 1 + int(min(self.horizon / step, n_steps)))
        age = np.arange(n_kept, 0, -1) * step
        (y0, y1), (d0, d1) = ((part[:-1], part[1:]) for part in path[:, n_steps - n_kept :])
        curve_start, curve_end, jerk = hermite_derivatives((y1 - y0) / step, d0, d1, step)
        knots = np.zeros((*y0.shape, 4))
        knots[0, :, 0], knots[0, :, 1] = y0[0], d0[0]
        knots[..., 2], knots[..., 3] = curve_start, jerk
        knots[1:, :, 2] -= curve_end[:-1]
        knots[1:, :, 3] -= jerk[:-1]
        return self.respond(knots, age, elapsed).sum(axis=0)

    def hold(self, c: np.ndarray, value: np.ndarray, gap: float, elapsed: float) -> np.ndarray:
        """Coefficients (D, N) after a `gap` of the constant signal `value` (D,)."""
        response = self.respond(value[None, :, None], np.array([gap]), elapsed)
        return self.propagate(c, gap, elapsed) + response[0]


SingleState = dict[str, np.ndarray]
"""Parts of a state of the model, without the axis of the series."""


class Observation(NamedTuple):
    """One row of one series; see :class:`~skpolyode.models.contract.Packed`."""

    x: np.ndarray  # float64 (D,), standardised; anything where not observed
    mask: np.ndarray  # bool (D,)
    seen: np.ndarray  # bool (D,)
    gap: float
    channel_gap: np.ndarray  # float64 (D,)
    elapsed: float
    share: np.ndarray | None = None  # float64 (D,): gains, where errors of observations set them


class SinglePolyODE:
    """Runs one series through gaps and observations.

    Parameters
    ----------
    model : PolyODE
        In float64 on the CPU, without inputs. What it learns later is not seen.
    start, cell
        Those of the model.
    """

    def __init__(self, model: Any, start: nn.Module | None, cell: nn.GRUCell | None) -> None:
        self._signals, gain = model.signals, model.gain
        self._steps = _SingleSteps(model.field, model.stepper, self._signals)
        self._memories = {name: SingleMemory(memory) for name, memory in model.memories.items()}
        self._step_size, self._max_gap = model.step_size, model.max_gap
        self._start = None if start is None else _arrays(start.weight, start.bias)
        self._gain = None if gain is None else _arrays(gain.known, gain.added, gain.unseen)
        self._shares, self._cell = gain, None
        if cell is not None:
            self._cell = (
                _arrays(cell.weight_ih, cell.bias_ih),
                _arrays(cell.weight_hh, cell.bias_hh),
            )

    def run(self, initial: State, data: Packed, rows: list[int]) -> Iterator[Step]:
        """Run over series, one after the other, from the `initial` states of their first `rows`."""
        columns = [getattr(data, name).numpy() for name in Observation._fields[:-1]]
        if data.error is not None and self._shares is not None:
            of_gain = data.channel_gap, data.seen, data.error, data.posterior
            with torch.no_grad():
                columns.append(self._shares(*of_gain).numpy())
        following = data.next.tolist()
        for place, row in enumerate(rows):
            state = {name: part[place].numpy() for name, part in initial.items()}
            static, steps = data.static[row].numpy(), []
            while row >= 0:
                observation = Observation(*(column[row] for column in columns))
                before = self._up_to(state, observation)
                state = self.observe(before, observation, static)
                steps.append((row, before, state))
                row = following[row]
                if row < 0 or len(steps) == _AT_ONCE:
                    yield self._joined(steps)
                    steps = []

    def _joined(self, steps: list[tuple[int, SingleState, SingleState]]) -> Step:
        """Rows of one series, and the states before and after them, as models give them."""
        rows, *states = zip(*steps, strict=True)
        before, after = (
            {name: torch.from_numpy(np.stack([one[name] for one in parts])) for name in parts[0]}
            for parts in states
        )
        prediction = Prediction(before["z"][:, self._signals])
        return Step(torch.tensor(rows, device="cpu"), before, prediction, after)

    def take_in(
        self, state: SingleState, observation: Observation, static: np.ndarray
    ) -> SingleState:
        """State after one more observation of a series with static covariates (S,)."""
        return self.observe(self._up_to(state, observation), observation, static)

    def _up_to(self, state: SingleState, observation: Observation) -> SingleState:
        """State just before an observation; the first one of a series follows on no gap."""
        if observation.elapsed > 0:
            return self.flow(state, observation.gap, observation.elapsed)
        return state

    def flow(self, state: SingleState, gap: float, elapsed: float) -> SingleState:
        """State after a gap without observations; memories follow the signal."""
        integrated = min(gap, self._max_gap)
        n_steps = max(1, math.ceil(integrated / self._step_size - 1e-6))
        step, rest = integrated / n_steps, gap - integrated
        z, path = self._trace(state["z"], n_steps, step)
        moved = {"z": z}
        for name, memory in self._memories.items():
            c = memory.follow(state[name], path, step, elapsed - rest)
            moved[name] = memory.hold(c, z[self._signals], rest, elapsed) if rest > 0 else c
        return moved

    def _trace(self, y: np.ndarray, n_steps: int, step: float) -> tuple[np.ndarray, np.ndarray]:
        """State (M,) after K steps, and the signals and slopes (2, K + 1, D) at their ends."""
        path = np.empty((2, n_steps + 1, len(y[self._signals])))
        for k in range(n_steps + 1):
            drive, features = self._steps.begin(y)
            path[0, k], path[1, k] = y[self._signals], self._steps.slope(y, features)
            if k < n_steps:
                y = self._steps.end(y, drive, features, step)
        return y, path

    def observe(
        self, state: SingleState, observation: Observation, static: np.ndarray
    ) -> SingleState:
        """State after an observation of a series with static covariates (S,)."""
        z, mask = state["z"].copy(), observation.mask
        channels = z[: self._signals.stop].reshape(len(mask), -1)  # (D, 1 + N), a view
        x, rise, moved = observation.x, observation.x - channels[:, 0], {"z": z}
        first, again = mask & ~observation.seen, np.flatnonzero(mask & observation.seen)
        gap = np.maximum(observation.channel_gap, SHORTEST_GAP)
        if self._gain is not None:
            if (share := observation.share) is None:  # as in `Gain`
                known, added, unseen = self._gain
                odds = np.logaddexp(known, added + np.log(gap))
                share = expit(np.where(observation.seen, odds, unseen))
            rise = share * rise
            x = channels[:, 0] + rise
        gap = gap[again]
        ramps = np.zeros((len(again), 1, 2))
        ramps[:, 0, 1] = rise[again] / gap
        for name, memory in self._memories.items():
            c = moved[name] = state[name].copy()
            c[first, 0] += rise[first]
            if again.size:
                c[again] += memory.respond(ramps, gap, observation.elapsed)[:, 0]
        hidden = moved["c"]
        if self._start is not None:
            weight, bias = self._start
            offset = weight.dot(static) + bias
            hidden = hidden + offset[: self._signals.stop].reshape(channels.shape)[:, 1:]
        channels[mask, 0], channels[mask, 1:] = x[mask], hidden[mask]
        if self._cell is not None and mask.any():
            seen = np.where(mask, x, 0.0), mask, np.where(mask, rise, 0.0), static
            z[self._signals.stop :] = self._recur(np.concatenate(seen), z[self._signals.stop :])
        return moved

    def _recur(self, seen: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The learned state (H,) after the cell has read what was `seen`, as `nn.GRUCell` does."""
        (weight, bias), (weight_w, bias_w) = self._cell
        reset, update, new = (weight.dot(seen) + bias).reshape(3, -1)
        reset_w, update_w, new_w = (weight_w.dot(w) + bias_w).reshape(3, -1)
        new = np.tanh(new + expit(reset + reset_w) * new_w)
        return new + expit(update + update_w) * (w - new)


def _arrays(*parameters: Tensor) -> tuple[np.ndarray, ...]:
    return tuple(parameter.detach().numpy() for parameter in parameters)


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
