"""What is asked of a forecaster: the value of a row, when those up to an earlier row are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks.units import Units
from skpolyode import Panel
from skpolyode.panel.select import series_of_rows, take


class Questions(NamedTuple):
    """Pairs of rows of a panel: what is known ends at one, what is asked for is in the other."""

    panel: Panel
    origin: np.ndarray  # (Q,) last row that is known, counted over all series
    target: np.ndarray  # (Q,) a later row of the same series

    @property
    def truth(self) -> np.ndarray:
        return self.panel.values[self.target]

    @property
    def leads(self) -> np.ndarray:
        return self.panel.times[self.target] - self.panel.times[self.origin]

    def at(self, kept: np.ndarray) -> Questions:
        return Questions(self.panel, self.origin[kept], self.target[kept])

    def standardised(self, units: Units) -> Questions:
        return self._replace(panel=units.standardised(self.panel))

    def histories(self) -> tuple[Panel, np.ndarray, list[np.ndarray]]:
        """Known part of each series, once an origin, the order of the targets, and their times."""
        order = np.lexsort((self.target, self.origin))
        origins, counts = np.unique(self.origin, return_counts=True)
        series = series_of_rows(self.panel)[origins]
        known = take(self.panel, series, self.panel.offsets[series], origins + 1)
        times = np.split(self.panel.times[self.target[order]], np.cumsum(counts)[:-1])
        return known, order, times


Ask = Callable[[Panel], Questions]


def nth_row(n: int) -> Ask:
    """Every row that has `n` rows of its series before it, from all rows up to `n` before it."""

    def ask(panel: Panel) -> Questions:
        start = panel.offsets[:-1][series_of_rows(panel)]
        target = np.flatnonzero(np.arange(panel.n_observations) - start >= n)
        return Questions(panel, target - n, target)

    return ask


one_step = nth_row(1)
"""Every row but the first of each series, from all rows before it."""


def after(cut: float) -> Ask:
    """All rows after a time, from those up to it."""

    def ask(panel: Panel) -> Questions:
        known = panel.times <= cut
        n_known = np.add.reduceat(known, panel.offsets[:-1], dtype=np.int64)
        last = np.where(n_known > 0, panel.offsets[:-1] + n_known - 1, -1)
        target = np.flatnonzero(~known)
        origin = last[series_of_rows(panel)[target]]
        return Questions(panel, origin, target).at(origin >= 0)

    return ask


def ahead(*leads: float, every: float) -> Ask:
    """Rows at some leads exactly, from each row whose time is a multiple of `every`, but 0."""

    def ask(panel: Panel) -> Questions:
        series, times = series_of_rows(panel), panel.times
        place = {key: row for row, key in enumerate(zip(series, times, strict=True))}
        pairs = [
            (row, place[own, times[row] + lead])
            for row, own in enumerate(series)
            if times[row] > 0 and times[row] % every == 0
            for lead in leads
            if (own, times[row] + lead) in place
        ]
        origin, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return Questions(panel, origin, target)

    return ask


def next_rows(n: int) -> Ask:
    """The next `n` rows, from every row but the first two of each series."""

    def ask(panel: Panel) -> Questions:
        start, stop = panel.offsets[:-1], panel.offsets[1:]
        pairs = [
            (origin, origin + step)
            for first, end in zip(start, stop, strict=True)
            for origin in range(first + 2, end)
            for step in range(1, n + 1)
            if origin + step < end
        ]
        origin, target = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return Questions(panel, origin, target)

    return ask


class Seen(NamedTuple):
    """What one channel has shown up to the origin of each question; NaN where there is nothing."""

    values: np.ndarray  # (Q, 3): the last, second last and third last one
    ages: np.ndarray  # (Q, 3): time from each of them to the target
    mean: np.ndarray  # (Q,)
    count: np.ndarray  # (Q,)
    drift: np.ndarray  # (Q,) slope from the first to the last one

    @property
    def slope(self) -> np.ndarray:
        """Of the line through the last two."""
        return (self.values[:, 0] - self.values[:, 1]) / (self.ages[:, 1] - self.ages[:, 0])


def seen(questions: Questions, channel: int) -> Seen:
    panel, column = questions.panel, questions.panel.values[:, channel]
    rows = np.flatnonzero(~np.isnan(column))
    start = panel.offsets[:-1][series_of_rows(panel)[questions.origin]]
    first = np.searchsorted(rows, start)
    count = np.searchsorted(rows, questions.origin, side="right") - first
    some = count > 0
    sums = np.append(0.0, np.cumsum(column[rows]))
    mean = np.full(len(count), np.nan)
    mean[some] = (sums[first + count] - sums[first])[some] / count[some]
    times = panel.times[questions.target]

    def at(back: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
        values, ages = np.full((2, len(count)), np.nan)
        there = count > back
        row = rows[(first + count - 1 - back)[there]]
        values[there], ages[there] = column[row], times[there] - panel.times[row]
        return values, ages

    values, ages = (np.stack(parts, axis=1) for parts in zip(*map(at, range(3)), strict=True))
    earliest, age = at(np.maximum(count - 1, 0))
    rise, duration = values[:, 0] - earliest, age - ages[:, 0]
    drift = np.divide(rise, duration, out=np.zeros_like(rise), where=duration > 0)
    return Seen(values, ages, mean, count, drift)
