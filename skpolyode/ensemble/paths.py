"""Values between observations, and how far off they are: intervals and standard deviations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Late
from skpolyode.embedders.paths import PathQuery, rows_until
from skpolyode.embedders.smoother import shares
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.error_scale import EXPECTED, N_SIGNS, signs_of_errors
from skpolyode.ensemble.member import NEGLIGIBLE
from skpolyode.ensemble.path_errors import (
    LEAST,
    SETTINGS,
    Correlation,
    Course,
    Gaps,
    SizeLaw,
    hidden_copies,
)
from skpolyode.futures.continued import Ahead
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.select import (
    first_series,
    held_back,
    observed_part,
    series_of_rows,
    time_since_seen,
)
from skpolyode.saving.codec import saved

_LEVEL = 0.9  # of the intervals whose half widths are this many standard deviations:
_SCORE = float(ndtri((1 + _LEVEL) / 2))
_NOWHERE = np.finfo(np.float64).tiny  # distance at an observation that is not exact
_NEVER = np.sqrt(np.finfo(np.float64).max)  # distance of a channel without any observation


class Answers(NamedTuple):
    """Answers at Q times, series after series."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean; NaN if not asked for
    leads: np.ndarray  # (Q, D): time since the channel was last observed; inf if it never was
    signs: np.ndarray  # (Q, D, S): predictors of the error size
    distance: np.ndarray  # (Q, D): of a point of the path to observations; NaN elsewhere
    expected: np.ndarray  # (Q, D): expected size of the errors, where it is known; else 1
    least: np.ndarray  # (Q, D): least standard deviation of the signal; 0 if it is observed exactly

    @classmethod
    def blank(cls, n_times: int, n_channels: int) -> Self:
        """Answers before anything is known: values are NaN."""
        shape = n_times, n_channels
        blank, ones = np.full(shape, np.nan), np.ones(shape)
        signs = np.zeros((*shape, N_SIGNS))
        return cls(blank, np.full(shape, np.inf), signs, blank.copy(), ones, np.zeros(shape))

    def put(self, where: np.ndarray, **columns: Any) -> None:
        """Write the given columns at positions (m,)."""
        for name, column in columns.items():
            getattr(self, name)[where] = column

    def half_widths(self, calibration: Calibration, errors: PathErrors, level: float) -> np.ndarray:
        """Half widths (Q, D) of intervals at a level, in standard deviations of the channels.

        Parameters
        ----------
        calibration : Calibration
            Of forecasts.
        errors : PathErrors
            If these are not known, intervals are as wide as those of forecasts.
        level : float
        """
        widths, on_path = np.zeros(self.leads.shape), ~np.isnan(self.distance)
        if errors.calibration is not None and on_path.any():
            widths = errors.calibration.half_widths(self.distance, level, self.signs)
        else:
            on_path = self.distance == 0
        if not on_path.all():
            # The errors of forecasts from a noisy observation do not begin at zero.
            leads = np.where(errors.noise > 0, calibration.known_between()[0], 0.0)
            ahead = calibration.half_widths(np.maximum(self.leads, leads), level, self.signs)
            widths = np.where(on_path, widths, ahead)
        return self.expected * np.where(self.distance == 0, 0.0, widths)

    def quantile(self, model: ModelEmbedder, alpha: float) -> np.ndarray:
        """Quantile (Q, D), in standard deviations from the mean."""
        half = self.half_widths(model.calibration, model.path_errors, abs(2 * alpha - 1))
        return self.values + np.sign(alpha - 0.5) * half


@saved(
    law="D",
    calibration="D",
    noise="D unsigned",
    typical="D unsigned",
    innovation="D positive",
    by_gap="D S",
)
@dataclass(frozen=True, eq=False)
class PathErrors:
    """Error model of paths between observations, of which all that is said of errors follows.

    Parameters
    ----------
    noise : float64 ndarray of shape (D,)
        Standard deviation of the noise of observations, in those of the channels; 0 if these are
        exact.
    typical : float64 ndarray of shape (D,)
        Typical variance of the signal at observations, of a filter; else 1.
    innovation : float64 ndarray of shape (D,)
        Median innovation of observations.
    by_gap : float64 ndarray of shape (D, S) or None, default=None
        Change of the predictors of the size of errors with the logarithm of the mean gap: steps
        over longer gaps are larger. None: no change.
    law : SizeLaw or None, default=None
        Size of errors by the distance from observations. None with too few observations.
    calibration : Calibration or None, default=None
        Half widths of intervals in multiples of that size.
    correlation : Correlation or None, default=None
        Of the errors at two times.
    """

    level: ClassVar[float] = _LEVEL
    noise: np.ndarray
    typical: np.ndarray
    innovation: np.ndarray
    by_gap: np.ndarray | None = None
    law: SizeLaw | None = None
    calibration: Calibration | None = None
    correlation: Correlation | None = None

    @classmethod
    def learn(cls, model: ModelEmbedder, panel: Panel, is_new: np.ndarray) -> Self:
        """Hide observations, and learn from the errors of the paths over the others.

        Parameters
        ----------
        model : ModelEmbedder
        panel : Panel
            Each row holds an observation.
        is_new : bool ndarray of shape (P,)
            Rows that did not train the model. Errors at the others are enlarged until their median
            is that at these.
        """
        scaler, ones = model.units.scaler, np.ones(panel.n_channels)
        found = cls(0 * ones, ones, _medians(_innovations(model, panel)))
        if model.filters:
            noise = model.model.gain.level.detach().double().cpu().numpy() + LEAST
            found = replace(found, noise=noise, typical=_medians(shares(model, panel).variances))
        rows_of, parts, rng = np.arange(panel.n_observations), [], np.random.RandomState(0)
        for copies, hidden in hidden_copies(panel, rng):
            rows = hidden.any(axis=1)
            *query, actual = held_back(copies, hidden)
            asked, series = PathQuery.of(*query), series_index(query[2])
            if not parts:
                found = replace(found, by_gap=_changes_by_gap(model, panel, query[0]))
            wrong = scaler.read(actual) - scaler.transform(model.path_values(*query))
            wrong[(asked.before >= 0) & (asked.following < 0)] = np.nan
            variance = np.broadcast_to(found.noise**2, wrong.shape)
            if model.filters and copies.errors is not None:
                own = copies.errors[rows] / scaler.scale
                variance = np.where(np.isnan(own), variance, own**2)
            whose = series % panel.n_series, query[1], is_new[np.resize(rows_of, len(rows))[rows]]
            extra = (
                variance,
                found.at_rows(model, *query),
                found._of_equal_gaps(model, query[0], _signs(model, query[0]))[series],
            )
            parts.append((asked, wrong, found._gaps(model, asked), *extra, *whose))
        queries, wrong, gaps, *others = zip(*parts, strict=True)
        wrong, *others = (np.concatenate(x) for x in (wrong, *others))
        variance, at_rows, signs, series, times, is_new = others
        predictors = np.concatenate([own.predictors for own in gaps])
        if (np.isfinite(wrong) & (predictors[..., -1] == 0)).sum() < SETTINGS.fewest:
            return found
        law = SizeLaw.learn(wrong, predictors, np.stack([variance, at_rows]))
        if model.filters:  # noise hides it
            law = replace(law, floor=np.log(found.typical) / 2)
        grown, floor, _ = law.squares(predictors)
        sizes = np.sqrt(variance + grown + at_rows * floor)
        scores = _enlarged(wrong / sizes, is_new, len(np.unique(series[is_new])))
        distance = np.minimum(np.concatenate([own.distance for own in gaps]), _NEVER)
        calibration = Calibration.learn(distance, scores, series, times, signs)
        found = replace(found, law=law, calibration=calibration)
        widths = calibration.half_widths(distance, _LEVEL, signs) / _SCORE
        first = slice(len(queries[0].times))
        scores = np.clip(scores[first] / (widths[first] + NEGLIGIBLE), -4, 4)
        course = found._course(model, queries[0], gaps[0], widths[first])
        return replace(found, correlation=Correlation.learn(scores, course, series[first]))

    def _of_equal_gaps(self, model: ModelEmbedder, panel: Panel, signs: np.ndarray) -> np.ndarray:
        """Predictors (n_series, D, S) of the error size of series, as if of equal mean gaps."""
        return signs if self.by_gap is None else signs - self.by_gap * _log_gaps(model, panel)

    def _gaps(self, model: ModelEmbedder, asked: PathQuery, nearest: float = 0.0) -> Gaps:
        missed = _innovations(model, asked.seen) / self.innovation
        series, known, prior = series_of_rows(asked.seen), ~np.isnan(missed), SETTINGS.prior
        sums = (
            np.add.reduceat(x, asked.seen.offsets[:-1], axis=0, dtype=np.float64)
            for x in (np.where(known, missed, 0.0), known)
        )
        usual, counts = (own + prior for own in sums)  # how volatile a series is, others say
        missed = missed * (counts / usual)[series]
        return Gaps.of(asked, model.units.time_scale, missed, nearest)

    def at_rows(
        self, model: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
    ) -> np.ndarray:
        """Factors (Q, D) of the squared floor: on lines between observations with known errors."""
        if not (model.filters and model.model.gain.known_errors == "each"):
            return np.ones((len(times), panel.n_channels))
        asked = PathQuery.of(panel, times, offsets)
        left = shares(model, asked.seen).variances / self.typical
        since, until = asked.leads(1.0)
        ends = [
            np.where(row < 0, np.nan, np.take_along_axis(left, np.maximum(row, 0), axis=0))
            for row in (asked.before, asked.following)
        ]
        first, second = (np.where(np.isnan(a), b, a) for a, b in (ends, ends[::-1]))
        return np.nan_to_num(first + since / (since + until) * (second - first), nan=1.0)

    def on_path(
        self,
        model: ModelEmbedder,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        at_rows: np.ndarray,
        gaps: Gaps | None = None,
    ) -> dict[str, np.ndarray]:
        """Columns of `Answers` that errors depend on, before the last observation of series.

        The predictors `signs` know the whole series. The `distance` is NaN before the first row,
        and after the last observation of a channel.

        Parameters
        ----------
        model : ModelEmbedder
        panel : Panel
            As read by fit; each row holds an observation.
        times : float64 ndarray of shape (Q,)
            Of all series, one after the other.
        offsets : int64 ndarray of shape (n_series + 1,)
            Where the times of each series start.
        at_rows : float64 ndarray of shape (Q, D)
            As :meth:`at_rows` returns them.
        gaps : Gaps or None, default=None
            Where the times lie, if that is known.
        """
        asked, series = PathQuery.of(panel, times, offsets), series_index(offsets)
        gaps = self._gaps(model, asked) if gaps is None else gaps
        distance, least = np.minimum(gaps.distance, _NEVER), np.zeros(gaps.distance.shape)
        is_last = (times == panel.end[series])[:, None]  # as a forecast says
        is_open = (asked.following < 0) & (distance > 0) & ((asked.before >= 0) | is_last)
        distance[is_open | (times < asked.times)[:, None]] = np.nan  # hidden rows are later
        if model.filters:  # the path need not pass through observations
            distance = np.maximum(distance, _NOWHERE)
        signs = _signs(model, panel)
        signs = (own[series] for own in (signs, self._of_equal_gaps(model, panel, signs)))
        signs = np.where(np.isnan(distance)[..., None], *signs)
        expected = np.ones(distance.shape)
        if self.law is not None:
            grown, floor, _ = self.law.squares(gaps.predictors)
            left = floor * at_rows
            expected = np.where(np.isnan(distance), 1.0, np.sqrt(self.noise**2 + grown + left))
            least = np.where(self.noise > 0, np.sqrt(left), 0.0)
        return {"signs": signs, "distance": distance, "expected": expected, "least": least}

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

    def std_at(
        self, model: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
    ) -> np.ndarray:
        """Standard deviations (Q, D) of the signal at any times, in the units of the channels."""
        answers = answers_at(model, panel, times, offsets, self, with_values=False)
        half = answers.half_widths(model.calibration, self, self.level)
        half = np.where(answers.distance <= _NOWHERE, 0.0, half)
        return model.units.scaler.inverse_std(self.of_signal(half, answers.least))

    def of_signal(self, half: np.ndarray, least: np.ndarray | None = None) -> np.ndarray:
        """Standard deviations (Q, D) of the signal, from `half` widths of intervals of `level`.

        They are `least` at least; None: those at an observation.
        """
        least = self.floor if least is None else least
        return np.sqrt(np.maximum((half / _SCORE) ** 2 - self.noise**2, least**2))

    @property
    def floor(self) -> np.ndarray:
        """Standard deviations (D,) of the signal at observations, in those of the channels."""
        known = 0.0 if self.law is None else np.exp(self.law.floor)
        return np.where(self.noise > 0, known, 0.0)

    def course(
        self, model: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
    ) -> Course:
        """Errors at times between the first and the last row, as they change along gaps."""
        asked = PathQuery.of(panel, times, offsets)
        gaps = self._gaps(model, asked, SETTINGS.nearest)
        options = {"with_values": False, "gaps": gaps}
        answers = answers_at(model, panel, times, offsets, self, **options)
        total = answers.half_widths(model.calibration, self, _LEVEL) / _SCORE
        return self._course(model, asked, gaps, total)

    def _course(
        self, model: ModelEmbedder, asked: PathQuery, gaps: Gaps, std: np.ndarray
    ) -> Course:
        unit = model.units.time_scale
        if model.filters:
            place = asked.times[:, None] / unit + np.zeros(std.shape)
            return Course(std, place, np.full(std.shape, 1 / unit), np.zeros(std.shape))
        grown, floor, steep = self.law.squares(gaps.predictors)
        share = np.sqrt(grown / (grown + floor))
        distance = np.where(np.isinf(gaps.distance), unit, gaps.distance)
        rate = 1 / np.maximum(distance, _NOWHERE)
        return Course(std, gaps.place, rate, gaps.following, steep * gaps.bend, share)

    def of_integrals(self, course: Course, weights: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """As `Correlation.of_integrals`."""
        return self.correlation.of_integrals(course, weights, offsets)

    def of_slopes(self, course: Course) -> np.ndarray:
        """As `Correlation.of_slopes`."""
        return self.correlation.of_slopes(course)


def _medians(columns: np.ndarray) -> np.ndarray:
    """Medians (D,) of columns without NaN; 1 of none."""
    each = [column[~np.isnan(column)] for column in columns.T]
    return np.array([np.median(own) if len(own) else 1.0 for own in each]) + LEAST


def _innovations(model: ModelEmbedder, panel: Panel) -> np.ndarray:
    """By how much (P, D) observations missed their forecasts; NaN in first rows."""
    return np.abs(model.residuals(panel)[0]) / model.units.scaler.scale


def _signs(model: ModelEmbedder, panel: Panel) -> np.ndarray:
    """Predictors (n_series, D, S) of the error size of series, from all their rows."""
    rows, last = model.standardised(panel).values, panel.offsets[1:] - 1
    expected = np.ones((panel.n_series, panel.n_channels))
    return signs_of_errors(rows, panel.offsets, last, expected)


def _changes_by_gap(model: ModelEmbedder, whole: Panel, hidden: Panel) -> np.ndarray:
    """Changes (D, S) of predictors with the logarithm of the mean gap, from hidden rows."""
    signs, gaps = (
        np.subtract(*(ask(model, panel).mean(axis=0) for panel in (hidden, whole)))
        for ask in (_signs, _log_gaps)
    )
    return np.where(np.abs(gaps) > SETTINGS.nearest, signs / np.where(gaps == 0, 1.0, gaps), 0.0)


def _log_gaps(model: ModelEmbedder, panel: Panel) -> np.ndarray:
    """Logarithms (n_series, D, 1) of mean gaps in units of the model; 0 with one observation."""
    seen, first = ~np.isnan(panel.values), panel.offsets[:-1]
    counts = np.add.reduceat(seen, first, axis=0, dtype=np.int64)
    start, end = (
        f.reduceat(np.where(seen, panel.times[:, None], fill), first)
        for f, fill in ((np.minimum, np.inf), (np.maximum, -np.inf))
    )
    length = np.where(counts > 1, end - start, 1.0) / np.maximum(counts - 1, 1)
    return np.where(counts > 1, np.log(length / model.units.time_scale), 0.0)[..., None]


def _enlarged(scores: np.ndarray, is_new: np.ndarray, n_new: int) -> np.ndarray:
    """Scores (Q, D), of training as large in the median as the new ones, of `n_new` series."""
    if not all(np.isfinite(scores[own]).any() for own in (is_new, ~is_new)):
        return scores
    new, old = (np.nanmedian(np.abs(scores[own])) for own in (is_new, ~is_new))
    ratio = max(new / old, 1.0) ** (n_new / (n_new + SETTINGS.trust)) if old > 0 else 1.0
    return np.where(is_new[:, None], scores, ratio * scores)


def late_path_errors(
    model: ModelEmbedder, judging: Panel, trained: Panel | None, new_from: np.ndarray | None = None
) -> Late:
    """`PathErrors` that are learned at first use, from judging series and then those of training.

    Without `trained`, rows of the judging ones before `new_from` (n_series,) were trained on.
    """
    panels = [own for own in (judging, trained) if own is not None]
    panel = Panel.concat(panels, ids=np.arange(sum(len(own) for own in panels)))
    panel = first_series(panel, SETTINGS.n_rows)
    series, row = series_of_rows(panel), np.arange(panel.n_observations)
    is_new = series < len(judging) if new_from is None else row >= new_from[series]
    return Late(partial(PathErrors.learn, model, panel, is_new))


def answers_at(
    model: ModelEmbedder,
    panel: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    errors: PathErrors,
    *,
    path_at_rows: bool = True,
    with_values: bool = True,
    gaps: Gaps | None = None,
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
    errors : PathErrors
        Of this model.
    path_at_rows : bool, default=True
    with_values : bool, default=True
        Whether to compute values, or only what their intervals depend on.
    gaps : Gaps or None, default=None
        Where the times lie, at least `SETTINGS.nearest` of a gap away from its ends, as leads then
        are; None: where they lie exactly.
    """
    panel, series, scaler = observed_part(panel), series_index(offsets), model.units.scaler
    answers = Answers.blank(len(times), panel.n_channels)
    before, is_between = places(panel, times, offsets, path_at_rows)
    answers.put(~is_between & (before < 0), values=0.0)
    early = is_between & (before < 0)
    leads = _leads(panel, times, series, before, early)
    if gaps is not None:
        leads = np.maximum(leads, SETTINGS.nearest * model.units.time_scale)
    at_rows = errors.at_rows(model, panel, times, offsets)
    answers.put(slice(None), leads=leads, least=errors.floor * np.sqrt(at_rows))
    ahead = np.flatnonzero(~is_between & (before >= 0))
    if len(ahead):
        found = _outlook(model, panel, times[ahead], before[ahead], with_values=with_values)
        answers.put(ahead, values=found.values, signs=found.signs, expected=found.expected)
    if is_between.any():
        query = panel, times[is_between], offsets_from(is_between)[offsets]
        inside = None if gaps is None else Gaps(*(column[is_between] for column in gaps))
        columns = errors.on_path(model, *query, at_rows[is_between], inside)
        answers.put(is_between, **columns)
        if with_values:
            answers.put(is_between, values=scaler.transform(model.path_values(*query)))
    is_beside = np.isnan(answers.distance)
    beside = np.flatnonzero(is_between & is_beside.any(axis=1))
    if len(beside):  # after the last observation of a channel
        # A time before the first row of a series counts as equally long after its last row.
        rows, at, ends = before[beside], times[beside], (panel.offsets[1:] - 1)[series[beside]]
        at = np.where(rows < 0, panel.times[ends] + panel.start[series[beside]] - at, at)
        found = _outlook(model, panel, at, np.where(rows < 0, ends, rows), with_values=False)
        answers.signs[beside, :, EXPECTED] = found.signs[..., EXPECTED]
        expected = np.where(is_beside[beside], found.expected, answers.expected[beside])
        answers.put(beside, expected=expected)
    return answers


def _outlook(
    model: ModelEmbedder, panel: Panel, times: np.ndarray, before: np.ndarray, **options: bool
) -> Ahead:
    """Forecasts of any `times` (Q,) from the rows `before` (Q,); see `ModelEmbedder.outlook`."""
    order = np.argsort(before, kind="stable")
    rows, counts = np.unique(before, return_counts=True)
    found = model.outlook(panel, times[order], offsets_from(counts), rows, **options)
    return Ahead(*(column[np.argsort(order)] for column in found))


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
