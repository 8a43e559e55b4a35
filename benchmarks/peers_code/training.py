"""How peers are trained: by their own recipes, in one loop."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from benchmarks.peers_code.padded import Padded
from benchmarks.real.questions import Ask, Questions
from benchmarks.real.sets import Answer
from skpolyode import Panel


class Recipe(NamedTuple):
    """What a paper or its repository says of training."""

    epochs: int
    patience: int  # epochs without a smaller validation error
    batch_size: int
    optimizer: Callable[..., torch.optim.Optimizer]
    plateau: bool = False  # halve the learning rate after ten epochs without a smaller error
    by_variable: bool = False  # errors are means over variables of means over cells
    extremes: bool = False  # values are scaled to [0, 1] by those of train and validation
    descriptors: bool = False  # what describes a series is in channels of its first row
    drop_last: bool = False  # an incomplete batch
    tf32: bool = True


class Shape(NamedTuple):
    """What the network of a peer must know of the data, and where it runs."""

    n_channels: int
    span: float  # the latest time
    device: str


Make = Callable[[Path, Shape], nn.Module]  # a network from a `Padded` to forecasts (B, L, D)


class Peer:
    """A network of others, trained to answer the questions `ask` about the panels of `fit`.

    After `limit` seconds of training (of the processor, without a GPU) it keeps the best weights so
    far; `limited` is then true.
    """

    def __init__(
        self,
        make: Make,
        recipe: Recipe,
        ask: Ask,
        repositories: Path,
        *,
        device: str = "cpu",
        limit: float = np.inf,
        seed: int = 0,
    ) -> None:
        self.make, self.recipe, self.ask, self.repositories = make, recipe, ask, repositories
        self.device, self.limit, self.seed = device, limit, seed

    def fit(self, train: Panel, validation: Panel) -> None:
        torch.manual_seed(self.seed)
        torch.backends.cuda.matmul.allow_tf32 = self.recipe.tf32
        torch.backends.cudnn.allow_tf32 = self.recipe.tf32
        values = np.concatenate([self._channels(p).values for p in (train, validation)])
        self.low, self.scale = np.zeros(values.shape[1]), np.ones(values.shape[1])
        if self.recipe.extremes:
            self.low = np.nanmin(values, axis=0)
            self.scale = np.maximum(np.nanmax(values, axis=0) - self.low, 1e-8)
        shape = Shape(values.shape[1], float(train.times.max()), self.device)
        self.network = self.make(self.repositories, shape).to(self.device)
        self._train(self._padded(self.ask(train)), self._padded(self.ask(validation)))

    def answer(self, _: Questions, test: Questions) -> Answer:
        found = answers(self.network, self._padded(test), self.recipe.batch_size)
        return Answer((found * self.scale + self.low)[:, : test.panel.n_channels])

    def _channels(self, panel: Panel) -> Panel:
        return with_descriptors(panel) if self.recipe.descriptors else panel

    def _padded(self, questions: Questions) -> Padded:
        panel = self._channels(questions.panel)
        scaled = panel.like(panel.times, (panel.values - self.low) / self.scale, panel.offsets)
        return Padded.of(questions._replace(panel=scaled), self.device)

    def _train(self, train: Padded, validation: Padded) -> None:
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        recipe, network, start = self.recipe, self.network, clock()
        optimizer = recipe.optimizer(network.parameters())
        scheduler = ReduceLROnPlateau(optimizer, patience=10, factor=0.5, min_lr=1e-5)
        best, waited, self.limited, weights = np.inf, 0, False, {}
        for self.n_epochs in range(1, recipe.epochs + 1):
            network.train()
            for batch in torch.randperm(len(train.lengths)).split(recipe.batch_size):
                if recipe.drop_last and 0 < len(train.lengths) - len(batch) < recipe.batch_size:
                    continue
                optimizer.zero_grad(set_to_none=True)
                self._loss(train.at(batch.to(self.device))).backward()
                optimizer.step()
                self.limited = clock() - start > self.limit
                if self.limited:
                    break
            error = self._error(validation)
            waited += 1
            if error < best:
                best, waited, weights = error, 0, copy.deepcopy(network.state_dict())
            if self.limited or waited >= recipe.patience:
                break
            if recipe.plateau:
                scheduler.step(error)
        network.load_state_dict(weights)
        if self.limited:
            print(f"the limit of {self.limit:.0f} s ended training in epoch {self.n_epochs}")

    def _loss(self, batch: Padded) -> Tensor:
        targets = batch.targets
        squares = (self.network(batch) - batch.values.nan_to_num()).square() * targets
        if not self.recipe.by_variable:
            return squares.sum() / targets.sum()
        counts = targets.sum(dim=(0, 1))
        return (squares.sum(dim=(0, 1)) / counts.clamp(min=1)).sum() / (counts > 0).sum()

    def _error(self, validation: Padded) -> float:
        truth = in_order(validation, validation.values)
        squares = (answers(self.network, validation, self.recipe.batch_size) - truth) ** 2
        if self.recipe.by_variable:
            squares = np.nanmean(squares[:, ~np.isnan(squares).all(axis=0)], axis=0)
        return float(np.nanmean(squares))


def answers(network: nn.Module, padded: Padded, batch_size: int) -> np.ndarray:
    """Forecasts (Q, D) in the order of the questions."""
    network.eval()
    forecasts = torch.zeros_like(padded.values)
    with torch.no_grad():
        for series in torch.arange(len(padded.lengths)).split(batch_size):
            batch = padded.at(series.to(forecasts.device))
            forecasts[series[0] : series[-1] + 1, : batch.times.shape[1]] = network(batch)
    return in_order(padded, forecasts)


def in_order(padded: Padded, table: Tensor) -> np.ndarray:
    """Rows (Q, D) that are asked for, in the order of the questions, from all rows (B, L, D)."""
    number, rows = (column[padded.asked].cpu().numpy() for column in (padded.number, table))
    result = np.empty(rows.shape)
    result[number] = rows
    return result


def with_descriptors(panel: Panel) -> Panel:
    """With a channel for each static covariate, which holds it in the first row of a series.

    Of categories the number in their name is taken: 3 of "type 3".
    """
    static = panel.static
    numbers = static.apply(lambda column: column.astype(str).str.extract(r"([\d.]+)$")[0])
    values = np.full((panel.n_observations, static.shape[1]), np.nan)
    values[panel.offsets[:-1]] = numbers.astype(np.float64)
    names = [*panel.channel_names, *static.columns]
    both = np.concatenate([panel.values, values], axis=1)
    return Panel(panel.times, both, panel.offsets, ids=panel.ids, channel_names=names)
