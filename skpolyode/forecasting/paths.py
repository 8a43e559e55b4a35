"""Values between observations, and their intervals, calibrated by hiding observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.variance import path_std
from skpolyode.ensemble.backtest import N_FOLDS
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.error_scale import signs_of_errors
from skpolyode.ensemble.records import NEGLIGIBLE
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import hide_cells, observed_part, series_of_rows, take
from skpolyode.saving.codec import saved

_ENOUGH = 2000  # hidden rows; folds beyond that are left out
_FEWEST = 20  # hidden observations; with fewer there is no calibration


class OnPath(NamedTuple):
    """Points of learned paths at Q times, series after series; as columns of `Answers`."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean
    signs: np.ndarray  # (Q, D, S): of how large errors are, of the whole series
    apart: np.ndarray  # (Q, D): distance to the channel's observations; NaN outside of them
    expected: np.ndarray  # (Q, D): expected size of the error, where it is known; else 1
    at_row: np.ndarray  # bool (Q,): whether anything was observed then


def on_path(
    model: ModelEmbedder,
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
) -> OnPath:
    """Points before the last observation of each series.

    The distance `apart` from the observations of a channel is half the harmonic mean of the times
    since the last one and to the next one: in a random walk, the variance is proportional to it.

    Parameters
    ----------
    model : ModelEmbedder
    panel : Panel
        As fit has read it; all rows hold an observation.
    times : float64 ndarray of shape (Q,)
        Of all series, one after the other.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    """
    series, scaler = series_index(offsets), model.units.scaler
    values = scaler.transform(model.path_values(panel, times, offsets))
    rows = model.standardised(panel).values
    last = panel.offsets[1:] - 1
    signs = signs_of_errors(rows, panel.offsets, last[series], np.ones(values.shape))
    asked = PathQuery.of(panel, times, offsets)
    since, until = asked.leads(1.0)
    since = np.where(asked.before < 0, np.inf, since)
    with np.errstate(divide="ignore"):
        apart = 1 / (1 / since + 1 / until)
    early = times < asked.times  # before the first row, which no hidden row is
    apart = np.where((np.isinf(until) & (since > 0)) | early[:, None], np.nan, apart)
    if model.filters:  # the path need not pass through observations
        apart = np.maximum(apart, np.finfo(np.float64).tiny)
    expected = np.ones(values.shape)
    if model.scale is not None:
        deviation = path_std(model, panel, times, offsets) / scaler.scale
        noise = model.scale.noise.double().sqrt().cpu().numpy()
        expected = np.maximum(np.hypot(deviation, noise), NEGLIGIBLE)
    at_row = times == asked.seen.times[asked.row]
    return OnPath(values, signs, apart, expected, at_row)


@saved(between="D", at_rows="D")
@dataclass(frozen=True, eq=False)
class PathCalibration:
    """Half widths of intervals around paths, by the distance `apart` from observations.

    Parameters
    ----------
    between : Calibration
        Where nothing was observed; from the errors at hidden rows.
    at_rows : Calibration or None
        Where other channels were observed; from the errors at single hidden values. None of one
        channel.
    """

    between: Calibration
    at_rows: Calibration | None

    def half_widths(
        self, apart: np.ndarray, level: float, signs: np.ndarray, at_row: np.ndarray
    ) -> np.ndarray:
        """Half widths (Q, D) in multiples of the expected error; 0 where the value is known."""
        widths = self.between.half_widths(apart, level, signs)
        if self.at_rows is not None:
            widths[at_row] = self.at_rows.half_widths(apart[at_row], level, signs[at_row])
        return np.where(apart > 0, widths, 0.0)


def calibrate_paths(
    model: ModelEmbedder,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None,
) -> PathCalibration | None:
    """Hide observations, and learn from how far the paths over the others miss them.

    Parameters
    ----------
    model : ModelEmbedder
    panel : Panel
        Series that have not trained the model; all rows hold an observation.
    rng : RandomState
        Draws the folds that are hidden.
    earliest : int64 ndarray of shape (n_series,) or None
        First row of each series that may be hidden; None: the second one.

    Returns
    -------
    PathCalibration or None
        None if there are too few observations.
    """
    row, series = np.arange(panel.n_observations), series_of_rows(panel)
    first = panel.offsets[:-1] + 1
    first = first if earliest is None else np.maximum(first, earliest)
    inner = (row >= first[series]) & (row < panel.offsets[1:][series] - 1)
    may_hide, (n_rows, n_channels) = inner[:, None] & ~np.isnan(panel.values), panel.values.shape
    stretch, each = _stretches(panel, rng), rng.randint(N_FOLDS, size=(n_rows, n_channels))
    stretches = rng.randint(N_FOLDS, size=(stretch.max() + 1, 1))[stretch]
    between = _calibrated(model, panel, may_hide, stretches)
    if between is None:
        return None
    at_rows = None if n_channels == 1 else _calibrated(model, panel, may_hide, each)
    return PathCalibration(between, at_rows)


def _stretches(panel: Panel, rng: np.random.RandomState) -> np.ndarray:
    """Stretch (P,) that each row is in, of which all rows are hidden at once.

    Most rows are alone. Of series with some long gaps, half of the rows are in stretches as long as
    these, drawn at random: a few would not tell how errors grow with the distance.
    """
    steps = np.diff(panel.times, prepend=panel.times[0])
    inside = ~np.isin(np.arange(len(steps)), panel.offsets[:-1])
    gaps = steps[inside]
    if not len(gaps):
        return np.arange(len(steps))
    usual = np.median(gaps)
    lengths = np.maximum(gaps - 2 * gaps.mean(), usual)  # what is hidden leaves a gap at each end
    is_long, weights = lengths > usual, np.ones(len(gaps))
    if is_long.any():
        weights[is_long] = max(1.0, lengths[~is_long].sum() / lengths[is_long].sum())
    clock = np.cumsum(np.where(inside, steps, usual)) - usual / 2
    drawn = rng.choice(len(gaps), 2 * len(steps), p=weights / weights.sum())
    stretch, row = np.searchsorted(np.cumsum(lengths[drawn]), clock), np.arange(len(steps))
    in_long = np.append(is_long[drawn], False)[stretch]  # none after the last one that is drawn
    stretch = np.where(in_long, stretch, 2 * len(steps) + row)
    return np.unique(stretch, return_inverse=True)[1]


def _calibrated(
    model: ModelEmbedder,
    panel: Panel,
    may_hide: np.ndarray,
    fold: np.ndarray,
) -> Calibration | None:
    """Calibrate on values that `may_hide` (P, D); a fold hides rows (P, 1) or values (P, D)."""
    # The series are copied for each fold, and all copies go through the model together.
    n_rows = max(int(may_hide.any(axis=1).sum()), 1)
    n_folds = min(N_FOLDS, -(-_ENOUGH * N_FOLDS // n_rows))
    whole = np.arange(panel.n_series), panel.offsets[:-1], panel.offsets[1:]
    copies = take(panel, *(np.tile(x, n_folds) for x in whole))
    hidden = np.concatenate([may_hide & (fold == k) for k in range(n_folds)])
    if fold.shape[1] > 1:  # each row keeps a value
        hidden &= (~np.isnan(copies.values) & ~hidden).any(axis=1, keepdims=True)
    known = hide_cells(copies, hidden)
    asked = hidden.any(axis=1)
    times, offsets = copies.times[asked], offsets_from(asked)[copies.offsets]
    found = on_path(model, observed_part(known), times, offsets)
    actual = np.where(hidden, copies.values, np.nan)[asked]
    actual = model.units.scaler.read(actual)
    if np.isfinite(found.apart * actual).sum() < _FEWEST:
        return None
    series = series_of_rows(copies)[asked] % panel.n_series
    wrong = (actual - found.values) / found.expected
    return Calibration.learn(found.apart, wrong, series, times, found.signs)
