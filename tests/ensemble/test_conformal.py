"""Split conformal intervals, by lead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from skpolyode.ensemble.backtest import enlarged, equal_bins
from skpolyode.ensemble.conformal import Calibration, _Errors
from skpolyode.ensemble.stacking import Backtest, cross_fitted
from tests.closeness import assert_same_but_for_rounding
from tests.ensemble.test_stacking import backtest_of, weights_at, weights_of


def calibrated(leads: np.ndarray, errors: np.ndarray) -> Calibration:
    """From errors alone: of forecasts that were at the mean."""
    return Calibration.learn(leads, errors)


def diffusion(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors that grow with the square root of the lead, and a channel of twice their size."""
    rng = np.random.default_rng(seed)
    leads = rng.uniform(0.0, 4.0, (n, 2))
    return leads, rng.standard_normal((n, 2)) * np.sqrt(leads) * [1.0, 2.0]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_coverage_at_every_lead(level):
    intervals = calibrated(*diffusion(6000, 0))
    leads, errors = diffusion(40_000, 1)
    inside = np.abs(errors) <= intervals.half_widths(leads, level)
    for low, high in ((0.0, 4.0), (0.5, 1.0), (2.0, 2.5), (3.5, 4.0)):
        within = (leads >= low) & (leads < high)
        for j in range(2):
            assert inside[within[:, j], j].mean() == pytest.approx(level, abs=0.04)


def test_small_samples_cover_at_least_as_much_as_asked():
    rng = np.random.default_rng(0)
    covered = []
    for _ in range(2000):
        errors = rng.exponential(size=(19, 1))
        width = calibrated(np.ones((19, 1)), errors).half_widths(np.ones((1, 1)), 0.9)[0, 0]
        covered.append(rng.exponential() <= width)
    # ceil(20 * 0.9) = 18th of 19: exactly 18 of 20 in the mean
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


@given(seed=st.integers(0, 1000), n=st.integers(1, 700))
def test_widths_never_fall_with_lead_or_level(seed, n):
    rng = np.random.default_rng(seed)
    intervals = calibrated(rng.exponential(size=(n, 1)), rng.standard_cauchy((n, 1)))
    leads = np.concatenate([np.linspace(0, 10, 60), [np.inf]])[:, None]
    widths = np.stack([intervals.half_widths(leads, level) for level in (0.1, 0.5, 0.9, 0.99)])
    assert (np.diff(widths, axis=1) >= 0).all()
    assert (np.diff(widths, axis=0) >= 0).all()
    assert np.isfinite(widths).all()


def test_many_errors_are_kept_as_quantiles():
    errors = np.random.default_rng(0).standard_cauchy(5000)
    own, every = _Errors.of(1.0, errors, np.inf), np.sort(np.abs(errors))
    assert len(own.errors) == 128
    assert own.quantile(0.0) == every[0]
    assert own.quantile(1.0) == every[-1]
    for level in (0.1, 0.5, 0.9, 0.95, 0.98):
        shares = (every <= own.quantile(level)).mean()
        assert shares == pytest.approx(level, abs=0.004)


def test_beyond_the_longest_lead_the_width_is_held():
    intervals = calibrated(*diffusion(5000, 0))
    far = intervals.half_widths(np.array([[4.0, 4.0], [100.0, np.inf]]), 0.9)
    assert_same_but_for_rounding(far[0], far[1])


def test_errors_at_one_lead_of_regular_series_are_not_split():
    """Each lead has the width of all of its errors, in a bin of its own or with neighbours."""
    counts = [230, 170, 90, 60, 150]
    leads = np.repeat(np.arange(1.0, 6.0), counts)
    assert [len(part) for part in equal_bins(leads, 100, 40)] == [230, 170, 150, 150]
    bins = calibrated(leads[:, None], np.arange(1.0, 701.0)[:, None]).errors[0]
    assert [own.lead for own in bins] == [1.0, 2.0, 3.0, 5.0]
    rng, irregular = np.random.default_rng(0), np.arange(730.0)
    sizes = [len(part) for part in equal_bins(rng.permutation(irregular), 100, 40)]
    assert sizes == [105, 105, 104, 104, 104, 104, 104]


def test_a_channel_without_errors_gets_one_scale():
    leads, errors = diffusion(200, 0)
    errors[:, 1] = np.nan
    assert calibrated(leads, errors).half_widths(np.full((1, 2), 1.0), 0.9)[0, 1] == 1.0
    empty = np.empty((0, 2))
    np.testing.assert_array_equal(calibrated(empty, empty).half_widths(np.ones((1, 2)), 0.5), 1)


def paths(n_series: int, seed: int) -> tuple[np.ndarray, ...]:
    """Of an Ornstein-Uhlenbeck process: leads, forecasts, values, series and times.

    Forecasts are those of the process itself, from every row of the last 0.4 of 30 rows on.
    """
    rng, columns = np.random.default_rng(seed), []
    for k in range(n_series):
        times = np.cumsum(rng.exponential(1 / 3, 30))
        x = np.zeros(30)
        for i in range(1, 30):
            kept = np.exp(times[i - 1] - times[i])
            x[i] = kept * x[i - 1] + np.sqrt(1 - kept**2) * rng.standard_normal()
        for row in range(18, 29):
            leads = times[row + 1 :] - times[row]
            own = leads, x[row] * np.exp(-leads), x[row + 1 :], 0 * leads + k, times[row + 1 :]
            columns.append(np.stack(own))
    leads, forecasts, actual, series, times = np.concatenate(columns, axis=1)
    return leads[:, None], forecasts[:, None], actual[:, None], series, times


def run_only(leads, forecasts, actual, series, times) -> Backtest:
    """Where the free run is the best forecast, and nothing else is known but the mean."""
    members = np.concatenate([forecasts, np.zeros((len(forecasts), 3))], axis=1)
    where = {"series": series.astype(int), "times": times}
    return backtest_of(members, actual[:, 0], leads[:, 0], **where)


@pytest.mark.parametrize("n_series", [1, 2, 4, 40])
def test_few_series_cover_as_much_as_many(n_series):
    """Thousands of pairs of few series are a handful of forecasts that do not overlap."""
    covered, apart = [], []
    for seed in range(50 if n_series < 9 else 6):
        known, new = run_only(*paths(n_series, seed)), run_only(*paths(8, 1000 + seed))
        forecasts = cross_fitted(known, 5)
        wrong = known.actual - forecasts
        calibration = Calibration.learn(known.leads, wrong, known.series, known.times)
        leads = new.leads
        own = weights_at(weights_of(known), leads[:, 0])
        wrong = np.abs(new.actual[:, 0] - (own * new.members[:, 0]).sum(axis=1))[:, None]
        covered.append((wrong <= calibration.half_widths(leads, 0.9)).mean())
        apart += [own.n_independent / n_series for own in calibration.errors[0]]
    assert 0.86 < np.mean(covered) < 0.93  # 0.78 with one series, if rows are counted
    assert np.mean(apart) < 8


def test_forecasts_that_do_not_overlap_are_counted():
    """Two series at the lead 2: targets from 0 to 9, and three of about one time."""
    series = np.array([0] * 10 + [1] * 3)
    times = np.array([3, 1, 2, 0, 4, 5, 6, 9, 8, 7, 0, 0.1, 0.2])
    leads, errors = np.full((13, 1), 2.0), np.ones((13, 1))
    ((own,),) = Calibration.learn(leads, errors, series, times).errors
    assert own.n_independent == 5 + 1
    few, many = (stats.t.ppf(0.95, n) for n in (6, 13))
    assert own.quantile(0.9) == pytest.approx(few / many)
    ((alone,),) = Calibration.learn(leads, errors).errors
    assert alone.quantile(0.9) == 1.0


@pytest.mark.parametrize(
    ("level", "rank"), [(0.5, 10), (0.52, 11), (0.9, 18), (0.92, 19), (0.05, 1), (0.99, 19)]
)
def test_rank_of_the_conformal_quantile(level, rank):
    """Of 19 errors 1 to 19: the (20 level)-th, or the largest."""
    errors = np.random.default_rng(0).permutation(19.0 + np.arange(-18.0, 1))[:, None]
    width = calibrated(np.ones((19, 1)), errors).half_widths(np.ones((1, 1)), level)
    assert width[0, 0] == rank


@pytest.mark.parametrize("n_new", [2, 20])
def test_errors_of_training_are_widened_to_those_of_new_series(n_new):
    """The fewer new series there are, the closer the factor is to one."""
    series = np.arange(60)
    is_new = series >= 60 - n_new
    errors = np.where(is_new, 3.0, 1.0)[:, None]
    found = enlarged(errors, is_new, series, 2.0)
    np.testing.assert_array_equal(found[is_new], 3.0)
    np.testing.assert_allclose(found[~is_new], 3 ** (n_new / (n_new + 2)))
    better = np.where(is_new, 0.5, 1.0)[:, None]  # widths are never made smaller
    np.testing.assert_array_equal(enlarged(better, is_new, series, 2.0), better)
    jump = np.where(series == 7, -50.0, errors[:, 0])[:, None]
    more = 3 ** (2 * n_new / (n_new + 2)) - 1  # of the square, up to that of two usual errors
    assert enlarged(jump, is_new, series, 2.0)[7, 0] == pytest.approx(-np.sqrt(50.0**2 + 4 * more))
    np.testing.assert_array_equal(enlarged(errors, is_new | True, series, 2.0), errors)
    np.testing.assert_array_equal(enlarged(errors, is_new & False, series, 2.0), errors)


def test_a_channel_that_is_easy_does_not_widen_another():
    """New series show mostly the hard channel: pooled, their errors look many times as large."""
    rng, is_new = np.random.default_rng(0), np.arange(300) >= 200
    errors = rng.standard_normal((300, 2)) * [1.0, 0.01]
    errors[200:290, 1] = errors[:150, 0] = np.nan  # of training mostly the easy one
    found = enlarged(errors, is_new, np.arange(300), 2.0)[~is_new]
    assert np.nanmedian(np.abs(found[:, 0])) < 1.5 * np.nanmedian(np.abs(errors[~is_new, 0]))
