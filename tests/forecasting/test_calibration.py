"""Damping and split conformal intervals, by lead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.forecasting._calibration import Calibration


def undamped(leads: np.ndarray, errors: np.ndarray) -> Calibration:
    """From errors alone: of forecasts that were at the mean."""
    return Calibration.of(leads, np.zeros_like(errors), errors)


def diffusion(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors that grow with the square root of the lead, and a channel of twice their size."""
    rng = np.random.default_rng(seed)
    leads = rng.uniform(0.0, 4.0, (n, 2))
    return leads, rng.standard_normal((n, 2)) * np.sqrt(leads) * [1.0, 2.0]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_coverage_at_every_lead(level):
    intervals = undamped(*diffusion(6000, 0))
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
        width = undamped(np.ones((19, 1)), errors).half_widths(np.ones((1, 1)), 0.9)[0, 0]
        covered.append(rng.exponential() <= width)
    # ceil(20 * 0.9) = 18th of 19: exactly 18 of 20 in the mean
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


@given(seed=st.integers(0, 1000), n=st.integers(1, 700))
def test_widths_never_fall_with_lead_or_level(seed, n):
    rng = np.random.default_rng(seed)
    intervals = undamped(rng.exponential(size=(n, 1)), rng.standard_cauchy((n, 1)))
    leads = np.concatenate([np.linspace(0, 10, 60), [np.inf]])[:, None]
    widths = np.stack([intervals.half_widths(leads, level) for level in (0.1, 0.5, 0.9, 0.99)])
    assert (np.diff(widths, axis=1) >= 0).all()
    assert (np.diff(widths, axis=0) >= 0).all()
    assert np.isfinite(widths).all()


def test_beyond_the_longest_lead_the_width_is_held():
    intervals = undamped(*diffusion(5000, 0))
    far = intervals.half_widths(np.array([[4.0, 4.0], [100.0, np.inf]]), 0.9)
    np.testing.assert_array_equal(far[0], far[1])


def test_a_channel_without_errors_gets_one_scale():
    leads, errors = diffusion(200, 0)
    errors[:, 1] = np.nan
    assert undamped(leads, errors).half_widths(np.full((1, 2), 1.0), 0.9)[0, 1] == 1.0
    empty = np.empty((0, 2))
    np.testing.assert_array_equal(undamped(empty, empty).half_widths(np.ones((1, 2)), 0.5), 1)


def test_forecasts_of_less_and_less_are_damped_to_the_mean():
    rng = np.random.default_rng(0)
    leads = rng.uniform(0.0, 5.0, (100_000, 1))
    forecasts = rng.standard_normal(leads.shape)
    # What is known of the signal falls as exp(-lead); the rest is noise.
    known = np.exp(-leads)
    actual = known * forecasts + np.sqrt(1 - known**2) * rng.standard_normal(leads.shape)
    calibration = Calibration.of(leads, forecasts, actual)
    at = np.array([[0.0], [0.5], [1.0], [2.0], [100.0]])
    factors = calibration.damped(at, np.ones_like(at))[:, 0]
    assert factors[0] == 1
    np.testing.assert_allclose(factors[1:4], np.exp(-at[1:4, 0]), atol=0.06)
    assert factors[4] < 0.06
    assert (np.diff(factors) <= 0).all()


def test_good_forecasts_are_not_damped():
    leads, forecasts = diffusion(5000, 0)
    calibration = Calibration.of(leads, forecasts, forecasts)
    np.testing.assert_array_equal(calibration.damped(leads, forecasts), forecasts)


def test_bad_forecasts_are_not_turned_around():
    leads, forecasts = diffusion(5000, 0)
    calibration = Calibration.of(leads, forecasts, -forecasts)
    far = np.full((1, 2), 4.0)
    assert (calibration.damped(far, np.ones((1, 2))) >= 0).all()
