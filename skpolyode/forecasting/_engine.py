"""From a panel to a trained forecaster, and from it to forecasts at any times.

This module knows panels and numbers; sktime's frames and horizons are translated elsewhere.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from skpolyode.embedders.ahead import continue_series
from skpolyode.embedders.learn import FEWEST_TO_SPLIT
from skpolyode.forecasting._calibration import Calibration
from skpolyode.models.contract import select
from skpolyode.panel import Panel, series_index
from skpolyode.panel.query import name_query
from skpolyode.panel.select import (
    context_starts,
    cut_windows,
    last_seen_rows,
    observed_part,
    series_of_rows,
    take,
)
from skpolyode.transformers._input import read_panel
from skpolyode.transformers.neural import NeuralTransformer

__all__ = ["Answers", "answer", "fit_forecaster", "retrain"]

_REACH_WINDOWS = 2  # longest lead that intervals are calibrated for
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
    return observed_part(Panel(panel.times, panel.values, panel.offsets, time_unit=panel.time_unit))


def _train(embedder: NeuralTransformer, panel: Panel) -> None:
    length = _ROWS_A_COEFFICIENT * getattr(embedder, "n_coefficients", _COEFFICIENTS)
    if panel.n_series < FEWEST_TO_SPLIT:
        # Enough stretches for some to be held out: nothing else shows when training goes too far.
        length = min(length, max(_SHORTEST_STRETCH, panel.n_observations // 8))
    embedder.fit(cut_windows(panel, length, length // 4))


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
    if embedder.has_coefficients:
        reach = _REACH_WINDOWS * embedder.window_
    else:
        reach = _REACH_GAPS * embedder.time_scale_
    targets = [_targets(panel.times, r, end[series[r]], reach) for r in origins]
    counts = np.array([len(own) for own in targets], dtype=np.int64)
    if not counts.sum():
        return Calibration.of(*(np.empty((0, panel.n_channels)) for _ in range(3)))
    rows = np.concatenate(targets)
    forecasts = _from_rows(embedder, panel, origins, panel.times[rows], counts)
    leads = _leads(panel, np.repeat(origins, counts), panel.times[rows])
    actual = embedder.scaler_.transform(panel.values[rows])
    return Calibration.of(leads, forecasts, actual)


def _targets(times: np.ndarray, origin: int, end: int, reach: float) -> np.ndarray:
    """Rows to forecast from one origin: all that follow within reach, thinned if too many."""
    stop = origin + 1 + np.searchsorted(times[origin + 1 : end], times[origin] + reach, "right")
    n_rows = max(stop - origin - 1, 1)
    n_targets = min(n_rows, _MAX_TARGETS)
    # Dense near the origin, where the error grows fastest.
    steps = np.unique(np.geomspace(1, n_rows, n_targets).round().astype(np.int64))
    return origin + (steps if n_rows > _MAX_TARGETS else np.arange(1, n_rows + 1))


def _from_rows(
    embedder: NeuralTransformer,
    panel: Panel,
    origins: np.ndarray,
    times: np.ndarray,
    counts: np.ndarray,
    method: str = "forecast",
) -> np.ndarray:
    """Standardised values (Q, D), ``counts[k]`` of them from the state at row ``origins[k]``."""
    past = embedder.embedder_.past
    if past is None or not past.forgets:
        return _in_one_run(embedder, panel, origins, times, counts, method)
    starts = context_starts(panel, origins, past.context)
    contexts = take(panel, series_of_rows(panel)[origins], starts, origins + 1)
    answers = getattr(embedder, method)(contexts, np.split(times, np.cumsum(counts)[:-1]))
    return embedder.scaler_.transform(answers.values)


def _in_one_run(
    embedder: NeuralTransformer,
    panel: Panel,
    origins: np.ndarray,
    times: np.ndarray,
    counts: np.ndarray,
    method: str,
) -> np.ndarray:
    """The same of a model that forgets nothing, without a run through the past of each origin."""
    model, panel = embedder.embedder_, read_panel(embedder, panel, reset=False)
    series, states = series_of_rows(panel)[origins], model.states_at(panel, origins)
    start, end = panel.times[panel.offsets[series]], panel.times[origins]

    def run_ahead(part: slice, ahead: np.ndarray) -> np.ndarray:
        return model.run_ahead(select(states, part), (end - start)[part], ahead)

    if method == "forecast":
        last = take(panel, series, origins, origins + 1)
        asked = np.split(times, np.cumsum(counts)[:-1])
        values = continue_series(last, asked, end, run_ahead).values
    else:
        repeated = np.repeat(np.arange(len(origins)), counts)
        c = model.coefficients_of(states)
        values = model.past.read_at(c, start, end, times, repeated)
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

    - After the last observation: the damped forecast.
    - At an observation: its forecast from the observations before; the mean at the first one.
    - Between two observations: the reverse reconstruction from the memory at a later one, or,
      of a model without coefficients, the damped forecast from the observations before.

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
    ahead = times - context.times[context.offsets[:-1]][series_index(offsets)]
    if (ahead < 0).any():
        first = int(np.argmax(ahead < 0))
        series = series_index(offsets)[first]
        raise ValueError(
            f"{name_query(context, series, times[first], -ahead[first])} before its first row "
            f"({int((ahead < 0).sum())} such times): nothing is known from there."
        )
    panel = _known(context)
    window = embedder.window_ if embedder.has_coefficients else 0.0
    before, later = _places(panel, times, offsets, window)
    leads = _leads(panel, np.maximum(before, 0), times)
    leads = np.where(before[:, None] < 0, np.inf, leads)
    values = np.zeros(leads.shape)
    back = later >= 0
    for chosen, origins, method in (
        (~back & (before >= 0), before, "forecast"),
        (back, later, "reconstruct"),
    ):
        asked = np.flatnonzero(chosen)
        if len(asked):
            asked = asked[np.argsort(origins[asked], kind="stable")]
            unique, counts = np.unique(origins[asked], return_counts=True)
            values[asked] = _from_rows(embedder, panel, unique, times[asked], counts, method)
    damped = calibration.damped(leads, values)
    return Answers(np.where(back[:, None], values, damped), leads)


def _places(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, window: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each time the last row before it (-1 if none), and the row that looks back at it.

    The latter, -1 where the answer is a forecast, is the last row up to half a window later, or
    the next one: there the memory holds what came after as well, and reads well in its middle.
    In a window of zero nothing is remembered.
    """
    before, later = (np.full(len(times), -1) for _ in range(2))
    for i, (first, end) in enumerate(zip(panel.offsets[:-1], panel.offsets[1:], strict=True)):
        own, asked = panel.times[first:end], slice(offsets[i], offsets[i + 1])
        query = times[asked]
        after = np.searchsorted(own, query)
        inside = after < len(own)
        next_time = own[np.minimum(after, len(own) - 1)]
        anchor = np.searchsorted(own, query + window / 2, "right") - 1
        anchor = np.maximum(anchor, after)
        looks_back = inside & (next_time != query) & (next_time - query <= window)
        before[asked] = np.where(after > 0, first + after - 1, -1)
        later[asked] = np.where(looks_back, first + anchor, -1)
    return before, later
