"""The last value of a channel, or a forecast of its first one."""

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
            count = (~np.isnan(residuals)).sum(axis=0) + SETTINGS.prior
            offsets.append(cls(np.nansum(residuals, axis=0) / count))
        return offsets

    def forecast(self, known: np.ndarray, asked: Asked) -> np.ndarray:
        """Last values (n, D)."""
        seen, last = asked.records.n_values > 0, asked.records.last
        return np.where(seen, last, asked.base + self.offset)
