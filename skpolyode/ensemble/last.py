"""The last value of a channel, and what is usual where there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from skpolyode.ensemble.member import Asked, Lesson, Member
from skpolyode.ensemble.weights import SETTINGS
from skpolyode.saving.codec import saved


@saved(offset="D")
@dataclass(frozen=True, eq=False)
class LastValue(Member):
    """The last value; of channels that have not been observed the mixed model, and an offset.

    Parameters
    ----------
    offset : float64 ndarray of shape (D,)
        By how much channels that have not been observed yet are above the mixed model, once they
        are: what is measured late is measured in other series.
    """

    offset: np.ndarray

    starts_at_last = True

    @classmethod
    def learn(cls, lesson: Lesson) -> list[Self]:
        """Offsets, from what came of channels that had not been observed before."""
        sample, offsets = lesson.sample, []
        late = np.where(np.isinf(sample.leads), sample.actual - lesson.base, np.nan)
        for k in range(-1, sample.n_folds):
            own = late[sample.fold != k]
            count = (~np.isnan(own)).sum(axis=0) + SETTINGS.prior
            offsets.append(cls(np.nansum(own, axis=0) / count))
        return offsets

    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Last values (n, D)."""
        seen, last = asked.records.n_values > 0, asked.records.last
        return np.where(seen, last, asked.base + self.offset)
