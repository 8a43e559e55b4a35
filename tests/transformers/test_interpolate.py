"""`interpolate`, `residuals` and `score_samples` of the transformers that have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline, PchipInterpolator
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skpolyode import HiPPOTransformer, InterpolationTransformer, Panel
from skpolyode.ensemble import mixed
from skpolyode.ensemble.members import Members
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import short_oscillators, small
from tests.transformers.registry import all_transformers

SERIES = short_oscillators(rate=3.0)
PATHS = {name: x for name, x in all_transformers().items() if x.has_path}


@contextmanager
def searched_to_the_end() -> Iterator[None]:
    """Variances of the mixed model, which is one of the forecasts, to the last digits.

    By default the search for them stops where a step gains a 1e-5th: where exactly, rounding
    decides, and forecasts differ by .002. Tolerances of 1e-9 and 1e-15 leave 5e-5 and 2e-7.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mixed, "SETTINGS", replace(mixed.SETTINGS, n_steps=2000, tolerance=1e-15))
        yield


@pytest.fixture(scope="module", params=PATHS)
def fitted(request):
    with searched_to_the_end():
        return clone(PATHS[request.param]).fit(SERIES)


def test_between_observations_no_simple_forecast_follows_the_series(fitted, monkeypatch):
    times = [(t[1:4] + t[:3]) / 2 for t, _ in SERIES]
    expected = fitted.interpolate(SERIES, times).values
    monkeypatch.setattr(Members, "known_at", None)
    np.testing.assert_array_equal(fitted.interpolate(SERIES, times).values, expected)


def test_only_those_that_follow_a_path_have_it():
    without = {name for name, x in all_transformers().items() if not hasattr(x, "interpolate")}
    assert without == {"LegendreFitTransformer", "PastDecoder", "SummaryStatsTransformer"}
    with pytest.raises(NotFittedError):
        small().interpolate(SERIES)


class TestEveryPath:
    def test_passes_through_the_observations(self, fitted):
        panel = Panel.from_series(SERIES)
        found = fitted.interpolate(panel)
        observed = ~np.isnan(panel.values)
        np.testing.assert_array_equal(found.times, panel.times)
        np.testing.assert_array_equal(found.values[observed], panel.values[observed])
        assert np.isfinite(found.values).all()

    def test_times_in_any_order_beyond_both_ends(self, fitted):
        times = np.array([9.0, 0.5, -3.0, 2.0, 2.0])
        found = fitted.interpolate(SERIES, times)
        assert np.isfinite(found.values).all()
        ordered = fitted.interpolate(SERIES, np.sort(times)).values.reshape(12, 5, 2)
        again = ordered[:, [4, 1, 0, 2, 2]].reshape(-1, 2)
        np.testing.assert_allclose(found.values, again, atol=1e-12)
        # before the first observation the path is held
        first = fitted.interpolate(SERIES, [[t[0]] for t, _ in SERIES])
        np.testing.assert_allclose(found.values[2::5], first.values, atol=1e-12)

    def test_as_far_ahead_as_you_like(self, fitted):
        far = fitted.interpolate(SERIES, [1e3, 1e9, 1e200]).values.reshape(12, 3, 2)
        assert np.isfinite(far).all()
        assert_same_but_for_rounding(far[:, 1], far[:, 2])

    def test_units_and_clocks_do_not_matter(self, fitted):
        other = [(3600 * t + 1.7e9, 100 * x - 7) for t, x in SERIES]
        with searched_to_the_end():
            again = clone(fitted).fit(other)
        times = np.linspace(0, 5, 11)  # also after the last observations
        wanted = fitted.interpolate(SERIES, times).values
        found = again.interpolate(other, 3600 * times + 1.7e9).values
        np.testing.assert_allclose((found + 7) / 100, wanted, atol=1e-6)

    def test_empty_rows_change_nothing(self, fitted):
        padded = [
            (np.append(t, [t[-1] + 1, t[-1] + 2]), np.vstack([x, np.full((2, 2), np.nan)]))
            for t, x in SERIES
        ]
        times = np.linspace(0, 5, 7)
        assert_same_but_for_rounding(
            fitted.interpolate(padded, times).values, fitted.interpolate(SERIES, times).values
        )
        assert np.isfinite(fitted.interpolate(padded).values).all()

    def test_faulty_times(self, fitted):
        with pytest.raises(
            ValueError, match="times must be finite, got a missing time at position 1"
        ):
            fitted.interpolate(SERIES, [0.0, np.nan])
        with pytest.raises(ValueError, match="one for each of the 12 series, got 2 lists"):
            fitted.interpolate(SERIES, [[0.0], [1.0]])


def natural(times, values):
    return CubicSpline(times, values, bc_type="natural")


def held(times, values):
    return lambda at: values[np.searchsorted(times, at, side="right") - 1]


@pytest.mark.parametrize(
    ("transformer", "oracle"),
    [
        (InterpolationTransformer(), lambda t, x: lambda at: np.interp(at, t, x)),
        (InterpolationTransformer(kind="pchip"), PchipInterpolator),
        (InterpolationTransformer(kind="cubic"), natural),
        (HiPPOTransformer(hold="previous"), held),
    ],
    ids=["linear", "pchip", "cubic", "previous"],
)
def test_fixed_paths(transformer, oracle):
    found = transformer.fit(SERIES).interpolate(SERIES, np.linspace(-1, 5, 61))
    for k, (times, x) in enumerate(SERIES):
        for j in (0, 1):
            seen = ~np.isnan(x[:, j])
            at = np.clip(found[k].times, times[seen][0], times[seen][-1])  # held beyond the ends
            wanted = oracle(times[seen], x[seen, j])(at)
            np.testing.assert_allclose(found[k].values[:, j], wanted, atol=1e-9)


def test_after_the_end_it_is_the_forecast():
    model = small().fit(SERIES)
    ahead = [4.0, 4.7, 6.0]
    np.testing.assert_allclose(
        model.interpolate(SERIES, ahead).values, model.forecast(SERIES, ahead).values, atol=1e-12
    )


def test_datetimes():
    hours = pd.date_range("2026-03-01", periods=6, freq="h", tz="UTC")
    panel = Panel.from_frames(
        [pd.DataFrame({"hr": [1.0, None, 3.0, 5.0, None, 4.0]}, index=hours)], time_unit="h"
    )
    model = HiPPOTransformer().fit(panel)
    found = model.interpolate(panel, pd.DatetimeIndex(["2026-03-01 01:00+00:00"]))
    assert found.values.tolist() == [[2.0]]
    assert found.user_times()[0] == hours[1]


@pytest.fixture(scope="module")
def trained():
    return small(max_epochs=10).fit(SERIES)


class TestSurprises:
    def test_scores_of_samples_make_the_score(self, trained):
        panel = Panel.from_series(SERIES)
        counts = [(~np.isnan(x[1:])).sum() for _, x in panel]
        mean = np.average(trained.score_samples(panel), weights=counts)
        assert mean == pytest.approx(trained.score(panel), abs=1e-12)

    def test_a_series_of_one_row_is_no_surprise(self, trained):
        assert trained.score_samples([([0.0], [[1.0, 2.0]])]).tolist() == [0.0]

    def test_an_outlier_is_found(self, trained):
        series = [(t, x.copy()) for t, x in SERIES]
        series[7][1][3, 0] += 8.0
        with pytest.warns(UserWarning, match="series 7 .* may be a fault"):
            assert trained.score_samples(series).argmin() == 7
        with pytest.warns(UserWarning, match="series 7 .* may be a fault"):
            errors = np.abs(trained.residuals(series)[7].values)
        assert np.unravel_index(np.nanargmax(errors), errors.shape)[0] in (3, 4)

    def test_empty_rows(self, trained):
        series = [([0.0, 1.0, 2.0], [[None, None], [1.0, None], [2.0, 3.0]])]
        found = trained.residuals(series).values
        assert np.isnan(found).tolist() == [[True, True], [True, True], [False, False]]


def test_stamps_that_are_one_as_counts_stay_two():
    """Counts of seconds since 1970 are rounded to 2e-7; these rows are 100 ns apart."""
    stamps = pd.DatetimeIndex(
        ["2026-03-01", "2026-03-01 00:00:00.0000001", "2026-03-01 00:00:00.0000002"]
    )
    panel = Panel.from_frames([pd.DataFrame({"x": [1.0, 2.0, 4.0]}, index=stamps)])
    model = HiPPOTransformer(window=1.0).fit(panel)
    found = model.interpolate(panel)
    assert found.values.tolist() == [[1.0], [2.0], [4.0]]
    assert found.user_times().equals(stamps)
