"""A forecaster of panels: any series at any times, which need not fit into sktime's formats.

:mod:`skpolyode.forecasting.frames` translates sktime's frames and horizons.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sktime.forecasting.base import BaseForecaster

from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.fitting import FEWEST_TO_SPLIT
from skpolyode.embedders.inputs import with_inputs
from skpolyode.ensemble.backtest import FEWEST_FOLDS, FEWEST_TO_HOLD_OUT, RollingOrigins
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.member import NEGLIGIBLE
from skpolyode.ensemble.paths import Answers, PathCalibration, answers_at, late_paths
from skpolyode.ensemble.stacking import calibrate, learn_stacking
from skpolyode.errors import check_share
from skpolyode.futures.continued import Ahead, SamplesFutures
from skpolyode.panel import Panel, as_panel, offsets_from, query_times
from skpolyode.panel.query import refuse_early
from skpolyode.panel.rows import default_channel_names
from skpolyode.panel.select import drop_empty, observed_series, series_of_rows
from skpolyode.panel.selection import align_to_fit
from skpolyode.panel.units import (
    CellLimits,
    ChannelScaler,
    quiet_about_doubts,
    warn_of_codes,
    within_limits,
)
from skpolyode.structural.forecaster import StructuralForecasts, StructuralModels
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers.input import as_fitted, check_sizes, credible
from skpolyode.transformers.neural import (
    NeuralTransformer,
    local_random_state,
    warn_of_unknown_inputs,
)
from skpolyode.transformers.stages import FitState, Stage

FITTED = (
    *("transformer_", "calibration_", "path_calibration_", "structural_"),
    *("channel_names_", "has_channel_names_"),
)
"""Attributes that training sets."""

_MOMENT = 1e-6  # typical gaps after the last row, which itself has an in-sample forecast

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
        state.embedder = model = replace(state.embedder, stacking=stacking)
        self.calibration = calibrate(backtest, model.units.time_scale)
        judges = trained if tested is None else tested
        self.paths = late_paths(model, judges, state.random_state, new_from)

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


def _train(
    transformer: NeuralTransformer,
    panel: Panel,
    limits: CellLimits | None = None,
    then: Sequence[Stage] = (),
) -> None:
    """Fit a transformer; cut long series into windows, and run the stages `then`, not stacking."""
    length = _ROWS_A_COEFFICIENT * getattr(transformer, "n_coefficients", _N_COEFFICIENTS)
    if panel.n_series < FEWEST_TO_SPLIT:
        # Short windows, so that several can be held out: training stops by their errors.
        length = min(length, max(_SHORTEST_WINDOW, panel.n_observations // 8))
    options = {"skip": ["stacking"], "then": then, "limits": limits}
    transformer.fit_stages(panel, window_rows=length, **options)


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


class PanelForecaster(SamplesFutures, BaseForecaster):
    """Base of forecasters of any series, at any times, with intervals.

    Attributes
    ----------
    transformer_ : transformer
        The trained model.
    calibration_ : Calibration
        Half widths of the intervals, by channel and lead.
    path_calibration_ : PathCalibration
        Half widths between observations.
    structural_ : StructuralModels or None
        Models of level, trend and season; None with ten series or more.
    channel_names_ : tuple of str
        Names of the channels in training.
    has_channel_names_ : bool
        Whether these names were given; channels are then matched by name.
    """

    transformer: NeuralTransformer | None
    calibration_fraction: float
    update_epochs: int
    random_state: Any
    transformer_: NeuralTransformer
    structural_: StructuralModels | None
    calibration_: Calibration
    path_calibration_: PathCalibration

    def _learn(self, panel: Panel, period: Sequence[float] | None) -> None:
        """Train and calibrate a clone of the transformer; see the parameters of the forecaster.

        `period` are lengths of seasons, or None to search for them.
        """
        transformer, random_state = self.transformer, self.random_state
        if transformer is None:
            transformer = PolyODETransformer()
        if not isinstance(transformer, NeuralTransformer):
            raise TypeError(
                "transformer must be one that learns to forecast, such as PolyODETransformer(), "
                f"got {transformer!r}."
            )
        share, n_epochs = self.calibration_fraction, self.update_epochs
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
        stage = Calibrate(panel, seed, period)
        _train(transformer, panel, limits, [stage])
        few = StructuralModels.learn(panel, seed, period) if stage.is_few else None
        self.transformer_, self.structural_ = transformer, few
        self.calibration_, self.path_calibration_ = stage.calibration, stage.paths

    def _retrain(self, panel: Panel, n_epochs: int) -> None:
        """Continue training a copy of the model on a panel, at a quarter of the learning rate."""
        # A shallow copy: fit makes new attributes, and trains a copy of the model.
        old = self.transformer_
        transformer, rate = copy.copy(old), old.learning_rate_init / 4
        transformer.set_params(warm_start=True, max_epochs=n_epochs, learning_rate_init=rate)
        with quiet_about_doubts():  # forecasts warn of doubtful values
            _train(transformer, _by_position(panel))
        self.transformer_ = transformer.set_params(**old.get_params(deep=False))

    def forecast(
        self, y: Any, times: Any, relative_to: str | None = None, *, inputs: Any = None
    ) -> Panel:
        """Forecast any series with the trained model, which does not change.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, with the channels of training.
        times : array-like of shape (Q,) or list of such
            Times from the first row on, for all series or for each; in the units and of the type of
            the series' times. Times up to the last row get in-sample values, as in `predict`.
        relative_to : {"start", "end"} or None, default=None
            Count `times` from the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times, like those of
            the series.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs in addition to those of the series; see `PolyODETransformer.forecast`.

        Returns
        -------
        Panel
            All channels at these times.

        Raises
        ------
        ValueError
            If a time is before the first row of its series.
        """
        return self.forecast_quantiles(y, times, [0.5], relative_to, inputs=inputs)[0.5]

    def interpolate(self, y: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Values at any times: the path between observations, and forecasts after the last one.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, as in `forecast`.
        times : array-like of shape (Q,), list of such or None, default=None
            Times, as in `forecast`. None: the times of the series.
        relative_to : {"start", "end"} or None, default=None
            As in `forecast`.

        Returns
        -------
        Panel
            All channels at these times: the centres of `interpolate_interval`.

        See Also
        --------
        interpolate_interval : Intervals around these values.
        """
        panel, flat, offsets, answers = self._path(y, times, relative_to)
        return panel.like(flat, self._quantile(answers, 0.5), offsets)

    def interpolate_interval(
        self, y: Any, times: Any = None, coverage: float = 0.9, relative_to: str | None = None
    ) -> tuple[Panel, Panel]:
        """Intervals around `interpolate`, for values that were not observed.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            As in `interpolate`.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        coverage : float, default=0.9
            As in `forecast_interval`.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        tuple of two Panels
            The lower and the upper ends of intervals for an observation. Where a channel was
            observed, both are the observation, unless the transformer treats observations as noisy.
            After the last observation of a channel, the ends are those of `forecast_interval`.
            Before the first row, intervals are as wide as those of a forecast of equal lead.
        """
        check_share("coverage", coverage)
        panel, flat, offsets, answers = self._path(y, times, relative_to)
        lower, upper = (
            panel.like(flat, self._quantile(answers, (1 + side * coverage) / 2), offsets)
            for side in (-1, 1)
        )
        return lower, upper

    def _quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> list[np.ndarray]:
        answers = self._answers(panel, times, offsets)
        return [self._quantile(answers, a) for a in alpha]

    def _answers(
        self,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        path_at_rows: bool = False,
        inputs_name: str = "inputs",
    ) -> Answers:
        """As `answers_at`, for any series; NaN for those without any observation.

        Times of the panel, and `times` (Q,), count from the start of each series. `inputs_name` is
        the parameter with the inputs, for the warning that inputs are missing.
        """
        model, scaler = self.transformer_.embedder_, self.transformer_.scaler_
        warn_of_unknown_inputs(panel, times, offsets, inputs_name)
        panel = as_fitted(self.transformer_, _by_position(credible(panel, scaler, "y")), "y")
        answers, known = Answers.blank(len(times), panel.n_channels), observed_series(panel)
        if not known.any():
            return answers
        asked = np.repeat(known, np.diff(offsets))
        panel, offsets, times = panel[known], offsets_from(np.diff(offsets)[known]), times[asked]
        if not path_at_rows:
            why = "its first row ({} such times): nothing is known from there."
            refuse_early(panel, times, offsets, panel.start, why)
        structural = None
        if (models := self.structural_) is not None:

            def structural(*query: Any) -> tuple[np.ndarray, np.ndarray]:
                return _standardised(scaler, models.forecast_from(*query))

        options = {"path_at_rows": path_at_rows, "structural": structural}
        found = answers_at(model, panel, times, offsets, self.path_calibration_, **options)
        answers.put(asked, **found._asdict())
        return answers

    def _path(
        self, y: Any, times: Any, relative_to: str | None
    ) -> tuple[Panel, np.ndarray, np.ndarray, Answers]:
        """Aligned series, query times (Q,), offsets of those of each series, and the answers."""
        panel = self._aligned(y)
        observed = panel.times, panel.offsets
        flat, offsets = observed if times is None else query_times(panel, times, relative_to)
        return panel, flat, offsets, self._answers(panel, flat, offsets, path_at_rows=True)

    def _aligned(self, y: Any) -> Panel:
        """Panel with times since its start; channels are matched by name if both have names."""
        if self.state == "new":
            self.check_is_fitted()
        return align_to_fit(as_panel(y, name="y"), self, "y").since_start()

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        """Series with the channels of training, and additional inputs."""
        panel = self._aligned(X)
        if inputs is None:
            return panel
        encoder = self.transformer_.embedder_.inputs
        return with_inputs(panel, encoder, inputs, type(self).__name__)[0]

    def _forecasting(self) -> ModelEmbedder:
        if self.state == "new":
            self.check_is_fitted()
        return replace(self.transformer_.embedder_, calibration=self.calibration_)

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        # At the last row the forecaster answers with the forecast of that row.
        end = np.repeat(panel.end, np.diff(offsets))
        least = _MOMENT * self.transformer_.time_scale_
        later = np.maximum(times, end + np.maximum(least, 4 * np.spacing(np.abs(end))))
        answers = self._answers(panel, later, offsets)
        return Ahead(answers.values, answers.leads, answers.signs, answers.expected)

    def _quantile(self, answers: Answers, alpha: float) -> np.ndarray:
        """Quantile (Q, D) in the units of the data, within limits; the median is the forecast."""
        widths = self._half_widths(answers, abs(2 * alpha - 1))
        ends = answers.values + np.sign(alpha - 0.5) * widths
        return np.clip(self.transformer_.scaler_.inverse(ends), answers.floor, answers.ceiling)

    def _half_widths(self, answers: Answers, level: float) -> np.ndarray:
        """Half widths (Q, D) of the intervals at a level, in standard deviations."""
        return answers.half_widths(self.calibration_, self.path_calibration_, level)
