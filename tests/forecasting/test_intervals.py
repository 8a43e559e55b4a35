"""Split conformal intervals by lead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode.forecasting._intervals import Intervals


def diffusion(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors that grow with the square root of the lead, and a channel of twice their size."""
    rng = np.random.default_rng(seed)
    leads = rng.uniform(0.0, 4.0, (n, 2))
    return leads, rng.standard_normal((n, 2)) * np.sqrt(leads) * [1.0, 2.0]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_coverage_at_every_lead(level):
    intervals = Intervals.of(*diffusion(6000, 0))
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
        width = Intervals.of(np.ones((19, 1)), errors).half_widths(np.ones((1, 1)), 0.9)[0, 0]
        covered.append(rng.exponential() <= width)
    # ceil(20 * 0.9) = 18th of 19: exactly 18 of 20 in the mean
    assert np.mean(covered) == pytest.approx(0.9, abs=0.02)


@given(seed=st.integers(0, 1000), n=st.integers(1, 700))
def test_widths_never_fall_with_lead_or_level(seed, n):
    rng = np.random.default_rng(seed)
    intervals = Intervals.of(rng.exponential(size=(n, 1)), rng.standard_cauchy((n, 1)))
    leads = np.concatenate([np.linspace(0, 10, 60), [np.inf]])[:, None]
    widths = np.stack([intervals.half_widths(leads, level) for level in (0.1, 0.5, 0.9, 0.99)])
    assert (np.diff(widths, axis=1) >= 0).all()
    assert (np.diff(widths, axis=0) >= 0).all()
    assert np.isfinite(widths).all()


def test_beyond_the_longest_lead_the_width_is_held():
    intervals = Intervals.of(*diffusion(5000, 0))
    far = intervals.half_widths(np.array([[4.0, 4.0], [100.0, np.inf]]), 0.9)
    np.testing.assert_array_equal(far[0], far[1])


def test_a_channel_without_errors_gets_one_scale():
    leads, errors = diffusion(200, 0)
    errors[:, 1] = np.nan
    assert Intervals.of(leads, errors).half_widths(np.full((1, 2), 1.0), 0.9)[0, 1] == 1.0
    empty = np.empty((0, 2))
    np.testing.assert_array_equal(Intervals.of(empty, empty).half_widths(np.ones((1, 2)), 0.5), 1)
