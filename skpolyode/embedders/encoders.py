"""Encoders of what models read beside observations: inputs and static covariates, as numbers.

Inputs are courses in standard deviations, as rows between the observations.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from numbers import Number
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from pandas.api.types import is_hashable

from skpolyode.embedders.paths import rows_until
from skpolyode.errors import FaultKind, Faults
from skpolyode.models.contract import Driven, InputSizes
from skpolyode.panel import Inputs, Panel, as_panel, offsets_from, series_index
from skpolyode.panel.cells import BadCell, join_times, read_times, read_values
from skpolyode.panel.checks import TOO_LARGE, note_cells
from skpolyode.panel.inputs import KINDS, on_clock_of
from skpolyode.panel.units import LARGEST, ChannelScaler
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
            gaps = np.where(same, np.diff(panel.times[given]), np.inf)
            slope = np.zeros(len(x))
            slope[given[:-1]] = np.diff(x[given, n_hold + k]) / gaps
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


def encoders_of(panel: Panel, *, inputs: bool = True) -> dict[str, Any]:
    """Encoders of static covariates and, if used, of inputs; arguments of `ModelEmbedder`."""
    encoder = InputEncoder.of_panel(panel) if inputs else None
    return {"static": StaticEncoder.of_panel(panel), "inputs": encoder}


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


_TOO_LARGE = FaultKind(
    "static covariates that are infinite or too large to compute with",
    "repair them, or replace them by NaN, which means not known",
)
_OTHER_KIND = FaultKind(
    "static covariates of another kind than in fit",
    "convert them, with pandas.to_numeric, to_datetime or to_timedelta and errors='coerce': what "
    "cannot be converted is then missing, which means not known",
)
_OTHER_TYPE = FaultKind(
    "static covariates whose categories are of another type than in fit",
    "convert the column with astype: as categories, 1 and '1' are not the same",
)
_NO_CATEGORY = FaultKind(
    "static covariates that are neither numbers nor categories",
    "give a number, a datetime or a text for each series, or one column for each item",
)
_MANY = 20  # from this many series on, categories with at most two series on average are ids
_NUMBERS = "numbers"
_TIMES = ("datetime64", "datetime", "date", "period", "timedelta64", "timedelta")


@saved
class StaticEncoder(NamedTuple):
    """Numbers in standard deviations from their mean, everything else as indicators.

    Datetimes and timedeltas are numbers of days. A missing number is replaced by the mean; for a
    missing or unknown category all indicators are 0.
    """

    scaler: ChannelScaler
    numeric: list[str]
    categories: dict[str, list]
    times: dict[str, str]  # type, such as "datetimes", of numeric covariates that are not numbers

    @classmethod
    def of(cls, frame: pd.DataFrame) -> StaticEncoder:
        """Encoder of training covariates."""
        read = {name: _as_numbers(frame[name]) for name in frame}
        numeric = [name for name in frame if read[name] is not None]
        categories = {name: _categories(frame[name]) for name in frame if read[name] is None}
        kinds = {name: read[name][1] for name in numeric}
        numbers = np.column_stack([np.empty((len(frame), 0)), *(read[k][0] for k in numeric)])
        _check(frame, numeric, ~(np.isnan(numbers) | (abs(numbers) <= LARGEST)))
        times = {name: kind for name, kind in kinds.items() if kind != _NUMBERS}
        return cls(ChannelScaler.of(numbers), numeric, categories, times)

    @classmethod
    def of_panel(cls, panel: Panel) -> StaticEncoder | None:
        """Encoder of the covariates of a panel; None if it has none with known values."""
        static = None if panel.static is None else cls.of(panel.static)
        return static if static is not None and static.n_features else None

    @property
    def names(self) -> list[str]:
        """Names of the columns of :meth:`transform`."""
        names = dict.fromkeys(self.numeric)
        for name, categories in self.categories.items():
            for category in categories:
                new = f"{name}_{category}"
                while new in names:  # "sex" with the value "f", besides a covariate "sex_f"
                    new += "_"
                names[new] = None
        return list(names)

    @property
    def n_features(self) -> int:
        """Number of columns of :meth:`transform`."""
        return len(self.numeric) + sum(map(len, self.categories.values()))

    def transform(self, panel: Panel) -> np.ndarray:
        """Features (B, S) of the series of a panel."""
        names = [*self.numeric, *self.categories]
        have = [] if panel.static is None else list(panel.static)
        if missing := [name for name in names if name not in have]:
            raise ValueError(
                f"X lacks the static covariates {missing} that the data of fit had; it has "
                f"{have}. Give them in the `static` of the Panel, NaN where not known."
            )
        kinds = {name: self.times.get(name, _NUMBERS) for name in self.numeric}
        numbers = _numbers(panel.static, kinds)
        _check(panel.static, self.numeric, self.scaler.is_too_far(numbers))
        _check_types(panel.static, self.categories)
        columns = [np.nan_to_num(self.scaler.read(numbers))]
        columns += [_indicators(panel.static[k], known) for k, known in self.categories.items()]
        return np.concatenate(columns, axis=1)

    def warn_of_unknown(self, panel: Panel) -> None:
        """Warn of covariates whose values in the panel are all unknown categories."""
        for name, known in self.categories.items():
            if panel.static is None or name not in panel.static:
                return  # `transform` refuses such panels
            given = panel.static[name].dropna()
            if len(given) and known and not _indicators(given, known).any():
                warnings.warn(
                    f"no value of the static covariate {name!r} is known from fit: got "
                    f"{given.iloc[0]!r}, where fit had {known[:3]} ({len(known)} such values). "
                    "They count as missing; check how the categories are written.",
                    stacklevel=4,
                )


def n_features_of(encoder: StaticEncoder | None) -> int:
    """Number of features of static covariates; 0 without an encoder."""
    return 0 if encoder is None else encoder.n_features


def _check(frame: pd.DataFrame, names: list[str], wrong: np.ndarray) -> None:
    """Raise one error for all numbers (B, S) that are infinite or too large."""
    faults = Faults("X", frame.index.to_numpy())

    def line(at: np.ndarray) -> str:
        column = frame[names[at[1]]]
        return f"{faults.series(at[0])}, static covariate {column.name!r}: {column.iloc[at[0]]:g}"

    faults.add_each(_TOO_LARGE, np.argwhere(wrong), line)
    faults.raise_if_any()


def _as_numbers(column: pd.Series) -> tuple[np.ndarray, str] | None:
    """Covariate (B,) as numbers, and their kind; None if it holds categories."""
    if pd.api.types.is_numeric_dtype(column):
        return column.to_numpy(dtype=np.float64, na_value=np.nan), _NUMBERS
    if pd.api.types.infer_dtype(column, skipna=True) not in _TIMES:
        return None
    if column.dtype == object:
        column = column.where(column.notna(), None)
    try:
        block = read_times(column)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X: static covariate {column.name!r}: {error}") from error
    zone = "" if block.tz is None else " with a time zone"
    return join_times([block], "D").counts, f"{block.kind}s{zone}"


def _indicators(column: pd.Series, known: list) -> np.ndarray:
    """Indicators (B, K) of the known categories of each series, 1 or 0."""
    cells = column.to_numpy(dtype=object)
    cells = np.where(pd.isna(cells), None, cells)  # comparison with pandas' NA is NA
    return (cells[:, None] == np.array(known, dtype=object)).astype(np.float64)


def _check_types(frame: pd.DataFrame, categories: dict[str, list]) -> None:
    """Raise one error for all categories of types unknown to fit, which would match none."""
    faults = Faults("X", frame.index.to_numpy())
    for name, known in categories.items():
        column, types = frame[name].astype(object), _types(known)
        if not known or _types(column.dropna()) <= types:
            continue
        given = enumerate(column.where(column.notna(), known[0]))
        cells = [BadCell(*cell) for cell in given if not _types(cell[1:]) <= types]
        line = partial(_line, faults, column, f", where fit had {known[:1]}")
        faults.add_each(_OTHER_TYPE, cells, line)
    faults.raise_if_any()


def _types(categories: Iterable[object]) -> set[type]:
    """Types of categories; types whose values can be equal, such as int and float, count as one."""
    groups = {str: str, Number: Number, np.bool_: Number}
    return {
        next((same for base, same in groups.items() if issubclass(kind, base)), kind)
        for kind in set(map(type, categories))
    }


def _categories(column: pd.Series) -> list:
    """The distinct values of a covariate; warns if they have few series each, like ids."""
    try:
        known = sorted(column.dropna().unique(), key=str)
    except TypeError:  # not hashable
        faults = Faults("X", column.index.to_numpy())
        cells = [BadCell(*cell) for cell in enumerate(column) if not is_hashable(cell[1])]
        faults.add_each(_NO_CATEGORY, cells, partial(_line, faults, column, ""))
        faults.raise_if_any()
        raise
    if 2 * len(known) >= column.count() >= _MANY:
        warnings.warn(
            f"static covariate {column.name!r} has {len(known)} values in {column.count()} series, "
            "as ids have: it says nothing of new ones. Leave it out, or give it to fit as groups.",
            stacklevel=2,
        )
    return known


def _numbers(frame: pd.DataFrame, kinds: dict[str, str]) -> np.ndarray:
    """Covariates (B, S) as numbers; one error for all whose type is not that in `kinds`."""
    faults, columns = Faults("X", frame.index.to_numpy()), [np.empty((len(frame), 0))]
    for name, kind in kinds.items():
        column = frame[name]
        found, cells = _as_numbers(column), []
        if column.isna().all():
            found = np.full(len(column), np.nan), kind
        elif kind == _NUMBERS and found is None:  # numbers among objects
            values, cells = read_values(column)
            found = values.astype(np.float64), kind
        elif found is None or found[1] != kind:
            first = int(np.argmax(column.notna()))
            cells = [BadCell(first, column.astype(object).iloc[first])]
        line = partial(_line, faults, column, f", where fit had {kind}")
        faults.add_each(_OTHER_KIND, cells, line)
        columns.append(found[0] if found else np.empty(0))
    faults.raise_if_any()
    return np.column_stack(columns)


def _line(faults: Faults, column: pd.Series, had: str, cell: BadCell) -> str:
    return f"{faults.series(cell.position)}, static covariate {column.name!r}: {cell}{had}"
