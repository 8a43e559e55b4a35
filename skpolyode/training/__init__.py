"""Training: one loop for every neural model."""

from skpolyode.training.loop import Task, Trainer, one_cycle
from skpolyode.training.threads import intra_op_threads

__all__ = ["Task", "Trainer", "intra_op_threads", "one_cycle"]
