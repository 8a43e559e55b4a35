"""Streams that keep a polynomial memory of the observations."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from skpolyode.embedders import PathEmbedder
from skpolyode.embedders.paths import split_channels
from skpolyode.models.contract import State
from skpolyode.models.single import SingleMemory
from skpolyode.panel import Panel
from skpolyode.panel.select import series_of_rows
from skpolyode.streams.stream import SeriesStream, Update


class HiPPOStream(SeriesStream):
    """Polynomial memory of series, updated one observation at a time.

    Made by :meth:`HiPPOTransformer.stream`. Its results always equal those of the transformer for
    all observations so far, up to rounding. The time of an update does not depend on the number of
    observations: only the coefficients, the last value and the last times of each series are kept.

    Parameters
    ----------
    embedder : PathEmbedder
        Embedder with the path "linear" or "constant".
    panel : Panel
        Labels of the series; its rows are not read.
    keep : int, float, timedelta, str or None, default=None
        How far `insert`, `correct` and `retract` may go back: an int number of rows of each series,
        or a duration; floats are in the units of `times`. None: not at all, in less memory.

    Attributes
    ----------
    n_series : int
        Number of series.
    n_observations : int64 ndarray of shape (n_series,)
        Observations of each series so far.
    last_times : float64 ndarray or DatetimeIndex of shape (n_series,)
        Time of the last one, NaN before the first.

    See Also
    --------
    ModelStream : Streams that forecast as well.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer
    >>> series = [([0.0, 0.4, 1.5, 2.0], [1.0, 2.0, 2.0, 0.0]), ([0.0, 1.2, 2.0], [0.0, 3.0, 1.0])]
    >>> transformer = HiPPOTransformer(n_coefficients=4, window=2.0).fit(series)
    >>> stream = transformer.stream(2)
    >>> for times, values in zip([[0.0, 0.4], [1.5], [2.0]], [[1.0, 2.0], [2.0], [0.0]]):
    ...     stream = stream.update(times, values, series=0)
    >>> bool(abs(stream.embedding(0) - transformer.transform(series[:1])).max() < 1e-12)
    True
    """

    _embedder: PathEmbedder

    def _bind(self) -> None:
        self._memory = self._embedder.past.memory

    @cached_property
    def _single(self) -> SingleMemory:
        """The memory of one series; it and its tables are made on first use."""
        return SingleMemory(self._memory)

    def _blank(self) -> State:
        shape = self._panel.n_series, self._panel.n_channels
        size = self._memory.n_coefficients
        # Each channel's memory ends at its last observation. From there to the last one of the
        # series the value is held, until the next value of the channel turns it into a line.
        return {
            "c": torch.zeros(*shape, size, dtype=torch.float64, device="cpu"),
            "x": torch.zeros(shape, dtype=torch.float64, device="cpu"),
        }

    def _resume(self, panel: Panel) -> State:
        parts, (scaler, unit) = self._blank(), self._embedder.units
        times, values = panel.elapsed / unit, scaler.read(panel.values)
        for rows in split_channels(times, values, series_of_rows(panel)):
            end = np.zeros(panel.n_series)
            end[rows.series] = rows.times  # keeps the last of each series
            parts["c"][:, rows.channels] = torch.from_numpy(self._embedder.remembered(rows, end))
            x = np.zeros((panel.n_series, len(rows.channels)))
            x[rows.series] = rows.values
            parts["x"][:, rows.channels] = torch.from_numpy(x)
        return parts

    def _take_in(self, parts: State, update: Update) -> State:
        c, x = parts["c"].numpy().copy(), parts["x"].numpy()
        new = np.where(update.mask, update.values, x)
        first, again = update.mask & ~update.seen, update.mask & update.seen
        c[first, 0] = new[first]
        if again.any():
            known, gap = x[again], update.channel_gap[again]
            elapsed = np.broadcast_to(update.elapsed[:, None], again.shape)[again]
            steps = known[:, None, None]  # (P, 1, Q): of the value, and of the slope of a line
            if self._embedder.path != "constant":
                steps = np.stack([known, (new[again] - known) / gap], axis=1)[:, None]
            if len(x) == 1:
                propagate = self._single.propagate
                pairs = zip(c[again], gap, strict=True)
                moved = [propagate(one[None], g, elapsed[0])[0] for one, g in pairs]
                c[again] = moved + self._single.respond(steps, gap, elapsed[0])[:, 0]
            else:
                before, steps = torch.from_numpy(c[again][:, None]), torch.from_numpy(steps)
                when = torch.from_numpy(gap), torch.from_numpy(elapsed)
                moved = self._memory.propagate(before, *when) + self._memory.respond(steps, *when)
                c[again] = moved[:, 0].numpy()
        return {"c": torch.from_numpy(c), "x": torch.from_numpy(new)}

    def _coefficients(self, series: np.ndarray) -> np.ndarray:
        clock, index = self._clock.take(series), torch.from_numpy(series)
        c, x = self._parts["c"][index].flatten(0, 1), self._parts["x"][index].flatten()
        since = np.where(np.isnan(clock.seen_at), 0.0, clock.elapsed[:, None] - clock.seen_at)
        elapsed = torch.from_numpy(clock.elapsed).repeat_interleave(since.shape[1])
        held = self._memory.hold(c[:, None], x[:, None], torch.from_numpy(since.ravel()), elapsed)
        return held.view(*since.shape, -1).numpy()

    def _features(self, series: np.ndarray) -> np.ndarray:
        return self._coefficients(series).reshape(len(series), -1)
