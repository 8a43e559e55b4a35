"""Transformers of this package as transformers of sktime."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags
from sktime.transformations.base import BaseTransformer

from skpolyode.panel import Panel
from skpolyode.panel.readers.sktime import refuse_repeated_rows
from skpolyode.saving.objects import load_without_code, register_estimator, save_without_code
from skpolyode.transformers import (
    HiPPOTransformer,
    InterpolationTransformer,
    PolyODETransformer,
    Resampler,
)
from skpolyode.transformers.base import SeriesTransformer


def _read_instances(X: pd.DataFrame) -> tuple[Panel, pd.Index]:
    """Panel of a frame whose index levels are instances and times, and the index of its instances.

    The rows of an instance need not be neighbours. Two rows with the same time are an error.
    """
    refuse_repeated_rows(X, "X")
    # The ids of a panel cannot be tuples or of mixed types, as labels of instances can.
    return Panel.from_sktime(X), X.index.droplevel(-1).unique()


class SeriesAdapter(BaseTransformer):
    """Base of the adapters: one model for all instances of a panel or a hierarchy."""

    # scikit-learn's Pipeline sets this attribute before fit and deletes it afterwards. In between,
    # the reset of sktime deletes all attributes that the class does not have.
    _parent_callback_ctx = None
    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["the skpolyode developers"],
        "maintainers": ["the skpolyode developers"],
        "python_dependencies": ["torch"],
        "scitype:transform-input": "Series",
        # False, and both mtypes: one model for all instances, however many levels name them.
        "scitype:instancewise": False,
        "X_inner_mtype": ["pd-multiindex", "pd_multiindex_hier"],
        "y_inner_mtype": "None",
        "requires_y": False,
        "fit_is_empty": False,
        "capability:multivariate": True,
        "capability:missing_values": True,
        "capability:missing_values:removes": True,
        "capability:unequal_length": True,
        "capability:unequal_length:removes": True,
        "capability:categorical_in_X": False,
        # The seed belongs to the transformer inside, where sktime's tags cannot see it.
        "capability:random_state": False,
        "property:randomness": "stochastic",
    }

    save = save_without_code(BaseTransformer.save)
    load_from_path = load_without_code(BaseTransformer.load_from_path)


@register_estimator
class SeriesFeatures(SeriesAdapter):
    """Any transformer of this package as a series-to-features transformer of sktime.

    ``SeriesFeatures(HiPPOTransformer()) * RandomForestClassifier()`` is an sktime classifier. The
    pipelines of scikit-learn take the transformers themselves, without an adapter.

    Parameters
    ----------
    transformer : transformer of this package or None, default=None
        Makes the features; a clone of it is fitted. Set its parameters as ``transformer__<name>``.
        None: a `PolyODETransformer` with its defaults.

    Attributes
    ----------
    transformer_ : transformer of this package
        The fitted clone.

    See Also
    --------
    skpolyode.transformers : What can be adapted.

    Examples
    --------
    >>> from sktime.datasets import load_unit_test
    >>> from skpolyode.adapters import SeriesFeatures
    >>> from skpolyode.transformers import PolyODETransformer
    >>> X, y = load_unit_test(split="train")
    >>> small = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    >>> SeriesFeatures(small).fit_transform(X).shape
    (20, 9)
    """

    _tags: ClassVar[dict[str, Any]] = {
        "scitype:transform-output": "Primitives",
        "capability:inverse_transform": True,
        "capability:inverse_transform:exact": False,
    }

    def __init__(self, transformer: SeriesTransformer | None = None) -> None:
        self.transformer = transformer
        super().__init__()

    def inverse_transform(self, X: Any, y: Any = None, times: Any = None) -> Panel:
        """Turn features back into the series they remember.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_series, n_features)
            Features as `transform` returns them.
        y : None, default=None
            Ignored.
        times : array-like of shape (Q,), default=None
            Times relative to the moment of embedding, from minus the window to 0. None: an even
            grid over the window.

        Returns
        -------
        Panel
            The series at these relative times, with the rows' labels as ids.
        """
        # sktime's method would take the table of features for one series.
        self.check_is_fitted()
        return self._inverse_transform(X, times=times)

    def _inverse_transform(self, X: Any, y: Any = None, times: Any = None) -> Panel:
        if not hasattr(self.transformer_, "inverse_transform"):
            raise NotImplementedError(
                f"{type(self.transformer_).__name__} cannot turn features back into series; use a "
                "transformer whose features are coefficients."
            )
        series = self.transformer_.inverse_transform(X, times)
        ids = X.index.to_list() if isinstance(X, pd.DataFrame) else None
        return Panel(
            series.times, series.values, series.offsets, ids=ids, channel_names=self._names
        )

    def _fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        self._names = tuple(map(str, X.columns))
        inner = PolyODETransformer() if self.transformer is None else clone(self.transformer)
        self.transformer_ = inner.fit(_read_instances(X)[0])
        return self

    def _transform(self, X: pd.DataFrame, y: Any = None) -> pd.DataFrame:
        panel, instances = _read_instances(X)
        columns = self.transformer_.get_feature_names_out()
        return pd.DataFrame(self.transformer_.transform(panel), index=instances, columns=columns)

    def __sklearn_tags__(self) -> Tags:
        # The pipelines and searches of scikit-learn need this method; sktime does not have it.
        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, allow_nan=True),
        )

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
        small = PolyODETransformer(
            n_coefficients=2, hidden_layer_sizes=(8,), step_size=1e7, max_epochs=1, random_state=0
        )
        return [{"transformer": small}, {"transformer": HiPPOTransformer(n_coefficients=3)}]


@register_estimator
class SeriesResampler(SeriesAdapter):
    """Put irregular series on one regular grid, as a series-to-series transformer of sktime.

    ``SeriesResampler() * RocketClassifier()`` is an sktime classifier of ragged, irregular, partly
    observed series. The pipelines of scikit-learn take a `Resampler`, without an adapter.

    Parameters
    ----------
    transformer : transformer with `interpolate` or None, default=None
        Transformer that follows the path through each series; `fit` fits a clone of it. Set its
        parameters as ``transformer__<name>``. None: a `PolyODETransformer` with its defaults.
    n_points : int or None, default=None
        Number of points, spread evenly over the longest series of `fit`. Give at most one of
        `n_points`, `every` and `grid`; without any of them there are 100 points.
    every : float or None, default=None
        Time between two points, in the units of the index (seconds for datetimes).
    grid : array-like of shape (n_points,) or None, default=None
        The points themselves, in increasing order.
    relative_to : {"start", "end"} or None, default="start"
        "start": the grid starts at each series' first observation. "end": it ends at the last one.
        None: the grid has absolute times, the same for all series.

    Attributes
    ----------
    resampler_ : Resampler
        The fitted resampler.
    grid_ : float64 ndarray of shape (n_points,)
        Times of the rows of the result. The rows themselves are numbered 0, 1, ....

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

    _tags: ClassVar[dict[str, Any]] = {"scitype:transform-output": "Series"}

    def __init__(
        self,
        transformer: Any = None,
        n_points: int | None = None,
        every: float | None = None,
        grid: Any = None,
        relative_to: str | None = "start",
    ) -> None:
        self.transformer = transformer
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
        self.resampler_ = Resampler(**self.get_params(deep=False)).fit(_read_instances(X)[0])
        return self

    def _transform(self, X: pd.DataFrame, y: Any = None) -> pd.DataFrame:
        panel, instances = _read_instances(X)
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
        transformer = InterpolationTransformer(n_coefficients=4)
        return [
            {"transformer": transformer, "n_points": 5},
            {"transformer": transformer, "n_points": 4, "relative_to": "end"},
        ]
