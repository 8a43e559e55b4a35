"""Training: one loop for every neural model."""

from skpolyode.training.loop import Muon, Trainer, TrainingReport, one_cycle, orthogonalise
from skpolyode.training.tasks import forecasting_mse, prediction_loss

__all__ = [
    "Muon",
    "Trainer",
    "TrainingReport",
    "forecasting_mse",
    "one_cycle",
    "orthogonalise",
    "prediction_loss",
]
