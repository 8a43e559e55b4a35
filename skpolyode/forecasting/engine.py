"""From a panel to a trained forecaster, and from it to forecasts at any times.

This module knows panels and numbers; sktime's frames and horizons are translated elsewhere.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skpolyode.embedders.holdout import FEWEST_TO_SPLIT
from skpolyode.ensemble.backtest import ridge_sample
from skpolyode.ensemble.blend import Blend
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.decompose import Decomposition
from skpolyode.ensemble.select_decomposition import checked_choices, select_decomposition
from skpolyode.ensemble.stacking import StackedForecast, cross_fitted
from skpolyode.forecasting.backtests import drawn, in_units, spreads_of, tried, tried_simply
from skpolyode.forecasting.paths import PathCalibration, calibrate_paths, on_path
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.empty import drop_empty
from skpolyode.panel.query import name_query
from skpolyode.panel.select import (
    last_seen_rows,
    observed_series,
    take,
)
from skpolyode.structural.averaging import StructuralModels
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers.input import read_panel
from skpolyode.transformers.neural import NeuralTransformer
from skpolyode.transformers.parameters import check_repeatable, local_random_state

__all__ = ["Answers", "Trained", "answer", "fit_forecaster", "retrain", "train_forecaster"]

_SERIES_TO_HOLD_OUT = 10  # with fewer, the ends of all series are held out instead
_ROWS_A_COEFFICIENT = 4  # of the stretches of long series that training goes through
_COEFFICIENTS = 32  # taken as the number of a model that has none
_SHORTEST_STRETCH = 16
_FOLDS = 5  # of backtest, whose errors are those of weights that the others gave
_ROWS_TO_HOLD_OUT = 10  # a shorter series has no end to spare


class Answers(NamedTuple):
    """Answers at Q times, series after series."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean
    leads: np.ndarray  # (Q, D): time since the channel was last observed; inf if it never was
    shift: np.ndarray  # (Q, D): what the user's values are beside `scale` times the model's
    scale: np.ndarray  # (Q, D)
    spreads: np.ndarray  # (Q, D, 2): how wild the series was before
    apart: np.ndarray  # (Q, D): from the observations around a point of the path; NaN elsewhere
    expected: np.ndarray  # (Q, D): size of the errors, where it is known; else 1
    at_row: np.ndarray  # bool (Q,): whether the path is asked for where something was observed


class Trained(NamedTuple):
    """What fit leaves behind."""

    embedder: NeuralTransformer
    calibration: Calibration
    adjustment: Decomposition
    path_calibration: PathCalibration | None
    structure: StructuralModels | None  # of few series


def train_forecaster(parameters: dict[str, Any], panel: Panel) -> Trained:
    """Train and calibrate a clone of an embedder; see the parameters of `PolyODEForecaster`."""
    embedder, random_state = parameters["embedder"], parameters["random_state"]
    if embedder is None:
        embedder = PolyODETransformer()
    if not isinstance(embedder, NeuralTransformer):
        raise TypeError(
            "embedder must be a transformer that learns to forecast, such as "
            f"PolyODETransformer(), got {embedder!r}."
        )
    choices = checked_choices(parameters)
    seed = embedder.random_state if random_state is None else random_state
    if embedder.checkpoint_dir is not None:
        check_repeatable(seed)
    rng = local_random_state(seed)
    own = {"random_state": int(rng.randint(2**31 - 1)), "warm_start": False}
    model, share = clone(embedder).set_params(**own), parameters["calibration_fraction"]
    return fit_forecaster(model, panel, share, rng, **choices)


def fit_forecaster(
    embedder: NeuralTransformer,
    panel: Panel,
    share: float,
    rng: np.random.RandomState,
    **choices: Any,
) -> Trained:
    """Train an embedder and calibrate its forecasts on held-out data.

    With many series a share of them is held out. With few, the last `share` of each is, and a
    model that is trained anew on all of the data takes over its calibration.

    Few series are forecast by their structure as well, and rather.

    `choices` are `detrend`, `period` and `normalize` of the forecaster.
    """
    panel = _known(panel)
    if panel.n_series >= _SERIES_TO_HOLD_OUT:
        held_out = np.zeros(panel.n_series, dtype=bool)
        n_held_out = max(1, round(share * panel.n_series))
        held_out[rng.permutation(panel.n_series)[:n_held_out]] = True
        known, tested = panel[~held_out], panel[held_out]
        adjustment = select_decomposition(known, known.offsets[1:], **_given(choices))
        return _fitted(embedder, adjustment, known, tested, None, rng)
    parts = {name: choices[name] for name in ("detrend", "period")}
    ends = panel.offsets[1:] - np.where(
        panel.lengths >= _ROWS_TO_HOLD_OUT, np.ceil(share * panel.lengths), 0
    ).astype(np.int64)
    if (ends == panel.offsets[1:]).all():  # too little data: errors of the training stand in
        adjustment = select_decomposition(panel, ends, **_given(choices))
        structure = StructuralModels.learn(panel, **parts)
        return _fitted(embedder, adjustment, panel, panel, None, rng, structure)
    adjustment = select_decomposition(panel, ends, **choices)
    known = take(panel, np.arange(panel.n_series), panel.offsets[:-1], ends)
    structure = StructuralModels.learn(known, **parts)
    trained = _fitted(embedder, adjustment, known, panel, ends, rng, structure)
    stacking, unit = embedder.embedder_.stacking, embedder.time_scale_
    left = adjustment.left(panel)
    _train(embedder, left)
    bounds = embedder.embedder_.range_of(left)
    stacking = stacking.rescaled(unit / embedder.time_scale_, *bounds)
    embedder.embedder_ = replace(embedder.embedder_, stacking=stacking)
    structure = replace(StructuralModels.learn(panel, **parts), trust=trained.structure.trust)
    return trained._replace(structure=structure)


def _fitted(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    known: Panel,
    tested: Panel,
    ends: np.ndarray | None,
    rng: np.random.RandomState,
    structure: StructuralModels | None = None,
) -> Trained:
    """Train an embedder on what is known; let it lean, and calibrate, on forecasts of the rest."""
    left = adjustment.left(known)
    _train(embedder, left)
    asked = drawn(embedder, adjustment, tested, rng, ends)
    sample = None
    if ends is None and adjustment.is_none:  # what is left of whole series knows their future
        sample = ridge_sample(embedder.embedder_, left, rng)
    backtest, spreads = tried(embedder, asked, sample)
    bounds = embedder.embedder_.range_of(left)
    stacking = StackedForecast.learn(backtest, *bounds)
    embedder.embedder_ = replace(embedder.embedder_, stacking=stacking)
    unit, forecasts = embedder.time_scale_, cross_fitted(backtest, _FOLDS)
    leads, actual = backtest.leads * unit, backtest.actual
    shared, expected = (backtest.series, backtest.times * unit), None
    if structure is not None:
        simple, expected = tried_simply(embedder, structure, asked)
        if ends is not None:  # or the dynamics have seen what they forecast
            trust = Blend.learn(leads, forecasts, simple, actual, *shared)
            structure = replace(structure, trust=trust)
        forecasts = structure.trust.blend(leads, forecasts, simple)
    calibration = Calibration.of(leads, forecasts, actual, *shared, spreads, expected)
    paths = calibrate_paths(embedder, adjustment, tested, rng, ends)
    return Trained(embedder, calibration, adjustment, paths, structure)


def _given(choices: dict[str, Any]) -> dict[str, Any]:
    """Choices where trends and seasons of single series cannot be compared: what is given, or none.

    Many series share one model, which learns them as well.
    """
    given = {"detrend": False, "period": None}
    return choices | {name: no for name, no in given.items() if choices[name] == "auto"}


def _known(panel: Panel) -> Panel:
    """Rows with an observation; channels by position, as sktime's formats name them differently."""
    panel = drop_empty(panel, "y")
    static = None if panel.static is None else panel.static.reset_index(drop=True)
    return Panel(panel.times, panel.values, panel.offsets, static=static, time_unit=panel.time_unit)


def _train(embedder: NeuralTransformer, panel: Panel) -> None:
    length = _ROWS_A_COEFFICIENT * getattr(embedder, "n_coefficients", _COEFFICIENTS)
    if panel.n_series < FEWEST_TO_SPLIT:
        # Short enough for ends to be held out: nothing else shows when training goes too far.
        length = min(length, max(_SHORTEST_STRETCH, panel.n_observations // 8))
    # Cut in the fit, once it has been decided what validates; the forecaster stacks by itself.
    embedder.fit_stages(panel, window_rows=length, skip=["stacking"])


def retrain(
    embedder: NeuralTransformer, adjustment: Decomposition, panel: Panel, n_epochs: int
) -> NeuralTransformer:
    """Embedder that has gone on training, gently, on a panel; the one given is left as it is."""
    # A shallow copy: fit makes new attributes, and trains a copy of the model.
    trained = copy.copy(embedder).set_params(
        warm_start=True,
        max_epochs=n_epochs,
        learning_rate_init=embedder.learning_rate_init / 4,
    )
    _train(trained, adjustment.left(_known(panel)))
    return trained.set_params(**embedder.get_params(deep=False))


def _leads(panel: Panel, origins: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Time (Q, D) since each channel was last observed, up to the origin of each forecast."""
    seen = last_seen_rows(panel)[origins]
    return np.where(seen < 0, np.inf, times[:, None] - panel.times[seen])


def answer(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    structure: StructuralModels | None,
    context: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    path_at_rows: bool = False,
) -> Answers:
    """Values of every channel at any times from the first row of each series on.

    NaN of series without any observation.

    - After the last observation: the forecast.
    - At an observation: its forecast from the observations before; the mean at the first one. The
      path, if `path_at_rows`.
    - Between two observations: the learned path, which leads from one to the other.

    Parameters
    ----------
    embedder : NeuralTransformer
        Fitted.
    adjustment : Decomposition
        What was taken out before.
    structure : StructuralModels or None
        What few series are forecast by beside the embedder.
    context : Panel
        What is known of each series.
    times : float64 ndarray of shape (Q,)
        Times for all series, one after the other, in the units of the context.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    """
    known, counts = observed_series(context), np.diff(offsets)
    asked, shape = np.repeat(known, counts), (len(times), context.n_channels)
    answers = Answers(
        np.full(shape, np.nan),
        np.full(shape, np.inf),
        np.zeros(shape),
        np.ones(shape),
        np.zeros((*shape, 2)),
        np.full(shape, np.nan),
        np.ones(shape),
        np.zeros(len(times), dtype=bool),
    )
    if known.any():
        own = times[asked], offsets_from(counts[known]), path_at_rows
        found = _answer(embedder, adjustment, structure, context[known], *own)
        for column, values in zip(answers, found, strict=True):
            column[asked] = values
    return answers


def _answer(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    structure: StructuralModels | None,
    context: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
    path_at_rows: bool,
) -> Answers:
    """As `answer`, of series that all hold an observation."""
    ahead = times - context.times[context.offsets[:-1]][series_index(offsets)]
    if (ahead < 0).any():
        first = int(np.argmax(ahead < 0))
        series = series_index(offsets)[first]
        raise ValueError(
            f"{name_query(context, series, times[first], -ahead[first])} before its first row "
            f"({int((ahead < 0).sum())} such times): nothing is known from there."
        )
    panel = _known(context)
    read_panel(embedder, panel, reset=False)  # or an error that names the channels
    before, is_between = _places(panel, times, offsets, path_at_rows)
    leads = _leads(panel, np.maximum(before, 0), times)
    leads = np.where(before[:, None] < 0, np.inf, leads)
    none, unknown = np.zeros(leads.shape), np.zeros((*leads.shape, 2))
    own = _unadjusted(embedder, adjustment, leads.shape)
    blank = np.full(leads.shape, np.nan), np.ones(leads.shape), np.zeros(len(times), dtype=bool)
    found = Answers(none, leads, *own, unknown, *blank)
    asked = np.flatnonzero(~is_between & (before >= 0))
    if len(asked):
        asked = asked[np.argsort(before[asked], kind="stable")]
        unique, counts = np.unique(before[asked], return_counts=True)
        own = panel, unique, times[asked], counts, leads[asked]
        ahead = _ahead(embedder, adjustment, structure, *own)
        for name, column in ahead.items():
            getattr(found, name)[asked] = column
    if is_between.any():
        kept = offsets_from(is_between)[offsets]
        path = on_path(embedder, adjustment, panel, times[is_between], kept)
        for name, column in path._asdict().items():
            getattr(found, name)[is_between] = column
    return found


def _ahead(
    embedder: NeuralTransformer,
    adjustment: Decomposition,
    structure: StructuralModels | None,
    panel: Panel,
    origins: np.ndarray,
    times: np.ndarray,
    counts: np.ndarray,
    leads: np.ndarray,
) -> dict[str, np.ndarray]:
    """Columns of answers: `counts` (O,) forecasts from the rows up to each of some origins (O,)."""
    past, last = panel, origins
    shift, scale = _unadjusted(embedder, adjustment, leads.shape)
    if not adjustment.is_none:
        adjusted = adjustment.remove(panel, origins)
        own = adjusted.of(np.repeat(np.arange(len(origins)), counts))
        shift, scale = adjustment.base(own, times), own.scale
        past, last = adjusted.panel, adjusted.panel.offsets[1:] - 1
    simple, expected = np.full(leads.shape, np.nan), np.ones(leads.shape)
    if structure is not None:
        found = structure.forecast_from(panel, origins, times, counts)
        simple, expected = in_units(embedder, found, shift, scale)
    values = simple
    if structure is None or structure.trust.shares.any() or np.isnan(simple).any():
        values = embedder.embedder_.forecast_from(past, last, times, counts)
    if structure is not None:
        values = structure.trust.blend(leads, values, simple)
    spreads = np.repeat(spreads_of(embedder, past, last), counts, axis=0)
    columns = {"values": values, "shift": shift, "scale": scale, "spreads": spreads}
    return columns | {"expected": expected}


def _unadjusted(
    embedder: NeuralTransformer, adjustment: Decomposition, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Shift and scale where nothing was taken out, or nothing is known of the series yet."""
    if adjustment.is_none:
        return np.zeros(shape), np.ones(shape)
    scale = adjustment.moments[1] / embedder.scaler_.scale
    shift = adjustment.moments[0] - scale * embedder.scaler_.mean
    return np.broadcast_to(shift, shape).copy(), np.broadcast_to(scale, shape).copy()


def _places(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, path_at_rows: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """For each time the last row before it (-1 if none), and whether the path answers it.

    That is between two rows, and at rows if `path_at_rows`.
    """
    before, is_between = np.full(len(times), -1), np.zeros(len(times), dtype=bool)
    for i, (first, end) in enumerate(pairwise(panel.offsets)):
        own, asked = panel.times[first:end], slice(offsets[i], offsets[i + 1])
        after = np.searchsorted(own, times[asked])
        is_row = own[np.minimum(after, len(own) - 1)] == times[asked]
        before[asked] = np.where(after > 0, first + after - 1, -1)
        is_between[asked] = (after < len(own)) & (path_at_rows | ~is_row)
    return before, is_between
