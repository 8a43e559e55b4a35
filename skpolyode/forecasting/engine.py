"""Train a forecaster on a panel, and forecast at any times.

This module works on panels and numbers; :mod:`skpolyode.forecasting.frames` translates sktime's
frames and horizons.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skpolyode.embedders.fitting import FEWEST_TO_SPLIT
from skpolyode.ensemble.backtest import FEWEST_FOLDS, FEWEST_TO_HOLD_OUT, RollingOrigins
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.paths import Answers, PathCalibration, answers_at, late_paths
from skpolyode.ensemble.records import NEGLIGIBLE
from skpolyode.ensemble.stacking import calibrate, learn_stacking
from skpolyode.errors import check_share
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.query import refuse_early
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.select import drop_empty, observed_series, series_of_rows
from skpolyode.panel.units import (
    CellLimits,
    ChannelScaler,
    quiet_about_doubts,
    warn_of_codes,
    within_limits,
)
from skpolyode.structural.forecaster import StructuralForecasts, StructuralModels
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers.input import (
    as_fitted,
    check_sizes,
    credible,
)
from skpolyode.transformers.neural import (
    NeuralTransformer,
    local_random_state,
    warn_of_unknown_inputs,
)
from skpolyode.transformers.stages import FitState, Stage


@dataclass(frozen=True)
class TrainingSettings:
    """Lengths of the windows that training cuts long series into."""

    rows_a_coefficient: int = 4  # of a window, for each coefficient of the memory
    n_coefficients: int = 32  # assumed for a model without coefficients
    shortest_window: int = 16  # rows


_SETTINGS = TrainingSettings()


class Trained(NamedTuple):
    """Results of fit; each is an attribute of the forecaster."""

    transformer: NeuralTransformer
    calibration: Calibration
    path_calibration: PathCalibration
    structural: StructuralModels | None  # None with ten or more series


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
        state.embedder = model = replace(state.embedder, stacking=stacking)
        self.calibration = calibrate(backtest, model.units.time_scale)
        judges = trained if tested is None else tested
        self.paths = late_paths(model, judges, state.random_state, new_from)

    def trained(self, transformer: NeuralTransformer) -> Trained:
        """All that training leaves behind."""
        asked = self.panel, self.seed, self.period
        structural = StructuralModels.learn(*asked) if self.is_few else None
        return Trained(transformer, self.calibration, self.paths, structural)

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
        return _standardised(scaler, found)


def train_forecaster(parameters: dict[str, Any], panel: Panel) -> Trained:
    """Train and calibrate a clone of a transformer; see the parameters of `PolyODEForecaster`.

    `parameters["period"]` are lengths of seasons, or None to search for them.
    """
    transformer, random_state = parameters["transformer"], parameters["random_state"]
    if transformer is None:
        transformer = PolyODETransformer()
    if not isinstance(transformer, NeuralTransformer):
        raise TypeError(
            "transformer must be one that learns to forecast, such as PolyODETransformer(), got "
            f"{transformer!r}."
        )
    share, n_epochs = parameters["calibration_fraction"], parameters["update_epochs"]
    check_share("calibration_fraction", share)
    if not isinstance(n_epochs, Integral) or n_epochs < 0:
        raise ValueError(f"update_epochs must be an int of 0 or more, got {n_epochs!r}.")
    if random_state is None:
        random_state = transformer.random_state
    rng = local_random_state(random_state)
    options = {"random_state": int(rng.randint(2**31 - 1)), "validation_fraction": share}
    transformer = clone(transformer).set_params(**options, warm_start=False)
    seed = int(random_state if isinstance(random_state, Integral) else rng.randint(2**31 - 1))
    limits = CellLimits.of(panel)
    panel = _by_position(drop_empty(within_limits(panel, limits, "y").since_start(), "y"))
    warn_of_codes(panel, "y")
    check_sizes(panel, name="y")
    stage = Calibrate(panel, seed, parameters["period"])
    _train(transformer, panel, limits, [stage])
    return stage.trained(transformer)


def _train(
    transformer: NeuralTransformer,
    panel: Panel,
    limits: CellLimits | None = None,
    then: Sequence[Stage] = (),
) -> None:
    """Fit a transformer; cut long series into windows, and run the stages `then`, not stacking."""
    n_coefficients = getattr(transformer, "n_coefficients", _SETTINGS.n_coefficients)
    length = _SETTINGS.rows_a_coefficient * n_coefficients
    if panel.n_series < FEWEST_TO_SPLIT:
        # Short windows, so that several can be held out: training stops by their errors.
        length = min(length, max(_SETTINGS.shortest_window, panel.n_observations // 8))
    options = {"skip": ["stacking"], "then": then, "limits": limits}
    transformer.fit_stages(panel, window_rows=length, **options)


def retrain(trained: Trained, panel: Panel, n_epochs: int) -> NeuralTransformer:
    """Continue training on a panel, at a quarter of the learning rate; return a new transformer."""
    # A shallow copy: fit makes new attributes, and trains a copy of the model.
    old = trained.transformer
    transformer, rate = copy.copy(old), old.learning_rate_init / 4
    transformer.set_params(warm_start=True, max_epochs=n_epochs, learning_rate_init=rate)
    with quiet_about_doubts():  # forecasts warn of doubtful values
        _train(transformer, _by_position(panel))
    return transformer.set_params(**old.get_params(deep=False))


def _by_position(panel: Panel) -> Panel:
    """The series with channels named by position, since names differ between sktime's formats."""
    names = default_channel_names(panel.n_channels)
    rows = replace(panel.rows, channel_names=names, has_channel_names=False)
    return Panel.from_rows(rows, panel.is_checked, panel.is_observed)


def _standardised(
    scaler: ChannelScaler, found: StructuralForecasts
) -> tuple[np.ndarray, np.ndarray]:
    """Structural forecasts (Q, D) and their expected errors (Q, D), in the units of the model.

    Unknown expected errors are 1, as for the mean.
    """
    expected = found.deviations / scaler.scale
    expected = np.where(np.isnan(expected), 1.0, np.maximum(expected, NEGLIGIBLE))
    return scaler.read(found.means), expected


def answer(
    trained: Trained,
    context: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    path_at_rows: bool = False,
    inputs_name: str = "inputs",
) -> Answers:
    """As `answers_at`, for any series; NaN for those without any observation.

    Parameters
    ----------
    trained : Trained
    context : Panel
        Observations so far, with times since the start of each series (`Panel.since_start`).
    times : float64 ndarray of shape (Q,)
        Times of all series, one after the other, counted as in the context.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    path_at_rows : bool, default=False
    inputs_name : str, default="inputs"
        Name of the parameter with the inputs, for the warning that inputs are missing.
    """
    warn_of_unknown_inputs(context, times, offsets, inputs_name)
    context = credible(context, trained.transformer.scaler_, "y")
    context = as_fitted(trained.transformer, _by_position(context), "y")
    answers, known = Answers.blank(len(times), context.n_channels), observed_series(context)
    if not known.any():
        return answers
    asked = np.repeat(known, np.diff(offsets))
    panel, offsets, times = context[known], offsets_from(np.diff(offsets)[known]), times[asked]
    if not path_at_rows:
        why = "its first row ({} such times): nothing is known from there."
        refuse_early(panel, times, offsets, panel.start, why)
    model, structural = trained.transformer.embedder_, None
    if trained.structural is not None:

        def structural(*query: Any) -> tuple[np.ndarray, np.ndarray]:
            return _standardised(model.units.scaler, trained.structural.forecast_from(*query))

    options = {"path_at_rows": path_at_rows, "structural": structural}
    found = answers_at(model, panel, times, offsets, trained.path_calibration, **options)
    answers.put(asked, **found._asdict())
    return answers
