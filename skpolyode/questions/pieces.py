"""The smooth pieces of paths: quadrature over them, and slopes of the models' paths.

Paths have kinks only at observations, at changes of inputs and at the ends of integration steps.
Between these pieces of them are cubic polynomials; only waves need as many as ten nodes of a
Gauss-Legendre rule.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import legendre

from skpolyode.dynamics.integrate import count_steps
from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Embedder
from skpolyode.embedders.paths import PathQuery, rows_until
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import series_of_rows

N_NODES = 10
_DEGREE, _PIECE = 5, 1 / 64  # of polynomials for slopes, and their length in typical gaps
NODES, WEIGHTS = legendre.leggauss(N_NODES)


class Nodes(NamedTuple):
    """Gauss-Legendre nodes of the pieces of B series, ordered by time."""

    times: np.ndarray  # float64 (Q,)
    weights: np.ndarray  # float64 (Q,), in the units of `times`
    offsets: np.ndarray  # int64 (B + 1,)


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
    """Derivatives (Q, D) of paths at times (Q,), from the right.

    They are those of the polynomial that is closest to a part so short that any smooth path is a
    polynomial there. Forecasts leave a noisy last observation at once. So close to it, the slope is
    that of the cubic that is closest to the next step.
    """
    unit = embedder.units.time_scale
    latest = np.maximum.reduceat(np.append(times, -np.inf), offsets[:-1])
    begins = edges(embedder, panel, np.where(np.diff(offsets) > 0, latest + unit, panel.end))
    begin, stop = np.empty((2, len(times)))
    for k, starts in enumerate(begins):
        asked, borders = slice(*offsets[k : k + 2]), np.append(starts, np.inf)
        place = np.maximum(np.searchsorted(borders, times[asked], side="right"), 1)
        begin[asked], stop[asked] = borders[place - 1], borders[place]
    length = np.minimum(stop - begin, _PIECE * unit)
    begin = np.minimum(times, stop - length)
    found = _fitted(embedder, panel, times, offsets, np.stack([begin, begin + length]), order)
    since, until = PathQuery.of(panel, times, offsets).leads(unit)
    leaves = np.isinf(until) & (since < _PIECE)
    close = leaves.any(axis=1)
    if close.any():
        step = min(_steps(embedder)[0], unit)
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
