"""Estimators of files of format 1, whose fitted attributes lay side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from skpolyode.embedders import (
    Embedder,
    LeastSquaresEmbedder,
    MemoryReadout,
    ModelEmbedder,
    PathEmbedder,
    SummaryEmbedder,
    Units,
)
from skpolyode.memory import MEMORIES
from skpolyode.models import PolyODE
from skpolyode.panel.rows import default_channel_names
from skpolyode.saving.codec import MovedError

__all__ = ["STUDIED", "upgrade"]

_Parts = dict[str, Any]


def _past(params: _Parts, fitted: _Parts) -> MemoryReadout:
    units = Units(fitted["scaler_"], fitted["time_scale_"])
    window = fitted["window_"]
    measure = MEMORIES[params.get("measure", "legt")]
    memory = measure(params["n_coefficients"], window / units.time_scale)
    return MemoryReadout(memory, window, units)


def _hippo(params: _Parts, fitted: _Parts) -> Embedder:
    past = _past(params, fitted)
    path = {"linear": "linear", "previous": "constant"}[params["hold"]]
    return PathEmbedder(past.units, past, path)


def _interpolation(params: _Parts, fitted: _Parts) -> Embedder:
    past, kind = _past(params, fitted), params["kind"]
    path = "centred" if kind == "hermite" and not params["causal"] else kind
    return PathEmbedder(past.units, past, path)


def _legendre_fit(params: _Parts, fitted: _Parts) -> Embedder:
    past = _past(params, fitted)
    return LeastSquaresEmbedder(past.units, past, params["alpha"])


def _summary(params: _Parts, fitted: _Parts) -> Embedder:
    return SummaryEmbedder(Units(fitted["scaler_"], 1.0))


def _polyode(params: _Parts, fitted: _Parts) -> Embedder:
    past, step_size = _past(params, fitted), fitted["step_size_"]
    unit = past.units.time_scale
    model = PolyODE(
        fitted["field_"],
        past.memory,
        step_size=step_size / unit,
        max_gap=float(np.ceil(20 * past.window / step_size) * step_size) / unit,
        start=fitted["start_"],
    )
    both = ("coefficients", "hidden")
    blocks = both if params["embedding"] == "full" else (params["embedding"],)
    static = fitted["static_"]
    static = static if static is not None and static.n_features else None
    return ModelEmbedder(model.float(), past.units, blocks, past, recent=past, static=static)


_EMBEDDERS: dict[str, Callable[[_Parts, _Parts], Embedder]] = {
    "HiPPOTransformer": _hippo,
    "InterpolationTransformer": _interpolation,
    "LegendreFitTransformer": _legendre_fit,
    "SummaryStatsTransformer": _summary,
    "PolyODETransformer": _polyode,
}

_REPLACED = ("scaler_", "time_scale_", "window_", "field_", "start_", "static_")
STUDIED = {"update": "bridge", "gradient": "interval", "solver": "exact"}
"""Parameters that a `PolyODETransformer` no longer has, and what it does today."""


def upgrade(name: str, state: _Parts) -> _Parts:
    """State of today of an estimator of a class of this name; one of today stays as it is."""
    params, fitted = dict(state["params"]), dict(state["fitted"])
    if name == "PolyODETransformer":
        studied = {choice: params.pop(choice, default) for choice, default in STUDIED.items()}
        if studied != STUDIED:
            raise MovedError("study.PaperPolyODETransformer")
    if not params.pop("early_stopping", True):
        params["validation_fraction"] = None
    params.pop("n_iter_no_change", None)
    if "scaler_" in fitted and name in _EMBEDDERS:
        names = fitted["channel_names_"]
        fitted["has_channel_names_"] = names != default_channel_names(len(names))
        fitted["embedder_"] = _EMBEDDERS[name](params, fitted)
        fitted = {key: value for key, value in fitted.items() if key not in _REPLACED}
    return {"params": params, "fitted": fitted}
