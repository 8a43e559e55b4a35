"""The one training loop. It knows tasks, not models."""

from __future__ import annotations

import copy
import math
import time
import warnings
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from tqdm.auto import tqdm

from skpolyode.training.checkpoint import Checkpoint
from skpolyode.training.muon import Muon

__all__ = ["Task", "Trainer", "one_cycle"]

_ERROR = "validation_error"


def one_cycle(step: int, total: int, warm_up: float = 0.02) -> float:
    """Share of the peak learning rate at a step: a linear rise, then a cosine to zero.

    Parameters
    ----------
    step : int
        Steps done.
    total : int
        Steps of the whole cycle.
    warm_up : float, default=0.02
        Share of the cycle that rises.

    Examples
    --------
    >>> from skpolyode.training import one_cycle
    >>> [round(one_cycle(step, 20), 2) for step in (0, 1, 2, 11, 20)]
    [0.5, 1.0, 0.99, 0.46, 0.0]
    """
    rise = max(1, round(warm_up * total))
    if step < rise:
        return (step + 1) / (rise + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise)))


class Task(Protocol):
    """What can be trained."""

    items: torch.Tensor
    is_preliminary: bool
    """Whether the last `refresh` gave an error that is not to be compared with later ones."""

    def refresh(self, progress: float) -> float:
        """Prepare an epoch; returns the validation error of the present weights.

        `progress` is the share of the epochs that is done, 1 at the end.
        """

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Loss of a minibatch, given by positions in `items`."""

    def state_dict(self) -> dict[str, Any]:
        """What `refresh` has prepared, for a checkpoint."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go back to it."""


@dataclass
class Trainer:
    """Muon with a one-cycle schedule, gradient clipping and early stopping.

    Parameters
    ----------
    learning_rate : float
        Peak of the schedule.
    batch_size : int
        Items a minibatch.
    max_epochs : int
        Passes over the items; the schedule spans all of them.
    patience : int or None
        Stop after this many epochs without a better validation error; None never stops early.
    verbose : int, default=0
        1 shows a progress bar.
    clip : float, default=0.5
        Largest norm of a gradient.

    Attributes
    ----------
    history : list of dict
        For each epoch ``epoch``, ``validation_error``, ``training_loss``, ``seconds`` (since the
        start). The error is that of the weights before the epoch's steps; the last entry, without
        a training loss, is that of the final weights.
    best_error : float
        Smallest validation error; the module leaves :meth:`run` with its weights.

    Examples
    --------
    A line through the origin, as a task:

    >>> import torch
    >>> from skpolyode.training import Trainer
    >>> class Line:
    ...     items = torch.arange(8)
    ...     is_preliminary = False
    ...     module = torch.nn.Linear(1, 1, bias=False)
    ...
    ...     def refresh(self, progress):
    ...         return self.loss(self.items).item()
    ...
    ...     def loss(self, index):
    ...         x = index[:, None] / 8
    ...         return (self.module(x) - 2 * x).square().mean()
    >>> trainer = Trainer(learning_rate=0.1, batch_size=4, max_epochs=50, patience=None)
    >>> trainer.run(Line.module, Line(), torch.Generator().manual_seed(0))
    >>> trainer.best_error < 0.05
    True
    """

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int | None
    verbose: int = 0
    clip: float = 0.5
    history: list[dict[str, float]] = field(default_factory=list, init=False)
    best_error: float = field(default=float("inf"), init=False)

    def run(
        self,
        module: nn.Module,
        task: Task,
        generator: torch.Generator,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Train the module in place; it ends with the best weights seen.

        Parameters
        ----------
        module : nn.Module
            Holds the parameters.
        task : Task
        generator : torch.Generator
            Source of the minibatches; no global generator is touched.
        checkpoint : Checkpoint or None, default=None
            Where the state of the training is kept until it ends. If it holds one, training goes
            on from there, and ends as it would have without the interruption.

        Warns
        -----
        ConvergenceWarning
            If the loss became infinite or NaN, or the user interrupted (Ctrl-C): the best weights
            are restored.
        """
        run = _Run(self, module, task, generator)
        try:
            run.train(checkpoint)
        except KeyboardInterrupt:
            self._warn(f"training was interrupted in epoch {len(self.history) - 1}")
        else:
            if checkpoint is not None:
                checkpoint.remove()
        module.load_state_dict(run.best)

    def _warn(self, what: str) -> None:
        warnings.warn(
            f"{what}; the best weights so far are kept (validation error {self.best_error:.3g}).",
            ConvergenceWarning,
            stacklevel=5,
        )


class _Run:
    """One training: what changes while it goes on."""

    def __init__(
        self, trainer: Trainer, module: nn.Module, task: Task, generator: torch.Generator
    ) -> None:
        self.trainer, self.module, self.task, self.generator = trainer, module, task, generator
        self.optimizer = Muon(module.parameters(), lr=trainer.learning_rate)
        self.best = copy.deepcopy(module.state_dict())
        self.epochs_since_best = 0
        self.n_batches = max(1, -(-len(task.items) // trainer.batch_size))

    def train(self, checkpoint: Checkpoint | None) -> None:
        trainer = self.trainer
        state = None if checkpoint is None else checkpoint.load()
        first = 0 if state is None else self._restore(state)
        start = time.perf_counter() - (trainer.history[-1]["seconds"] if state else 0.0)
        total = trainer.max_epochs + 1
        with tqdm(total=total, initial=first, disable=not trainer.verbose, unit="epoch") as bar:
            for epoch in range(first, total):
                if state is None or epoch > first:
                    self._validate(epoch, start)
                    bar.set_postfix(validation_error=f"{trainer.history[-1][_ERROR]:.4g}")
                    if checkpoint is not None:
                        checkpoint.save(self._state(epoch))
                bar.update()
                if self._is_over(epoch):
                    return
                loss = self._train_epoch(epoch)
                trainer.history[-1]["training_loss"] = loss
                if not math.isfinite(loss):
                    trainer._warn(
                        f"the training loss became infinite or NaN in epoch {epoch}; lower "
                        f"learning_rate_init (now {trainer.learning_rate:g})"
                    )
                    return

    def _validate(self, epoch: int, start: float) -> None:
        """Prepare the epoch, and see how good the weights are before it."""
        trainer = self.trainer
        error = self.task.refresh(epoch / trainer.max_epochs)
        seconds = time.perf_counter() - start
        trainer.history.append({"epoch": epoch, _ERROR: error, "seconds": seconds})
        if self.task.is_preliminary:
            return
        if error < trainer.best_error:
            trainer.best_error, self.epochs_since_best = error, 0
            self.best = copy.deepcopy(self.module.state_dict())
        else:
            self.epochs_since_best += 1

    def _is_over(self, epoch: int) -> bool:
        patience = self.trainer.patience
        stalled = patience is not None and self.epochs_since_best > patience
        return stalled or epoch == self.trainer.max_epochs or not len(self.task.items)

    def _train_epoch(self, epoch: int) -> float:
        """One pass over the items in random order; returns the mean loss."""
        trainer, total = self.trainer, 0.0
        n_steps = trainer.max_epochs * self.n_batches
        order = torch.randperm(len(self.task.items), generator=self.generator)
        for i, index in enumerate(order.tensor_split(self.n_batches)):
            self.optimizer.zero_grad()
            share = one_cycle(epoch * self.n_batches + i, n_steps)
            self.optimizer.lr = trainer.learning_rate * share
            loss = self.task.loss(index)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.module.parameters(), trainer.clip)
            if not torch.isfinite(norm):
                return float("nan")
            self.optimizer.step()
            total += loss.item() / self.n_batches
        return total

    def _state(self, epoch: int) -> dict[str, Any]:
        """All that the rest of the training depends on, before an epoch."""
        return {
            "epoch": epoch,
            "weights": dict(self.module.state_dict()),
            "best": dict(self.best),
            "best_error": self.trainer.best_error,
            "epochs_since_best": self.epochs_since_best,
            "history": self.trainer.history,
            "optimizer": self.optimizer.state,
            "generator": self.generator.get_state(),
            "task": self.task.state_dict(),
        }

    def _restore(self, state: dict[str, Any]) -> int:
        """Go back to a state; returns its epoch."""
        self.module.load_state_dict(state["weights"])
        self.best, self.epochs_since_best = state["best"], state["epochs_since_best"]
        self.trainer.best_error, self.trainer.history = state["best_error"], state["history"]
        self.optimizer.restore(state["optimizer"])
        self.generator.set_state(state["generator"])
        self.task.load_state_dict(state["task"])
        return state["epoch"]
