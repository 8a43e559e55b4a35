"""Estimators that are told the errors of observations."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.polynomial import legendre

import skpolyode
from skpolyode import HiPPOTransformer, LegendreFitTransformer, Panel, SummaryStatsTransformer
from skpolyode.embedders import ChannelScaler
from skpolyode.parquet import sample_dataset
from tests.transformers.data import small

RNG = np.random.default_rng(0)
N_SERIES, LENGTH = 12, 12
TIMES = np.sort(RNG.uniform(0, 6, (N_SERIES, LENGTH)))
CLEAN = np.sin(TIMES + np.arange(N_SERIES)[:, None])
SIGMA = 10 ** RNG.uniform(-1.2, -0.2, CLEAN.shape)
NOISY = CLEAN + SIGMA * RNG.normal(size=CLEAN.shape)
OFFSETS = np.arange(N_SERIES + 1) * LENGTH


def panel(errors=SIGMA, values=NOISY) -> Panel:
    errors = None if errors is None else np.broadcast_to(errors, NOISY.shape).ravel()
    return Panel(TIMES.ravel(), values.ravel(), OFFSETS, errors=errors)


@pytest.fixture(scope="module")
def told():
    return small(max_epochs=3).fit(panel())


@pytest.fixture(scope="module")
def untold():
    return small(max_epochs=3, observations="noisy").fit(panel(None))


def test_errors_make_a_filter_that_comes_nearer_to_the_signal(told, untold):
    error, other = (
        np.sqrt(np.mean((model.interpolate(own).values.ravel() - CLEAN.ravel()) ** 2))
        for model, own in ((told, panel()), (untold, panel(None)))
    )
    assert error < other / 1.2
    assert small(observations="exact", max_epochs=1).fit(panel()).noise_ is None


def test_equal_errors_are_the_noise_and_a_path_stays_the_nearer_the_smaller_they_are():
    off = []
    for error in (0.02, 0.8):
        own = panel(error)[:6]
        model = small(max_epochs=2).fit(own)
        np.testing.assert_allclose(model.noise_, error, rtol=1e-6)
        off.append(np.mean((model.interpolate(own).values - own.values) ** 2))
    assert off[0] < 0.2 * off[1]


def test_a_hopeless_cell_is_as_if_it_were_not_there(told):
    values, errors, kept = NOISY.copy(), SIGMA.copy(), np.ones(NOISY.size, dtype=bool)
    values[0, 4], errors[0, 4], kept[4] = 7.0, 1e9, False
    without = Panel(
        TIMES.ravel()[kept],
        NOISY.ravel()[kept],
        np.append(0, OFFSETS[1:] - 1),
        errors=SIGMA.ravel()[kept],
    )
    with_it = panel(errors, values)
    np.testing.assert_array_equal(told.transform(with_it), told.transform(without))
    at = [0.5, 2.0, 9.0]
    one, other = (told.interpolate(x, at).values for x in (with_it, without))
    np.testing.assert_array_equal(one, other)
    one, other = (
        LegendreFitTransformer(n_coefficients=8).fit(x).transform(x) for x in (with_it, without)
    )
    np.testing.assert_allclose(one, other, atol=1e-12)


@pytest.mark.parametrize("row", [0, 7])
def test_a_vague_cell_moves_next_to_nothing_wherever_it_is(told, row):
    values, errors = NOISY.copy(), SIGMA.copy()
    values[:, row] += 100.0
    errors[:, row] = 50.0
    moved, wanted = told.transform(panel(errors, values)), told.transform(panel())
    assert np.linalg.norm(moved - wanted) < 0.3 * np.linalg.norm(wanted)
    paths = [told.interpolate(x).values for x in (panel(errors, values), panel())]
    assert np.sqrt(np.mean((paths[0] - paths[1]) ** 2)) < 0.15


def test_an_exact_cell_is_met(told):
    errors = SIGMA.copy()
    errors[:, 10] = 0.0
    path = told.interpolate(panel(errors), list(TIMES[:, [10]])).values
    np.testing.assert_allclose(path.ravel(), NOISY[:, 10], atol=1e-6)


def test_errors_of_zero_are_exact_observations():
    model = small(max_epochs=2).fit(panel(0.0))
    assert model.noise_ is None
    np.testing.assert_array_equal(model.interpolate(panel(0.0)).values.ravel(), NOISY.ravel())


def test_units_do_not_matter(told):
    times, values = 60 * TIMES.ravel(), 7 * NOISY.ravel() - 3
    other = Panel(times, values, OFFSETS, errors=7 * SIGMA.ravel())
    model = small(max_epochs=3).fit(other)
    np.testing.assert_allclose(model.noise_, 7 * told.noise_, rtol=1e-3)
    at = np.linspace(0.5, 5, 7)
    here, there = told.interpolate(panel(), at).values, model.interpolate(other, 60 * at).values
    np.testing.assert_allclose((there + 3) / 7, here, atol=2e-3)


def test_what_is_left_of_the_error_follows_the_cells(told):
    """At a precise observation less than at a vague one."""
    std = told.interpolate_std(panel()).values.ravel()
    vague = SIGMA.ravel() > 0.4
    assert std[vague].mean() > 1.3 * std[SIGMA.ravel() < 0.1].mean()
    assert (std < 1.001 * SIGMA.ravel() + 1e-6).mean() > 0.5


def test_streams_are_told_as_well(told, tmp_path):
    own, owner = panel(), np.repeat(np.arange(N_SERIES), LENGTH)
    stream = told.stream(N_SERIES).update(own.times, own.values, owner, errors=own.errors)
    one = told.stream(1)
    for t, x, e in zip(TIMES[0], NOISY[0], SIGMA[0], strict=True):
        one.update(t, x, errors=e)
    wanted = told.transform(own)
    np.testing.assert_allclose(stream.embedding(), wanted, atol=1e-7)
    np.testing.assert_allclose(one.embedding(), wanted[:1], atol=1e-7)
    resumed = told.stream(own)
    resumed.save(tmp_path / "stream")
    resumed = skpolyode.load(tmp_path / "stream")
    new = np.full(N_SERIES, 7.0), np.zeros(N_SERIES)
    for follower in (stream, resumed):
        follower.update(*new, errors=np.linspace(0, 1, N_SERIES))
    np.testing.assert_allclose(stream.embedding(), resumed.embedding(), atol=1e-7)
    ahead = [7.5, 8.0]
    one, other = (s.forecast_std(ahead).values for s in (stream, resumed))
    np.testing.assert_allclose(one, other, atol=1e-6)
    with pytest.raises(ValueError, match=r"series 0 .*, channel 'x0', time 9: .* -1.*of 0 or more"):
        resumed.update(9.0, [1.0], series=0, errors=[-1.0])
    with pytest.raises(ValueError, match="2 errors for 1 rows of values: give one for each row"):
        resumed.update(9.0, [[1.0]], series=0, errors=[[1.0], [2.0]])


def test_streams_know_as_much_of_a_channel_that_was_never_observed():
    values, errors = (
        np.stack([NOISY.ravel(), NOISY.ravel() ** 2], 1),
        np.stack([SIGMA.ravel()] * 2, 1),
    )
    for cells in (values, errors):
        cells[:LENGTH, 1] = np.nan
    own = Panel(TIMES.ravel(), values, OFFSETS, errors=errors)[:6]
    model = small(max_epochs=1).fit(own)
    ahead = [0.5, 2.0]
    found = model.stream(own).forecast_std(ahead, relative_to="end").values
    wanted = model.interpolate_std(own, ahead, relative_to="end").values
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_unknown_errors_are_learned():
    """Half of the cells have no error; their noise is found to be about what it is."""
    errors = SIGMA.copy()
    values = NOISY.copy()
    errors[:, ::2] = np.nan
    values[:, ::2] = CLEAN[:, ::2] + 0.3 * RNG.normal(size=CLEAN[:, ::2].shape)
    model = small(max_epochs=10).fit(panel(errors, values))
    assert 0.1 < model.noise_[0] < 0.6


def test_they_are_saved(told, tmp_path):
    told.save(tmp_path / "model")
    again = skpolyode.load(tmp_path / "model")
    np.testing.assert_array_equal(again.transform(panel()), told.transform(panel()))
    std = told.interpolate_std(panel()).values
    np.testing.assert_array_equal(again.interpolate_std(panel()).values, std)


def test_legendre_fit_is_weighted_least_squares():
    """Against numpy's, with weights 1 / sigma; without a penalty the scale does not matter."""
    model = LegendreFitTransformer(n_coefficients=5, alpha=0.0, window=6.0).fit(panel())
    found = model.reconstruct(panel()).values.reshape(NOISY.shape)
    for t, x, s, own in zip(TIMES, NOISY, SIGMA, found, strict=True):
        y = 2 * (t - t[-1]) / 6 + 1
        wanted = legendre.legval(y, legendre.legfit(y, x, 4, w=1 / s))
        np.testing.assert_allclose(own, wanted, atol=1e-8)
    penalised = LegendreFitTransformer(n_coefficients=5, alpha=1e-3, window=6.0).fit(panel())
    equal = panel(0.2)
    plain = LegendreFitTransformer(n_coefficients=5, alpha=1e-3, window=6.0).fit(panel(None))
    assert np.abs(penalised.transform(panel()) - plain.transform(panel(None))).max() > 1e-3
    again = (
        LegendreFitTransformer(n_coefficients=5, alpha=1e-3, window=6.0).fit(equal).transform(equal)
    )
    np.testing.assert_allclose(again, plain.transform(panel(None)), atol=1e-12)


def test_an_exact_value_is_met_by_least_squares():
    errors = SIGMA.copy()
    errors[:, 10] = 0.0
    own = panel(errors)
    found = LegendreFitTransformer(n_coefficients=6, alpha=1e-5).fit(own).reconstruct(own).values
    np.testing.assert_allclose(found.reshape(NOISY.shape)[:, 10], NOISY[:, 10], atol=1e-3)


def test_means_by_inverse_variances():
    model = SummaryStatsTransformer().fit(panel())
    names = model.get_feature_names_out().tolist()
    found = dict(zip(names, model.transform(panel()).T, strict=True))
    weights = SIGMA**-2.0
    np.testing.assert_allclose(
        found["x0_weighted_mean"], (weights * NOISY).sum(axis=1) / weights.sum(axis=1)
    )
    np.testing.assert_allclose(found["x0_mean"], NOISY.mean(axis=1))
    column = names.index("x0_weighted_mean")
    np.testing.assert_allclose(model.transform(panel(None))[:, column], NOISY.mean(axis=1))
    assert (
        "x0_weighted_mean" not in SummaryStatsTransformer().fit(panel(None)).get_feature_names_out()
    )


def test_scales_are_not_those_of_hopeless_cells():
    values, errors = RNG.normal(size=(5000, 1)), np.full((5000, 1), 0.1)
    values[::2] += 50 * RNG.normal(size=(2500, 1))
    errors[::2] = 50.0
    scaler = ChannelScaler.of(values, errors=errors)
    assert scaler.scale[0] < 1.6  # that of the signal is 1
    assert ChannelScaler.of(values).scale[0] > 30


def test_those_that_do_not_use_them_say_so():
    with pytest.warns(UserWarning, match="HiPPOTransformer do not depend on the known errors"):
        HiPPOTransformer(n_coefficients=4).fit(panel())


def test_parquet_reads_them(tmp_path):
    panel().to_long().to_parquet(tmp_path / "rows.parquet")
    found = sample_dataset(tmp_path / "rows.parquet", error="x0_error", random_state=0)
    np.testing.assert_array_equal(found.errors, panel().errors)
    assert found.channel_names == ("x0",)
