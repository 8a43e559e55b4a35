"""The one training loop. It knows tasks, not models: settings go in, a report comes out."""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import nn
from tqdm.auto import tqdm

from skpolyode.training.averaging import WeightAverage, applied, weights_of
from skpolyode.training.muon import Muon
from skpolyode.training.report import ALL_EPOCHS, INFINITE, INTERRUPTED, SETTLED, TrainingReport
from skpolyode.training.schedule import Cycle, is_surely_larger
from skpolyode.training.task import Task, Turn

_ERROR, _AHEAD, _LOSS = "validation_error", "error_ahead", "training_loss"
SETTLING = 4  # epochs at least after a turn


@dataclass(frozen=True)
class Trainer:
    """A one-cycle schedule, gradient clipping and early stopping.

    Parameters
    ----------
    learning_rate : float
        Peak of the schedule.
    batch_size : int
        Items per minibatch.
    max_epochs : int
        Passes over the items; the schedule spans all of them, or ends early (see `Cycle`).
    patience : int or None
        Stop after this many epochs whose validation error was surely larger than the best one (see
        `is_surely_larger`), once trained weights were better than untrained ones; None never stops
        early.
    clip : float, default=0.5
        Largest norm of a gradient.
    averaged : float, default=0.05
        Share of all steps over which weights are averaged; 0 averages none. The average is
        validated and kept, and a task prepares its epochs with it. When it was chosen, the test for
        noise still had the weights of the last step, and later weights did not win ties. Over 21
        small real sets errors of the next row, without the stack, were then 0.99, 1.01, 0.95 and
        0.96 times those of 0 with 0.0125, 0.025, 0.05 and 0.1. Today they are 0.985 and 0.956 times
        those (two seeds).
    optimizer : callable, default=Muon
        Makes an optimizer of the parameters and the keyword `lr`. It must offer what
        :class:`Muon` does: `lr`, `zero_grad` and `step`.
    slowest : float, default=0.0625
        Share of the rate down to which it is halved where noise is being learned; 1 never halves
        it. Compared with 1, squared errors 4, 8 and 16 rows ahead are 0.98, 0.97 and 0.90 times as
        large on wards, those 1, 4, 8 and 16 rows ahead 0.96, 0.97, 0.93 and 0.89 times on storms,
        and 1.06 times on wages. On simulated systems and turbofan engines hardly any fit learns
        noise.
    as_good : float, default=1.02
        The last weights are kept unless their product of errors is so many times the best one.
    remedy : str, default="lower it"
        Advice at the end of the warning about an infinite loss, which names the rate.
    turn : Turn or None, default=None
        A decision during training, which may change the module.

    Examples
    --------
    A line through the origin, as a task:

    >>> import torch
    >>> from skpolyode.training import Trainer
    >>> from skpolyode.training.task import Task
    >>> class Line(Task):
    ...     items = torch.arange(8)
    ...     module = torch.nn.Linear(1, 1, bias=False)
    ...
    ...     def refresh(self, progress):
    ...         return self.loss(self.items).item()
    ...
    ...     def loss(self, index):
    ...         x = index[:, None] / 8
    ...         return (self.module(x) - 2 * x).square().mean()
    >>> trainer = Trainer(learning_rate=0.1, batch_size=4, max_epochs=50, patience=None)
    >>> report = trainer.run(Line.module, Line(), torch.Generator().manual_seed(0))
    >>> report.best_error < 0.05, report.reason
    (True, 'all epochs')
    """

    learning_rate: float
    batch_size: int
    max_epochs: int
    patience: int | None
    clip: float = 0.5
    averaged: float = 0.05
    optimizer: Callable[..., Any] = Muon
    slowest: float = 1 / 16
    as_good: float = 1.02
    remedy: str = "lower it"
    turn: Turn | None = None

    def run(
        self,
        module: nn.Module,
        task: Task,
        generator: torch.Generator,
        bar: tqdm | None = None,
    ) -> TrainingReport:
        """Train the module in place; it ends with the best weights seen.

        Parameters
        ----------
        module : nn.Module
            Holds the parameters.
        task : Task
        generator : torch.Generator
            Source of the minibatches; no global generator is touched.
        bar : tqdm or None, default=None
            Progress bar that counts the epochs.

        Returns
        -------
        TrainingReport
            Also after Ctrl-C, so that the caller can store what was learned. It should then raise
            `KeyboardInterrupt` with the report's message, so that a search around it stops as well.

        Warns
        -----
        ConvergenceWarning
            If the loss became infinite or NaN: the best weights are restored.
        """
        run = _Run(self, module, task, generator)
        try:
            reason = run.train(tqdm(disable=True) if bar is None else bar)
        except KeyboardInterrupt:
            reason = INTERRUPTED
            run.settle_for_present()
        module.load_state_dict(run.best)
        report = TrainingReport(run.history, run.best_error, run.best_epoch, reason)
        if reason == INFINITE:
            rate = f"the peak learning rate is {self.learning_rate:g}: {self.remedy}"
            warnings.warn(f"{report.message}; {rate}.", ConvergenceWarning, stacklevel=2)
        return report


class _Run:
    """The changing state of one training."""

    def __init__(
        self, trainer: Trainer, module: nn.Module, task: Task, generator: torch.Generator
    ) -> None:
        self.trainer, self.module, self.task, self.generator = trainer, module, task, generator
        self.optimizer = trainer.optimizer(module.parameters(), lr=trainer.learning_rate)
        self.average = WeightAverage(module)
        self.history: list[dict[str, float]] = []
        self.best = weights_of(module)
        self.best_error, self.best_score, self.best_epoch = float("inf"), float("inf"), 0
        self.best_series: torch.Tensor | None = None
        self.epochs_since_best = self.validated = 0
        self.share = 1.0  # of the learning rate
        self.cycle = Cycle(trainer.max_epochs, watches=trainer.patience is not None)
        if trainer.turn is not None:
            self.cycle.earliest = max(self.cycle.earliest, trainer.turn.epoch + SETTLING)

    def train(self, bar: tqdm) -> str:
        """Train until there is a reason to stop, which is returned."""
        start, turn = time.perf_counter(), self.trainer.turn
        for epoch in count():
            if turn is not None and epoch == turn.epoch:
                self._turn(turn)
            self._validate(epoch, start)
            error = f"{self.history[-1][_ERROR]:.4g}"
            bar.set_postfix(validation_error=error, refresh=False)
            if reason := self._reason_to_stop(epoch):
                if reason in (ALL_EPOCHS, SETTLED) and self._are_last_kept():
                    self._keep(epoch)
                return reason
            loss = self._train_epoch(epoch)
            trained = {_LOSS: loss, "n_items": len(self.task.items)}
            self.history[-1] |= trained | {"learning_rate": self.optimizer.lr}  # of its last step
            if not math.isfinite(loss):
                return INFINITE
            bar.update()

    def _turn(self, turn: Turn) -> None:
        """Take the decision. The best weights so far are validated anew if the module changes."""
        before = len(self.module.state_dict())
        with applied(self.average.weights, self.module):
            decided = turn.decide()
        turn.apply(decided)
        names = self.module.state_dict().keys()
        if len(names) == before:
            return
        self.average.keep(names)
        self.best = {name: self.best[name] for name in names}
        with applied(self.best, self.module):
            self.best_error = self.task.refresh()  # as at the end: not from states of before
        self.best_series, self.best_score = self.task.series_errors, self._score(self.best_error)

    def _validate(self, epoch: int, start: float) -> None:
        """Prepare the epoch, and validate the average of the weights before it.

        Epochs that are not due go on with the states and the error of the one before.
        """
        if epoch and not self.cycle.is_due(epoch, self.validated):
            kept = {name: x for name, x in self.history[-1].items() if name in (_ERROR, _AHEAD)}
            seconds = time.perf_counter() - start
            self.history.append({"epoch": epoch} | kept | {"seconds": seconds})
            return
        last, self.validated = self.validated, epoch
        with applied(self.average.weights, self.module):
            error = self.task.refresh(self.cycle.place(epoch) / self.trainer.max_epochs)
        for weights in (self.module.state_dict(), self.average.weights):
            for name, value in self.task.found.items():
                weights[name].copy_(value)
        seconds = time.perf_counter() - start
        self.history.append({"epoch": epoch, _ERROR: error, "seconds": seconds})
        if self.task.error_ahead is not None:
            self.history[-1][_AHEAD] = self.task.error_ahead
        if self.task.is_preliminary:
            return
        score = self._score(error)
        self.cycle.watch(epoch, score)
        if score < self.best_score:
            self._keep(epoch)
        elif is_surely_larger(self.task.series_errors, self.best_series):
            self.epochs_since_best += epoch - last
            self._slow_down()

    def _score(self, error: float) -> float:
        """The validation error and the error further ahead in one number."""
        return error if self.task.error_ahead is None else error * self.task.error_ahead

    def _slow_down(self) -> None:
        """If noise is being learned, go on from the best weights at half of the rate.

        Noise is being learned if the training loss falls while the validation error surely rises.
        """
        loss, best = self.history[-2], self.history[self.best_epoch]
        if self.best_epoch and loss[_LOSS] < best[_LOSS] and self.share > self.trainer.slowest:
            self.share /= 2
            self.module.load_state_dict(self.best)

    def _keep(self, epoch: int) -> None:
        """Take the average of the weights as the best."""
        self.best_error, self.best_epoch = self.history[-1][_ERROR], epoch
        self.best_score = self._score(self.best_error)
        self.best_series, self.epochs_since_best = self.task.series_errors, 0
        self.best = copy.deepcopy(self.average.weights)

    def _are_last_kept(self) -> bool:
        """Whether the last weights are as good as the best, at the end of the cycle.

        At high rates a low error may be luck, and most is gained while the rate falls.
        """
        trainer, error = self.trainer, self.history[-1][_ERROR]
        has_learned = self.best_epoch > 0 and error < self.history[0][_ERROR]
        as_good = not is_surely_larger(self.task.series_errors, self.best_series)
        return has_learned and as_good and self._score(error) <= trainer.as_good * self.best_score

    def _reason_to_stop(self, epoch: int) -> str | None:
        if not len(self.task.items):
            return "nothing to train on"
        if self.cycle.is_over(epoch):
            return ALL_EPOCHS if self.cycle.shortened is None else SETTLED
        patience = self.trainer.patience
        # Where no weights beat the untrained ones yet, the rate is too high, and it is falling.
        has_learned = self.best_epoch > 0
        if patience is not None and has_learned and self.epochs_since_best > patience:
            return f"no improvement for {self.epochs_since_best} epochs"
        return None

    def settle_for_present(self) -> None:
        """Take the present weights as the best if errors were preliminary so far.

        Otherwise the untrained weights would be the best, and all that was learned would be lost.
        """
        if len(self.history) > 1 and self.best_epoch == 0 and self.task.is_preliminary:
            last = self.history[-1]
            if math.isfinite(last[_ERROR]):
                self._keep(last["epoch"])

    def _train_epoch(self, epoch: int) -> float:
        """One pass over the items in random order; returns the mean loss."""
        trainer, total, n_items = self.trainer, 0.0, len(self.task.items)
        n_batches = -(-n_items // trainer.batch_size)
        order = torch.randperm(n_items, generator=self.generator)
        for i, index in enumerate(order.tensor_split(n_batches)):
            self.optimizer.zero_grad()
            share = self.share * self.cycle.share(epoch, i, n_batches)
            self.optimizer.lr = trainer.learning_rate * share
            loss = self.task.loss(index)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(self.module.parameters(), trainer.clip)
            if not torch.isfinite(norm):
                return float("nan")
            self.optimizer.step()
            self.average.update(trainer.averaged * trainer.max_epochs * n_batches)
            total += loss.item() / n_batches
        return total
