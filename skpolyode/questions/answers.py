"""Means and integrals of paths over windows, and their slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders.paths import SLOPES
from skpolyode.errors import check_share, plain_repr
from skpolyode.futures.crossings import grid_leads
from skpolyode.panel import Panel, offsets_from, query_times, series_index
from skpolyode.panel.query import edge, name_query, refuse_early, times_since
from skpolyode.panel.select import fill_values, observed_part, observed_series, series_chunks
from skpolyode.panel.selection import refuse_reordered
from skpolyode.questions.errors import Course, PathErrors
from skpolyode.questions.errors import learn_path_errors as learn_path_errors
from skpolyode.questions.pieces import (
    N_NODES,
    NODES,
    derivatives,
    edges,
    nodes_between,
    step_of,
)
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.input import read_panel

_MOST_VALUES = 2_000_000  # of sampled paths at once, to bound memory
_N_SAMPLES, _N_SCORES = 500, 41
_EARLY = "its first observation ({} such times), where no path is known: ask for later ones."


def integrals(
    transformer: SeriesTransformer,
    X: Any,
    start: Any,
    end: Any,
    relative_to: str | None,
    coverage: float,
    mean: bool,
) -> pd.DataFrame:
    """As `SeriesTransformer.integral`, or `average` if `mean`."""
    check_is_fitted(transformer)
    check_share("coverage", coverage)
    panel = read_panel(transformer, X, reset=False)
    first, last = panel.start, panel.end
    if not panel.is_observed:
        seen = observed_part(panel)
        first, last = seen.start, seen.end
    begin = _bound(panel, start, relative_to, "start", first, last)
    stop = _bound(panel, end, relative_to, "end", first, last)
    _refuse_windows(panel, begin, stop, first)
    known, forecasts = observed_series(panel), hasattr(transformer, "sample_paths")
    found = np.full((panel.n_series, panel.n_channels, 3 if forecasts else 1), np.nan)
    if known.any():
        part = observed_part(panel if known.all() else panel[known])
        found[known] = _windows(transformer, part, begin[known], stop[known], coverage)
    if mean:
        found /= (stop - begin)[:, None, None]
    names = [panel.ids, list(panel.channel_names)]
    index = pd.MultiIndex.from_product(names, names=["series", "channel"])
    columns = ["value", "lower", "upper"][: found.shape[2]]
    return pd.DataFrame(found.reshape(-1, len(columns)), index, columns)


def _bound(
    panel: Panel,
    given: Any,
    relative_to: str | None,
    name: str,
    first: np.ndarray,
    last: np.ndarray,
) -> np.ndarray:
    """Times (B,) of one side of windows; NaN of series that it does not exist for."""
    if given is None:
        return first if name == "start" else last
    refuse_reordered(given, panel, name)
    listed = [[time] for time in given] if np.ndim(given) == 1 else given
    flat, offsets = times_since(panel, listed, edge(relative_to, first, last), name)
    counts, found = np.diff(offsets), np.full(panel.n_series, np.nan)
    if (counts > 1).any():
        raise ValueError(
            f"{name} must be one time, or one for each of the {panel.n_series} series, got "
            f"{plain_repr(given)}."
        )
    found[counts == 1] = flat
    return found


def _refuse_windows(panel: Panel, start: np.ndarray, end: np.ndarray, first: np.ndarray) -> None:
    """Refuse windows (B,) that are empty or begin before their series."""
    if (empty := start >= end).any():
        k = int(np.argmax(empty))
        name = name_query(panel, k, start[k], start[k] - end[k]).replace("times of", "window of", 1)
        raise ValueError(
            f"{name} after its end or at it ({int(empty.sum())} such windows), so that it is "
            "empty: give an end after the start; without `end` it is the last observation."
        )
    if (early := start < first).any():
        k = int(np.argmax(early))
        gap = first[k] - start[k]
        name = name_query(panel, k, start[k], gap).replace("times of", "start of", 1)
        raise ValueError(
            f"{name} before its first observation ({int(early.sum())} such windows), where no path "
            'is known: give a later start, or one that counts from there with relative_to="start".'
        )


def _windows(
    transformer: SeriesTransformer, panel: Panel, start: np.ndarray, end: np.ndarray, level: float
) -> np.ndarray:
    """Integrals (B, D, 1) over windows (B,) of observed series, (B, D, 3) with their ends."""
    embedder = transformer.embedder_
    forecasts = hasattr(transformer, "sample_paths")
    stop = np.minimum(end, panel.end) if forecasts else end
    at = nodes_between(embedder, panel, start, stop)
    values = embedder.path_values(panel, at.times, at.offsets)
    past = np.zeros((panel.n_series, panel.n_channels))
    np.add.at(past, series_index(at.offsets), at.weights[:, None] * values)
    if not forecasts:
        return past[..., None]
    errors = known_errors(transformer)
    course = Course.of(embedder, panel, at.times, at.offsets)
    std = errors.of_integrals(course, at.weights, at.offsets) * embedder.units.scaler.scale
    scores, half = ndtri((np.arange(_N_SCORES) + 0.5) / _N_SCORES), ndtri((1 + level) / 2) * std
    found = np.stack([past, past - half, past + half], axis=2)
    levels = [(1 - level) / 2, (1 + level) / 2]
    for k, sums in _sums_ahead(transformer, panel, np.maximum(start, panel.end), end):
        for j, own in enumerate(sums.T):
            both = past[k, j] + own[:, None] + std[k, j] * scores
            found[k, j] = both.mean(), *np.quantile(both, levels)
    return found


def _sums_ahead(transformer: Any, panel: Panel, start: np.ndarray, end: np.ndarray) -> Any:
    """Series that windows reach ahead of, and integrals (S, D) of their sampled futures."""
    ahead = np.flatnonzero(end > panel.end)
    if not len(ahead):
        return
    panel, start, end = panel[ahead], start[ahead], end[ahead]
    grids = grid_leads(end - start, transformer.embedder_.units.time_scale)
    leads = [own + (a - last) for own, a, last in zip(grids, start, panel.end, strict=True)]
    lengths = [len(own) for own in leads]
    for part in series_chunks(lengths, max(_MOST_VALUES // _N_SAMPLES // panel.n_channels, 1)):
        asked = panel[part], leads[part], "end"
        paths = transformer.sample_paths(*asked, n_samples=_N_SAMPLES, random_state=0)
        sums = paths.integrals()
        yield from zip(ahead[part], sums, strict=True)


def smoothness(transformer: SeriesTransformer) -> int:
    """How many derivatives the path of a transformer has, up to steps."""
    path = getattr(transformer.embedder_, "path", None)
    if path is None:
        return 2
    return 3 if path in SLOPES else int(path == "linear")


def slopes(
    transformer: SeriesTransformer, X: Any, times: Any, order: int, relative_to: str | None
) -> Panel:
    """As `SeriesTransformer.derivative`."""
    check_is_fitted(transformer)
    most = smoothness(transformer)
    if isinstance(order, bool) or not isinstance(order, int | np.integer) or order < 1:
        raise ValueError(f"order must be an int of at least 1, got {order!r}.")
    if order > most:
        raise ValueError(
            f"order={order} asks for more derivatives than the path of this "
            f"{type(transformer).__name__} has, which are {most}: ask for a lower order, or take "
            "InterpolationTransformer(kind='cubic'), whose path has three."
        )

    def find(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        return _slopes(transformer.embedder_, panel, times, offsets, int(order))

    return _answered(transformer, X, times, relative_to, find)


def slope_stds(transformer: Any, X: Any, times: Any, relative_to: str | None) -> Panel:
    """As `NeuralTransformer.derivative_std`."""
    check_is_fitted(transformer)
    embedder, errors = transformer.embedder_, known_errors(transformer)

    def find(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        scaler, gap = embedder.units
        end = np.repeat(panel.end, np.diff(offsets))
        leads, inside = times - end, np.minimum(times, end - 1e-6 * gap)
        found = errors.of_slopes(Course.of(embedder, panel, inside, offsets)) * scaler.scale
        counts = offsets_from(leads >= 0)[offsets]
        if counts[-1]:
            some = np.flatnonzero(np.diff(counts))
            pairs = np.add.outer(leads[leads >= 0], [0.0, gap])
            asked = [pairs[counts[k] : counts[k + 1]].ravel() for k in some]
            samples = transformer.sample_paths(panel[some], asked, "end", random_state=0).samples
            ahead = (samples[1::2] - samples[::2]).std(axis=1) / gap
            found[leads >= 0] = np.hypot(found[leads >= 0], ahead)
        return found

    return _answered(transformer, X, times, relative_to, find)


def known_errors(transformer: Any) -> PathErrors:
    """What is known of the errors of paths; a ValueError if nothing is."""
    errors = transformer.embedder_.path_errors
    if errors is None:
        raise ValueError(
            "how far off paths are is not known: fit again with this version, on at least 60 rows "
            "in series of five rows or more. `interpolate` and `derivative` need no errors."
        )
    return errors


def _answered(
    transformer: SeriesTransformer, X: Any, times: Any, relative_to: str | None, find: Callable
) -> Panel:
    """What `find` says of times of series, by default their own, none before the first row."""
    panel = read_panel(transformer, X, reset=False)
    flat, offsets = panel.times, panel.offsets
    if times is not None:
        flat, offsets = query_times(panel, times, relative_to)

    def checked(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        refuse_early(panel, times, offsets, panel.start, _EARLY)
        return find(panel, times, offsets)

    return panel.like(flat, fill_values(panel, flat, offsets, checked), offsets)


def _slopes(
    embedder: Any, panel: Panel, times: np.ndarray, offsets: np.ndarray, order: int
) -> np.ndarray:
    """Derivatives (Q, D) of paths at times, from the right; of held paths from the left."""
    begin, stop, series = np.empty(len(times)), np.empty(len(times)), series_index(offsets)
    step, unit, end = step_of(embedder), embedder.units.time_scale, panel.end[series]
    is_held = np.isinf(step)  # after the last rows
    for k, own in enumerate(edges(embedder, panel)):
        asked = slice(*offsets[k : k + 2])
        place = np.searchsorted(own, times[asked], side="right") - 1
        place = np.clip(place, 0, max(len(own) - 2, 0))
        begin[asked], stop[asked] = own[place], own[np.minimum(place + 1, len(own) - 1)]
    ahead = times > end if is_held else times >= end
    since = (times - end)[ahead]
    begin[ahead] = times[ahead] if is_held else end[ahead] + np.floor(since / step) * step
    stop[ahead] = begin[ahead] + (unit if is_held else step)
    stop = np.where(stop > begin, stop, begin + unit)  # of a series of one row
    half = (stop - begin) / 2
    at = begin[:, None] + half[:, None] * (1 + NODES)
    values = embedder.path_values(panel, at.ravel(), offsets * N_NODES)
    values = values.reshape(len(times), N_NODES, panel.n_channels)
    place, found = (times - begin) / half - 1, np.empty((len(times), panel.n_channels))
    cubic = getattr(embedder, "waves", None) is None  # combined forecasts ahead have kinks
    for own, degree in ((~ahead, 3 if cubic else N_NODES - 1), (ahead, 3)):
        found[own] = derivatives(values[own], place[own], order, degree)
    return found / half[:, None] ** order
