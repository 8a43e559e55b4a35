"""Static covariates as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from skpolyode.embedders.base import Embedder
from skpolyode.errors import FaultKind, Faults
from skpolyode.panel import Panel
from skpolyode.panel.units import LARGEST, ChannelScaler, Units
from skpolyode.saving.codec import saved

_TOO_LARGE = FaultKind(
    "static covariates that are infinite or too large to compute with",
    "repair them, or replace them by NaN, which means not known",
)


@saved
class StaticEncoder(NamedTuple):
    """Numbers in standard deviations from their mean, everything else as indicators.

    A missing number is the mean; a missing or unknown category has no indicator set.
    """

    scaler: ChannelScaler
    numeric: list[str]
    categories: dict[str, list]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> StaticEncoder:
        """Encoder of the covariates of training."""
        is_number = {name: pd.api.types.is_numeric_dtype(frame[name]) for name in frame}
        numeric = [name for name in frame if is_number[name]]
        categories = {
            name: sorted(frame[name].dropna().unique(), key=str)
            for name in frame
            if not is_number[name]
        }
        numbers = _numbers(frame, numeric)
        _check(frame, numeric, ~(np.isnan(numbers) | (abs(numbers) <= LARGEST)))
        return cls(ChannelScaler.of(numbers), numeric, categories)

    @classmethod
    def of_panel(cls, panel: Panel) -> StaticEncoder | None:
        """Encoder of the covariates of a panel; None if it has none that say anything."""
        static = None if panel.static is None else cls.of(panel.static)
        return static if static is not None and static.n_features else None

    @property
    def names(self) -> list[str]:
        """Names of the columns of :meth:`transform`."""
        kinds = [f"{name}_{known}" for name, own in self.categories.items() for known in own]
        return [*self.numeric, *kinds]

    @property
    def n_features(self) -> int:
        """Number of columns of :meth:`transform`."""
        return len(self.names)

    def transform(self, panel: Panel) -> np.ndarray:
        """Features (B, S) of the series of a panel."""
        names = [*self.numeric, *self.categories]
        have = [] if panel.static is None else list(panel.static)
        if missing := [name for name in names if name not in have]:
            raise ValueError(
                f"X lacks the static covariates {missing} that the data of fit had; it has "
                f"{have}. Give them in the `static` of the Panel, NaN where not known."
            )
        numbers = _numbers(panel.static, self.numeric)
        _check(panel.static, self.numeric, self.scaler.is_too_far(numbers))
        columns = [np.nan_to_num(self.scaler.read(numbers))]
        for name, known in self.categories.items():
            own = panel.static[name].to_numpy(dtype=object)
            own = np.where(pd.isna(own), None, own)  # pandas' NA would not say whether it is equal
            columns.append((own[:, None] == np.array(known, dtype=object)).astype(np.float64))
        return np.concatenate(columns, axis=1)


@saved
@dataclass(frozen=True, eq=False)
class StaticEmbedder(Embedder):
    """Says of a series what its static covariates are, and nothing of its observations.

    Parameters
    ----------
    units : Units
        Not used by its features.
    encoder : StaticEncoder
        Of the covariates of training.
    """

    units: Units
    encoder: StaticEncoder
    past = None

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        return self.encoder.transform(panel)


def _check(frame: pd.DataFrame, names: list[str], wrong: np.ndarray) -> None:
    """Raise one error for all numbers (B, S) that are infinite or too large."""
    faults = Faults("X", frame.index.to_numpy())
    lines = [
        f"{faults.series(row)}, static covariate {names[column]!r}: "
        f"{frame[names[column]].iloc[row]:g}"
        for row, column in np.argwhere(wrong)
    ]
    faults.add(_TOO_LARGE, lines[: faults.limit], len(lines))
    faults.raise_if_any()


def _numbers(frame: pd.DataFrame, names: list[str]) -> np.ndarray:
    columns = [frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in names]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))
