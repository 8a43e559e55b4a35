"""A member of the ensemble: a forecasting method that is combined with the model's free run."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from skpolyode.ensemble.backtest import Sample
from skpolyode.ensemble.periods import Seasons
from skpolyode.ensemble.records import Records
from skpolyode.panel.units import Standardised


class Lesson(NamedTuple):
    """Data that members are learned from."""

    sample: Sample  # M forecasts to learn from, and the values observed
    seasons: Seasons
    knots: np.ndarray  # float64 (J,): leads that regressions are learned at; empty for none
    base: np.ndarray | None = None  # float64 (M, D): as in `Asked`, learned from all series


class Asked(NamedTuple):
    """n forecast times, and the records of their series, which all members share."""

    elapsed: np.ndarray  # float64 (n,): these times
    driven: np.ndarray  # float64 (n, F): responses to inputs at these times
    records: Records  # (n, D)
    longest: float  # longest lead in training
    base: np.ndarray | None = None  # float64 (n, D): the mixed model's forecasts; None for itself


class Member(Protocol):
    """A forecasting method; a subclass must define `forecast` only.

    Values are in standard deviations from the mean of their channel, times in typical gaps since
    the first observation of the series. There are n series or forecasts and D channels. A member
    keeps K numbers for each channel, in addition to the `Records` that all members share; K may
    be 0.

    - This state of a series depends on its rows so far alone: `updated` row by row gives the same
      as `known_at` at once. Series do not depend on each other, nor on their order.
    - A row without an observation of a channel leaves the state of the channel unchanged.
    - A forecast is NaN where the member has none: that of the mixed model replaces it.

    A member is an entry of `MEMBERS`: its key is its name in weights and in files. "run",
    "structural" and "records" are taken. To be in files, it is a frozen dataclass that
    `skpolyode.saving.codec.saved` decorates.
    """

    reads_inputs: ClassVar[bool] = False
    """Whether responses to inputs make a difference."""
    starts_at_last: ClassVar[bool] = False
    """Whether it is the last observation at a lead of zero."""
    extrapolates: ClassVar[bool] = True
    """Whether it keeps its weight in series that lie outside the range of training."""

    @classmethod
    def learn(cls, lesson: Lesson) -> list[Self]:
        """Members learned from all series, then without each of the sample's folds.

        The list is empty if there is nothing to learn from: the member is then left out.
        """
        return [cls()] * (1 + lesson.sample.n_folds)

    def start(self, n_series: int, n_channels: int) -> np.ndarray:
        """State (n, D, K) of series that have not been observed."""
        return np.empty((n_series, n_channels, 0))

    def updated(self, known: np.ndarray, rows: Standardised) -> np.ndarray:
        """State (n, D, K) after one more row of each series."""
        return known

    def known_at(self, rows: Standardised, asked: np.ndarray) -> np.ndarray:
        """State (n, D, K) of series up to the rows `asked` (n,), which are included.

        These are positions among the rows of all series.
        """
        return self.start(len(asked), rows.values.shape[1])

    def errors(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Expected size (n, D) of its forecast errors; NaN where it has no estimate."""
        return np.full(known.shape[:2], np.nan)

    @abstractmethod
    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Forecasts (n, D), from the state `known` (n, D, K) of the series."""
