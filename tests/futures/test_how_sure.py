"""What is called `_interval`, `_quantiles`, `_std` or sampled follows from held-out errors."""

from __future__ import annotations

import copy
import inspect
from dataclasses import replace

import numpy as np
import pytest

import skpolyode
from skpolyode import Panel, PolyODEForecaster, PolyODETransformer
from skpolyode.ensemble.conformal import Calibration

CALIBRATED = {"forecast_interval", "forecast_quantiles", "interpolate_interval"}
OF_SKTIME = {"predict_interval", "predict_quantiles"}
SAMPLED = {"sample_paths"}
DEVIATIONS = {"interpolate_std", "derivative_std"}
TIMES = [0.7, 1.3, 9.5, 12.0]  # between observations, and after the last


def waves(n_series: int, seed: int) -> Panel:
    rng, t = np.random.default_rng(seed), np.arange(10.0)
    phases = rng.uniform(0, 6, n_series)
    return Panel.from_series([(t, np.sin(t + p) + 0.3 * rng.standard_normal(10)) for p in phases])


@pytest.fixture(scope="module")
def transformer() -> PolyODETransformer:
    small = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    return small.fit(waves(30, 0))


@pytest.fixture(scope="module")
def forecaster() -> PolyODEForecaster:
    small = PolyODETransformer(n_coefficients=4, max_epochs=1)
    return PolyODEForecaster(small, random_state=0).pretrain(waves(30, 0))


def doubled(known: Calibration) -> Calibration:
    """Of errors that are twice as large."""
    errors = [tuple(replace(e, errors=2 * e.errors) for e in own) for own in known.errors]
    around = None if known.around is None else doubled(known.around)
    return replace(known, errors=tuple(errors), around=around)


def test_doors_are_called_by_what_they_give():
    """A new one is entered here, and so below."""
    public = [getattr(skpolyode, name) for name in skpolyode.__all__]
    classes = [own for own in public if inspect.isclass(own)]
    names = {name for own in classes for name in dir(own) if not name.startswith("_")}
    ends = ("_interval", "_quantiles", "_std", "sample_paths")
    found = {name for name in names if name.endswith(ends)}
    assert found == CALIBRATED | OF_SKTIME | SAMPLED | DEVIATIONS


def width(model: PolyODETransformer | PolyODEForecaster, door: str) -> np.ndarray:
    """Width of what a door says of the future, or, of paths, of all times."""
    panel = waves(4, 1)
    times = TIMES if door == "interpolate_interval" else TIMES[2:]
    ask = getattr(model, door)
    if door == "sample_paths":
        return np.ptp(ask(panel, times, n_samples=100, random_state=0).samples, axis=1)
    found = ask(panel, times, [0.2, 0.8]) if door == "forecast_quantiles" else ask(panel, times)
    lower, upper = found.values() if isinstance(found, dict) else found
    return upper.values - lower.values


@pytest.mark.parametrize("door", sorted((CALIBRATED | SAMPLED) - {"interpolate_interval"}))
def test_what_a_transformer_calibrates_follows_the_errors_of_its_backtest(transformer, door):
    other, embedder = copy.copy(transformer), transformer.embedder_
    other.embedder_ = replace(embedder, calibration=doubled(embedder.calibration.learned))
    np.testing.assert_allclose(width(other, door), 2 * width(transformer, door), rtol=1e-6)


def of_doubled_errors(model: PolyODETransformer) -> PolyODETransformer:
    other, embedder = copy.copy(model), model.embedder_
    paths = embedder.path_errors.learned
    other.embedder_ = replace(
        embedder,
        calibration=doubled(embedder.calibration.learned),
        path_errors=replace(paths, calibration=doubled(paths.calibration)),
    )
    return other


def test_intervals_of_paths_follow_the_errors_at_hidden_observations(transformer):
    models = of_doubled_errors(transformer), transformer
    own = [width(model, "interpolate_interval") for model in models]
    np.testing.assert_allclose(own[0], 2 * own[1], rtol=1e-6)


@pytest.mark.parametrize("door", sorted(CALIBRATED | SAMPLED))
def test_what_a_forecaster_calibrates_follows_the_errors_of_its_backtest(forecaster, door):
    other = copy.copy(forecaster)
    other.transformer_ = of_doubled_errors(forecaster.transformer_)
    assert (width(forecaster, door) > 0).all()
    np.testing.assert_allclose(width(other, door), 2 * width(forecaster, door), rtol=1e-6)


def test_standard_deviations_follow_them_too(transformer):
    """Of exact observations; a filter's are without the noise."""
    panel = waves(4, 1)
    for door, times in (("interpolate_std", TIMES), ("derivative_std", TIMES[:2])):
        models = of_doubled_errors(transformer), transformer
        found = [getattr(model, door)(panel, times).values for model in models]
        if transformer.noise_ is None:
            np.testing.assert_allclose(found[0], 2 * found[1], rtol=1e-6)
        assert (found[1] > 0).all()
