"""Models whose free run is known beforehand, for tests of backtests and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from skpolyode import Panel
from skpolyode.ensemble.member import Asked, Records, RollingOrigins
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import ChannelScaler, Standardised, Units


def no_inputs(n: int) -> np.ndarray:
    """Responses to inputs at n times, where there are no inputs."""
    return np.empty((n, 0))


def rows_of(times: np.ndarray, values: np.ndarray, offsets: np.ndarray) -> Standardised:
    """Rows of series, without inputs."""
    return Standardised(times, values, offsets, no_inputs(len(times)))


def asked_at(known: np.ndarray, times: np.ndarray, longest: Any = np.inf) -> Asked:
    """Times of forecasts of series in which every channel was observed."""
    records = Records.of(Records.start(*known.shape[:2]))
    records = records._replace(n_values=np.ones(known.shape[:2]))
    return Asked(times, no_inputs(len(times)), records, longest)


def single(rows: Standardised, places: Any) -> Standardised:
    """Some rows, each of another series."""
    one_each = np.arange(len(places) + 1)
    return Standardised(rows.times[places], rows.values[places], one_each, rows.driven[places])


def part_of(sample: RollingOrigins, kept: np.ndarray) -> RollingOrigins:
    """The forecasts that a mask (M,) keeps."""
    names = ("rows", "origin", "times", "elapsed", "actual", "series", "driven")
    return replace(sample, **{name: getattr(sample, name)[kept] for name in names})


@dataclass
class Clairvoyant:
    """Its free run is what will come, with independent noise of some size."""

    units: Units
    noise: float = 0.0
    recent = None
    filters = False

    @classmethod
    def of(cls, panel: Panel, noise: float = 0.0) -> Clairvoyant:
        """In the units of a panel whose rows are one unit of time apart."""
        return cls(Units(ChannelScaler.of(panel.values), 1.0), noise)

    def standardised(self, panel: Panel) -> Standardised:
        times = panel.times - np.repeat(panel.times[panel.offsets[:-1]], panel.lengths)
        values = self.units.scaler.read(panel.values)
        return rows_of(times / self.units.time_scale, values, panel.offsets)

    def runs_from(
        self, panel: Panel, origins: np.ndarray, times: np.ndarray, counts: np.ndarray
    ) -> np.ndarray:
        """Right at the origin, and elsewhere as right as the noise lets it be."""
        series, found = series_of_rows(panel)[origins], []
        ends = np.cumsum(counts)
        for i, own in enumerate(np.split(times, ends[:-1])):
            rows = slice(panel.offsets[series[i]], panel.offsets[series[i] + 1])
            found.append(panel.values[rows][np.searchsorted(panel.times[rows], own)])
        run = self.units.scaler.read(np.concatenate(found))
        noise = self.noise * np.random.default_rng(0).standard_normal(run.shape)
        noise[times == np.repeat(panel.times[origins], counts)] = 0.0
        return np.nan_to_num(run) + noise
