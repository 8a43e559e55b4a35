"""Base of transformers that train a sequence model: training, forecasts and score."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from skpolyode.embedders import ModelEmbedder, Units
from skpolyode.embedders.fitting import encoders_of
from skpolyode.embedders.holdout import FitOptions, judging_part, report_hold_out, split_series
from skpolyode.embedders.inputs import sizes_of
from skpolyode.embedders.static import n_features_of
from skpolyode.errors import check_share, check_switch
from skpolyode.futures.continued import Ahead
from skpolyode.futures.sampling import SamplesFutures
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import Sizes
from skpolyode.panel import Panel, query_times
from skpolyode.panel.durations import typical_gap
from skpolyode.panel.outliers import CellLimits
from skpolyode.panel.select import (
    drop_empty,
    fill_rows,
    fill_values,
    observed_series,
    series_of_rows,
)
from skpolyode.training.report import warn_if_nothing_was_learned
from skpolyode.training.task import Task
from skpolyode.training.tasks import IntervalTask
from skpolyode.transformers.base import SeriesTransformer
from skpolyode.transformers.input import (
    check_sizes,
    continues_fit,
    fit_series,
    read_panel,
)
from skpolyode.transformers.known_inputs import warn_of_unknown_inputs
from skpolyode.transformers.parameters import Training, check_device, local_random_state
from skpolyode.transformers.stages import (
    FEWEST_EPOCHS,
    EstimateError,
    FitState,
    StackForecasts,
    Stage,
    Train,
    run_stages,
)

LONG_SERIES = 256  # rows: longer series are cut for training; if few, their ends may be held out
_FURTHEST = 48  # most observations that every second minibatch looks ahead: at most half a series


class NeuralTransformer(SamplesFutures, SeriesTransformer, Training):
    """Base of transformers that embed and forecast by a trained sequence model.

    A subclass makes its model in `_new_model`. Its `__init__` takes the parameters that it adds and
    ``**training``, which it passes on. Signature and docstring are completed here; in the docstring
    ``%(training)s`` and ``%(trained)s`` are replaced, and ``%(Parameters)s`` and ``%(Attributes)s``
    by the whole sections of the parent.

    Parameters
    ----------
    %(training)s

    Attributes
    ----------
    %(trained)s
    """

    has_path = True
    uses_static = True
    ignores_outliers = True
    has_stream = True

    stages: ClassVar[tuple[Stage, ...]] = (Train(), EstimateError(), StackForecasts())
    """The steps of `fit`, in order."""

    task: ClassVar[type[IntervalTask]] = IntervalTask
    """Class of the training task, whose minibatches hold a few intervals."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        groups: Any = None,
        validation: Any = None,
    ) -> Self:
        """Train on series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : array-like or None, default=None
            Ignored, unless its index holds the ids of the series in another order.
        groups : array-like of shape (n_series,) or None, default=None
            Group of each series, such as the patient of a stay: `validation_fraction` then holds
            out whole groups. In a pipeline, request it by ``set_fit_request(groups=True)``
            (metadata routing), and `validation` likewise.
        validation : Panel, list of (times, values), list of DataFrames, or array, default=None
            Validation series with the channels of `X`, in place of those that `validation_fraction`
            holds out. Their error stops training, selects the best weights of the model, and sets
            the weights of the stacking. `fit` learns nothing else from them. Not together with
            `groups`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a series is not valid; all faults of the series are listed at once. An
            error leaves the result of an earlier fit unchanged.

        Warns
        -----
        UserWarning
            If a channel was never observed. The message says what to do.
        ConvergenceWarning
            If the loss became infinite, or if the model forecasts no better than the untrained
            model or the mean.
        """
        return fit_series(self, self._fit, X, y, groups=groups, validation=validation)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the one-step forecasting MSE, in standardised units: larger is better.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        y : None, default=None
            Ignored.

        Returns
        -------
        float
            Minus the mean squared error over all observed values but the first of each series;
            0 where there is nothing to forecast.
        """
        panel = read_panel(self, X, reset=False)
        known = panel[observed_series(panel)]
        return -self.embedder_.forecasting_mse(known) if len(known) else 0.0

    def residuals(self, X: Any) -> Panel:
        """Errors of one-step forecasts, for each observation.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.

        Returns
        -------
        Panel
            Observation minus forecast from all rows before it, at the series' own times and in the
            units of the channels. NaN where nothing was observed, and in the first observed row of
            a series, which has no forecast.
        """
        panel = read_panel(self, X, reset=False)
        values = np.full(panel.values.shape, np.nan)
        observed = ~np.isnan(panel.values).all(axis=1)
        if observed.any():
            values[observed] = self.embedder_.residuals(drop_empty(panel))[0]
        return panel.like(panel.times, values, panel.offsets)

    def score_samples(self, X: Any) -> np.ndarray:
        """How well each series is forecast; the lowest scores are anomalies.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.

        Returns
        -------
        float64 ndarray of shape (n_series,)
            Minus the mean, over all observed values but the first row of the series, of
            ``((x - forecast) / scale)**2``, one step ahead. The scale is the standard deviation of
            the forecast error if the model estimates it, else of the channel. 0 where there is
            nothing to forecast, NaN where there is no observation.
        """
        panel = read_panel(self, X, reset=False)
        return -fill_rows(panel, self.embedder_.mean_errors, lambda: 1)[:, 0]

    def forecast(
        self,
        X: Any,
        times: Any,
        relative_to: str | None = None,
        combine: bool = True,
        *,
        inputs: Any = None,
    ) -> Panel:
        """Continue series beyond their last observation.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,) or list of such
            Times from the last observation on, for all series or for each; in the units and of
            the type of the series' times.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times, like those of
            the series.
        combine : bool, default=True
            Whether to combine the model with simple forecasts: the last value, a mixed model and a
            ridge regression (stacking). Backtests set the weights for each channel and lead. False:
            the forecast of the model alone.
        inputs : Inputs, Panel, list of (times, values) or None, default=None
            Inputs in addition to those of `X`, past or future: one series of inputs for each
            series, or only for the ids that have any. At equal times they replace those of `X`.

        Returns
        -------
        Panel
            All channels at these times. The forecast of the model of a `PolyODETransformer` is
            constant further than 20 times its `context_` ahead.

        Raises
        ------
        ValueError
            If a time is before the last observation of its series.

        Warns
        -----
        UserWarning
            If the inputs of a series end before the forecast times.
        """
        check_switch("combine", combine)
        panel = self._continued_panel(X, inputs)
        flat, offsets = query_times(panel, times, relative_to)
        warn_of_unknown_inputs(panel, flat, offsets)
        compute = partial(self.embedder_.forecast_values, combine=combine)
        return panel.like(flat, fill_values(panel, flat, offsets, compute), offsets)

    def interpolate_interval(
        self, X: Any, times: Any = None, coverage: float = 0.9, relative_to: str | None = None
    ) -> tuple[Panel, Panel]:
        """Calibrated intervals around `interpolate`, in gaps and between observations.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        coverage : float, default=0.9
            Probability of the interval, between 0 and 1.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        tuple of two Panels
            The lower and the upper ends: intervals for new observations, within the limits of
            channels (see `Panel.with_limits`). Where a channel was observed, both are the
            observation, unless the model treats observations as noisy. After its last observation,
            intervals are as wide as those of `forecast_interval`, and before the first row as wide
            as those of a forecast of equal lead.

        Raises
        ------
        ValueError
            As in `interpolate`, or if `coverage` does not lie between 0 and 1.

        Notes
        -----
        The first call hides observations of the series that `fit` has held out, and learns from
        the errors of the path there. It takes about a second.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import PolyODETransformer
        >>> t = np.linspace(0, 6, 13)
        >>> series = [(t, np.sin(2 * t + k)) for k in range(8)]
        >>> model = PolyODETransformer(n_coefficients=8, max_epochs=2, random_state=0).fit(series)
        >>> lower, upper = model.interpolate_interval(series, [3.0, 3.25])  # observed; between
        >>> width = upper.values - lower.values
        >>> bool((width[::2] == 0).all()), bool((width[1::2] > 0).all())
        (True, True)
        """
        panel = read_panel(self, X, reset=False)
        path = self.interpolate(panel, times, relative_to)
        return self.interval_around(path, panel, times, coverage, relative_to)

    def interval_around(
        self,
        path: Panel,
        X: Any,
        times: Any = None,
        coverage: float = 0.9,
        relative_to: str | None = None,
    ) -> tuple[Panel, Panel]:
        """As `interpolate_interval`, around another path; for estimators that wrap this one.

        Parameters
        ----------
        path : Panel
            Values at these times, as `interpolate` returns them.
        X : Panel, list of (times, values), list of DataFrames, or array
            As in `interpolate_interval`.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate_interval`.
        coverage : float, default=0.9
            As in `interpolate_interval`.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate_interval`.

        Returns
        -------
        tuple of two Panels
            As of `interpolate_interval`.
        """
        check_is_fitted(self)
        check_share("coverage", coverage)
        if (paths := self.embedder_.path_calibration) is None:
            raise ValueError("errors of paths are not known: fit again, with this version.")
        panel = read_panel(self, X, reset=False)
        half_widths = partial(paths.half_widths_at, self.embedder_, coverage)
        half = self._found(panel, times, relative_to, half_widths).values
        limits = (limit[series_of_rows(path)] for limit in self.limits_.kept_by(panel))
        both = np.clip([path.values - half, path.values + half], *limits)
        lower, upper = (path.like(path.times, values, path.offsets) for values in both)
        return lower, upper

    def _forecasting(self) -> ModelEmbedder:
        check_is_fitted(self)
        return self.embedder_

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        return read_panel(self, X, reset=False, inputs=inputs)

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        warn_of_unknown_inputs(panel, times, offsets)
        return self.embedder_.outlook(panel, times, offsets)

    def _new_model(self, sizes: Sizes, generator: torch.Generator) -> SequenceModel:
        """Untrained model; weights are drawn from the generator."""
        raise NotImplementedError(f"{type(self).__name__} makes its model in `_new_model`.")

    def fit_stages(
        self,
        X: Any,
        *,
        window_rows: int | None = None,
        skip: Collection[str] = (),
        then: Sequence[Stage] = (),
        limits: CellLimits | None = None,
    ) -> Self:
        """Fit as `fit` does, but without the stages to skip; for estimators that wrap this one.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        window_rows : int or None, default=None
            Rows of the windows that long series are cut into for training. None: as in `fit`.
        skip : collection of str, default=()
            Names of the stages to leave out, such as "stacking".
        then : sequence of Stage, default=()
            Stages that follow the others.
        limits : CellLimits or None, default=None
            Limits of cells, learned from more series. None: learn them from these series.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter or a series is not valid, or a stage is not known.
        """
        if unknown := set(skip) - {stage.name for stage in self.stages}:
            known = [stage.name for stage in self.stages]
            raise ValueError(f"skip holds {sorted(unknown)}; the stages are {known}.")
        settings = {"window_rows": window_rows, "skip": skip, "then": then}
        return fit_series(self, self._fit, X, settings=settings, limits=limits)

    def _fit(
        self,
        panel: Panel,
        window_rows: int | None = None,
        skip: Collection[str] = (),
        then: Sequence[Stage] = (),
        **options: Any,
    ) -> str | None:
        check_device(self.device)
        random_state = local_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(random_state.randint(2**31)))
        continues = continues_fit(self)
        known, longest = FitOptions(**options), window_rows or LONG_SERIES
        split = split_series(panel, known, self.validation_fraction, random_state, longest)
        trained = split.trained
        if continues:
            embedder = self._continued(self.embedder_.with_own_model())
        else:
            embedder = self._new_embedder(trained, generator)
            check_sizes(panel, embedder.units.scaler)  # of held-out series as well
        embedder.to(self.device)
        stopping, judging = judging_part(split, known.groups)
        length = window_rows or self._rows_to_cut(embedder)
        state = FitState(
            embedder,
            trained,
            judging.tested if split.held_out.any() else None,
            stopping.cut(length) if length else stopping,
            self.get_params(deep=False),
            self._new_task,
            self.fit_report_,
            random_state,
            generator,
        )
        report_hold_out(self.fit_report_, stopping, judging)
        run_stages([*(stage for stage in self.stages if stage.name not in skip), *then], state)
        return self._take_over(state, judges_untrained=not (continues or skip))

    def _take_over(self, state: FitState, *, judges_untrained: bool) -> str | None:
        """Set the fitted attributes; returns the message of an interruption, else None."""
        report = state.training
        self.embedder_, self.history_ = state.embedder, report.history
        self.n_epochs_, self.validation_error_ = report.n_epochs, report.best_error
        self.best_epoch_, self.stop_reason_ = report.best_epoch, report.reason
        vars(self).update(state.fitted)
        if report.n_epochs >= FEWEST_EPOCHS:  # fewer are a trial run: do not warn
            warn_if_nothing_was_learned(report, state.judged, from_scratch=judges_untrained)
        return report.message if report.was_interrupted else None

    def _new_embedder(self, panel: Panel, generator: torch.Generator) -> ModelEmbedder:
        units = Units.of(panel, typical_gap(panel), self.limits_)
        read = encoders_of(panel, inputs=self.uses_inputs)
        duration = float((panel.end - panel.start).max()) / units.time_scale
        known = duration, units.time_scale, panel.time_unit, sizes_of(read["inputs"])
        sizes = Sizes(panel.n_channels, n_features_of(read["static"]), *known)
        return ModelEmbedder(self._new_model(sizes, generator).float(), units, **read)

    def _continued(self, embedder: ModelEmbedder) -> ModelEmbedder:
        """Embedder that a warm start continues; a ValueError if parameters need another model."""
        n_static = n_features_of(embedder.static)
        known = 1.0, self.time_scale_, self.time_unit_, sizes_of(embedder.inputs)
        like = self._new_model(Sizes(self.n_channels_in_, n_static, *known), torch.Generator())
        shapes = [[tuple(p.shape) for p in model.parameters()] for model in (like, embedder.model)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "warm_start=True continues the model of the last fit, but the number of channels "
                "or the parameters now ask for another one; keep them or set warm_start=False."
            )
        return embedder

    def _rows_to_cut(self, embedder: ModelEmbedder) -> int | None:
        """Rows of the windows that long series are cut into for training; None: do not cut."""
        return None

    def _new_task(self, model: SequenceModel, data: Packed, held_out: torch.Tensor) -> Task:
        """Training task of the model."""
        ahead = self._looks_ahead(data, held_out)
        return self.task(model, data, held_out, length=self.task.usual_length, **ahead)

    def _looks_ahead(self, data: Packed, held_out: torch.Tensor) -> dict[str, int]:
        """Observations that all minibatches look ahead, and that every second one does at most."""
        if self.horizon != "auto":
            return {"horizon": self.horizon, "furthest": 1}
        rows = torch.bincount(data.series, minlength=len(held_out))[~held_out]
        return {"horizon": 1, "furthest": int(rows.median().clamp(2, 2 * _FURTHEST)) // 2}

    def _channel_features(self) -> list[list[str]]:
        return self._block_features(2)

    def _series_features(self) -> list[str]:
        return [*chain(*self._block_features(1)), *super()._series_features()]

    def _block_features(self, n_axes: int) -> list[list[str]]:
        """Names of the features of each block with this number of axes."""
        shapes = self.embedder_.block_shapes().items()
        return [[f"{name}{k}" for k in range(s[-1])] for name, s in shapes if len(s) == n_axes]
