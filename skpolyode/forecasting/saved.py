"""How files hold a forecaster and what sktime remembers of the data."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from sktime.datatypes._dtypekind import DtypeKind
from sktime.forecasting.base import ForecastingHorizon

from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.decompose import Decomposition
from skpolyode.ensemble.stacking import StackedForecast
from skpolyode.forecasting.frames import Context, read_context
from skpolyode.saving.codec import register, restored
from skpolyode.transformers import PolyODETransformer

__all__ = ["upgraded"]

_OWN = {"calibration_fraction", "update_epochs", "random_state"}


def upgraded(state: dict[str, Any]) -> dict[str, Any]:
    """State of a forecaster, from that of any version."""
    params, fitted = state["params"], dict(state["fitted"])
    if "embedder" not in params:  # PolyODE was the only model, its parameters the forecaster's own
        others = {name: value for name, value in params.items() if name not in _OWN}
        embedder = restored(PolyODETransformer, {"params": others, "fitted": {}})
        params = {name: value for name, value in params.items() if name in _OWN}
        params["embedder"] = embedder
    if "_context_y" in fitted:
        freq = getattr(fitted["_cutoff"], "freq", None)
        fitted["_context"] = read_context(fitted.pop("_context_y"), freq)
    if damping := getattr(fitted.get("calibration_"), "damping", ()):
        # As `retrain` does, on a shallow copy: what embeds is made anew.
        embedder = fitted["embedder_"] = copy.copy(fitted["embedder_"])
        leads = [own.leads / embedder.time_scale_ for own in damping]
        stacking = StackedForecast.of_damping(leads, [own.factors for own in damping])
        embedder.embedder_ = replace(embedder.embedder_, stacking=stacking)
        fitted["calibration_"] = Calibration(fitted["calibration_"].errors)
    if "embedder_" in fitted and "decomposition_" not in fitted:
        fitted["decomposition_"] = Decomposition.none(fitted["embedder_"].n_channels_in_)
    if "embedder_" in fitted:
        fitted.setdefault("path_calibration_", None)
        fitted.setdefault("structural_", None)
    return {"params": params, "fitted": fitted}


register(
    Context,
    lambda own: {"y": own.y, "freq": None if own.freq is None else own.freq.freqstr},
    lambda state: read_context(**state),
)
register(
    ForecastingHorizon,
    lambda fh: {"values": fh.to_pandas(), "is_relative": fh.is_relative, "freq": fh.freq},
    lambda state: ForecastingHorizon(**state),
    part="forecasting",
)
register(
    DtypeKind,
    lambda kind: {"value": kind.value},
    lambda state: DtypeKind(state["value"]),
    part="forecasting",
)
