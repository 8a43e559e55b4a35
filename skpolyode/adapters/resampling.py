"""The resampler as a transformer of sktime: from irregular panels to regular ones."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sktime.transformations.base import BaseTransformer

from skpolyode.adapters.sktime import read_instances
from skpolyode.saving.objects import register_estimator, save_by_name
from skpolyode.transformers import InterpolationTransformer, Resampler

__all__ = ["SeriesResampler"]


@register_estimator
class SeriesResampler(BaseTransformer):
    """Put irregular series on one regular grid, as a series-to-series transformer of sktime.

    ``SeriesResampler() * RocketClassifier()`` is an sktime classifier of ragged, irregular, partly
    observed series. In scikit-learn's own pipelines `Resampler` does, without an adapter.

    Parameters
    ----------
    embedder : transformer with `interpolate` or None, default=None
        Follows the path; not fitted itself, but a clone of it. Its parameters are reached as
        ``embedder__<name>``. None: a `PolyODETransformer` with its defaults.
    n_points : int or None, default=None
        Number of points, spread evenly over the longest series of `fit`. Of `n_points`, `every`
        and `grid` one at most is given; without any it is 100 points.
    every : float or None, default=None
        Time between two points, in the units of the index (seconds for datetimes).
    grid : array-like of shape (n_points,) or None, default=None
        The points themselves, in increasing order.
    relative_to : {"start", "end"} or None, default="start"
        Whether the grid begins at each series' first observation, ends at its last one, or is the
        same for all, on their common clock.

    Attributes
    ----------
    resampler_ : Resampler
        The fitted resampler.
    grid_ : float64 ndarray of shape (n_points,)
        Times of the rows of the result, which are numbered 0, 1, ....

    See Also
    --------
    skpolyode.Resampler : The resampler, for scikit-learn, and the meaning of its parameters.

    Examples
    --------
    >>> from sktime.datasets import load_japanese_vowels
    >>> from skpolyode import InterpolationTransformer
    >>> from skpolyode.adapters import SeriesResampler
    >>> X, y = load_japanese_vowels(split="train", return_type="pd-multiindex")
    >>> SeriesResampler(InterpolationTransformer(), n_points=20).fit_transform(X).shape
    (5400, 12)
    """

    _parent_callback_ctx = None  # as of the other adapters
    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["the skpolyode developers"],
        "maintainers": ["the skpolyode developers"],
        "python_dependencies": ["torch"],
        "scitype:transform-input": "Series",
        "scitype:transform-output": "Series",
        # False, and both mtypes: one model for all instances, however many levels name them.
        "scitype:instancewise": False,
        "X_inner_mtype": ["pd-multiindex", "pd_multiindex_hier"],
        "y_inner_mtype": "None",
        "requires_y": False,
        "fit_is_empty": False,
        "transform-returns-same-time-index": False,
        "capability:multivariate": True,
        "capability:missing_values": True,
        "capability:missing_values:removes": True,
        "capability:unequal_length": True,
        "capability:unequal_length:removes": True,
        "capability:categorical_in_X": False,
        "capability:inverse_transform": False,
        # The seed is a parameter of its parameter, where sktime's tags cannot see it.
        "capability:random_state": False,
        "property:randomness": "stochastic",
    }

    save = save_by_name(BaseTransformer.save)

    def __init__(
        self,
        embedder: Any = None,
        n_points: int | None = None,
        every: float | None = None,
        grid: Any = None,
        relative_to: str | None = "start",
    ) -> None:
        self.embedder = embedder
        self.n_points = n_points
        self.every = every
        self.grid = grid
        self.relative_to = relative_to
        super().__init__()

    @property
    def grid_(self) -> np.ndarray:
        """Times of the rows of the result."""
        return self.resampler_.grid_

    def _fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        self.resampler_ = Resampler(**self.get_params(deep=False)).fit(read_instances(X)[0])
        return self

    def _transform(self, X: pd.DataFrame, y: Any = None) -> pd.DataFrame:
        panel, instances = read_instances(X)
        values = self.resampler_.transform(panel)  # (n_series, n_channels, n_points)
        n_points = values.shape[2]
        codes = np.repeat(np.arange(len(instances)), n_points)
        index = instances[codes].to_frame(index=False)
        index[X.index.nlevels - 1] = np.tile(np.arange(n_points), len(instances))
        index = pd.MultiIndex.from_frame(index, names=X.index.names)
        table = values.transpose(0, 2, 1).reshape(len(codes), -1)
        return pd.DataFrame(table, index=index, columns=X.columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small parameters for sktime's estimator checks.

        Parameters
        ----------
        parameter_set : str, default="default"
            Ignored.

        Returns
        -------
        list of dict
        """
        embedder = InterpolationTransformer(n_coefficients=4)
        return [
            {"embedder": embedder, "n_points": 5},
            {"embedder": embedder, "n_points": 4, "relative_to": "end"},
        ]
