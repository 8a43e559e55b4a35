"""Interpolating paths against SciPy's, and their coefficients against matrix exponentials."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicHermiteSpline, CubicSpline, PchipInterpolator

from skpolyode import HiPPOTransformer, InterpolationTransformer
from skpolyode.embedders.paths import ChannelRows, path_pieces
from skpolyode.memory import legt_matrices
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.paths import solve


def backward(times, values):
    slopes = np.diff(values) / np.diff(times)
    return CubicHermiteSpline(times, values, np.append(slopes[0], slopes))


def centred(times, values):
    rise, gap = np.diff(values) / np.diff(times), np.diff(times)
    inner = (gap[1:] * rise[:-1] + gap[:-1] * rise[1:]) / (gap[1:] + gap[:-1])
    return CubicHermiteSpline(times, values, np.concatenate([rise[:1], inner, rise[-1:]]))


PATHS = {
    "backward": (backward, {"kind": "hermite"}),
    "centred": (centred, {"kind": "hermite", "causal": False}),
    "pchip": (PchipInterpolator, {"kind": "pchip"}),
    "cubic": (lambda t, x: CubicSpline(t, x, bc_type="natural"), {"kind": "cubic"}),
}


@pytest.mark.parametrize("n", [2, 3, 4, 30])
@pytest.mark.parametrize("size", [8, 32])
@pytest.mark.parametrize("name", PATHS)
def test_coefficients_of_the_path_of_scipy(name, size, n):
    """Many series at once, gaps over three decades, and a last value that is held."""
    path, parameters = PATHS[name]
    rng = np.random.default_rng(n)
    series = []
    for _ in range(4):
        times = (10 ** rng.uniform(-3, 0, n)).cumsum()
        values = np.column_stack([rng.normal(size=n), np.full(n, np.nan)])
        series.append((np.append(times, times[-1] + 0.4), np.vstack([values, [np.nan, 1.0]])))
    embedder = InterpolationTransformer(n_coefficients=size, window=1.3, **parameters)
    found = embedder.fit_transform(series)[:, :size]
    A, B = legt_matrices(size)
    for (times, values), own in zip(series, found, strict=True):
        scaled = embedder.scaler_.transform(values)[:-1, 0]
        curve = path(times[:-1], scaled)
        derivatives = np.stack([curve(times[:-2], nu) for nu in range(4)], axis=1)
        held = [[scaled[-1], 0.0, 0.0, 0.0]]
        expected = solve(A / 1.3, B / 1.3, np.diff(times), np.vstack([derivatives, held]))
        scale = max(1.0, np.abs(curve(np.linspace(times[0], times[-2], 500))).max())
        np.testing.assert_allclose(own, expected, atol=5e-9 * scale)


@pytest.mark.parametrize(("kind", "hold"), [("constant", "previous"), ("linear", "linear")])
def test_lines_and_steps_are_those_of_hippo(kind, hold):
    rng = np.random.default_rng(0)
    series = [(np.sort(rng.uniform(0, 4, n)), rng.normal(size=(n, 2))) for n in (1, 2, 9)]
    one = InterpolationTransformer(kind=kind).fit_transform(series)
    assert_same_but_for_rounding(one, HiPPOTransformer(hold=hold).fit_transform(series))


@pytest.mark.parametrize("kind", ["hermite", "pchip", "cubic"])
@pytest.mark.parametrize("causal", [True, False])
def test_smooth_paths_of_lines_are_lines(kind, causal):
    times = np.array([0.0, 1e-5, 0.3, 0.31, 2.0])
    line, parameters = [(times, 3 - 2 * times)], {"n_coefficients": 6, "window": 2.0}
    smooth = InterpolationTransformer(kind=kind, causal=causal, **parameters).fit_transform(line)
    straight = InterpolationTransformer(kind="linear", **parameters).fit_transform(line)
    np.testing.assert_allclose(smooth, straight, atol=1e-9)


@pytest.mark.parametrize("kind", ["linear", "hermite", "pchip", "cubic"])
def test_long_series_and_tiny_gaps_lose_no_digits(kind):
    """What the last window holds does not depend on what went before."""
    rng = np.random.default_rng(0)
    gaps = 10 ** rng.uniform(-5, -1, 20_000)
    times = gaps.cumsum()
    values = np.sin(3 * times)
    parameters = {"kind": kind, "n_coefficients": 16, "window": 1.0}
    embedder = InterpolationTransformer(**parameters).fit([(times, values)])
    cut = np.searchsorted(times, times[-1] - 12.0)
    whole = embedder.transform([(times, values)])
    np.testing.assert_allclose(embedder.transform([(times[cut:], values[cut:])]), whole, atol=1e-9)


@pytest.mark.parametrize(("kind", "same"), [("hermite", True), ("centred", False)])
def test_causal_paths_do_not_change_afterwards(kind, same):
    """With another last value, the pieces up to the last but one observation are the same."""
    times, values = np.array([0.0, 1.0, 1.5, 3.0]), np.array([[0.0], [2.0], [1.0], [5.0]])
    other = np.vstack([values[:3], [[9.0]]])
    early = []
    for x in (values, other):
        rows = ChannelRows(np.array([0]), np.zeros(4, dtype=int), times, x)
        _, pieces = path_pieces(kind, rows, times[-1:])
        early.append(np.concatenate([pieces.start[:2], pieces.end[:2]]))
    assert np.allclose(*early, rtol=1e-12, atol=1e-12) == same


@settings(max_examples=20)
@given(st.integers(0, 2**20))
def test_results_do_not_depend_on_batch_mates(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, 5)
    series = [((10 ** rng.uniform(-4, 1, n)).cumsum(), rng.normal(size=(n, 2))) for n in lengths]
    for _, values in series:
        values[rng.uniform(size=values.shape) < 0.3] = np.nan
        values[0, 0] = 1.0
    for kind in ("cubic", "pchip"):
        embedder = InterpolationTransformer(kind=kind, n_coefficients=5).fit(series)
        together = embedder.transform(series)
        alone = np.concatenate([embedder.transform([one]) for one in series])
        np.testing.assert_allclose(together, alone, atol=1e-9, rtol=1e-9)


def test_unknown_kind():
    with pytest.raises(ValueError, match="The 'kind' parameter"):
        InterpolationTransformer(kind="quintic").fit([([0.0, 1.0], [1.0, 2.0])])
