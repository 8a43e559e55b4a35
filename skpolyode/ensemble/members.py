"""The members of the ensemble, and the state that they keep of series together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from skpolyode.embedders.base import Known, take_known
from skpolyode.ensemble.backtest import Sample, chunks
from skpolyode.ensemble.bounds import Bounds
from skpolyode.ensemble.last import LastValue
from skpolyode.ensemble.member import Asked, Lesson, Member
from skpolyode.ensemble.mixed import MixedEffects
from skpolyode.ensemble.periods import Seasons
from skpolyode.ensemble.records import NEGLIGIBLE, Records
from skpolyode.ensemble.ridge import DirectRidge
from skpolyode.panel.units import Standardised

MEMBERS: dict[str, type[Member]] = {"last": LastValue, "mixed": MixedEffects, "ridge": DirectRidge}
"""Members of the ensemble by their names, in the order of their weights."""

BASE = "mixed"
"""The member that is learned first, and replaces missing forecasts of the others."""

RECORDS = "records"
"""Name of the records that all members share."""


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
    def learn(cls, sample: Sample, seasons: Seasons, knots: np.ndarray) -> list[Self]:
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

    def expected_errors(self, known: Known, elapsed: np.ndarray) -> np.ndarray:
        """Expected size (n, D) of forecast errors, by the mixed model."""
        found, nothing = np.empty(known[RECORDS].shape[:2]), np.empty((len(elapsed), 0))
        for part in chunks(len(elapsed)):
            states, longest = take_known(known, part), self.bounds.leads[-1]
            asked = Asked(elapsed[part], nothing[part], Records.of(states[RECORDS]), longest)
            found[part] = self.each[BASE].errors(states[BASE], asked)
        return np.maximum(found, NEGLIGIBLE)


def members_of(
    learned: list[Members], names: Sequence[str], sample: Sample, given: Known
) -> np.ndarray:
    """Forecasts (M, D, G) of a sample; with several `learned`, the k-th members forecast fold k."""
    found = np.empty((*sample.actual.shape, len(names)))
    for k, members in enumerate(learned):
        rows = np.flatnonzero((sample.fold == k) | (len(learned) == 1))
        origins, place = np.unique(sample.origin[rows], return_inverse=True)
        known = members.known_at(sample.rows, sample.origins[origins])
        for chunk in chunks(len(rows)):
            part = rows[chunk]
            query = take_known(known, place[chunk]), sample.elapsed[part], sample.driven[part]
            found[part] = members.forecasts(names, take_known(given, part), *query)
    return found


def _forecasts_of(base: Member, sample: Sample) -> np.ndarray:
    """Forecasts (M, D) of the base at all leads of a sample."""
    known, columns = base.known_at(sample.rows, sample.origins), sample.records
    found = np.empty(sample.actual.shape)
    for part in chunks(len(found)):
        records = Records(*(column[part] for column in columns))
        asked = Asked(sample.elapsed[part], sample.driven[part], records, np.inf)
        found[part] = base.forecast(known[sample.origin[part]], asked)
    return found
