"""How far off paths and memories may be, of observations that are taken at their word."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial.legendre import leggauss

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.embedders import variance
from skpolyode.panel.select import observed_part
from tests.closeness import assert_same_but_for_rounding
from tests.quick import few_variance_steps, no_stacking
from tests.transformers.data import short_oscillators, small

SERIES = short_oscillators(8)  # two channels, observed apart


def knowing(series=SERIES, **parameters):
    return small(**parameters).fit(series).learn_std(series)


@pytest.fixture(scope="module", autouse=True)
def quick():
    with few_variance_steps(), no_stacking():
        yield


@pytest.fixture(scope="module")
def fitted():
    return knowing()


@pytest.fixture(scope="module")
def panel():
    return Panel.from_series(SERIES)


def test_it_vanishes_where_a_channel_was_observed_and_nowhere_else(fitted, panel):
    own = fitted.interpolate_std(panel).values
    known = np.isfinite(panel.values)
    np.testing.assert_array_equal(own[known], 0.0)
    assert (own[~known] > 0).all()
    ends = np.array([t[-1] for t, _ in SERIES])
    ahead = fitted.interpolate_std(panel, np.array([0.1, 1.0, 3.0]), relative_to="end").values
    assert (np.diff(ahead.reshape(len(ends), 3, 2), axis=1) > 0).all()
    early = fitted.interpolate_std(panel, np.array([-2.0, -1.0]), relative_to="start").values
    assert (early.reshape(len(ends), 2, 2)[:, 0] > early.reshape(len(ends), 2, 2)[:, 1]).all()


def test_the_model_stays_as_it_is_and_the_answer_does_not_depend_on_chance(fitted):
    model = small().fit(SERIES)
    before = model.transform(SERIES)
    assert not hasattr(model, "reconstruct_std")
    assert model.learn_std(SERIES) is model
    np.testing.assert_array_equal(model.transform(SERIES), before)
    first = model.reconstruct_std(SERIES).values
    np.testing.assert_array_equal(model.learn_std(SERIES).reconstruct_std(SERIES).values, first)
    assert_same_but_for_rounding(fitted.transform(SERIES), before)


def test_a_constant_deviation_is_remembered_as_that_constant(fitted, monkeypatch):
    """The memory of a constant is (constant, 0, 0, ...), and a straight path misses nothing."""
    scale, rows = fitted.scaler_.scale, np.linspace(0, 2, 5)
    series = [(rows, np.full((5, 2), 0.5))]
    monkeypatch.setattr(
        variance, "path_std", lambda *asked: np.full((len(asked[2]), 2), 0.3) * scale
    )
    monkeypatch.setattr(variance, "path_values", lambda *asked: np.full((len(asked[2]), 2), 0.5))
    monkeypatch.setattr(
        type(fitted.embedder_),
        "coefficients_of",
        lambda self, states: (
            ((0.5 - self.units.scaler.mean) / scale)[None, :, None]
            * np.eye(self.past.n_coefficients)[0]
        ),
    )
    found = fitted.reconstruct_std(series, np.linspace(0.5, 2, 7)).values
    np.testing.assert_allclose(found, np.tile(0.3 * scale, (7, 1)), rtol=1e-9)


def test_coefficients_are_those_of_the_projection():
    """Of "legs", whose memory is the projection: integrals over the history, by quadrature."""
    model = knowing(measure="legs")
    t, x = SERIES[0]
    rows = t[~np.isnan(x).all(axis=1)]
    node, weight = leggauss(12)
    half = np.diff(rows)[:, None] / 2
    at = (rows[:-1, None] + half * (1 + node)).ravel()
    share = (half * weight).ravel() / (rows[-1] - rows[0])
    std = model.interpolate_std(SERIES[:1], at).values
    missed = model.interpolate(SERIES[:1], at).values - model.reconstruct(SERIES[:1], at).values
    deviation = np.hypot(std, missed) / model.scaler_.scale
    size = model.n_coefficients
    position = 2 * (at - rows[0]) / (rows[-1] - rows[0]) - 1
    basis = np.polynomial.legendre.legvander(position, size - 1) * np.sqrt(2 * np.arange(size) + 1)
    wanted = (deviation * share[:, None]).T @ basis
    panel = observed_part(Panel.from_series(SERIES[:1]))
    found = variance.std_coefficients(model.embedder_, panel)[0]
    np.testing.assert_allclose(found, wanted, atol=0.02 * wanted[:, 0].max())


def test_series_do_not_depend_on_their_company(fitted):
    whole = fitted.reconstruct_std(SERIES)
    for k in (0, 5):
        alone = fitted.reconstruct_std(SERIES[k : k + 1])
        np.testing.assert_allclose(alone.values, whole[k].values, atol=1e-6)


def test_units_do_not_matter(fitted):
    scale, shift = np.array([7.0, 0.25]), np.array([-3.0, 40.0])
    moved = [(60 * t, x * scale + shift) for t, x in SERIES]
    other, times = knowing(moved), np.array([-1.5, -0.7, -0.2])
    here = fitted.reconstruct_std(SERIES, times, relative_to="end").values
    there = other.reconstruct_std(moved, 60 * times, relative_to="end").values
    np.testing.assert_allclose(there, here * scale, rtol=0.05, atol=1e-3 * scale.min())


def test_it_is_saved(fitted, tmp_path):
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.transform(SERIES), fitted.transform(SERIES))
    std = fitted.reconstruct_std(SERIES).values
    np.testing.assert_array_equal(again.reconstruct_std(SERIES).values, std)


@pytest.mark.parametrize("observations", ["exact", "noisy"])
def test_a_stream_knows_how_far_off_its_free_runs_may_be(observations):
    """As the transformer does, also of a channel that was never observed."""
    fitted = knowing(observations=observations)
    series = [*SERIES[:3], (SERIES[3][0], np.where([True, False], SERIES[3][1], np.nan))]
    stream, ahead = fitted.stream(4), np.array([0.0, 0.4, 2.0])
    for k, (times, values) in enumerate(series):
        stream.update(times, values, k)
    found = stream.forecast_std(ahead, relative_to="end").values
    wanted = fitted.interpolate_std(series, ahead, relative_to="end").values
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    run = stream.forecast(ahead, relative_to="end", combine=False).values
    path = fitted.interpolate(series, ahead, relative_to="end").values
    np.testing.assert_allclose(run, path, rtol=1e-6)  # what it is the deviation of
    one = stream.forecast_std(ahead, series=2, relative_to="end").values
    np.testing.assert_allclose(one, found[6:9], rtol=1e-5)  # in float32, of another batch
    with pytest.raises(AttributeError) as caught:
        small().fit(SERIES).stream(1).forecast_std([0.1])
    assert "call learn_std(X) on the fitted transformer" in str(caught.value.__cause__)
    with pytest.raises(ValueError, match="before its last observation"):
        stream.forecast_std([-1.0], relative_to="end")


def test_a_deviation_needs_forecasts():
    with pytest.raises(ValueError, match=r"no series has two rows .* give longer series"):
        small().fit(SERIES).learn_std([(t[:1], x[:1]) for t, x in SERIES])


def test_more_training_makes_it_unknown():
    model = small().fit(SERIES).learn_std(SERIES)
    assert hasattr(model, "interpolate_std")
    assert not hasattr(model.fit(SERIES), "interpolate_std")
    assert hasattr(small(observations="noisy").fit(SERIES).fit(SERIES), "interpolate_std")


def test_wild_values_and_gaps_do_not_break_it(fitted):
    """A reading of 1e90, three rows from 1e-9 to 1e12 apart, times far before and after."""
    t, x = SERIES[0][0], np.nan_to_num(SERIES[0][1])
    x[5] = 1e90
    wild = [(t, x), (np.array([0.0, 1e-9, 1e12]), x[:3])]
    with pytest.warns(UserWarning, match=r"1e\+90 is far from all others"):
        assert np.isfinite(fitted.reconstruct_std(wild, [-0.5, 0.0], "end").values).all()
    with pytest.warns(UserWarning, match="far from all others"):
        std = fitted.interpolate_std(wild, [-1e9, 2.0, 0.5e12, 2e12]).values
    assert np.isfinite(std).all()
    assert (std > 0).all()


def test_what_is_remembered_is_never_certain():
    """Polynomials of small deviations swing below 0, where errors are as elsewhere."""
    sines = [(t, np.sin(2 * t)[:, None]) for t, _ in SERIES]
    model = PolyODETransformer(n_coefficients=20, max_epochs=6, random_state=0)
    model = model.fit(sines).learn_std(sines)
    times = np.linspace(-min(t[-1] - t[0] for t, _ in sines) / 2, 0.0, 200)
    std = model.reconstruct_std(sines, times, relative_to="end").values.reshape(len(sines), -1)
    assert (std.min(axis=1) > 0.02 * np.sqrt((std**2).mean(axis=1))).all()
