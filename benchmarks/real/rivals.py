"""Rivals of PolyODE: rules, least squares, boosting, a recurrent network, smoothing.

A rival is a function of the questions about the training part and those about the test part, both
in standard deviations of the training part; it returns the values (Q, D) that are forecast.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.ensemble import HistGradientBoostingRegressor

from benchmarks.peers import GRUForecaster, padded
from benchmarks.real.questions import Questions, Seen, seen
from benchmarks.units import gaps
from skpolyode.panel.select import series_of_rows

Rival = Callable[[Questions, Questions], np.ndarray]
Features = Callable[[Questions], Callable[[int], np.ndarray]]  # of a channel: (Q, n)

FEWEST_TO_BOOST = 20  # values


def rule(of: Callable[[Seen], np.ndarray]) -> Rival:
    """A rule for one channel; the mean of the population where it has nothing to go by."""

    def forecast(_: Questions, test: Questions) -> np.ndarray:
        channels = range(test.panel.n_channels)
        return np.nan_to_num(np.stack([of(seen(test, j)) for j in channels], axis=1))

    return forecast


def constant_motion(channel: Seen) -> np.ndarray:
    return channel.values[:, 0] + np.nan_to_num(channel.slope) * channel.ages[:, 0]


def drift(channel: Seen) -> np.ndarray:
    return channel.values[:, 0] + channel.drift * channel.ages[:, 0]


def least_squares(training: Questions, test: Questions) -> np.ndarray:
    """The last value and the mean so far, with weights (and a constant) for each channel."""

    def inputs(questions: Questions, j: int) -> np.ndarray:
        own = seen(questions, j)
        columns = [own.values[:, 0], own.mean, np.ones(len(own.mean))]
        return np.nan_to_num(np.stack(columns, axis=1))

    forecasts = np.zeros(test.truth.shape)
    for j in range(test.panel.n_channels):
        known = ~np.isnan(training.truth[:, j])
        own = inputs(training, j)[known], training.truth[known, j]
        forecasts[:, j] = inputs(test, j) @ np.linalg.lstsq(*own, rcond=None)[0]
    return forecasts


def causal_features(questions: Questions) -> Callable[[int], np.ndarray]:
    """From a channel to its features (Q, n)."""
    panel = questions.panel
    own = [seen(questions, j) for j in range(panel.n_channels)]
    begin = panel.times[panel.offsets[:-1]][series_of_rows(panel)[questions.target]]
    common = [channel.values[:, 0] for channel in own]
    common += [questions.leads, panel.times[questions.target] - begin]

    def of(j: int) -> np.ndarray:
        more = [own[j].mean, own[j].count, own[j].slope, *common]
        return np.concatenate([own[j].values[:, 1:], own[j].ages, np.stack(more, axis=1)], axis=1)

    return of


def boosting(
    training: Questions, test: Questions, features: Features = causal_features
) -> np.ndarray:
    """Boosted trees, one model a channel, for what a line leaves.

    The line is least squares or constant motion, whichever is better on the training part; channels
    of few values get no trees. The trees see the last three values and how old they are, the mean
    so far, count and slope, the last values of the other channels, the lead, and the time since the
    series began.
    """
    bases = [(rival(training, training), rival(training, test)) for rival in LINES]
    forecasts = np.zeros(test.truth.shape)
    inputs = [features(questions) for questions in (training, test)]
    for j in range(test.panel.n_channels):
        truth = training.truth[:, j]
        known = ~np.isnan(truth)
        if not known.any():
            continue
        errors = [np.nanmean((truth - fitted[:, j]) ** 2) for fitted, _ in bases]
        fitted, base = bases[int(np.argmin(errors))]
        forecasts[:, j] = base[:, j]
        if known.sum() < FEWEST_TO_BOOST:
            continue
        X = inputs[0](j)[known]
        usable = (~np.isnan(X)).sum(axis=0) >= FEWEST_TO_BOOST  # of nothing the trees find no bins
        trees = HistGradientBoostingRegressor(early_stopping=True, random_state=0)
        trees.fit(X[:, usable], (truth - fitted[:, j])[known])
        forecasts[:, j] += trees.predict(inputs[1](j)[:, usable])
    return forecasts


LINES: list[Rival] = [least_squares, rule(constant_motion)]


def gru(training: Questions, test: Questions, n_epochs: int = 40, patience: int = 8) -> np.ndarray:
    """The recurrent forecaster of `peers.py`, trained for these very leads.

    It sees values, masks and gaps up to the origin, and the lead. A tenth of the series is held out
    and says when to stop.
    """
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    panel, unit = training.panel, float(np.median(gaps(training.panel)))
    model = GRUForecaster(panel.n_channels)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    held_out = rng.permutation(panel.n_series)[: max(1, panel.n_series // 10)]
    fitting = np.setdiff1d(np.arange(panel.n_series), held_out) if panel.n_series > 1 else held_out
    best, waited, weights = np.inf, 0, None
    for _ in range(n_epochs):
        model.train()
        for batch in np.array_split(rng.permutation(fitting), -(-len(fitting) // 32)):
            optimizer.zero_grad()
            gru_loss(model, training, batch, unit).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            error = gru_loss(model, training, held_out, unit).item()
        waited += 1
        if error < best:
            best, waited = error, 0
            weights = {name: value.clone() for name, value in model.state_dict().items()}
        if waited > patience:
            break
    model.load_state_dict(weights)
    forecasts = np.zeros(test.truth.shape)
    with torch.no_grad():
        for batch in np.array_split(np.arange(test.panel.n_series), -(-test.panel.n_series // 500)):
            own, answers = gru_answers(model, test, batch, unit)
            forecasts[own] = answers.numpy()
    return forecasts


def gru_answers(
    model: GRUForecaster, questions: Questions, batch: np.ndarray, unit: float
) -> tuple[np.ndarray, torch.Tensor]:
    """Which questions are about the series of a batch, and the answers to them."""
    panel = questions.panel
    series = series_of_rows(panel)[questions.origin]
    own = np.flatnonzero(np.isin(series, batch))
    place = np.searchsorted(np.sort(batch), series[own])
    values, mask, gaps = padded(panel[np.sort(batch)])
    states, _ = model.gru(torch.cat([values, mask, gaps / unit], dim=2))
    step = questions.origin[own] - panel.offsets[series[own]]
    lead = torch.from_numpy(questions.leads[own] / unit).float()[:, None]
    return own, model.head(torch.cat([states[place, step], lead], dim=1))


def gru_loss(
    model: GRUForecaster, questions: Questions, batch: np.ndarray, unit: float
) -> torch.Tensor:
    own, answers = gru_answers(model, questions, batch, unit)
    truth = torch.from_numpy(questions.truth[own]).float()
    return (answers - truth)[~truth.isnan()].square().mean()


def seasonal_naive(season: int) -> Rival:
    """The row one season (of rows) earlier, or as many seasons as it takes."""

    def forecast(_: Questions, test: Questions) -> np.ndarray:
        n_seasons = -(-(test.target - test.origin) // season)
        return test.panel.values[test.target - season * n_seasons]

    return forecast


def smoother(season: int) -> Any:
    """Exponential smoothing of sktime with a damped trend and a season; it needs statsmodels."""
    from sktime.forecasting.exp_smoothing import ExponentialSmoothing

    model = ExponentialSmoothing(trend="add", damped_trend=True)
    return model.set_params(seasonal="add", sp=season) if season > 1 else model


def smoothing(season: int) -> Rival:
    """Exponential smoothing, fitted anew at each origin."""

    def forecast(_: Questions, test: Questions) -> np.ndarray:
        model, forecasts = smoother(season), np.zeros(test.truth.shape)
        for origin in np.unique(test.origin):
            own = np.flatnonzero(test.origin == origin)
            steps = test.target[own] - origin
            for j in range(test.panel.n_channels):
                y = pd.Series(test.panel.values[: origin + 1, j])
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of its optimiser
                    path = model.clone().fit(y).predict(np.arange(1, steps.max() + 1))
                forecasts[own, j] = path.to_numpy().ravel()[steps - 1]
        return forecasts

    return forecast


PANEL_RIVALS: dict[str, Rival] = {
    "population mean": rule(lambda channel: np.zeros(len(channel.mean))),
    "last value": rule(lambda channel: channel.values[:, 0]),
    "own mean": rule(lambda channel: channel.mean),
    "constant motion": rule(constant_motion),
    "last and mean, least squares": least_squares,
    "boosting, causal features": boosting,
    "GRU": gru,
}


def single_rivals(season: int) -> dict[str, Rival]:
    """Of one regular series."""
    rivals = {name: PANEL_RIVALS[name] for name in ("last value", "own mean", "constant motion")}
    rivals |= {"drift": rule(drift), "seasonal naive": seasonal_naive(season)}
    if find_spec("statsmodels") is not None:
        rivals["exponential smoothing"] = smoothing(season)
    names = ("last and mean, least squares", "boosting, causal features", "GRU")
    return rivals | {name: PANEL_RIVALS[name] for name in names}
