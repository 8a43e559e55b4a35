"""Smooth pieces of paths, and their Gauss-Legendre nodes.

Paths have kinks only at observations, at changes of inputs and at the ends of integration steps.
Between these they are polynomials of degree three, but for waves, which rules of ten nodes follow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from skpolyode.dynamics.integrate import count_steps
from skpolyode.embedders.base import Embedder
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import series_of_rows

N_NODES = 10
NODES, WEIGHTS = np.polynomial.legendre.leggauss(N_NODES)


class Nodes(NamedTuple):
    """Gauss-Legendre nodes of pieces of B series, in the order of time."""

    times: np.ndarray  # float64 (Q,)
    weights: np.ndarray  # float64 (Q,), in the units of `times`
    offsets: np.ndarray  # int64 (B + 1,)


def step_of(embedder: Embedder) -> float:
    """Longest integration step, in the user's units of time; infinite if there is none."""
    return getattr(getattr(embedder, "model", None), "step_size", np.inf) * embedder.units[1]


def edges(embedder: Embedder, panel: Panel) -> list[np.ndarray]:
    """Where the pieces of each series begin, from its first row on; its last row ends them."""
    unit, times, series = embedder.units[1], panel.times, series_of_rows(panel)
    if embedder.inputs is not None:
        knots = embedder.inputs.knots(panel, panel.start, unit)
        place = knots.series
        moments = panel.start[place] + unit * knots.times
        inside = (moments > panel.start[place]) & (moments < panel.end[place])
        times = np.concatenate([times, moments[inside]])
        series = np.concatenate([series, place[inside]])
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
    for own, a, b in zip(edges(embedder, panel), start, end, strict=True):
        borders = np.concatenate([[a], own[(own > a) & (own < b)], [max(a, b)]])
        half = np.diff(borders)[:, None] / 2
        counts.append(half.size * N_NODES * (b > a))
        if b > a:
            times.append((borders[:-1, None] + half * (1 + NODES)).ravel())
            weights.append((half * WEIGHTS).ravel())
    return Nodes(np.concatenate(times), np.concatenate(weights), offsets_from(counts))


def derivatives(values: np.ndarray, place: np.ndarray, order: int, degree: int) -> np.ndarray:
    """Derivatives (Q, D) at places (Q,) from -1 to 1, from values (Q, N_NODES, D) at the nodes.

    Of the polynomial of some degree that is closest to them.
    """
    n = np.arange(degree + 1)
    basis = np.polynomial.legendre.legvander(NODES, degree) * WEIGHTS[:, None] * (n + 0.5)
    derived = np.polynomial.legendre.legder(np.eye(degree + 1), order)
    at = np.polynomial.legendre.legvander(place, len(derived) - 1) @ derived
    return np.einsum("qn,kn,qkd->qd", at, basis, values)
