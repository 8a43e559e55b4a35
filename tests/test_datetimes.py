"""Series of numbers and the same series as datetimes get the same answers, at every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.svm import SVC

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    PolyODERegressor,
    PolyODETransformer,
    Resampler,
    SummaryStatsTransformer,
    evaluate_forecasts,
)
from skpolyode.inspection import channel_errors, observation_importance
from skpolyode.panel import Inputs

N_SERIES = 12
# Where the hour 0 of the numbers lies. Series start up to 30 hours later.
CLOCKS = {
    "naive": "2026-03-27 12:00",
    "nanoseconds": "2026-03-27 12:00:00.000000001",
    "near 1970": "1969-12-31 20:00",
    "before 1970": "1931-05-02 07:30",
    "zone": pd.Timestamp("2026-03-27 20:00", tz="Europe/Zurich"),  # clocks change 30 hours later
}


class Data:
    """Noisy waves with gaps, of two channels that know much of each other.

    Their hours are numbers, or follow a moment.
    """

    def __init__(self, moment: Any = None) -> None:
        rng = np.random.default_rng(0)
        self.moment = moment
        self.hours = [
            np.cumsum(np.r_[2.5 * k, rng.uniform(0.1, 1.0, size=16)]).round(6)
            for k in range(N_SERIES)
        ]
        self.values = []
        for k, hours in enumerate(self.hours):
            wave = np.sin(hours + k) + rng.normal(scale=0.3, size=len(hours))  # the same in both
            values = np.column_stack([wave, wave + rng.normal(scale=0.1, size=len(hours))])
            values[1:-1][rng.random((len(hours) - 2, 2)) < 0.3] = np.nan
            self.values.append(values)
        self.y = np.arange(N_SERIES) % 2
        series = list(zip(map(self.at, self.hours), self.values, strict=True))
        unit = None if moment is None else "h"
        self.panel = Panel.from_series(series, time_unit=unit, channel_names=["a", "b"])
        meals = [(self.at([*own[[0, 12]], own[-1] + 3]), [1.0, 2.0, 1.0]) for own in self.hours]
        meals = Panel.from_series(meals, time_unit=unit, channel_names=["meal"])
        self.driven = self.panel.with_inputs(Inputs(meals, "impulse"))

    def at(self, hours: Any) -> Any:
        """Times of the series' type."""
        if self.moment is None:
            return np.asarray(hours, dtype=float)
        return pd.Timestamp(self.moment) + pd.to_timedelta(hours, unit="h")

    def after(self, hours: Any) -> Any:
        """Durations of the type that relative times have."""
        return np.asarray(hours) if self.moment is None else pd.to_timedelta(hours, unit="h")

    def hours_of(self, panel: Panel) -> np.ndarray:
        """Times of a panel as hours since the moment."""
        return self.back(panel.user_times())

    def back(self, times: Any) -> np.ndarray:
        if self.moment is None:
            return np.asarray(times, dtype=float)
        since = pd.DatetimeIndex(times) - pd.Timestamp(self.moment)
        return (since / pd.Timedelta("1h")).to_numpy()


def fitted(data: Data) -> dict[str, Any]:
    """What is fitted once for all doors; long enough that the imputer refines."""
    model = PolyODETransformer(
        n_coefficients=6, hidden_layer_sizes=(8,), max_epochs=10, random_state=0
    )
    model.fit(data.panel)
    driven = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1)
    driven.set_params(random_state=0).fit(data.driven)
    return {"model": model, "frozen": FrozenEstimator(model), "driven": driven}


def path_of(data: Data, panel: Panel) -> list[np.ndarray]:
    return [data.hours_of(panel), panel.values]


def ask_each(data: Data, at: float) -> list[Any]:
    return [data.at(own[-1:] + at) for own in data.hours]


def table_of(data: Data, table: pd.DataFrame) -> list[np.ndarray]:
    times = [data.back(table[name]) for name in ("earliest", "median", "latest")]
    return [table["probability"].to_numpy(), (table["status"] == "crosses").to_numpy(), *times]


def imputed(data: Data, parts: dict[str, Any]) -> list[np.ndarray]:
    imputer = PanelImputer(parts["frozen"], refine=True).fit(data.panel)
    assert imputer.refinement_.coefficients.any()  # otherwise it shows nothing
    return [imputer.transform(data.panel).values, imputer.refinement_.gap]


def imputed_bands(data: Data, parts: dict[str, Any]) -> list[np.ndarray]:
    imputer = PanelImputer(parts["frozen"]).fit(data.panel)
    return [end.values for end in imputer.interval(data.panel)]


def streamed(data: Data, parts: dict[str, Any]) -> list[np.ndarray]:
    stream = parts["model"].stream(data.panel)
    last = data.at([own[-1] + 1.25 for own in data.hours])
    stream.update(last, np.full((N_SERIES, 2), 0.5))
    ahead = stream.forecast(ask_each(data, 3.0))
    return [stream.embedding(), data.back(stream.last_times), *path_of(data, ahead)]


def embedded_from_disk(data: Data, parts: dict[str, Any], folder: Path) -> list[np.ndarray]:
    from skpolyode.parquet import embed_dataset

    data.panel.to_long().to_parquet(folder / "series.parquet")
    unit, kind = ({}, "numbers") if data.moment is None else ({"time_unit": "h"}, "datetimes")
    embed_dataset(parts["model"], folder / "series.parquet", folder / kind, **unit)
    return [pd.read_parquet(folder / kind).iloc[:, 1:].to_numpy()]


DOORS: dict[str, Callable[..., list[Any]]] = {
    "transform": lambda data, parts: [parts["model"].transform(data.panel)],
    "reconstruct": lambda data, parts: path_of(data, parts["model"].reconstruct(data.panel)),
    "interpolate": lambda data, parts: path_of(
        data, parts["model"].interpolate(data.panel, data.after([0.3, 2.0]), relative_to="start")
    ),
    "forecast": lambda data, parts: path_of(
        data, parts["model"].forecast(data.panel, ask_each(data, 2.5))
    ),
    "residuals": lambda data, parts: [parts["model"].residuals(data.panel).values],
    "score_samples": lambda data, parts: [parts["model"].score_samples(data.panel)],
    "sample_paths": lambda data, parts: [
        parts["model"]
        .sample_paths(data.panel, data.after([1.0, 4.0]), "end", n_samples=20, random_state=0)
        .values
    ],
    "crossing_times": lambda data, parts: table_of(
        data,
        parts["model"].crossing_times(
            data.panel,
            0.8,
            data.at(60.0) if data.moment is None else data.at([60.0])[0],
            channel="a",
            n_samples=50,
        ),
    ),
    "imputer": imputed,
    "bands of the imputer": imputed_bands,
    "resampler": lambda data, parts: [
        Resampler(parts["frozen"], n_points=7).fit(data.panel).transform(data.panel)
    ],
    "stream": streamed,
    "parquet": embedded_from_disk,
    "inputs": lambda data, parts: [
        parts["driven"].transform(data.driven),
        parts["driven"].forecast(data.driven, ask_each(data, 2.0)).values,
    ],
    "channel_errors": lambda data, parts: [
        channel_errors(parts["model"], data.panel).select_dtypes("number").to_numpy()
    ],
    "importance": lambda data, parts: [
        observation_importance(parts["model"], data.panel[:2])["importance"].to_numpy()
    ],
    "evaluate_forecasts": lambda data, parts: [
        evaluate_forecasts(parts["model"], data.panel, cutoff=0.7)["value"].to_numpy()
    ],
    "classifier": lambda data, parts: [
        PolyODEClassifier(parts["frozen"], head=SVC(), features="clock")
        .fit(data.panel, data.y)
        .predict_proba(data.panel)
    ],
    "regressor": lambda data, parts: [
        PolyODERegressor(parts["frozen"], features="clock", head=Ridge())
        .fit(data.panel, data.y * 1.0)
        .predict(data.panel)
    ],
    **{
        cls.__name__: lambda data, parts, cls=cls: [cls().fit(data.panel).transform(data.panel)]
        for cls in (
            HiPPOTransformer,
            InterpolationTransformer,
            LegendreFitTransformer,
            SummaryStatsTransformer,
        )
    },
}


@pytest.fixture(scope="module")
def numbers():
    data = Data()
    return data, fitted(data), {}


@pytest.fixture(scope="module")
def trained():
    """By whether the moments have a time zone: a model serves all years."""
    return {}


@pytest.fixture(scope="module", params=CLOCKS)
def datetimes(request, trained):
    data = Data(CLOCKS[request.param])
    zone = data.panel.tz
    if zone not in trained:
        trained[zone] = fitted(data)
    return data, trained[zone]


@pytest.mark.parametrize("door", DOORS)
def test_answers_do_not_depend_on_the_kind_of_times(datetimes, numbers, door, tmp_path):
    (data, parts), (plain, plain_parts, answers) = datetimes, numbers
    extra = [tmp_path] if door == "parquet" else []
    if door not in answers:
        answers[door] = DOORS[door](plain, plain_parts, *extra)
    found = DOORS[door](data, parts, *extra)
    for one, other in zip(found, answers[door], strict=True):
        # Rounding of times moves a fit a little, and the tails of its errors most.
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)
