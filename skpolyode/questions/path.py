"""A path: series conditioned on their observations, which can be asked at any time.

Paths have kinks only at observations, at changes of inputs and at the ends of integration steps.
Between these pieces of them are cubic polynomials; only waves need as many as ten nodes of a
Gauss-Legendre rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.polynomial import legendre
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_is_fitted

from skpolyode.dynamics.integrate import count_steps
from skpolyode.embedders import Embedder, ModelEmbedder
from skpolyode.embedders.paths import PathQuery, rows_until
from skpolyode.errors import check_share
from skpolyode.futures.continued import grid_leads
from skpolyode.panel import Panel, offsets_from, query_times, series_index
from skpolyode.panel.query import edge, name_query, one_time_each, refuse_early, refuse_first
from skpolyode.panel.select import (
    Query,
    fill_values,
    observed_part,
    observed_series,
    series_chunks,
    series_of_rows,
)
from skpolyode.panel.units import clipped
from skpolyode.transformers.input import read_panel

_MOST_VALUES = 2_000_000  # of paths sampled per call, to bound memory
_N_SAMPLES = 500
N_NODES = 10
_N_HALVINGS = 40  # of the spread of samples
_DEGREE, _PIECE = 5, 1 / 64  # of polynomials for slopes, and their length in typical gaps
NODES, WEIGHTS = legendre.leggauss(N_NODES)
_EARLY = "its first observation ({} such times), where no path is known: ask for later ones."
_EMPTY = (
    "after its end or at it ({} such windows): exchange the two, or leave out `end`, which is then "
    "the last observation."
)
_BEFORE = (
    "before its first observation ({} such windows), where no path is known: "
    'relative_to="start" counts from there.'
)
_UNKNOWN = (
    "the errors of paths are not known: fit with this version, on at least 60 rows in series of "
    "five rows or more; for errors of slopes and windows, a transformer that forecasts. Values and "
    "slopes need no errors."
)


class Path:
    """Series conditioned on their observations: their values, slopes and integrals at any times.

    The `path` of a fitted transformer makes one. It reads the series once, runs the model through
    them once (for up to 32 000 rows), and keeps what the transformer has learned, also if that is
    fitted again. Times are read, and answers returned, as
    by the methods of the transformer that are named below.

    Parameters
    ----------
    transformer : transformer
        Fitted, and with a path.
    X : Panel, list of (times, values), list of DataFrames, or array
        The series.
    name : str, default="X"
        What messages call the series.

    Attributes
    ----------
    panel : Panel
        The series as the transformer reads them.
    start : float64 ndarray of shape (n_series,)
        Their first observations, as `Panel.start`; NaN where there is none.
    end : float64 ndarray of shape (n_series,)
        Their last observations.

    Examples
    --------
    >>> from skpolyode import InterpolationTransformer
    >>> series = [([0.0, 1.0, 3.0], [2.0, 4.0, 0.0])]
    >>> path = InterpolationTransformer().fit(series).path(series)
    >>> path
    Path(InterpolationTransformer, Panel(1 series, 1 channel, 3 observations, 100% of cells \
observed, times 0 to 3))
    >>> path.value([0.5, 2.0]).values.ravel().round(6).tolist()
    [3.0, 2.0]
    >>> path.slope([0.5, 2.0]).values.ravel().round(6).tolist()
    [2.0, -2.0]
    >>> round(path.integral(1.0, 3.0)["value"].iloc[0].item(), 6)
    4.0
    """

    def __init__(self, transformer: Any, X: Any, name: str = "X") -> None:
        check_is_fitted(transformer)
        self.panel = read_panel(transformer, X, reset=False, name=name)
        seen = observed_part(self.panel)
        self.start, self.end = seen.start, seen.end
        self.start.flags.writeable = self.end.flags.writeable = False
        self._part = seen if seen.is_observed else seen[observed_series(seen)]
        self._transformer = copy(transformer)
        self._embedder = transformer.embedder_.conditioned(self._part)
        self._forecasts = hasattr(transformer, "sample_paths")

    def __repr__(self) -> str:
        """Name what made the path, and describe its series."""
        return f"Path({type(self._transformer).__name__}, {self.panel!r})"

    def value(
        self, times: Any = None, relative_to: str | None = None, *, limited: bool = True
    ) -> Panel:
        """Values of all channels, as of `interpolate`.

        Parameters
        ----------
        times : array-like of shape (Q,), list of such or None, default=None
            Times for all series or for each, in any order, past or future. By default the series'
            own times.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from. None: absolute times.
        limited : bool, default=True
            Whether values stay within the limits of channels.

        Returns
        -------
        Panel
        """
        return self._answer(partial(self._values, limited=limited), times, relative_to)

    def interval(
        self,
        times: Any = None,
        coverage: float = 0.9,
        relative_to: str | None = None,
        *,
        around: Panel | None = None,
    ) -> tuple[Panel, Panel]:
        """Calibrated intervals, as of `interpolate_interval`.

        A transformer that does not forecast takes observations as exact: errors beside them include
        noise.

        Parameters
        ----------
        times : array-like of shape (Q,), list of such or None, default=None
            As in `value`.
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.
        relative_to : {"start", "end"} or None, default=None
            As in `value`.
        around : Panel or None, default=None
            Values at these times in place of those of the path, such as corrected ones.

        Returns
        -------
        tuple of two Panels
            The lower and the upper ends.

        Raises
        ------
        ValueError
            As in `interpolate_interval`, if the errors of the path are not known, or if `around`
            has other rows.
        """
        check_share("coverage", coverage)
        find = partial(self._errors().half_widths_at, self._embedder, coverage)
        widths = self._answer(find, times, relative_to)
        half = widths.values
        if around is None:
            around = self.value(times, relative_to, limited=False)
        elif not np.array_equal(around.offsets, widths.offsets):
            raise ValueError("`around` must hold a row for each of the times that are asked for.")
        ends, offsets = np.stack([around.values - half, around.values + half]), around.offsets
        both = self._embedder.units.scaler.within_limits(ends, self.panel, offsets)
        lower, upper = (around.like(around.times, values, offsets) for values in both)
        return lower, upper

    def std(self, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviations of values, as of `interpolate_std`.

        Parameters
        ----------
        times : array-like of shape (Q,), list of such or None, default=None
            As in `value`.
        relative_to : {"start", "end"} or None, default=None
            As in `value`.

        Returns
        -------
        Panel

        Raises
        ------
        ValueError
            If the errors of the path are not known.
        """
        find = partial(self._errors().std_at, self._embedder)
        return self._answer(find, times, relative_to)

    def slope(self, times: Any = None, order: int = 1, relative_to: str | None = None) -> Panel:
        """Slopes of all channels, or higher derivatives, as of `derivative`.

        Parameters
        ----------
        times : array-like of shape (Q,), list of such or None, default=None
            As in `value`, from the first observation of each series on.
        order : int, default=1
            1 for the slope, 2 for the second derivative; at most 3, for cubic paths.
        relative_to : {"start", "end"} or None, default=None
            As in `value`.

        Returns
        -------
        Panel

        Raises
        ------
        ValueError
            As in `derivative`.
        """
        if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
            raise ValueError(f"order must be an int of at least 1, got {order!r}.")
        embedder, closed = self._embedder, self._embedder.n_slopes is not None
        most = embedder.n_slopes if closed else 2
        if order > most:
            raise ValueError(
                f"order={order} asks for more derivatives than the path of this "
                f"{type(self._transformer).__name__} has, which are {most}: ask for a lower order, "
                "or take InterpolationTransformer(kind='cubic'), whose path has three."
            )
        ask = embedder.path_values

        def find(query: Query) -> np.ndarray:
            if closed:
                values, slopes = ask(*query), ask(*query, int(order))
            else:
                values, slopes = slopes_at(embedder, *query, int(order))
            kept = embedder.units.scaler.within_limits(values, query.panel, query.offsets)
            return np.where((values < kept) | (values > kept), 0.0, slopes)

        return self._answer(find, times, relative_to, begun=True)

    def slope_std(self, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviations of slopes, as of `derivative_std`; for transformers that forecast.

        Parameters
        ----------
        times : array-like of shape (Q,), list of such or None, default=None
            As in `slope`.
        relative_to : {"start", "end"} or None, default=None
            As in `value`.

        Returns
        -------
        Panel

        Raises
        ------
        ValueError
            As in `derivative_std`.
        """
        embedder, errors = self._embedder, self._errors(along_time=True)

        def find(query: Query) -> np.ndarray:
            panel, times, offsets = query
            (scaler, gap), end = embedder.units, np.repeat(panel.end, np.diff(offsets))
            leads, inside = times - end, np.minimum(times, end - 1e-6 * gap)
            course = errors.course(embedder, query._replace(times=inside))
            found = errors.correlation.of_slopes(course) * scaler.scale
            counts = offsets_from(leads >= 0)[offsets]
            if counts[-1]:
                late, pairs = np.diff(counts) > 0, np.add.outer(leads[leads >= 0], [0, gap])
                asked = [each.ravel() for each in np.split(pairs, counts[1:-1]) if len(each)]
                paths = self._transformer.sample_paths(panel[late], asked, "end", random_state=0)
                ahead = (paths.samples[1::2] - paths.samples[::2]).std(axis=1) / gap
                found[leads >= 0] = np.hypot(found[leads >= 0], ahead)
            return found

        return self._answer(find, times, relative_to, begun=True)

    def integral(
        self,
        start: Any = None,
        end: Any = None,
        relative_to: str | None = None,
        coverage: float = 0.9,
        *,
        mean: bool = False,
    ) -> pd.DataFrame:
        """Integral of each channel over a window, as of the `integral` of the transformer.

        Parameters
        ----------
        start : scalar, array-like of shape (n_series,) or None, default=None
            Where the window begins; None: at the first observation of the series.
        end : scalar, array-like of shape (n_series,) or None, default=None
            Where it ends; None: at the last observation of the series.
        relative_to : {"start", "end"} or None, default=None
            What `start` and `end` count from. None: absolute times.
        coverage : float, default=0.9
            Probability of the interval.
        mean : bool, default=False
            Whether to divide by the length of the window, as `average` of the transformer does.

        Returns
        -------
        DataFrame

        Raises
        ------
        ValueError
            As in `average` of the transformer.
        """
        check_share("coverage", coverage)
        panel, observed = self.panel, observed_series(self.panel)
        since = edge(relative_to, self.start, self.end)
        start = self.start if start is None else one_time_each(panel, start, since, "start")
        end = self.end if end is None else one_time_each(panel, end, since, "end")

        def name(k: int, off: np.ndarray) -> str:
            return name_query(panel, k, start[k], off[k], "start of the window")

        refuse_first(start >= end, partial(name, off=start - end), _EMPTY)
        refuse_first(start < self.start, partial(name, off=self.start - start), _BEFORE)
        columns = ["value", "lower", "upper"][: 3 if self._forecasts else 1]
        found = np.full((len(panel), panel.n_channels, len(columns)), np.nan)
        if observed.any():
            size = (end - start)[observed, None, None]
            sums = self._integrals(self._part, start[observed], end[observed], coverage)
            sums, length = (sums / size, 1.0) if mean else (sums, size)
            limits = self._embedder.units.scaler.limits_of(self._part)
            found[observed] = clipped(sums, *(length * limit[..., None] for limit in limits))
        labels = [panel.ids, list(panel.channel_names)]
        index = pd.MultiIndex.from_product(labels, names=["series", "channel"])
        return pd.DataFrame(found.reshape(-1, len(columns)), index, columns)

    def _values(self, query: Query, limited: bool = True) -> np.ndarray:
        """Values (Q, D) of the path, within the limits of channels unless not `limited`."""
        found, scaler = self._embedder.path_values(*query), self._embedder.units.scaler
        return scaler.within_limits(found, query.panel, query.offsets) if limited else found

    def _answer(
        self, find: Callable[..., np.ndarray], times: Any, relative_to: Any, *, begun: bool = False
    ) -> Panel:
        """Panel of what `find` returns at query times, by default at the rows.

        If the path has to have `begun`, times before the first observation of a series are refused,
        and rows before it get NaN.
        """
        panel, at = self.panel, (self.panel.times, self.panel.offsets)
        if times is not None:
            at = query_times(panel, times, relative_to)
            if begun:
                refuse_early(panel, *at, self.start, _EARLY)
        found = fill_values(panel, *at, lambda _, *asked: find(Query(self._part, *asked)))
        if begun:
            found[at[0] < np.repeat(self.start, np.diff(at[1]))] = np.nan
        return panel.like(at[0], found, at[1])

    def _integrals(
        self, panel: Panel, start: np.ndarray, end: np.ndarray, level: float
    ) -> np.ndarray:
        """Integrals over windows (B,) of observed series; after the last row, of sampled futures.

        Shape (B, D, 1), or (B, D, 3) with the ends of intervals if the transformer forecasts.
        """
        embedder = self._embedder
        until = np.minimum(end, panel.end) if self._forecasts else end
        weights, *at = nodes_between(embedder, panel, start, until)
        values = self._values(Query(panel, *at))
        past = np.zeros((panel.n_series, panel.n_channels, 1))
        np.add.at(past[..., 0], series_index(at[1]), weights[:, None] * values)
        if not self._forecasts:
            return past
        errors = self._errors(along_time=True)
        course = errors.course(embedder, Query(panel, *at))
        std = errors.correlation.of_integrals(course, weights, at[1]) * embedder.units.scaler.scale
        shares = (1 + np.array([-level, level])) / 2
        found = past + std[..., None] * np.append(0.0, ndtri(shares))
        for k, sums in self._sums_ahead(panel, np.maximum(start, panel.end), end):
            both = past[k] + sums.T
            found[k] = np.column_stack([both.mean(axis=1), mixed_quantiles(both, std[k], shares)])
        return found

    def _sums_ahead(
        self, panel: Panel, start: np.ndarray, end: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield series whose windows end after their last rows, and integrals (S, D) from there."""
        if not len(ahead := np.flatnonzero(end > panel.end)):
            return
        panel, start, end, embedder = panel[ahead], start[ahead], end[ahead], self._embedder
        gap, (_, reach) = embedder.units.time_scale, embedder.calibration.known_between()
        grids = [grid_leads(length, gap, reach) for length in end - start]
        windows = zip(grids, start - panel.end, end - panel.end, strict=True)
        leads = [
            np.append(grid[since + grid < last] + since, last) for grid, since, last in windows
        ]
        most = max(_MOST_VALUES // (_N_SAMPLES * panel.n_channels), 1)
        for part in series_chunks([len(lead) for lead in leads], most):
            asked = panel[part], leads[part], "end"
            paths = self._transformer.sample_paths(*asked, n_samples=_N_SAMPLES, random_state=0)
            yield from zip(ahead[part], paths.integrals(), strict=True)

    def _errors(self, *, along_time: bool = False) -> Any:
        """Error model of the path; a ValueError without it, or without what it knows of gaps."""
        errors = getattr(self._embedder, "path_errors", None)
        is_known = errors is not None and (self._forecasts or not along_time)
        if not is_known or ((along_time or not self._forecasts) and errors.law is None):
            raise ValueError(_UNKNOWN)
        return errors


def mixed_quantiles(samples: np.ndarray, std: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Quantiles (D, L) of samples (D, S) plus normal errors (D,) independent of them."""
    sure = np.quantile(samples, shares, axis=1).T
    ends = (f(axis=1)[:, None] + std[:, None] * ndtri(shares) for f in (samples.min, samples.max))
    (low, high), size = ends, np.where(std > 0, std, 1.0)[:, None, None]
    for _ in range(_N_HALVINGS):
        middle = (low + high) / 2
        below = ndtr((middle[..., None] - samples[:, None]) / size).mean(axis=2) < shares
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(std[:, None] > 0, high, sure)


def edges(embedder: Embedder, panel: Panel, until: np.ndarray | None = None) -> list[np.ndarray]:
    """Where the pieces of each series begin, up to its last row or, if later, `until` (B,)."""
    unit, times, series = embedder.units.time_scale, panel.times, series_of_rows(panel)
    stop = panel.end if until is None else np.maximum(until, panel.end)
    if embedder.inputs is not None:
        knots = embedder.inputs.knots(panel, panel.start, unit)
        place, moments = knots.series, panel.start[knots.series] + unit * knots.times
        near = 1e-9 * unit + 4 * np.spacing(np.abs(moments))  # a row, but for rounding
        row = rows_until(panel.times, panel.offsets, moments + near, knots.offsets)
        inside = (moments - panel.times[row] > near) & (moments < stop[place])
        inside &= moments > panel.start[place]
        times, series = np.append(times, moments[inside]), np.append(series, place[inside])
        order = np.lexsort((times, series))
        times, series = times[order], series[order]
    is_last = np.append(series[1:] != series[:-1], True)
    gap = np.where(is_last, stop[series], np.append(times[1:], 0.0)) - times
    step, most, is_even = _steps(embedder)
    reach = np.minimum(gap, most)
    counts = count_steps(torch.from_numpy(reach), step).numpy()
    length = np.where(is_last | ~is_even, np.minimum(step * (1 + 1e-6), reach), reach / counts)
    row = np.repeat(np.arange(len(times)), counts + (reach < gap))
    place = np.arange(len(row)) - offsets_from(counts + (reach < gap))[row]
    found = times[row] + np.minimum(place * length[row], reach[row])
    return np.split(found, np.searchsorted(series[row], np.arange(1, panel.n_series)))


def _steps(embedder: Embedder) -> tuple[float, float, np.bool_]:
    """Longest piece, the time from which a path is constant, and whether pieces share a gap."""
    if not isinstance(embedder, ModelEmbedder):
        return np.inf, np.inf, np.True_
    model, unit = embedder.model, embedder.units.time_scale
    return model.step_size * unit, model.max_gap * unit, np.bool_(model.steps_share_gaps)


def nodes_between(
    embedder: Embedder, panel: Panel, start: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (Q,), times (Q,) and offsets of Gauss-Legendre nodes of pieces in windows (B,).

    There are none where a window is empty.
    """
    times, weights, counts = [np.empty(0)], [np.empty(0)], []
    for begins, a, b in zip(edges(embedder, panel), start, end, strict=True):
        borders = np.concatenate([[a], begins[(begins > a) & (begins < b)], [max(a, b)]])
        half = np.diff(borders)[:, None] / 2
        counts.append(half.size * N_NODES * (b > a))
        if b > a:
            times.append((borders[:-1, None] + half * (1 + NODES)).ravel())
            weights.append((half * WEIGHTS).ravel())
    return np.concatenate(weights), np.concatenate(times), offsets_from(counts)


def slopes_at(
    embedder: Embedder, panel: Panel, times: np.ndarray, offsets: np.ndarray, order: int
) -> tuple[np.ndarray, np.ndarray]:
    """Values (Q, D) of paths at times (Q,), and their derivatives (Q, D) from the right.

    These are those of the polynomial that is closest to a part so short that any smooth path is a
    polynomial there. Forecasts leave a noisy last observation at once. So close to it, the slope is
    that of the cubic that is closest to the next step.
    """
    unit = embedder.units.time_scale

    def fitted(asked: Any, begin: np.ndarray, length: Any, degree: int) -> tuple[np.ndarray, ...]:
        """Values and derivatives (q, D) at some times; polynomials are fitted from `begin` on."""
        nodes = begin[:, None] + np.multiply.outer(length, 1 + NODES) / 2
        at, counts = np.column_stack([times[asked], nodes]), offsets_from(asked)[offsets]
        found = embedder.path_values(panel, at.ravel(), counts * at.shape[1])
        values = found.reshape(*at.shape, -1)
        basis = legendre.legvander(NODES, degree) * WEIGHTS[:, None] * (np.arange(degree + 1) + 0.5)
        derived = legendre.legder(np.eye(degree + 1), order)
        at_place = legendre.legvander((times[asked] - begin) / length * 2 - 1, len(derived) - 1)
        rise = np.einsum("qn,kn,qkd->qd", at_place @ derived, basis, values[:, 1:])
        return values[:, 0], rise * (2 / np.reshape(length, (-1, 1))) ** order

    latest = np.maximum.reduceat(np.append(times, -np.inf), offsets[:-1])
    begins = edges(embedder, panel, np.where(np.diff(offsets) > 0, latest + unit, panel.end))
    begin, stop = np.empty((2, len(times)))
    for k, starts in enumerate(begins):
        own, borders = slice(*offsets[k : k + 2]), np.append(starts, np.inf)
        place = np.maximum(np.searchsorted(borders, times[own], side="right"), 1)
        begin[own], stop[own] = borders[place - 1], borders[place]
    length = np.minimum(stop - begin, _PIECE * unit)
    values, found = fitted(times > -np.inf, np.minimum(times, stop - length), length, _DEGREE)
    since, until = PathQuery.of(panel, times, offsets).leads(unit)
    leaves = np.isinf(until) & (since < _PIECE)
    if (close := leaves.any(axis=1)).any():
        step = min(_steps(embedder)[0], unit)
        steps = fitted(close, times[close], step, 3)[1]
        found[close] = np.where(leaves[close], steps, found[close])
    return values, found
