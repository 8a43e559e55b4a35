"""The report of a training run."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

from sklearn.exceptions import ConvergenceWarning

ALL_EPOCHS = "all epochs"
SETTLED = "errors did not fall any more"
INTERRUPTED = "interrupted"
INFINITE = "the loss became infinite"


@dataclass(frozen=True)
class TrainingReport:
    """How a training went.

    Parameters
    ----------
    history : list of dict
        For each epoch ``epoch``, ``validation_error``, ``error_ahead`` (where a task has one),
        ``training_loss``, ``n_items`` (trained on) and ``seconds`` (since the start). The errors
        are those of the weights before the epoch; the last entry, without a training loss, has
        those of the final weights.
    best_error : float
        Validation error of the weights that the module was left with; infinite if there is none.
    best_epoch : int
        Epoch before which the module had these weights.
    reason : str
        Why training stopped: "all epochs", "errors did not fall any more", "no improvement for 11
        epochs", "the loss became infinite", "interrupted" or "nothing to train on".

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


class Judged(NamedTuple):
    """One-step forecasts of held-out series beside the mean of their channels."""

    error: float  # mean square, in standardised units
    error_of_mean: float
    standard_error: float  # of the difference, from how series differ
    n_series: int

    @property
    def gain(self) -> float:
        """Error of the mean less that of the forecasts."""
        return self.error_of_mean - self.error

    @property
    def is_sure(self) -> bool:
        """Whether the gain is more than chance would give."""
        return self.gain > 2 * self.standard_error

    def __str__(self) -> str:
        return (
            f"on {self.n_series} held-out series their error is {self.error:.3g}, that of the mean "
            f"{self.error_of_mean:.3g}: a difference of {self.gain:.2g} ± {self.standard_error:.2g}"
        )


def warn_if_nothing_was_learned(
    report: TrainingReport, judged: Judged | None, *, from_scratch: bool
) -> None:
    """Warn of a model that forecasts no better than the mean, or than the untrained model.

    Weights that a warm start goes on from may be the best already; only a model that was trained
    `from_scratch` is compared with the untrained one.
    """
    what = f"nothing was learned in {report.n_epochs} epochs"
    found = f"validation_error_={report.best_error:.3g}, that of the mean is 1"
    if judged is not None:
        found = str(judged)
    # Held-out series may vary more than the others; the error of the mean is then above 1, too.
    if report.best_error > 1 and (judged is None or not judged.gain > 0):
        why = "forecasts are worse than the mean of their channels"
    elif from_scratch and report.best_epoch == 0 < report.best_error:
        why = "no weights forecast better than the untrained ones, which were kept"
    elif from_scratch and judged is not None and not judged.is_sure and report.best_error > 0:
        what = f"it is not sure that anything was learned in {report.n_epochs} epochs"
        why = "forecasts are no better than the mean of their channels, or by chance"
    else:
        return
    warnings.warn(
        f"{what}: {why} ({found}). Train on more series, lower learning_rate_init, or use "
        "HiPPOTransformer, which needs no training: noise cannot be forecast.",
        ConvergenceWarning,
        stacklevel=6,
    )
