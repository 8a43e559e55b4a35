"""The least that a model has to beat: the mean of the channel, and its last value."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from skpolyode.panel import Panel, query_times, series_index


class ChannelMean(BaseEstimator):
    """Knows of each channel its mean in the training series, and of a series nothing."""

    def fit(self, X: Panel, y: Any = None) -> Self:
        self.mean_ = np.nanmean(X.values, axis=0)
        self.scale_ = np.nanstd(X.values, axis=0)
        return self

    def transform(self, X: Panel) -> np.ndarray:
        return (self._level(X) - self.mean_) / self.scale_

    def reconstruct(self, X: Panel, times: Any) -> Panel:
        flat, offsets = query_times(X, times)
        return X.like(flat, np.repeat(self._level(X), np.diff(offsets), axis=0), offsets)

    forecast = reconstruct

    def score(self, X: Panel, y: Any = None) -> float:
        """Minus the one-step forecasting MSE in standardised units, as `PolyODETransformer`."""
        error = (X.values - self._before(X)) / self.scale_
        return -float(np.mean(error[_not_first(X)] ** 2))

    def _level(self, X: Panel) -> np.ndarray:
        """What is said of each series, whenever it is asked; shape (B, D)."""
        return np.tile(self.mean_, (len(X), 1))

    def _before(self, X: Panel) -> np.ndarray:
        """What is said of each row from the rows before it; shape (n_obs, D)."""
        return np.tile(self.mean_, (X.n_observations, 1))


class LastValue(ChannelMean):
    """Holds the last observed value of each channel, forwards and backwards."""

    def _level(self, X: Panel) -> np.ndarray:
        last = _by_series(X).last().reindex(range(len(X)))
        return last.fillna(dict(enumerate(self.mean_))).to_numpy()

    def _before(self, X: Panel) -> np.ndarray:
        seen = _by_series(X).ffill()
        before = seen.groupby(_series(X)).shift()
        return before.fillna(dict(enumerate(self.mean_))).to_numpy()


def _series(X: Panel) -> np.ndarray:
    return series_index(X.offsets)


def _by_series(X: Panel) -> Any:
    return pd.DataFrame(X.values).groupby(_series(X))


def _not_first(X: Panel) -> np.ndarray:
    """Observed cells but the first row of each series, which nothing can forecast."""
    cells = ~np.isnan(X.values)
    cells[X.offsets[:-1][X.lengths > 0]] = False
    return cells
