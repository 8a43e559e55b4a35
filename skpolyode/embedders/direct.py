"""Embedders that compute features from the observations, without training."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from skpolyode.embedders.base import CHUNK_ROWS, Embedder, MemoryReadout, map_chunks, map_slices
from skpolyode.embedders.encoders import StaticEncoder
from skpolyode.embedders.paths import (
    SLOPES,
    ChannelRows,
    PathQuery,
    path_pieces,
    rows_until,
    split_channels,
)
from skpolyode.memory import legt_basis
from skpolyode.memory.base import remember
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import Units
from skpolyode.saving.codec import saved

_SMALLEST_PENALTY = 1e-9  # in variances of the channel; a smaller one is lost to rounding
# Singular values, relative to the largest, of directions that the points do not determine.
_NO_INFORMATION = np.sqrt(np.finfo(np.float64).eps)


class DirectEmbedder(Embedder):
    """Base of embedders that are fitted by choosing units and a window only."""

    past: MemoryReadout

    @abstractmethod
    def coefficients_of(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of a chunk of series."""

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""
        return np.concatenate(map_chunks(self.coefficients_of, panel))

    def features(self, panel: Panel) -> np.ndarray:
        """Flat coefficients, one row (F,) per series."""
        flat = self.coefficients(panel).reshape(panel.n_series, -1)
        return self.past.with_duration(flat, panel.start, panel.end)


@saved(units="D", past="D", path_errors="D")
@dataclass(frozen=True, eq=False)
class PathEmbedder(DirectEmbedder):
    """Memory of a path through the observations; a channel without any stays at its mean.

    Parameters
    ----------
    units : Units
        The unit of time is the window.
    past : MemoryReadout
        The memory, and its readout.
    path : str
        Name of the path, one of :data:`skpolyode.embedders.paths.KINDS`.
    path_errors : PathErrors or None, default=None
        Errors of the path between observations; None if they have not been learned.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = HiPPOTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> embedder.path, embedder.coefficients(panel).shape
    ('linear', (2, 1, 4))
    """

    units: Units
    past: MemoryReadout
    path: str
    path_errors: Any = None

    def coefficients_of(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of a chunk of series."""
        scaler, unit = self.units
        elapsed, series = (panel.end - panel.start) / unit, series_of_rows(panel)
        values, times = scaler.read(panel.values), panel.elapsed / unit
        result = np.zeros((len(elapsed), values.shape[1], self.past.n_coefficients))
        for group in split_channels(times, values, series):
            result[:, group.channels] = self.remembered(group, elapsed)
        return result

    def remembered(self, rows: ChannelRows, end: np.ndarray) -> np.ndarray:
        """Coefficients (B, D, N) of the path through rows, at times `end` (B,)."""
        first, pieces = path_pieces(self.path, rows, end)
        c = remember(self.past.memory, pieces, torch.from_numpy(end)).numpy()
        c[..., 0] += first
        return c

    @property
    def n_slopes(self) -> int:
        """Number of derivatives of the path."""
        return 3 if self.path in SLOPES else int(self.path == "linear")

    def path_values(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, order: int = 0
    ) -> np.ndarray:
        """Values (Q, D) of the interpolating path at any times; constant beyond its ends.

        Or its derivatives of an `order`: from the right, at the last row from the left.
        """

        def part_values(part: slice) -> np.ndarray:
            bounds = offsets[part.start : part.stop + 1]
            part_times = times[bounds[0] : bounds[-1]]
            return self._path_values(panel[part], part_times, bounds - bounds[0], order)

        return np.concatenate(map_slices(part_values, panel.lengths))

    def _path_values(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, order: int
    ) -> np.ndarray:
        asked, (scaler, unit) = PathQuery.of(panel, times, offsets), self.units
        series = series_index(offsets)
        since = (asked.times - panel.start[series]) / unit
        elapsed = (panel.end - panel.start) / unit
        if order:
            since = np.where(since == elapsed[series], np.nextafter(since, -np.inf), since)
        since = np.minimum(since, elapsed[series])  # held from there on, however far ahead
        values = scaler.read(panel.values)
        result = np.zeros((len(since), values.shape[1]))
        for group in split_channels(panel.elapsed / unit, values, series_of_rows(panel)):
            first, pieces = path_pieces(self.path, group, elapsed)
            group_offsets = np.searchsorted(group.series, np.arange(len(elapsed) + 1))
            row = rows_until(group.times, group_offsets, since, offsets)
            after = row >= group_offsets[series]  # the channel has been observed
            signal, row = first[series] * (order == 0), row[after]
            u = (since[after] - group.times[row])[:, None]
            derivatives = pieces.start.numpy()[row]
            for q in range(derivatives.shape[2] - order):
                signal[after] += derivatives[..., q + order] * u**q / math.factorial(q)
            result[:, group.channels] = signal
        if order:
            return result * (scaler.scale / unit**order)
        return asked.keep_observed(scaler.inverse(result))


@saved(units="D", past="D", alpha="unsigned")
@dataclass(frozen=True, eq=False)
class LeastSquaresEmbedder(DirectEmbedder):
    """Coefficients of the penalised fit to the observations in the window.

    They minimise ``mean_i (x_i - f(t_i))**2 + alpha sum_n n (n+1) c_n**2``, where a mean of
    observations with known errors is weighted by their inverse variances.

    Parameters
    ----------
    units : Units
        The unit of time is the window.
    past : MemoryReadout
        Reads coefficients.
    alpha : float
        Weight of the penalty, in variances of the channel.

    Examples
    --------
    >>> from skpolyode import LegendreFitTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = LegendreFitTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> embedder.alpha, embedder.features(panel).shape
    (1e-05, (2, 4))
    """

    units: Units
    past: MemoryReadout
    alpha: float

    def coefficients_of(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of a chunk of series."""
        duration, series = panel.end - panel.start, series_of_rows(panel)
        age = (duration[series] - panel.elapsed) / self.past.window
        values, size = self.units.scaler.read(panel.values), self.past.n_coefficients
        result = np.zeros((len(duration), values.shape[1], size))
        n = np.arange(size)
        penalty = self.alpha * n * (n + 1.0)
        # The penalty determines directions that the points do not, unless it is lost to rounding.
        solve = _solve if self.alpha >= _SMALLEST_PENALTY else _solve_shortest
        for group in split_channels(age, values, series, panel.errors):
            # Rows within the window, up to rounding, and always the last one.
            last = np.append(group.series[1:] != group.series[:-1], True)
            kept = last | (group.times <= 1.0 + 1e-9)
            group = group.kept(kept)
            group = group._replace(times=np.minimum(group.times, 1.0))
            weights = group.precisions
            for members, chosen in _blocks(group.series):
                if weights is None:
                    result[members[:, None], group.channels] = solve(group, chosen, penalty)
                    continue
                for j, channel in enumerate(group.channels):  # weights differ by channel
                    one = group._replace(values=group.values[:, [j]])
                    found = solve(one, chosen, penalty, weights[:, j])
                    result[members, channel] = found[:, 0]
        return result


def _blocks(series: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of series of similar length: positions (b,), and rows (b, L), -1 where padded."""
    members, starts, counts = np.unique(series, return_index=True, return_counts=True)
    order = np.argsort(counts, kind="stable")
    members, starts, counts = members[order], starts[order], counts[order]
    at = 0
    while at < len(members):
        # Limit of padded rows: 8 MB of basis at N = 32.
        fits = counts[at:] * np.arange(1, len(members) - at + 1) <= CHUNK_ROWS
        stop = at + max(1, int(fits.argmin()) if not fits.all() else len(fits))
        place = np.arange(counts[stop - 1])
        inside = place < counts[at:stop, None]
        yield members[at:stop], np.where(inside, starts[at:stop, None] + place, -1)
        at = stop


def _solve(
    rows: ChannelRows, chosen: np.ndarray, penalty: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Coefficients (b, D, N) from rows (b, L) of the group, with weights (P,)."""
    weight = chosen >= 0
    weighted = basis = legt_basis(1.0 - rows.times[chosen], len(penalty)) * weight[..., None]
    if weights is not None:
        weight = weight * weights[chosen]
        weighted = basis * weight[..., None]
    count = weight.sum(axis=1)[:, None, None]
    gram = basis.mT @ weighted / count + np.diag(penalty)
    right = weighted.mT @ rows.values[chosen] / count
    return np.linalg.solve(gram, right).mT


def _solve_shortest(
    rows: ChannelRows, chosen: np.ndarray, penalty: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """As `_solve`, with a negligible penalty: the solution of smallest norm.

    Each series is solved separately and without padding: the numerical rank depends on rounding,
    which must not depend on the other series of the block.
    """
    size, result = len(penalty), []
    for row in chosen:
        row = row[row >= 0]
        basis, values, total = legt_basis(1.0 - rows.times[row], size), rows.values[row], len(row)
        if weights is not None:
            root, total = np.sqrt(weights[row])[:, None], weights[row].sum()
            basis, values = root * basis, root * values
        left = np.concatenate([basis, np.diag(np.sqrt(total * penalty))])  # (L + N, N)
        right = np.concatenate([values, np.zeros((size, values.shape[1]))])
        result.append(np.linalg.lstsq(left, right, rcond=_NO_INFORMATION)[0].T)
    return np.stack(result)


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
_COUNTS = ("count", "observed_share")


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
    fills : bool, default=True
        Whether a channel without an observation has the statistics of its mean. Otherwise they are
        NaN, but for the count and the share of times.

    Examples
    --------
    >>> from skpolyode import Panel, SummaryStatsTransformer
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> SummaryStatsTransformer().fit(panel).embedder_.features(panel).shape
    (2, 13)
    """

    units: Units
    weighs: bool = False
    fills: bool = True
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
        if not self.fills:
            counted = [name in _COUNTS for name in self.statistics]
            result[:] = np.where(counted, 0.0, np.nan)
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


@saved
@dataclass(frozen=True, eq=False)
class StaticEmbedder(Embedder):
    """Features from the static covariates of a series, without its observations.

    Parameters
    ----------
    units : Units
        Not used by the features.
    static : StaticEncoder
        Encoder of training covariates.
    """

    units: Units
    static: StaticEncoder
    past = None

    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series."""
        return self.static.transform(panel)
