"""How files hold what sktime remembers of the data."""

from __future__ import annotations

from typing import Any

from sktime.datatypes._dtypekind import DtypeKind
from sktime.forecasting.base import ForecastingHorizon

from skpolyode.saving.codec import register
from skpolyode.saving.objects import estimator_from, estimator_state, place_estimator

__all__ = ["register_forecaster"]


def register_forecaster(cls: type) -> type:
    """Class decorator: files hold what does not follow from the rest."""

    def to_state(forecaster: Any) -> dict[str, Any]:
        state = estimator_state(forecaster)
        state["fitted"].pop("_context", None)
        return state

    def from_state(state: dict[str, Any]) -> Any:
        forecaster = estimator_from(cls, state)
        if "_context_y" in state["fitted"]:
            forecaster._set_context(forecaster._context_y)
        return forecaster

    register(cls, to_state, from_state, place=place_estimator)
    return cls


def _horizon_state(fh: ForecastingHorizon) -> dict[str, Any]:
    return {"values": fh.to_pandas(), "is_relative": fh.is_relative, "freq": fh.freq}


register(
    ForecastingHorizon,
    _horizon_state,
    lambda state: ForecastingHorizon(**state),
    part="forecasting",
)
register(
    DtypeKind,
    lambda kind: {"value": kind.value},
    lambda state: DtypeKind(state["value"]),
    part="forecasting",
)
