"""The stages of a neural transformer's fit: they run in order over one state.

A transformer lists its stages in `stages`. The settings of a stage are its fields. It reads and
changes a `FitState`, and records its decisions and their figures in the report.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from multiprocessing import current_process
from threading import current_thread, main_thread
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from skpolyode import seams
from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.fitting import LARGEST_EPOCH, Split, make_task
from skpolyode.embedders.smoother import bridged_waves
from skpolyode.embedders.table import BEGINNINGS, SETTINGS, SINGLE, SPACED, Table
from skpolyode.fit_report import FitReport
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.gain import Gain
from skpolyode.panel import Panel
from skpolyode.panel.select import ENOUGH_ROWS, cut_windows, first_series, series_of_rows
from skpolyode.panel.units import ChannelScaler
from skpolyode.threads import one_thread
from skpolyode.training import Trainer, TrainingReport
from skpolyode.training.loop import Judged, Task, Turn

_PATIENCE = 2.0  # seconds before a bar appears that nobody asked for
FEWEST_EPOCHS = 10
"""Fits with fewer epochs are trial runs."""


@dataclass
class FitState:
    """State that the stages of a fit share and change.

    Parameters
    ----------
    embedder : ModelEmbedder
        The model, trained in place, with its units. Stages replace the embedder around it.
    panel : Panel
        All series, whole: those that train and those that judge.
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
    panel: Panel
    trained: Panel
    judging: Panel | None
    windows: Split
    params: Mapping[str, Any]
    new_task: Callable[[SequenceModel, Packed, Tensor], Task]
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

    def epochs(self, state: FitState) -> int:
        """Most epochs that it trains for, or its typical cost in these; for the progress bar."""
        return 1

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


def bar_settings(verbose: int | str) -> dict[str, Any]:
    """Arguments of tqdm that show a progress bar, or none.

    "auto" shows it in a terminal or a notebook after two seconds, but not in the workers of a
    search or where the output goes to a file. Without `sys.stderr`, as in services, there is none.

    Examples
    --------
    >>> from skpolyode.transformers.stages import bar_settings
    >>> bar_settings(1), bar_settings(0)
    ({'disable': False}, {'disable': True})
    """
    is_shut = sys.stderr is None or getattr(sys.stderr, "closed", False)
    if is_shut or verbose != "auto":
        return {"disable": is_shut or not verbose}
    is_watched = getattr(sys.stderr, "isatty", bool)() or "ipykernel" in sys.modules
    is_worker = current_process().name != "MainProcess" or current_thread() is not main_thread()
    return {"disable": is_worker or not is_watched, "delay": _PATIENCE}


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

    def run(self, state: FitState, turn: Turn | None = None) -> None:
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


def first_gain(panel: Panel, scaler: ChannelScaler, observations: str) -> Gain | None:
    """Gain of a filter, or None; observations with known errors are noisy, unless all are 0."""
    observed = ~np.isnan(panel.values)
    if panel.errors is not None and observations != "exact":
        is_exact = (panel.errors[observed] == 0).all()
        return None if is_exact else Gain.of_errors(panel.errors / scaler.scale, observed)
    return Gain(panel.n_channels) if observations == "noisy" else None


class FilterTest(NamedTuple):
    """Result of the comparison, and the filter's errors as ratios to those without a gain."""

    is_better: bool
    gap_filling: float
    forecasts: float | None  # one step ahead; None: not computed, as gaps decided already


@dataclass(frozen=True)
class TrainFilter(Train):
    """Train a model that is a filter if observations are noisy.

    With ``observations="auto"`` the model is first trained as a filter. It remains one if it then
    fills gaps better than without its gain. Short series are taken as exact from the start.

    Parameters
    ----------
    default_epochs : int, default=40
        As in `Train`.
    tested_after : float, default=0.25
        Share of the epochs after which noise is tested for.
    max_error : float, default=0.95
        Upper bound on the product of two error ratios, with and without the gain: of filling in
        hidden rows, and of one-step forecasts. The weights were trained with the gain. Errors are
        sums of squares. Six fits with noise of 0.1 and 0.3 (van der Pol, FitzHugh-Nagumo, Lorenz63)
        had 0.36 to 0.64; of nine real sets french_fries had 0.45, wages 0.64 (not significant) and
        pbcseq 0.69, the others 0.95 to 1.06.
    n_standard_errors : float, default=3.0
        The improvement in filling gaps has to exceed this number of its standard errors.
    ordinary : float, default=0.99
        Quantile of the absolute improvements of rows at which these are clipped. On eICU wards,
        where a gain multiplies errors at the next row by 0.87, the improvement is then 6.8 standard
        errors, and 2 to 3 where a few rows decide; on storms, which have no noise, -0.5.
    fewest_rows : int, default=15
        Least median number of rows per series. In shorter series the steady-state gain has no time
        to settle: on french_fries and pbcseq, of 10 and 5 rows, filters pass the test, but their
        errors at the next row are 1.16 and 1.08 times those of models without a gain, and in gaps
        1.17 and 1.10 times.
    n_rows : int, default=10000
        Most rows to test on, from the first series; fewer if there are more than ten channels.
    """

    tested_after: float = 0.25
    max_error: float = 0.95
    n_standard_errors: float = 3.0
    ordinary: float = 0.99
    fewest_rows: int = 15
    n_rows: int = 10_000
    fewest_epochs: ClassVar[int] = 2 * FEWEST_EPOCHS
    """With fewer epochs there is no test."""

    def run(self, state: FitState) -> None:
        """Train, and test for noise during training."""
        # The user, the model or the data may decide it before training.
        choice, has_errors = state.params["observations"], state.windows.panel.errors is not None
        given = state.embedder.filters or has_errors or choice != "auto"
        if state.embedder.filters and not (state.windows.panel.lengths > 1).any():
            raise ValueError(
                "noise is learned from forecasts, but no series has two rows with observations: "
                "give longer series, or take observations='exact'."
            )
        found: list[FilterTest] = []  # one, if there is a test
        super().run(state, None if given else self._noise_test(state, found))
        kind = "noisy" if state.embedder.filters else "exact"
        if not found:
            reason = "series are too short for a filter"
            if given:
                reason = "as given"
            elif self._is_long_enough(state.windows.panel):
                reason = "too few epochs to tell"
            state.report.add("noise", f"observations are {kind}: {reason}")
            return
        (test,) = found
        better = "better" if test.is_better else "no better"
        # Errors of the filter, as ratios to those without a gain.
        figures = {"gap_filling": test.gap_filling}
        if test.forecasts is not None:
            figures["one_step"] = test.forecasts
        figures["after_epochs"] = round(self.tested_after * self.epochs(state))
        outcome = f"observations are {kind}: a filter fills gaps {better}"
        state.report.add("noise", outcome, len(state.windows.panel), **figures)

    def _noise_test(self, state: FitState, found: list[FilterTest]) -> Turn | None:
        """Make the model a filter, and return the test during training; None: no test."""
        embedder, windows = state.embedder, state.windows
        n_epochs, model = self.epochs(state), embedder.model
        epoch = round(self.tested_after * n_epochs)
        is_trial = not epoch or n_epochs < self.fewest_epochs
        if is_trial or not self._is_long_enough(windows.panel):
            return None
        gain = Gain(windows.panel.n_channels).to(embedder.device)
        judged = windows.panel[np.argsort(~windows.held_out, kind="stable")]  # held-out ones first

        def decide() -> FilterTest:
            return self.compare(embedder.with_own_model(), judged)

        def apply(test: FilterTest) -> None:
            found.append(test)
            model.gain = gain if test.is_better else None

        model.gain = gain
        return Turn(epoch, decide, apply)

    def _is_long_enough(self, panel: Panel) -> bool:
        """Whether the median series has enough rows for a filter."""
        return bool(np.median(panel.lengths) >= self.fewest_rows)

    def compare(self, embedder: ModelEmbedder, panel: Panel) -> FilterTest:
        """Compare a filter with the same model without its gain.

        Without noise nothing is nearer to the signal than its observations. With noise the dynamics
        may have learned to forecast from several observations at once, so forecasts alone decide
        little; but paths through single observations are still wrong. So every fourth row is
        hidden, and filled in from the others. The filter has to be significantly better there, and
        by a larger factor than its forecasts of the next observation are worse.

        Parameters
        ----------
        embedder : ModelEmbedder
            Embedder of a model with a gain.
        panel : Panel
            Series without empty rows; only the first ones, with up to `n_rows` rows, are used.

        Examples
        --------
        A field that is 0 is right for noise around a constant, but not for random walks:

        >>> import numpy as np
        >>> from skpolyode import Panel, PolyODETransformer
        >>> from skpolyode.transformers.stages import TrainFilter
        >>> noise, times = np.random.default_rng(0).normal(size=(20, 20)), np.arange(20.0)
        >>> panel = Panel.from_series([(times, x) for x in noise])
        >>> settings = {"observations": "noisy", "max_epochs": 1, "learning_rate_init": 1e-9}
        >>> model = PolyODETransformer(n_coefficients=4, hidden_size=0, random_state=0, **settings)
        >>> untrained = model.fit(panel).embedder_
        >>> TrainFilter().compare(untrained, panel).is_better
        True
        >>> walks = Panel.from_series([(times, x.cumsum()) for x in noise])
        >>> TrainFilter().compare(untrained, walks).is_better
        False
        """
        panel = first_series(panel, self.n_rows * 10 // max(panel.n_channels, 10))
        table = Table.of(panel, SPACED)
        models = embedder, embedder.without_gain()
        filtered, exact = (np.nan_to_num(table.errors(model)) ** 2 for model in models)
        gained, share = (exact - filtered).sum(axis=1), _error_ratio(filtered, exact)
        bound = np.quantile(np.abs(gained), self.ordinary) if len(gained) else 0.0
        gained = np.clip(gained, -bound, bound)
        if not is_sure(gained, self.n_standard_errors):
            return FilterTest(False, share, None)
        scale = embedder.units.scaler.scale
        ahead = (np.nan_to_num(model.residuals(panel)[0] / scale) ** 2 for model in models)
        of_forecasts = _error_ratio(*ahead)
        return FilterTest(share * of_forecasts < self.max_error, share, of_forecasts)


def is_sure(gained: np.ndarray, n_standard_errors: float) -> np.ndarray:
    """Whether sums of gains (n, ...) exceed a number of their standard errors."""
    return gained.sum(axis=0) > n_standard_errors * np.sqrt((gained**2).sum(axis=0))


def _error_ratio(errors: np.ndarray, others: np.ndarray) -> float:
    """Ratio of two sums of errors."""
    return float(errors.sum() / max(others.sum(), np.finfo(np.float64).tiny))


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
        values = state.embedder.standardised(panel).values
        both, cells = ~np.isnan(error + values), (1.0, error**2, values**2)
        counts, *columns = (np.where(both, x, 0.0).sum(axis=1) for x in cells)
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
        outcome = f"forecasts are {worth} the mean"
        figures = {"error": mean, "standard_error": se, "error_of_mean": judged.error_of_mean}
        state.report.add(self.name, outcome, panel.n_series, **figures)


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

    Rows are hidden, and filled in by both. The periodic fit only counts where it is significantly
    better, with series as units, so that a few unusual series do not decide. It needs no training,
    and is tried even after a short one.

    Parameters
    ----------
    n_standard_errors : float, default=3.0
        The improvement has to exceed this number of its standard errors.
    """

    n_standard_errors: float = 3.0
    name: ClassVar[str] = "waves"

    def run(self, state: FitState) -> None:
        """Set the share of the periodic fit in each channel."""
        embedder, panel = state.embedder, first_series(state.windows.panel, SETTINGS.n_rows)
        table, scaler = Table.of(panel, SINGLE), embedder.units.scaler
        through = np.where(embedder.filters, np.nan, scaler.transform(table.at[0].values))
        error = table.errors(embedder)
        step = bridged_waves(embedder, table.query, through) - scaler.read(table.actual) + error
        shares = np.nansum(error * step, axis=0) / np.maximum(np.nansum(step**2, axis=0), 1e-300)
        shares = np.clip(shares, 0.0, 1.0)
        gained = table.by_series(error**2 - (error - shares * step) ** 2)
        shares = np.where(is_sure(gained, self.n_standard_errors), shares, 0.0)
        outcome = "paths use no waves"
        if shares.any():
            state.embedder = replace(embedder, waves=shares)
            outcome = "paths also use waves of each series"
        state.report.add(self.name, outcome, panel.n_series, channels=int(np.sum(shares > 0)))


@dataclass(frozen=True)
class LearnBeginnings(Stage):
    """Learn, by channel, how the path before its first observation goes back to what is expected.

    Beginnings of channels are hidden in copies of the series. The best of a few rates and shares
    counts where it is significantly better than a shift, in this channel and all, with series as
    units.

    Parameters
    ----------
    n_standard_errors : float, default=1.0
        The improvement has to exceed this number of its standard errors.
    rates : tuple of float
        Of the return, per typical gap.
    shares : tuple of float
        Of the expectation, the rest is the mean of the channel.
    """

    n_standard_errors: float = 1.0
    rates: tuple[float, ...] = (0.01, 0.03, 0.1, 0.2, 0.5, 1.0, 3.0)
    shares: tuple[float, ...] = (0.0, 0.5, 1.0)
    name: ClassVar[str] = "beginnings"

    def run(self, state: FitState) -> None:
        """Set the rate and the share of each channel."""
        embedder, panel = state.embedder, first_series(state.windows.panel, SETTINGS.n_rows)
        if panel.n_channels == 1:
            return
        table = Table.of(panel, BEGINNINGS)
        none, (scaler, unit) = np.full((2, panel.n_channels), [[1e9], [1.0]]), embedder.units
        error, at_once = (table.errors(replace(embedder, beginnings=x)) for x in (None, none))
        truth, until = scaler.read(table.actual), table.query.leads(unit)[1]
        error, expected = np.where(np.isinf(until), np.nan, error), truth - at_once
        best, most = np.zeros_like(none), np.zeros(panel.n_channels)
        for choice in product(self.rates, self.shares):
            step = -np.expm1(-choice[0] * until) * (choice[1] * expected - truth + error)
            gained = table.by_series(error**2 - (error - step) ** 2)
            gained += gained.mean(axis=1, keepdims=True)
            total = gained.sum(axis=0)
            better = (total > most) & is_sure(gained, self.n_standard_errors)
            most, best = np.where(better, total, most), np.where(better, np.c_[[*choice]], best)
        outcome = "paths before first observations are shifted"
        if best.any():
            state.embedder = replace(embedder, beginnings=best)
            outcome = "paths before first observations go back to what is expected"
        state.report.add(self.name, outcome, panel.n_series, channels=int((most > 0).sum()))


@dataclass(frozen=True)
class StackForecasts(Stage):
    """Prepare the weights of forecasts and the errors of forecasts and paths.

    They are learned when they are first asked for, or saved: embeddings do not need them, and they
    take a tenth of a fit.

    Parameters
    ----------
    period : sequence of float or None, default=None
        Lengths of seasons, in the units of `times`. None: detect them.
    structural : callable or None, default=None
        Learns structural models from a panel of few series, which forecasts then combine as well.
    """

    period: Sequence[float] | None = None
    structural: Callable[[Panel], Any] | None = None
    name: ClassVar[str] = "stacking"

    def run(self, state: FitState) -> None:
        """Set them, as `skpolyode.seams` has it."""
        seams.wing("ensemble.stacking").stack_forecasts(state, self)
