"""Training: one loop for every neural model."""

from skpolyode.training.loop import Trainer
from skpolyode.training.losses import forecasting_mse, prediction_loss
from skpolyode.training.muon import Muon, orthogonalise
from skpolyode.training.report import TrainingReport
from skpolyode.training.schedule import one_cycle

__all__ = [
    "Muon",
    "Trainer",
    "TrainingReport",
    "forecasting_mse",
    "one_cycle",
    "orthogonalise",
    "prediction_loss",
]
