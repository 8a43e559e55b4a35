"""What is compared: every public transformer, some in variants, and the simplest baselines."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

import skpolyode
from benchmarks.paper.simple import ChannelMean, LastValue
from benchmarks.protocol import label_auc, label_regression_mse
from skpolyode.memory import MEMORIES
from skpolyode.panel import Panel
from skpolyode.siblings import PastDecoder
from skpolyode.siblings.cells import DrivenCell
from skpolyode.transformers import InterpolationTransformer
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.neural import NeuralTransformer

CEILING = "truth, all times"
POLYODE = "PolyODE"
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    # The embedding of the paper is the coefficients alone; no other parameter leaves its default.
    # With the learned state a decoder reads the past, as from the states of other models.
    POLYODE: {
        "": {"embedding": "coefficients"},
        "state": {"embedding": "state"},
        "decoded": {"embedding": "coefficients_state"},
    },
    "Interpolation": {
        "constant": {"kind": "constant"},
        "linear": {"kind": "linear"},
        "hermite": {"kind": "hermite"},
        "hermite, centred": {"kind": "hermite", "causal": False},
        "pchip": {"kind": "pchip"},
        "cubic": {"kind": "cubic"},
    },
    "HiPPO": {measure: {"measure": measure} for measure in MEMORIES},
    "NeuralRDE": {"": {}, "depth 1": {"depth": 1}},
    # The paper does not say what its "Extended-S4" is: ours has the memory, and no published row.
    "S4": {"": {}, "with memory": {"memory": True}},
}
# Rows whose model the paper calls otherwise; the others have the name of their class there.
PUBLISHED = {
    "GRUODEBayes": "GRU-ODE-Bayes",
    "HiPPORNN": "HiPPO-RNN",
    "NeuralRDE": "Neural-RDE",
    "ODERNN": "ODE-RNN",
    "HiPPO legt": "HiPPO-obs",
    "Interpolation constant": "Constant",
    "Interpolation linear": "Linear",
    "Interpolation hermite": "Hermite",
}
BOOSTED = ("SummaryStats",)


@dataclass(frozen=True)
class Row:
    """A method: how to make it, and what learns the label from its embedding."""

    name: str
    kind: type[BaseEstimator]
    parameters: dict[str, Any] = field(default_factory=dict)
    sees_truth: bool = False

    def estimator(self, seed: int, **shared: Any) -> BaseEstimator:
        """Unfitted, with those of the parameters that all rows share which it has."""
        shared = {"random_state": seed, **shared}
        if self.parameters.get("measure") == "fout" and "n_coefficients" in shared:
            shared["n_coefficients"] |= 1  # pairs of sines and cosines, and the mean
        return self.kind(**{**_known(self.kind, shared), **self.parameters})

    def auc(self, embedding: np.ndarray, data: Bunch, seed: int) -> float:
        if not self._is_boosted():
            return label_auc(embedding, data, seed)
        test = data.split == "test"
        model = HistGradientBoostingClassifier(random_state=seed)
        model.fit(embedding[~test], data.y[~test])
        return float(roc_auc_score(data.y[test], model.predict_proba(embedding[test])[:, 1]))

    def label_regression_mse(self, embedding: np.ndarray, data: Bunch, seed: int) -> float:
        if not self._is_boosted():
            return label_regression_mse(embedding, data, seed)
        test = data.split == "test"
        model = HistGradientBoostingRegressor(random_state=seed)
        model.fit(embedding[~test], data.label_value[~test])
        return float(np.mean((model.predict(embedding[test]) - data.label_value[test]) ** 2))

    @property
    def is_sibling(self) -> bool:
        """Whether it is another model that is trained, which takes most of the time."""
        return issubclass(self.kind, NeuralTransformer) and not self.name.startswith(POLYODE)

    @property
    def has_field(self) -> bool:
        """Whether its dynamics follow a vector field, which can be run backward."""
        return self.name == POLYODE or issubclass(getattr(self.kind, "model", object), DrivenCell)

    def _is_boosted(self) -> bool:
        return self.name in BOOSTED


def with_past(estimator: BaseEstimator, training: Panel, seed: int, **shared: Any) -> Any:
    """What reads the past of a fitted estimator's series, or None.

    That is itself, or, of a neural model whose embedding is or has a learned state, a decoder of
    its frozen features.
    """
    if hasattr(estimator, "reconstruct") and "state" not in getattr(estimator, "embedding", ""):
        return estimator
    if not isinstance(estimator, NeuralTransformer):
        return None
    shared = _known(PastDecoder, {"random_state": seed, **shared})
    return PastDecoder(FrozenEstimator(estimator), **shared).fit(training)


def _known(kind: type[BaseEstimator], parameters: dict[str, Any]) -> dict[str, Any]:
    """Those parameters that a kind of estimator has."""
    known = kind().get_params()
    return {name: value for name, value in parameters.items() if name in known}


def all_rows() -> dict[str, Row]:
    """By name; a newly exported transformer is there by itself."""
    ceiling = Row(CEILING, InterpolationTransformer, {"kind": "cubic"}, sees_truth=True)
    baselines = [Row("mean", ChannelMean), Row("last value", LastValue)]
    return {row.name: row for row in [ceiling, *_transformer_rows(), *baselines]}


def _transformer_rows() -> Iterator[Row]:
    for exported in skpolyode.__all__:
        kind = getattr(skpolyode, exported)
        if not inspect.isclass(kind) or not issubclass(kind, SeriesTransformer):
            continue
        # One does not read the series, the other one embeds by one of the rows.
        if kind in (skpolyode.StaticFeatures, PastDecoder):
            continue
        name = exported.removesuffix("Transformer")
        for variant, parameters in VARIANTS.get(name, {"": {}}).items():
            yield Row(f"{name} {variant}".strip(), kind, parameters)
