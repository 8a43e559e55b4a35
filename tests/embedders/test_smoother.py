"""The path between observations against its definition, and against what a memory holds of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from scipy.special import eval_legendre

from skpolyode import Panel
from skpolyode.embedders import ChannelScaler, MemoryReadout, ModelEmbedder, Units, smoother
from skpolyode.memory import MEMORIES
from tests.models import cases
from tests.transformers.toy import ToyModel

SCALER = ChannelScaler(np.array([3.0, -1.0]), np.array([2.0, 0.5]))
UNITS = Units(SCALER, 1.0)


def embedder(measure="legt", size=cases.SIZE, **options) -> ModelEmbedder:
    """A field that is strong and not trained, over two channels."""
    model = cases.make_model(measure=measure, size=size, **options)
    past = MemoryReadout(MEMORIES[measure](size, cases.WINDOW), cases.WINDOW, UNITS)
    return ModelEmbedder(model, UNITS, ("coefficients",), past, past)


def toy() -> ModelEmbedder:
    torch.manual_seed(0)
    return ModelEmbedder(ToyModel(2, 4), UNITS)


def panel(*lengths, **options) -> Panel:
    return Panel(*cases.flat_series(lengths, **options))


def values(model: ModelEmbedder, series: Panel, times) -> np.ndarray:
    """Of one series."""
    times = np.asarray(times, dtype=np.float64)
    return model.path_values(series, times, np.array([0, len(times)]))


def up_to(series: Panel, n_rows: int) -> Panel:
    return series.like(series.times[:n_rows], series.values[:n_rows], np.array([0, n_rows]))


def forecast(model: ModelEmbedder, series: Panel, time: float) -> np.ndarray:
    return model.forecast_values(series, np.array([time]), np.array([0, 1]))[0]


def by_definition(model: ModelEmbedder, series: Panel, time: float, channel: int) -> float:
    """From forecasts of the series as it was known at a time."""

    def expected(n_rows, at):
        return forecast(model, up_to(series, n_rows), at)[channel]

    times, x = series.times, series.values[:, channel]
    observed = np.flatnonzero(~np.isnan(x))
    signal = expected(int((times <= time).sum()), time)
    following = observed[times[observed] > time]
    if not len(following):
        return signal
    k = following[0]
    wrong = x[k] - expected(k, times[k])
    before = observed[times[observed] <= time]
    if not len(before):
        return signal + wrong
    start = times[before[-1]]
    return signal + wrong * (time - start) / (times[k] - start)


@pytest.mark.parametrize(("model", "error"), [(toy(), 1e-12), (embedder(step_size=0.02), 1e-5)])
@pytest.mark.parametrize("seed", range(2))
def test_path_is_as_defined(model, error, seed):
    series = panel(9, seed=seed)
    start, end = series.times[[0, -1]]
    times = np.sort(np.random.default_rng(seed).uniform(start, end + 0.5, 9))
    found = values(model, series, times)
    wanted = [[by_definition(model, series, t, j) for j in (0, 1)] for t in times]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=error)


def test_projection_of_the_path_is_what_the_memory_holds():
    """The whole history is remembered exactly; the path integrals are sums over a fine grid."""
    model, size = embedder("legs", size=8), 8
    series = panel(12, seed=3)
    start, end = series.times[[0, -1]]
    n = 40_000
    u = (np.arange(n) + 0.5) / n
    path = SCALER.transform(values(model, series, start + (end - start) * u))
    basis = np.stack([np.sqrt(2 * k + 1) * eval_legendre(k, 2 * u - 1) for k in range(size)])
    np.testing.assert_allclose(model.coefficients(series)[0], (basis @ path / n).T, atol=1e-6)


def test_reconstruction_comes_closer_with_more_coefficients():
    errors = []
    for size in (4, 16, 64):
        model = embedder(size=size, strength=0.5)
        series = panel(30, seed=1, max_gap=0.3)
        end = series.times[-1]
        times = np.linspace(end - 0.95 * cases.WINDOW, end - 0.05 * cases.WINDOW, 50)
        offsets = np.array([0, 50])
        read = model.past.read_past(model.coefficients(series), series, times, offsets)
        errors.append(np.abs((read - values(model, series, times)) / SCALER.scale).mean())
    assert errors[1] < errors[0] / 3
    assert errors[2] < errors[1] / 3


@pytest.mark.parametrize("measure", ["legt", "legs"])
def test_path_has_no_jumps(measure):
    """Neither at observations of the channel, nor of others, nor where steps meet."""
    model, series = embedder(measure), panel(12, seed=2)
    borders = [series.times]
    for t, gap in zip(series.times[:-1], np.diff(series.times), strict=True):
        n_steps = int(np.ceil(gap / model.exact.step_size))
        borders.append(t + gap * np.arange(1, n_steps) / n_steps)
    borders = np.concatenate(borders)
    left, at, right = (values(model, series, borders + shift) for shift in (-1e-9, 0.0, 1e-9))
    np.testing.assert_allclose(left, at, atol=1e-6)
    np.testing.assert_allclose(right, at, atol=1e-6)
    observed = ~np.isnan(series.values)
    assert (at[: len(series.times)][observed] == series.values[observed]).all()


def test_dynamics_that_stand_still_are_linear_interpolation():
    model = embedder(strength=0.0)
    series = Panel.from_series([([0.0, 1.0, 3.0, 4.0], [[1, None], [None, -1], [3, None], [5, 1]])])
    found = values(model, series, [-5.0, 0.0, 0.5, 1.0, 2.0, 3.5, 4.0, 9.0])
    wanted = [1, 1, 4 / 3, 5 / 3, 7 / 3, 4, 5, 5], [-1, -1, -1, -1, -1 / 3, 2 / 3, 1, 1]
    np.testing.assert_allclose(found.T, wanted, atol=1e-12)


def test_a_channel_that_is_never_observed_is_what_the_model_expects():
    series = Panel.from_series([([0.0, 1.0], [[1, None], [2, None]])])
    model = embedder()
    found = values(model, series, [0.0, 1.0, 2.0])[:, 1]
    assert found[0] == SCALER.mean[1]
    np.testing.assert_allclose(found[2], forecast(model, series, 2.0)[1], atol=1e-12)


def test_far_ahead_the_forecast_is_held():
    series, model = panel(4), embedder()
    far = series.times[-1] + model.exact.max_gap * np.array([1.0, 2.0, 1e6])
    found = values(model, series, far)
    assert np.isfinite(found).all()
    assert np.ptp(found, axis=0).max() == 0.0
    # and in a gap as long as that the memory, too, followed a constant and a ramp
    gap = 3 * model.exact.max_gap
    apart = Panel.from_series([([0.0, gap], [[1.0, 2.0], [3.0, 0.0]])])
    late = values(model, apart, gap * np.array([0.5, 0.75, 1.0]))
    np.testing.assert_allclose(late[1] - late[0], late[2] - late[1], atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(cases.series())
def test_series_do_not_depend_on_each_other(flat):
    if flat[1].shape[1] != 2:
        return
    whole, model = Panel(*flat), embedder()
    times = np.tile(np.linspace(-6, 12, 15), whole.n_series)
    together = model.path_values(whole, times, 15 * np.arange(whole.n_series + 1))
    assert np.isfinite(together).all()
    alone = [values(model, whole[[k]], times[:15]) for k in range(whole.n_series)]
    np.testing.assert_allclose(together, np.concatenate(alone), atol=1e-8)


def test_long_series_are_cut_without_a_trace(monkeypatch):
    """Also where a channel is rarely observed, so that stretches before the parts are long."""
    series = panel(500, 3, 400, missing=0.6, max_gap=0.4)
    hidden = np.random.default_rng(1).random(500) < 0.97
    changed = series.values.copy()
    changed[:500][hidden & ~np.isnan(changed[:500, 0]), 1] = np.nan
    series = series.like(series.times, changed, series.offsets)
    model, cuts = embedder(strength=0.6), []
    times = np.concatenate([np.linspace(s[0][0], s[0][-1], 200) for s in series])
    asked = series, times, 200 * np.arange(4)
    cut = smoother.cut

    def recorded(panel, reach, n_rows):
        parts = cut(panel, reach, n_rows)
        cuts.append(len(parts.start))
        return parts

    monkeypatch.setattr(smoother, "cut", recorded)
    found, errors = model.path_values(*asked), model.residuals(series)[0]
    assert cuts[0] > 10
    monkeypatch.setattr(smoother, "cut", lambda panel, reach, n_rows: cut(panel, np.inf, n_rows))
    np.testing.assert_allclose(found, model.path_values(*asked), atol=1e-7)
    np.testing.assert_allclose(errors, model.residuals(series)[0], atol=1e-7)


@pytest.mark.parametrize("model", [toy(), embedder(step_size=0.01)])
def test_residuals_are_errors_of_forecasts(model):
    series = panel(8, seed=4)
    found, standardised = model.residuals(series)
    assert np.isnan(found[0]).all()
    wanted = [
        series.values[k] - forecast(model, up_to(series, k), series.times[k]) for k in range(1, 8)
    ]
    np.testing.assert_allclose(found[1:], wanted, atol=1e-6)
    np.testing.assert_allclose(standardised, found / SCALER.scale, atol=1e-12)


def test_errors_are_measured_by_the_scale_that_was_expected():
    class Sure(ToyModel):
        def predict(self, state):
            found = super().predict(state)
            return found._replace(log_scale=torch.full_like(found.mean, np.log(0.1)))

    series = panel(8, 5)
    errors = ModelEmbedder(Sure(2, 4), UNITS).residuals(series)
    np.testing.assert_allclose(errors[1], 10 * errors[0] / SCALER.scale, atol=1e-9)
