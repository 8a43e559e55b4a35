"""Class probabilities along series, and the time at which a series is decided."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from skpolyode.heads.ages import AgedEstimator, follows_ages
from skpolyode.panel import Panel, series_index
from skpolyode.panel.checks import some_of


def has_scores(classifier: Any) -> bool:
    """Whether the head gives scores, or will if it is not fitted."""
    head = getattr(classifier, "head_", classifier.head)
    return head is None or hasattr(head, "predict_proba") or hasattr(head, "decision_function")


def _follows_risk(classifier: Any) -> bool:
    return follows_ages(classifier) and has_scores(classifier)


class AgedClassifier(AgedEstimator):
    """Base of the classifier: probabilities along time."""

    classes_: np.ndarray
    class_prior_: np.ndarray

    @available_if(_follows_risk)
    def predict_proba_path(
        self, X: Any, times: Any = None, relative_to: str | None = None
    ) -> Panel:
        """Probabilities along the series, each from the observations so far; needs `n_cuts`.

        One head serves all ages of a series. It reads the features and the time since the first
        observation. Probabilities are constant between observations.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, array or stream
            The series, with the channels of `fit`, and its static covariates if it had any. For a
            stream of `transformer_`, probabilities are those at the last observations; the features
            must be "coefficients".
        times : array-like of shape (Q,), list of such or None, default=None
            Times for all series or for each, in the units and of the type of the series' times.
            None: the observations of each.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times.

        Returns
        -------
        Panel
            Probabilities, one channel per class, named as in `classes_`. Before the first
            observation of a series, `class_prior_`. Later observations do not change the
            probabilities at a time.

        Raises
        ------
        ValueError
            If a time is not finite, or a series is not valid.

        See Also
        --------
        decided_at : When a series is decided.
        skpolyode.plotting.RiskDisplay : Draw probabilities over a series.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import InterpolationTransformer, PolyODEClassifier
        >>> rng = np.random.default_rng(0)
        >>> y = np.repeat(["up", "down"], 20)
        >>> slopes = np.where(y == "up", 1.0, -1.0) * rng.uniform(0.5, 1.5, 40)
        >>> series = [(np.arange(9.0), slope * np.arange(9.0)) for slope in slopes]
        >>> transformer = InterpolationTransformer(n_coefficients=4)
        >>> options = {"features": "coefficients", "n_cuts": 8, "random_state": 0}
        >>> model = PolyODEClassifier(transformer, **options).fit(series, y)
        >>> path = model.predict_proba_path(series[:1])
        >>> path.channel_names
        ('down', 'up')
        >>> bool(path.values[0, 1] < 0.9 < path.values[-1, 1])
        True
        >>> model.decided_at(series[:1], confidence=0.9)["class"].tolist()
        ['up']
        """
        check_is_fitted(self)
        names = [str(label) for label in self.classes_]
        return self._along(X, times, relative_to, self.class_prior_[None], names)

    @available_if(_follows_risk)
    def decided_at(self, X: Any, confidence: Any = 0.95) -> pd.DataFrame:
        """First observation of each series at which a class is probable enough.

        Later observations are not considered: afterwards, the probability may fall again.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, as in `predict_proba_path`.
        confidence : float or dict, default=0.95
            Required probability, above 0 and at most 1. A dict gives one for each class that may be
            decided: rare classes need lower ones.

        Returns
        -------
        DataFrame
            Columns `series` (the id), `class` and `time`; one row per series. If no class was
            probable enough, the class is None, and the time NaN or NaT.

        Raises
        ------
        ValueError
            If a confidence is not a probability, or a class was not in `fit`.
        """
        check_is_fitted(self)
        needed = self._needed(confidence)
        path = self.predict_proba_path(X)
        series, reached = series_index(path.offsets), path.values >= needed
        row = np.flatnonzero(reached.any(axis=1))
        who, first = np.unique(series[row], return_index=True)
        row = row[first]
        best = np.where(reached, path.values, -1.0)[row].argmax(axis=1)
        label = np.full(path.n_series, None, dtype=object)
        label[who] = self.classes_[best]
        time = pd.Series(path.user_times()[row], index=who).reindex(range(path.n_series))
        return pd.DataFrame(
            {"series": path.ids, "class": pd.Series(label, dtype=object), "time": time.array}
        )

    def _needed(self, confidence: Any) -> np.ndarray:
        """Required probability (K,) of each class; infinite for classes that are not decided."""
        each = (
            confidence if isinstance(confidence, dict) else dict.fromkeys(self.classes_, confidence)
        )
        if unknown := [label for label in each if label not in self.classes_]:
            raise ValueError(
                f"confidence names the class {unknown[0]!r}, which was not in fit: classes are "
                f"{some_of(self.classes_)}."
            )
        if wrong := [x for x in each.values() if not (isinstance(x, Real) and 0 < x <= 1)]:
            raise ValueError(
                f"confidence must be a probability over 0 and up to 1, or a dict with one for each "
                f"class, got {wrong[0]!r}."
            )
        return np.array([each.get(label, np.inf) for label in self.classes_.tolist()])
