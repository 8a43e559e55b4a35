"""PolyODE as a filter of noisy observations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.transformers.stages import TrainFilter
from tests.quick import early_noise_tests
from tests.transformers.data import short_oscillators, small

SERIES = short_oscillators(8)


@pytest.fixture(scope="module", autouse=True)
def quick():
    with early_noise_tests(4):
        yield


def noisy(**parameters):
    return small(observations="noisy", **parameters)


@pytest.fixture(scope="module")
def fitted():
    return noisy().fit(SERIES)


def test_exact_observations_have_no_noise(fitted):
    assert small(max_epochs=1).fit(SERIES).noise_ is None
    assert fitted.noise_.shape == (2,)
    assert fitted.noise_.max() > 0 == fitted.noise_.min()  # these observations are exact


def test_units_do_not_matter(fitted):
    """Noise is in the units of the channels, and a path is the same path in others."""
    scale, shift = np.array([7.0, 0.25]), np.array([-3.0, 40.0])
    other = noisy().fit([(60 * t, x * scale + shift) for t, x in SERIES])
    np.testing.assert_allclose(other.noise_, fitted.noise_ * scale, rtol=1e-3)
    times = np.linspace(0.5, 3.0, 9)
    here = fitted.interpolate(SERIES, times).values
    there = other.interpolate([(60 * t, x * scale + shift) for t, x in SERIES], 60 * times).values
    np.testing.assert_allclose((there - shift) / scale, here, atol=1e-3)
    here = fitted.interpolate_std(SERIES, times).values
    there = other.interpolate_std([(60 * t, x * scale + shift) for t, x in SERIES], 60 * times)
    np.testing.assert_allclose(there.values, here * scale, rtol=0.02)


def test_what_is_not_known_grows_ahead(fitted):
    """And a filter says how much it is, at the series' own times too."""
    end = max(t[-1] for t, _ in SERIES)
    near, far = (
        fitted.interpolate_std(SERIES, [end, end + 3]).values.reshape(8, 2, 2).swapaxes(0, 1)
    )
    assert (far > near).all()
    own = fitted.interpolate_std(SERIES).values
    assert np.isfinite(own).all()
    assert (own > 0).all()


def test_path_passes_between_observations(fitted):
    """By less than the noise allows a single one to be wrong, and not through them."""
    panel = Panel.from_series(SERIES)
    path = fitted.interpolate(panel, [t for t, _ in SERIES]).values
    away = np.abs(path - panel.values)[np.isfinite(panel.values)]
    assert away.mean() > 0.01
    assert away.mean() < np.nanstd(panel.values)


def test_values_that_are_known_are_kept_by_imputers():
    imputer = skpolyode.PanelImputer(noisy()).fit(SERIES)
    panel, filled = Panel.from_series(SERIES), imputer.transform(SERIES)
    known = np.isfinite(panel.values)
    np.testing.assert_array_equal(filled.values[known], panel.values[known])
    assert np.isfinite(filled.values).all()


def test_it_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.noise_, fitted.noise_)
    np.testing.assert_array_equal(again.transform(SERIES), fitted.transform(SERIES))
    std = fitted.interpolate_std(SERIES).values
    np.testing.assert_array_equal(again.interpolate_std(SERIES).values, std)


@pytest.mark.parametrize("options", [{"measure": "legs"}, {"horizon": 3}, {"window": 1.0}], ids=str)
def test_it_goes_with_static_covariates_and_other_measures(options):
    static = pd.DataFrame({"age": np.arange(8.0)})
    panel = Panel.from_series(SERIES, static=static)
    embedder = noisy(**options).fit(panel)
    assert np.isfinite(embedder.transform(panel)).all()
    assert np.isfinite(embedder.forecast(panel, [4.5]).values).all()


def test_a_channel_that_is_never_seen_twice_has_no_noise():
    times = np.linspace(0, 3, 6)
    once = np.column_stack([np.sin(times), [1.0, *[np.nan] * 5]])
    embedder = noisy().fit([(times, once + k) for k in range(6)])
    assert embedder.noise_[1] == 0


def swings(noise: float, n: int, n_series: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Many observations of slow swings, so that an untrained model nearly knows what comes."""
    rng = np.random.default_rng(1)
    times = [np.sort(rng.uniform(0, 4, n)) for _ in range(n_series)]
    return [(t, np.sin(t + rng.uniform(0, 6)) + noise * rng.normal(size=n)) for t in times]


def test_noise_is_found_by_itself():
    """A filter where there is noise, of about its size, and none where there is none."""
    assert small(max_epochs=8).fit(swings(0.0, 16, 6)).noise_ is None
    series = swings(0.3, 18, 20)
    assert small(max_epochs=1, observations="exact").fit(swings(0.3, 9, 8)).noise_ is None
    found = small(max_epochs=8).fit(series)
    assert 0.15 < found.noise_[0] < 0.35
    assert (found.interpolate_std(series).values > 0).all()
    assert 5 <= found.n_epochs_ <= 8  # some as a filter, and no more than max_epochs
    assert [entry["epoch"] for entry in found.history_] == list(range(found.n_epochs_ + 1))
    assert np.all(np.diff([entry["seconds"] for entry in found.history_]) > 0)
    since = found.history_[4:]  # as a filter for sure
    scores = [entry["validation_error"] * entry["error_ahead"] for entry in since]
    assert found.best_epoch_ in (4 + int(np.argmin(scores)), found.n_epochs_)


def test_what_no_filter_helps_is_exact(monkeypatch):
    """From half-way on; the best weights so far are then those without a gain."""
    stages = (TrainFilter(max_error=0.0), *PolyODETransformer.stages[1:])
    monkeypatch.setattr(PolyODETransformer, "stages", stages)
    series = swings(0.3, 16, 10)
    fitted = small(max_epochs=8).fit(series)
    assert fitted.noise_ is None
    assert 5 <= fitted.n_epochs_ <= 8
    (noise,) = (d for d in fitted.fit_report_.decisions if d.stage == "noise")
    assert noise.outcome == "observations are exact: a filter fills gaps no better"
    path = fitted.interpolate(series).values
    np.testing.assert_allclose(path, np.concatenate([x for _, x in series])[:, None])
