"""Smooth pieces of paths, and their Gauss-Legendre nodes.

Paths have kinks only at observations, at changes of inputs and at the ends of integration steps.
Between these they are cubic polynomials; only waves need as many as ten nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.polynomial import legendre

from skpolyode.dynamics.integrate import count_steps
from skpolyode.embedders.base import Embedder
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import series_of_rows

N_NODES = 10
NODES, WEIGHTS = legendre.leggauss(N_NODES)


class Nodes(NamedTuple):
    """Gauss-Legendre nodes of the pieces of B series, ordered by time."""

    times: np.ndarray  # float64 (Q,)
    weights: np.ndarray  # float64 (Q,), in the units of `times`
    offsets: np.ndarray  # int64 (B + 1,)


def step_of(embedder: Embedder) -> float:
    """Longest integration step, in the user's units of time; infinite if there is none."""
    return getattr(getattr(embedder, "model", None), "step_size", np.inf) * embedder.units[1]


def edges(embedder: Embedder, panel: Panel) -> list[np.ndarray]:
    """Times at which the pieces of each series begin; the last entry is the last row."""
    unit, times, series = embedder.units[1], panel.times, series_of_rows(panel)
    if embedder.inputs is not None:
        knots = embedder.inputs.knots(panel, panel.start, unit)
        place, moments = knots.series, panel.start[knots.series] + unit * knots.times
        inside = (moments > panel.start[place]) & (moments < panel.end[place])
        times, series = np.append(times, moments[inside]), np.append(series, place[inside])
        order = np.lexsort((times, series))
        times, series = times[order], series[order]
    is_last = np.append(series[1:] != series[:-1], True)
    gap = np.where(is_last, 0.0, np.diff(times, append=0.0))
    reach = np.minimum(gap, getattr(getattr(embedder, "model", None), "max_gap", np.inf) * unit)
    counts = count_steps(torch.from_numpy(reach), step_of(embedder)).numpy() + (reach < gap)
    row = np.repeat(np.arange(len(times)), counts)
    place = np.arange(len(row)) - offsets_from(counts)[row]
    found = times[row] + place * (reach / (counts - (reach < gap)))[row]
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


def slopes(
    embedder: Embedder, panel: Panel, times: np.ndarray, offsets: np.ndarray, order: int
) -> np.ndarray:
    """Derivatives (Q, D) of paths at times (Q,), from the right; at a held last row from the left.

    They are those of the polynomial through the nodes of the piece. After the last row it is the
    cubic that is closest to the nodes, as combined forecasts have kinks.
    """
    begin, stop, series = np.empty(len(times)), np.empty(len(times)), series_index(offsets)
    step, unit, end = step_of(embedder), embedder.units[1], panel.end[series]
    is_held = np.isinf(step)  # after the last rows
    for k, edge in enumerate(edges(embedder, panel)):
        asked = slice(*offsets[k : k + 2])
        place = np.searchsorted(edge, times[asked], side="right") - 1
        place = np.clip(place, 0, max(len(edge) - 2, 0))
        begin[asked], stop[asked] = edge[place], edge[np.minimum(place + 1, len(edge) - 1)]
    ahead = times > end if is_held else times >= end
    whole = 0.0 if is_held else np.floor((times - end)[ahead] / step) * step
    begin[ahead] = times[ahead] if is_held else end[ahead] + whole
    stop[ahead] = begin[ahead] + (unit if is_held else step)
    stop = np.where(stop > begin, stop, begin + unit)  # for a series of one row
    half = (stop - begin) / 2
    at = begin[:, None] + half[:, None] * (1 + NODES)
    values = embedder.path_values(panel, at.ravel(), offsets * N_NODES).reshape(*at.shape, -1)
    has_waves = getattr(embedder, "waves", None) is not None
    found = np.empty((len(times), panel.n_channels))
    for rows, degree in ((~ahead, N_NODES - 1 if has_waves else 3), (ahead, 3)):
        n = np.arange(degree + 1)
        basis = legendre.legvander(NODES, degree) * WEIGHTS[:, None] * (n + 0.5)
        derived = legendre.legder(np.eye(degree + 1), order)
        place = ((times - begin) / half - 1)[rows]
        at_place = legendre.legvander(place, len(derived) - 1) @ derived
        found[rows] = np.einsum("qn,kn,qkd->qd", at_place, basis, values[rows])
    return found / half[:, None] ** order
