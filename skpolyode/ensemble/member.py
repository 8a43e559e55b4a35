"""A member of the ensemble: one way to forecast, beside the free run of the model."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from skpolyode.ensemble.backtest import Sample
from skpolyode.ensemble.periods import Seasons
from skpolyode.ensemble.records import Records
from skpolyode.panel.units import Standardised


class Lesson(NamedTuple):
    """What members are learned from."""

    sample: Sample  # M forecasts that are asked for, and what came
    seasons: Seasons
    knots: np.ndarray  # float64 (J,): leads that regressions are learned at; none without any
    base: np.ndarray | None = None  # float64 (M, D): as of `Asked`, from all series


class Asked(NamedTuple):
    """n times that are forecast, and what all members know of their series."""

    elapsed: np.ndarray  # float64 (n,): these times
    driven: np.ndarray  # float64 (n, F): responses to inputs then
    records: Records  # (n, D)
    longest: float  # lead of training
    base: np.ndarray | None = None  # float64 (n, D): the mixed model, which alone is asked without


class Member(Protocol):
    """One way to forecast series; a subclass needs no more than `forecast`.

    Values are in standard deviations from the mean of their channel, times in typical gaps since
    the first observation of the series. n are series or forecasts, D channels; K numbers are what a
    member knows of a channel, in addition to the `Records` that all members know. There may be
    none.

    - What is known of a series follows from its rows up to then alone: `updated` row by row gives
      what `known_at` gives at once. Series do not depend on each other, nor on their order.
    - A row without an observation of a channel changes nothing that is known of the channel.
    - A forecast is NaN where the member knows nothing: the mixed model takes its place.

    A member is an entry of `MEMBERS`: its key is its name in weights and in files. "run",
    "structural" and "records" are taken. To be in files, it is a frozen dataclass that
    `skpolyode.saving.codec.saved` decorates.
    """

    reads_inputs: ClassVar[bool] = False
    """Whether responses to inputs make a difference."""
    starts_at_last: ClassVar[bool] = False
    """Whether it is the last observation at a lead of zero."""
    extrapolates: ClassVar[bool] = True
    """Whether it has a say in series that lie outside the range of training."""

    @classmethod
    def learn(cls, lesson: Lesson) -> list[Self]:
        """The member as all series teach it, then without each of the sample's folds.

        The list is empty if there is nothing to learn from: there is no such member, then.
        """
        return [cls()] * (1 + lesson.sample.n_folds)

    def start(self, n_series: int, n_channels: int) -> np.ndarray:
        """What is known (n, D, K) of series that have not been observed."""
        return np.empty((n_series, n_channels, 0))

    def updated(self, known: np.ndarray, rows: Standardised) -> np.ndarray:
        """What is known (n, D, K) after one more row of each series."""
        return known

    def known_at(self, rows: Standardised, asked: np.ndarray) -> np.ndarray:
        """What is known (n, D, K) of series up to some of their rows, which are included.

        `asked` (n,) are positions among the rows of all series.
        """
        return self.start(len(asked), rows.values.shape[1])

    def errors(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Expected size (n, D) of the errors of its forecasts; NaN where it expects none."""
        return np.full(known.shape[:2], np.nan)

    @abstractmethod
    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Forecasts (n, D), from what the member itself knows (n, D, K) of the series."""
