"""The one training loop. It knows tasks, not models."""

from __future__ import annotations

import copy
import math
import time
import warnings
from dataclasses import dataclass, field
from typing import Protocol

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from tqdm.auto import tqdm

from skpolyode.training.muon import Muon

__all__ = ["Task", "Trainer", "one_cycle"]


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
    cost: torch.Tensor
    """Of each item: a minibatch takes as long as its most expensive one."""

    def refresh(self, progress: float) -> float:
        """Prepare an epoch; returns the validation error of the present weights.

        `progress` is the share of the epochs that is done, 1 at the end.
        """

    def loss(self, index: torch.Tensor) -> torch.Tensor:
        """Loss of a minibatch, given by positions in `items`."""


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
    ...     cost = torch.ones(8)
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

    def run(self, module: nn.Module, task: Task, generator: torch.Generator) -> None:
        """Train the module in place; it ends with the best weights seen.

        Parameters
        ----------
        module : nn.Module
            Holds the parameters.
        task : Task
        generator : torch.Generator
            Source of the minibatches; no global generator is touched.

        Warns
        -----
        ConvergenceWarning
            If the loss became infinite or NaN; the best weights are restored.
        """
        n_batches = max(1, -(-len(task.items) // self.batch_size))
        optimizer = Muon(module.parameters(), lr=self.learning_rate)
        n_steps = self.max_epochs * n_batches
        rates = (self.learning_rate * one_cycle(step, n_steps) for step in range(n_steps))
        start, best = time.perf_counter(), copy.deepcopy(module.state_dict())
        epochs_since_best = 0
        epochs = tqdm(range(self.max_epochs + 1), disable=not self.verbose, unit="epoch")
        for epoch in epochs:
            error = task.refresh(epoch / self.max_epochs)
            entry = {"epoch": epoch, "validation_error": error}
            self.history.append(entry)
            entry["seconds"] = time.perf_counter() - start
            epochs.set_postfix(validation_error=f"{error:.4g}")
            if error < self.best_error:
                self.best_error, epochs_since_best = error, 0
                best = copy.deepcopy(module.state_dict())
            else:
                epochs_since_best += 1
            stalled = self.patience is not None and epochs_since_best > self.patience
            if stalled or epoch == self.max_epochs or not len(task.items):
                break
            entry["training_loss"] = self._epoch(module, task, optimizer, rates, generator)
            if not torch.isfinite(torch.tensor(entry["training_loss"])):
                self._warn_diverged(epoch)
                break
        epochs.close()
        module.load_state_dict(best)

    def _epoch(self, module, task, optimizer, rates, generator) -> float:
        """One pass over the items in random order; returns the mean loss."""
        total, batches = 0.0, self._batches(task.cost, generator)
        for index in batches:
            optimizer.zero_grad()
            optimizer.lr = next(rates)
            loss = task.loss(index)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(module.parameters(), self.clip)
            if not torch.isfinite(norm):
                return float("nan")
            optimizer.step()
            total += loss.item() / len(batches)
        return total

    def _batches(self, cost: torch.Tensor, generator: torch.Generator) -> list[torch.Tensor]:
        """Minibatches in random order, each of random items of about the same cost.

        On Lorenz63 that makes an epoch 1.3 times faster, and training neither better nor worse.
        """
        order = torch.randperm(len(cost), generator=generator)
        order = order[cost[order].argsort(stable=True)]
        batches = order.tensor_split(max(1, -(-len(order) // self.batch_size)))
        return [batches[i] for i in torch.randperm(len(batches), generator=generator)]

    def _warn_diverged(self, epoch: int) -> None:
        warnings.warn(
            f"the training loss became infinite or NaN in epoch {epoch}; the best weights so far "
            f"are kept (validation error {self.best_error:.3g}). Lower learning_rate_init "
            f"(now {self.learning_rate:g}).",
            ConvergenceWarning,
            stacklevel=4,
        )
