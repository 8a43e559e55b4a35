"""One head for series of all ages: predictions along time, each from the observations so far.

The head is trained on the features of each series at several cuts. All series have the same number
of cuts and so count equally. The age, the time since the first observation, is one more feature.

Each cut has the full weight of its series. With an eighth of it, support vectors are too smooth
(GunPoint, HiPPO: accuracy on whole series 0.71, against 0.91 with the full weight).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import FeatureUnion

from skpolyode.embedders.paths import rows_until
from skpolyode.heads.base import HeadEstimator
from skpolyode.heads.folds import spread_folds
from skpolyode.heads.weights import fit_parameters
from skpolyode.panel import Panel, query_times, series_index
from skpolyode.panel.select import observed_part, series_chunks, take
from skpolyode.transformers.input import read_panel

_CHUNK = 200_000  # rows of cut series per call of the transformer


def follows_ages(estimator: AgedEstimator) -> bool:
    """Whether there is a head for all ages; an AttributeError says how to get one."""
    if not estimator.n_cuts:
        raise AttributeError(
            f"answers along time need a head that knows series of all ages: fit "
            f"{type(estimator).__name__}(n_cuts=8)."
        )
    return True


class AgedEstimator(HeadEstimator):
    """Base of estimators that can predict along time."""

    _ages: AgedEstimator  # a copy whose head also reads the age
    _age_unit: float
    _is_aged = False

    def _fit_ages(
        self,
        head: Any,
        panel: Panel,
        target: np.ndarray,
        groups: np.ndarray | None,
        weights: np.ndarray | None,
        rng: np.random.RandomState,
    ) -> None:
        vars(self).pop("_ages", None)
        if not self.n_cuts:
            return
        n_series, n_cuts = panel.n_series, self.n_cuts
        # One random cut in each of `n_cuts` equal parts of the duration; the last is at the end.
        share = (np.arange(n_cuts) + rng.uniform(size=(n_series, n_cuts))) / n_cuts
        times = panel.start[:, None] + share * (panel.end - panel.start)[:, None]
        times[:, -1] = panel.end
        series = np.repeat(np.arange(n_series), n_cuts)
        stop = _rows_until(panel, times.ravel(), np.arange(n_series + 1) * n_cuts)
        age = panel.elapsed[stop - 1]
        ages = copy(self)
        ages._is_aged = True
        each = None if weights is None else weights[series]  # all series have as many cuts
        centre = np.average(age, weights=each)
        ages._age_unit = float(np.sqrt(np.average((age - centre) ** 2, weights=each))) or 1.0
        Z, target = ages._aged(panel, series, stop), target[series]
        groups = np.arange(n_series) if groups is None else groups
        ages.head_ = clone(head).fit(Z, target, **fit_parameters(head, each))
        spread = {"keep_single": is_classifier(self), "groups": groups[series]}
        folds = spread_folds(target, self.cv, rng, **spread)
        ages._calibrate(Z, target, folds, each)
        self._ages = ages

    def _aged(self, panel: Panel, series: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """Features (Q, F + 1) of series (Q,) cut before rows `stop` (Q,); the last is the age."""
        start = panel.offsets[series]
        parts = [
            self.feature_transformer_.transform(take(panel, series[k], start[k], stop[k]))
            for k in series_chunks(stop - start, _CHUNK)
        ]
        return self._with_age(parts, panel.elapsed[stop - 1])

    def _with_age(self, parts: Sequence[Any], age: np.ndarray) -> np.ndarray:
        return np.column_stack([np.concatenate(parts), age / self._age_unit])

    def _along(
        self, X: Any, times: Any, relative_to: str | None, default: np.ndarray, names: Sequence[str]
    ) -> Panel:
        """Panel of predictions at times; `default` (1, K) before the first observation."""
        if hasattr(X, "outline"):
            return self._of_stream(X, times, names)
        panel = observed_part(read_panel(self, X, reset=False))
        flat, offsets = panel.times, panel.offsets
        if times is not None:
            flat, offsets = query_times(panel, times, relative_to)
        stop, series = _rows_until(panel, flat, offsets), series_index(offsets)
        begun = stop > panel.offsets[series]
        values = np.repeat(default, len(flat), axis=0)
        if begun.any():  # constant between observations: compute each once
            known, first, place = np.unique(stop[begun], return_index=True, return_inverse=True)
            Z = self._ages._aged(panel, series[begun][first], known)
            values[begun] = self._ages._answer(Z).reshape(len(Z), -1)[place]
        return _with_channels(panel, names).like(flat, values, offsets)

    def _of_stream(self, stream: Any, times: Any, names: Sequence[str]) -> Panel:
        """Predictions for the series of a stream, each at its last observation."""
        if times is not None or self.features_ != "coefficients":
            raise ValueError(
                "a stream knows the embedding of its series at their last observations: leave "
                f"times out, and fit with features='coefficients' (these are {self.features_!r})."
            )
        ends, features = stream.outline(), [stream.embedding()]
        if isinstance(self.feature_transformer_, FeatureUnion):
            (_, (_, static)) = self.feature_transformer_.transformer_list
            features.append(static.transform(ends))
        Z = self._ages._with_age([np.column_stack(features)], ends.end - ends.start)
        rows = ends.offsets[1:] - 1
        values = self._ages._answer(Z).reshape(len(Z), -1)
        return _with_channels(ends, names).like(ends.times[rows], values, np.arange(len(rows) + 1))


def _rows_until(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Position (Q,) in the panel of the first row after each time."""
    return rows_until(panel.times, panel.offsets, times, offsets) + 1


def _with_channels(panel: Panel, names: Sequence[str]) -> Panel:
    """The series without rows, with channels `names`."""
    rows = panel.without_rows().rows
    cells = np.empty((0, len(names)))
    named = {"channel_names": tuple(names), "has_channel_names": True}
    rows = replace(rows, values=cells, beside={}, inputs=None, **named)
    return Panel.from_rows(rows, checked=False)
