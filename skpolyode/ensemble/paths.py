"""Values between observations, and their intervals, calibrated by hiding observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.trained_model import Late
from skpolyode.embedders.variance import path_std
from skpolyode.ensemble.backtest import N_FOLDS
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.error_scale import EXPECTED, N_SIGNS, signs_of_errors
from skpolyode.ensemble.records import NEGLIGIBLE
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import (
    hide_cells,
    observed_part,
    series_of_rows,
    take,
    time_since_seen,
)
from skpolyode.saving.codec import saved

_ENOUGH = 2000  # hidden rows; folds beyond that are left out
_FEWEST = 20  # hidden observations; with fewer there is no calibration


Structural = Callable[[Panel, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


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
    in_deviations: bool,
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
    in_deviations : bool
        Whether errors are expected to be as large as the model says, which then knows them.
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
    if in_deviations:
        deviation = path_std(model, panel, times, offsets) / scaler.scale
        noise = model.scale.noise.double().sqrt().cpu().numpy()
        expected = np.maximum(np.hypot(deviation, noise), NEGLIGIBLE)
    at_row = times == asked.seen.times[asked.row]
    return OnPath(values, signs, apart, expected, at_row)


class Answers(NamedTuple):
    """Answers at Q times, series after series."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean
    leads: np.ndarray  # (Q, D): time since the channel was last observed; inf if it never was
    signs: np.ndarray  # (Q, D, S): of how large errors will be
    apart: np.ndarray  # (Q, D): distance of a point of the path to observations; NaN elsewhere
    expected: np.ndarray  # (Q, D): expected size of the errors, where it is known; else 1
    at_row: np.ndarray  # bool (Q,): whether the path is asked for where something was observed
    floor: np.ndarray  # (Q, D): no quantile is below, in the user's units; see `CellLimits`
    ceiling: np.ndarray

    @classmethod
    def blank(cls, n_times: int, n_channels: int) -> Self:
        """Answers where nothing is known."""
        shape = n_times, n_channels
        blank, ones = np.full(shape, np.nan), np.ones(shape)
        signs, at_row = np.zeros((*shape, N_SIGNS)), np.zeros(n_times, dtype=bool)
        ends = np.full(shape, -np.inf), np.full(shape, np.inf)
        return cls(blank, np.full(shape, np.inf), signs, blank.copy(), ones, at_row, *ends)

    def put(self, where: np.ndarray, **columns: Any) -> None:
        """Write some columns at positions (m,)."""
        for name, column in columns.items():
            getattr(self, name)[where] = column

    def half_widths(self, calibration: Calibration, paths: Any, level: float) -> np.ndarray:
        """Half widths (Q, D) of intervals of a level, in standard deviations of the channels.

        Parameters
        ----------
        calibration : Calibration
            Of forecasts.
        paths : PathCalibration
        level : float
        """
        widths = calibration.half_widths(self.leads, level, self.signs)
        bridged = ~np.isnan(self.apart)
        if bridged.any() and paths.between is not None:
            own = paths.half_widths(self.apart, level, self.signs, self.at_row)
            widths = np.where(bridged, own, widths)
        return self.expected * np.where(self.apart == 0, 0.0, widths)


@saved(between="D", at_rows="D")
@dataclass(frozen=True, eq=False)
class PathCalibration:
    """Half widths of intervals around paths, by the distance `apart` from observations.

    Parameters
    ----------
    between : Calibration or None
        Where nothing was observed; from the errors at hidden rows. None of too few observations:
        intervals are then as wide as those of forecasts.
    at_rows : Calibration or None
        Where other channels were observed; from the errors at single hidden values. None of one
        channel.
    in_deviations : bool, default=False
        Whether errors are counted in standard deviations that the model has learned.
    """

    between: Calibration | None
    at_rows: Calibration | None
    in_deviations: bool = False

    def half_widths(
        self, apart: np.ndarray, level: float, signs: np.ndarray, at_row: np.ndarray
    ) -> np.ndarray:
        """Half widths (Q, D) in multiples of the expected error."""
        widths = self.between.half_widths(apart, level, signs)
        if self.at_rows is not None:
            widths[at_row] = self.at_rows.half_widths(apart[at_row], level, signs[at_row])
        return widths

    def half_widths_at(
        self,
        model: ModelEmbedder,
        level: float,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
    ) -> np.ndarray:
        """Half widths (Q, D) of intervals at any times, in the units of the channels."""
        answers = answers_at(model, panel, times, offsets, self)
        return model.units.scaler.scale * answers.half_widths(model.calibration, self, level)


def late_paths(
    model: ModelEmbedder,
    panel: Panel,
    random_state: np.random.RandomState,
    earliest: np.ndarray | None = None,
) -> Late:
    """A `PathCalibration` that is learned late; see `calibrate_paths`."""
    rng = np.random.RandomState(random_state.randint(2**31 - 1))
    return Late(partial(calibrate_paths, model, panel, rng, earliest))


def calibrate_paths(
    model: ModelEmbedder,
    panel: Panel,
    rng: np.random.RandomState,
    earliest: np.ndarray | None,
) -> PathCalibration:
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
    """
    row, series = np.arange(panel.n_observations), series_of_rows(panel)
    first = panel.offsets[:-1] + 1
    first = first if earliest is None else np.maximum(first, earliest)
    inner = (row >= first[series]) & (row < panel.offsets[1:][series] - 1)
    may_hide, (n_rows, n_channels) = inner[:, None] & ~np.isnan(panel.values), panel.values.shape
    stretch, each = _stretches(panel, rng), rng.randint(N_FOLDS, size=(n_rows, n_channels))
    stretches = rng.randint(N_FOLDS, size=(stretch.max() + 1, 1))[stretch]
    between, at_rows = _calibrated(model, panel, may_hide, stretches), None
    if between is not None and n_channels > 1:
        at_rows = _calibrated(model, panel, may_hide, each)
    return PathCalibration(between, at_rows, model.scale is not None)


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
    found = on_path(model, observed_part(known), times, offsets, model.scale is not None)
    actual = np.where(hidden, copies.values, np.nan)[asked]
    actual = model.units.scaler.read(actual)
    if np.isfinite(found.apart * actual).sum() < _FEWEST:
        return None
    series = series_of_rows(copies)[asked] % panel.n_series
    wrong = (actual - found.values) / found.expected
    return Calibration.learn(found.apart, wrong, series, times, found.signs)


def answers_at(
    model: ModelEmbedder,
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    paths: Any,
    *,
    path_at_rows: bool = True,
    structural: Structural | None = None,
) -> Answers:
    """Values of every channel at any times, and what tells how far off they are.

    - After the last observation: the forecast.
    - At an observation: its forecast from the observations before; the mean at the first one. The
      path, if `path_at_rows`.
    - Between two observations: the learned path, which leads from one to the other.
    - Before the first row, if `path_at_rows`: the path, as far off as a forecast of equal lead.

    Parameters
    ----------
    model : ModelEmbedder
    panel : Panel
        As fit has read it; each series holds an observation.
    times : float64 ndarray of shape (Q,)
        Times of all series, one after the other, as the panel counts them.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    paths : PathCalibration
        Of this model.
    path_at_rows : bool, default=True
    structural : callable or None, default=None
        Forecasts of other models and their expected errors, both (Q, D), in standard deviations,
        from what `ModelEmbedder.forecast_from` is called with.
    """
    panel, series = observed_part(panel), series_index(offsets)
    answers = Answers.blank(len(times), panel.n_channels)
    ends = (own[series] for own in model.units.scaler.limits.kept_by(panel))
    answers.put(slice(None), **dict(zip(("floor", "ceiling"), ends, strict=True)))
    before, is_between = places(panel, times, offsets, path_at_rows)
    answers.put(~is_between & (before < 0), values=0.0)
    early = is_between & (before < 0)
    answers.put(slice(None), leads=_leads(panel, times, series, before, early))
    ahead = np.flatnonzero(~is_between & (before >= 0))
    if len(ahead):
        ahead = ahead[np.argsort(before[ahead], kind="stable")]
        answers.put(ahead, **_forecasts(model, panel, times[ahead], before[ahead], structural))
    if is_between.any():
        own = times[is_between], offsets_from(is_between)[offsets]
        answers.put(is_between, **on_path(model, panel, *own, paths.in_deviations)._asdict())
    beside = np.flatnonzero(is_between & np.isnan(answers.apart).any(axis=1))
    if len(beside):  # of where a channel was observed
        expected = _expected_beside(model, panel, series[beside], times[beside], before[beside])
        answers.signs[beside, :, EXPECTED] = np.log(expected)
        unit = 1.0 if structural is None else expected
        is_beside = np.isnan(answers.apart[beside])
        answers.put(beside, expected=np.where(is_beside, unit, answers.expected[beside]))
    return answers


def _forecasts(
    model: ModelEmbedder,
    panel: Panel,
    times: np.ndarray,
    before: np.ndarray,
    structural: Structural | None,
) -> dict[str, np.ndarray]:
    """Columns of answers at times (Q,), each forecast from the row `before` (Q,), which rise."""
    origins, counts = np.unique(before, return_counts=True)
    query, others, expected = (panel, origins, times, counts), {}, 1.0
    if structural is not None:
        others["structural"], expected = structural(*query)
    values, sizes = model.forecast_from(*query, **others)
    signs = signs_of_errors(model.standardised(panel).values, panel.offsets, before, sizes)
    return {"values": values, "signs": signs, "expected": expected}


def _expected_beside(
    model: ModelEmbedder, panel: Panel, series: np.ndarray, times: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """Expected size (m, D) of the errors of forecasts from the row `before` times (m,) of series.

    Before the first row of a series it is what is expected as long after its last one.
    """
    ends, first = (panel.offsets[1:] - 1)[series], panel.offsets[:-1][series]
    origin = np.where(before < 0, ends, before)
    times = np.where(before < 0, panel.times[ends] + panel.times[first] - times, times)
    origins, counts = np.unique(origin, return_counts=True)
    order, found = np.argsort(origin, kind="stable"), np.empty((len(times), panel.n_channels))
    query = panel, origins, times[order], counts
    found[order] = model.stacking.expected_errors(*model.known_from(*query))
    return found


def _leads(
    panel: Panel, times: np.ndarray, series: np.ndarray, before: np.ndarray, early: np.ndarray
) -> np.ndarray:
    """Time (Q, D) since each channel was last observed, up to the row `before` (Q,) each time.

    Where a mask (Q,) says that the time is `early`, before the first row: to its first observation.
    """
    leads = time_since_seen(panel, before, times)
    if early.any():
        seen_at = np.where(np.isnan(panel.values), np.inf, panel.times[:, None])
        first = np.minimum.reduceat(seen_at, panel.offsets[:-1])
        leads[early] = first[series[early]] - times[early, None]
    return leads


def places(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, path_at_rows: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """For each time the last row before it (-1 if none), and whether the path answers it.

    That is between two rows, and at rows if `path_at_rows`.
    """
    before, is_between = np.full(len(times), -1), np.zeros(len(times), dtype=bool)
    for i, (first, end) in enumerate(pairwise(panel.offsets)):
        own, asked = panel.times[first:end], slice(offsets[i], offsets[i + 1])
        after = np.searchsorted(own, times[asked])
        is_row = own[np.minimum(after, len(own) - 1)] == times[asked]
        before[asked] = np.where(after > 0, first + after - 1, -1)
        is_between[asked] = (after < len(own)) & (path_at_rows | ~is_row)
    return before, is_between
