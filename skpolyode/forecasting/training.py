"""Training of the forecaster: windows of long series, stacking and calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from skpolyode.embedders.fitting import FEWEST_TO_SPLIT
from skpolyode.ensemble.backtest import FEWEST_FOLDS, FEWEST_TO_HOLD_OUT, RollingOrigins
from skpolyode.ensemble.member import NEGLIGIBLE
from skpolyode.ensemble.paths import late_path_errors
from skpolyode.ensemble.stacking import calibrate, learn_stacking
from skpolyode.panel import Panel
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.select import series_of_rows
from skpolyode.panel.units import CellLimits, ChannelScaler
from skpolyode.structural.forecaster import StructuralForecasts, StructuralModels
from skpolyode.transformers.neural import NeuralTransformer
from skpolyode.transformers.stages import FitState, Stage

# Lengths of the windows that training cuts long series into.
_ROWS_A_COEFFICIENT = 4  # for each coefficient of the memory
_N_COEFFICIENTS = 32  # assumed for a model without coefficients
_SHORTEST_WINDOW = 16  # rows


class Calibrate(Stage):
    """Stack forecasts, with structural ones if there are few series, and calibrate all.

    What stopped the training judges. Of few series that is their ends.

    Parameters
    ----------
    panel : Panel
        The series of the fit, whole.
    seed : int
        Draws structural models.
    period : sequence of float or None
        Lengths of seasons; None searches for them.
    """

    name, cost = "stacking", 2

    def __init__(self, panel: Panel, seed: int, period: Sequence[float] | None) -> None:
        self.panel, self.seed, self.period = panel, seed, period
        self.is_few = panel.n_series < FEWEST_TO_HOLD_OUT

    def run(self, state: FitState) -> None:
        """Set the stacking, and what is known of errors."""
        trained, tested, new_from = state.trained, state.judging, None
        if tested is not None and trained.n_series == self.panel.n_series:
            tested, new_from = self.panel, self.panel.offsets[:-1] + trained.lengths
        options = {"new_from": new_from, "period": self.period}
        if self.is_few:
            options["structural"] = partial(self._structural, state.embedder.units.scaler)
        asked = state.embedder, trained, tested, state.random_state
        stacking, backtest = learn_stacking(*asked, **options)
        model = replace(state.embedder, stacking=stacking)
        self.calibration = calibrate(backtest, model.units.time_scale)
        others = None if tested is None or new_from is not None else trained
        errors = late_path_errors(model, trained if tested is None else tested, others, new_from)
        state.embedder = replace(model, path_errors=errors)

    def _structural(
        self, scaler: ChannelScaler, learned: Panel, asked: RollingOrigins
    ) -> tuple[np.ndarray, np.ndarray]:
        """Forecasts of some origins by models of the other folds; of two series or one, of all."""
        n_folds = FEWEST_FOLDS if learned.n_series >= FEWEST_FOLDS else 1
        series = np.arange(learned.n_series) % n_folds
        origin = asked.whose[series_of_rows(asked.panel)[asked.origins]] % n_folds
        found = StructuralForecasts(*np.empty((2, len(asked.rows), learned.n_channels)))
        for k in range(n_folds):
            others = learned[series != k] if n_folds > 1 else learned
            models = StructuralModels.learn(others, self.seed, self.period)
            own, rows = origin == k, np.repeat(origin == k, asked.counts)
            query = asked.panel, asked.origins[own], asked.times[rows], asked.counts[own]
            for column, part in zip(found, models.forecast_from(*query), strict=True):
                column[rows] = part
        return standardised(scaler, found)


def train(
    transformer: NeuralTransformer, panel: Panel, limits: CellLimits, then: Sequence[Stage]
) -> None:
    """Fit a transformer; cut long series into windows, and run the stages `then`, not stacking."""
    length = _ROWS_A_COEFFICIENT * getattr(transformer, "n_coefficients", _N_COEFFICIENTS)
    if panel.n_series < FEWEST_TO_SPLIT:
        # Short windows, so that several can be held out: training stops by their errors.
        length = min(length, max(_SHORTEST_WINDOW, panel.n_observations // 8))
    options = {"skip": ["stacking"], "then": then, "limits": limits}
    transformer.fit_stages(panel, window_rows=length, **options)


def by_position(panel: Panel) -> Panel:
    """The series with channels named by position, since names differ between sktime's formats."""
    names = default_channel_names(panel.n_channels)
    rows = replace(panel.rows, channel_names=names, has_channel_names=False)
    return Panel.from_rows(rows, panel.is_checked, panel.is_observed)


def standardised(
    scaler: ChannelScaler, found: StructuralForecasts
) -> tuple[np.ndarray, np.ndarray]:
    """Structural forecasts (Q, D) and their expected errors (Q, D), in the units of the model.

    Unknown expected errors are 1, as for the mean.
    """
    expected = found.deviations / scaler.scale
    expected = np.where(np.isnan(expected), 1.0, np.maximum(expected, NEGLIGIBLE))
    return scaler.read(found.means), expected
