"""The stages of a neural transformer's fit: they run in order over one state.

A transformer lists its stages in `stages`. The settings of a stage are its fields. It reads and
changes a `FitState`, and records its decisions and their figures in the report.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch
from tqdm.auto import tqdm

from skpolyode import seams
from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.fitting import LARGEST_EPOCH, Split, make_task
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.smoother import bridged_waves, hide_rows
from skpolyode.embedders.variance import with_variance
from skpolyode.fit_report import FitReport
from skpolyode.models import Packed, SequenceModel
from skpolyode.panel import Panel, series_index
from skpolyode.panel.select import ENOUGH_ROWS, cut_windows, first_series, series_of_rows
from skpolyode.threads import one_thread
from skpolyode.training import Trainer, TrainingReport
from skpolyode.training.loop import Judged, Task, Turn
from skpolyode.training.progress import bar_settings

FEWEST_EPOCHS = 10
"""Fits with fewer epochs are trial runs, too short to test for noise."""


@dataclass
class FitState:
    """State that the stages of a fit share and change.

    Parameters
    ----------
    embedder : ModelEmbedder
        The model, trained in place, with its units. Stages replace the embedder around it.
    trained : Panel
        The training series, not cut into windows.
    judging : Panel or None
        Held-out series that judge forecasts; None if nothing is held out.
    windows : Split
        The series that train and those that stop training; long ones are cut into windows.
    params : mapping
        Parameters of the transformer.
    new_task : callable
        Training task of a model, packed data and a mask of the series that only validate.
    report : FitReport
        Records decisions.
    random_state : RandomState
    generator : torch.Generator
        Draws minibatches.
    """

    embedder: ModelEmbedder
    trained: Panel
    judging: Panel | None
    windows: Split
    params: Mapping[str, Any]
    new_task: Callable[[SequenceModel, Packed, torch.Tensor], Task]
    report: FitReport
    random_state: np.random.RandomState
    generator: torch.Generator
    bar: tqdm = field(default_factory=lambda: tqdm(disable=True))
    training: TrainingReport | None = None
    judged: Judged | None = None
    fitted: dict[str, Any] = field(default_factory=dict)  # attributes for the transformer


class Stage:
    """One step of a fit."""

    name: ClassVar[str]
    """Name in the report and the progress bar."""

    cost: ClassVar[int] = 1
    """Typical cost, in epochs of training; for the progress bar."""

    def epochs(self, state: FitState) -> int:
        """Most epochs that it trains for, or its cost."""
        return self.cost

    def run(self, state: FitState) -> None:
        """Change the state, and report what was decided."""
        raise NotImplementedError


def run_stages(stages: Collection[Stage], state: FitState) -> None:
    """Run stages one after the other on one thread, under one progress bar."""
    costs = [stage.epochs(state) for stage in stages]
    verbose = state.params["verbose"]
    shown, at_once = {"unit": "epoch", **bar_settings(verbose)}, verbose != "auto"
    with one_thread(), tqdm(total=sum(costs), **shown) as state.bar:
        for stage, cost in zip(stages, costs, strict=True):
            before = state.bar.n
            state.bar.set_description(stage.name, refresh=at_once)
            with state.report.timed():
                stage.run(state)
            trained = state.bar.n - before
            if not trained:
                state.bar.update(cost)
            elif trained < cost:  # training stopped early
                state.bar.total -= cost - trained
                state.bar.update(0)


@dataclass(frozen=True)
class Train(Stage):
    """Train the model, until its error on the held-out series stops falling.

    Parameters
    ----------
    default_epochs : int, default=40
        Epochs with ``max_epochs="auto"``: about 1000 to 2000 gradient steps, after which errors of
        forecasts hardly fall.
    """

    default_epochs: int = 40
    name: ClassVar[str] = "training"

    def epochs(self, state: FitState) -> int:
        """Maximum number of epochs."""
        given = state.params["max_epochs"]
        return self.default_epochs if given == "auto" else given

    def run(self, state: FitState) -> None:
        """Train."""
        self.train(state)

    def train(self, state: FitState, turn: Turn | None = None) -> None:
        """Train, with the decision `turn` during training, if there is one."""
        params, windows, n_epochs = state.params, state.windows, self.epochs(state)
        largest = LARGEST_EPOCH if params["max_epochs"] == "auto" else None
        task = make_task(state.new_task, state.embedder, windows, largest, state.generator)
        validates = windows.held_out.any() or params["validation_fraction"] is not None
        trainer = Trainer(
            learning_rate=params["learning_rate_init"],
            batch_size=default_batch(task, params["batch_size"]),
            max_epochs=n_epochs,
            patience=default_patience(n_epochs) if validates else None,
            remedy="lower learning_rate_init",
            turn=turn,
        )
        model = state.embedder.model
        state.training = report = trainer.run(model, task, state.generator, state.bar)
        state.report.add(
            self.name,
            f"stopped: {report.reason}",
            len(state.windows.tested),
            epochs=report.n_epochs,
            best_epoch=report.best_epoch,
            validation_error=float(report.best_error),
        )


def default_batch(task: Task, n_intervals: int | str = "auto") -> int:
    """Number of items in a minibatch.

    Smaller minibatches would take as long, as each is computed sequentially in time; with larger
    ones, small sets would make too few steps.
    """
    if n_intervals != "auto":
        return max(round(n_intervals / task.item_size), 1)
    number, smallest, n_most = task.minibatches
    largest = max(round(n_most / task.item_size), smallest)
    return int(np.clip(len(task.items) // number, smallest, largest))


def default_patience(n_epochs: int) -> int:
    """Epochs without a better error before training stops.

    At high learning rates a low error may be chance; errors fall most while the rate falls.
    """
    return max(FEWEST_EPOCHS, n_epochs // 2)


@dataclass(frozen=True)
class EstimateError(Stage):
    """Estimate the standard error of the validation error from its variation between series.

    Parameters
    ----------
    n_rows : int, default=20_000
        Most rows to use.
    fewest : int, default=3
        With fewer series, rows are compared instead.
    """

    n_rows: int = ENOUGH_ROWS
    fewest: int = 3
    name: ClassVar[str] = "error"

    def run(self, state: FitState) -> None:
        """Compare one-step forecasts of judging series with the mean of their channels."""
        state.fitted["validation_error_se_"] = float("nan")
        if state.judging is None:
            return
        panel, scaler = first_series(state.judging, self.n_rows), state.embedder.units.scaler
        error = state.embedder.residuals(panel)[0] / scaler.scale
        of_mean = np.where(np.isnan(error), np.nan, state.embedder.standardised(panel).values)
        error = np.where(np.isnan(of_mean), np.nan, error)
        counts = np.sum(~np.isnan(of_mean), axis=1)
        columns = [np.nansum(x**2, axis=1) for x in (error, of_mean)]
        if panel.n_series >= self.fewest:
            series = series_of_rows(panel)
            counts, *columns = (np.bincount(series, x) for x in (counts, *columns))
        known = counts > 0
        of_model, of_mean = (x[known] for x in columns)
        if known.sum() < 2:
            return
        mean, se = _ratio(of_model, counts[known])
        gain, gain_se = _ratio(of_mean - of_model, counts[known])
        state.fitted["validation_error_se_"] = se
        judged = Judged(mean, mean + gain, gain_se, int(known.sum()))
        if panel.n_series >= self.fewest:  # rows of one series are too similar to decide
            state.judged = judged
        worth = "better than" if judged.is_sure else "not surely better than"
        state.report.add(
            self.name,
            f"forecasts are {worth} the mean",
            panel.n_series,
            error=mean,
            standard_error=se,
            error_of_mean=judged.error_of_mean,
        )


def _ratio(sums: np.ndarray, counts: np.ndarray) -> tuple[float, float]:
    """Mean of all cells, from sums (n,) and counts (n,) of n groups, and its standard error.

    Cells of a group are correlated: the error is that of a linearised ratio of sums over groups.
    """
    mean, n = sums.sum() / counts.sum(), len(sums)
    spread = np.square(sums - mean * counts).sum() * n / (n - 1)
    return float(mean), float(np.sqrt(spread) / counts.sum())


@dataclass(frozen=True)
class CheckStepSize(Stage):
    """Compare one-step forecasts with those at half the step size.

    Parameters
    ----------
    n_windows : int, default=32
        Most windows of series to compare.
    n_rows : int, default=16
        Rows of a window.
    """

    n_windows: int = 32
    n_rows: int = 16
    name: ClassVar[str] = "step size"

    def run(self, state: FitState) -> None:
        """Set `step_halving_error_`."""
        panel, rng = state.windows.panel, state.random_state
        drawn = panel[rng.permutation(panel.n_series)[: self.n_windows]]
        parts = cut_windows(drawn, self.n_rows, overlap=0)
        sample = parts[rng.permutation(parts.n_series)[: self.n_windows]]
        data, model = state.embedder.pack(sample, torch.float32), state.embedder.model
        finer = copy.copy(model)  # shares the weights
        finer.step_size = model.step_size / 2
        with torch.no_grad():
            change = model.predictions(data) - finer.predictions(data)
        error = float(change.square().mean().sqrt())
        state.fitted["step_halving_error_"] = error
        size = model.step_size * state.embedder.units.time_scale
        state.report.add(self.name, f"step size {size:.3g}", step_halving_error=error)


@dataclass(frozen=True)
class LearnWaves(Stage):
    """Learn, by channel, how much a series' own periodic fit counts in its path.

    Every fourth row is hidden, and filled in by both. The periodic fit only counts where it is
    significantly better, with series as units, so that a few unusual series do not decide. It needs
    no training, and is tried even after a short one.

    Parameters
    ----------
    n_rows : int, default=6000
        Most rows of the series to learn from.
    n_standard_errors : float, default=3.0
        The improvement has to exceed this number of its standard errors.
    """

    n_rows: int = 6000
    n_standard_errors: float = 3.0
    name: ClassVar[str] = "waves"

    def run(self, state: FitState) -> None:
        """Set the share of the periodic fit in each channel."""
        embedder, panel = state.embedder, first_series(state.windows.panel, self.n_rows)
        _, known, times, offsets, truth = hide_rows(panel, 2)
        scaler, query = embedder.units.scaler, PathQuery.of(known, times, offsets)
        through = np.where(embedder.filters, np.nan, scaler.transform(known.values))
        waves = bridged_waves(embedder, query, through)
        path = scaler.transform(embedder.path_values(known, times, offsets))
        step, error = waves - path, scaler.transform(truth) - path
        step, error = (np.where(np.isnan(step + error), 0.0, x) for x in (step, error))
        shares = (error * step).sum(axis=0) / np.maximum((step**2).sum(axis=0), 1e-300)
        shares = np.clip(shares, 0.0, 1.0)
        gained = np.zeros((known.n_series, len(shares)))
        np.add.at(gained, series_index(offsets), error**2 - (error - shares * step) ** 2)
        se = np.sqrt((gained**2).sum(axis=0))
        shares = np.where(gained.sum(axis=0) > self.n_standard_errors * se, shares, 0.0)
        outcome = "paths lean on no waves"
        if shares.any():
            state.embedder = replace(embedder, waves=shares)
            outcome = "paths lean on waves of their own"
        state.report.add(self.name, outcome, known.n_series, channels=int(np.sum(shares > 0)))


@dataclass(frozen=True)
class LearnVariance(Stage):
    """Learn the variance of path errors, for a filter or if the embedding needs it."""

    name: ClassVar[str] = "variance"
    cost: ClassVar[int] = 5

    def run(self, state: FitState) -> None:
        """Add a variance head to the embedder."""
        if not (state.embedder.filters or "std" in state.embedder.blocks):
            return
        state.embedder = with_variance(state.embedder, state.windows.panel, state.random_state)
        state.report.add(self.name, "learned", len(state.windows.panel))


@dataclass(frozen=True)
class StackForecasts(Stage):
    """Prepare the weights of forecasts and the errors of forecasts and paths.

    They are learned when they are first asked for, or saved: embeddings do not need them, and they
    take a tenth of a fit.
    """

    name: ClassVar[str] = "stacking"

    def run(self, state: FitState) -> None:
        """Set them, as `skpolyode.seams` has it, in place of those of an earlier fit."""
        names = "stacking", "calibration", "path_calibration", "path_errors"
        state.embedder = replace(state.embedder, **dict.fromkeys(names))
        seams.questions().learn_path_errors(state)
        seams.stack_forecasts(state)
