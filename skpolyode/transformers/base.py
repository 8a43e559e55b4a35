"""Base of all transformers of this package: series in, one row of features per series out.

A transformer learns an embedder from a checked panel in `_fit`. Its other methods depend on the
embedder: one with coefficients can be inverted, a trained model forecasts.
"""

from __future__ import annotations

import datetime
import inspect
import os
from abc import abstractmethod
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names_in, check_array, check_is_fitted

from skpolyode import seams
from skpolyode.embedders import ChannelScaler, Embedder, MemoryReadout, Units
from skpolyode.fit_report import FitReport
from skpolyode.memory import MEMORIES
from skpolyode.panel import Panel, is_ragged, query_times
from skpolyode.panel.cells import column_names
from skpolyode.panel.panel import stored
from skpolyode.panel.query import choose_window, covered, read_leads
from skpolyode.panel.select import blank_panel, fill_rows, fill_values
from skpolyode.panel.units import CellLimits
from skpolyode.saving.objects import register_estimator, save
from skpolyode.transformers.input import fit_series, read_panel

if TYPE_CHECKING:
    from skpolyode.questions.path import Path
    from skpolyode.streams.stream import SeriesStream

POSITIVE = Interval(Real, 0, None, closed="neither")
COUNT = Interval(Integral, 1, None, closed="left")
COUNT_OR_AUTO = [COUNT, StrOptions({"auto"})]
# As `read_duration` reads it. A timedelta64 comes first: numpy takes it for a whole number.
Duration = float | str | datetime.timedelta | np.timedelta64
DURATION = [np.timedelta64, datetime.timedelta, str, POSITIVE]


def check_names(init: Callable[..., None]) -> Callable[..., None]:
    """Decorate `__init__`: errors for unknown parameters name the class and the closest match."""

    @wraps(init)
    def checked(self: Any, *args: Any, **given: Any) -> None:
        if type(self).__init__ is checked:  # not when a subclass calls it
            known = list(inspect.signature(checked).parameters)[1:]
            for name in [name for name in given if name not in known]:
                near = get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"its parameters are {known}."
                raise TypeError(f"{type(self).__name__} has no parameter {name!r}; {hint}")
        init(self, *args, **given)

    return checked


class SeriesEstimator(BaseEstimator):
    """Base of estimators of series; list mixins of scikit-learn before it."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save parameters and fitted attributes in one file without any code.

        Parameters
        ----------
        path : str or PathLike
            Name of the safetensors file, which should end in ``.safetensors``; an existing file is
            replaced.

        Raises
        ------
        TypeError
            If a parameter or an attribute is of a type that files cannot hold.

        See Also
        --------
        skpolyode.load : Load the file.
        """
        save(self, path)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.three_d_array = True
        return tags


def _remembers(transformer: SeriesTransformer) -> bool:
    if not transformer.has_coefficients:
        raise AttributeError("the embedding has no coefficients; use PastDecoder for the past.")
    return True


class SeriesTransformer(TransformerMixin, SeriesEstimator):
    """Base of transformers that take ragged series and return one row of features a series.

    Subclasses set `embedder_` in `_fit`. To save instances of your own subclass, register it with
    `skpolyode.saving.register_estimator` in a module that is imported before loading.

    Attributes
    ----------
    embedder_ : Embedder
        The fitted model, which does not depend on scikit-learn.
    fit_report_ : FitReport
        What `fit` decided, and from which figures; print it.
    limits_ : CellLimits
        Range of credible values of each channel, from all series of `fit`.
    """

    # Public, as a transformer of your own declares by them what it inherits.
    has_coefficients: ClassVar[bool] = False
    """Whether the features start with polynomial coefficients of the past; brings `reconstruct`."""

    has_path: ClassVar[bool] = False
    """Whether the embedder follows a path through the observations; brings `interpolate`."""

    uses_static: ClassVar[bool] = False
    """Whether the features depend on the static covariates of a panel."""

    uses_errors: ClassVar[bool] = False
    """Whether the features depend on known errors of the observations of a panel."""

    uses_inputs: ClassVar[bool] = False
    """Whether features and forecasts depend on the inputs of a panel."""

    ignores_outliers: ClassVar[bool] = False
    """Whether cells that are far from all others are taken as not observed, with a warning."""

    has_stream: ClassVar[bool] = False
    """Whether series can be followed as observations come in; brings `stream`."""

    _parameter_constraints: ClassVar[dict[str, list]] = {}
    """Those of a subclass are added to those of its parents."""

    embedder_: Embedder
    fit_report_: FitReport
    limits_: CellLimits

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._parameter_constraints = (
            super(cls, cls)._parameter_constraints | cls._parameter_constraints
        )
        if "__init__" in vars(cls):
            cls.__init__ = check_names(cls.__init__)
        if cls.__module__.startswith("skpolyode."):
            register_estimator(cls)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series; see :func:`skpolyode.panel.as_panel` for every accepted format.
        y : array-like or None, default=None
            Ignored, unless its index holds the ids of the series in another order.

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
            If a channel was never observed, or the transformer does not use the static covariates.
            The message says what to do.
        """
        return fit_series(self, self._fit, X, y)

    if TYPE_CHECKING:  # scikit-learn has no types

        def fit_transform(self, X: Any, y: Any = None, **params: Any) -> np.ndarray: ...  # noqa: D102

    @abstractmethod
    def _fit(self, panel: Panel) -> str | None:
        """Learn from a checked panel, in which each series was observed; sets `embedder_`.

        Returns a message if the user interrupted a fit that is complete nevertheless, else None.
        """

    def transform(self, X: Any) -> np.ndarray:
        """Embed series.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series, with the channels of `fit`. Each is embedded at its last observation; the
            result does not depend on the other series in `X`. Series without any observation, which
            a Panel with ``empty="keep"`` may hold, get NaN.

        Returns
        -------
        float64 ndarray of shape (n_series, n_features)
            After ``set_output(transform="pandas")`` a frame; its index is the ids of the series,
            or that of `X` if it is a frame. Frames of polars have no index, and no column of ids,
            which later steps would take for a feature: rows are in the order of `Panel.ids`.
        """
        panel = read_panel(self, X, reset=False)
        features = fill_rows(
            panel, self.embedder_.features, lambda: len(self.get_feature_names_out())
        )
        is_pandas = _get_output_config("transform", self)["dense"] == "pandas"
        if is_pandas and (is_ragged(X) or getattr(X, "ndim", 2) == 3):
            # As in Panel.static; scikit-learn only keeps the index of a flat frame.
            is_frame = isinstance(X, pd.DataFrame | pd.Series)  # with a panel in each cell
            index = X.index if is_frame else pd.Index(panel.ids, tupleize_cols=False)
            return pd.DataFrame(features, index=index)
        return features

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the features: the channel and what it measures, such as ``hr_c0``.

        Parameters
        ----------
        input_features : None or array-like of str, default=None
            Only for two-dimensional input, where it must agree with the names of `fit`.

        Returns
        -------
        object ndarray of shape (n_features,)
        """
        check_is_fitted(self)
        if self.array_shape_ is not None and len(self.array_shape_) == 1:
            _check_feature_names_in(self, input_features, generate_names=False)
        of_channels = [
            f"{name}_{suffix}"
            for block in self._channel_features()
            for name in self.channel_names_
            for suffix in block
        ]
        return np.asarray([*of_channels, *self._series_features()], dtype=object)

    def _channel_features(self) -> list[list[str]]:
        """Blocks of features: suffixes of the names, channel after channel in each block."""
        return [[f"c{n}" for n in range(self.embedder_.past.n_coefficients)]]

    def _series_features(self) -> list[str]:
        """Names of the features of series as a whole, which come after those of channels."""
        return [] if self.embedder_.past is None else self.embedder_.past.features

    @available_if(_remembers)
    def inverse_transform(self, X: Any, times: Any = None) -> np.ndarray | Panel:
        """Turn embeddings back into the series they remember.

        Parameters
        ----------
        X : array-like of shape (n_series, n_features)
            Embeddings as `transform` returns them. The columns of a frame are matched with the
            names of the features; the index of a DataFrame becomes the ids of a Panel.
        times : array-like of shape (Q,) or None, default=None
            Times relative to the moment of embedding, from ``-window_`` to 0, in the units of
            `times`, or beside datetimes timedeltas. By default an even grid over the window or,
            after a fit on an array, its time points relative to the last one.

        Returns
        -------
        ndarray of shape (n_series, Q) or (n_series, Q, n_channels), or Panel
            An array if the transformer was fitted on one (2-D or 3-D), else a Panel at the
            relative times. The polynomials may pass the limits of channels.

        Raises
        ------
        ValueError
            If the embedding holds no coefficients, has another number of features or other names
            of them, or a time is outside the window.
        """
        check_is_fitted(self)
        Z = checked_embeddings(self, X)
        self._check_invertible()
        times = None if times is None else read_leads(times, self.time_unit_).counts
        past = self.embedder_.past
        ages = past.ages_at(times, self.array_shape_)
        values = past.read_features(Z, self.n_channels_in_, ages)
        if self.array_shape_ is None:
            order, names = np.argsort(-ages, kind="stable"), self.channel_names_
            ids = X.index if isinstance(X, pd.DataFrame) and X.index.is_unique else None
            cells = {"array": values[:, order], "times": -ages[order]}
            return Panel.from_array(**cells, channel_names=names, ids=ids)
        return values[:, :, 0] if len(self.array_shape_) == 1 else values

    def _check_invertible(self) -> None:
        """Raise a ValueError if the features hold no coefficients."""

    @available_if(_remembers)
    def reconstruct(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Read the past of series from their memory at the last observation.

        `PolyODETransformer` remembers the path as it was known at each time: an observation
        corrects it back to the previous one. Unlike the path of `interpolate`, it is not smoothed.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            Times within ``[last observation - window_, last observation]``, for all series or for
            each; in the units and of the type of the series' times. By default the series' own
            times within the window.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series; they are then
            numbers, or timedeltas for series with datetimes. None: absolute times, like those of
            the series.

        Returns
        -------
        Panel
            All channels at these times, also where they were not observed. The polynomials may
            pass the limits of channels.

        Raises
        ------
        ValueError
            If a time is outside the window; the message names the series.
        """
        check_is_fitted(self)

        panel, past = read_panel(self, X, reset=False), self.embedder_.past
        at = past.own_times(panel) if times is None else query_times(panel, times, relative_to)

        def read(part: Panel, *at: np.ndarray) -> np.ndarray:
            return past.read_past(self.embedder_.coefficients(part), part, *at)

        return panel.like(at[0], fill_values(panel, *at, read), at[1])

    @available_if(lambda transformer: transformer.has_path)
    def path(self, X: Any) -> Path:
        """Series conditioned on their observations, which can be asked at any time.

        `interpolate`, `derivative`, `average` and `integral` ask it. It is for questions of your
        own, such as the time since the last maximum.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.

        Returns
        -------
        Path
            It answers as the methods above do, and does not change if this transformer is fitted
            again.

        Examples
        --------
        >>> from skpolyode import InterpolationTransformer
        >>> series = [([0.0, 1.0, 3.0], [2.0, 4.0, 0.0])]
        >>> path = InterpolationTransformer().fit(series).path(series)
        >>> [round(ask([2.0]).values.item(), 6) for ask in (path.value, path.slope)]
        [2.0, -2.0]
        """
        return seams.wing("questions").Path(self, X)

    @available_if(lambda transformer: transformer.has_path)
    def interpolate(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Values of all channels at any times, from the path through the observations.

        Between two observations of a channel this is the path that the transformer follows. A
        linear ramp corrects a learned path, so that it ends in the second observation. The path has
        more detail than the embedding, and covers the whole series, including the part before
        the window.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            Times for all series or for each (an empty list for none), in any order; in the units
            and of the type of the series' times. By default the series' own times.
        relative_to : {"start", "end"} or None, default=None
            What `times` count from: the first or the last observation of each series. None:
            absolute times, like those of the series.

        Returns
        -------
        Panel
            All channels at these times, within their limits (see `Panel.with_limits`); NaN only for
            a series without any observation. Where a channel was observed, this is the observation,
            or the estimate of a model that filters noise. Before its first observation, it is the
            path, shifted to end in that observation; that of `PolyODETransformer` may go back to
            what the model expects there. After its last one, it is the forecast of a trained
            transformer; other transformers keep the last value. Times before the first observation
            of a series get the value with which the path begins.

        See Also
        --------
        skpolyode.PanelImputer : A transformer that fills gaps by these values.

        Raises
        ------
        ValueError
            If a time is not finite, or a series is not valid.
        """
        return self.path(X).value(times, relative_to)

    @available_if(lambda transformer: transformer.has_path)
    def average(
        self,
        X: Any,
        start: Any = None,
        end: Any = None,
        relative_to: str | None = None,
        coverage: float = 0.9,
    ) -> pd.DataFrame:
        """Mean in time of each channel over a window, past or future, with an interval.

        Up to the last observation it is the mean of the path of `interpolate`, after it the mean of
        sampled futures. A window may span both.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        start : scalar, array-like of shape (n_series,) or None, default=None
            Where the window begins, for all series or for each; in the units and of the type of the
            series' times. None: at the first observation of the series.
        end : scalar, array-like of shape (n_series,) or None, default=None
            Where it ends, likewise. None: at the last observation of the series.
        relative_to : {"start", "end"} or None, default=None
            What `start` and `end` count from: the first or the last observation of each series;
            they are then numbers, or timedeltas for series with datetimes. None: absolute times.
        coverage : float, default=0.9
            Probability of the interval.

        Returns
        -------
        DataFrame
            A row for each series and channel, indexed by both; NaN for a series without any
            observation. In the units of the channel:

            - ``value``: the mean, within the limits of the channel.
            - ``lower`` and ``upper``: ends of the interval, only for transformers that forecast.
              Others do not estimate errors, and hold the last value after the last observation.

            The interval is that of the mean of the signal, without the noise of single
            observations.

        See Also
        --------
        skpolyode.futures.SamplePaths : Means, integrals and totals of futures, sample by sample.

        Raises
        ------
        ValueError
            If a window is empty or begins before the first observation of its series, or the errors
            of paths or forecasts are not known.

        Examples
        --------
        >>> from skpolyode import InterpolationTransformer
        >>> series = [([0.0, 1.0, 3.0], [2.0, 4.0, 0.0]), ([0.0, 2.0], [1.0, 3.0])]
        >>> InterpolationTransformer().fit(series).average(series, -1.0, 0.0, "end").round(2)
                        value
        series channel
        0      x0         1.0
        1      x0         2.5
        """
        return self.path(X).integral(start, end, relative_to, coverage, mean=True)

    @available_if(lambda transformer: transformer.has_path)
    def integral(
        self,
        X: Any,
        start: Any = None,
        end: Any = None,
        relative_to: str | None = None,
        coverage: float = 0.9,
    ) -> pd.DataFrame:
        """Integral of each channel over a window, past or future, with an interval.

        Examples are the area under a glucose curve, and the energy of a load.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        start : scalar, array-like of shape (n_series,) or None, default=None
            As in `average`.
        end : scalar, array-like of shape (n_series,) or None, default=None
            As in `average`.
        relative_to : {"start", "end"} or None, default=None
            As in `average`.
        coverage : float, default=0.9
            As in `average`.

        Returns
        -------
        DataFrame
            As in `average`, in the units of the channel times those of `times` (for datetimes, the
            panel's `time_unit`).

        Raises
        ------
        ValueError
            As in `average`.
        """
        return self.path(X).integral(start, end, relative_to, coverage)

    @available_if(lambda transformer: transformer.has_path)
    def derivative(
        self, X: Any, times: Any = None, order: int = 1, relative_to: str | None = None
    ) -> Panel:
        """Slopes of all channels, or higher derivatives, of the path of `interpolate`.

        They are derivatives of the smooth piece of the path at each time, not finite differences.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        order : int, default=1
            1 for the slope, 2 for the second derivative; at most 3, for cubic paths.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        Panel
            In the units of the channel divided by those of `times` (for datetimes, the panel's
            `time_unit`) to the power of `order`. At a kink, such as an observation, it is the
            derivative to the right. From the last observation of a channel on it is that of the
            combined forecast, right after it over the next integration step or typical gap, since
            forecasts leave a noisy value at once. Transformers that hold the last value return the
            slope to the left there, and 0 later. Where the path is held at a limit of its channel,
            it is 0. Rows before the first observation get NaN.

        Raises
        ------
        ValueError
            If a time is before the first observation of its series, or the path has no derivative
            of this order.

        Examples
        --------
        >>> from skpolyode import InterpolationTransformer
        >>> series = [([0.0, 1.0, 3.0], [2.0, 4.0, 0.0])]
        >>> model = InterpolationTransformer().fit(series)
        >>> model.derivative(series, [0.5, 1.0, 3.0]).values.ravel().round(6).tolist()
        [2.0, -2.0, -2.0]
        """
        return self.path(X).slope(times, order, relative_to)

    @available_if(lambda transformer: hasattr(transformer, "sample_paths"))
    def derivative_std(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviation of the slopes of `derivative`.

        Parameters
        ----------
        X : Panel, list of (times, values), list of DataFrames, or array
            The series.
        times : array-like of shape (Q,), list of such or None, default=None
            As in `interpolate`.
        relative_to : {"start", "end"} or None, default=None
            As in `interpolate`.

        Returns
        -------
        Panel
            In the units of `derivative`. Between observations it follows from path errors at hidden
            rows, which `fit` has learned; from the last observation on the slopes of sampled
            futures over a typical gap add to it.

        Raises
        ------
        ValueError
            If a time is before the first observation of its series, or the errors of paths or
            forecasts are not known.
        """
        return self.path(X).slope_std(times, relative_to)

    @available_if(lambda transformer: transformer.has_stream)
    def stream(self, X: Any = 1, static: Any = None, keep: Any = None) -> SeriesStream:
        """Follow series as observations come in, in constant memory.

        Parameters
        ----------
        X : int, Panel, list of (times, values), list of DataFrames, or array, default=1
            The number of series to follow, none of them observed yet; or series, to continue from
            their last observations.
        static : DataFrame, array-like of shape (n_series, n_static) or None, default=None
            Static covariates, if `X` is a number and the transformer was fitted with any; series in
            `X` have their own.
        keep : int, duration or None, default=None
            How far back `insert`, `correct` and `retract` of the stream may go: an int is a number
            of rows of each series, a float a length of time in the units of `times`, or beside
            datetimes "6h". None: not at all.

        Returns
        -------
        stream
            Its `embedding` always equals `transform` of all observations so far, which `update`
            adds. Fitting this transformer again does not change the stream.

        Raises
        ------
        ValueError
            If the number is not positive, or a series is not valid.
        """
        check_is_fitted(self)
        kind = seams.wing("streams").stream_class(self.embedder_)
        if not isinstance(X, Integral):
            return kind.after(self.embedder_, read_panel(self, X, reset=False), keep)
        if X < 1:
            raise ValueError(f"X must be series, or a positive number of series, got {X}.")
        return kind(self.embedder_, blank_panel(X, self, static), keep)

    def _new_readout(self, panel: Panel, measure: str = "legt") -> MemoryReadout:
        """Units, window and memory of an embedder that needs no training."""
        memory = MEMORIES[measure]
        # A measure of the whole history has no window; the longest history is the unit of time.
        window = choose_window(self.window, panel, memory.whole_history)
        self._describe_window(panel, window)
        units = Units.of(panel, window, self.limits_)
        return MemoryReadout(memory(self.n_coefficients, 1.0), window, units)

    def _describe_window(self, panel: Panel, window: float) -> None:
        """Set and report the share of the series that a window covers, and its resolution."""
        self.coverage_, n_rows = covered(panel, window)
        self.observations_per_coefficient_ = n_rows / self.n_coefficients
        outcome = f"window {window:.3g}, covers {self.coverage_:.0%} of the series"
        figures = {"observations_per_coefficient": float(self.observations_per_coefficient_)}
        self.fit_report_.add("window", outcome, panel.n_series, **figures)

    scaler_: ChannelScaler = stored(
        "embedder_.units.scaler", "Mean and standard deviation of each channel."
    )
    time_scale_: float = stored(
        "embedder_.units.time_scale", "The embedder's unit of time, in the units of `times`."
    )
    window_: float = stored(
        "embedder_.past.window", "Length of the remembered past, in the units of `times`."
    )

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._report_as_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] += self._report_as_html()
        return bundle

    def _report_as_html(self) -> str:
        """What `fit` decided, beneath scikit-learn's diagram in notebooks."""
        return self.fit_report_.to_html() if hasattr(self, "fit_report_") else ""


def checked_embeddings(transformer: Any, X: Any) -> np.ndarray:
    """Embeddings (n_series, n_features), with the columns in the order of `transform`."""
    Z = check_array(X, dtype=np.float64, input_name="X")
    found, wanted = column_names(X), list(transformer.get_feature_names_out())
    if Z.shape[1] != len(wanted):
        raise ValueError(
            f"X has {Z.shape[1]} features, but {type(transformer).__name__} embeds in "
            f"{len(wanted)}: pass what transform returned."
        )
    if found == wanted or not all(isinstance(name, str) for name in found) or not found:
        return Z
    if missing := [name for name in wanted if name not in found]:
        unknown = [name for name in found if name not in wanted]
        raise ValueError(
            f"X lacks the features {missing[:3]} ({len(missing)} such features), and has "
            f"{unknown[:3]}: the feature names should match those of get_feature_names_out(); "
            "pass what transform returned, or an array."
        )
    return Z[:, [found.index(name) for name in wanted]]
