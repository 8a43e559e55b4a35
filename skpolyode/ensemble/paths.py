"""Values between observations, and how far off they are: intervals and standard deviations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.base import Lazy
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.smoother import shares
from skpolyode.embedders.table import ENDS, KINDS, ROWS, STARTS, Table
from skpolyode.embedders.table import SETTINGS as TABLE
from skpolyode.ensemble.backtest import enlarged
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.member import NEGLIGIBLE
from skpolyode.ensemble.path_errors import (
    LEAST,
    SETTINGS,
    Correlation,
    Course,
    Gaps,
    SizeLaw,
)
from skpolyode.futures.continued import Ahead
from skpolyode.futures.spread import EXPECTED, N_PREDICTORS, predictors_of, spread_at
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import (
    Query,
    first_series,
    hide_cells,
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
    predictors: np.ndarray  # (Q, D, S): predictors of the error size
    distance: np.ndarray  # (Q, D): of a point of the path to observations; NaN elsewhere
    expected: np.ndarray  # (Q, D): expected size of the errors, where it is known; else 1
    least: np.ndarray  # (Q, D): least standard deviation of the signal; 0 if it is observed exactly
    side: np.ndarray  # (Q, D): as of `Gaps`

    @classmethod
    def blank(cls, n_times: int, n_channels: int) -> Self:
        """Answers before anything is known: values are NaN."""
        shape = n_times, n_channels
        blank, ones, zeros = np.full(shape, np.nan), np.ones(shape), np.zeros((2, *shape))
        predictors = np.zeros((*shape, N_PREDICTORS))
        return cls(blank, np.full(shape, np.inf), predictors, blank.copy(), ones, *zeros)

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
            about = self.distance, level, self.predictors
            widths = errors.by_side(self.side, lambda own: own.calibration.half_widths(*about))
        else:
            on_path = self.distance == 0
        if calibration is None:
            widths = np.where(on_path, widths, np.nan)  # of no forecast
        elif not on_path.all():
            # The errors of forecasts from a noisy observation do not begin at zero.
            leads = np.where(errors.noise > 0, calibration.known_between()[0], 0.0)
            ahead = calibration.half_widths(np.maximum(self.leads, leads), level, self.predictors)
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
    starts="D",
    ends="D",
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
    starts, ends : PathErrors or None, default=None
        Law and calibration before the first row of series, and after the last observation of
        channels. None: errors there are those of forecasts of equal lead.
    """

    level: ClassVar[float] = _LEVEL
    noise: np.ndarray
    typical: np.ndarray
    innovation: np.ndarray
    by_gap: np.ndarray | None = None
    law: SizeLaw | None = None
    calibration: Calibration | None = None
    correlation: Correlation | None = None
    starts: PathErrors | None = None
    ends: PathErrors | None = None

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
        kinds = *(KINDS if panel.n_channels > 1 else (ROWS,)), STARTS
        kinds += () if model.forecasts else (ENDS,)
        table = Table.of(panel, *kinds)
        (rest, times, _), asked, is_row = table.at, table.query, table.kind == ROWS
        model = model.conditioned(rest)
        without_rows = rest[: len(rest) // len(kinds)]
        found = replace(found, by_gap=_changes_by_gap(model, panel, without_rows))
        wrong = table.errors(model)
        variance = np.broadcast_to(found.noise**2, wrong.shape)
        if model.filters and panel.errors is not None:
            own = panel.errors[table.row] / scaler.scale
            variance = np.where(np.isnan(own), variance, own**2)
        at_rows, gaps = found.at_rows(model, asked), found._gaps(model, asked)
        predictors = found._of_equal_gaps(model, rest, _predictors(model, rest))[asked.series]
        has_begun = (gaps.side == 0) & (gaps.predictors[..., -1] == 0)
        if (np.isfinite(wrong) & has_begun).sum() < SETTINGS.fewest:
            return found
        distance = np.minimum(gaps.distance, _NEVER)

        def learned(side: int) -> tuple[Self, np.ndarray]:
            errors = np.where(gaps.side == side, wrong, np.nan)
            law = SizeLaw.learn(errors, gaps.predictors, np.stack([variance, at_rows]))
            if model.filters:  # noise hides it
                law = replace(law, floor=np.log(found.typical) / 2)
            scores = errors / law.sizes(gaps.predictors, variance, at_rows)
            scores = enlarged(scores, is_new[table.row], table.series, SETTINGS.trust)
            calibration = Calibration.learn(distance, scores, table.series, times, predictors)
            return replace(found, law=law, calibration=calibration), scores

        starts, ends = learned(-1)[0], None if model.forecasts else learned(1)[0]
        found, scores = learned(0)
        found = replace(found, starts=starts, ends=ends)
        widths = found.calibration.half_widths(distance, _LEVEL, predictors) / _SCORE
        scores = np.where(is_row[:, None], np.clip(scores / (widths + NEGLIGIBLE), -4, 4), np.nan)
        course = found._course(model, asked, gaps, widths)
        return replace(found, correlation=Correlation.learn(scores, course, table.series))

    def by_side(self, side: np.ndarray, ask: Callable[[PathErrors], np.ndarray]) -> np.ndarray:
        """Answers (Q, D) of errors inside of series and on either `side` (Q, D)."""
        found = ask(self)
        for k, own in ((-1, self.starts), (1, self.ends)):
            if own is not None and (side == k).any():
                found = np.where(side == k, ask(own), found)
        return found

    def _of_equal_gaps(self, model: ModelEmbedder, panel: Panel, plain: np.ndarray) -> np.ndarray:
        """Predictors (n_series, D, S) of the error size of series, as if of equal mean gaps."""
        return plain if self.by_gap is None else plain - self.by_gap * _log_gaps(model, panel)

    def _gaps(self, model: ModelEmbedder, asked: PathQuery, nearest: float = 0.0) -> Gaps:
        missed = _innovations(model, asked.seen) / self.innovation
        series, known, prior = series_of_rows(asked.seen), ~np.isnan(missed), SETTINGS.prior
        sums = (
            np.add.reduceat(x, asked.seen.offsets[:-1], axis=0, dtype=np.float64)
            for x in (np.where(known, missed, 0.0), known)
        )
        usual, counts = (own + prior for own in sums)  # how volatile a series is, others say
        missed = missed * (counts / usual)[series]
        cells = model.units.scaler.known(asked.seen.values)
        read = asked
        if cells is not asked.seen.values:  # what `fit` never observed
            read = replace(asked, seen=hide_cells(asked.seen, np.isnan(cells)))
        gaps = Gaps.of(read, model.units.time_scale, missed, nearest)
        if nearest or model.filters:
            return gaps
        is_row = asked.observed & (gaps.side == 0)
        return gaps._replace(distance=np.where(is_row, 0.0, gaps.distance))

    def at_rows(self, model: ModelEmbedder, asked: PathQuery) -> np.ndarray:
        """Factors (Q, D) of the squared floor: on lines between observations with known errors."""
        if not (model.filters and model.model.gain.known_errors == "each"):
            return np.ones((len(asked.times), asked.seen.n_channels))
        left = shares(model, asked.seen).variances / self.typical
        since, until = asked.leads(1.0)
        ends = [
            np.where(row < 0, np.nan, np.take_along_axis(left, np.maximum(row, 0), axis=0))
            for row in (asked.before, asked.following)
        ]
        first, second = (np.where(np.isnan(a), b, a) for a, b in (ends, ends[::-1]))
        return np.nan_to_num(first + since / (since + until) * (second - first), nan=1.0)

    def on_path(
        self, model: ModelEmbedder, asked: PathQuery, gaps: Gaps | None = None
    ) -> dict[str, np.ndarray]:
        """Columns of `Answers` that errors depend on, but for forecasts.

        The `predictors` know the whole series. The `distance` is NaN where errors are those of
        forecasts, as after the last observation of a channel.

        Parameters
        ----------
        model : ModelEmbedder
        asked : PathQuery
        gaps : Gaps or None, default=None
            Where the times lie, if that is known.
        """
        gaps = self._gaps(model, asked) if gaps is None else gaps
        distance = np.minimum(gaps.distance, _NEVER)
        is_last = (asked.times == asked.seen.end[asked.series])[:, None]  # as a forecast says
        is_open = (gaps.side > 0) | ((gaps.side == 0) & (gaps.following < 0) & is_last)
        is_open &= (distance > 0) & (self.ends is None)
        distance[is_open | ((gaps.side < 0) & (self.starts is None))] = np.nan
        if model.filters:  # the path need not pass through observations
            distance = np.maximum(distance, _NOWHERE)
        plain = _predictors(model, asked.seen)
        both = plain, self._of_equal_gaps(model, asked.seen, plain)
        both = (own[asked.series] for own in both)
        predictors = np.where(np.isnan(distance)[..., None], *both)
        expected = np.ones(distance.shape)
        if self.law is not None:
            about = gaps.predictors, self.noise**2, self.at_rows(model, asked)
            size = self.by_side(gaps.side, lambda own: own.law.sizes(*about))
            expected = np.where(np.isnan(distance), 1.0, size)
        return {
            "predictors": predictors,
            "distance": distance,
            "expected": expected,
            "side": gaps.side,
        }

    def half_widths_at(self, model: ModelEmbedder, level: float, query: Query) -> np.ndarray:
        """Half widths (Q, D) of intervals at any times, in the units of the channels."""
        answers = answers_at(model, *query, self, with_values=False)
        return model.units.scaler.scale * answers.half_widths(model.calibration, self, level)

    def std_at(self, model: ModelEmbedder, query: Query) -> np.ndarray:
        """Standard deviations (Q, D) of the signal at any times, in the units of the channels."""
        answers = answers_at(model, *query, self, with_values=False)
        half = answers.half_widths(model.calibration, self, self.level)
        half = np.where(answers.distance <= _NOWHERE, 0.0, half)
        return model.units.scaler.scale * self.of_signal(half, answers.least)

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

    def course(self, model: ModelEmbedder, query: Query) -> Course:
        """Errors at times between the first and the last row, as they change along gaps."""
        asked = PathQuery.of(*query)
        gaps = self._gaps(model, asked, SETTINGS.nearest)
        answers = answers_at(model, *query, self, with_values=False, gaps=gaps)
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


def _medians(columns: np.ndarray) -> np.ndarray:
    """Medians (D,) of columns without NaN; 1 of none."""
    each = [column[~np.isnan(column)] for column in columns.T]
    return np.array([np.median(own) if len(own) else 1.0 for own in each]) + LEAST


def _innovations(model: ModelEmbedder, panel: Panel) -> np.ndarray:
    """By how much (P, D) observations missed their forecasts; NaN in first rows, 1 without any."""
    if not model.forecasts:
        return np.ones(panel.values.shape)
    return np.abs(model.residuals(panel)[0]) / model.units.scaler.scale


def _predictors(model: ModelEmbedder, panel: Panel) -> np.ndarray:
    """Predictors (n_series, D, S) of the error size of series, from all their rows."""
    read = model.units.scaler.read
    rows = model.standardised(panel).values if model.forecasts else read(panel.values)
    last = panel.offsets[1:] - 1
    expected = np.ones((panel.n_series, panel.n_channels))
    return predictors_of(spread_at(rows, panel.offsets, last), expected)


def _changes_by_gap(model: ModelEmbedder, whole: Panel, hidden: Panel) -> np.ndarray:
    """Changes (D, S) of predictors with the logarithm of the mean gap, from hidden rows."""
    predictors, gaps = (
        np.subtract(*(ask(model, panel).mean(axis=0) for panel in (hidden, whole)))
        for ask in (_predictors, _log_gaps)
    )
    return np.where(
        np.abs(gaps) > SETTINGS.nearest, predictors / np.where(gaps == 0, 1.0, gaps), 0.0
    )


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


def lazy_path_errors(
    model: ModelEmbedder, judging: Panel, trained: Panel | None, new_from: np.ndarray | None = None
) -> Lazy:
    """`PathErrors` that are learned at first use, from judging series and then those of training.

    Without `trained`, rows of the judging ones before `new_from` (n_series,) were trained on.
    """
    panels = [own for own in (judging, trained) if own is not None]
    panel = Panel.concat(panels, ids=np.arange(sum(len(own) for own in panels)))
    panel = first_series(panel, TABLE.n_rows)
    series, row = series_of_rows(panel), np.arange(panel.n_observations)
    is_new = series < len(judging) if new_from is None else row >= new_from[series]
    return Lazy(partial(PathErrors.learn, model, panel, is_new))


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
    - Before the first row: the path.

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
    asked, scaler = PathQuery.of(observed_part(panel), times, offsets), model.units.scaler
    panel, series = asked.seen, asked.series
    answers = Answers.blank(len(times), panel.n_channels)
    before, is_between = places(asked, times, path_at_rows)
    is_between |= not model.forecasts
    answers.put(~is_between & (before < 0), values=0.0)
    early = is_between & (before < 0)
    leads = time_since_seen(panel, before, times)
    if early.any():  # then to the first observation of the channel
        seen_at = np.where(np.isnan(panel.values), np.inf, panel.times[:, None])
        first = np.minimum.reduceat(seen_at, panel.offsets[:-1])
        leads[early] = first[series[early]] - times[early, None]
    leads = scaler.known(leads, np.inf)
    if gaps is not None:
        leads = np.maximum(leads, SETTINGS.nearest * model.units.time_scale)
    least = errors.floor * np.sqrt(errors.at_rows(model, asked))
    answers.put(slice(None), leads=leads, least=least)
    ahead = np.flatnonzero(~is_between & (before >= 0))
    if len(ahead):
        found = _outlook(model, panel, times[ahead], before[ahead], with_values=with_values)
        answers.put(
            ahead, values=found.values, predictors=found.predictors, expected=found.expected
        )
    if is_between.any():
        columns = errors.on_path(model, asked, gaps)
        answers.put(is_between, **{name: own[is_between] for name, own in columns.items()})
        if with_values:
            query = panel, times[is_between], offsets_from(is_between)[offsets]
            answers.put(is_between, values=scaler.transform(model.path_values(*query)))
    is_beside = np.isnan(answers.distance) & (asked.early <= 0)[:, None]
    beside = np.flatnonzero(is_between & is_beside.any(axis=1))
    if len(beside) and model.forecasts:  # after the last observation of a channel
        rows = np.maximum(before[beside], panel.offsets[series[beside]])
        found = _outlook(model, panel, times[beside], rows, with_values=False)
        answers.predictors[beside, :, EXPECTED] = found.predictors[..., EXPECTED]
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


def places(
    asked: PathQuery, times: np.ndarray, path_at_rows: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Last row (Q,) before each time (-1 if none), and a mask (Q,) of times answered by the path.

    The path answers before the last row of a series, at rows only if `path_at_rows`.
    """
    is_row = asked.seen.times[asked.row] == times
    before = asked.row - is_row
    before[(times < asked.times) | (before < asked.seen.offsets[asked.series])] = -1
    return before, (times <= asked.seen.end[asked.series]) & (path_at_rows | ~is_row)
