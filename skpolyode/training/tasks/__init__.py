"""Training tasks: what one epoch prepares, and the loss of a minibatch."""

from skpolyode.training.tasks.interval import IntervalTask, Minibatches
from skpolyode.training.tasks.polyode import PolyODETask
from skpolyode.training.tasks.subsample import SubsampledTask

__all__ = [
    "IntervalTask",
    "Minibatches",
    "PolyODETask",
    "SubsampledTask",
]
