"""Values between observations, and what hidden ones say of how far off these are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.variance import path_std
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.decompose import Decomposition
from skpolyode.ensemble.error_scale import spreads_at
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import observed_part, series_of_rows, take
from skpolyode.saving.codec import saved
from skpolyode.transformers.input import read_panel
from skpolyode.transformers.neural import NeuralTransformer

__all__ = ["OnPath", "PathCalibration", "calibrate_paths", "on_path"]

_PARTS = 5  # of the rows, or the values; each is hidden at once
_ENOUGH = 2000  # hidden rows
_FEWEST = 20  # observations; fewer say nothing of paths
_LEAST = 1e-6  # standard deviation that is expected of a path, in those of the channel


class OnPath(NamedTuple):
    """Points of learned paths at Q times, series after series."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean
    shift: np.ndarray  # (Q, D): what the user's values are beside `scale` times the model's
    scale: np.ndarray  # (Q, D)
    spreads: np.ndarray  # (Q, D, 2): how wild the series is
    apart: np.ndarray  # (Q, D): from the observations of the channel; NaN after the last one
    expected: np.ndarray  # (Q, D): size of the error, where the embedder knows it; else 1
    at_row: np.ndarray  # bool (Q,): whether anything was observed then


def on_path(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
) -> OnPath:
    """Points between the first and the last observation of each series.

    How far they are `apart` from the observations of a channel is half the harmonic mean of the
    times since the last one and to the next one: of a random walk it is the variance.

    Parameters
    ----------
    embedder : NeuralTransformer
        Fitted.
    adjustment : Decomposition
        What was taken out before.
    panel : Panel
        All rows hold an observation.
    times : float64 ndarray of shape (Q,)
        Of all series, one after the other.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    """
    series, own = series_index(offsets), embedder.embedder_
    whole = read_panel(embedder, panel, reset=False)
    shift, scale = np.zeros((len(times), panel.n_channels)), np.ones((len(times), panel.n_channels))
    if not adjustment.is_none:
        adjusted = adjustment.remove(panel, panel.offsets[1:] - 1, longest=None)
        parts, whole = adjusted.of(series), read_panel(embedder, adjusted.panel, reset=False)
        shift, scale = adjustment.base(parts, times), parts.scale
    # Times count from the starts of the series there, which keeps their differences exact.
    at = times + (whole.times - panel.times)[panel.offsets[:-1]][series]
    values = embedder.scaler_.transform(own.path_values(whole, at, offsets))
    spreads = spreads_at(own.standardised(whole).values, whole.offsets, whole.offsets[1:] - 1)
    asked = PathQuery.of(whole, at, offsets)
    apart, expected = _apart(asked), np.ones(values.shape)
    if own.filters:  # the path need not pass through observations
        apart = np.maximum(apart, np.finfo(np.float64).tiny)
    if own.scale is not None:
        deviation = path_std(own, whole, at, offsets) / embedder.scaler_.scale
        noise = own.scale.noise.double().sqrt().cpu().numpy()
        expected = np.maximum(np.hypot(deviation, noise), _LEAST)
    at_row = asked.times == asked.seen.times[asked.row]
    return OnPath(values, shift, scale, spreads[series], apart, expected, at_row)


def _apart(asked: PathQuery) -> np.ndarray:
    since, until = asked.leads(1.0)
    since = np.where(asked.before < 0, np.inf, since)
    with np.errstate(divide="ignore"):
        apart = 1 / (1 / since + 1 / until)
    return np.where(np.isinf(until) & (since > 0), np.nan, apart)


@saved
@dataclass(frozen=True, eq=False)
class PathCalibration:
    """Half widths of intervals around paths, by how far they are `apart` from observations.

    Parameters
    ----------
    between : Calibration
        Where nothing was observed, from rows that were hidden.
    at_rows : Calibration or None
        Where other channels were observed, from single values that were hidden; None of one
        channel.
    """

    between: Calibration
    at_rows: Calibration | None

    def half_widths(
        self, apart: np.ndarray, level: float, spreads: np.ndarray, at_row: np.ndarray
    ) -> np.ndarray:
        """Half widths (Q, D) in expected sizes of the error; 0 where the value is known."""
        widths = self.between.half_widths(apart, level, spreads)
        if self.at_rows is not None:
            widths[at_row] = self.at_rows.half_widths(apart[at_row], level, spreads[at_row])
        return np.where(apart > 0, widths, 0.0)


def calibrate_paths(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None,
) -> PathCalibration | None:
    """Hide observations, and see how far paths over the others miss them.

    Parameters
    ----------
    embedder : NeuralTransformer
        Fitted.
    adjustment : Decomposition
        What was taken out before.
    panel : Panel
        Series that have not trained the embedder; all rows hold an observation.
    rng : RandomState
        Draws what is hidden.
    earliest : int64 ndarray of shape (n_series,) or None
        First row of each series that may be hidden; None: the second one.

    Returns
    -------
    PathCalibration or None
        None of too few observations.
    """
    row, series = np.arange(panel.n_observations), series_of_rows(panel)
    first = panel.offsets[:-1] + 1
    first = first if earliest is None else np.maximum(first, earliest)
    inner = (row >= first[series]) & (row < panel.offsets[1:][series] - 1)
    may_go, (n_rows, n_channels) = inner[:, None] & ~np.isnan(panel.values), panel.values.shape
    one, each = (rng.randint(_PARTS, size=(n_rows, n)) for n in (1, n_channels))
    between = _calibrated(embedder, adjustment, panel, may_go, one)
    if between is None:
        return None
    at_rows = None
    if n_channels > 1:
        at_rows = _calibrated(embedder, adjustment, panel, may_go, each)
    return PathCalibration(between, at_rows)


def _calibrated(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    panel: Panel,
    may_go: np.ndarray,
    part: np.ndarray,
) -> Calibration | None:
    """Errors at values that `may_go` (P, D), hidden by parts: whole rows (P, 1), or (P, D)."""
    # A copy of the series for each part, which all go through the model together.
    n_parts = min(_PARTS, -(-_ENOUGH * _PARTS // max(int(may_go.any(axis=1).sum()), 1)))
    whole = np.arange(panel.n_series), panel.offsets[:-1], panel.offsets[1:]
    copies = take(panel, *(np.tile(x, n_parts) for x in whole))
    hidden = np.concatenate([may_go & (part == k) for k in range(n_parts)])
    if part.shape[1] > 1:  # something is left in each row
        hidden &= (~np.isnan(copies.values) & ~hidden).any(axis=1, keepdims=True)
    known = copies.like(copies.times, np.where(hidden, np.nan, copies.values), copies.offsets)
    asked = hidden.any(axis=1)
    times, offsets = copies.times[asked], offsets_from(asked)[copies.offsets]
    found = on_path(embedder, adjustment, observed_part(known), times, offsets)
    actual = np.where(hidden, copies.values, np.nan)[asked]
    actual = embedder.scaler_.read((actual - found.shift) / found.scale)
    if np.isfinite(found.apart * actual).sum() < _FEWEST:
        return None
    own = found.values / found.expected, actual / found.expected
    series = series_of_rows(copies)[asked] % panel.n_series
    return Calibration.of(found.apart, *own, series, times, found.spreads)
