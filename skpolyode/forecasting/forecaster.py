"""The forecaster: PolyODE or another neural transformer behind sktime's interface."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from numbers import Integral
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sktime.datatypes import convert_to
from sktime.exceptions import NotFittedError
from sktime.forecasting.base import BaseForecaster

from skpolyode import seams
from skpolyode.embedders import ModelEmbedder
from skpolyode.embedders.fitting import FEWEST_TO_SPLIT
from skpolyode.ensemble.paths import answers_at
from skpolyode.ensemble.periods import read_period
from skpolyode.errors import check_share, naming_owner
from skpolyode.forecasting.frames import (
    Query,
    channel_places,
    check_countable,
    extended,
    in_zone_of,
    is_foreign,
    read_context,
    read_horizon,
    read_index,
    spelled_horizon,
    undone_by_errors,
    warn_of_exogenous,
    with_levels,
)
from skpolyode.futures.continued import Ahead, SamplesFutures
from skpolyode.panel import Panel, as_panel
from skpolyode.panel.query import refuse_early
from skpolyode.panel.select import drop_empty
from skpolyode.saving.objects import SafeFiles, register_estimator
from skpolyode.structural.forecaster import StructuralModels
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers.input import read_panel, unchanged_by_errors
from skpolyode.transformers.neural import (
    NeuralTransformer,
    local_random_state,
    warn_of_unknown_inputs,
)
from skpolyode.transformers.stages import StackForecasts

# Lengths of the windows that training cuts long series into.
_ROWS_A_COEFFICIENT = 4  # for each coefficient of the memory
_N_COEFFICIENTS = 32  # assumed for a model without coefficients
_SHORTEST_WINDOW = 16  # rows

_N_LEVELS = 50  # quantiles that a variance is computed from
_N_SAMPLES = 200  # of a distribution of skpro
_FURTHER = "inputs=, or X= in methods of sktime"
_TRAINED = ["transformer_"]  # attributes that training sets
_MTYPES = ["pd.DataFrame", "pd-multiindex", "pd_multiindex_hier"]  # formats that it reads


def _trained(forecaster: Any) -> dict[str, Any]:
    """Attributes that a file holds: what was trained, without series and horizons."""
    held = {name: value for name, value in vars(forecaster).items() if name in _TRAINED}
    if held:
        held |= {"_state": "pretrained", "_pretrained_attrs": [*_TRAINED]}
    return held | {"_config_dynamic": forecaster._config_dynamic}


@register_estimator(fitted=_trained)
class PolyODEForecaster(SafeFiles, SamplesFutures, BaseForecaster):
    r"""Forecast irregular series at any times, with intervals (PolyODE behind sktime's interface).

    One model of the dynamics is learned from all series: single series, panels and hierarchies,
    with missing values, series of unequal length and channels observed at different times.
    Forecasts continue each series from its last observation, at times that need not lie on a grid.
    They are averaged with simple forecasts and, for fewer than ten series, with structural models
    of level, trend and season. Backtests set the weights, and their errors give the intervals. Use
    it if series are sparse samples of common dynamics, preferably many of them.

    Parameters
    ----------
    transformer : transformer of this package that forecasts, or None, default=None
        The model of the dynamics; a clone of it is fitted. Set its parameters as
        ``transformer__<name>``; times are in the units of the index (seconds for datetimes). Raise
        its `horizon` if the nearest forecasts matter most. None: ``PolyODETransformer()``.
    calibration_fraction : float, default=0.2
        Share of the series that do not train the model: they stop its training, and calibrate
        forecasts and intervals. With fewer than five series, the end of each is held out instead.
        It replaces `validation_fraction` of the transformer. Raise it for more exact intervals,
        lower it if data are few.
    period : float, timedelta, str, sequence of such, "auto" or None, default="auto"
        Lengths of seasons, for the combined forecasts that have one: in the units of `times`
        (seconds for datetimes), or, for datetimes, durations such as "24h". Of several, such as
        ["24h", "7D"], the model uses one or all, whichever is more likely. "auto" detects seasons.
        None: there is no season. A period is elapsed time: after clocks change, a daily pattern is
        an hour off.
    random_state : int, RandomState instance or None, default=None
        Seed of the transformer and of the structural models; it replaces `random_state` of the
        transformer. None: that of the transformer is used. Global generators are not used.

    Attributes
    ----------
    transformer_ : PolyODETransformer, or the type of `transformer`
        The trained model, with all that forecasts and paths have learned. What follows is part of
        it. Weights, intervals and structural models are learned when they are first asked for.
    calibration_ : Calibration
        Half widths of the intervals, by channel and lead.
    structural_ : StructuralModels or None
        Models of level, trend and season for few series; None with ten or more.
    channel_names_ : tuple of str
        Names of the channels in training.
    has_channel_names_ : bool
        Whether these names were given; channels are then matched by name.

    See Also
    --------
    skpolyode.transformers.PolyODETransformer : The default model of the dynamics.
    evaluate_forecasts : Scores forecasts of irregular series, each with its own cutoff.

    Notes
    -----
    **Horizons.** On irregular datetimes, horizons are times (a DatetimeIndex) or durations
    (Timedeltas, counted from the last row of each series). Integers count steps of each instance:
    of the frequency of its rows, or else of the panel. On integers with gaps, relative horizons
    count in the units of the index. A time before the first row of a series is an error.

    **In-sample times.** At an observation of the series the prediction is the forecast of that
    observation from those before it (the mean at the first one), so that residuals are errors of
    true forecasts. Between two observations it is the learned path from one to the other.

    **Rows.** Instances may be unsorted and their rows scattered; rows of equal instance and time
    are refused. Predictions are sorted by instance. `update` converts to the time zone of `fit`.

    **Intervals** are split conformal and symmetric: at each level, the half width is the quantile
    of the absolute errors of held-out forecasts with about the same lead, widened if few of these
    do not overlap. With five held-out series or more, errors are first divided by a scale that is
    predicted from the earlier volatility of the series, among others. Widths are constant beyond
    the longest lead of the backtest (two contexts, or 32 typical gaps for a transformer without a
    context). With fewer than five series of at most 24 rows nothing is held out, and intervals are
    too narrow.

    References
    ----------
    E. De Brouwer and R. G. Krishnan, "Anamnesic neural differential equations with orthogonal
    polynomial projections", ICLR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skpolyode.forecasting import PolyODEForecaster
    >>> from skpolyode.transformers import PolyODETransformer
    >>> hours = np.cumsum(np.random.default_rng(0).exponential(size=40))
    >>> index = pd.Timestamp("2024-01-01") + pd.to_timedelta(hours.round(3), unit="h")
    >>> y = pd.Series(np.sin(hours), index=index)
    >>> small = PolyODETransformer(n_coefficients=8, max_epochs=3)
    >>> forecaster = PolyODEForecaster(small, random_state=0).fit(y)
    >>> ahead = [pd.Timedelta(minutes=20), pd.Timedelta(hours=2)]
    >>> forecaster.predict(ahead).shape
    (2,)
    >>> forecaster.predict_interval(ahead, coverage=0.9).shape
    (2, 2)
    """

    # sktime would keep a second copy of the data, and warn that it will not in future versions.
    _config: ClassVar[dict[str, Any]] = {"remember_data": False}
    _y = _X = None
    _tags: ClassVar[dict[str, Any]] = {
        "authors": ["the skpolyode developers"],
        "maintainers": ["the skpolyode developers"],
        "python_dependencies": ["torch"],
        "y_inner_mtype": _MTYPES,
        "X_inner_mtype": _MTYPES,
        "capability:multivariate": True,
        "capability:exogenous": True,
        "capability:missing_values": True,
        "capability:unequal_length": True,
        "capability:categorical_in_X": False,
        "capability:insample": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": True,
        "capability:update": True,
        "capability:pretrain": True,
        "pretrain:fitted_params": _TRAINED,
        "capability:random_state": True,
        "property:randomness": "derandomized",
        "requires-fh-in-fit": False,
        "X-y-must-have-same-index": False,
    }

    calibration_ = property(attrgetter("transformer_.embedder_.calibration"))
    structural_ = property(attrgetter("transformer_.embedder_.stacking.structural"))
    channel_names_ = property(attrgetter("transformer_.channel_names_"))
    has_channel_names_ = property(attrgetter("transformer_.has_channel_names_"))

    update = undone_by_errors(BaseForecaster.update)
    update_predict_single = undone_by_errors(BaseForecaster.update_predict_single)
    predict_interval = with_levels(BaseForecaster.predict_interval, "coverage")
    predict_quantiles = with_levels(BaseForecaster.predict_quantiles, "alpha")

    def __init__(
        self,
        transformer: NeuralTransformer | None = None,
        calibration_fraction: float = 0.2,
        period: float | Sequence[float] | str | None = "auto",
        random_state: Any = None,
    ) -> None:
        self.transformer = transformer
        self.calibration_fraction = calibration_fraction
        self.period = period
        self.random_state = random_state
        super().__init__()
        if not getattr(transformer, "uses_inputs", transformer is None):
            self.set_tags(**{"capability:exogenous": False})

    def fit(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        """Train and calibrate, unless pretrained, and set the series that `predict` continues.

        Parameters
        ----------
        y : series, panel or hierarchy in any of sktime's formats
            The past. Its index determines which horizons are allowed; see Notes of the class.
            Arrays have sktime's axes: (time, channel) or (series, channel, time).
        X : series, panel or hierarchy in any of sktime's formats, or None, default=None
            Exogenous series, at any times: before, between and after the rows of `y`. Values
            between their rows are linearly interpolated. If the transformer does not use inputs,
            they are ignored with a warning.
        fh : horizon, default=None
            Stored for `predict`; nothing else depends on it.

        Returns
        -------
        self
        """
        check_countable(y)
        warn_of_exogenous(X, self.transformer)
        with unchanged_by_errors(self):
            return super().fit(y, X=X, fh=fh)

    def pretrain(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        """Train the model on many series; `fit` then only sets the series to forecast.

        Another call trains anew.

        Parameters
        ----------
        y : Panel, list of (times, values), dict, or any of sktime's panels and hierarchies
            The series. A :class:`~skpolyode.panel.Panel` may have times of any kind, including real
            numbers, which sktime's formats cannot hold. An array of three axes has sktime's order
            (series, channel, time); for (series, time, channel) give ``Panel.from_array(y)``.
        X : panel or hierarchy in any of sktime's formats, or None, default=None
            As in `fit`; a Panel has `inputs` instead.
        fh : None, default=None
            Ignored.

        Returns
        -------
        self
        """
        warn_of_exogenous(X, self.transformer)
        if not is_foreign(y):
            check_countable(y)
            with unchanged_by_errors(self):
                return super().pretrain(y, X=X, fh=fh)
        if X is not None:
            raise TypeError(
                "X goes with y in sktime's formats only: put it on the panel, with "
                "Panel(..., inputs=...) or y.with_inputs(...)."
            )
        panel = as_panel(y, name="y")
        with unchanged_by_errors(self):
            self._train(panel)
            self._pretrained_attrs = [*_TRAINED]
            self._state = "pretrained"
        return self

    def forecast(
        self, y: Any, times: Any = None, relative_to: str | None = None, *, inputs: Any = None
    ) -> Panel:
        """Forecast any series with the trained model, which does not change.

        Parameters
        ----------
        y : Panel, list of (times, values), list of DataFrames, or array
            Series, with the channels of training.
        times : array-like of shape (Q,) or list of such, default=None
            Times from the first row on, for all series or for each; in the units and of the type of
            the series' times. Times up to the last row get in-sample values, as in `predict`.
            Required.
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
        return self._path(y).value(times, relative_to)

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
        return self._path(y).interval(times, coverage, relative_to)

    def predict_residuals(self, y: Any = None, X: Any = None) -> Any:
        """Observations minus their predictions, each instance at its own times.

        Parameters
        ----------
        y : series, panel or hierarchy in any of sktime's formats, default=None
            Observations, with channels in any order; in-sample rows are predicted from the rows
            before them. By default the series of `fit` and `update`.
        X : series, panel or hierarchy in any of sktime's formats, or None, default=None
            Further rows of the exogenous series.

        Returns
        -------
        Residuals, in the format of `y`
            A DataFrame by default. NaN where `y` is not observed.
        """
        self.check_is_fitted()
        inner = self._context.y if y is None else convert_to(y, _MTYPES)
        X = None if X is None else convert_to(X, _MTYPES)
        is_unnamed = isinstance(y, pd.Series) and y.name is None
        places = channel_places(self._context.y.columns, inner.columns, is_unnamed)
        query = read_index(self._context, inner.index)
        asked = self._known(X), query.times, query.offsets, [0.5]
        (means,) = self._quantiles(*asked)
        residuals = inner - query.rows_at(means, inner.index)[:, places]
        if y is None or isinstance(y, pd.DataFrame):
            return residuals
        return convert_to(residuals, self._y_metadata["mtype"])

    def _pretrain(self, y: pd.DataFrame, X: Any = None, fh: Any = None) -> Self:
        self._train(read_context(y.astype(np.float64), X=X).panel)
        return self

    def _fit(self, y: pd.DataFrame, X: Any, fh: Any) -> Self:
        self._set_context(y.astype(np.float64), X)
        panel = self._context.panel
        if self.state != "pretrained":
            self._train(panel)
            return self
        names, known = list(y.columns), list(self.channel_names_)
        named = self.has_channel_names_ and all(isinstance(name, str) for name in names)
        if len(names) != len(known) or (named and names != known):
            raise ValueError(
                f"y has the channels {names}, but the forecaster was pretrained on {known}: give "
                "all of them in that order, NaN where not observed."
            )
        return self

    def _update(self, y: pd.DataFrame, X: Any = None, update_params: bool = True) -> Self:
        self._set_context(extended(self._context.y, y), extended(self._context.X, X, "X"))
        return self

    def _check_X_y(self, *args: Any, **kwargs: Any) -> tuple[Any, Any]:  # noqa: N802 (sktime's)
        """Check X and y, and convert their times to the time zones of `fit`."""
        X, y = super()._check_X_y(*args, **kwargs)
        if not self.is_fitted:
            return X, y
        return in_zone_of(self._context.X, X), in_zone_of(self._context.y, y)

    def _check_fh(self, fh: Any, pred_int: bool = False) -> Any:
        return super()._check_fh(spelled_horizon(fh, self.cutoff), pred_int)

    def _get_varnames(self) -> list[Any]:
        return list(self._context.y.columns)

    def _predict(self, fh: Any, X: Any = None) -> pd.DataFrame:
        return self._tables(fh, X, [0.5])[0]

    def _predict_quantiles(self, fh: Any, X: Any = None, alpha: Any = None) -> pd.DataFrame:
        tables = self._tables(fh, X, alpha)
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        cells = np.stack(tables, axis=-1).reshape(len(tables[0]), -1)
        return pd.DataFrame(cells, index=tables[0].index, columns=columns)

    def _predict_var(self, fh: Any, X: Any = None, cov: bool = False) -> pd.DataFrame:
        if cov:
            raise NotImplementedError(
                "covariances between times are not estimated: use predict_var(cov=False)."
            )
        levels = (np.arange(_N_LEVELS) + 0.5) / _N_LEVELS
        ends = self._tables(fh, X, [*(1 - levels) / 2, *(1 + levels) / 2])
        widths = zip(ends[:_N_LEVELS], ends[_N_LEVELS:], strict=True)
        return sum(((upper - lower) / 2) ** 2 for lower, upper in widths) / _N_LEVELS

    def _predict_proba(self, fh: Any, X: Any = None, marginal: bool = True) -> Any:
        """Empirical distribution of skpro: quantiles at each time, or sampled paths if joint."""
        if find_spec("skpro") is None:
            return super()._predict_proba(fh=fh, X=X, marginal=marginal)
        from skpro.distributions import Empirical

        if marginal:
            tables = self._tables(fh, X, (np.arange(_N_SAMPLES) + 0.5) / _N_SAMPLES)
        else:
            query = read_horizon(self._context, fh)
            series = self._futures(lambda: self._known(X), _N_SAMPLES, self.random_state)
            samples = series.paths(query.times, query.offsets).samples.swapaxes(0, 1)
            tables = self._framed(query, samples)
        return Empirical(pd.concat(tables, keys=range(len(tables))), time_indep=marginal)

    def check_is_fitted(self, method_name: str | None = None) -> None:
        """Raise an error if there is no series to continue.

        Parameters
        ----------
        method_name : str or None, default=None
            For the message.
        """
        if self.state == "pretrained":
            raise NotFittedError(
                "this forecaster is trained, but has no series to continue (files hold none): give "
                "them by fit(y), which does not train again, or call forecast(y, times)."
            )
        super().check_is_fitted(method_name)

    def _set_context(self, y: pd.DataFrame, X: pd.DataFrame | None) -> None:
        self._context = read_context(y, getattr(self.cutoff, "freq", None), X)

    def _train(self, panel: Panel) -> None:
        """Fit a clone of the transformer, whose forecasts also combine seasons and structure."""
        with naming_owner(self):
            period = read_period(self.period, panel.time_unit)
        transformer, random_state = self.transformer, self.random_state
        if transformer is None:
            transformer = PolyODETransformer()
        if not isinstance(transformer, NeuralTransformer):
            raise TypeError(
                "transformer must be one that learns to forecast, such as PolyODETransformer(), "
                f"got {transformer!r}."
            )
        share = self.calibration_fraction
        check_share("calibration_fraction", share)
        if random_state is None:
            random_state = transformer.random_state
        rng = local_random_state(random_state)
        options = {"random_state": int(rng.randint(2**31 - 1)), "validation_fraction": share}
        transformer = clone(transformer).set_params(**options)
        seed = int(random_state if isinstance(random_state, Integral) else rng.randint(2**31 - 1))
        stage = StackForecasts(period, lambda few: StructuralModels.learn(few, seed, period))
        panel = drop_empty(panel, "y")
        length = _ROWS_A_COEFFICIENT * getattr(transformer, "n_coefficients", _N_COEFFICIENTS)
        if panel.n_series < FEWEST_TO_SPLIT:
            # Short windows, so that several can be held out: training stops by their errors.
            length = min(length, max(_SHORTEST_WINDOW, panel.n_observations // 8))
        options = {"window_rows": length, "skip": [stage.name], "then": [stage], "name": "y"}
        self.transformer_ = transformer.fit_stages(panel, **options)

    def _known(self, X: pd.DataFrame | None) -> Panel:
        """The series as the transformer reads them, with further rows of X."""
        context = self._context
        if X is not None:
            context = read_context(context.y, context.freq, extended(context.X, X, "X"))
        return self._continued_panel(context.panel, None)

    def _tables(self, fh: Any, X: Any, alpha: Sequence[float]) -> list[pd.DataFrame]:
        """Quantiles at a horizon, one table for each probability."""
        query = read_horizon(self._context, fh)
        asked = self._known(X), query.times, query.offsets, alpha
        return self._framed(query, self._quantiles(*asked))

    def _framed(self, query: Query, arrays: Any) -> list[pd.DataFrame]:
        columns = self._context.y.columns
        return [pd.DataFrame(x, index=query.index, columns=columns) for x in arrays]

    def _quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> list[np.ndarray]:
        why = "its first row ({} such times): nothing is known from there."
        refuse_early(panel, times, offsets, panel.start, why)
        return super()._quantiles(panel, times, offsets, alpha)

    def _observed_quantiles(
        self, panel: Panel, times: np.ndarray, offsets: np.ndarray, alpha: Sequence[float]
    ) -> np.ndarray:
        if (times > np.repeat(panel.end, np.diff(offsets))).all():
            return super()._observed_quantiles(panel, times, offsets, alpha)
        warn_of_unknown_inputs(panel, times, offsets, _FURTHER)
        model = self._forecasting()
        query = model, panel, times, offsets, model.path_errors
        answers, scaler = answers_at(*query, path_at_rows=False), model.units.scaler
        ends = [scaler.inverse(answers.quantile(model, a)) for a in alpha]
        return scaler.within_limits(np.stack(ends), panel, offsets)

    def _path(self, y: Any) -> Any:
        self._forecasting()
        return seams.wing("questions").Path(self.transformer_, as_panel(y, name="y"), "y")

    def _continued_panel(self, X: Any, inputs: Any) -> Panel:
        self._forecasting()
        panel, options = as_panel(X, name="y"), {"reset": False, "name": "y"}
        return read_panel(self.transformer_, panel, inputs=inputs, **options)

    def _forecasting(self) -> ModelEmbedder:
        if self.state == "new":
            self.check_is_fitted()
        return self.transformer_.embedder_

    def _outlook(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> Ahead:
        warn_of_unknown_inputs(panel, times, offsets, _FURTHER)
        return self._forecasting().outlook(panel, times, offsets)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small parameters for sktime's estimator checks.

        Parameters
        ----------
        parameter_set : str, default="default"
            Ignored.

        Returns
        -------
        list of dict
        """
        # One integration step per gap and windows of eight rows, as sktime's checks fit 700 times.
        small = {"hidden_layer_sizes": (4,), "max_epochs": 1, "step_size": 1e7, "horizon": 1}
        models = [PolyODETransformer(n_coefficients=n, **small) for n in (2, 3)]
        return [
            {"transformer": models[0], "random_state": 0},
            {"transformer": models[1], "random_state": 1, "period": None},
        ]
