"""How PolyODE is fitted: scales, weights, held-out series, training."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import joblib
import numpy as np
import torch
from torch import nn

from skpolyode.dynamics import WalledMLP
from skpolyode.models import TASKS, Packed, swept_predictions
from skpolyode.panel import Panel
from skpolyode.training import Checkpoint, Trainer, TrainingReport, intra_op_threads
from skpolyode.transformers._auto import (
    auto_batch_size,
    auto_step_size,
    choose_window,
    typical_gap,
)
from skpolyode.transformers._checks import (
    check_device,
    check_repeatable,
    check_same_network,
    layer_widths,
    local_random_state,
)
from skpolyode.transformers._input import ChannelScaler, Rows, observed_rows
from skpolyode.transformers._polyode_model import CONTEXT_WINDOWS, PolyODEModel
from skpolyode.transformers._static import StaticEncoder
from skpolyode.transformers._stretches import cut_windows, observed_part

__all__ = ["PolyODEFit"]

_ROWS_TO_CUT = 256  # longest series, in rows, that training runs through as a whole
_WINDOWS_TO_CUT = 8  # and in windows
_SAMPLE = 32  # stretches of series that the step size is checked with
_SAMPLE_ROWS = 16  # the longest of them
_SWEEPS = 2  # over them, each of which brings forecasts ten times closer
_FEWEST_TO_SPLIT = 5  # series; fewer cannot spare one for validation


class PolyODEFit(PolyODEModel):
    """Mixin of the way from a panel to a fitted estimator."""

    def _fit(self, panel: Panel) -> None:
        rows = observed_rows(panel)
        widths = layer_widths(self.n_channels_in_, self.n_coefficients, self.hidden_layer_sizes)
        check_device(self.device)
        random_state = local_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(random_state.randint(2**31)))
        if self.warm_start and hasattr(self, "field_"):
            check_same_network(self.field_, widths)
        else:
            self._set_scales(rows)
            self.field_ = self._new_field(widths, generator).stand_still().to(self.device)
            self._set_static(panel)
        checkpoint = self._checkpoint(panel)
        panel = self._cut(observed_part(panel))
        held_out = self._held_out(panel.lengths, random_state)
        with intra_op_threads(1):
            report = self._train(self._pack(panel, torch.float32), held_out, generator, checkpoint)
            self.step_halving_error_ = self._step_halving_error(panel)
        if report.was_interrupted:  # all is stored; who called, perhaps a search, stops as well
            raise KeyboardInterrupt(report.message)

    def _cut(self, panel: Panel) -> Panel:
        """Cut series that are much longer than the memory, so that training need not go in order.

        The cost of training is then that of the rows, not of the longest series.
        """
        if self.measure not in CONTEXT_WINDOWS or self.gradient == "series":
            return panel
        rows_per_window = self.window_ / self.time_scale_
        length = int(max(_ROWS_TO_CUT, _WINDOWS_TO_CUT * rows_per_window))
        return cut_windows(panel, length, overlap=length // 8)

    def _set_scales(self, rows: Rows) -> None:
        self.scaler_ = ChannelScaler.of(rows.values)
        self.time_scale_ = typical_gap(rows)
        self.window_ = choose_window(self.window, self.measure, rows, self.n_coefficients)
        auto = auto_step_size(rows, self.window_, self.n_coefficients)
        self.step_size_ = auto if self.step_size == "auto" else float(self.step_size)

    def _new_field(self, widths: list[int], generator: torch.Generator) -> WalledMLP:
        return WalledMLP(
            widths[0],
            widths[1:-1],
            pull=self.time_scale_ / self.step_size_,  # as fast as the steps can follow
            generator=generator,
        )

    def _set_static(self, panel: Panel) -> None:
        """Read the static covariates and start their map at zero: at first they say nothing."""
        self.static_ = None if panel.static is None else StaticEncoder.of(panel.static)
        self.start_ = None
        if self.static_ is not None and self.static_.n_features:
            width = self.n_channels_in_ * (1 + self.n_coefficients)
            self.start_ = nn.Linear(self.static_.n_features, width, device=self.device)
            nn.init.zeros_(self.start_.weight)
            nn.init.zeros_(self.start_.bias)

    def _held_out(self, lengths: np.ndarray, random_state: np.random.RandomState) -> torch.Tensor:
        """Draw the series that only validate, among those with something to forecast."""
        held_out = torch.zeros(len(lengths), dtype=torch.bool)
        usable = np.flatnonzero(lengths > 1)
        if self.early_stopping and len(usable) >= _FEWEST_TO_SPLIT:
            n_held_out = round(self.validation_fraction * len(usable))
            n_held_out = min(max(n_held_out, 1), len(usable) - 1)
            held_out[random_state.permutation(usable)[:n_held_out]] = True
        return held_out

    def _checkpoint(self, panel: Panel) -> Checkpoint | None:
        """Where the training of this estimator on this panel is kept: a file of its own."""
        if self.checkpoint_dir is None:
            return None
        check_repeatable(self.random_state)
        without = {"checkpoint_dir", "device", "verbose"}
        settings = {k: v for k, v in self.get_params().items() if k not in without}
        # All that training depends on; a warm start also has weights and units of an earlier fit.
        modules = [module for module in (self.field_, self.start_) if module is not None]
        weights = [p.detach().cpu().numpy() for m in modules for p in m.parameters()]
        units = self.scaler_, self.time_scale_, self.window_, self.step_size_, self.static_
        content = panel.times, panel.values, panel.offsets, panel.static, settings, weights, units
        return Checkpoint(Path(self.checkpoint_dir) / f"fit-{joblib.hash(content)}.safetensors")

    def _train(
        self,
        data: Packed,
        held_out: torch.Tensor,
        generator: torch.Generator,
        checkpoint: Checkpoint | None,
    ) -> TrainingReport:
        model = self._model(torch.float32, copy_field=False)
        task = TASKS[self.gradient](model, data, held_out.to(self.device), horizon=self.horizon)
        auto = auto_batch_size(len(task.items), self.gradient)
        batch = auto if self.batch_size == "auto" else self.batch_size
        trainer = Trainer(
            learning_rate=self.learning_rate_init,
            batch_size=batch,
            max_epochs=self.max_epochs,
            patience=self.n_iter_no_change if self.early_stopping else None,
            verbose=self.verbose,
            remedy="lower learning_rate_init",
        )
        report = trainer.run(model, task, generator, checkpoint)
        self.history_ = report.history
        self.n_epochs_ = report.n_epochs
        self.validation_error_ = report.best_error
        return report

    def _step_halving_error(self, panel: Panel) -> float:
        """RMS difference of one-step forecasts when the step size is halved, on a sample."""
        sample = cut_windows(panel[:_SAMPLE], _SAMPLE_ROWS, overlap=0)[:_SAMPLE]
        data = self._pack(sample, torch.float32)
        model, finer = (self._model(torch.float32) for _ in range(2))
        finer.step_size /= 2
        # Where they serve, sweeps are much cheaper than a run in order.
        swept = partial(swept_predictions, n_sweeps=_SWEEPS)
        run = swept if model.separable else type(model).predictions
        with torch.no_grad():
            error = run(model, data) - run(finer, data)
        return float(error.square().mean().sqrt())
