"""Transformers of this package as transformers of sktime."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import pandas as pd
from sklearn.base import clone
from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags
from sktime.transformations.base import BaseTransformer

from skpolyode.panel import Panel
from skpolyode.panel.readers.long import refuse_repeated_rows
from skpolyode.saving.objects import SafeFiles, register_estimator
from skpolyode.transformers import HiPPOTransformer, PolyODETransformer
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.input import unchanged_by_errors


def _read_instances(X: pd.DataFrame) -> tuple[Panel, pd.Index]:
    """Panel of a frame whose index levels are instances and times, and the index of its instances.

    The rows of an instance need not be neighbours. Two rows with the same time are an error.
    """
    refuse_repeated_rows(X, "X")
    # The ids of a panel cannot be tuples or of mixed types, as labels of instances can.
    return Panel.from_sktime(X), X.index.droplevel(-1).unique()


@register_estimator
class SeriesFeatures(SafeFiles, BaseTransformer):
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

    # scikit-learn's Pipeline sets this attribute before fit and deletes it afterwards. In between,
    # the reset of sktime deletes all attributes that the class does not have.
    _parent_callback_ctx = None
    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["the skpolyode developers"],
        "maintainers": ["the skpolyode developers"],
        "python_dependencies": ["torch"],
        "scitype:transform-input": "Series",
        "scitype:transform-output": "Primitives",
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
        "capability:inverse_transform": True,
        "capability:inverse_transform:exact": False,
    }

    def __init__(self, transformer: SeriesTransformer | None = None) -> None:
        self.transformer = transformer
        super().__init__()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer.

        Parameters
        ----------
        X : series, panel or hierarchy in any of sktime's formats
            The series.
        y : None, default=None
            Ignored.

        Returns
        -------
        self
        """
        with unchanged_by_errors(self):
            return super().fit(X, y)

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
