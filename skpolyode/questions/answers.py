"""Means and integrals of paths over windows, and their slopes.

Paths have kinks only at observations, at changes of inputs and at the ends of integration steps.
Between these pieces of them are cubic polynomials; only waves need as many as ten nodes of a
Gauss-Legendre rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.polynomial import legendre
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skpolyode.dynamics.integrate import count_steps
from skpolyode.embedders.base import Embedder
from skpolyode.embedders.paths import SLOPES, PathQuery, rows_until
from skpolyode.errors import check_share
from skpolyode.futures.continued import grid_leads
from skpolyode.models.contract import SequenceModel
from skpolyode.panel import Panel, offsets_from, query_times, series_index
from skpolyode.panel.query import edge, name_query, one_time_each, refuse_early, refuse_first
from skpolyode.panel.select import (
    fill_rows,
    fill_values,
    observed_part,
    observed_series,
    series_chunks,
    series_of_rows,
)
from skpolyode.panel.units import clipped
from skpolyode.transformers.input import read_panel

_MOST_VALUES = 2_000_000  # of paths sampled per call, to bound memory
_N_SAMPLES, _N_SCORES = 500, 41
N_NODES = 10
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


def integrals(
    transformer: Any, X: Any, sides: tuple, relative_to: str | None, coverage: float, mean: bool
) -> pd.DataFrame:
    """`SeriesTransformer.integral`, or `average` if `mean`; `sides` is (start, end)."""
    check_is_fitted(transformer)
    check_share("coverage", coverage)
    panel = read_panel(transformer, X, reset=False)
    known, seen = observed_series(panel), observed_part(panel)
    first, last = seen.start, seen.end
    since = edge(relative_to, first, last)
    start = first if sides[0] is None else one_time_each(panel, sides[0], since, "start")
    end = last if sides[1] is None else one_time_each(panel, sides[1], since, "end")

    def name(k: int, off: np.ndarray) -> str:
        return name_query(panel, k, start[k], off[k], "start of the window")

    refuse_first(start >= end, partial(name, off=start - end), _EMPTY)
    refuse_first(start < first, partial(name, off=first - start), _BEFORE)
    columns = ["value", "lower", "upper"][: 3 if hasattr(transformer, "sample_paths") else 1]

    size = (end - start)[known, None, None]

    def find(part: Panel) -> np.ndarray:
        found = _integrals(transformer, part, start[known], end[known], coverage)
        found, length = (found / size, 1.0) if mean else (found, size)
        limits = transformer.scaler_.limits_of(part)
        return clipped(found, *(length * end[..., None] for end in limits)).reshape(len(part), -1)

    found = fill_rows(panel, find, lambda: panel.n_channels * len(columns))
    labels = [panel.ids, list(panel.channel_names)]
    index = pd.MultiIndex.from_product(labels, names=["series", "channel"])
    return pd.DataFrame(found.reshape(-1, len(columns)), index, columns)


def _integrals(
    transformer: Any, panel: Panel, start: np.ndarray, end: np.ndarray, level: float
) -> np.ndarray:
    """Integrals over windows (B,) of observed series; after the last row, of sampled futures.

    Shape (B, D, 1), or (B, D, 3) with the ends of intervals if the transformer forecasts.
    """
    embedder, forecasts = transformer.embedder_, hasattr(transformer, "sample_paths")
    until = np.minimum(end, panel.end) if forecasts else end
    at = nodes_between(embedder, panel, start, until)
    values = embedder.limited_path(panel, at.times, at.offsets)
    past = np.zeros((panel.n_series, panel.n_channels, 1))
    np.add.at(past[..., 0], series_index(at.offsets), at.weights[:, None] * values)
    if not forecasts:
        return past
    errors = known_errors(transformer)
    course = errors.course(embedder, panel, at.times, at.offsets)
    std = errors.of_integrals(course, at.weights, at.offsets)
    std *= transformer.scaler_.scale
    scores, levels = ndtri((np.arange(_N_SCORES) + 0.5) / _N_SCORES), np.array([-1, 1]) * level
    found = past + std[..., None] * ndtri((1 + np.array([0, -level, level])) / 2)
    for k, sums in _sums_ahead(transformer, panel, np.maximum(start, panel.end), end):
        both = past[k][..., None] + sums.T[..., None] + std[k][:, None, None] * scores
        quantiles = np.quantile(both, (1 + levels) / 2, axis=(1, 2))  # over (D, S, scores)
        found[k] = np.column_stack([both.mean(axis=(1, 2)), *quantiles])
    return found


def _sums_ahead(
    transformer: Any, panel: Panel, start: np.ndarray, end: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield each series whose window ends after its last row, and integrals (S, D) from there."""
    if not len(ahead := np.flatnonzero(end > panel.end)):
        return
    panel, start, end, embedder = panel[ahead], start[ahead], end[ahead], transformer.embedder_
    gap, (_, reach) = embedder.units.time_scale, embedder.calibration.known_between()
    grids = [grid_leads(length, gap, reach) for length in end - start]
    windows = zip(grids, start - panel.end, end - panel.end, strict=True)
    leads = [np.append(grid[since + grid < last] + since, last) for grid, since, last in windows]
    most = max(_MOST_VALUES // (_N_SAMPLES * panel.n_channels), 1)
    for part in series_chunks([len(lead) for lead in leads], most):
        asked = panel[part], leads[part], "end"
        paths = transformer.sample_paths(*asked, n_samples=_N_SAMPLES, random_state=0)
        yield from zip(ahead[part], paths.integrals(), strict=True)


def known_errors(transformer: Any) -> Any:
    """The error model of paths; a ValueError if there is none."""
    errors = transformer.embedder_.path_errors
    if errors is None or errors.law is None:
        raise ValueError(
            "the errors of paths are not known: fit again with this version, on at least 60 rows "
            "in series of five rows or more. `interpolate` and `derivative` need no errors."
        )
    return errors


def slopes(transformer: Any, X: Any, times: Any, order: int, relative_to: str | None) -> Panel:
    """`SeriesTransformer.derivative`."""
    check_is_fitted(transformer)
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
        raise ValueError(f"order must be an int of at least 1, got {order!r}.")
    path = getattr(transformer.embedder_, "path", None)
    most = 2 if path is None else 3 if path in SLOPES else int(path == "linear")
    if order > most:
        raise ValueError(
            f"order={order} asks for more derivatives than the path of this "
            f"{type(transformer).__name__} has, which are {most}: ask for a lower order, or take "
            "InterpolationTransformer(kind='cubic'), whose path has three."
        )

    def find(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        found = slopes_at(transformer.embedder_, panel, times, offsets, int(order))
        path = transformer.embedder_.path_values(panel, times, offsets)
        kept = transformer.scaler_.within_limits(path, panel, offsets)
        return np.where((path < kept) | (path > kept), 0.0, found)

    return _answered(transformer, X, times, relative_to, find)


def slope_stds(transformer: Any, X: Any, times: Any, relative_to: str | None) -> Panel:
    """`SeriesTransformer.derivative_std`."""
    check_is_fitted(transformer)
    embedder, errors = transformer.embedder_, known_errors(transformer)

    def find(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        (scaler, gap), end = embedder.units, np.repeat(panel.end, np.diff(offsets))
        leads, inside = times - end, np.minimum(times, end - 1e-6 * gap)
        course = errors.course(embedder, panel, inside, offsets)
        found = errors.of_slopes(course) * scaler.scale
        counts = offsets_from(leads >= 0)[offsets]
        if counts[-1]:
            late, pairs = np.flatnonzero(np.diff(counts)), np.add.outer(leads[leads >= 0], [0, gap])
            asked = [pairs[counts[k] : counts[k + 1]].ravel() for k in late]
            samples = transformer.sample_paths(panel[late], asked, "end", random_state=0).samples
            ahead = (samples[1::2] - samples[::2]).std(axis=1) / gap
            found[leads >= 0] = np.hypot(found[leads >= 0], ahead)
        return found

    return _answered(transformer, X, times, relative_to, find)


def _answered(
    transformer: Any, X: Any, times: Any, relative_to: str | None, find: Callable[..., np.ndarray]
) -> Panel:
    """Panel of `find` at query times; by default at the rows, NaN before the first observation."""
    panel = read_panel(transformer, X, reset=False)
    at = (panel.times, panel.offsets) if times is None else query_times(panel, times, relative_to)
    start = observed_part(panel).start
    if times is not None:
        refuse_early(panel, *at, start, _EARLY)
    found = fill_values(panel, *at, find)
    found[at[0] < np.repeat(start, np.diff(at[1]))] = np.nan
    return panel.like(at[0], found, at[1])


class Nodes(NamedTuple):
    """Gauss-Legendre nodes of the pieces of B series, ordered by time."""

    times: np.ndarray  # float64 (Q,)
    weights: np.ndarray  # float64 (Q,), in the units of `times`
    offsets: np.ndarray  # int64 (B + 1,)


def edges(embedder: Embedder, panel: Panel, until: np.ndarray | None = None) -> list[np.ndarray]:
    """Where the pieces of each series begin, up to its last row or, if later, `until` (B,)."""
    unit, times, series = embedder.units[1], panel.times, series_of_rows(panel)
    model, stop = getattr(embedder, "model", None), panel.end
    stop = stop if until is None else np.maximum(until, stop)
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
    step, most = (getattr(model, name, np.inf) * unit for name in ("step_size", "max_gap"))
    reach = np.minimum(gap, most)
    counts = count_steps(torch.from_numpy(reach), step).numpy()
    # A model without a path between rows comes to each time by steps from the row before.
    starts_anew = getattr(type(model), "between", None) is SequenceModel.between
    length = np.where(
        (starts_anew | is_last) & np.isfinite(step), step * (1 + 1e-6), reach / counts
    )
    row = np.repeat(np.arange(len(times)), counts + (reach < gap))
    place = np.arange(len(row)) - offsets_from(counts + (reach < gap))[row]
    found = times[row] + np.minimum(place * length[row], reach[row])
    return np.split(found, np.searchsorted(series[row], np.arange(1, panel.n_series)))


def nodes_between(embedder: Embedder, panel: Panel, start: np.ndarray, end: np.ndarray) -> Nodes:
    """Nodes in windows (B,) of series; none where a window is empty."""
    times, weights, counts = [np.empty(0)], [np.empty(0)], []
    for begins, a, b in zip(edges(embedder, panel), start, end, strict=True):
        borders = np.concatenate([[a], begins[(begins > a) & (begins < b)], [max(a, b)]])
        half = np.diff(borders)[:, None] / 2
        counts.append(half.size * N_NODES * (b > a))
        if b > a:
            times.append((borders[:-1, None] + half * (1 + NODES)).ravel())
            weights.append((half * WEIGHTS).ravel())
    return Nodes(np.concatenate(times), np.concatenate(weights), offsets_from(counts))


def slopes_at(
    embedder: Embedder, panel: Panel, times: np.ndarray, offsets: np.ndarray, order: int
) -> np.ndarray:
    """Derivatives (Q, D) of paths at times (Q,), from the right; at a held last row from the left.

    They are those of the polynomial that is closest to a piece: a whole cubic, or a part so short
    that any smooth path is a polynomial there. Forecasts leave a noisy last observation at once.
    So close to it, the slope is that of the cubic that is closest to the next step.
    """
    series, unit, has_path = series_index(offsets), embedder.units[1], hasattr(embedder, "path")
    latest = np.maximum.reduceat(np.append(times, -np.inf), offsets[:-1])
    begins = edges(embedder, panel, np.where(np.diff(offsets) > 0, latest + unit, panel.end))
    is_held = has_path & (times == panel.end[series])
    inside = np.where(is_held, np.nextafter(times, -np.inf), times)
    begin, stop = np.empty((2, len(times)))
    for k, starts in enumerate(begins):
        asked, borders = slice(*offsets[k : k + 2]), np.append(starts, np.inf)
        place = np.maximum(np.searchsorted(borders, inside[asked], side="right"), 1)
        begin[asked], stop[asked] = borders[place - 1], borders[place]
    length = np.minimum(
        np.where(np.isinf(stop), unit, stop - begin), np.inf if has_path else _PIECE * unit
    )
    begin = np.minimum(times, stop - length)
    found = _fitted(embedder, panel, times, offsets, np.stack([begin, begin + length]), order)
    if has_path:
        return found
    since, until = PathQuery.of(panel, times, offsets).leads(unit)
    leaves = np.isinf(until) & (since < _PIECE)
    close = leaves.any(axis=1)
    if close.any():
        step = min(getattr(embedder.model, "step_size", 1.0), 1.0) * unit
        at = times[close], offsets_from(close)[offsets], times[close] + np.outer([0.0, step], 1)
        found[close] = np.where(
            leaves[close], _fitted(embedder, panel, *at, order, 3), found[close]
        )
    return found


def _fitted(
    embedder: Embedder,
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    ends: np.ndarray,
    order: int,
    degree: int = _DEGREE,
) -> np.ndarray:
    """Derivatives (Q, D) of polynomials fitted to paths between two `ends` (2, Q)."""
    begin, length = ends[0], np.diff(ends, axis=0)[0]
    at = begin[:, None] + length[:, None] * (1 + NODES) / 2
    values = embedder.path_values(panel, at.ravel(), offsets * N_NODES).reshape(*at.shape, -1)
    n = np.arange(degree + 1)
    basis = legendre.legvander(NODES, degree) * WEIGHTS[:, None] * (n + 0.5)
    derived = legendre.legder(np.eye(degree + 1), order)
    place = (times - begin) / length * 2 - 1
    at_place = legendre.legvander(place, len(derived) - 1) @ derived
    return np.einsum("qn,kn,qkd->qd", at_place, basis, values) * (2 / length[:, None]) ** order
