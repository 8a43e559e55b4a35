"""What is compared: every public transformer, some in variants, and the simplest baselines."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score
from sklearn.utils import Bunch

import skpolyode.transformers
from benchmarks.paper.simple import ChannelMean, LastValue
from benchmarks.protocol import label_auc, label_regression_mse
from skpolyode.memory import MEMORIES
from skpolyode.transformers import InterpolationTransformer
from skpolyode.transformers.base import SeriesTransformer

CEILING = "truth, all times"
POLYODE = "PolyODE"
# The embedding of the paper is the coefficients alone; no other parameter leaves its default.
PARAMETERS: dict[str, dict[str, Any]] = {POLYODE: {"embedding": "coefficients"}}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "Interpolation": {
        "constant": {"kind": "constant"},
        "linear": {"kind": "linear"},
        "hermite": {"kind": "hermite"},
        "hermite, centred": {"kind": "hermite", "causal": False},
        "pchip": {"kind": "pchip"},
        "cubic": {"kind": "cubic"},
    },
    "HiPPO": {measure: {"measure": measure} for measure in MEMORIES},
}
# Rows whose model the paper calls otherwise; the others have the name of their class there.
PUBLISHED = {
    "GRUODEBayes": "GRU-ODE-Bayes",
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
        known = self.kind().get_params()
        taken = {name: value for name, value in shared.items() if name in known}
        return self.kind(**{**taken, **self.parameters})

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

    def _is_boosted(self) -> bool:
        return self.name in BOOSTED


def all_rows() -> dict[str, Row]:
    """By name; a newly exported transformer is there by itself."""
    ceiling = Row(CEILING, InterpolationTransformer, {"kind": "cubic"}, sees_truth=True)
    baselines = [Row("mean", ChannelMean), Row("last value", LastValue)]
    return {row.name: row for row in [ceiling, *_transformer_rows(), *baselines]}


def _transformer_rows() -> Iterator[Row]:
    for exported in skpolyode.transformers.__all__:
        kind = getattr(skpolyode.transformers, exported)
        if not issubclass(kind, SeriesTransformer) or inspect.isabstract(kind):
            continue
        if kind is skpolyode.StaticFeatures:  # does not read the series
            continue
        name = exported.removesuffix("Transformer")
        for variant, parameters in VARIANTS.get(name, {"": {}}).items():
            yield Row(f"{name} {variant}".strip(), kind, PARAMETERS.get(name, {}) | parameters)
