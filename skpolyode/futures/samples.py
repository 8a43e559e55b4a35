"""Sampled futures of series: many paths, all equally likely."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from skpolyode.errors import check_shares, plain_repr
from skpolyode.panel import Panel, query_times


@dataclass(frozen=True, eq=False)
class SamplePaths:
    """Futures of series, as `sample_paths` returns them.

    Parameters
    ----------
    forecast : Panel
        What `forecast` returns at the same times: the centre of the samples. Means, extremes and
        shares of a series without any times are NaN.
    samples : float64 ndarray of shape (n_obs, n_samples, n_channels)
        Values in the rows of `forecast`. Sample k is one path, joint in time and across channels.

    See Also
    --------
    skpolyode.PolyODETransformer.crossing_times : When a line will be crossed.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import Panel
    >>> from skpolyode.futures import SamplePaths
    >>> forecast = Panel.from_series([([1.0, 2.0], [0.0, 0.0])])
    >>> paths = SamplePaths(forecast, np.array([[[0.0], [2.0]], [[1.0], [4.0]]]))
    >>> paths.values.shape
    (1, 2, 2, 1)
    >>> paths.extremes("above").tolist()
    [[1.0, 4.0]]
    >>> paths.exceedance(1.5, "above").values.tolist()
    [[0.5], [0.5]]
    """

    forecast: Panel
    samples: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """Samples of shape (n_series, n_samples, n_times, n_channels).

        If series have different numbers of times there is no such array: use ``paths[i]``.
        """
        panel = self.forecast
        if len(np.unique(panel.lengths)) > 1:
            raise ValueError(
                "the series have different numbers of times, which do not fit in one array: use "
                "paths[i], of shape (n_samples, n_times, n_channels), series by series."
            )
        shape = panel.n_series, -1, *self.samples.shape[1:]
        return self.samples.reshape(shape).swapaxes(1, 2)

    def __len__(self) -> int:
        return self.forecast.n_series

    def __getitem__(self, series: int | slice) -> np.ndarray | SamplePaths:
        """Samples (n_samples, n_times, n_channels) of one series, or the paths of a slice."""
        if isinstance(series, slice):
            rows = np.arange(len(self))[series]
            kept = [np.arange(*self.forecast.offsets[k : k + 2]) for k in rows]
            kept = np.concatenate([np.empty(0, dtype=np.int64), *kept])
            return SamplePaths(self.forecast[series], self.samples[kept])
        if not isinstance(series, Integral):
            wanted = "paths take a position or a slice of series"
            raise TypeError(f"{wanted}, got {plain_repr(series)}.")
        start, end = self.forecast.offsets[:-1][series], self.forecast.offsets[1:][series]
        return self.samples[start:end].swapaxes(0, 1)

    def quantiles(self, alpha: Sequence[float]) -> dict[float, Panel]:
        """Quantiles of all channels at each time.

        Parameters
        ----------
        alpha : sequence of float
            Probabilities between 0 and 1.

        Returns
        -------
        dict of float to Panel
        """
        check_shares("alpha", alpha)
        return {a: self._like(np.quantile(self.samples, a, axis=1)) for a in alpha}

    def exceedance(self, threshold: float, direction: str) -> Panel:
        """Probability of being at or beyond a threshold, at each time.

        Parameters
        ----------
        threshold : float
            In the units of the channels.
        direction : {"above", "below"}
            Which side is beyond.

        Returns
        -------
        Panel
            Shares of the samples, for all channels.
        """
        return self._like(self._is_beyond(threshold, direction).mean(axis=1))

    def time_beyond(
        self, threshold: float, direction: str, channel: str | int | None = None
    ) -> np.ndarray:
        """Share of the times at which a sample is at or beyond a threshold; for even spacing.

        Parameters
        ----------
        threshold : float
            In the units of the channel.
        direction : {"above", "below"}
            Which side is beyond.
        channel : str, int or None, default=None
            By name or position; None if there is only one.

        Returns
        -------
        float64 ndarray of shape (n_series, n_samples)
        """
        beyond = self._is_beyond(threshold, direction)[..., channel_at(self.forecast, channel)]
        return self._of_series(np.add, beyond) / self.forecast.lengths[:, None]

    def extremes(self, direction: str, channel: str | int | None = None) -> np.ndarray:
        """Highest or lowest value of each sample over the times of `forecast`.

        Parameters
        ----------
        direction : {"above", "below"}
            "above" for the highest value.
        channel : str, int or None, default=None
            By name or position; None if there is only one.

        Returns
        -------
        float64 ndarray of shape (n_series, n_samples)
        """
        most = np.maximum if sign_of(direction) > 0 else np.minimum
        return self._of_series(most, self.samples[..., channel_at(self.forecast, channel)])

    def integrals(self) -> np.ndarray:
        """Integrals (n_series, n_samples, n_channels) of samples, linear between their times."""
        t, offsets = self.forecast.times, self.forecast.offsets
        self._refuse_unsorted()
        gap = np.diff(t, append=t[-1:])
        gap[offsets[1:] - 1] = 0.0
        weights = (gap + np.where(np.isin(np.arange(len(t)), offsets), 0.0, np.roll(gap, 1))) / 2
        return self._of_series(np.add, weights[:, None, None] * self.samples)

    def integral(self, channel: str | int | None = None) -> np.ndarray:
        """Integral of each sample over the times of `forecast`, linear between them.

        Parameters
        ----------
        channel : str, int or None, default=None
            By name or position; None if there is only one.

        Returns
        -------
        float64 ndarray of shape (n_series, n_samples)
            In the units of the channel times those of `times`.
        """
        return self.integrals()[..., channel_at(self.forecast, channel)]

    def mean(self, channel: str | int | None = None) -> np.ndarray:
        """Mean of each sample in time: its integral, divided by the span of its times.

        Parameters
        ----------
        channel : str, int or None, default=None
            By name or position; None if there is only one.

        Returns
        -------
        float64 ndarray of shape (n_series, n_samples)
            For a single time, the value at it.
        """
        at_one = self._of_series(np.maximum, self.samples[..., channel_at(self.forecast, channel)])
        span = (self.forecast.end - self.forecast.start)[:, None]
        return np.where(span > 0, self.integral(channel) / np.where(span > 0, span, 1.0), at_one)

    def total(
        self, at: Any, channel: str | int | None = None, relative_to: str | None = None
    ) -> np.ndarray:
        """Sum of each sample over given times, such as the load over 24 hours.

        Parameters
        ----------
        at : array-like of shape (Q,) or list of such
            Times within the range of those of `forecast`, for all series or for each; samples are
            linear between their times.
        channel : str, int or None, default=None
            By name or position; None if there is only one.
        relative_to : {"start", "end"} or None, default=None
            What `at` counts from: the first or the last time of each series of `forecast`.

        Returns
        -------
        float64 ndarray of shape (n_series, n_samples)

        Raises
        ------
        ValueError
            If a time is outside the range of those of `forecast`.
        """
        self._refuse_unsorted()
        panel, j = self.forecast, channel_at(self.forecast, channel)
        flat, offsets = query_times(panel, at, relative_to)
        found = np.zeros((len(self), self.samples.shape[1]))
        for k in np.flatnonzero(np.diff(offsets)):
            rows, t = slice(*panel.offsets[k : k + 2]), flat[slice(*offsets[k : k + 2])]
            known = panel.times[rows]
            if not len(known) or t.min() < known[0] or t.max() > known[-1]:
                raise ValueError(
                    f"series {plain_repr(panel.ids[k])}: total() needs times within those of the "
                    "samples: give sample_paths times over a longer range, or total() fewer."
                )
            weights = [np.interp(t, known, unit) for unit in np.eye(len(known))]
            found[k] = np.sum(weights, axis=1) @ self.samples[rows, :, j]
        return found

    def _refuse_unsorted(self) -> None:
        t, offsets = self.forecast.times, self.forecast.offsets
        if (np.diff(t) < 0)[~np.isin(np.arange(1, len(t)), offsets)].any():
            raise ValueError(
                "mean, integral and total need increasing times: give sample_paths sorted times."
            )

    def _is_beyond(self, threshold: float, direction: str) -> np.ndarray:
        sign = sign_of(direction)
        check_line(threshold)
        return sign * self.samples >= sign * threshold

    def _of_series(self, function: np.ufunc, values: np.ndarray) -> np.ndarray:
        """Reduce values (n_obs, ...) over the times of each series; NaN where there are none."""
        filled, found = self.forecast.lengths > 0, np.full((len(self), *values.shape[1:]), np.nan)
        found[filled] = function.reduceat(values, self.forecast.offsets[:-1][filled])
        return found

    def _like(self, values: np.ndarray) -> Panel:
        return self.forecast.like(self.forecast.times, values, self.forecast.offsets)


def sign_of(direction: str) -> float:
    """1 for "above", -1 for "below"."""
    if direction not in ("above", "below"):
        raise ValueError(f'direction must be "above" or "below", got {direction!r}.')
    return 1.0 if direction == "above" else -1.0


def check_line(threshold: object) -> None:
    """Raise an error unless the line is one number."""
    if not isinstance(threshold, Real) or isinstance(threshold, bool):
        raise TypeError(f"threshold must be one number, got {plain_repr(threshold)}.")
    if np.isnan(threshold):
        raise ValueError("threshold must be a number, got nan: no value is above or below it.")


def channel_at(panel: Panel, channel: str | int | None) -> int:
    """Position of a channel; None chooses the only one."""
    names = list(panel.channel_names)
    if channel is None and len(names) == 1:
        return 0
    if channel in names:
        return names.index(channel)
    is_place = isinstance(channel, Integral) and not isinstance(channel, bool)
    if is_place and 0 <= channel < len(names):
        return int(channel)
    raise ValueError(
        f"channel must be one of {names}, or a position from 0 to {len(names) - 1}, got "
        f"{plain_repr(channel)}."
    )
