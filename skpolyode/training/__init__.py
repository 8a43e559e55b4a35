"""Training: one loop for every neural model."""

from skpolyode.training.loop import Trainer, TrainingReport, one_cycle
from skpolyode.training.muon import Muon, orthogonalise
from skpolyode.training.tasks.interval import forecasting_mse, prediction_loss

__all__ = [
    "Muon",
    "Trainer",
    "TrainingReport",
    "forecasting_mse",
    "one_cycle",
    "orthogonalise",
    "prediction_loss",
]
