"""Simple forecasts: what an ensemble knows without a model of the dynamics.

Values are in standard deviations from the mean of their channel, times in typical gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skpolyode.ensemble.backtest import (
    N_FOLDS,
    BacktestSettings,
    Forecasts,
    Sample,
    chunks,
    folds_of,
    rolling_origins,
)
from skpolyode.ensemble.bounds import Bounds
from skpolyode.ensemble.mixed import MixedEffects
from skpolyode.ensemble.periods import alternatives, shared_seasons
from skpolyode.ensemble.records import Records, records_at
from skpolyode.ensemble.ridge import DirectRidge
from skpolyode.ensemble.weights import MEMBERS, SETTINGS
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.units import Standardised
from skpolyode.saving.codec import saved

_SAMPLE = BacktestSettings(max_origins=6000, max_targets=10)  # of the regression


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
    def learn(cls, sample: Sample, seasons: list[tuple[float, ...]], knots: np.ndarray) -> Self:
        """Learn from a sample of forecasts, and from the rows of their series.

        `seasons` are those of the mixed model, and `knots` the leads of the regression; without any
        there is none.
        """
        every, ridge = np.ones(len(sample.offsets) - 1, dtype=bool), None
        mixed = MixedEffects.learn(*_whole_series(sample, every), seasons)
        expected, leads = sample.mixed(mixed), sample.leads
        if len(knots):
            ridge = DirectRidge.learn(knots, sample, expected)
        bounds = Bounds.learn(sample.rows.values, leads, sample.actual - sample.records.last)
        return cls(mixed, ridge, bounds, _late(leads, sample.actual - expected))

    def without(self, series: np.ndarray, sample: Sample) -> Self:
        """The same, learned without some series (n,), but for variances and the ridge's strength.

        The `sample` is that of `learn`.
        """
        mixed = self.mixed.relearned(*_whole_series(sample, ~np.isin(sample.whose, series)))
        sample = sample.of_rows(~np.isin(sample.series, series))
        expected = sample.mixed(mixed)
        ridge = self.ridge and self.ridge.relearned(sample, expected)
        late = _late(sample.leads, sample.actual - expected)
        return replace(self, mixed=mixed, ridge=ridge, late=late)

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


def _whole_series(sample: Sample, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, values and offsets of the series that a mask keeps, but for windows of series."""
    kept = kept & (sample.whose == np.arange(len(sample.whose)))
    rows = kept[series_index(sample.offsets)]
    return *(x[rows] for x in sample.rows), offsets_from(np.diff(sample.offsets)[kept])


def _late(leads: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Shrunk mean (D,) of errors (M, D) of the mixed model where channels had not been observed."""
    error = np.where(np.isinf(leads), errors, np.nan)
    return np.nansum(error, axis=0) / ((~np.isnan(error)).sum(axis=0) + SETTINGS.prior)


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
    simple: SimpleForecasts,
    sample: Sample,
    run: np.ndarray,
    structural: np.ndarray,
    learned: Sample | None = None,
) -> np.ndarray:
    """Members (M, D, G) of a sample.

    With the sample that `simple` was `learned` from, those of each series are learned from others.
    """
    members = np.empty((*run.shape, len(MEMBERS) - 1 + structural.shape[-1]))
    folds = folds_of(sample.series, 1 if learned is None else N_FOLDS)
    for fold in np.unique(folds):
        own, rows = simple, np.flatnonzero(folds == fold)
        if len(rows) < len(folds):
            own = simple.without(np.unique(sample.series[rows]), learned)
        origins, place = np.unique(sample.origin[rows], return_inverse=True)
        asked = sample.rows, sample.offsets, sample.origins[origins], sample.responses
        known = own.records(*asked)
        for chunk in chunks(len(rows)):
            part, records = rows[chunk], known[place[chunk]]
            when = sample.elapsed[part], sample.driven[part]
            members[part] = own.members(run[part], records, *when, structural[part])
    return members
