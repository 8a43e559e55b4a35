"""Base of transformers that train a sequence model: training, forecasts and score."""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Collection, Sequence
from functools import partial
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import torch
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skpolyode.embedders import ModelEmbedder, Units
from skpolyode.embedders.encoders import encoders_of, n_features_of, sizes_of
from skpolyode.embedders.fitting import hold_out, judging_part, report_hold_out, with_validation
from skpolyode.errors import check_switch, plain_repr
from skpolyode.futures.continued import Ahead, SamplesFutures
from skpolyode.models import Packed, SequenceModel
from skpolyode.models.contract import Sizes
from skpolyode.panel import Panel, query_times, series_index
from skpolyode.panel.inputs import on_clock_of
from skpolyode.panel.select import (
    drop_empty,
    fill_rows,
    fill_values,
    observed_part,
    observed_series,
    series_of_rows,
    typical_gap,
)
from skpolyode.training.loop import Task, warn_if_nothing_was_learned
from skpolyode.training.tasks import IntervalTask
from skpolyode.transformers.base import COUNT_OR_AUTO, POSITIVE, SeriesTransformer
from skpolyode.transformers.input import check_sizes, fit_series, read_panel
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
# Rows of inputs are regular if no gap exceeds _REGULAR mean gaps. The next row is then due after
# _DUE mean gaps, which allows for months of 28 days.
_REGULAR, _DUE = 1.5, 0.9
_ENTRY = re.compile(r"^((\w+) : .*\n(?:^    .*\n)*)", re.MULTILINE)


class NeuralTransformer(SamplesFutures, SeriesTransformer):
    """Base of transformers that embed and forecast by a trained sequence model.

    A subclass makes its model in `_new_model`. Its `__init__` takes the parameters that it adds and
    ``**training``, which it passes on. Signature and docstring are completed here; in the docstring
    ``%(training)s`` and ``%(trained)s`` are replaced, and ``%(Parameters)s`` and ``%(Attributes)s``
    by the whole sections of the parent.

    Parameters
    ----------
    horizon : int or "auto", default="auto"
        Number of observations that the loss looks ahead. "auto" looks one observation ahead. Every
        second minibatch also looks further: up to half of the rows of the median series, 48 at
        most. Far leads count no more than near ones, so that the model learns to forecast both. 1
        trains up to a tenth faster, for one-step forecasts and embeddings only. A larger number
        trains slower, and gives near leads more weight.
    learning_rate_init : float, default=0.05
        Peak of the one-cycle schedule. Lower it if training diverges.
    batch_size : int or "auto", default="auto"
        Intervals between observations per minibatch; "auto" makes sixteen minibatches an epoch, of
        64 to 512 intervals.
    max_epochs : int or "auto", default="auto"
        Number of epochs, over which the learning rate falls to zero. "auto" makes twenty-four for
        PolyODE and forty for its siblings. There are fewer if errors of held-out series stop
        falling before half of this number: the rate then falls to zero within an eighth of it.
        With more than 32 000 intervals each epoch of "auto" draws a random sample of the series,
        and a fixed sample of the held-out series validates, so that larger sets cost no more. An
        int is the maximum number of epochs, each of which goes through all series. Raise it for
        large sets if you can wait.
    validation_fraction : float or None, default=0.1
        Share of the series held out for validation: `fit` learns nothing from them, not even
        scales. Training stops when their forecasting error has not fallen for half of `max_epochs`,
        but for at least ten epochs, and not before it is below that of the untrained model. The
        model keeps the weights with the lowest error. From twenty held-out series on, one half of
        them stops training and the other half evaluates forecasts and sets the weights of the
        stacking. With fewer than five series, the last rows of each series with at least 384 rows
        are held out instead; without such a series, the training error is used. None trains on all
        series for all epochs; the stacking then gives the model too much weight. Ignored if `fit`
        gets `validation`.
    random_state : int, RandomState instance or None, default=None
        Seed of initial weights, minibatches and held-out series. Global generators are not used.
    device : str, default="cpu"
        Where torch trains and embeds, for example "cuda". A model has the same forecasts there, up
        to rounding. Its many small steps were slower on a GPU with up to a thousand series.
    verbose : int or "auto", default="auto"
        1 shows a progress bar over all stages of the fit, in epochs, and 0 none. "auto" shows it
        after two seconds in a terminal or a notebook, but not in the workers of a search.

    Attributes
    ----------
    embedder_ : ModelEmbedder
        The trained model with its units, which does not depend on scikit-learn.
    scaler_ : ChannelScaler
        Mean and standard deviation of each channel in the training series.
    time_scale_ : float
        Typical gap between observations of the training series, in the units of `times`; the
        model's unit of time.
    history_ : list of dict
        For each epoch ``epoch``, ``validation_error``, ``error_ahead`` (of forecasts further ahead,
        if training looks there), ``training_loss``, ``n_items`` (intervals in it),
        ``learning_rate`` and ``seconds``; ``pandas.DataFrame(history_)`` is a table of them.
    n_epochs_ : int
        Epochs run.
    best_epoch_ : int
        Epochs after which the model had the weights that were kept.
    stop_reason_ : str
        Why training stopped: "all epochs", "errors did not fall any more", "no improvement for 21
        epochs", "the loss became infinite", "interrupted" or "nothing to train on".
    validation_error_ : float
        Best one-step forecasting MSE on the held-out series, in standardised units. From
        twenty held-out series on, it is of the half that stops training.
    validation_error_se_ : float
        Its standard error, from how the error differs between the held-out series; NaN if none is
        held out. With twenty held-out series or more, it is that of the half that does not stop
        training; `fit_report_` has the error of that half. With few series, chance decides small
        differences: call one model better only if the errors differ by more than two standard
        errors.
    fit_report_ : FitReport
        What `fit` decided, by which figures, from how many series and in how many seconds; print
        it.
    n_features_in_ : int
        Number of channels, or of time points if fitted on a 2-D array.
    n_channels_in_ : int
        Number of channels.
    """

    _parameter_constraints: ClassVar[dict[str, list]] = {
        "horizon": COUNT_OR_AUTO,
        "learning_rate_init": [POSITIVE],
        "batch_size": COUNT_OR_AUTO,
        "max_epochs": COUNT_OR_AUTO,
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "random_state": ["random_state"],
        "device": [str],
        "verbose": ["verbose", StrOptions({"auto"})],
    }

    has_path = True
    uses_static = True
    ignores_outliers = True
    has_stream = True

    stages: ClassVar[tuple[Stage, ...]] = (Train(), EstimateError(), StackForecasts())
    """The steps of `fit`, in order; a transformer of your own may add some."""

    task: ClassVar[type[IntervalTask]] = IntervalTask
    """Class of the training task, which a transformer of your own may replace."""

    def __init__(
        self,
        *,
        horizon: int | str = "auto",
        learning_rate_init: float = 0.05,
        batch_size: int | str = "auto",
        max_epochs: int | str = "auto",
        validation_fraction: float | None = 0.1,
        random_state: Any = None,
        device: str = "cpu",
        verbose: int | str = "auto",
    ) -> None:
        self.horizon = horizon
        self.learning_rate_init = learning_rate_init
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def __init_subclass__(cls, **options: Any) -> None:
        """Complete the signature and the docstring of a subclass from those of its parent.

        ``%(training)s`` and ``%(trained)s`` stand for the parameters and attributes above,
        ``%(Parameters)s`` and ``%(Attributes)s`` for those of the parent.

        Parameters that the subclass defines, such as one with another default, are not replaced.
        """
        init, parent = vars(cls).get("__init__"), cls.__mro__[1]
        defined = [] if init is None else [*inspect.signature(init).parameters.values()]
        takes_more = bool(defined) and defined[-1].kind is inspect.Parameter.VAR_KEYWORD
        defined = defined[:-1] if takes_more else []
        names = {p.name for p in defined}
        if cls.__doc__:
            shared = {
                "training": _section(NeuralTransformer, "Parameters"),
                "Parameters": _section(parent, "Parameters"),
            }
            parts = {
                key: "".join(entry for entry, name in _ENTRY.findall(text) if name not in names)
                for key, text in shared.items()
            }
            parts["trained"] = _section(NeuralTransformer, "Attributes")
            parts["Attributes"] = _section(parent, "Attributes")
            doc = inspect.cleandoc(cls.__doc__) + "\n"  # Python 3.13 has cleaned it already
            for name, text in parts.items():
                doc = doc.replace(f"%({name})s\n", text)
            cls.__doc__ = doc
        if takes_more:
            base = inspect.signature(parent.__init__).parameters.values()
            init.__signature__ = inspect.Signature(
                [*defined, *(p for p in base if p.name not in names)]
            )
        super().__init_subclass__(**options)

    def fit(self, X: Any, y: Any = None, *, groups: Any = None, validation: Any = None) -> Self:
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
            units of the channels. The forecast is that of the model alone, without limits, as in
            `score`. NaN where nothing was observed, and in the first observed row of a series,
            which has no forecast.
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
        times: Any = None,
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
        times : array-like of shape (Q,) or list of such, default=None
            Times from the last observation on, for all series or for each (an empty list for
            none); in the units and of the type of the series' times. Required.
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
            series, or only for the ids that have any. At equal times they replace those of `X`;
            another amount of an impulse is an error.

        Returns
        -------
        Panel
            All channels at these times, within their limits (see `Panel.with_limits`). The forecast
            of the model of a `PolyODETransformer` is constant further than 20 times its `context_`
            ahead.

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
        return self.path(X).interval(times, coverage, relative_to)

    def interpolate_std(self, X: Any, times: Any = None, relative_to: str | None = None) -> Panel:
        """Standard deviation of `interpolate`, at any times, also after the last observation.

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
            Standard deviation of the signal, without noise, around the path, in the units of the
            channels. It is 0 at exact observations. Half widths of `interpolate_interval` with a
            coverage of 0.9 are 1.645 times that of a new observation, ``sqrt(std**2 + noise**2)``,
            with the noise of an observation (`noise_` of a `PolyODETransformer`).

        See Also
        --------
        interpolate_interval : Calibrated intervals.

        Examples
        --------
        >>> import numpy as np
        >>> from skpolyode import PolyODETransformer
        >>> t = np.linspace(0, 6, 13)
        >>> series = [(t, np.sin(2 * t + k)) for k in range(8)]
        >>> model = PolyODETransformer(n_coefficients=8, max_epochs=2, random_state=0).fit(series)
        >>> std = model.interpolate_std(series, [3.0, 3.25])  # observed; between
        >>> bool((std.values[::2] == 0).all()), bool((std.values[1::2] > 0).all())
        (True, True)
        """
        return self.path(X).std(times, relative_to)

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
        name: str = "X",
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
        name : str, default="X"
            What messages call the series.

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
        return fit_series(self, self._fit, X, settings=settings, name=name)

    def _fit(
        self,
        panel: Panel,
        window_rows: int | None = None,
        skip: Collection[str] = (),
        then: Sequence[Stage] = (),
        groups: np.ndarray | None = None,
        validation: Panel | None = None,
    ) -> str | None:
        check_device(self.device)
        random_state = local_random_state(self.random_state)
        generator = torch.Generator().manual_seed(int(random_state.randint(2**31)))
        longest = window_rows or LONG_SERIES
        if validation is None:
            split = hold_out(panel, self.validation_fraction, random_state, longest, groups)
        else:
            split = with_validation(panel, validation, groups)
            panel = split.panel
        trained = split.trained
        embedder = self._new_embedder(trained, generator)
        check_sizes(panel, embedder.units.scaler)  # of held-out series as well
        embedder.to(self.device)
        stopping, judging = judging_part(split, groups)
        length = window_rows or self._rows_to_cut(embedder)
        state = FitState(
            embedder,
            panel,
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
        report = state.training
        self.embedder_, self.history_ = state.embedder, report.history
        self.n_epochs_, self.validation_error_ = report.n_epochs, report.best_error
        self.best_epoch_, self.stop_reason_ = report.best_epoch, report.reason
        vars(self).update(state.fitted)
        if report.n_epochs >= FEWEST_EPOCHS:  # fewer are a trial run: do not warn
            warn_if_nothing_was_learned(report, state.judged, judges_untrained=not skip)
        return report.message if report.was_interrupted else None

    def _new_embedder(self, panel: Panel, generator: torch.Generator) -> ModelEmbedder:
        units = Units.of(panel, typical_gap(panel), self.limits_)
        read = encoders_of(panel, inputs=self.uses_inputs)
        known = n_features_of(read["static"]), sizes_of(read["inputs"]), units.time_scale, panel
        sizes = Sizes(panel.n_channels, *known)
        return ModelEmbedder(self._new_model(sizes, generator).float(), units, **read)

    def _rows_to_cut(self, embedder: ModelEmbedder) -> int | None:
        """Rows of the windows that long series are cut into for training; None: do not cut."""
        return None

    def _new_task(self, model: SequenceModel, data: Packed, held_out: Tensor) -> Task:
        """Training task of the model."""
        ahead = self._looks_ahead(data, held_out)
        return self.task(model, data, held_out, length=self.task.usual_length, **ahead)

    def _looks_ahead(self, data: Packed, held_out: Tensor) -> dict[str, int]:
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
        return [self._names_of(name, s[-1]) for name, s in shapes if len(s) == n_axes]

    def _names_of(self, block: str, size: int) -> list[str]:
        """Names of the features of a block, of one channel or of the series."""
        return [f"{block}{k}" for k in range(size)]


def layer_sizes(hidden: Sequence[Any] | int) -> list[int]:
    """Widths of hidden layers as plain integers; a ValueError if they are not positive ones."""
    sizes = [hidden] if isinstance(hidden, Integral) else list(hidden)
    if not all(isinstance(n, Integral) and n > 0 for n in sizes):
        raise ValueError(
            f"hidden_layer_sizes must be positive integers, one a layer, got {hidden!r}."
        )
    return [int(n) for n in sizes]


def check_device(device: str) -> None:
    """Raise a ValueError if torch cannot compute on the device here."""
    try:
        # Devices may exist but not allocate tensors, or not support float64, which fit needs.
        torch.ones(1, dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used here ({reason}); device='cpu' always can."
        ) from None


def local_random_state(seed: Any) -> np.random.RandomState:
    """As `check_random_state`, but None does not use numpy's global generator."""
    return np.random.RandomState() if seed is None else check_random_state(seed)


def _section(cls: type, name: str) -> str:
    """Entries of a section of the docstring of a class."""
    _, _, rest = inspect.cleandoc(cls.__doc__ or "").partition(f"{name}\n{'-' * len(name)}\n")
    return rest.partition("\n\n")[0] + "\n"


def warn_of_unknown_inputs(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, name: str = "inputs="
) -> None:
    """Warn, once per forecast, of series whose inputs end before the query times.

    That is, at or before the last observation, or later if their rows are regular. Irregular rows
    and impulses mean that nothing changes after them. The times of each series start at `offsets`
    (B + 1,). `name` says which parameter takes inputs.
    """
    if panel.inputs is None:
        return
    inputs, end = on_clock_of(panel).panel, observed_part(panel).end
    last, latest = np.full((2, panel.n_series), -np.inf)
    np.maximum.at(last, series_of_rows(inputs), inputs.times)
    np.maximum.at(latest, series_index(offsets), times)
    steady = np.array(panel.inputs.kinds) != "impulse"
    due = _due(inputs, ~np.isnan(inputs.values[:, steady]).all(axis=1))
    is_short = (latest > end) & ((last <= end) | (latest >= due))
    if len(unknown := np.flatnonzero(is_short)):
        none = (last <= end)[unknown].any()
        what = "no input is known after the last observation" if none else "inputs end too early"
        remedy = ", or add a row of inputs after the last observation" if none else " up to the end"
        warnings.warn(
            f"of {len(unknown)} series, the first of which is {plain_repr(panel.ids[unknown[0]])}, "
            f"{what}: inputs keep their last values, and there are no further impulses. Give "
            f"{name}{remedy}.",
            stacklevel=3,
        )


def _due(inputs: Panel, known: np.ndarray) -> np.ndarray:
    """Times (B,) at which the next row of regular inputs is due; infinite for other inputs."""
    series, times = series_of_rows(inputs)[known], inputs.times[known]
    count = np.bincount(series, minlength=inputs.n_series)
    gap, last = np.zeros(len(count)), np.full(len(count), -np.inf)
    np.maximum.at(last, series, times)
    inside = np.flatnonzero(np.diff(series) == 0)
    np.maximum.at(gap, series[inside], np.diff(times)[inside])
    total = np.bincount(series[inside], np.diff(times)[inside], minlength=len(count))
    mean = total / np.maximum(count - 1, 1)
    return np.where((count > 2) & (gap <= _REGULAR * mean), last + _DUE * mean, np.inf)
