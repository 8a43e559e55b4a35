"""Static covariates as numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from numbers import Number
from typing import NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import is_hashable

from skpolyode.embedders.base import Embedder
from skpolyode.errors import FaultKind, Faults
from skpolyode.panel import Panel
from skpolyode.panel.cells import BadCell, join_times, read_times, read_values
from skpolyode.panel.units import LARGEST, ChannelScaler, Units
from skpolyode.saving.codec import saved

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
_MANY = 20  # from this many series on, a covariate with a different value in each is an id
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


@saved
@dataclass(frozen=True, eq=False)
class StaticEmbedder(Embedder):
    """Features from the static covariates of a series, without its observations.

    Parameters
    ----------
    units : Units
        Not used by the features.
    static : StaticEncoder
        Encoder of training covariates.
    """

    units: Units
    static: StaticEncoder
    past = None

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        return self.static.transform(panel)


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
    """The distinct values of a covariate; warns if they are as many as series, like ids."""
    try:
        known = sorted(column.dropna().unique(), key=str)
    except TypeError:  # not hashable
        faults = Faults("X", column.index.to_numpy())
        cells = [BadCell(*cell) for cell in enumerate(column) if not is_hashable(cell[1])]
        faults.add_each(_NO_CATEGORY, cells, partial(_line, faults, column, ""))
        faults.raise_if_any()
        raise
    if len(known) == len(column) >= _MANY:
        warnings.warn(
            f"the static covariate {column.name!r} has another value in each of the {len(known)} "
            "series, as ids have: it says nothing about new series. Leave it out, or give numbers.",
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
