"""Score forecasts of irregular series, each with its own cutoff."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from skpolyode.errors import check_share, plain_repr
from skpolyode.futures.continued import SamplesFutures
from skpolyode.panel import Panel, as_panel
from skpolyode.panel.query import read_leads, split_at
from skpolyode.panel.selection import align_to_fit


class _Compared(NamedTuple):
    """Observed values and their forecasts; quantiles only if a metric needs them."""

    actual: np.ndarray  # (Q, D)
    mean: np.ndarray  # (Q, D)
    quantiles: dict[float, np.ndarray]  # (Q, D) by probability, which rises


def _pinball(forecasts: _Compared) -> np.ndarray:
    errors = {alpha: forecasts.actual - quantile for alpha, quantile in forecasts.quantiles.items()}
    return np.mean([np.maximum(a * error, (a - 1) * error) for a, error in errors.items()], axis=0)


def _coverage(forecasts: _Compared) -> np.ndarray:
    lower, _, upper = forecasts.quantiles.values()
    inside = (forecasts.actual >= lower) & (forecasts.actual <= upper)
    return np.where(np.isnan(forecasts.actual), np.nan, inside)


METRICS: dict[str, Callable[[_Compared], np.ndarray]] = {
    "mse": lambda forecasts: (forecasts.actual - forecasts.mean) ** 2,
    "mae": lambda forecasts: np.abs(forecasts.actual - forecasts.mean),
    "pinball": _pinball,
    "coverage": _coverage,
}
_OF_QUANTILES = {"pinball", "coverage"}


def evaluate_forecasts(
    forecaster: Any,
    panel: Any,
    *,
    cutoff: Any = 0.8,
    horizon: Any = None,
    metrics: Sequence[str] = ("mse", "mae"),
    coverage: float = 0.9,
) -> pd.DataFrame:
    """Cut every series in two, forecast the second part from the first, and score the forecasts.

    sktime's splitters cut regular series by counts of rows, all at the same place. This function
    cuts each irregular series at its own time, and forecasts at the times of the observations that
    follow. Values that were not observed do not count.

    Parameters
    ----------
    forecaster : PolyODEForecaster, or any object with a method ``forecast(panel, times)``
        A trained forecaster or transformer is used as it is. If it is not trained, a clone is
        trained on the first parts. `times` is a list with the times of each series, of the panel's
        type: numbers or datetimes.
    panel : Panel, list of (times, values), list of DataFrames, or array
        The series. Forecasts read all of their inputs, as if later ones were planned.
    cutoff : float, datetime, or array-like of shape (n_series,), default=0.8
        Where the series are cut. A float strictly between 0 and 1 is the share of each series'
        duration that is known; anything else is the last known time, for all series or for
        each. A series without observations on both sides is left out.
    horizon : float, duration or sequence of such, default=None
        Upper limits of bins of leads (times since the last known observation of the series), in the
        units of `times` (for datetimes, of the panel's `time_unit`, or timedeltas, also as text).
        ``[1, 3]`` gives a row for leads up to 1 and one for leads from 1 to 3; later observations
        do not count. None: all later observations, in one bin.
    metrics : sequence of {"mse", "mae", "pinball", "coverage"}, default=("mse", "mae")
        Scores. "pinball" is the mean pinball loss of the median and both ends of the central
        interval, "coverage" the share of observations inside it.
    coverage : float, default=0.9
        Nominal probability of that interval.

    Returns
    -------
    DataFrame
        One row for each channel (in the order of `fit`), lead and metric, with the columns
        ``channel``, ``lead`` (upper limit, in the units of `times`), ``metric``, ``value`` (NaN if
        there was nothing to score) and ``n`` (observations scored).

    Raises
    ------
    ValueError
        If a metric is unknown or not supported by the forecaster, if the limits of `horizon` do not
        increase from zero, or if no series has observations on both sides of its cutoff.

    Examples
    --------
    >>> from skpolyode.datasets import make_lorenz63
    >>> from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
    >>> from skpolyode.transformers import PolyODETransformer
    >>> panel = make_lorenz63(12, rate=0.1, random_state=0).panel
    >>> small = PolyODETransformer(n_coefficients=4, max_epochs=1)
    >>> forecaster = PolyODEForecaster(small, random_state=0)
    >>> table = evaluate_forecasts(forecaster, panel, horizon=[0.5, 2.0], metrics=["mse"])
    >>> table[["channel", "lead", "metric"]].values.tolist()
    [['x', 0.5, 'mse'], ['x', 2.0, 'mse'], ['y', 0.5, 'mse'], ['y', 2.0, 'mse']]
    """
    of_quantiles = _checked_metrics(forecaster, metrics)
    check_share("coverage", coverage)
    panel = as_panel(panel, name="panel")
    limits = np.array([np.inf])
    if horizon is not None:
        limits = read_leads(horizon, panel.time_unit, "horizon").counts
    if not (np.diff(limits, prepend=0.0) > 0).all():
        raise ValueError(f"horizon must increase from above zero, got {horizon!r}.")
    past, future = split_at(panel, cutoff)
    leads = future.times - np.repeat(past.end, future.lengths)
    levels = ((1 - coverage) / 2, 0.5, (1 + coverage) / 2) if of_quantiles else ()
    trained, times = trained_on(forecaster, past), [later for later, _ in future.to_series()]
    past, future = (align_to_fit(part, trained, "panel") for part in (past, future))
    quantiles = trained.forecast_quantiles(past, times, levels) if levels else {}
    quantiles = {alpha: quantiles[alpha].values for alpha in levels}
    # The median is the forecast, to the bit: a second one would take as long, and warn again.
    known = isinstance(trained, SamplesFutures) and levels
    mean = quantiles[0.5] if known else trained.forecast(past, times).values
    forecasts = _Compared(future.values, mean, quantiles)
    errors = {name: METRICS[name](forecasts) for name in metrics}
    group, rows = np.searchsorted(limits, leads), []
    for j, name in enumerate(future.channel_names):
        for k, limit in enumerate(limits):
            for metric, error in errors.items():
                scored = error[group == k, j]
                scored = scored[~np.isnan(scored)]
                value = scored.mean() if len(scored) else np.nan
                rows.append((name, limit, metric, value, len(scored)))
    return pd.DataFrame(rows, columns=["channel", "lead", "metric", "value", "n"])


def _checked_metrics(forecaster: Any, metrics: Sequence[str]) -> list[str]:
    """Check the metrics; return those that need quantiles."""
    unknown = [name for name in metrics if name not in METRICS]
    if isinstance(metrics, str) or unknown or not len(metrics):
        raise ValueError(f"metrics must be a list of some of {list(METRICS)}, got {metrics!r}.")
    of_quantiles = sorted(_OF_QUANTILES.intersection(metrics))
    if of_quantiles and not hasattr(forecaster, "forecast_quantiles"):
        raise ValueError(
            f"metrics {of_quantiles} need quantiles, but {type(forecaster).__name__} has no "
            "forecast_quantiles; leave them out or use PolyODETransformer."
        )
    if not hasattr(forecaster, "forecast"):
        raise TypeError(
            f"forecaster must have a method forecast(panel, times), but {plain_repr(forecaster)} "
            "has none; take PolyODEForecaster or a transformer that is trained."
        )
    return of_quantiles


def trained_on(forecaster: Any, past: Panel) -> Any:
    """The forecaster itself if it is trained, or else a trained clone."""
    if hasattr(forecaster, "pretrain"):
        return forecaster.clone().pretrain(past) if forecaster.state == "new" else forecaster
    if not hasattr(forecaster, "fit"):
        return forecaster
    try:
        check_is_fitted(forecaster)
    except NotFittedError:
        return clone(forecaster).fit(past)
    return forecaster
