"""What the forecaster learns from, and what it keeps apart."""

from __future__ import annotations

import numpy as np
import pytest

from skpolyode.forecasting import engine
from skpolyode.panel import Panel
from skpolyode.structural.averaging import StructuralModels
from skpolyode.transformers import PolyODETransformer
from tests import quick


def named(lengths: list[int]) -> Panel:
    """The value of a row is a name of its own."""
    times = [np.arange(n, dtype=np.float64) for n in lengths]
    return Panel.from_series([(t, 1e4 * k + t) for k, t in enumerate(times)])


def small(**parameters: object) -> PolyODETransformer:
    chosen = {"n_coefficients": 3, "hidden_layer_sizes": (4,), "max_epochs": 1, "random_state": 0}
    return PolyODETransformer(**(chosen | parameters))


@pytest.fixture
def seen(monkeypatch):
    """Rows that were trained on, that validated, and that calibrated, training by training."""
    found = {"training": [], "validating": [], "calibrating": []}
    new_task, calibrate = PolyODETransformer._new_task, engine.calibrate
    calibrate_paths = engine.calibrate_paths

    def spied_task(self, model, data, held_out):
        # The units are not stored yet: standardised values are compared by their ranks.
        rows = held_out[data.series]
        found["training"].append(data.x[~rows, 0].double().numpy())
        found["validating"].append(data.x[rows, 0].double().numpy())
        return new_task(self, model, data, held_out)

    def spied_calibration(backtest, unit):
        found["calibrating"].append(backtest.actual[:, 0])
        return calibrate(backtest, unit)

    def spied_paths(transformer, panel, rng, earliest):
        first = panel.offsets[:-1] if earliest is None else earliest
        rows = [np.arange(*ends) for ends in zip(first, panel.offsets[1:], strict=True)]
        values = transformer.scaler_.transform(panel.values[np.concatenate(rows)])
        found["calibrating"].append(values[:, 0])
        return calibrate_paths(transformer, panel, rng, earliest)

    monkeypatch.setattr(PolyODETransformer, "_new_task", spied_task)
    monkeypatch.setattr(engine, "calibrate", spied_calibration)
    monkeypatch.setattr(engine, "calibrate_paths", spied_paths)
    return found


def names(transformer: PolyODETransformer, values: np.ndarray) -> set[int]:
    return set(transformer.scaler_.inverse(values).round().astype(int))


def test_series_that_calibrate_are_not_trained_on(seen):
    lengths = [30] * 15
    rng = np.random.RandomState(0)
    transformer = engine.fit_forecaster(small(), named(lengths), 0.2, rng, period=()).transformer
    trained, validating, calibrating = (names(transformer, own[0]) for own in seen.values())
    series = [{name // 10_000 for name in own} for own in (trained, validating, calibrating)]
    assert len(series[2]) == 3
    assert not series[2] & (series[0] | series[1])
    assert not series[0] & series[1]
    assert series[0] | series[1] | series[2] == set(range(15))


@pytest.mark.parametrize("lengths", [[100], [60, 80, 70], [40] * 7])
def test_ends_that_calibrate_are_not_trained_on(seen, lengths):
    """The model that calibrates is one of its own; the last one may know all."""
    fits = []
    fit = PolyODETransformer.fit_stages

    def spied(self, panel, **options):
        fits.append(panel.values[:, 0].astype(int))
        return fit(self, panel, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PolyODETransformer, "fit_stages", spied)
        rng = np.random.RandomState(0)
        engine.fit_forecaster(small(), named(lengths), 0.2, rng, period=())
    first, last = (set(own) for own in fits)
    ends = {
        10_000 * k + row for k, n in enumerate(lengths) for row in range(n - int(np.ceil(n / 5)), n)
    }
    assert last == first | ends
    assert not first & ends
    # Calibrations, on the ends, in the units of the model that does not know them: of paths and
    # of forecasts.
    assert len(seen["calibrating"]) == 2
    reference = np.array(sorted(first), dtype=float)
    highest = seen["training"][0].max()
    for calibrating in seen["calibrating"]:
        assert len(calibrating) > 0
        if len(lengths) == 1:
            assert calibrating.min() > highest
    assert len(reference) == sum(n - int(np.ceil(n / 5)) for n in lengths)


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
    with quick.few_structural_models():
        rng = np.random.RandomState(0)
        found = engine.fit_forecaster(small(), named([30] * 5), 0.2, rng, period=())
    assert len(judged) == 3
    assert set.union(*(series for _, series in judged)) == set(range(5))
    for models, series in judged:
        assert not series & learned[models][1]
    assert learned[id(found.structural)][1] == set(range(5))


@pytest.mark.parametrize("lengths", [[100], [600], [40, 300], [90] * 6])
def test_what_validates_is_not_trained_on_however_series_are_cut(seen, lengths):
    transformer = small()
    engine._train(transformer, named(lengths))
    training, validating = (
        names(transformer, seen[kind][0]) for kind in ("training", "validating")
    )
    assert validating
    assert not training & validating


def test_times_are_at_between_or_after_rows():
    panel = Panel.from_series([(np.arange(10.0), np.arange(10.0)), ([0.0, 8.0], [1.0, 2.0])])
    times = np.array([0.0, 2.5, 3.0, 8.5, 9.5, 1.0, 4.5, 8.0, 9.0])
    before, is_between = engine._places(panel, times, np.array([0, 5, 9]))
    assert before.tolist() == [-1, 2, 2, 8, 9, 10, 10, 10, 11]
    assert np.flatnonzero(is_between).tolist() == [1, 3, 5, 6]
