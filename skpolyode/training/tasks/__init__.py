"""Training tasks: what one epoch prepares, and the loss of a minibatch."""

from skpolyode.training.tasks.interval import IntervalTask, Minibatches, SubsampledTask
from skpolyode.training.tasks.polyode import PolyODETask

__all__ = [
    "IntervalTask",
    "Minibatches",
    "PolyODETask",
    "SubsampledTask",
]
