"""A member of the ensemble: a forecasting method that is combined with the model's free run.

All members share *records*: a summary of a channel's past, in constant memory. Updated row by row
in a stream, the summary is the same as for a whole series at once. It holds the number of
observations, their mean, exponential means, the first and last values, and the range.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from skpolyode.embedders import ModelEmbedder
from skpolyode.ensemble.periods import Seasons
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.units import Standardised

SPANS = 2.0 ** np.arange(6)
"""Typical gaps after which the weight of an observation in each exponential mean falls to 1/e."""

N_FOLDS = 5  # of cross-fitting
NEGLIGIBLE = 1e-6  # standard deviations of a channel; smaller differences count as none


class Records(NamedTuple):
    """Summaries of channels, arrays (...) and (..., 6); stored as one array (..., K).

    Times are in typical gaps since the start of the series, values in standard deviations from
    the mean of the channel. Before the first observation, all is zero.
    """

    n_values: np.ndarray  # (...): number of observations
    mean: np.ndarray  # (...)
    first_time: np.ndarray  # (...)
    first_value: np.ndarray  # (...)
    last_time: np.ndarray  # (...)
    last: np.ndarray  # (...)
    lowest: np.ndarray  # (...)
    highest: np.ndarray  # (...)
    means: np.ndarray  # (..., 6): exponential means, over each of `SPANS`
    totals: np.ndarray  # (..., 6): sums of their weights; the last observation has weight 1

    @classmethod
    def of(cls, cells: np.ndarray) -> Records:
        """Records from one array (..., K) of all their columns."""
        ends = _N_SCALARS + len(SPANS) * np.arange(2)
        scalars, means, totals = np.split(cells, ends, axis=-1)
        return cls(*np.moveaxis(scalars, -1, 0), means, totals)

    def packed(self) -> np.ndarray:
        """One array (..., K) of all columns."""
        scalars = np.stack(self[:_N_SCALARS], axis=-1)
        return np.concatenate([scalars, self.means, self.totals], axis=-1)

    def time_since(self, elapsed: np.ndarray) -> np.ndarray:
        """Time (...) from the last observation to `elapsed` (...), infinite without one."""
        return np.where(self.n_values > 0, elapsed - self.last_time, np.inf)

    @staticmethod
    def start(*shape: int) -> np.ndarray:
        """Packed records (..., K) of channels (...) that have not been observed."""
        return np.zeros((*shape, _N_SCALARS + 2 * len(SPANS)))

    @classmethod
    def known_at(cls, rows: Standardised, asked: np.ndarray) -> np.ndarray:
        """Packed records (n, D, K) of series up to rows `asked` (n,), which are included."""
        times, values, offsets, _ = rows
        found = cls.start(len(asked), values.shape[1])
        series = series_index(offsets)
        start = offsets[series[asked]]
        for j, channel in enumerate(values.T):
            observed = np.flatnonzero(~np.isnan(channel))
            first = np.searchsorted(observed, start)
            stop = np.searchsorted(observed, asked, side="right")
            known = np.flatnonzero(stop > first)
            if not len(known):
                continue
            first, stop, x, t = first[known], stop[known], channel[observed], times[observed]
            # Each sum is over one series only: differences of cumulative sums would lose the
            # digits of a series that follows one of much larger values.
            bounds, last = np.stack([first, stop], axis=1).ravel(), stop - 1
            sums = np.add.reduceat(np.append(x, 0.0), bounds)[::2]
            reach = [f.reduceat(np.append(x, x[-1]), bounds)[::2] for f in (np.minimum, np.maximum)]
            means, totals = (cells[last] for cells in _exponential_means(t, x, series[observed]))
            ends = t[first], x[first], t[last], x[last]
            records = cls(stop - first, sums / (stop - first), *ends, *reach, means, totals)
            found[known, j] = records.packed()
        return found

    @classmethod
    def updated(cls, cells: np.ndarray, rows: Standardised) -> np.ndarray:
        """Packed records (n, D, K) after one more row of each series."""
        mask = ~np.isnan(rows.values)
        old, t = cls.of(cells), np.broadcast_to(rows.times[:, None], mask.shape)
        x, n, is_first = np.where(mask, rows.values, 0.0), old.n_values + 1, old.n_values == 0
        ranges = (np.minimum, old.lowest), (np.maximum, old.highest)
        reach = [np.where(is_first, x, f(known, x)) for f, known in ranges]
        first = np.where(is_first, t, old.first_time), np.where(is_first, x, old.first_value)
        totals = 1.0 + old.totals * _share_kept(t - old.last_time)
        means = old.means + (x[..., None] - old.means) / totals
        new = cls(n, old.mean + (x - old.mean) / n, *first, t, x, *reach, means, totals)
        return np.where(mask[..., None], new.packed(), cells)


_N_SCALARS = len(Records._fields[:-2])  # fields of a record that hold one number


def _share_kept(gaps: np.ndarray) -> np.ndarray:
    """Factors (..., 6) of the weight of an observation after gaps (...)."""
    return np.exp(-gaps[..., None] / SPANS)


def _exponential_means(
    times: np.ndarray, values: np.ndarray, series: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Exponential means and sums of weights (P, 6) up to each of P observations.

    Sums over the last 1, 2, 4, ... observations are each made of two sums of half the length.
    """
    totals = np.ones((len(times), len(SPANS)))
    sums, step = values[:, None] * totals, 1
    later = np.flatnonzero(series[step:] == series[:-step]) + step
    while len(later):
        kept = _share_kept(times[later] - times[later - step])
        for array in (sums, totals):
            array[later] += kept * array[later - step]
        step *= 2
        later = np.flatnonzero(series[step:] == series[:-step]) + step
    return sums / totals, totals


@dataclass(frozen=True, eq=False)
class RollingOrigins:
    """M rows of a panel that are forecast from O origins, earlier rows, and what is known of them.

    Values are in standard deviations from the mean of their channel, times in typical gaps.
    """

    panel: Panel  # each row holds an observation
    cells: Standardised  # its rows
    whose: np.ndarray  # int64 (B,): the series that each entry of the panel is, or is a window of
    origins: np.ndarray  # int64 (O,): rows, rising
    rows: np.ndarray  # int64 (M,): that are forecast, by origin
    origin: np.ndarray  # int64 (M,): position among the origins
    series: np.ndarray  # int64 (M,); for a row of a window, the series that it was cut from
    times: np.ndarray  # float64 (M,): forecast times, on the clock of the panel
    elapsed: np.ndarray  # float64 (M,): the same, since the start of the series
    actual: np.ndarray  # float64 (M, D), NaN where not observed
    driven: np.ndarray  # float64 (M, F): responses to inputs at the forecast times

    @classmethod
    def of(cls, model: ModelEmbedder, panel: Panel, *of: np.ndarray) -> Self:
        """From the first fields that are arrays: `whose`, `origins`, `rows` and `origin`."""
        (whose, _, rows, _), cells = of, model.standardised(panel)
        series = whose[series_index(panel.offsets)[rows]]
        targets = cells.times[rows], cells.values[rows], cells.driven[rows]
        return cls(panel, cells, *of, series, panel.times[rows], *targets)

    def followed_by(self, other: RollingOrigins, model: ModelEmbedder) -> RollingOrigins:
        """Append the origins in a panel of other series."""
        panels = [self.panel, other.panel]
        panel = Panel.concat(panels, ids=np.arange(sum(len(part) for part in panels)))
        n_series, n_rows = self.whose.max(initial=-1) + 1, self.panel.n_observations
        own, others = ((x.whose, x.origins, x.rows, x.origin) for x in (self, other))
        others = map(np.add, others, (n_series, n_rows, n_rows, len(self.origins)))
        # Times are counted anew, as joined datetimes may have another clock.
        return self.of(model, panel, *map(np.concatenate, zip(own, others, strict=True)))

    @property
    def whole_series(self) -> Standardised:
        """Rows of the series, without windows."""
        times, values, offsets, driven = self.cells
        kept = self.whose == np.arange(len(self.whose))
        rows, offsets = kept[series_index(offsets)], offsets_from(np.diff(offsets)[kept])
        return Standardised(times[rows], values[rows], offsets, driven[rows])

    @cached_property
    def records(self) -> Records:
        """Records (M, D) before each forecast."""
        return Records.of(Records.known_at(self.cells, self.origins)[self.origin])

    @cached_property
    def leads(self) -> np.ndarray:
        """Times (M, D) since the channels were last observed, infinite if they never were."""
        return self.records.time_since(self.elapsed[:, None])

    @property
    def n_folds(self) -> int:
        """Number of folds of series."""
        return min(len(np.unique(self.whose)), N_FOLDS)

    @property
    def fold(self) -> np.ndarray:
        """Fold (M,) of the series of each forecast."""
        return self.series % N_FOLDS


class Lesson(NamedTuple):
    """Data that members are learned from."""

    sample: RollingOrigins  # M forecasts to learn from
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
    """A forecasting method; a subclass must define `forecast`, with a state `start` and `updated`.

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

        These are positions among the rows of all series. By default the rows are read one by one.
        """
        times, values, offsets, driven = rows
        found = self.start(len(asked), values.shape[1])
        if not found.shape[-1]:
            return found
        series, place = np.unique(series_index(offsets)[asked], return_inverse=True)
        first, known = offsets[series], self.start(len(series), values.shape[1])
        last, n_rows = asked - first[place], np.zeros(len(series), dtype=np.int64)
        np.maximum.at(n_rows, place, last + 1)
        for k in range(n_rows.max(initial=0)):
            left = np.flatnonzero(n_rows > k)
            at = first[left] + k
            row = Standardised(times[at], values[at], offsets, driven[at])
            known[left] = self.updated(known[left], row)
            ended = np.flatnonzero(last == k)
            found[ended] = known[place[ended]]
        return found

    def errors(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Expected size (n, D) of its forecast errors; NaN where it has no estimate."""
        return np.full(known.shape[:2], np.nan)

    @abstractmethod
    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Forecasts (n, D), from the state `known` (n, D, K) of the series."""
