"""From a panel to a trained forecaster, and from it to forecasts at any times.

This module knows panels and numbers; sktime's frames and horizons are translated elsewhere.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from skpolyode.embedders.ahead import continue_series
from skpolyode.embedders.learn import FEWEST_TO_SPLIT
from skpolyode.forecasting._calibration import Calibration
from skpolyode.models.contract import select
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.known import known_part
from skpolyode.panel.query import name_query
from skpolyode.panel.select import (
    context_starts,
    last_seen_rows,
    observed_part,
    observed_series,
    series_of_rows,
    take,
)
from skpolyode.transformers import PolyODETransformer
from skpolyode.transformers._checks import check_repeatable, local_random_state
from skpolyode.transformers._input import read_panel
from skpolyode.transformers.neural import NeuralTransformer

__all__ = ["Answers", "answer", "fit_forecaster", "retrain", "train_forecaster"]

_REACH_CONTEXTS = 2  # longest lead that intervals are calibrated for
_REACH_GAPS = 32  # the same, in typical gaps, of a model without a window
_PAST_SHARE = 0.6  # of a series that forecasts for calibration know at least
_MAX_ORIGINS = 1000
_MAX_TARGETS = 64  # forecasts from one origin
_SERIES_TO_HOLD_OUT = 10  # with fewer, the ends of all series are held out instead
_ROWS_A_COEFFICIENT = 4  # of the stretches of long series that training goes through
_COEFFICIENTS = 32  # taken as the number of a model that has none
_SHORTEST_STRETCH = 16
_ROWS_TO_HOLD_OUT = 10  # a shorter series has no end to spare


class Answers(NamedTuple):
    """Answers at Q times, series after series."""

    values: np.ndarray  # (Q, D), in standard deviations from the mean
    leads: np.ndarray  # (Q, D): time since the channel was last observed; inf if it never was


def train_forecaster(
    embedder: NeuralTransformer | None, panel: Panel, share: float, random_state: Any
) -> tuple[NeuralTransformer, Calibration]:
    """Train and calibrate a clone of an embedder; see the parameters of `PolyODEForecaster`."""
    if embedder is None:
        embedder = PolyODETransformer()
    if not isinstance(embedder, NeuralTransformer):
        raise TypeError(
            "embedder must be a transformer that learns to forecast, such as "
            f"PolyODETransformer(), got {embedder!r}."
        )
    if not 0 < share < 1:
        raise ValueError(f"calibration_fraction must be between 0 and 1, got {share!r}.")
    seed = embedder.random_state if random_state is None else random_state
    if embedder.checkpoint_dir is not None:
        check_repeatable(seed)
    rng = local_random_state(seed)
    own = {"random_state": int(rng.randint(2**31 - 1)), "warm_start": False}
    return fit_forecaster(clone(embedder).set_params(**own), panel, share, rng)


def fit_forecaster(
    embedder: NeuralTransformer, panel: Panel, share: float, rng: np.random.RandomState
) -> tuple[NeuralTransformer, Calibration]:
    """Train an embedder and calibrate its forecasts on held-out data.

    With many series a share of them is held out. With few, the last `share` of each is, and a
    model that is trained anew on all of the data takes over its calibration.
    """
    panel = _known(panel)
    if panel.n_series >= _SERIES_TO_HOLD_OUT:
        held_out = np.zeros(panel.n_series, dtype=bool)
        n_held_out = max(1, round(share * panel.n_series))
        held_out[rng.permutation(panel.n_series)[:n_held_out]] = True
        _train(embedder, panel[~held_out])
        return embedder, _calibrate(embedder, panel[held_out], None, rng)
    ends = panel.offsets[1:] - np.where(
        panel.lengths >= _ROWS_TO_HOLD_OUT, np.ceil(share * panel.lengths), 0
    ).astype(np.int64)
    _train(embedder, take(panel, np.arange(panel.n_series), panel.offsets[:-1], ends))
    if (ends == panel.offsets[1:]).all():  # too little data: errors of the training stand in
        return embedder, _calibrate(embedder, panel, None, rng)
    calibration = _calibrate(embedder, panel, ends, rng)
    _train(embedder, panel)
    return embedder, calibration


def _known(panel: Panel) -> Panel:
    """Rows with an observation; channels by position, as sktime's formats name them differently."""
    panel = known_part(panel, "y")
    static = None if panel.static is None else panel.static.reset_index(drop=True)
    return observed_part(
        Panel(panel.times, panel.values, panel.offsets, static=static, time_unit=panel.time_unit)
    )


def _train(embedder: NeuralTransformer, panel: Panel) -> None:
    length = _ROWS_A_COEFFICIENT * getattr(embedder, "n_coefficients", _COEFFICIENTS)
    if panel.n_series < FEWEST_TO_SPLIT:
        # Short enough for ends to be held out: nothing else shows when training goes too far.
        length = min(length, max(_SHORTEST_STRETCH, panel.n_observations // 8))
    embedder._longest = length  # cut in `fit`, once it has been decided what validates
    try:
        embedder.fit(panel)
    finally:
        del embedder._longest


def retrain(embedder: NeuralTransformer, panel: Panel, n_epochs: int) -> NeuralTransformer:
    """Embedder that has gone on training, gently, on a panel; the one given is left as it is."""
    # A shallow copy: fit makes new attributes, and trains a copy of the model.
    trained = copy.copy(embedder).set_params(
        warm_start=True,
        max_epochs=n_epochs,
        learning_rate_init=embedder.learning_rate_init / 4,
    )
    _train(trained, _known(panel))
    return trained.set_params(**embedder.get_params(deep=False))


def _calibrate(
    embedder: NeuralTransformer,
    panel: Panel,
    held_out_from: np.ndarray | None,
    rng: np.random.RandomState,
) -> Calibration:
    """Calibrate on forecasts of later rows from earlier ones.

    Origins are the rows of the last two fifths of each series, or of its held-out end (given by
    its first row), since forecasts that are asked for know most of their series as well.
    """
    series = series_of_rows(panel)
    first, end = panel.offsets[:-1], panel.offsets[1:]
    past = np.floor(_PAST_SHARE * panel.lengths).astype(np.int64)
    earliest = first + past if held_out_from is None else held_out_from
    rows = np.arange(panel.n_observations)
    origins = rows[(rows >= earliest[series] - 1) & (rows < end[series] - 1)]
    if len(origins) > _MAX_ORIGINS:
        origins = np.sort(rng.choice(origins, _MAX_ORIGINS, replace=False))
    recent = embedder.embedder_.recent
    if recent is not None:
        reach = _REACH_CONTEXTS * recent.window
    else:
        reach = _REACH_GAPS * embedder.time_scale_
    targets = []  # of each origin: all rows that follow within reach, thinned if too many
    for row in origins:
        later = panel.times[row + 1 : end[series[row]]]
        n_rows = max(int(np.searchsorted(later, panel.times[row] + reach, "right")), 1)
        steps = np.arange(1, n_rows + 1)
        if n_rows > _MAX_TARGETS:  # dense near the origin, where the error grows fastest
            steps = np.unique(np.geomspace(1, n_rows, _MAX_TARGETS).round().astype(np.int64))
        targets.append(row + steps)
    counts = np.array([len(own) for own in targets], dtype=np.int64)
    if not counts.sum():
        return Calibration.of(*(np.empty((0, panel.n_channels)) for _ in range(3)))
    rows = np.concatenate(targets)
    forecasts = _from_rows(embedder, panel, origins, panel.times[rows], counts)
    leads = _leads(panel, np.repeat(origins, counts), panel.times[rows])
    actual = embedder.scaler_.transform(panel.values[rows])
    return Calibration.of(
        leads, forecasts, actual, np.repeat(series[origins], counts), panel.times[rows]
    )


def _from_rows(
    embedder: NeuralTransformer,
    panel: Panel,
    origins: np.ndarray,
    times: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Standardised forecasts (Q, D), ``counts[k]`` of them from the state at ``origins[k]``."""
    recent, series = embedder.embedder_.recent, series_of_rows(panel)[origins]
    asked = np.split(times, np.cumsum(counts)[:-1])
    if recent is not None:
        starts = context_starts(panel, origins, recent.context)
        answers = embedder.forecast(take(panel, series, starts, origins + 1), asked)
        return embedder.scaler_.transform(answers.values)
    # A model that forgets nothing, without a run through the past of each origin.
    model, panel = embedder.embedder_, read_panel(embedder, panel, reset=False)
    states = model.states_at(panel, origins)
    start, end = panel.times[panel.offsets[series]], panel.times[origins]

    def run_ahead(part: slice, ahead: np.ndarray) -> np.ndarray:
        return model.run_ahead(select(states, part), (end - start)[part], ahead)

    last = take(panel, series, origins, origins + 1)
    values = continue_series(last, times, offsets_from(counts), end, run_ahead)
    return embedder.scaler_.transform(values)


def _leads(panel: Panel, origins: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Time (Q, D) since each channel was last observed, up to the origin of each forecast."""
    seen = last_seen_rows(panel)[origins]
    return np.where(seen < 0, np.inf, times[:, None] - panel.times[seen])


def answer(
    embedder: NeuralTransformer,
    calibration: Calibration,
    context: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
) -> Answers:
    """Values of every channel at any times from the first row of each series on.

    NaN of series without any observation.

    - After the last observation: the damped forecast.
    - At an observation: its forecast from the observations before; the mean at the first one.
    - Between two observations: the learned path, which leads from one to the other.

    Parameters
    ----------
    embedder : NeuralTransformer
        Fitted.
    calibration : Calibration
        Damps the forecasts.
    context : Panel
        What is known of each series.
    times : float64 ndarray of shape (Q,)
        Times for all series, one after the other, in the units of the context.
    offsets : int64 ndarray of shape (n_series + 1,)
        Where the times of each series start.
    """
    known, counts = observed_series(context), np.diff(offsets)
    asked, shape = np.repeat(known, counts), (len(times), context.n_channels)
    answers = Answers(np.full(shape, np.nan), np.full(shape, np.inf))
    if known.any():
        own = times[asked], offsets_from(counts[known])
        answers.values[asked], answers.leads[asked] = _answer(
            embedder, calibration, context[known], *own
        )
    return answers


def _answer(
    embedder: NeuralTransformer,
    calibration: Calibration,
    context: Panel,
    times: np.ndarray,
    offsets: np.ndarray,
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
    before, is_between = _places(panel, times, offsets)
    leads = _leads(panel, np.maximum(before, 0), times)
    leads = np.where(before[:, None] < 0, np.inf, leads)
    values = np.zeros(leads.shape)
    asked = np.flatnonzero(~is_between & (before >= 0))
    if len(asked):
        asked = asked[np.argsort(before[asked], kind="stable")]
        unique, counts = np.unique(before[asked], return_counts=True)
        values[asked] = _from_rows(embedder, panel, unique, times[asked], counts)
    values = calibration.damped(leads, values)
    if is_between.any():
        # Times count from the starts of the series there, which keeps their differences exact.
        own, kept = read_panel(embedder, panel, reset=False), offsets_from(is_between)[offsets]
        shift = (own.times - panel.times)[panel.offsets[:-1]][series_index(kept)]
        path = embedder.embedder_.path_values(own, times[is_between] + shift, kept)
        values[is_between] = embedder.scaler_.transform(path)
    return Answers(values, leads)


def _places(panel: Panel, times: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each time the last row before it (-1 if none), and whether it lies between two rows."""
    before, is_between = np.full(len(times), -1), np.zeros(len(times), dtype=bool)
    for i, (first, end) in enumerate(pairwise(panel.offsets)):
        own, asked = panel.times[first:end], slice(offsets[i], offsets[i + 1])
        after = np.searchsorted(own, times[asked])
        is_row = own[np.minimum(after, len(own) - 1)] == times[asked]
        before[asked] = np.where(after > 0, first + after - 1, -1)
        is_between[asked] = (after < len(own)) & ~is_row
    return before, is_between
