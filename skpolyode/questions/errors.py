r"""Standard deviations and correlations of the errors of a path between observations.

In a gap of a channel, `since` after one observation and `until` before the next, an error has the
standard deviation ``s = a (1/since + 1/until)**(-p/2)``, which is 0 at exact observations. Errors
at two times in one gap have the correlation ``c exp(-k |w - w'| / 2)`` with
``w = log(since / until)``. For a Brownian bridge, ``p = k = c = 1`` is exact. The remaining
``1 - c`` is noise of single observations, which averages out over a window, except that noise of an
observation shifts the path on both sides of it. Otherwise, gaps are independent.

Before its first observation and after its last one only one of the two times counts, and at least
a share of a typical gap. A channel without any has errors as large as its values.

A filter does not pass through observations: s is ``a`` times `interpolate_std`, w the time.

To fit a, p, k and c, runs of one to four rows are hidden and compared with the path.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit

from skpolyode.embedders.base import Late
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.variance import path_std
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import copies_of, first_series, held_back, series_of_rows
from skpolyode.saving.codec import saved


@dataclass(frozen=True)
class PathErrorSettings:
    """Which rows are hidden, and limits of the estimates."""

    n_rows: int = 6000  # rows of the series used
    fewest: int = 20  # hidden values needed to learn anything
    hidden: tuple[int, ...] = (3, 7, 8, 12, 13, 14, 18, 19, 20, 21)  # positions in each 25 rows
    shifts: tuple[int, ...] = (0, 5, 10, 15, 20)  # of hidden positions, in copies of few series
    most: float = 1.0  # largest standard deviation of an error, in those of the channel
    nearest: float = 0.05  # least distance to an observation, as a share of the gap


SETTINGS = PathErrorSettings()
_PERIOD, _LEAST = 25, 1e-12
_POWERS, _RATES = np.linspace(0, 4, 41), np.geomspace(0.03, 10, 41)


class Course(NamedTuple):
    """Where Q times lie in the gaps of D channels; all (Q, D)."""

    size: np.ndarray  # std of a filter, else the distance 1 / (1/since + 1/until)
    place: np.ndarray  # w
    rate: np.ndarray  # of w, per unit of the user's time
    gap: np.ndarray  # row that ends the gap
    bend: np.ndarray | float = 0.0  # change of log(size) over one unit of w; 0 for a filter

    @classmethod
    def of(
        cls,
        embedder: ModelEmbedder,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        gap: np.ndarray | float = 1.0,
    ) -> Self:
        """Course of times (Q,) of the series of a panel; `gap` is that of `PathErrors`."""
        asked, (scaler, unit) = PathQuery.of(panel, times, offsets), embedder.units
        since, until = asked.leads(unit)
        if embedder.filters:
            size = path_std(embedder, panel, times, offsets) / scaler.scale
            place = asked.times[:, None] / unit + 0 * since
            return cls(size, place, 1 / unit + 0 * since, 0 * asked.following)
        is_early, is_late = asked.before < 0, asked.following < 0
        since = np.where(is_early & ~is_late, np.inf, since)
        length = np.where(is_early | is_late, gap, since + until)
        since, until = (np.maximum(x, SETTINGS.nearest * length) for x in (since, until))
        distance = 1 / (1 / since + 1 / until)
        place = np.subtract(*(np.log(np.where(np.isinf(x), 1.0, x)) for x in (since, until)))
        size = np.where(is_early & is_late, 1 / _LEAST, distance)  # of a channel without any
        columns = 1 / (unit * distance), asked.following, distance * (1 / since - 1 / until)
        return cls(size, place, *columns)


@saved(scale="D unsigned", power="unsigned", rate="unsigned", shared="unsigned", gap="D positive")
@dataclass(frozen=True, eq=False)
class PathErrors:
    """Error model of a path; see the module.

    Parameters
    ----------
    scale : float64 ndarray of shape (D,)
        a of each channel, in its standard deviations; for a filter, a factor of `interpolate_std`.
    power, rate, shared : float
        p, k and c.
    gap : float64 ndarray of shape (D,)
        Median time from one observation of each channel to the next, in units of the model.
    """

    scale: np.ndarray
    power: float
    rate: float
    shared: float
    gap: np.ndarray

    @classmethod
    def learn(cls, embedder: ModelEmbedder, panel: Panel) -> Self | None:
        """Learn from series whose rows all hold an observation; None if these are too few."""
        copies, hidden = hidden_copies(panel)
        *at, missed = held_back(copies, hidden[:, None])
        missed = missed - (embedder.path_values(*at) if hidden.any() else 0.0)
        course, asked = Course.of(embedder, *at), PathQuery.of(*at)
        used = np.isfinite(missed) & (asked.before >= 0) & (asked.following >= 0)
        if used.sum() < SETTINGS.fewest:
            return None
        missed = np.where(used, missed / embedder.units.scaler.scale, 0.0)
        logs, power = np.log(course.size + _LEAST), 2.0

        def ratios(power: float) -> np.ndarray:
            return missed**2 * np.exp(-power * logs)

        if not embedder.filters:  # the power with the largest normal likelihood
            mean = logs[used].mean()
            losses = [np.log(ratios(p)[used].mean() + _LEAST) + p * mean for p in _POWERS]
            power = float(_POWERS[np.argmin(losses)])
        ratio = ratios(power)
        n, pooled = used.sum(axis=0), SETTINGS.fewest
        scale = (ratio.sum(axis=0) + pooled * ratio.sum() / used.sum()) / (n + pooled)
        plain = cls(np.sqrt(scale + _LEAST), power, 1.0, 1.0, typical_gaps(embedder, panel))
        z = np.clip(missed / (plain.std(course) + _LEAST), -4, 4)
        # The correlations k and c, by least squares, from standardised errors of one gap.
        pairs, series = [], series_index(at[2])
        for lag in (1, 2, 3):
            same = used[lag:] & used[:-lag] & (course.gap[lag:] == course.gap[:-lag])
            same &= (series[lag:] == series[:-lag])[:, None]
            distance = np.abs(course.place[lag:] - course.place[:-lag])[same]
            pairs.append((distance, (z[lag:] * z[:-lag])[same]))
        distance, products = (np.concatenate(x) for x in zip(*pairs, strict=True))
        if len(distance) < SETTINGS.fewest:
            return plain
        shapes = np.exp(np.multiply.outer(-_RATES / 2, distance))
        shared = np.clip(shapes @ products / (shapes**2).sum(axis=1), 0.05, 1.0)
        best = np.square(products - shared[:, None] * shapes).sum(axis=1).argmin()
        return replace(plain, rate=float(_RATES[best]), shared=float(shared[best]))

    def std(self, course: Course) -> np.ndarray:
        """Standard deviations (Q, D) of errors, in units of those of the channels."""
        return np.minimum(self.scale * course.size ** (self.power / 2), SETTINGS.most)

    def of_integrals(self, course: Course, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Standard deviations (B, D) of integrals of errors, in units of those of the channels."""
        size, series = self.std(course) * weights[:, None], series_index(offsets)
        # Noise of an observation shifts an exact path alike on both sides of it.
        noise, after = np.sqrt(1 - self.shared) * size, expit(course.place)
        variance = np.zeros((len(offsets) - 1, size.shape[1]))
        for j, gap in enumerate(course.gap.T):
            anew = np.append(True, (gap[1:] != gap[:-1]) | (series[1:] != series[:-1]))[: len(gap)]
            kept = np.exp(-self.rate / 2 * np.abs(np.diff(course.place[:, j], prepend=0.0))) * ~anew
            before = 0.0
            for i, std in enumerate(size[:, j].tolist()):
                before *= kept[i]
                variance[series[i], j] += self.shared * std * (std + 2 * before)
                before += std
            gaps, owner = np.cumsum(anew) - 1, series[anew]
            left = np.bincount(gaps, noise[:, j] * (1 - after[:, j]))
            right = np.bincount(gaps, noise[:, j] * after[:, j])
            joint = np.where(owner[1:] == owner[:-1], 2 * right[:-1] * left[1:], 0.0)
            np.add.at(variance[:, j], owner[1:], joint)
        return np.sqrt(variance)

    def of_slopes(self, course: Course) -> np.ndarray:
        """Standard deviations (Q, D) of errors of slopes, per unit of the user's time.

        The error is ``s g(w)``, where increments of g over one unit of w have the variance k.
        """
        bend = self.power / 2 * course.bend
        return np.sqrt(self.shared * (self.rate + bend**2)) * self.std(course) * course.rate


def typical_gaps(embedder: ModelEmbedder, panel: Panel) -> np.ndarray:
    """Median time (D,) from one observation of a channel to the next, in units of the model."""
    until = PathQuery.of(panel, panel.times, panel.offsets).leads(embedder.units.time_scale)[1]
    is_gap = np.isfinite(panel.values) & np.isfinite(until)
    columns = zip(until.T, is_gap.T, strict=True)
    return np.array([np.median(gaps[own]) if own.any() else 1.0 for gaps, own in columns])


def hidden_copies(panel: Panel) -> tuple[Panel, np.ndarray]:
    """Copies of the series, more if they have few rows, and a mask (P,) of hidden rows."""
    shifts = SETTINGS.shifts[: max(SETTINGS.n_rows // panel.n_observations, 1)]
    copies = copies_of(panel, len(shifts))
    series = series_of_rows(copies)
    place = np.arange(copies.n_observations) - copies.offsets[series]
    shifted = place + np.array(shifts)[series // panel.n_series]
    hidden = np.isin(shifted % _PERIOD, SETTINGS.hidden)
    return copies, hidden & (place > 0) & (place < copies.lengths[series] - 1)


def learn_path_errors(state: Any) -> None:
    """Give the embedder of a `FitState` an error model of its paths, learned on first use."""
    panel = state.windows.panel[np.argsort(~state.windows.held_out, kind="stable")]
    asked = state.embedder, first_series(panel, SETTINGS.n_rows)
    state.embedder = replace(state.embedder, path_errors=Late(partial(PathErrors.learn, *asked)))
