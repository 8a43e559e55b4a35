"""Inputs for models: courses in standard deviations, as rows between the observations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from skpolyode.embedders.paths import rows_until
from skpolyode.errors import Faults
from skpolyode.models.contract import Driven, InputSizes
from skpolyode.panel import Inputs, Panel, as_panel, offsets_from, series_index
from skpolyode.panel.checks import TOO_LARGE, note_cells
from skpolyode.panel.inputs import KINDS, on_clock_of
from skpolyode.panel.units import ChannelScaler
from skpolyode.saving.codec import saved

DECAYS = (1.0, 4.0, 16.0)
"""Time constants, in typical gaps, of the responses to inputs that the ridge regression reads. On
the virtual patients of `benchmarks/glucose.py` its errors 2 and 8 hours ahead are 35.5 and
55.0 mg/dl without responses, 27.7 and 50.2 with these, 27.9 and 50.7 with 1, 2, 4, 8 and 16, 28.5
and 51.1 with 2, 8 and 32."""

BEFORE = max(DECAYS)
"""Models read inputs from this many typical gaps before the first observation on; from earlier rows
only the values that still hold. In `benchmarks/inputs.py` that is 19 h, after which 1 % of a dose
is left. A longer free run from an unknown state does not improve forecasts."""


class Knots(NamedTuple):
    """Courses of the inputs of B series, as the times at which they change."""

    times: np.ndarray  # float64 (Q,), since the first observation, in units of the model
    columns: np.ndarray  # float64 (Q, C): those of `Packed.inputs`, from each time on
    changes: np.ndarray  # bool (Q,): False where a held value is only repeated
    offsets: np.ndarray  # int64 (B + 1,)
    sizes: InputSizes

    @property
    def series(self) -> np.ndarray:
        """Series (Q,) of each knot."""
        return series_index(self.offsets)

    def at(self, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Columns (P, C) at times of the series, which start at `offsets` (B + 1,)."""
        place = self._places(times, offsets)
        known, found = place >= 0, np.zeros((len(times), self.columns.shape[1]))
        knot, (lines, slopes, impulses) = place[known], self.sizes.slices
        columns, since = self.columns[knot].copy(), (times[known] - self.times[knot])[:, None]
        columns[:, lines] += since * columns[:, slopes]
        columns[:, impulses] *= since == 0
        found[known] = columns
        return found

    def responses(
        self,
        times: np.ndarray,
        offsets: np.ndarray,
        decays: tuple[float, ...],
        known: np.ndarray | None = None,
    ) -> np.ndarray:
        """Responses (P, F) to the inputs at times of the series, which start at `offsets` (B + 1,).

        Each input u with a value drives first-order systems ``decay ds/dt = u - s``; an impulse
        adds its amount to s. The values themselves are the last columns. Responses start at 0, the
        mean, at the first knots; `known` (B, F) replaces them at the time 0, where it is not NaN.
        """
        (lines, slopes, impulses), n_levels = self.sizes.slices, self.sizes.n_levels
        tau, x, lengths = np.array(decays), self.columns[..., None], np.diff(self.offsets)
        shape = len(x), n_levels + self.sizes.n_impulse, len(tau)
        level, rise, states = np.zeros((3, *shape))
        level[:, :n_levels], rise[:, lines] = x[:, :n_levels], x[:, slopes]
        states[:, n_levels:] = x[:, impulses]

        def after(knots: np.ndarray, since: np.ndarray) -> np.ndarray:
            since, u = since[:, None, None], level[knots]
            left = np.exp(-since / tau)
            return u + rise[knots] * (since - tau * (1 - left)) + (states[knots] - u) * left

        for k in range(1, lengths.max(initial=0)):
            rows = self.offsets[:-1][lengths > k] + k
            states[rows] += after(rows - 1, self.times[rows] - self.times[rows - 1])
        place, found = self._places(times, offsets), np.zeros((len(times), *shape[1:]))
        knots = place[place >= 0]
        found[place >= 0] = after(knots, times[place >= 0] - self.times[knots])
        found = np.hstack([found.reshape(len(times), -1), self.at(times, offsets)[:, :n_levels]])
        if known is not None:  # the difference fades
            n_series, n_faded = len(lengths), shape[1] * len(tau)
            computed = self.responses(np.zeros(n_series), np.arange(n_series + 1), decays)
            shift = np.nan_to_num(known - computed)[series_index(offsets), :n_faded]
            found[:, :n_faded] += shift * np.exp(-times[:, None] / np.tile(tau, shape[1]))
        return found

    def _places(self, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Last knot (P,) up to each time, -1 before the first; arguments as in `at`."""
        place = rows_until(self.times, self.offsets, times, offsets)
        return np.where(place >= self.offsets[series_index(offsets)], place, -1)

    def merged(
        self,
        end: np.ndarray,
        times: np.ndarray,
        values: np.ndarray,
        offsets: np.ndarray,
        errors: np.ndarray | None,
    ) -> tuple[tuple[np.ndarray, ...], dict[str, Any]]:
        """Arguments of `pack`: observations and knots up to `end` (B,), sorted by time."""
        kept = self.changes & (self.times > -BEFORE) & (self.times <= end[self.series])
        joint = np.concatenate([times, self.times[kept]])
        series = np.concatenate([series_index(offsets), self.series[kept]])
        row = np.concatenate([np.arange(len(times)), np.full(kept.sum(), -1)])
        order = np.lexsort((row < 0, joint, series))  # an observation comes before a knot
        joint, series, row = joint[order], series[order], row[order]
        again = np.append(False, (joint[1:] == joint[:-1]) & (series[1:] == series[:-1]))
        joint, series, row = joint[~again], series[~again], row[~again]
        knot, offsets = row < 0, offsets_from(np.bincount(series, minlength=len(end)))
        values, errors = (
            x if x is None else np.where(knot[:, None], np.nan, x[row]) for x in (values, errors)
        )
        driven = Driven(self.at(joint, offsets), knot)
        return (joint, values, offsets), {"errors": errors, "driven": driven}


@saved(scaler="D", decays="M")
class InputEncoder(NamedTuple):
    """Scales inputs as in training.

    Inputs of the kinds "hold" and "linear" become standard deviations from their mean, impulses
    multiples of their root mean square.
    """

    names: list[str]  # in the order of columns: "hold", "linear", "impulse"
    kinds: list[str]
    scaler: ChannelScaler
    decays: tuple[float, ...]  # of responses for simple forecasts, in units of the model

    @classmethod
    def of_panel(cls, panel: Panel) -> Self | None:
        """Encoder of the inputs of a panel; None without any."""
        if (inputs := panel.inputs) is None:
            return None
        order = np.argsort([KINDS.index(kind) for kind in inputs.kinds], kind="stable")
        names, kinds = ([labels[k] for k in order] for labels in (inputs.names, inputs.kinds))
        values, jumps = inputs.select(names).panel.values, np.array(kinds) == "impulse"
        # An amount of 0 is no impulse. The deviation of amounts and their negatives is their root
        # mean square, the mean 0.
        amounts = np.where(values == 0, np.nan, values)
        both = ChannelScaler.of(np.concatenate([amounts, -amounts]))
        levels = ChannelScaler.of(values)
        scale = np.where(jumps, both.scale, levels.scale)
        return cls(names, kinds, ChannelScaler(np.where(jumps, 0.0, levels.mean), scale), DECAYS)

    @property
    def sizes(self) -> InputSizes:
        """Number of inputs of each kind."""
        return InputSizes(*(self.kinds.count(kind) for kind in KINDS))

    @property
    def n_responses(self) -> int:
        """Number of columns of :meth:`Knots.responses`."""
        return len(self.kinds) * len(self.decays) + self.sizes.n_levels

    @property
    def blank(self) -> Driven:
        """Inputs at one row, at their means."""
        sizes = self.sizes
        columns = np.zeros((1, sizes.n_state + sizes.n_impulse))
        return Driven(columns, np.zeros(1, dtype=bool))

    def unknown(self, panel: Panel) -> Panel:
        """A panel with the inputs of fit, but without rows of them."""
        nothing = np.empty(0), np.empty((0, len(self.names))), np.zeros(panel.n_series + 1, int)
        rows = Panel(*nothing, channel_names=self.names, time_unit=panel.time_unit, empty="keep")
        return Panel.from_rows(replace(panel.rows, inputs=Inputs(rows, self.kinds)), False)

    def knots(self, panel: Panel, start: np.ndarray, unit: float) -> Knots:
        """Courses of the inputs of a panel; times count from `start` (B,), in units of `unit`."""
        wanted, given = dict(zip(self.names, self.kinds, strict=True)), {}
        if (inputs := on_clock_of(panel)) is not None:
            given = dict(zip(inputs.names, inputs.kinds, strict=True))
        if given != wanted:
            raise ValueError(
                f"X has the inputs {given}, but the model was fitted with {wanted}: give all "
                "series the inputs of fit, Panel(..., inputs=Inputs(...)), if need be without rows."
            )
        inputs = inputs.select(self.names)
        used, place = np.unique(inputs.series, return_inverse=True)
        stored = inputs.stored[used]  # windows of one series share its inputs
        lengths = stored.lengths[place]
        offsets = offsets_from(lengths)
        rows = np.arange(offsets[-1]) + np.repeat(stored.offsets[place] - offsets[:-1], lengths)
        times = (stored.times[rows] - np.repeat(start, lengths)) / unit
        columns, changes = (part[rows] for part in self._columns(stored))
        columns[:, self.sizes.slices[1]] *= unit
        return Knots(times, columns, changes, offsets, self.sizes)

    def _columns(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Columns (Q, C) of rows of inputs, with slopes per unit of their times, and `changes`."""
        wrong = self.scaler.is_too_far(panel.values)
        faults = Faults("inputs", panel.ids, tuple(self.names))
        note_cells(TOO_LARGE, wrong, "{:g} is too large", panel.rows, faults)
        faults.raise_if_any()
        x, (n_hold, n_linear, _) = self.scaler.transform(panel.values), self.sizes
        rows, first = np.arange(len(x))[:, None], np.repeat(panel.offsets[:-1], panel.lengths)
        last = np.maximum.accumulate(np.where(np.isnan(x), -1, rows), axis=0)
        known, last = last >= first[:, None], np.maximum(last, 0)
        held = np.where(known, np.take_along_axis(x, last, axis=0), 0.0)
        slopes = np.zeros((len(x), n_linear))
        for k in range(n_linear):
            given = np.flatnonzero(~np.isnan(x[:, n_hold + k]))
            same = first[given[1:]] == first[given[:-1]]
            rise = np.diff(x[given, n_hold + k]) / np.diff(panel.times[given])
            slope = np.zeros(len(x))
            slope[given[:-1]] = np.where(same, rise, 0.0)
            column = last[:, n_hold + k]
            slopes[:, k] = np.where(known[:, n_hold + k], slope[column], 0.0)
            held[:, n_hold + k] += slopes[:, k] * (panel.times - panel.times[column])
        impulses = np.nan_to_num(x[:, n_hold + n_linear :])
        before = np.roll(held[:, :n_hold], 1, axis=0)
        before[panel.offsets[:-1][panel.lengths > 0]] = 0.0  # the mean
        changes = (held[:, :n_hold] != before).any(axis=1) | (impulses != 0).any(axis=1)
        changes |= ~np.isnan(x[:, n_hold : n_hold + n_linear]).all(axis=1)
        return np.concatenate([held[:, : n_hold + n_linear], slopes, impulses], axis=1), changes


def sizes_of(encoder: InputEncoder | None) -> InputSizes:
    """Number of inputs of each kind; 0 without an encoder."""
    return InputSizes() if encoder is None else encoder.sizes


def with_inputs(
    panel: Panel, encoder: InputEncoder | None, inputs: Any, owner: str
) -> tuple[Panel, Inputs]:
    """Panel with further inputs, and these as `Inputs`; tables get the kinds of fit."""
    if encoder is None:
        raise ValueError(
            f"inputs are given, but {owner} was fitted without any, or does not use them: leave "
            "them out, or fit it with Panel(..., inputs=...)."
        )
    if not isinstance(inputs, Inputs):
        kinds, given = dict(zip(encoder.names, encoder.kinds, strict=True)), inputs
        given = as_panel(given, name="inputs")
        inputs = Inputs(given, {name: kinds.get(name, "hold") for name in given.channel_names})
    known, later = panel.inputs, panel.with_inputs(inputs).inputs
    joint = known.updated(later) if known is not None and len(known.stored.times) else later
    return Panel.from_rows(replace(panel.rows, inputs=joint), panel.is_checked), later
