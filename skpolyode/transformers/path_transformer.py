"""Base of transformers that use the path of another transformer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import TransformerMixin, clone
from sklearn.utils._param_validation import HasMethods

from skpolyode.embedders import ChannelScaler
from skpolyode.errors import naming_owner
from skpolyode.panel import Panel
from skpolyode.panel.select import drop_empty
from skpolyode.panel.selection import refuse_reordered
from skpolyode.transformers.base import SeriesEstimator, SeriesTransformer
from skpolyode.transformers.input import align_to_frozen, read_panel, unchanged_by_errors
from skpolyode.transformers.polyode import PolyODETransformer


class PathTransformer(TransformerMixin, SeriesEstimator):
    """Base of transformers that wrap one with `interpolate`.

    Parameters
    ----------
    transformer : transformer with `interpolate` or None, default=None
        None: a `PolyODETransformer` with its defaults.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "transformer": [HasMethods(["fit", "interpolate"]), None],
    }
    transformer_: SeriesTransformer

    def __init__(self, transformer: SeriesTransformer | None = None) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the transformer.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : array-like or None, default=None
            Ignored, unless its index holds the ids of the series in another order.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a series is not valid; all faults of the series are listed at once. An
            error leaves the result of an earlier fit unchanged.
        """
        self._validate_params()
        with unchanged_by_errors(self), naming_owner(self):
            panel = read_panel(self, X, reset=True)
            refuse_reordered(y, panel, "y")
            panel = drop_empty(panel)
            panel = align_to_frozen(self, panel, self.transformer)
            self._prepare(panel)
            model = PolyODETransformer() if self.transformer is None else clone(self.transformer)
            self.transformer_ = model.fit(panel, None)  # a FrozenEstimator requires a y
            self._complete(panel)
        return self

    def _prepare(self, panel: Panel) -> None:
        """Set what is needed before the transformer is fitted, from a checked panel."""

    def _complete(self, panel: Panel) -> None:
        """Learn what needs the fitted transformer, from a checked panel."""

    @abstractmethod
    def transform(self, X: Any) -> Panel | np.ndarray:
        """Values of the paths of series."""

    @property
    def scaler_(self) -> ChannelScaler:
        """Mean and standard deviation of each channel."""
        return self.transformer_.scaler_
