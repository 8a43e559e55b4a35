"""Conversion and checks of the input of estimators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from typing import Any
from weakref import WeakSet

import numpy as np
import pandas as pd
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted, validate_data

from skpolyode.embedders.base import UNLIKE_FIT
from skpolyode.embedders.encoders import with_inputs
from skpolyode.errors import Faults, naming_owner, plain_repr
from skpolyode.fit_report import FitReport
from skpolyode.memory.base import MOST_COEFFICIENTS
from skpolyode.panel import Panel, as_panel, is_ragged
from skpolyode.panel.cells import column_names, unmasked, with_nan
from skpolyode.panel.checks import TOO_LARGE, build_rows, note_cells, note_extremes
from skpolyode.panel.convert import column_times, shape_of
from skpolyode.panel.readers.lists import rows_from_array
from skpolyode.panel.select import drop_empty, observed_series, typical_gap
from skpolyode.panel.selection import align_to_fit, refuse_reordered, warn_of_zone
from skpolyode.panel.units import LARGEST, CellLimits, ChannelScaler, warn_of_codes, within_limits
from skpolyode.threads import learning

plain_sklearn = partial(config_context, transform_output="default", enable_metadata_routing=False)
"""Context in which parts of scikit-learn pass arrays and weights on, whatever users have set."""

static_readers: WeakSet[BaseEstimator] = WeakSet()
"""Transformers that make features of static covariates; who has one needs no advice to use it."""

_ENOUGH = 10  # gaps for a typical one, or cells for a channel that never changes
# Tables of 256, 512 and 1024 coefficients take about 8, 30 and 120 s to compute.
_FREE_COEFFICIENTS = 256  # allowed for series of any length
# Messages of trainings that the user has stopped; those of the outermost fit.
_stopped: ContextVar[list[str] | None] = ContextVar("stopped", default=None)


def fit_series(
    estimator: Any,
    learn: Callable[..., str | None],
    X: Any,
    y: Any = None,
    *,
    validation: Any = None,
    settings: Mapping[str, Any] | None = None,
    limits: CellLimits | None = None,
    name: str = "X",
    **entries: Any,
) -> Any:
    """Fit a transformer: check parameters and series, then `learn` from the observed series.

    Pipelines pass `y`; only its order is checked. Each of the `entries`, such as groups, has one
    value per series. `settings` are passed to `learn`; for `limits` and `name` see `read_panel`.
    """
    _check_parameters(estimator)
    with unchanged_by_errors(estimator) as stopped, naming_owner(estimator), learning():
        panel = read_panel(estimator, X, reset=True, limits=limits, name=name)
        refuse_reordered(y, panel, "y")
        used, known = observed_series(panel), drop_empty(panel, name)
        given = {k: one_each(x, panel, k) for k, x in entries.items() if x is not None}
        given = {k: values[used] for k, values in given.items()}
        if validation is not None:
            given["validation"] = drop_empty(_like_fit(estimator, validation, known), "validation")
        _check_coefficients(estimator, known)
        channels = f"{panel.n_channels} channel" + "s" * (panel.n_channels != 1)
        outcome = f"{known.n_series} series, {channels}, {known.n_observations} observations"
        counts = {"left_out": panel.n_series - known.n_series}
        counts["constant_channels"] = int((_ranges(known) == 0).sum())
        figures = {k: n for k, n in counts.items() if n}
        estimator.fit_report_ = FitReport([])
        estimator.fit_report_.add("data", outcome, known.n_series, **figures)
        if interruption := learn(known, **given, **(settings or {})):
            stopped.append(interruption)
        _warn_of_unused(estimator, panel)
    return estimator


def _check_parameters(estimator: BaseEstimator) -> None:
    """Check parameters by their constraints, with a clearer error for a `torch.device`."""
    for name, value in estimator.get_params(deep=False).items():
        if isinstance(value, torch.device):
            raise InvalidParameterError(
                f"The {name!r} parameter of {type(estimator).__name__} is a "
                f"{type(value).__name__}; pass its name, {name}={str(value)!r}."
            )
    estimator._validate_params()


def _check_coefficients(estimator: Any, known: Panel) -> None:
    """Refuse more than 256 coefficients, whose tables are slow, if no series has as many rows."""
    n, longest = getattr(estimator, "n_coefficients", 1), int(known.lengths.max())
    most = min(max(_FREE_COEFFICIENTS, longest), MOST_COEFFICIENTS)
    if n > most:
        raise ValueError(
            f"n_coefficients={n} is too large: {type(estimator).__name__} takes at most {most} "
            f"here. The longest series has {longest} rows, which as many coefficients describe "
            "exactly."
        )


def one_each(values: Any, panel: Panel, name: str, missing: str = "no label") -> np.ndarray:
    """Return `values` as an array with one entry for each series."""
    refuse_reordered(values, panel, name)
    if (array := np.asarray(unmasked(values))).shape != (panel.n_series,):
        got = f"an array of shape {array.shape}" if array.ndim else plain_repr(values)
        due = f"one entry for each of the {panel.n_series} series"
        raise ValueError(f"{name} must have {due}, got {got}.")
    refuse_missing(array, name, missing)
    return array


def refuse_missing(entries: Any, name: str, missing: str = "no label") -> None:
    """Raise a ValueError that names the first series whose entry is missing."""
    unknown = np.atleast_1d(pd.isna(np.asarray(unmasked(entries))))
    if (unknown := unknown.any(axis=tuple(range(1, unknown.ndim)))).any():
        first = int(np.argmax(unknown))
        raise ValueError(
            f"{name}: series {first} has {missing} ({int(unknown.sum())} such series): give it "
            "one, or leave it out."
        )


def read_panel(
    estimator: BaseEstimator,
    X: Any,
    *,
    reset: bool,
    inputs: Any = None,
    limits: CellLimits | None = None,
    name: str = "X",
) -> Panel:
    """Convert and check the input of `fit` (reset) or of any later method.

    scikit-learn's `validate_data` checks two-dimensional input, so that feature names and error
    messages are those of scikit-learn; `n_features_in_` then counts time points. For every other
    format it counts channels. `inputs` are added to those of the panel. Transformers of series
    learn the limits of cells in `fit`, and keep them. If `limits` are given, the caller has removed
    the cells beyond them, and warned. Messages call the series `name`.
    """
    if not reset:
        check_is_fitted(estimator)
    panel, shape = _converted(estimator, X, reset, name)
    if inputs is not None:
        encoder = estimator.embedder_.inputs
        panel, _ = with_inputs(panel, encoder, inputs, type(estimator).__name__)
    if not reset:
        return credible(as_fitted(estimator, panel, name), estimator.scaler_, name)
    estimator.array_shape_ = None if shape is None else tuple(shape[1:])
    estimator.n_channels_in_ = panel.n_channels
    estimator.channel_names_ = panel.channel_names
    estimator.has_channel_names_ = panel.has_channel_names
    estimator.time_unit_, estimator.tz_ = panel.time_unit, panel.tz
    if shape is None or len(shape) == 3:
        estimator.n_features_in_ = panel.n_channels
        estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit on a 2-D frame
    if hasattr(estimator, "ignores_outliers"):  # else the inner transformer does it
        if limits is None:
            limits = CellLimits.of(panel, of_values=estimator.ignores_outliers)
            panel = within_limits(panel, limits, name)
            warn_of_codes(panel, name)
        estimator.limits_ = limits
    check_sizes(panel, name=name)  # after outliers, which may be of any size, were removed
    return panel.since_start()  # differences of datetimes are exact, counts since 1970 are not


def align_to_frozen(estimator: BaseEstimator, panel: Panel, transformer: Any) -> Panel:
    """Panel as it is read by a `FrozenEstimator` around which a fit takes place.

    Its channels become those of the estimator; cells beyond its limits are not observed. With any
    other transformer the panel is unchanged.
    """
    if not isinstance(transformer, FrozenEstimator):
        return panel
    fitted = transformer.estimator
    check_is_fitted(fitted)
    if not hasattr(fitted, "channel_names_"):
        return panel
    panel = align_to_fit(panel, fitted)
    named = fitted.has_channel_names_
    estimator.channel_names_ = fitted.channel_names_ if named else panel.channel_names
    estimator.has_channel_names_ = named or panel.has_channel_names
    return within_limits(panel, fitted.scaler_.limits)


def as_fitted(estimator: Any, panel: Panel, name: str = "X") -> Panel:
    """Panel with the channels in the order of fit; error or warning where contents differ."""
    panel = align_to_fit(panel, estimator, name)
    # Models themselves refuse series without the inputs of `fit`.
    embedder = getattr(estimator, "embedder_", None)  # else the inner transformer does all this
    reads_inputs = panel.inputs is not None and getattr(estimator, "uses_inputs", False)
    if reads_inputs and embedder.inputs is None:
        raise ValueError(
            f"X has the inputs {list(panel.inputs.names)}, but {type(estimator).__name__} was "
            "fitted without any: fit it with them, or leave them out."
        )
    if embedder is not None and panel.is_datetime:
        warn_of_zone(panel.tz, estimator.tz_, f"the times of {name}")
    if (static := getattr(embedder, "static", None)) is not None:
        static.warn_of_unknown(panel)
    if not panel.is_datetime and (typical := getattr(embedder, "typical_gap", None)):
        is_near = 1 / UNLIKE_FIT < (gap := typical_gap(panel)) / typical < UNLIKE_FIT
        if not is_near and panel.n_observations - panel.n_series >= _ENOUGH:
            warnings.warn(
                f"the typical gap between rows of {name} is {gap:.3g}, that of `fit` was "
                f"{typical:.3g}: give times in the unit of `fit`, or datetimes, which have one.",
                stacklevel=4,
            )
    return panel


def credible(panel: Panel, scaler: ChannelScaler, name: str = "X") -> Panel:
    """Series without cells beyond the limits of `fit`, with times since their start."""
    panel = within_limits(panel, scaler.limits, name)
    check_sizes(panel, scaler, name)
    return panel.since_start()


def _like_fit(estimator: BaseEstimator, validation: Any, trained: Panel) -> Panel:
    """Validation series, read like the input of later methods before `fit` has a scaler."""
    panel = _converted(estimator, validation, False, "validation")[0]
    scaler = ChannelScaler.of(trained.values, errors=trained.errors, limits=estimator.limits_)
    return credible(align_to_fit(panel, estimator, "validation"), scaler, "validation")


def _converted(
    estimator: BaseEstimator, X: Any, reset: bool, name: str
) -> tuple[Panel, tuple[int, ...] | None]:
    """Panel, and the shape of the input if it was an array or a table, else None."""
    # scikit-learn reports frames whose columns differ from those of `fit`.
    is_table = not reset and hasattr(estimator, "feature_names_in_") and column_names(X)
    # After a fit on ragged series, those of a list may happen to have the same length.
    is_list = not reset and estimator.array_shape_ is None and isinstance(X, list | tuple)
    if not is_table and (is_list or is_ragged(X)):
        if isinstance(X, Panel):
            # Aligned before rows without the channels of `fit` are refused.
            panel = as_panel(X if reset else align_to_fit(X, estimator, name), name=name)
            rows = replace(panel.rows, has_ids=True)  # the user knows the ids, even 0, 1, ...
            return Panel.from_rows(rows, panel.is_checked, panel.is_observed), None
        if not reset and isinstance(X, list | tuple):
            due = (estimator.n_channels_in_,)
            if all(isinstance(x, np.ndarray) and x.shape[1:] == due for x in X):
                X = [(np.arange(len(x)), x) for x in X]  # channels, as in `fit`, do not come first
        return as_panel(X, name=name), None
    shape = shape_of(X)
    if len(shape) < 3:
        array = _validated_table(estimator, X, reset, name)
        return Panel.from_array(array, times=column_times(X)), array.shape
    if reset or shape[2:] != (estimator.n_channels_in_,):  # channels may come first
        return as_panel(X, name=name), shape
    return Panel.from_rows(build_rows(name, rows_from_array, X)), shape


def _validated_table(estimator: BaseEstimator, X: Any, reset: bool, name: str) -> np.ndarray:
    """Array (series, time) that scikit-learn has checked, with its names and number of columns."""
    if isinstance(X, pd.DataFrame) and X.shape[1] == 0:
        raise ValueError(
            f"{name} is empty: a DataFrame without columns has 0 feature(s) (time points), while a "
            "minimum of 1 is required."
        )
    X = with_nan(X)
    if (X if hasattr(X, "ndim") else np.asarray(X)).ndim == 1:
        # scikit-learn would make a series of each number
        raise ValueError(
            f"{name} is one row of numbers. Reshape your data: [{name}] is one series at times "
            f"0, 1, ..., and [(times, {name})] gives it times."
        )
    options = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
    try:
        return validate_data(estimator, X, reset=reset, **options)
    except OverflowError:
        raise ValueError(
            f"{name} holds an integer that is too large for a number of 64 bits: give it in "
            "another unit, or NaN, which means not observed."
        ) from None


@contextmanager
def unchanged_by_errors(estimator: BaseEstimator) -> Iterator[list[str]]:
    """Restore an estimator if its fit raises an error, or is interrupted.

    After Ctrl-C a training keeps its best weights, and the fits around it go on. The outermost one
    raises KeyboardInterrupt at its end: its caller, perhaps a search, has to stop as well. What is
    yielded takes the messages of trainings that the user has stopped.
    """
    before, outer = dict(vars(estimator)), _stopped.get()
    stopped = [] if outer is None else outer
    token, n_before = _stopped.set(stopped), len(stopped)
    try:
        with plain_sklearn():
            yield stopped
    except BaseException:  # Ctrl-C as well: an incomplete fit is useless
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
    finally:
        _stopped.reset(token)
    if stopped and outer is None:
        raise KeyboardInterrupt(stopped[0])
    if stopped[n_before:]:
        warnings.warn(f"{stopped[0]}: the fit goes on, until a second Ctrl-C.", stacklevel=1)


def _warn_of_unused(estimator: BaseEstimator, panel: Panel) -> None:
    """Warn of channels without observations or changes, and of unused errors and covariates."""
    name, observed = type(estimator).__name__, estimator.embedder_.units.scaler.observed
    unseen = [] if observed is None else np.array(estimator.channel_names_)[~observed].tolist()
    errors = panel.errors is not None and not estimator.uses_errors
    inputs = [] if panel.inputs is None or estimator.uses_inputs else list(panel.inputs.names)
    static = [] if panel.static is None or estimator.uses_static else list(panel.static)
    ranges = _ranges(panel)
    changes, learns = (ranges > 0).any(), hasattr(estimator, "max_epochs")
    is_steady = (ranges == 0) & (np.sum(~np.isnan(panel.values), axis=0) >= _ENOUGH)
    steady = np.array(estimator.channel_names_)[is_steady].tolist()
    messages = {
        f"no channel ever changes in fit: {name} has nothing to learn, and forecasts these "
        "values. Fit on series whose values differ.": learns and not changes,
        f"the channels {steady} have one value throughout fit, and so have all their coefficients. "
        "If they are events, what matters is the time between them: add a channel with the time "
        "since the last one, or SummaryStatsTransformer, whose features count observations and "
        "gaps. Else leave them out.": steady and changes and estimator.has_coefficients,
        f"the channels {unseen} were never observed in fit: {name} ignores their later values and "
        "returns 0 for them; leave them out (Panel.select_channels), or fit on series that have "
        "them.": unseen,
        f"the features of {name} do not depend on the known errors of observations: choose "
        "PolyODETransformer, LegendreFitTransformer or SummaryStatsTransformer, which use them, or "
        "leave them out.": errors,
        f"{name} does not use the inputs {inputs}: choose PolyODETransformer, ODERNNTransformer or "
        "GRUODEBayesTransformer, which do, or leave them out.": inputs,
    }
    for message, is_true in messages.items():
        if is_true:
            warnings.warn(message, stacklevel=4)
    if static and not static_readers:
        _warn_of_static(
            f"{name} does not use the static covariates {static}: put StaticFeatures() beside it "
            "in a FeatureUnion to have them among the features."
        )


@cache
def _warn_of_static(message: str) -> None:
    """Warn, once a process: in a search, all of many fits would."""
    warnings.warn(message, stacklevel=5)


def _ranges(panel: Panel) -> np.ndarray:
    """Largest minus smallest value of each channel (D,), NaN if it is never observed."""
    return np.fmax.reduce(panel.values) - np.fmin.reduce(panel.values)


def check_sizes(
    panel: Panel, scaler: ChannelScaler | None = None, name: str = "X", largest: float = LARGEST
) -> None:
    """Raise one error for all values that are too large, and times that are extreme.

    Values are compared with `largest`, or with the range of a scaler if there is one.
    """
    wrong = np.abs(panel.values) > largest if scaler is None else scaler.is_too_far(panel.values)
    faults = Faults(name, panel.ids, panel.channel_names)
    note_extremes(panel.rows, faults)
    note_cells(TOO_LARGE, wrong, "{:g} is too large", panel.rows, faults)
    faults.raise_if_any()
