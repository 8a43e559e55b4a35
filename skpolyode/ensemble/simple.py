"""Simple forecasts: what an ensemble knows without a model of the dynamics.

Values are in standard deviations from the mean of their channel, times in typical gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import (
    BacktestSettings,
    Forecasts,
    Sample,
    chunks,
    rolling_origins,
)
from skpolyode.ensemble.bounds import Bounds
from skpolyode.ensemble.mixed import MixedEffects
from skpolyode.ensemble.periods import alternatives, shared_seasons
from skpolyode.ensemble.records import NEGLIGIBLE, Records, records_at
from skpolyode.ensemble.ridge import DirectRidge
from skpolyode.ensemble.weights import MEMBERS, SETTINGS
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved

_SAMPLE = BacktestSettings(
    enough_series=10**9, max_origins=3000, max_targets=10
)  # of the regression


@saved
@dataclass(frozen=True, eq=False)
class SimpleForecasts:
    """Forecasts without a model of the dynamics, and the bounds of all forecasts.

    Parameters
    ----------
    mixed : MixedEffects
    ridge : DirectRidge or None
    bounds : Bounds
    late : float64 ndarray of shape (D,)
        By how much channels that have not been observed yet are above the mixed model, once they
        are: what is measured late is measured in other series.
    """

    mixed: MixedEffects
    ridge: DirectRidge | None
    bounds: Bounds
    late: np.ndarray

    @classmethod
    def learn(
        cls, sample: Sample, seasons: list[tuple[float, ...]], knots: np.ndarray
    ) -> list[Self]:
        """Learn from a sample of forecasts, and from the rows of their series.

        The first ones are learned from all series, the others without each fold of them, but for
        variances, bounds and the ridge's strength.

        `seasons` are those of the mixed model, and `knots` the leads of the regression; without any
        there is none.
        """
        mixed, n_folds = MixedEffects.learn(*_whole_series(sample), seasons), sample.n_folds
        others = mixed.without_folds(*_whole_series(sample), n_folds) if n_folds > 1 else [mixed]
        expected, leads = sample.mixed(mixed), sample.leads
        ridges = DirectRidge.learn(knots, sample, expected) if len(knots) else []
        late = np.where(np.isinf(leads), sample.actual - expected, np.nan)
        bounds = Bounds.learn(sample.rows.values, leads, sample.actual - sample.records.last)
        found = []
        for k, own in enumerate([mixed, *others], -1):
            what = ridges[k + 1] if ridges else None, bounds, _shrunk_mean(late[sample.fold != k])
            found.append(cls(own, *what))
        return found

    def records(
        self, rows: Standardised, offsets: np.ndarray, asked: np.ndarray, driven: np.ndarray
    ) -> Records:
        """Records (n, D) of series up to some rows (n,), with what the mixed model knows.

        `driven` (P, F) are responses to inputs at all rows.
        """
        effects = self.mixed.known_at(*rows, offsets, asked)
        return replace(records_at(*rows, offsets, asked, driven), effects=effects)

    def blank(self, n_series: int, n_channels: int, n_driven: int = 0) -> Records:
        """Records of series that have not been observed."""
        blank = Records.blank(n_series, n_channels, n_driven=n_driven)
        return replace(blank, effects=self.mixed.start(n_series, n_channels))

    def updated(
        self,
        records: Records,
        elapsed: np.ndarray,
        values: np.ndarray,
        mask: np.ndarray,
        driven: np.ndarray,
    ) -> Records:
        """Records (n, D) after one more observation of each series; see `Records.updated`."""
        effects, (row, channel) = records.effects.copy(), np.nonzero(mask)
        known = effects[row, channel], elapsed[row], values[row, channel], channel
        effects[row, channel] = self.mixed.updated(*known)
        return replace(records.updated(elapsed, values, mask, driven), effects=effects)

    def members(
        self,
        run: np.ndarray,
        records: Records,
        elapsed: np.ndarray,
        driven: np.ndarray,
        structural: np.ndarray,
    ) -> np.ndarray:
        """Members (n, D, G) of the ensemble, from free runs and records (n, D), within bounds.

        `elapsed` (n,) are the times that are forecast, and `driven` (n, F) the responses to inputs
        then. `structural` (n, D, S) has S = 0 without structural forecasts, else 1. A free run that
        is no finite number is replaced by the last value. Where nothing was observed, the mixed
        model takes the place of the last value, which also tells what is measured late, and of the
        regression. It takes the place of a structural forecast that is not known.
        """
        longest, n_values = self.bounds.leads[-1], records.n_values
        leads = np.minimum(records.time_since(elapsed[:, None]), longest)
        held = np.where(n_values > 0, longest, np.inf)
        mixed = ridge = self.mixed.forecasts(records.effects, elapsed, held)[0]
        if self.ridge is not None:
            ridge = np.where(n_values < 1, mixed, self.ridge.at(records, elapsed, mixed, driven))
        last = np.where(n_values < 1, mixed + self.late, records.last)
        run = np.where(np.isfinite(run), run, last)
        structural = np.where(np.isfinite(structural), structural, mixed[..., None])
        members = np.stack([run, last, mixed, ridge], axis=-1)
        return self.bounds.clip(np.concatenate([members, structural], axis=-1), records, leads)

    def expected_errors(self, records: Records, elapsed: np.ndarray) -> np.ndarray:
        """Size (n, D) of the errors that the mixed model expects, from records (n, D)."""
        held = np.where(records.n_values > 0, self.bounds.leads[-1], np.inf)
        found = np.empty(held.shape)
        for part in chunks(len(elapsed)):
            known = records.effects[part], elapsed[part], held[part]
            found[part] = np.sqrt(self.mixed.forecasts(*known)[1])
        return np.maximum(found, NEGLIGIBLE)


def _whole_series(sample: Sample) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, values and offsets of the series, but for windows of them."""
    kept = sample.whose == np.arange(len(sample.whose))
    rows = kept[series_index(sample.offsets)]
    return *(x[rows] for x in sample.rows), offsets_from(np.diff(sample.offsets)[kept])


def _shrunk_mean(errors: np.ndarray) -> np.ndarray:
    """Means (D,) of errors (M, D), NaN where there are none."""
    return np.nansum(errors, axis=0) / ((~np.isnan(errors)).sum(axis=0) + SETTINGS.prior)


def seasons_of(
    model: Forecasts, panel: Panel, period: Sequence[float] | None
) -> list[tuple[float, ...]]:
    """Seasons that the mixed model chooses from; see `learn_stacking`."""
    if period is None:
        return [(), *shared_seasons(*model.standardised(panel), panel.offsets)]
    return alternatives([p / model.units.time_scale for p in period]) or [()]


def learning_sample(
    model: Forecasts, panel: Panel, rng: np.random.RandomState, seasons: list[tuple[float, ...]]
) -> Sample:
    """What `SimpleForecasts.learn` learns from, of the series of a panel."""
    asked = rolling_origins(model, panel, rng, whole_of_seasonal(panel, seasons), _SAMPLE)
    return Sample.of(model, asked).of_rows(asked.is_ahead)


def whole_of_seasonal(panel: Panel, seasons: list[tuple[float, ...]]) -> np.ndarray | None:
    """Where rolling origins start if there may be a season: windows would lose its phase."""
    return panel.offsets[:-1] if any(seasons) else None


def members_of(
    simple: list[SimpleForecasts], sample: Sample, run: np.ndarray, structural: np.ndarray
) -> np.ndarray:
    """Members (M, D, G) of a sample, each fold by simple forecasts of its own, or all by one."""
    members = np.empty((*run.shape, len(MEMBERS) - 1 + structural.shape[-1]))
    for k, own in enumerate(simple):
        rows = np.flatnonzero((sample.fold == k) | (len(simple) == 1))
        origins, place = np.unique(sample.origin[rows], return_inverse=True)
        asked = sample.rows, sample.offsets, sample.origins[origins], sample.responses
        known = own.records(*asked)
        for chunk in chunks(len(rows)):
            part, records = rows[chunk], known[place[chunk]]
            when = sample.elapsed[part], sample.driven[part]
            members[part] = own.members(run[part], records, *when, structural[part])
    return members
