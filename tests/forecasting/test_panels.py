"""What the forecaster learns from, and what it keeps apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from skpolyode.embedders.paths import PathQuery
from skpolyode.ensemble import paths, stacking
from skpolyode.ensemble.paths import places
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.panel import Panel
from skpolyode.structural.forecaster import StructuralModels
from skpolyode.transformers import PolyODETransformer


def named(lengths: list[int]) -> Panel:
    """The value of a row is a name of its own."""
    times = [np.arange(n, dtype=np.float64) for n in lengths]
    return Panel.from_series([(t, 1e4 * k + t) for k, t in enumerate(times)])


def small(**parameters: object) -> PolyODETransformer:
    chosen = {"n_coefficients": 3, "hidden_layer_sizes": (4,), "max_epochs": 1, "random_state": 0}
    return PolyODETransformer(**(chosen | parameters))


class Seen(NamedTuple):
    """Rows that were trained on, that validated, and that calibrated forecasts and paths."""

    training: list[set[int]]
    validating: list[set[int]]
    calibrating: list[set[int]]


@pytest.fixture
def seen(monkeypatch):
    found = Seen([], [], [])
    new_task = PolyODETransformer._new_task
    learn, calibrate = paths.PathErrors.learn, stacking.calibrate
    scalers = []

    def named_rows(values):
        return set(scalers[-1].inverse(values[:, None]).round().astype(int).ravel())

    def spied_task(self, model, data, held_out):
        rows, x = held_out[data.series], data.x[:, 0].double().numpy()
        for own, part in zip(found, (x[~rows], x[rows]), strict=False):
            own.append(part)
        return new_task(self, model, data, held_out)

    def spied_calibration(backtest, unit):
        found.calibrating.append(backtest.actual[backtest.is_new, 0])
        return calibrate(backtest, unit)

    def spied_paths(model, panel, is_new):
        scalers.append(model.units.scaler)
        found.calibrating.append(model.units.scaler.read(panel.values[is_new])[:, 0])
        for own in found:
            own[:] = [named_rows(part) if isinstance(part, np.ndarray) else part for part in own]
        return learn(model, panel, is_new)

    monkeypatch.setattr(PolyODETransformer, "_new_task", spied_task)
    monkeypatch.setattr(stacking, "calibrate", spied_calibration)
    monkeypatch.setattr(paths.PathErrors, "learn", spied_paths)
    return found


def train(lengths: list[int]) -> PolyODEForecaster:
    trained = PolyODEForecaster(small(), random_state=0, period=None).pretrain(named(lengths))
    assert trained.calibration_.learned  # only now
    assert trained.transformer_.embedder_.path_errors.learned
    return trained


@pytest.mark.parametrize("n_series", [6, 15, 120])
def test_series_that_calibrate_are_not_trained_on(seen, n_series):
    """Of many, half of those that are held out stop training, and the others calibrate."""
    train([30] * n_series)
    forecasts, paths = seen.calibrating
    trained, validating, calibrating = (
        {name // 10_000 for name in own} for own in (*seen.training, *seen.validating, paths)
    )
    n_held_out = max(n_series // 5, 1)
    assert len(calibrating) == (n_held_out if n_held_out < 20 else n_held_out // 2)
    assert not calibrating & trained
    assert not validating & trained
    assert validating == calibrating or not validating & calibrating
    assert trained | validating | calibrating == set(range(n_series))
    assert {name // 10_000 for name in forecasts} == calibrating


@pytest.mark.parametrize("lengths", [[100], [60, 80, 70], [40] * 4])
def test_ends_that_calibrate_are_not_trained_on(seen, lengths):
    """One model is trained; what stops its training calibrates, and what lies shortly before."""
    train(lengths)
    assert len(seen.training) == 1
    for calibrating in seen.calibrating:
        assert not calibrating & seen.training[0]
        assert calibrating & seen.validating[0]
        for k, n in enumerate(lengths):
            own = {name - 10_000 * k for name in calibrating if name // 10_000 == k}
            assert max(own) == n - 1
            assert 0.7 * n < min(own) < 0.85 * n


def test_structural_models_judge_series_that_they_were_not_learned_from(monkeypatch):
    """What differs between series is in the errors that calibrate."""
    learned, judged = {}, []
    learn, forecast_from = StructuralModels.learn, StructuralModels.forecast_from

    def spied_learn(panel, *args):
        models = learn(panel, *args)
        learned[id(models)] = models, set((panel.values[:, 0] // 10_000).astype(int))
        return models

    def spied_forecasts(self, panel, origins, *args):
        judged.append((id(self), set((panel.values[origins, 0] // 10_000).astype(int))))
        return forecast_from(self, panel, origins, *args)

    monkeypatch.setattr(StructuralModels, "learn", spied_learn)
    monkeypatch.setattr(StructuralModels, "forecast_from", spied_forecasts)
    found = train([30] * 5)
    assert len(judged) == 3
    assert set.union(*(series for _, series in judged)) == set(range(5))
    for models, series in judged:
        assert not series & learned[models][1]
    assert learned[id(found.structural_)][1] == set(range(5))


@pytest.mark.parametrize("lengths", [[100], [600], [40, 300], [90] * 6])
def test_what_validates_is_not_trained_on_however_series_are_cut(seen, lengths):
    train(lengths)
    assert seen.validating[0]
    assert not seen.training[0] & seen.validating[0]


def test_times_are_at_between_or_after_rows():
    panel = Panel.from_series([(np.arange(10.0), np.arange(10.0)), ([0.0, 8.0], [1.0, 2.0])])
    times = np.array([0.0, 2.5, 3.0, 8.5, 9.5, 1.0, 4.5, 8.0, 9.0])
    asked = PathQuery.of(panel, times, np.array([0, 5, 9]))
    before, is_between = places(asked, times)
    assert before.tolist() == [-1, 2, 2, 8, 9, 10, 10, 10, 11]
    assert np.flatnonzero(is_between).tolist() == [1, 3, 5, 6]
