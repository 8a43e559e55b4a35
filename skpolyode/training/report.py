"""The report of a training."""

from __future__ import annotations

import math
from dataclasses import dataclass

ALL_EPOCHS = "all epochs"
INTERRUPTED = "interrupted"
INFINITE = "the loss became infinite"


@dataclass(frozen=True)
class TrainingReport:
    """How a training went.

    Parameters
    ----------
    history : list of dict
        For each epoch ``epoch``, ``validation_error``, ``training_loss``, ``n_items`` (trained on)
        and ``seconds`` (since the start). The error is that of the weights before the epoch; the
        last entry, without a training loss, has that of the final weights.
    best_error : float
        Validation error of the weights that the module was left with; infinite if there is none.
    best_epoch : int
        Epoch before which the module had these weights.
    reason : str
        Why training stopped: "all epochs", "no improvement for 11 epochs", "the loss became
        infinite", "interrupted" or "nothing to train on".

    Examples
    --------
    >>> from skpolyode.training import TrainingReport
    >>> history = [
    ...     {"epoch": 0, "validation_error": 1.0, "seconds": 0.1, "training_loss": 0.8},
    ...     {"epoch": 1, "validation_error": 0.5, "seconds": 0.2},
    ... ]
    >>> report = TrainingReport(history, best_error=0.5, best_epoch=1, reason="interrupted")
    >>> report.n_epochs
    1
    >>> report.message
    'training was interrupted in epoch 1; the best weights so far are kept (validation error 0.5)'
    """

    history: list[dict[str, float]]
    best_error: float
    best_epoch: int
    reason: str

    @property
    def n_epochs(self) -> int:
        """Epochs that were trained to their end."""
        return sum("training_loss" in entry for entry in self.history)

    @property
    def was_interrupted(self) -> bool:
        """Whether the user stopped it (Ctrl-C)."""
        return self.reason == INTERRUPTED

    @property
    def message(self) -> str:
        """One sentence for users."""
        where = f"in epoch {self.history[-1]['epoch']}" if self.history else "at its start"
        what = {
            INTERRUPTED: f"training was interrupted {where}",
            INFINITE: f"the training loss became infinite or NaN {where}",
        }.get(self.reason, f"training ended {where} ({self.reason})")
        if not math.isfinite(self.best_error):
            return f"{what}; nothing was learned yet"
        return f"{what}; the best weights so far are kept (validation error {self.best_error:.3g})"
