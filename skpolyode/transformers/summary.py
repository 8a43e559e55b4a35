"""Summary statistics: no polynomials, no dynamics."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skpolyode.panel import Panel
from skpolyode.transformers._chunks import map_chunks
from skpolyode.transformers._input import ChannelScaler, Observed, observed_rows
from skpolyode.transformers._paths import ChannelRows, split_channels
from skpolyode.transformers.base import SeriesTransformer

__all__ = ["SummaryStatsTransformer"]

_STATISTICS = (
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
_LEVELS = ("mean", "min", "max", "first", "last")
_GAPS = ("mean_gap", "max_gap")


class SummaryStatsTransformer(SeriesTransformer):
    """Embed irregular series by a dozen summary statistics of each channel.

    The mean, standard deviation, minimum, maximum, first and last value, mean absolute change
    between observations, slope of the regression line, number of observations, share of the
    series' times at which the channel was observed, and mean and longest gap; and the duration of
    the series.

    Use it with gradient boosting as the baseline to beat: it knows levels, trends and *how* a
    series was observed, but not its shape. It has no parameters, and no inverse.

    Attributes
    ----------
    scaler_ : ChannelScaler
        Mean and standard deviation of each channel; the mean stands in for values never observed.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.

    See Also
    --------
    HiPPOTransformer : Keeps the shape of the series.

    Notes
    -----
    All features are finite. A channel without an observation has the values of its mean in `fit`,
    no spread, no change and no slope; the gaps of a channel with fewer than two observations are
    the duration of the series.

    The features have different units: scale them for anything but trees.

    Examples
    --------
    >>> from skpolyode.transformers import SummaryStatsTransformer
    >>> series = [([0.0, 1.0, 3.0], [1.0, 2.0, 6.0]), ([0.0, 2.0], [4.0, 4.0])]
    >>> features = SummaryStatsTransformer().set_output(transform="pandas").fit_transform(series)
    >>> features[["x0_mean", "x0_mean_abs_change", "x0_max_gap", "duration"]].to_numpy().tolist()
    [[3.0, 2.5, 2.0, 3.0], [4.0, 0.0, 2.0, 2.0]]
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {}

    def _fit(self, panel: Panel) -> None:
        self.scaler_ = ChannelScaler.of(observed_rows(panel).values)

    def _parts(self) -> list[list[str]]:
        return [list(_STATISTICS)]

    def _series_parts(self) -> list[str]:
        return ["duration"]

    def _transform(self, panel: Panel) -> np.ndarray:
        chunks = map_chunks(lambda part: self._statistics(observed_rows(part)), panel)
        return np.concatenate(chunks)

    def _statistics(self, rows: Observed) -> np.ndarray:
        lengths, duration = np.diff(rows.offsets), rows.end - rows.start
        result = np.zeros((len(lengths), rows.values.shape[1], len(_STATISTICS)))
        result[..., [_STATISTICS.index(name) for name in _LEVELS]] = self.scaler_.mean[:, None]
        result[..., [_STATISTICS.index(name) for name in _GAPS]] = duration[:, None, None]
        for group in split_channels(rows.times, rows.values, rows.series):
            members, columns = _channel_statistics(group, self.scaler_.scale, lengths, duration)
            result[members[:, None], group.channels] = columns
        return np.column_stack([result.reshape(len(lengths), -1), duration])


def _channel_statistics(
    rows: ChannelRows, scale: np.ndarray, lengths: np.ndarray, duration: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Series that have the channels (b,), and the statistics of these (b, D, S)."""
    first = np.flatnonzero(np.append(True, rows.series[1:] != rows.series[:-1]))
    members, count = rows.series[first], np.diff(np.append(first, len(rows.series)))
    place = np.repeat(np.arange(len(members)), count)  # of each row among the members
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
    own = duration[members][:, None]
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
        np.where(several, mean(gap, pairs), own),
        np.where(several, np.maximum.reduceat(gap, first, axis=0), own),
    ]
    return members, np.stack(np.broadcast_arrays(*columns), axis=2)
