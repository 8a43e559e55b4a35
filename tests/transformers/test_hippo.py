"""Memories of the observations against other means: quadrature, and the differential equation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skpolyode import HiPPOTransformer, Panel
from skpolyode.memory import MEMORIES
from tests.memory.measures import EQUATIONS, WINDOW
from tests.transformers.paths import project, solve


def irregular(seed, n=25, decades=6):
    rng = np.random.default_rng(seed)
    times = np.concatenate([[0.0], 10 ** rng.uniform(-decades, 0, n - 1)]).cumsum()
    return times, rng.normal(size=n)


def expected_coefficients(measure, hold, size, times, values):
    """Coefficients at the last time, from the past that was always `values[0]`."""
    assert measure in EQUATIONS, "add the measure to tests/memory/measures.py"
    equation, gaps = EQUATIONS[measure], np.diff(times)
    slopes = np.diff(values) / gaps * (hold == "linear")
    if equation.projection is None:
        (A, B), rate = equation.matrices(size), equation.rate(1.0)
        assert rate == equation.rate(2.0), "the matrix exponential is for measures that move along"
        return solve(rate * A, rate * B, gaps, np.stack([values[:-1], slopes], axis=1))

    def path(t):
        piece = np.clip(np.searchsorted(times, t, side="right") - 1, 0, len(gaps) - 1)
        inside = values[piece] + slopes[piece] * (t - times[piece])
        return np.where(t < times[0], values[0], np.where(t < times[-1], inside, values[-1]))

    return project(path, times, times[-1], *equation.projection(size, times[-1] - times[0]))


@pytest.mark.parametrize("size", [8, 32, 33, 128])
@pytest.mark.parametrize("hold", ["linear", "previous"])
@pytest.mark.parametrize("measure", MEMORIES)
def test_exact_for_gaps_over_six_decades(measure, hold, size):
    times, values = irregular(size)
    embedder = HiPPOTransformer(n_coefficients=size, measure=measure, hold=hold, window=WINDOW).fit(
        [(times, values)]
    )
    found = embedder.transform([(times, values)])[0, :size]
    scaled = embedder.scaler_.transform(values[:, None])[:, 0]
    expected = expected_coefficients(measure, hold, size, times, scaled)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("measure", MEMORIES)
def test_every_channel_has_its_own_observations(measure):
    """Three channels, two of them observed together, against each on its own."""
    rng = np.random.default_rng(1)
    times, values = np.sort(rng.uniform(0, 5, 40)), rng.normal(size=(40, 3))
    values[1:39][rng.uniform(size=38) < 0.5, 0] = np.nan
    values[1:39][rng.uniform(size=38) < 0.5, 1:] = np.nan
    values[[0, -1]] = 1.0  # all begin and end at the same times
    settings = {"n_coefficients": 6, "measure": measure, "window": WINDOW}
    together = HiPPOTransformer(**settings).fit_transform([(times, values)])[0]
    for j in range(3):
        seen = ~np.isnan(values[:, j])
        alone = HiPPOTransformer(**settings).fit_transform([(times[seen], values[seen, j])])[0]
        np.testing.assert_allclose(together[6 * j : 6 * j + 6], alone[:6], atol=1e-12)


@pytest.mark.parametrize("measure", MEMORIES)
def test_before_and_after_its_observations_a_channel_is_held(measure):
    """One that is observed later and less long, against one that says so at every time."""
    values = np.array([[1.0, np.nan], [4.0, 2.0], [2.0, 5.0], [3.0, np.nan], [0.0, np.nan]])
    times = np.array([0.0, 0.7, 1.0, 2.2, 3.0])
    said = np.where(np.isnan(values), [[0, 2], [0, 0], [0, 0], [0, 5], [0, 5]], values)
    embedder = HiPPOTransformer(n_coefficients=5, measure=measure, window=WINDOW)
    held, full = embedder.fit([(times, values)]).transform([(times, values), (times, said)])
    np.testing.assert_allclose(held, full, atol=1e-12)


def test_a_channel_never_observed_is_at_its_mean():
    train = [([0.0, 1.0], [[1.0, 4.0], [2.0, 8.0]])]
    embedder = HiPPOTransformer(n_coefficients=4, window=1.0).fit(train)
    Z = embedder.transform([([0.0, 1.0], [[1.0, np.nan], [2.0, np.nan]])])
    np.testing.assert_array_equal(Z[0, 4:], 0.0)
    np.testing.assert_allclose(embedder.inverse_transform(Z, [0.0]).values[0, 1], 6.0)


@pytest.mark.parametrize("measure", MEMORIES)
@given(seed=st.integers(0, 2**20), value=st.floats(-1e6, 1e6))
def test_constants_come_back(measure, seed, value):
    times, _ = irregular(seed, n=6)
    series = [(times, np.full(6, value)), (times[:1], [value + 1.0])]
    embedder = HiPPOTransformer(n_coefficients=5, measure=measure, window=WINDOW).fit(series)
    panel = embedder.reconstruct(series)
    expected = np.repeat([value, value + 1.0], np.diff(panel.offsets))
    np.testing.assert_allclose(panel.values[:, 0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("measure", MEMORIES)
def test_the_unit_of_time_does_not_matter(measure):
    times, values = irregular(3)
    one = HiPPOTransformer(measure=measure).fit_transform([(times, values)])
    other = HiPPOTransformer(measure=measure).fit_transform([(3.6e6 * times + 1e9, values)])
    np.testing.assert_allclose(one, other, atol=1e-5)  # of 1e9 a gap of 1e-6 keeps four digits


@pytest.mark.parametrize(("measure", "error"), [("legt", 1e-2), ("legs", 1e-3), ("lagt", 1e-1)])
def test_a_smooth_dense_signal_is_reconstructed(measure, error):
    times = np.linspace(0, 6, 600)
    panel = Panel.from_series([(times, np.sin(2 * times)), (times[:500], np.cos(times[:500]))])
    embedder = HiPPOTransformer(measure=measure, window=3.0).fit(panel)
    past = embedder.inverse_transform(embedder.transform(panel), -np.linspace(0, 2, 9))
    first, second = np.split(past.times, 2)
    expected = np.concatenate([np.sin(2 * (first + 6)), np.cos(second + times[499])])
    np.testing.assert_allclose(past.values[:, 0], expected, atol=error)


def test_the_whole_history_has_its_duration():
    series = [([0.0, 1.0, 4.0], [1.0, 2.0, 0.0]), ([1.0, 2.0], [0.0, 1.0])]
    embedder = HiPPOTransformer(n_coefficients=3, measure="legs").fit(series)
    assert embedder.window_ == 4.0
    assert embedder.get_feature_names_out().tolist() == ["x0_c0", "x0_c1", "x0_c2", "duration"]
    np.testing.assert_array_equal(embedder.transform(series)[:, -1], [1.0, 0.25])
    # A longer series than in `fit` is remembered as a whole, and before it the first value.
    longer = [([0.0, 20.0], [1.0, 3.0])]
    past = embedder.reconstruct(longer, [-5.0, 0.0, 10.0, 20.0]).values[:, 0]
    np.testing.assert_allclose(past, [1.0, 1.0, 2.0, 3.0])


def test_distance_of_embeddings_is_distance_of_histories():
    """Parseval: with the raw scale of the coefficients."""
    times = np.linspace(0, 2, 80)
    series = [(times, np.sin(3 * times)), (times, np.cos(2 * times))]
    embedder = HiPPOTransformer(n_coefficients=40, window=2.0).fit(series)
    one, two = embedder.transform(series)
    difference = (series[0][1] - series[1][1]) / embedder.scaler_.scale
    rms = np.sqrt(np.trapezoid(difference**2, times) / 2)
    assert np.linalg.norm(one - two) == pytest.approx(rms, rel=2e-3)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"measure": "legz"}, "The 'measure' parameter"),
        ({"hold": "next"}, "The 'hold' parameter"),
        ({"window": 0.0}, "The 'window' parameter"),
        ({"n_coefficients": 0}, "The 'n_coefficients' parameter"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        HiPPOTransformer(**parameters).fit([([0.0, 1.0], [1.0, 2.0])])
