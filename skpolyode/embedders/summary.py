"""Summary statistics of each channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from skpolyode.embedders.base import Embedder, map_chunks
from skpolyode.embedders.paths import ChannelRows, split_channels
from skpolyode.panel import Panel
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import Units
from skpolyode.saving.codec import saved

STATISTICS = (
    "mean",
    "std",
    "min",
    "max",
    "first",
    "last",
    "mean_abs_change",
    "slope",
    "count",
    "observed_share",
    "mean_gap",
    "max_gap",
)
WEIGHTED = ("weighted_mean",)
"""With known errors of observations: the mean weighted by inverse variances."""

_LEVELS = ("mean", "min", "max", "first", "last")
_GAPS = ("mean_gap", "max_gap")


@saved
@dataclass(frozen=True, eq=False)
class SummaryEmbedder(Embedder):
    """Statistics of channels and the duration of each series, in the user's units.

    Parameters
    ----------
    units : Units
        Their means replace values never observed.
    weighs : bool, default=False
        Whether to include the :data:`WEIGHTED` statistics.

    Examples
    --------
    >>> from skpolyode import Panel, SummaryStatsTransformer
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> SummaryStatsTransformer().fit(panel).embedder_.features(panel).shape
    (2, 13)
    """

    units: Units
    weighs: bool = False
    past = None

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the statistics of a channel."""
        return STATISTICS + WEIGHTED * self.weighs

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        return np.concatenate(map_chunks(self._statistics, panel))

    def _statistics(self, panel: Panel) -> np.ndarray:
        lengths, duration, scaler = panel.lengths, panel.end - panel.start, self.units.scaler
        result = np.zeros((len(lengths), panel.n_channels, len(self.statistics)))
        levels = _LEVELS + WEIGHTED * self.weighs
        result[..., [self.statistics.index(name) for name in levels]] = scaler.mean[:, None]
        result[..., [STATISTICS.index(name) for name in _GAPS]] = duration[:, None, None]
        values = scaler.known(panel.values)
        series = series_of_rows(panel)
        for group in split_channels(panel.elapsed, values, series, panel.errors):
            members, columns = _channel_statistics(group, scaler.scale, lengths, duration)
            result[members[:, None], group.channels] = columns[..., : result.shape[2]]
        return np.column_stack([result.reshape(len(lengths), -1), duration])


def _channel_statistics(
    rows: ChannelRows, scale: np.ndarray, lengths: np.ndarray, duration: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Series that observe the channels (b,), and their statistics (b, D, S)."""
    first = np.flatnonzero(np.append(True, rows.series[1:] != rows.series[:-1]))
    members, count = rows.series[first], np.diff(np.append(first, len(rows.series)))
    place = np.repeat(np.arange(len(members)), count)  # member of each row
    size = scale[rows.channels]
    x = rows.values / size  # squares of any finite value stay finite

    def mean(quantity: np.ndarray, over: np.ndarray = count) -> np.ndarray:
        return np.add.reduceat(quantity, first, axis=0) / over[:, None]

    centre, time = mean(x), rows.times[:, None]
    span = np.where(duration > 0, duration, 1.0)[members]
    since = (time - mean(time)[place]) / span[place, None]
    spread = mean(since**2)
    slope = mean(since * (x - centre[place])) / np.where(spread > 0, spread, 1.0) / span[:, None]
    inner = np.append(rows.series[1:] == rows.series[:-1], False)[:, None]
    change = np.where(inner, np.abs(np.diff(x, axis=0, append=0.0)), 0.0)
    gap = np.where(inner, np.diff(time, axis=0, append=0.0), 0.0)
    pairs, several = np.maximum(count - 1, 1), (count > 1)[:, None]
    whole = duration[members][:, None]
    weighted, weights = centre, rows.precisions
    if weights is not None:
        weighted = np.add.reduceat(weights * x, first) / np.add.reduceat(weights, first)
    columns = [
        centre * size,
        np.sqrt(mean((x - centre[place]) ** 2)) * size,
        np.minimum.reduceat(rows.values, first, axis=0),
        np.maximum.reduceat(rows.values, first, axis=0),
        rows.values[first],
        rows.values[first + count - 1],
        mean(change, pairs) * size,
        slope * size,
        count[:, None],
        (count / lengths[members])[:, None],
        np.where(several, mean(gap, pairs), whole),
        np.where(several, np.maximum.reduceat(gap, first, axis=0), whole),
        weighted * size,
    ]
    return members, np.stack(np.broadcast_arrays(*columns), axis=2)
