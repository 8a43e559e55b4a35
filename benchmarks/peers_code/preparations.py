"""Data as the scripts of peers leave them, where that makes another question of it."""

from __future__ import annotations

import numpy as np

from benchmarks.units import Units
from skpolyode import Panel
from skpolyode.panel.select import series_of_rows

LARGEST = 5.0  # standard deviations


def hourly(panel: Panel) -> Panel:
    """As GraFITi has PhysioNet: means of hours, standardised by all stays; none beyond 5 is left.

    Its reader also loses the first line of each hour, and the last hour, which is not done here.
    """
    hour = np.floor(panel.times)
    key = series_of_rows(panel) * (hour.max() + 1) + hour
    first = np.flatnonzero(np.diff(key, prepend=-1.0))
    known = ~np.isnan(panel.values)
    counts = np.add.reduceat(known, first, axis=0, dtype=np.int64)
    sums = np.add.reduceat(np.nan_to_num(panel.values), first, axis=0)
    values = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    offsets = np.searchsorted(first, panel.offsets)
    means = Units.of(panel.like(hour[first], values, offsets))
    values = (values - means.mean) / means.scale
    values[np.abs(values) >= LARGEST] = np.nan
    return only(panel.like(hour[first], values, offsets), ~np.isnan(values).all(axis=1))


def odd(panel: Panel) -> Panel:
    """As Physiome-ODE's `generate_imts.py` leaves a set: without rows of an even number of cells.

    It means to drop rows without any, by `(kept & count) > 0` of a boolean and an integer, which
    is the last bit of the count.
    """
    return only(panel, (~np.isnan(panel.values)).sum(axis=1) % 2 == 1)


def only(panel: Panel, rows: np.ndarray) -> Panel:
    """Some of the rows of a panel, of which each series has one at least."""
    offsets = np.append(0, np.cumsum(rows))[panel.offsets]
    return panel.like(panel.times[rows], panel.values[rows], offsets)
