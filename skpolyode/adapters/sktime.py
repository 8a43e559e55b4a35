"""Transformers of this package as transformers of sktime: from panels to tables of features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags
from sktime.transformations.base import BaseTransformer

from skpolyode.panel import Panel
from skpolyode.saving.objects import register_estimator, save_by_name
from skpolyode.transformers import PolyODETransformer

__all__ = ["PolyODEFeatures", "SeriesFeatures", "read_instances"]


class _Features(BaseTransformer):
    """What every adapter shares: sktime's panels and hierarchies in, one row an instance out."""

    # sktime's reset deletes what is no attribute of the class, and scikit-learn's Pipeline sets
    # this one before fit and deletes it after.
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
        "capability:inverse_transform": True,
        "capability:inverse_transform:exact": False,
        "capability:random_state": True,
        "property:randomness": "derandomized",
    }

    save = save_by_name(BaseTransformer.save)

    @abstractmethod
    def _new_transformer(self) -> Any:
        """Unfitted transformer of this package."""

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
        # Overridden as a whole: sktime's own takes the table of features for one series.
        self.check_is_fitted()
        return self._inverse_transform(X, times=times)

    def _inverse_transform(self, X: Any, y: Any = None, times: Any = None) -> Panel:
        if not hasattr(self.transformer_, "inverse_transform"):
            raise NotImplementedError(
                f"{type(self.transformer_).__name__} cannot turn features back into series; use a "
                "transformer whose features are coefficients."
            )
        series = self.transformer_.inverse_transform(np.asarray(X, dtype=np.float64), times)
        ids = X.index.to_list() if isinstance(X, pd.DataFrame) else None
        return Panel(
            series.times, series.values, series.offsets, ids=ids, channel_names=self._names
        )

    def _fit(self, X: pd.DataFrame, y: Any = None) -> Self:
        self._names = tuple(map(str, X.columns))
        self.transformer_ = self._new_transformer().fit(read_instances(X)[0])
        return self

    def _transform(self, X: pd.DataFrame, y: Any = None) -> pd.DataFrame:
        panel, instances = read_instances(X)
        columns = self.transformer_.get_feature_names_out()
        return pd.DataFrame(self.transformer_.transform(panel), index=instances, columns=columns)

    def __sklearn_tags__(self) -> Tags:
        # Not inherited: scikit-learn's pipelines and searches ask for it, sktime has none.
        return Tags(
            estimator_type="transformer",
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(two_d_array=False, three_d_array=True, allow_nan=True),
        )


def read_instances(X: pd.DataFrame) -> tuple[Panel, pd.Index]:
    """Panel of a frame with instances and times as index levels, and the instances in its order.

    Rows of an instance need not be neighbours; those of equal time are averaged.
    """
    instances = X.index.droplevel(-1).unique()
    # Ids may be tuples or mixed: the index carries them, the panel need not.
    panel = Panel.from_sktime(X, duplicates="mean")
    return panel, instances


@register_estimator
class SeriesFeatures(_Features):
    """Any transformer of this package as a series-to-features transformer of sktime.

    ``SeriesFeatures(HiPPOTransformer()) * RandomForestClassifier()`` is an sktime classifier. In
    scikit-learn's own pipelines the transformer itself does, without an adapter.

    Parameters
    ----------
    transformer : transformer of this package or None, default=None
        What makes the features; not fitted itself, but a clone of it. Its parameters are
        reached as ``transformer__<name>``. None: a `PolyODETransformer` with its defaults.

    Attributes
    ----------
    transformer_ : transformer of this package
        The fitted clone.

    See Also
    --------
    PolyODEFeatures : The same with the parameters of `PolyODETransformer` as its own.

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

    # The seed is a parameter of its parameter, where sktime's tags cannot see it.
    _tags: ClassVar[dict[str, Any]] = {
        "capability:random_state": False,
        "property:randomness": "stochastic",
    }

    def __init__(self, transformer: Any = None) -> None:
        self.transformer = transformer
        super().__init__()

    def _new_transformer(self) -> Any:
        return PolyODETransformer() if self.transformer is None else clone(self.transformer)

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
        return [{"transformer": PolyODETransformer(**own)} for own in _SMALL]


@register_estimator
class PolyODEFeatures(_Features):
    """Embed series by PolyODE, as a series-to-features transformer of sktime.

    ``PolyODEFeatures() * LogisticRegression()`` is an sktime classifier; sktime's grid searches
    reach its parameters as ``PolyODEFeatures__<name>``. The coefficients work best on their
    common scale: put no scaler of single features behind them. For the parameters that are missing
    here use `SeriesFeatures` around a `PolyODETransformer`.

    Parameters
    ----------
    n_coefficients : int, default=32
        Coefficients a channel. Raise it if the window holds more than about ten swings.
    measure : {"legt", "legs"}, default="legt"
        How the past is weighted: "legt" remembers the last `window` evenly, "legs" the whole
        history.
    window : float or "auto", default="auto"
        Length of the remembered past, in the units of the index (seconds for datetimes). Lower
        it if only the recent past matters.
    step_size : float or "auto", default="auto"
        Longest integration step, in the units of the index.
    hidden_layer_sizes : tuple of int, default=(64, 64)
        Widths of the network's hidden layers.
    embedding : {"full", "coefficients", "hidden"}, default="full"
        The coefficients, the state of the dynamics, or both.
    learning_rate_init : float, default=0.05
        Peak of the one-cycle schedule. Lower it if training diverges.
    batch_size : int or "auto", default="auto"
        Intervals a minibatch.
    max_epochs : int, default=40
        Passes over the intervals.
    early_stopping : bool, default=True
        Stop when the error of held-out series no longer falls.
    validation_fraction : float, default=0.1
        Share of the series held out.
    n_iter_no_change : int, default=10
        Epochs without improvement before training stops early; those of the coarse first eighth
        of `max_epochs` do not count.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, minibatches and held-out series.
    device : str, default="cpu"
        Where torch trains and embeds, for example "cuda".
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    transformer_ : PolyODETransformer
        The fitted transformer.

    See Also
    --------
    skpolyode.transformers.PolyODETransformer : The transformer, for scikit-learn, and the
        meaning of its parameters in full.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sktime.datasets import load_unit_test
    >>> from skpolyode.adapters import PolyODEFeatures
    >>> X, y = load_unit_test(split="train")
    >>> features = PolyODEFeatures(n_coefficients=4, max_epochs=1, random_state=0)
    >>> classifier = features * LogisticRegression()
    >>> classifier.fit(X, y).predict(X).shape
    (20,)
    """

    def __init__(
        self,
        n_coefficients: int = 32,
        measure: str = "legt",
        window: float | str = "auto",
        step_size: float | str = "auto",
        hidden_layer_sizes: Sequence[int] = (64, 64),
        embedding: str = "full",
        learning_rate_init: float = 0.05,
        batch_size: int | str = "auto",
        max_epochs: int = 40,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int = 0,
    ) -> None:
        self.n_coefficients = n_coefficients
        self.measure = measure
        self.window = window
        self.step_size = step_size
        self.hidden_layer_sizes = hidden_layer_sizes
        self.embedding = embedding
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.random_state = random_state
        self.device = device
        self.verbose = verbose
        super().__init__()

    def _new_transformer(self) -> PolyODETransformer:
        return PolyODETransformer(**self.get_params(deep=False))

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
        return _SMALL


_SMALL: list[dict[str, Any]] = [
    {
        "n_coefficients": 2,
        "hidden_layer_sizes": (8,),
        "step_size": 1e7,
        "max_epochs": 1,
        "random_state": 0,
    },
    {
        "n_coefficients": 3,
        "hidden_layer_sizes": (4,),
        "step_size": 1e7,
        "max_epochs": 1,
        "embedding": "coefficients",
        "random_state": 1,
    },
]
