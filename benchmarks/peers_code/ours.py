"""This package, and the simple answers that come with it, for the tables of peers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.crossings import AHEAD, simple_answers
from benchmarks.peers_code.rows import Run
from benchmarks.protocol import CROSS_ENTROPY, PAPER_WINDOW, fit_mlp
from benchmarks.real.forecasts import in_order
from benchmarks.real.questions import Questions
from benchmarks.real.sets import Answer
from skpolyode import (
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PolyODEClassifier,
    PolyODETransformer,
    Resampler,
)
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.futures.continued import Window
from skpolyode.heads import MiniRocket
from skpolyode.panel import series_index
from skpolyode.structural import StructuralForecaster


def imputer(data: Any, run: Run) -> np.ndarray:
    """Hidden cells by the path of the model.

    >>> from skpolyode import PanelImputer, PolyODETransformer
    >>> imputer = PanelImputer(PolyODETransformer()).fit(train)
    >>> filled = imputer.transform(test)
    """
    model = PanelImputer(PolyODETransformer(random_state=run.seed))
    return model.fit(data.train).transform(data.test).values


def lines(data: Any, _: Run) -> np.ndarray:
    """Straight lines between observations.

    >>> from skpolyode import InterpolationTransformer, PanelImputer
    >>> imputer = PanelImputer(InterpolationTransformer(kind="linear")).fit(train)
    >>> filled = imputer.transform(test)
    """
    model = PanelImputer(InterpolationTransformer(kind="linear"))
    return model.fit(data.train).transform(data.test).values


def own_mean(data: Any, _: Run) -> np.ndarray:
    """Mean of what a series shows of a channel, and of all series where that is nothing.

    >>> means = test.groupby("id").transform("mean").fillna(train.mean())
    >>> filled = test.fillna(means)
    """
    values, series = data.test.values, series_index(data.test.offsets)
    seen = ~np.isnan(values)
    sums, counts = np.zeros((2, len(data.test), values.shape[1]))
    np.add.at(sums, series, np.where(seen, values, 0.0))
    np.add.at(counts, series, seen)
    return np.where(counts > 0, sums / np.maximum(counts, 1), 0.0)[series]  # train's mean is 0


def classifier(data: Any, run: Run) -> np.ndarray:
    """The default classifier, which chooses features by cross-validation.

    >>> from skpolyode import PolyODEClassifier
    >>> model = PolyODEClassifier(scoring="roc_auc").fit(train, y)
    >>> risk = model.predict_proba(test)[:, 1]
    """
    model = PolyODEClassifier(scoring="roc_auc", random_state=run.seed)
    return model.fit(data.train, data.y).predict_proba(data.test)[:, 1]


def embedding(data: Any, run: Run) -> np.ndarray:
    """Boosted trees on the coefficients of the embedding.

    >>> from sklearn.ensemble import HistGradientBoostingClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from skpolyode import PolyODETransformer
    >>> trees = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200)
    >>> model = make_pipeline(PolyODETransformer(n_coefficients=8), trees).fit(train, y)
    >>> risk = model.predict_proba(test)[:, 1]
    """
    trees = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200, random_state=run.seed)
    model = make_pipeline(PolyODETransformer(n_coefficients=8, random_state=run.seed), trees)
    return model.fit(data.train, data.y).predict_proba(data.test)[:, 1]


def clocked(data: Any, run: Run) -> np.ndarray:
    """The paper's way: the last five units of time, when they end, and a small network.

    >>> from sklearn.neural_network import MLPClassifier
    >>> from skpolyode import PolyODETransformer
    >>> model = PolyODETransformer(window=5.0).fit(train)
    >>> Z, Z_test = (np.column_stack([model.transform(x), ends(x)]) for x in (train, test))
    >>> risk = MLPClassifier(32, early_stopping=True).fit(Z, y).predict_proba(Z_test)[:, 1]
    """
    model = PolyODETransformer(window=PAPER_WINDOW, random_state=run.seed).fit(data.train)
    ends = [part.times[part.offsets[1:] - 1] for part in (data.train, data.test)]
    Z = np.concatenate([model.transform(part) for part in (data.train, data.test)])
    split = np.full(len(Z), "test", dtype="<U10")
    for name, part in zip(("train", "validation"), data.parts(run.seed), strict=True):
        split[part] = name
    clock = (np.concatenate(ends) - ends[0].mean()) / ends[0].std()
    y = np.concatenate([data.y, np.zeros(len(data.test))])  # of the test part nothing is read
    found = fit_mlp(np.column_stack([Z, clock]), y, split, CROSS_ENTROPY, run.seed)
    return found[split == "test"]


def learned_path(data: Any, run: Run) -> np.ndarray:
    """Random convolutions of the path at 100 times that all series have in common.

    >>> from sklearn.linear_model import RidgeClassifierCV
    >>> from skpolyode import PolyODETransformer, Resampler
    >>> from skpolyode.heads import MiniRocket
    >>> path = PolyODETransformer(window=5.0)
    >>> path = Resampler(path, grid=np.linspace(0, 10, 100), relative_to=None)
    >>> ridge = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7)))
    >>> risk = make_pipeline(path, MiniRocket(), ridge).fit(train, y).decision_function(test)
    """
    model = PolyODETransformer(window=PAPER_WINDOW, random_state=run.seed)
    path = Resampler(model, grid=np.linspace(0, 10, 100), relative_to=None)
    ridge = make_pipeline(StandardScaler(), RidgeClassifierCV(np.logspace(-3, 3, 7)))
    pipeline = make_pipeline(path, MiniRocket(random_state=run.seed), ridge)
    return pipeline.fit(data.train, data.y).decision_function(data.test)


class Structural:
    """Models of level, trend and season alone."""

    def __init__(self, seed: int, period: Any = "auto") -> None:
        self.model = StructuralForecaster(period=period, random_state=seed)

    def fit(self, panel: Panel) -> None:
        self.model.fit(panel)

    def answer(self, _: Questions, test: Questions) -> Answer:
        known, order, times = test.histories()
        return Answer(in_order(self.model.forecast(known, times).values, order))


class Forecaster(Structural):
    """Learned dynamics and these models together."""

    def __init__(self, seed: int, period: Any = "auto") -> None:
        self.model = PolyODEForecaster(period=period, random_state=seed)

    def fit(self, panel: Panel) -> None:
        self.model.pretrain(panel)

    def answer(self, _: Questions, test: Questions) -> Answer:
        known, order, times = test.histories()
        found = self.model.forecast_quantiles(known, times, [0.5])[0.5]
        return Answer(in_order(found.values, order))


def forecaster(_: Any, run: Run) -> Forecaster:
    """Seasons are found.

    >>> from skpolyode.forecasting import PolyODEForecaster
    >>> forecaster = PolyODEForecaster().pretrain(series)
    >>> middle = forecaster.forecast_quantiles(series, times, [0.5])[0.5]
    """
    return Forecaster(run.seed)


def told_forecaster(data: Any, run: Run) -> Forecaster:
    """Seasons are told.

    >>> from skpolyode.forecasting import PolyODEForecaster
    >>> forecaster = PolyODEForecaster(period=[24.0, 168.0]).pretrain(series)
    >>> middle = forecaster.forecast_quantiles(series, times, [0.5])[0.5]
    """
    return Forecaster(run.seed, [float(season) for season in data.seasons])


def structural(_: Any, run: Run) -> Structural:
    """Seasons are found.

    >>> from skpolyode.structural import StructuralForecaster
    >>> forecast = StructuralForecaster().fit(series).forecast(series, times)
    """
    return Structural(run.seed)


def told_structural(data: Any, run: Run) -> Structural:
    """Seasons are told.

    >>> from skpolyode.structural import StructuralForecaster
    >>> forecaster = StructuralForecaster(period=[24.0, 168.0]).fit(series)
    >>> forecast = forecaster.forecast(series, times)
    """
    return Structural(run.seed, [float(season) for season in data.seasons])


def stars(data: Any, run: Run) -> tuple[np.ndarray, np.ndarray]:
    """The path of a model that learned from other stars, and its error.

    >>> from skpolyode import Panel, PolyODETransformer
    >>> panel = Panel.from_series(series, errors=errors)
    >>> model = PolyODETransformer().fit(panel)
    >>> mean = model.interpolate(test, nights)
    >>> std = model.interpolate_std(test, nights)
    """
    model = PolyODETransformer(random_state=run.seed).fit(data.train.told)
    asked = data.test.told, data.test.hidden
    return model.interpolate(*asked).values, model.interpolate_std(*asked).values


def crossings(data: Any, run: Run) -> Window:
    """Sampled paths from the rows that are asked.

    >>> from skpolyode import PolyODETransformer
    >>> model = PolyODETransformer().fit(engines)
    >>> table = model.crossing_times(fleet, threshold=47.8, until=40.0, channel=0)
    """
    return sampled_crossings(data, run, data.asked.known)


def crossings_of_histories(data: Any, run: Run) -> Window:
    """Sampled paths from all that was measured before.

    >>> from skpolyode import PolyODETransformer
    >>> model = PolyODETransformer().fit(engines)
    >>> table = model.crossing_times(fleet, threshold=47.8, until=40.0, channel=0)
    """
    return sampled_crossings(data, run, data.asked.history)


def sampled_crossings(data: Any, run: Run, known: list[np.ndarray]) -> Window:
    train = [(np.arange(len(x)) * 1.0, x) for x in data.series]
    model = PolyODETransformer(random_state=run.seed).fit(train)
    fleet = [(np.arange(1.0 - len(x), 1.0), x) for x in known]
    table = model.crossing_times(fleet, data.threshold, float(AHEAD), channel=0)
    since = (np.maximum(table[name], 0.0) for name in ("earliest", "median", "latest"))
    return Window(table["probability"].to_numpy(), *(x.to_numpy() for x in since))


def residual_paths(data: Any, _: Run) -> Window:
    """A ridge regression for each lead, and paths of its errors on engines held out.

    >>> ridge = Ridge().fit(windows, next_40_rows)
    >>> errors = next_40_rows_held_out - ridge.predict(windows_held_out)
    >>> means = ridge.predict(fleet)
    >>> nearest = np.argsort(abs(means[:, None, -1] - ridge.predict(windows_held_out)[:, -1]))
    >>> paths = means[:, None] + errors[nearest[:, :200]]
    >>> times = first_above(paths, 47.8)
    """
    return simple_crossings(data, "least squares and residual paths")


def window_lines(data: Any, _: Run) -> Window:
    """A line through the 30 rows.

    >>> slope, level = np.polyfit(np.arange(-29, 1), x, 1)
    >>> time = (47.8 - level) / slope
    """
    return simple_crossings(data, "line through the window")


def simple_crossings(data: Any, name: str) -> Window:
    found = simple_answers(data.series, data.asked, data.threshold)[name]
    return Window.of(np.where(found <= AHEAD, found, np.inf), 0.9)
