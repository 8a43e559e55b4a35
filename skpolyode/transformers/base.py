"""What every transformer of this package shares: series in, polynomial coefficients out and back.

A subclass learns from a checked panel in `_fit`, gives the coefficients of a panel in
`_coefficients`, and names its memory; the rest of scikit-learn's contract, `inverse_transform` and
`reconstruct` are written once, here.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from skpolyode.memory import Memory
from skpolyode.panel import Panel, query_times
from skpolyode.panel.query import name_query
from skpolyode.saving.objects import register_estimator, save
from skpolyode.transformers._input import observed_rows, read_panel

__all__ = ["CoefficientTransformer", "SeriesTransformer"]

_GRID_POINTS = 101  # of an inverse transform, when no times are given


class SeriesTransformer(TransformerMixin, BaseEstimator):
    """Base of transformers that take ragged series and return one row of features a series.

    Those of this package can be saved by being defined; a class of others could not be found again.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("skpolyode."):
            register_estimator(cls)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save everything, parameters and what was fitted, in one file without any code.

        Parameters
        ----------
        path : str or PathLike
            The file, a safetensors file whatever its name; one that exists is replaced.

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : The way back.
        """
        save(self, path)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : None, default=None
            Ignored.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a series is not valid; all faults of the series are listed at once.
        """
        self._validate_params()
        panel = read_panel(self, X, reset=True)
        self._fit(panel)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Embed series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`. Each is embedded on its own, at its last
            observation: the result does not depend on what else is in `X`.

        Returns
        -------
        float64 ndarray of shape (n_series, n_features)
        """
        check_is_fitted(self)
        return self._transform(read_panel(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: channel and what it is of.

        Parameters
        ----------
        input_features : None or array-like of str, default=None
            Only for two-dimensional input, where it must agree with the names of `fit`.

        Returns
        -------
        object ndarray of shape (n_features,)
        """
        check_is_fitted(self)
        if self.array_shape_ is not None and len(self.array_shape_) == 1:
            _check_feature_names_in(self, input_features, generate_names=False)
        names = [
            f"{name}_{part}"
            for block in self._parts()
            for name in self.channel_names_
            for part in block
        ]
        return np.asarray([*names, *self._series_parts()], dtype=object)

    @property
    def _n_features_out(self) -> int:
        of_channels = len(self.channel_names_) * sum(map(len, self._parts()))
        return of_channels + len(self._series_parts())

    @abstractmethod
    def _fit(self, panel: Panel) -> None:
        """Learn from a checked panel."""

    @abstractmethod
    def _transform(self, panel: Panel) -> np.ndarray:
        """Features of a checked panel."""

    @abstractmethod
    def _parts(self) -> list[list[str]]:
        """Blocks of features: the parts of each channel, channel after channel in each block."""

    def _series_parts(self) -> list[str]:
        """Features of the series as a whole, after those of the channels."""
        return []

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


class CoefficientTransformer(SeriesTransformer):
    """Base of transformers whose features start with polynomial coefficients of the past.

    Subclasses set `scaler_`, `time_scale_` and `window_` in `_fit`. With the measure "legs", which
    remembers the whole history, coefficients alone do not say how long it was: the last feature
    is then "duration", in units of `window_`, the longest history of `fit`.
    """

    measure = "legt"

    @abstractmethod
    def _memory(self) -> Memory:
        """Memory that reads the coefficients, in units of `time_scale_`."""

    @abstractmethod
    def _coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, at each series' last observation."""

    def inverse_transform(self, X: Any, times: Any = None) -> np.ndarray | Panel:
        """Turn embeddings back into the series they remember.

        Parameters
        ----------
        X : array-like of shape (n_series, n_features)
            Embeddings as `transform` returns them.
        times : array-like of shape (Q,) or None, default=None
            Times relative to the moment of embedding, from ``-window_`` to 0, in the units of
            `times`. By default the time points of the array that was fitted, aligned to its last
            one, or an even grid over the window.

        Returns
        -------
        ndarray of shape (n_series, Q) or (n_series, Q, n_channels), or Panel
            An array if the transformer was fitted on one (2-D or 3-D), else a Panel at the
            relative times.

        Raises
        ------
        ValueError
            If the embedding holds no coefficients, has another number of features, or a time is
            outside the window.
        """
        check_is_fitted(self)
        Z = check_array(X, dtype=np.float64, input_name="X")
        if Z.shape[1] != self._n_features_out:
            raise ValueError(
                f"X has {Z.shape[1]} features, but {type(self).__name__} embeds in "
                f"{self._n_features_out}: pass what transform returned."
            )
        ages = self._default_ages() if times is None else -np.asarray(times, dtype=np.float64)
        if ages.ndim != 1 or not len(ages):
            raise ValueError("times must be one-dimensional and not empty.")
        self._check_ages(ages, lambda first: f"times: {-ages[first]:g}")
        durations = Z[:, -1] * self.window_
        values = self._read(self._select_coefficients(Z), np.tile(ages, (len(Z), 1)), durations)
        if self.array_shape_ is None:
            offsets = np.arange(len(Z) + 1) * len(ages)
            flat = values.reshape(-1, self.n_channels_in_)
            order = np.argsort(-ages, kind="stable")
            flat = values[:, order].reshape(-1, self.n_channels_in_)
            return Panel(
                np.tile(-ages[order], len(Z)), flat, offsets, channel_names=self.channel_names_
            )
        return values[:, :, 0] if len(self.array_shape_) == 1 else values

    def reconstruct(self, X: Any, times: Any = None) -> Panel:
        """Read the past of series out of their memory at the last observation.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            Times within ``[last observation - window_, last observation]``, for all series or for
            each; in the units and of the type of the series' times. By default the series' own
            times within the window.

        Returns
        -------
        Panel
            All channels at these times, also where they were not observed.

        Raises
        ------
        ValueError
            If a time is outside the window; the message names the series.
        """
        check_is_fitted(self)
        panel = read_panel(self, X, reset=False)
        rows = observed_rows(panel)
        end = rows.end
        flat, offsets = self._own_times(panel, end) if times is None else query_times(panel, times)
        series = np.repeat(np.arange(panel.n_series), np.diff(offsets))
        ages = end[series] - flat
        self._check_ages(
            ages, lambda first: name_query(panel, series[first], flat[first], -ages[first])
        )
        values = self._read_past(self._coefficients(panel), rows.start, end, flat, series)
        return panel.like(flat, values, offsets)

    def _own_times(self, panel: Panel, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ages = np.repeat(end, panel.lengths) - panel.times
        kept = (ages >= 0) & (ages <= self._reach())
        return panel.times[kept], np.concatenate([[0], np.cumsum(kept)])[panel.offsets]

    def _reach(self) -> float:
        return np.inf if self.measure == "legs" else self.window_ * (1 + 1e-9)

    def _parts(self) -> list[list[str]]:
        return [[f"c{n}" for n in range(self.n_coefficients)]]

    def _series_parts(self) -> list[str]:
        return ["duration"] if self.measure == "legs" else []

    def _with_duration(
        self, features: np.ndarray, start: np.ndarray, end: np.ndarray
    ) -> np.ndarray:
        """Features, and the length of the history if coefficients alone do not tell it."""
        if not self._series_parts():
            return features
        return np.column_stack([features, (end - start) / self.window_])

    def _default_ages(self) -> np.ndarray:
        if self.array_shape_ is None:
            return np.linspace(self.window_, 0.0, _GRID_POINTS)
        ages = np.arange(self.array_shape_[0] - 1, -1, -1, dtype=np.float64)
        if ages[0] > self._reach():
            raise ValueError(
                f"the memory reaches back window_={self.window_:g}, but the fitted series are "
                f"{ages[0]:g} long: pass times within [-{self.window_:g}, 0], or fit with "
                f"window={ages[0]:g}."
            )
        return ages

    def _check_ages(self, ages: np.ndarray, name: Callable[[int], str]) -> None:
        """Raise a ValueError, with the name of the first, if ages are beyond the memory."""
        late, early = ages < 0, ages > self._reach()
        outside = late | early | ~np.isfinite(ages)
        if not outside.any():
            return
        first = int(np.flatnonzero(outside)[0])
        remedy = (
            "times after the last observation are for forecast"
            if late[first]
            else f"the memory reaches back window_={self.window_:g}; fit with a longer window"
        )
        raise ValueError(
            f"{name(first)} relative to the last observation is outside "
            f"[-{self.window_:g}, 0] ({int(outside.sum())} such times); {remedy}."
        )

    def _select_coefficients(self, Z: np.ndarray) -> np.ndarray:
        """Coefficients (B, D, N) in embeddings (B, n_features), where they come first."""
        shape = len(Z), self.n_channels_in_, self.n_coefficients
        return Z[:, : shape[1] * shape[2]].reshape(shape)

    def _read_past(
        self,
        coefficients: np.ndarray,
        start: np.ndarray,
        end: np.ndarray,
        times: np.ndarray,
        series: np.ndarray,
    ) -> np.ndarray:
        """Signal (Q, D) at times (Q,) of some series, from coefficients (B, D, N) at their ends."""
        ages, durations = (end[series] - times)[:, None], (end - start)[series]
        return self._read(coefficients[series], ages, durations)[:, 0]

    def _read(
        self, coefficients: np.ndarray, ages: np.ndarray, durations: np.ndarray
    ) -> np.ndarray:
        """Signal (B, Q, D) in the user's units at ages (B, Q) in the units of `times`."""
        ages = torch.from_numpy(ages / self.time_scale_)
        c = torch.from_numpy(np.ascontiguousarray(coefficients))
        elapsed = torch.from_numpy(durations / self.time_scale_)
        signal = self._memory().reconstruct(c, ages, elapsed)
        return self.scaler_.inverse(signal.numpy())
