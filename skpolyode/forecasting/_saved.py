"""How files hold what sktime remembers of the data."""

from __future__ import annotations

from typing import Any, Self

from sktime.datatypes._dtypekind import DtypeKind
from sktime.forecasting.base import ForecastingHorizon

from skpolyode.saving.codec import register
from skpolyode.saving.objects import SaveableForSktime

__all__ = ["SaveableForecaster"]


class SaveableForecaster(SaveableForSktime):
    """Mixin that leaves out of a file what follows from the rest."""

    def _get_state(self) -> dict[str, Any]:
        state = super()._get_state()
        state["fitted"].pop("_context", None)
        return state

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        forecaster = super()._from_state(state)
        if "_context_y" in state["fitted"]:
            forecaster._set_context(forecaster._context_y)
        return forecaster


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
