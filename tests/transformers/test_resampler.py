"""Resampler: where the grid lies, what stands on it, and who can go on from there."""

from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import skpolyode
from skpolyode import InterpolationTransformer, Panel, PolyODETransformer, Resampler
from skpolyode.heads import MiniRocket
from tests.fits import train_once
from tests.quick import no_stacking
from tests.transformers.data import short_oscillators, small

LINE = InterpolationTransformer(n_coefficients=4)
SERIES = [
    ([10.0, 11.0, 14.0], [[0.0, 5.0], [2.0, None], [5.0, 1.0]]),
    ([2.0, 4.0], [[1, 1], [3, 1]]),
]


@pytest.fixture(scope="module", autouse=True)
def quick():
    with no_stacking():
        yield


TRAINED: dict[bytes, bytes] = {}


@parametrize_with_checks([Resampler(LINE, n_points=5), Resampler(small(max_epochs=1), n_points=5)])
def test_scikit_learn_check(estimator, check, monkeypatch):
    if check.func is not estimator_checks.check_fit_idempotent:
        train_once(monkeypatch, PolyODETransformer, "_fit", TRAINED)
    check(estimator)


@pytest.mark.parametrize(
    ("parameters", "grid"),
    [
        ({"n_points": 3}, [0, 2, 4]),
        ({"n_points": 3, "relative_to": "end"}, [-4, -2, 0]),
        ({"n_points": 3, "relative_to": None}, [2, 8, 14]),
        ({"every": 1.5}, [0, 1.5, 3]),
        ({"every": 1.5, "relative_to": "end"}, [-3, -1.5, 0]),
        ({"every": 5, "relative_to": None}, [2, 7, 12]),
        ({"every": 4 / 3}, [0, 4 / 3, 8 / 3, 4]),
        ({"grid": [-1.0, 0.5, 9.0]}, [-1, 0.5, 9]),
        ({"grid": [3, 4], "relative_to": None}, [3, 4]),
        ({}, np.linspace(0, 4, 100)),
    ],
)
def test_grid(parameters, grid):
    resampler = Resampler(LINE, **parameters).fit(SERIES)
    np.testing.assert_allclose(resampler.grid_, grid, atol=1e-12)
    assert resampler.transform(SERIES).shape == (2, 2, len(grid))


def test_values():
    found = Resampler(LINE, every=1.0).fit_transform(SERIES)
    np.testing.assert_allclose(found[0], [[0, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
    np.testing.assert_allclose(found[1], [[1, 2, 3, 3, 3], [1, 1, 1, 1, 1]])
    found = Resampler(LINE, every=1.0, relative_to="end").fit_transform(SERIES)
    np.testing.assert_allclose(found[:, 0], [[0, 2, 3, 4, 5], [1, 1, 1, 2, 3]])
    found = Resampler(LINE, grid=[3.0, 11.0], relative_to=None).fit_transform(SERIES)
    np.testing.assert_allclose(found[:, 0], [[0, 2], [2, 3]])


def test_a_common_clock_of_datetimes():
    days = pd.date_range("2026-03-01", periods=3, freq="D")
    panel = Panel.from_frames([pd.DataFrame({"x": [0.0, 2.0, 6.0]}, index=days)], time_unit="h")
    grid = pd.DatetimeIndex(["2026-03-01 12:00", "2026-03-02 12:00"])
    found = Resampler(LINE, grid=grid, relative_to=None).fit_transform(panel)
    np.testing.assert_allclose(found, [[[1.0, 4.0]]])


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "D"])
def test_the_grid_is_in_the_times_of_fit(zone, unit, tmp_path):
    days = pd.date_range("2026-03-28", periods=4, freq="D", tz=zone)  # clocks change on the 29th
    series = [(days, [0.0, 2.0, 6.0, 7.0]), (days[1:], [1.0, 2.0, 3.0])]
    panel = Panel.from_series(series, time_unit=unit)
    hours = pd.to_timedelta(np.arange(0, 72.5 if zone is None else 71.5, 18), unit="h")
    grids = {None: days[0] + hours, "start": hours, "end": -hours[::-1]}
    for relative_to, grid in grids.items():
        resampler = Resampler(LINE, every="18h", relative_to=relative_to).fit(panel)
        resampler.save(tmp_path / str(relative_to))
        again = skpolyode.load(tmp_path / str(relative_to))
        for found in (resampler.grid_, again.grid_):
            assert type(found) is type(grid)
            assert found.tolist() == grid.tolist()
        assert getattr(resampler.grid_, "tz", None) == getattr(grid, "tz", None)
        given = Resampler(LINE, grid=grid, relative_to=relative_to).fit(panel)
        np.testing.assert_allclose(given.transform(panel), again.transform(panel), atol=1e-9)


@pytest.mark.parametrize("relative_to", ["start", "end"])
def test_the_origin_of_time_does_not_matter(relative_to):
    series = short_oscillators()
    shifted = [(t + 100.0 * k, x) for k, (t, x) in enumerate(series)]
    resampler = Resampler(small(), n_points=20, relative_to=relative_to).fit(series)
    found = resampler.transform(series)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(resampler.transform(shifted), found, atol=1e-8)
    np.testing.assert_allclose(resampler.transform(series[4:6]), found[4:6], atol=1e-8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_points": 3, "every": 1.0}, "n_points and every each define the grid: give one"),
        ({"grid": [1.0, 0.0]}, "grid must be times that rise"),
        ({"grid": []}, "grid must be one-dimensional and not empty"),
        ({"grid": [0.0, np.inf]}, "grid must be finite, got inf at position 1"),
        ({"every": 1e-9}, "every=1e-09 makes more than 10000000 points of each series; the lo"),
        ({"n_points": 10**12}, "n_points=1000000000000 makes more than 10000000 points"),
        ({"every": 0.0}, "'every' parameter of Resampler must be"),
        ({"relative_to": "middle"}, "'relative_to' parameter of Resampler must be"),
    ],
)
def test_faulty_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Resampler(LINE, **parameters).fit(SERIES)


class Speeds(TransformerMixin, BaseEstimator):
    """Stands in for a transformer of sktime or aeon: (series, channel, time) to features."""

    def fit(self, X, y=None):
        assert X.ndim == 3
        return self

    def transform(self, X):
        return np.log(np.abs(np.diff(X, axis=2)).mean(axis=2) / X.std(axis=2))


def two_speeds():
    slow, fast = short_oscillators(20, seed=1, rate=5), short_oscillators(20, seed=2, rate=5)
    fast = [(t / 2, x) for t, x in fast]  # twice as fast and half as long
    return [*slow, *fast], np.repeat([0, 1], 20)


def test_ragged_series_can_be_classified_by_methods_for_regular_ones():
    series, y = two_speeds()
    chain = make_pipeline(
        Resampler(LINE, grid=np.linspace(0, 2, 40)), Speeds(), RidgeClassifierCV()
    )
    panel = Panel.from_series(series)
    assert cross_val_score(chain, panel, y, cv=4).mean() > 0.9
    search = GridSearchCV(chain, {"resampler__transformer__kind": ["linear", "pchip"]}, cv=2)
    assert search.fit(panel, y).score(panel, y) > 0.9


@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="MiniRocket needs numba")
def test_minirocket():
    series, y = two_speeds()
    chain = make_pipeline(Resampler(LINE, n_points=60), MiniRocket(), RidgeClassifierCV())
    assert chain.fit(series, y).score(series, y) > 0.9


def test_an_array_of_three_axes_is_no_table():
    chain = make_pipeline(Resampler(LINE), Speeds())
    with pytest.raises(ValueError, match=r"array \(series, channel, point\).* no table of polars"):
        chain.set_output(transform="polars")
    resampler = Resampler(LINE, n_points=3).set_output(transform="default")
    assert resampler.fit_transform(SERIES).shape == (2, 2, 3)


def test_saved_and_loaded(tmp_path):
    resampler = Resampler(small(), n_points=7).fit(short_oscillators())
    resampler.save(tmp_path / "resampler")
    again = skpolyode.load(tmp_path / "resampler")
    found = resampler.transform(short_oscillators())
    np.testing.assert_array_equal(again.transform(short_oscillators()), found)
    assert clone(again).get_params()["n_points"] == 7
