"""Score when series are said to cross a line, each from a cutoff of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skpolyode.forecasting.evaluation import trained_on
from skpolyode.futures.continued import first_crossings
from skpolyode.futures.samples import channel_at, check_line, sign_of
from skpolyode.panel import Panel, as_panel, query_times
from skpolyode.panel.query import read_duration, split_at
from skpolyode.panel.selection import align_to_fit


def evaluate_crossings(
    forecaster: Any,
    panel: Any,
    threshold: float,
    horizon: Any,
    *,
    cutoff: Any = 0.8,
    channel: str | int | None = None,
    direction: str = "above",
    coverage: float = 0.9,
) -> pd.DataFrame:
    """Cut every series in two, ask the first part when it crosses a line, and score the answer.

    It has crossed when its observations, joined by straight lines, first reach the line. Series
    that are at the line or beyond at their cutoff do not count. Of those that are neither seen to
    cross nor observed up to the horizon, nothing is known; others stand for them, by inverse
    probabilities of being followed for as long [1]_. That is right if series end for reasons that
    have nothing to do with the line that is still to be crossed.

    Parameters
    ----------
    forecaster : PolyODEForecaster, or any object with a method `crossing_times`
        A trained forecaster or transformer is used as it is. Of one that is not trained, a clone is
        trained on the first parts.
    panel : Panel, list of (times, values), list of DataFrames, or array
        The series.
    threshold : float
        The line, in the units of the channel.
    horizon : float or duration
        How far to look after the last known observation of each series.
    cutoff : float, datetime, or array-like of shape (n_series,), default=0.8
        Where the series are cut, as in `evaluate_forecasts`.
    channel : str, int or None, default=None
        Which channel, by name or position. None: the only one.
    direction : {"above", "below"}, default="above"
        From where on the line is crossed.
    coverage : float, default=0.9
        Nominal probability of the windows.

    Returns
    -------
    DataFrame
        One row for each metric, with the columns ``metric``, ``value`` (NaN if there was nothing to
        score) and ``n`` (series that it is the mean of):

        - ``timing_error``: mean distance of the median time from the true one, of all that cross;
          an answer that no crossing is expected counts as the horizon.
        - ``caught``: share of those that cross whose probability is above one half.
        - ``false_alarms``: the same share of those that do not.
        - ``coverage``: share of those that cross within their window. It may be less than nominal:
          where a crossing is improbable, a right window lies beyond the horizon.
        - ``brier``: mean squared error of the probability.
        - ``concordance``: share of the pairs, one of which crosses first, in the right order.

    Raises
    ------
    ValueError
        If no series can be scored, or an argument is not valid.

    See Also
    --------
    crossing_outcomes : What was said of each series, for other scores and for plots.

    References
    ----------
    .. [1] E. Graf, C. Schmoor, W. Sauerbrei, M. Schumacher: Assessment and comparison of prognostic
       classification schemes for survival data. Statistics in Medicine 18, 2529-2545, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import PolyODETransformer
    >>> from benchmarks.crossing_scores import evaluate_crossings
    >>> rng, t = np.random.default_rng(0), np.arange(30.0)
    >>> panel = [(t, np.cumsum(rng.normal(0.3, 1, 30))) for _ in range(20)]
    >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
    >>> table = evaluate_crossings(model, panel, threshold=9.0, horizon=5.0)
    >>> table["metric"].tolist()[:3]
    ['timing_error', 'caught', 'false_alarms']
    """
    panel = as_panel(panel, name="panel")
    options = {"cutoff": cutoff, "channel": channel, "direction": direction, "coverage": coverage}
    found = crossing_outcomes(forecaster, panel, threshold, horizon, **options)
    reach = read_duration("horizon", horizon, panel.time_unit)
    return scores(*found.to_numpy().T, horizon=reach)


def crossing_outcomes(
    forecaster: Any,
    panel: Any,
    threshold: float,
    horizon: Any,
    *,
    cutoff: Any = 0.8,
    channel: str | int | None = None,
    direction: str = "above",
    coverage: float = 0.9,
) -> pd.DataFrame:
    """What a forecaster says of the crossings of each series, and what came.

    `evaluate_crossings` scores it. Series that are at the line or beyond at their cutoff are left
    out, and those that are neither seen to cross nor observed up to the horizon; others have a
    `weight` for these.

    Parameters
    ----------
    forecaster : PolyODEForecaster, or any object with a method `crossing_times`
        A trained forecaster or transformer is used as it is. Of one that is not trained, a clone is
        trained on the first parts.
    panel : Panel, list of (times, values), list of DataFrames, or array
        The series.
    threshold : float
        The line, in the units of the channel.
    horizon : float or duration
        How far to look after the last known observation of each series.
    cutoff : float, datetime, or array-like of shape (n_series,), default=0.8
        Where the series are cut, as in `evaluate_forecasts`.
    channel : str, int or None, default=None
        Which channel, by name or position. None: the only one.
    direction : {"above", "below"}, default="above"
        From where on the line is crossed.
    coverage : float, default=0.9
        Nominal probability of the windows.

    Returns
    -------
    DataFrame
        One row for each series that can be scored, with its id as the index: ``probability``,
        ``earliest``, ``median`` and ``latest`` as said, ``actual``, the time when the series
        crosses, infinite if it does not up to the horizon, and ``weight``, how many series it
        stands for. Times count from the last known observation, in the units of the series
        (seconds for datetimes).

    Raises
    ------
    ValueError
        If no series can be scored, or an argument is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import PolyODETransformer
    >>> from benchmarks.crossing_scores import crossing_outcomes
    >>> rng, t = np.random.default_rng(0), np.arange(30.0)
    >>> panel = [(t, np.cumsum(rng.normal(0.3, 1, 30))) for _ in range(20)]
    >>> model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(panel)
    >>> table = crossing_outcomes(model, panel, threshold=9.0, horizon=5.0)
    >>> list(table)
    ['probability', 'earliest', 'median', 'latest', 'actual', 'weight']
    """
    sign = sign_of(direction)
    check_line(threshold)
    panel = as_panel(panel, name="panel")
    reach = read_duration("horizon", horizon, panel.time_unit)
    past, future = split_at(panel, cutoff)
    trained = trained_on(forecaster, past)
    past, future = (align_to_fit(part, trained, "panel") for part in (past, future))
    j = channel_at(past, channel)
    actual, followed = true_crossings(past, future, j, sign, threshold, reach)
    weight = weights_of(actual, followed, reach)
    is_scored = weight > 0
    if not is_scored.any():
        raise ValueError(
            f"no series can be scored: channel {past.channel_names[j]!r} is not observed up to any "
            "cutoff, all series are beyond the line there, or none that has not crossed is "
            "observed up to the horizon; choose another channel, cutoff or a shorter horizon."
        )
    past, actual, weight = past[is_scored], actual[is_scored], weight[is_scored]
    last = past.end
    table = trained.crossing_times(
        past, threshold, reach, "end", channel=j, direction=direction, coverage=coverage
    )
    asked = list(zip(table["earliest"], table["median"], table["latest"], strict=True))
    answered = query_times(past, asked)[0].reshape(-1, 3) - last[:, None]
    answers = dict(zip(("earliest", "median", "latest"), answered.T, strict=True))
    columns = {"probability": table["probability"].to_numpy()} | answers
    columns |= {"actual": actual, "weight": weight}
    return pd.DataFrame(columns, index=table.index)


def scores(
    probability: np.ndarray,
    earliest: np.ndarray,
    median: np.ndarray,
    latest: np.ndarray,
    actual: np.ndarray,
    weight: np.ndarray | float = 1.0,
    *,
    horizon: float,
) -> pd.DataFrame:
    """Metrics of answers (n,) beside the true crossings (n,), infinite where there was none.

    Times count from the last known observation; see `evaluate_crossings`.
    """
    crossed, weight = np.isfinite(actual), np.broadcast_to(weight, actual.shape)
    inside = (earliest <= actual) & (actual <= latest)
    median = np.minimum(median, horizon)
    found = {
        "timing_error": (np.abs(median - actual), weight * crossed),
        "caught": (probability > 0.5, weight * crossed),
        "false_alarms": (probability > 0.5, weight * ~crossed),
        "coverage": (inside, weight * crossed),
        "brier": ((probability - crossed) ** 2, weight),
        "concordance": _pairs(median, probability, actual, weight),
    }
    rows = []
    for name, (x, w) in found.items():
        mean = np.average(x[w > 0], weights=w[w > 0]) if w.any() else np.nan
        rows.append((name, mean, int((w > 0).sum())))
    return pd.DataFrame(rows, columns=["metric", "value", "n"])


def _pairs(
    median: np.ndarray, probability: np.ndarray, actual: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Whether pairs are in the right order (1/2 of a tie), by the median, then the probability.

    Then their weights.
    """
    place = np.unique(np.stack([median, -probability], axis=1), axis=0, return_inverse=True)[1]
    right, weights = [np.empty(0)], [np.empty(0)]
    for i in np.flatnonzero(np.isfinite(actual)):
        later = actual > actual[i]
        right.append((1 + np.sign(place.ravel()[later] - place.ravel()[i])) / 2)
        weights.append(weight[i] * weight[later])
    return np.concatenate(right), np.concatenate(weights)


def true_crossings(
    past: Panel, future: Panel, channel: int, sign: float, threshold: float, horizon: float
) -> tuple[np.ndarray, np.ndarray]:
    """When series cross after their last known rows, inf if not up to the horizon.

    Then how long they were followed; NaN if nothing is known, or they are beyond the line.
    """
    found, followed = np.full((2, past.n_series), np.inf)
    for k in range(past.n_series):
        before, after = (slice(*part.offsets[k : k + 2]) for part in (past, future))
        t = np.concatenate([past.times[before], future.times[after]])
        x = np.concatenate([past.values[before, channel], future.values[after, channel]])
        seen, end = ~np.isnan(x), past.times[before][-1]
        first = int((seen & (t <= end)).sum()) - 1  # the last known value
        since, height = t[seen][first:] - end, sign * (x[seen][first:] - threshold)
        if first < 0 or height[0] >= 0:
            followed[k] = np.nan
            continue
        own, followed[k] = max(first_crossings(since, height[:, None])[0], 0.0), since[-1]
        found[k] = own if own <= horizon else np.inf
    return found, followed


def weights_of(actual: np.ndarray, followed: np.ndarray, horizon: float) -> np.ndarray:
    """How many series each stands for (n,), by when it crosses and how long it was followed.

    It is the inverse of the probability of being followed as long, by Kaplan and Meier: 0 of those
    of which nothing is known up to the horizon, and of all if no one is followed that far.
    """
    is_one = ~np.isnan(followed)
    end = np.minimum(np.minimum(actual, followed), horizon)
    is_known = is_one & ((actual <= end) | (end == horizon))
    lost, counts = np.unique(end[is_one & ~is_known], return_counts=True)
    left = [((end > at) & is_one).sum() for at in lost] + counts
    kept = np.append(1.0, np.cumprod(1 - counts / left))
    if kept[-1] == 0:
        return np.zeros(len(actual))
    return np.where(is_known, 1 / kept[np.searchsorted(lost, end)], 0.0)
