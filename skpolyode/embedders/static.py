"""Static covariates as numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from skpolyode.embedders.units import ChannelScaler
from skpolyode.panel import Panel
from skpolyode.saving.codec import saved

__all__ = ["StaticEncoder"]


@saved(aliases=["transformers.StaticEncoder"])
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
        return cls(ChannelScaler.of(_numbers(frame, numeric)), numeric, categories)

    @classmethod
    def of_panel(cls, panel: Panel) -> StaticEncoder | None:
        """Encoder of the covariates of a panel; None if it has none that say anything."""
        static = None if panel.static is None else cls.of(panel.static)
        return static if static is not None and static.n_features else None

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
                f"X lacks the static covariates {missing}, with which the transformer was fitted; "
                f"it has {have}. Give them in the `static` of the Panel, NaN where not known."
            )
        numbers = self.scaler.transform(_numbers(panel.static, self.numeric))
        columns = [np.nan_to_num(numbers)]
        for name, known in self.categories.items():
            own = panel.static[name].to_numpy(dtype=object)
            columns.append((own[:, None] == np.array(known, dtype=object)).astype(np.float64))
        return np.concatenate(columns, axis=1)


def _numbers(frame: pd.DataFrame, names: list[str]) -> np.ndarray:
    columns = [frame[name].to_numpy(dtype=np.float64, na_value=np.nan) for name in names]
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))
