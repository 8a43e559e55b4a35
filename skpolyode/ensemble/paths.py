"""Values between observations, and their intervals, calibrated by hiding observations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Late
from skpolyode.embedders.paths import PathQuery, rows_until
from skpolyode.embedders.smoother import hide_beginnings
from skpolyode.embedders.variance import path_std
from skpolyode.ensemble.backtest import N_FOLDS
from skpolyode.ensemble.conformal import SETTINGS, Calibration
from skpolyode.ensemble.error_scale import EXPECTED, N_SIGNS, signs_of_errors
from skpolyode.ensemble.member import NEGLIGIBLE
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import (
    copies_of,
    held_back,
    observed_part,
    series_of_rows,
    time_since_seen,
)
from skpolyode.saving.codec import saved

_ENOUGH = 2000  # hidden rows; folds beyond that are left out
# Stands for the time to the first observation of a channel that has none.
_NEVER = np.sqrt(np.finfo(np.float64).max)


Structural = Callable[[Panel, np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def on_path(
    model: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
) -> dict[str, np.ndarray]:
    """Columns of `Answers` that errors of paths depend on, before the last observation of series.

    The predictors `signs` know the whole series. The `distance` from the observations of a channel
    is half the harmonic mean of the times since the last one and to the next one. The variance of
    a random walk in between is proportional to it. From the first row of a series to the first
    observation of a channel, the time `until` that counts, or a very long one if there is none. The
    `expected` size of errors is the standard deviation of a filter, else 1.

    Parameters
    ----------
    model : ModelEmbedder
    panel : Panel
        As read by fit; each row holds an observation.
    times : float64 ndarray of shape (Q,)
        Of all series, one after the other.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    """
    series, scaler = series_index(offsets), model.units.scaler
    rows = model.standardised(panel).values
    last = panel.offsets[1:] - 1
    expected = np.ones((len(times), panel.n_channels))
    signs = signs_of_errors(rows, panel.offsets, last[series], expected)
    asked = PathQuery.of(panel, times, offsets)
    since, until = asked.leads(1.0)
    since = np.where(asked.before < 0, np.inf, since)
    with np.errstate(divide="ignore"):
        distance = 1 / (1 / since + 1 / until)
    early = times < asked.times  # before the first row; hidden rows are later
    distance = np.where((np.isinf(until) & (since > 0)) | early[:, None], np.nan, distance)
    if model.filters:  # the path need not pass through observations
        distance = np.maximum(distance, np.finfo(np.float64).tiny)
        deviation = path_std(model, panel, times, offsets) / scaler.scale
        noise = model.scale.noise.double().sqrt().cpu().numpy()
        expected = np.maximum(np.hypot(deviation, noise), NEGLIGIBLE)
    begins = (asked.before < 0) & ~early[:, None]
    found = {"signs": signs, "distance": distance, "expected": expected}
    found["until"] = np.where(begins, np.minimum(until, _NEVER), np.nan)
    return found | {"at_row": times == asked.seen.times[asked.row]}


class Answers(NamedTuple):
    """Answers at Q times, series after series."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean; NaN if not asked for
    leads: np.ndarray  # (Q, D): time since the channel was last observed; inf if it never was
    signs: np.ndarray  # (Q, D, S): predictors of the error size
    distance: np.ndarray  # (Q, D): of a point of the path to observations; NaN elsewhere
    until: np.ndarray  # (Q, D): of such a point to the channel's first observation; else NaN
    expected: np.ndarray  # (Q, D): expected size of the errors, where it is known; else 1
    at_row: np.ndarray  # bool (Q,): whether it is a point of the path at an observed row
    floor: np.ndarray  # (Q, D): lower limit of quantiles, in the user's units; see `CellLimits`
    ceiling: np.ndarray  # (Q, D): upper limit

    @classmethod
    def blank(cls, n_times: int, n_channels: int) -> Self:
        """Answers before anything is known: values are NaN."""
        shape = n_times, n_channels
        blank, ones = np.full(shape, np.nan), np.ones(shape)
        signs, at_row = np.zeros((*shape, N_SIGNS)), np.zeros(n_times, dtype=bool)
        ends = np.full(shape, -np.inf), np.full(shape, np.inf)
        unknown = blank.copy(), blank.copy()
        return cls(blank, np.full(shape, np.inf), signs, *unknown, ones, at_row, *ends)

    def put(self, where: np.ndarray, **columns: Any) -> None:
        """Write the given columns at positions (m,)."""
        for name, column in columns.items():
            getattr(self, name)[where] = column

    def half_widths(
        self, calibration: Calibration, paths: PathCalibration, level: float
    ) -> np.ndarray:
        """Half widths (Q, D) of intervals at a level, in standard deviations of the channels.

        Parameters
        ----------
        calibration : Calibration
            Of forecasts.
        paths : PathCalibration
        level : float
        """
        widths = calibration.half_widths(self.leads, level, self.signs)
        bridged = ~np.isnan(self.distance)
        if bridged.any() and paths.between is not None:
            on_paths = paths.half_widths(self.distance, level, self.signs, self.at_row)
            widths = np.where(bridged, on_paths, widths)
        widths = self.expected * np.where(self.distance == 0, 0.0, widths)
        if paths.beginnings is None:
            return widths
        early = paths.beginnings.half_widths(self.until, level, self.signs)
        return np.where(np.isnan(self.until), widths, early)


@saved(between="D", at_rows="D", beginnings="D")
@dataclass(frozen=True, eq=False)
class PathCalibration:
    """Half widths of intervals around paths, by the `distance` from observations.

    Parameters
    ----------
    between : Calibration or None
        Between rows; from the errors at hidden rows. None with too few observations: intervals are
        then as wide as those of forecasts.
    at_rows : Calibration or None
        At rows where other channels were observed; from the errors at single hidden values. None
        for a single channel.
    beginnings : Calibration or None, default=None
        From the first row of a series to the first observation of a channel, by the time between;
        from the errors of channels whose first observations, or all, are hidden. None as `at_rows`,
        or with too few.
    """

    between: Calibration | None
    at_rows: Calibration | None
    beginnings: Calibration | None = None

    def half_widths(
        self, distance: np.ndarray, level: float, signs: np.ndarray, at_row: np.ndarray
    ) -> np.ndarray:
        """Half widths (Q, D) in multiples of the expected error."""
        widths = self.between.half_widths(distance, level, signs)
        if self.at_rows is not None:
            widths[at_row] = self.at_rows.half_widths(distance[at_row], level, signs[at_row])
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
        answers = answers_at(model, panel, times, offsets, self, with_values=False)
        return model.units.scaler.scale * answers.half_widths(model.calibration, self, level)


def late_paths(
    model: ModelEmbedder,
    panel: Panel,
    random_state: np.random.RandomState,
    earliest: np.ndarray | None = None,
) -> Late:
    """A `PathCalibration` that is learned at its first use; see `calibrate_paths`."""
    seed = random_state.randint(2**31 - 1)  # after Ctrl-C it begins anew
    return Late(lambda: calibrate_paths(model, panel, np.random.RandomState(seed), earliest))


def calibrate_paths(
    model: ModelEmbedder, panel: Panel, rng: np.random.RandomState, earliest: np.ndarray | None
) -> PathCalibration:
    """Hide observations, and learn from the errors of the paths over the others.

    Parameters
    ----------
    model : ModelEmbedder
    panel : Panel
        Series that did not train the model; each row holds an observation.
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
    folds = min(N_FOLDS, -(-_ENOUGH * N_FOLDS // max(int(may_hide.any(axis=1).sum()), 1)))
    copies = copies_of(panel, folds)
    between = _calibrated(model, panel, copies, _by_fold(may_hide, stretches, folds))
    at_rows = beginnings = None
    if between is not None and n_channels > 1:
        hidden = _by_fold(may_hide, each, folds)  # each row keeps a value
        hidden &= (~np.isnan(copies.values) & ~hidden).any(axis=1, keepdims=True)
        at_rows = _calibrated(model, panel, copies, hidden)
        copies = copies_of(panel, min(N_FOLDS, -(-_ENOUGH // n_rows)))
        beginnings = _calibrated(model, panel, copies, hide_beginnings(copies, rng), "until")
    return PathCalibration(between, at_rows, beginnings)


def _by_fold(may_hide: np.ndarray, fold: np.ndarray, n: int) -> np.ndarray:
    """Values (n P, D) of `n` copies to hide: those of fold k in copy k, where `may_hide` (P, D)."""
    return np.concatenate([may_hide & (fold == k) for k in range(n)])


def _stretches(panel: Panel, rng: np.random.RandomState) -> np.ndarray:
    """Stretch (P,) of each row; the rows of one stretch are hidden together.

    Most stretches are single rows. If series have a few long gaps, half of the rows are in
    stretches as long as these, drawn at random: fewer would not show how errors grow with distance.
    """
    steps = np.diff(panel.times, prepend=panel.times[0])
    inside = ~np.isin(np.arange(len(steps)), panel.offsets[:-1])
    gaps = steps[inside]
    if not len(gaps):
        return np.arange(len(steps))
    typical = np.median(gaps)
    lengths = np.maximum(gaps - 2 * gaps.mean(), typical)  # hiding rows adds a gap at each end
    is_long, weights = lengths > typical, np.ones(len(gaps))
    if is_long.any():
        weights[is_long] = max(1.0, lengths[~is_long].sum() / lengths[is_long].sum())
    clock = np.cumsum(np.where(inside, steps, typical)) - typical / 2
    drawn = rng.choice(len(gaps), 2 * len(steps), p=weights / weights.sum())
    stretch, row = np.searchsorted(np.cumsum(lengths[drawn]), clock), np.arange(len(steps))
    in_long = np.append(is_long[drawn], False)[stretch]  # False after the last drawn stretch
    stretch = np.where(in_long, stretch, 2 * len(steps) + row)
    return np.unique(stretch, return_inverse=True)[1]


def _calibrated(
    model: ModelEmbedder, panel: Panel, copies: Panel, hidden: np.ndarray, lead: str = "distance"
) -> Calibration | None:
    """Hide values (P, D) of copies of a panel, and calibrate by their `lead`; None if too few."""
    (*query, actual), scaler = held_back(copies, hidden), model.units.scaler
    found, actual = on_path(model, *query), scaler.read(actual)
    if np.isfinite(found[lead] * actual).sum() < SETTINGS.fewest:  # hidden observations
        return None
    series = series_index(query[2]) % panel.n_series
    expected = found["expected"] if lead == "distance" else 1.0  # see `Answers.half_widths`
    wrong = (actual - scaler.transform(model.path_values(*query))) / expected
    return Calibration.learn(found[lead], wrong, series, query[1], found["signs"])


def answers_at(
    model: ModelEmbedder,
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    paths: PathCalibration,
    *,
    path_at_rows: bool = True,
    structural: Structural | None = None,
    with_values: bool = True,
) -> Answers:
    """Values of every channel at any times, and the data that their intervals depend on.

    - After the last observation: the forecast.
    - At an observation: its forecast from the observations before; the mean at the first one. The
      path, if `path_at_rows`.
    - Between two observations: the learned path from one to the other.
    - Before the first row, if `path_at_rows`: the path, with intervals of a forecast of equal lead.

    Parameters
    ----------
    model : ModelEmbedder
    panel : Panel
        As read by fit; each series holds an observation.
    times : float64 ndarray of shape (Q,)
        Times of all series, one after the other, as the panel counts them.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    paths : PathCalibration
        Of this model.
    path_at_rows : bool, default=True
    structural : callable or None, default=None
        Called with the positional arguments of `ModelEmbedder.forecast_from`. Returns forecasts of
        other models and their expected errors, both (Q, D), in standard deviations.
    with_values : bool, default=True
        Whether to compute values, or only what their intervals depend on.
    """
    panel, series, scaler = observed_part(panel), series_index(offsets), model.units.scaler
    answers = Answers.blank(len(times), panel.n_channels)
    ends = (limit[series] for limit in scaler.limits.kept_by(panel))
    answers.put(slice(None), **dict(zip(("floor", "ceiling"), ends, strict=True)))
    before, is_between = places(panel, times, offsets, path_at_rows)
    answers.put(~is_between & (before < 0), values=0.0)
    early = is_between & (before < 0)
    answers.put(slice(None), leads=_leads(panel, times, series, before, early))
    ahead = np.flatnonzero(~is_between & (before >= 0))
    if len(ahead):
        ahead = ahead[np.argsort(before[ahead], kind="stable")]
        query = model, panel, times[ahead], before[ahead]
        answers.put(ahead, **_forecasts(*query, structural, with_values))
    if is_between.any():
        query = panel, times[is_between], offsets_from(is_between)[offsets]
        answers.put(is_between, **on_path(model, *query))
        if with_values:
            answers.put(is_between, values=scaler.transform(model.path_values(*query)))
    calibrated = ~np.isnan(answers.until) & (paths.beginnings is not None)
    is_beside = np.isnan(answers.distance) & ~calibrated
    beside = np.flatnonzero(is_between & is_beside.any(axis=1))
    if len(beside):  # after the last observation of a channel
        expected = _expected_beside(model, panel, series[beside], times[beside], before[beside])
        answers.signs[beside, :, EXPECTED] = np.log(expected)
        unit = 1.0 if structural is None else expected
        answers.put(beside, expected=np.where(is_beside[beside], unit, answers.expected[beside]))
    return answers


def _forecasts(
    model: ModelEmbedder,
    panel: Panel,
    times: np.ndarray,
    before: np.ndarray,
    structural: Structural | None,
    with_values: bool,
) -> dict[str, Any]:
    """Columns of `Answers` at times (Q,), forecast from the rows `before` (Q,), in rising order."""
    origins, counts = np.unique(before, return_counts=True)
    query, others, values, expected = (panel, origins, times, counts), {}, np.nan, 1.0
    if structural is not None:
        others["structural"], expected = structural(*query)
    if with_values:
        values, sizes = model.forecast_from(*query, **others)
    else:
        sizes = model.stacking.expected_errors(*model.known_from(panel, before, times))
    signs = signs_of_errors(model.standardised(panel).values, panel.offsets, before, sizes)
    return {"values": values, "signs": signs, "expected": expected}


def _expected_beside(
    model: ModelEmbedder, panel: Panel, series: np.ndarray, times: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """Expected size (m, D) of errors at `times` (m,) of `series`, forecast from rows `before` (m,).

    A time before the first row of a series counts as equally long after its last row.
    """
    ends, first = (panel.offsets[1:] - 1)[series], panel.offsets[:-1][series]
    origin = np.where(before < 0, ends, before)
    times = np.where(before < 0, panel.times[ends] + panel.times[first] - times, times)
    return model.stacking.expected_errors(*model.known_from(panel, origin, times))


def _leads(
    panel: Panel, times: np.ndarray, series: np.ndarray, before: np.ndarray, early: np.ndarray
) -> np.ndarray:
    """Leads (Q, D): times since each channel was last observed, up to the rows `before` (Q,).

    At times before the first row, by the mask `early` (Q,), it is the time to its first
    observation.
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
    """Last row (Q,) before each time (-1 if none), and a mask (Q,) of times answered by the path.

    The path answers before the last row of a series, at rows only if `path_at_rows`.
    """
    series, row = series_index(offsets), rows_until(panel.times, panel.offsets, times, offsets)
    first = panel.offsets[series]
    is_row = (row >= first) & (panel.times[row] == times)
    before = np.where(row - is_row >= first, row - is_row, -1)
    return before, (times <= panel.end[series]) & (path_at_rows | ~is_row)
