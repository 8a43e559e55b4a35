"""The members of the ensemble, the state that they keep of series together, and their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from skpolyode.embedders.base import Known, take_known
from skpolyode.ensemble.backtest import (
    FEWEST_TO_HOLD_OUT,
    PRIOR_COUNT,
    BacktestSettings,
    are_known,
    chunks,
)
from skpolyode.ensemble.member import NEGLIGIBLE, Asked, Lesson, Member, Records, RollingOrigins
from skpolyode.ensemble.mixed import MixedEffects
from skpolyode.ensemble.periods import Seasons
from skpolyode.ensemble.ridge import DirectRidge
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved


@saved(offset="D")
@dataclass(frozen=True, eq=False)
class LastValue(Member):
    """The last value; for channels that have not been observed, the mixed model plus an offset.

    Parameters
    ----------
    offset : float64 ndarray of shape (D,)
        Mean residual of the mixed model for channels not observed before, shrunk towards zero.
        Series in which a channel is measured late differ from the others.
    """

    offset: np.ndarray

    starts_at_last = True

    @classmethod
    def learn(cls, lesson: Lesson) -> list[Self]:
        """Learn offsets, from observations of channels that had not been observed before."""
        sample, offsets = lesson.sample, []
        late = np.where(np.isinf(sample.leads), sample.actual - lesson.base, np.nan)
        for k in range(-1, sample.n_folds):
            residuals = late[sample.fold != k]
            count = (~np.isnan(residuals)).sum(axis=0) + PRIOR_COUNT
            offsets.append(cls(np.nansum(residuals, axis=0) / count))
        return offsets

    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Last values (n, D)."""
        seen, last = asked.records.n_values > 0, asked.records.last
        return np.where(seen, last, asked.base + self.offset)


MEMBERS: dict[str, type[Member]] = {"last": LastValue, "mixed": MixedEffects, "ridge": DirectRidge}
"""Members of the ensemble by their names, in the order of their weights."""

BASE = "mixed"
"""The member that is learned first, and replaces missing forecasts of the others."""

RECORDS = "records"
"""Name of the records that all members share."""


@dataclass(frozen=True)
class BoundsSettings:
    """How far a forecast may leave the observed range, and where members keep their weights.

    The one most extreme series says little about others in its range, hence `shared`
    (benchmarks/NOTES.md, "Parts of the ensemble").
    """

    share: float = 0.99  # quantile of the changes in training
    room: float = 1.5  # multiple of that quantile, as future changes may be larger
    shared: int = 3  # series that reach the ends of the common range; fewer if there are few


_SETTINGS = BoundsSettings()


@saved(
    lowest="D inf",
    highest="D inf",
    common_lowest="D inf",
    common_highest="D inf",
    leads="J rising",
    reach="D J unsigned inf",
)
@dataclass(frozen=True, eq=False)
class Bounds:
    """The range of forecasts, in standard deviations from the mean of a channel.

    A forecast stays within the union of three ranges: that of training, that of its series so far,
    and the last value plus or minus the largest change over such a lead in training. A steady trend
    from the first observation to the last, not a jump, may go on for as long as it did, at up to
    1.5 times its rate.

    Parameters
    ----------
    lowest, highest : float64 ndarray of shape (D,)
        Range of each channel in training.
    common_lowest, common_highest : float64 ndarray of shape (D,)
        The part of that range that several series reach.
    leads : float64 ndarray of shape (J,)
        Rising from 0.
    reach : float64 ndarray of shape (D, J)
        Largest change over these leads; linear between them and constant beyond.
    """

    lowest: np.ndarray
    highest: np.ndarray
    common_lowest: np.ndarray
    common_highest: np.ndarray
    leads: np.ndarray
    reach: np.ndarray

    @classmethod
    def learn(cls, rows: Standardised, leads: np.ndarray, changes: np.ndarray) -> Self:
        """Learn from series, and `changes` (M, D) over `leads` (M, D); NaN is ignored."""
        known = are_known(leads, changes)
        knots = np.zeros(1)
        if known.any():
            ends = np.geomspace(*np.quantile(leads[known], [0.0, 1.0]), BacktestSettings.max_knots)
            knots = np.concatenate([knots, np.unique(ends)])
        reach = np.zeros((rows.values.shape[1], len(knots)))
        for j, rows_known in enumerate(known.T):
            lead, size = leads[rows_known, j], np.abs(changes[rows_known, j])
            for k, (start, end) in enumerate(pairwise(knots), 1):
                in_bin = size[(lead > start) & (lead <= end)]
                if len(in_bin):
                    reach[j, k] = _SETTINGS.room * np.quantile(in_bin, _SETTINGS.share)
        rising = np.maximum.accumulate(reach, axis=1)
        (lowest, common_lowest), (highest, common_highest) = -_highest(rows, -1.0), _highest(rows)
        return cls(lowest, highest, common_lowest, common_highest, knots, rising)

    def clip(self, forecasts: np.ndarray, records: Records, leads: np.ndarray) -> np.ndarray:
        """Clip forecasts (n, D, ...) to the bounds, from records (n, D), at `leads` (n, D)."""
        columns = zip(leads.T, self.reach, strict=True)
        reach = np.stack([np.interp(lead, self.leads, most) for lead, most in columns], axis=1)
        seen, last = records.n_values > 0, records.last
        rise = _SETTINGS.room * _steady_rise(records, leads)
        lowest = np.minimum(np.minimum(records.lowest, last - reach), self.lowest)
        highest = np.maximum(np.maximum(records.highest, last + reach), self.highest)
        lowest, highest = np.minimum(lowest, last + rise), np.maximum(highest, last + rise)
        lowest = np.where(seen, lowest, self.lowest)
        highest = np.where(seen, highest, self.highest)
        shape = (*lowest.shape, *[1] * (forecasts.ndim - 2))
        return np.clip(forecasts, lowest.reshape(shape), highest.reshape(shape))

    def outside(self, records: Records) -> tuple[np.ndarray, np.ndarray]:
        """Distances (n, D) of last values beyond the training range and the common range."""
        last, seen = records.last, records.n_values > 0
        ranges = (self.lowest, self.highest), (self.common_lowest, self.common_highest)
        far, rare = (np.maximum(np.maximum(low - last, last - high), 0.0) for low, high in ranges)
        return np.where(seen, far, 0.0), np.where(seen, rare, 0.0)


def _highest(rows: Standardised, sign: float = 1.0) -> np.ndarray:
    """Largest values, and the largest that several series reach, (2, D); 0 without any.

    "Several" is one series if there are fewer than ten, two with fewer than twenty. A `sign` of -1
    negates the values.
    """
    starts = rows.offsets[:-1][np.diff(rows.offsets) > 0]
    if not len(starts):
        return np.zeros((2, rows.values.shape[1]))
    top = np.fmax.reduceat(sign * rows.values, starts, axis=0)
    top = np.sort(np.where(np.isnan(top), -np.inf, top), axis=0)[::-1]
    n_series = np.isfinite(top).sum(axis=0)
    place = np.minimum(n_series // FEWEST_TO_HOLD_OUT, _SETTINGS.shared - 1)
    found = np.take_along_axis(top, np.stack([np.zeros_like(place), place]), axis=0)
    return np.where(n_series > 0, found, 0.0)


def _steady_rise(records: Records, leads: np.ndarray) -> np.ndarray:
    """Steady change so far (n, D), extrapolated over `leads` for at most as long as it lasted.

    The mean of a line is half way between its ends; that of a jump is as far away as it can be.
    """
    n, first, last = records.n_values, records.first_value, records.last
    rise, bend = last - first, np.abs(2 * records.mean - first - last)
    steady = np.maximum(np.abs(rise) - bend * n / np.maximum(n - 2, 1), 0.0)
    share = np.zeros_like(leads)
    np.divide(leads, -records.time_since(records.first_time), out=share, where=n > 2)
    return np.minimum(share, 1.0) * np.sign(rise) * steady


@dataclass(frozen=True, eq=False)
class Members:
    """Members, and the bounds of all forecasts.

    Parameters
    ----------
    each : dict of str to Member
        By name.
    bounds : Bounds
    """

    each: dict[str, Member]
    bounds: Bounds

    @classmethod
    def learn(cls, sample: RollingOrigins, seasons: Seasons, knots: np.ndarray) -> list[Self]:
        """Learn from a sample: from all series, then without each of its folds.

        Bounds are learned from all series. See `Lesson` for `seasons` and `knots`.
        """
        lesson = Lesson(sample, seasons, knots)
        learned = {BASE: MEMBERS[BASE].learn(lesson)}
        lesson = lesson._replace(base=_forecasts_of(learned[BASE][0], sample))
        learned |= {name: member.learn(lesson) for name, member in MEMBERS.items() if name != BASE}
        changes = sample.actual - sample.records.last
        bounds = Bounds.learn(sample.whole_series, sample.leads, changes)
        folds = range(1 + sample.n_folds)
        return [cls({name: x[k] for name, x in learned.items() if x}, bounds) for k in folds]

    @property
    def reads_inputs(self) -> bool:
        """Whether responses to inputs make a difference to a member."""
        return any(member.reads_inputs for member in self.each.values())

    def start(self, n_series: int, n_channels: int) -> Known:
        """States of series that have not been observed."""
        known = {name: member.start(n_series, n_channels) for name, member in self.each.items()}
        return {RECORDS: Records.start(n_series, n_channels)} | known

    def known_at(self, rows: Standardised, asked: np.ndarray) -> Known:
        """States of series up to the rows `asked` (n,), which are included."""
        known = {name: member.known_at(rows, asked) for name, member in self.each.items()}
        return {RECORDS: Records.known_at(rows, asked)} | known

    def updated(self, known: Known, rows: Standardised) -> Known:
        """States after one more row of each series."""
        each = {name: member.updated(known[name], rows) for name, member in self.each.items()}
        return {RECORDS: Records.updated(known[RECORDS], rows)} | each

    def forecasts(
        self,
        names: Sequence[str],
        given: Known,
        known: Known,
        elapsed: np.ndarray,
        driven: np.ndarray,
    ) -> np.ndarray:
        """Forecasts (n, D, G) of the given `names`, within bounds, from the states of n series.

        `elapsed` (n,) are the forecast times, and `driven` (n, F) the responses to inputs then.
        `given` are forecasts (n, D) made elsewhere. A free run that is not finite is replaced by
        the last value, other missing forecasts by the mixed model.
        """
        records = Records.of(known[RECORDS])
        asked = Asked(elapsed, driven, records, self.bounds.leads[-1])
        base = self.each[BASE].forecast(known[BASE], asked)
        asked, found = asked._replace(base=base), {**given, BASE: base}
        for name in self.each.keys() - found.keys():
            found[name] = self.each[name].forecast(known[name], asked)
        fallback = {"run": found["last"]}
        columns = [(found.get(name, base), fallback.get(name, base)) for name in names]
        members = [np.where(np.isfinite(x), x, instead) for x, instead in columns]
        leads = np.minimum(records.time_since(elapsed[:, None]), asked.longest)
        return self.bounds.clip(np.stack(members, axis=-1), records, leads)

    def expected_errors(self, known: Known, series: np.ndarray, elapsed: np.ndarray) -> np.ndarray:
        """Expected size (n, D) of forecast errors, by the mixed model.

        `known` are the states of B series, of which `series` (n,) are forecast.
        """
        found = np.empty((len(elapsed), known[RECORDS].shape[1]))
        nothing, longest = np.empty((len(elapsed), 0)), self.bounds.leads[-1]
        for part in chunks(len(elapsed)):
            states = take_known(known, series[part])
            asked = Asked(elapsed[part], nothing[part], Records.of(states[RECORDS]), longest)
            found[part] = self.each[BASE].errors(states[BASE], asked)
        return np.maximum(found, NEGLIGIBLE)


def members_of(
    learned: list[Members], names: Sequence[str], sample: RollingOrigins, given: Known
) -> np.ndarray:
    """Forecasts (M, D, G) of a sample; with several `learned`, the k-th members forecast fold k."""
    found = np.empty((*sample.actual.shape, len(names)))
    for k, members in enumerate(learned):
        rows = np.flatnonzero((sample.fold == k) | (len(learned) == 1))
        origins, place = np.unique(sample.origin[rows], return_inverse=True)
        known = members.known_at(sample.cells, sample.origins[origins])
        for chunk in chunks(len(rows)):
            part = rows[chunk]
            query = take_known(known, place[chunk]), sample.elapsed[part], sample.driven[part]
            found[part] = members.forecasts(names, take_known(given, part), *query)
    return found


def _forecasts_of(base: Member, sample: RollingOrigins) -> np.ndarray:
    """Forecasts (M, D) of the base at all leads of a sample."""
    known, columns = base.known_at(sample.cells, sample.origins), sample.records
    found = np.empty(sample.actual.shape)
    for part in chunks(len(found)):
        records = Records(*(column[part] for column in columns))
        asked = Asked(sample.elapsed[part], sample.driven[part], records, np.inf)
        found[part] = base.forecast(known[sample.origin[part]], asked)
    return found
