"""statsforecast 2.1.1 on regular rows, fitted anew to the past of each origin and channel.

Models have their defaults and are told the lengths of seasons, in rows; MSTL has AutoETS for the
trend, as its documentation does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from statsforecast.models import MSTL, AutoARIMA, AutoETS, SeasonalNaive

from benchmarks.peers_code.rows import Run
from benchmarks.real.forecasts import in_order
from benchmarks.real.questions import Questions
from benchmarks.real.sets import Answer
from skpolyode import Panel


class Refitted:
    """A model of statsforecast, made anew for each past."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def fit(self, panel: Panel) -> None:
        pass

    def answer(self, _: Questions, test: Questions) -> Answer:
        known, order, times = test.histories()
        rows = [
            self.of_one(past, at - past.times[-1]) for past, at in zip(known, times, strict=True)
        ]
        return Answer(in_order(np.concatenate(rows), order))

    def of_one(self, past: Any, leads: np.ndarray) -> np.ndarray:
        """Values (n, D) so many rows ahead."""
        steps = np.rint(leads / np.median(np.diff(past.times))).astype(int)
        columns = []
        for y in past.values.T:
            forecast = self.make().forecast(y=y, h=int(steps.max()))
            columns.append(forecast["mean"][steps - 1])
        return np.stack(columns, axis=1)


def ets(data: Any, _: Run) -> Refitted:
    """Exponential smoothing, of which kind by the information criterion.

    >>> from statsforecast.models import AutoETS
    >>> mean = AutoETS(season_length=12).forecast(y=y, h=24)["mean"]
    """
    return Refitted(lambda: AutoETS(season_length=data.seasons[0]))


def arima(data: Any, _: Run) -> Refitted:
    """ARIMA with a season, of which order by a stepwise search.

    >>> from statsforecast.models import AutoARIMA
    >>> mean = AutoARIMA(season_length=12).forecast(y=y, h=24)["mean"]
    """
    return Refitted(lambda: AutoARIMA(season_length=data.seasons[0]))


def mstl(data: Any, _: Run) -> Refitted:
    """Seasons by repeated LOESS, the trend by exponential smoothing.

    >>> from statsforecast.models import MSTL, AutoETS
    >>> model = MSTL(season_length=[24, 168], trend_forecaster=AutoETS(model="ZZN"))
    >>> mean = model.forecast(y=y, h=48)["mean"]
    """
    trend = AutoETS(model="ZZN")
    return Refitted(lambda: MSTL(season_length=data.seasons, trend_forecaster=trend))


def naive(data: Any, _: Run) -> Refitted:
    """The value of the longest season before.

    >>> from statsforecast.models import SeasonalNaive
    >>> mean = SeasonalNaive(season_length=12).forecast(y=y, h=24)["mean"]
    """
    return Refitted(lambda: SeasonalNaive(season_length=data.seasons[-1]))
