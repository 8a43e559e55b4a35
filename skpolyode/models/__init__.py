"""Torch modules: PolyODE, the data layout it runs on, and its training tasks."""

from skpolyode.models.coupled import SOLVERS, CoupledPolyODE
from skpolyode.models.packed import Packed, pack
from skpolyode.models.polyode import UPDATES, PolyODE
from skpolyode.models.scan import Step
from skpolyode.models.sweep import swept_predictions
from skpolyode.models.tasks import TASKS, IntervalTask, SeriesTask, forecasting_mse

__all__ = [
    "SOLVERS",
    "TASKS",
    "UPDATES",
    "CoupledPolyODE",
    "IntervalTask",
    "Packed",
    "PolyODE",
    "SeriesTask",
    "Step",
    "forecasting_mse",
    "pack",
    "swept_predictions",
]
