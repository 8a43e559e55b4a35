"""Back from embeddings to series, into the past and into the future."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpolyode import Panel
from skpolyode.datasets import make_ode_system
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import short_oscillators, small

SERIES = short_oscillators()
IDS = [f"patient {i}" for i in range(12)]


@pytest.fixture(scope="module")
def panel():
    return Panel.from_series(SERIES, ids=IDS, channel_names=["a", "b"])


@pytest.fixture(scope="module")
def fitted(panel):
    return small(window=2.5).fit(panel)


@pytest.fixture(scope="module")
def fine(panel):
    """Many coefficients, so that what is remembered is close to the observations."""
    return small(n_coefficients=24, window=3.0, step_size=0.2, max_epochs=8).fit(panel)


def ends(series=SERIES):
    return np.array([times[-1] for times, _ in series])


def dated(tz, unit="h"):
    start = pd.Timestamp("2024-03-01", tz=tz)
    frames = [
        pd.DataFrame(values, index=start + pd.to_timedelta(times, "h"), columns=["a", "b"])
        for times, values in SERIES
    ]
    return Panel.from_frames(frames, time_unit=unit)


def test_reconstruct_at_own_times(fine, panel):
    back = fine.reconstruct(panel)
    assert back.ids.tolist() == IDS
    assert back.channel_names == ("a", "b")
    kept = [times >= times[-1] - fine.window_ for times, _ in SERIES]
    own = np.concatenate([times[k] for (times, _), k in zip(SERIES, kept, strict=True)])
    np.testing.assert_allclose(back.times, own, atol=1e-12)
    seen = np.concatenate([values[k] for (_, values), k in zip(SERIES, kept, strict=True)])
    assert np.isfinite(back.values).all()
    assert np.nanmean((back.values - seen) ** 2) < 0.05 * np.nanvar(seen)


def test_reconstruct_at_given_times(fitted, panel):
    times = [[end - 1.0, end, end - 2.0, end] for end in ends()]
    back = fitted.reconstruct(panel, times)
    assert back.lengths.tolist() == [4] * 12
    np.testing.assert_array_equal(back.times, np.concatenate(times))
    at = back.values.reshape(12, 4, 2)
    assert_same_but_for_rounding(at[:, 1], at[:, 3])
    # a number more or less asked for does not change the answers
    alone = fitted.reconstruct(panel, [[one[2]] for one in times]).values
    np.testing.assert_allclose(alone, at[:, 2], atol=1e-12)


def test_reconstruct_is_inverse_transform_at_relative_times(fitted, panel):
    ages = np.linspace(0, fitted.window_, 9)
    back = fitted.inverse_transform(fitted.transform(panel), times=-ages[::-1])
    at = fitted.reconstruct(panel, [end - ages[::-1] for end in ends()])
    np.testing.assert_allclose(back.values, at.values, atol=1e-9)
    assert back.channel_names == ("a", "b")
    np.testing.assert_allclose(back.times, np.tile(-ages[::-1], 12))


@pytest.fixture(scope="module")
def motionless(fitted):
    """Dynamics that hold every value, so that all answers are known."""
    transformer = copy.deepcopy(fitted)
    for parameter in transformer.field_.parameters():
        parameter.data.zero_()
    return transformer


@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_a_constant_series_comes_back_exactly(motionless):
    series = [(times, np.full((len(times), 2), [0.7, -1.3])) for times, _ in SERIES]
    ahead = motionless.forecast(series, [4.5, 1e4], combine=False)
    for answer in motionless.reconstruct(series), ahead:
        assert abs(answer.values - [0.7, -1.3]).max() < 1e-12


def test_without_dynamics_the_forecast_is_the_last_value(motionless, panel):
    last = [values[~np.isnan(values[:, 1]), 1][-1] for _, values in SERIES]
    ahead = motionless.forecast(panel, [5.0, 50.0], combine=False).values.reshape(12, 2, 2)
    np.testing.assert_allclose(ahead[:, :, 1], np.transpose([last, last]), atol=1e-12)


def test_a_single_observation_comes_back_exactly(fitted):
    one = [([2.0], [[0.25, -0.5]])]
    back = fitted.reconstruct(one, np.linspace(2 - fitted.window_, 2.0, 5))
    np.testing.assert_allclose(back.values, np.tile([0.25, -0.5], (5, 1)), atol=1e-12)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("tz", [None, "Europe/Oslo"])
def test_times_keep_their_type(tz):
    panel = dated(tz)
    transformer = small().fit(panel)
    back = transformer.reconstruct(panel)
    assert back.time_unit == "h"
    assert back.tz == tz
    index = back.user_times()
    assert isinstance(index, pd.DatetimeIndex)
    assert str(index.tz) == str(tz)
    assert abs(index[-1] - panel.user_times()[-1]) < pd.Timedelta("1us")
    when = panel.user_times()[panel.offsets[1:] - 1]
    queries = [pd.DatetimeIndex([end, end + pd.Timedelta("90min")]) for end in when]
    ahead = transformer.forecast(panel, queries)
    late = ahead.user_times()[1::2] - when - pd.Timedelta("90min")
    assert (abs(late) < pd.Timedelta("1us")).all()
    # the same as with plain numbers of hours since any start
    hours = [([times[-1], times[-1] + 1.5], None)[0] for times, _ in SERIES]
    plain = Panel.from_series(SERIES)
    expected = small().fit(plain).forecast(plain, hours)
    np.testing.assert_allclose(ahead.values, expected.values, atol=1e-3)


@pytest.mark.usefixtures("no_stacking")
def test_the_zone_of_questions_must_match():
    panel = dated("Europe/Oslo")
    transformer = small().fit(panel)
    with pytest.raises(TypeError, match="time zone"):
        transformer.forecast(panel, pd.DatetimeIndex(["2024-03-09"]))


def test_forecast_at_the_last_observation_is_that_observation(fitted, panel):
    ahead = fitted.forecast(panel, [[end] for end in ends()])
    last = np.array([values[-1] for _, values in SERIES])
    seen = ~np.isnan(last)
    np.testing.assert_allclose(ahead.values[seen], last[seen], atol=1e-12)
    assert np.isfinite(ahead.values).all()


def test_forecast_order_of_questions(fitted, panel):
    ahead = fitted.forecast(panel, [9.0, 6.5, 9.0])
    np.testing.assert_array_equal(ahead.times[:3], [9.0, 6.5, 9.0])
    assert_same_but_for_rounding(ahead.values[::3], ahead.values[2::3])
    sorted_ = fitted.forecast(panel, [6.5, 9.0])
    assert_same_but_for_rounding(sorted_.values[::2], ahead.values[1::3])
    # what other times are asked for does not matter
    alone = fitted.forecast(panel, [6.5])
    np.testing.assert_allclose(alone.values, sorted_.values[::2], atol=1e-12)


@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_forecasts_far_ahead_stay_bounded_and_are_held(fitted, panel):
    far = 20 * fitted.window_ + 10
    ahead = fitted.forecast(panel, [far, 2 * far, 1e6]).values.reshape(12, 3, 2)
    standardised = (ahead - fitted.scaler_.mean) / fitted.scaler_.scale
    assert abs(standardised).max() < 20
    np.testing.assert_allclose(ahead[:, 1], ahead[:, 2], atol=1e-9)


def test_forecasts_do_not_depend_on_batch_mates(fitted, panel):
    together = fitted.forecast(panel, [7.0, 8.0]).values.reshape(12, 2, 2)
    alone = fitted.forecast(panel[[5]], [7.0, 8.0]).values
    np.testing.assert_allclose(together[5], alone, atol=1e-9)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize(("window", "n_coefficients"), [(9.0, 16), (20.0, 16)])
def test_arrays_come_back_as_arrays(window, n_coefficients):
    t = np.arange(10.0)
    cube = np.sin(0.5 * t + np.arange(8)[:, None])[..., None] * [1.0, 2.0]
    transformer = small(n_coefficients=n_coefficients, window=window, max_epochs=10).fit(cube)
    back = transformer.inverse_transform(transformer.transform(cube))
    assert back.shape == cube.shape
    assert ((back - cube) ** 2).mean() < 0.05 * cube.var()
    flat = small(n_coefficients=n_coefficients, window=window, max_epochs=10).fit(cube[..., 0])
    back = flat.inverse_transform(flat.transform(cube[..., 0]))
    assert back.shape == (8, 10)
    assert ((back - cube[..., 0]) ** 2).mean() < 0.05 * cube[..., 0].var()
    assert flat.inverse_transform(flat.transform(cube[..., 0]), times=[-1.5, 0]).shape == (8, 2)


@pytest.mark.usefixtures("no_stacking")
def test_an_array_longer_than_the_window_needs_times():
    rng = np.random.default_rng(0)
    transformer = small(window=4.0).fit(rng.normal(size=(6, 10)))
    Z = transformer.transform(rng.normal(size=(3, 10)))
    with pytest.raises(ValueError, match=r"reaches back window_=4, but.*9 long"):
        transformer.inverse_transform(Z)
    assert transformer.inverse_transform(Z, times=[-4.0, 0.0]).shape == (3, 2)


def test_times_outside_are_refused(fitted, panel):
    early = 1.001 * fitted.window_
    Z = fitted.transform(panel)
    questions = [[end - 0.5] for end in ends()]
    with pytest.raises(ValueError, match=r"'patient 3': .*outside.*longer window"):
        fitted.reconstruct(panel, [*questions[:3], [ends()[3] - early], *questions[4:]])
    with pytest.raises(ValueError, match=r"'patient 4': .*outside.*are for forecast"):
        fitted.reconstruct(panel, [*questions[:4], [ends()[4] + 0.1], *questions[5:]])
    with pytest.raises(ValueError, match=rf"-{early:.4g}.*outside.*longer window"):
        fitted.inverse_transform(Z, times=[-early])
    with pytest.raises(ValueError, match="are for forecast"):
        fitted.inverse_transform(Z, times=[0.5])
    with pytest.raises(ValueError, match="times must be finite, got a missing time"):
        fitted.inverse_transform(Z, times=[np.nan])
    with pytest.raises(
        ValueError, match=r"'patient 0': 3.15.* 0.5 before its .*reconstruct read the past"
    ):
        fitted.forecast(panel, questions)
    with pytest.raises(ValueError, match="one for each of the 12"):
        fitted.forecast(panel, [[9.0], [9.0]])


@pytest.mark.usefixtures("no_stacking")
def test_times_outside_are_named_as_the_user_knows_them():
    days = pd.DatetimeIndex(["2024-01-01", "2024-01-03", "2024-01-04 12:00"])
    series = [(days, [1.0, 3.0, 2.0])] * 2
    panel = Panel.from_series(series, ids=[30, 31], time_unit="D")
    fitted = small(window=2.0).fit(panel)
    with pytest.raises(
        ValueError, match=r"series 30: 2024-01-04 00:00:00, 0\.5 D before its last observation"
    ):
        fitted.forecast(panel, days[[2]].floor("D"))
    # Plain numbers would count from 1970, which hardly anybody means.
    for ask in (fitted.forecast, fitted.reconstruct):
        with pytest.raises(TypeError, match=r"must be datetimes, .*unit='D'\)"):
            ask(panel, [1.5])
    with pytest.raises(
        ValueError, match=r"series 31: 2024-01-05 00:00:00, 0\.5 D relative .* are for forecast"
    ):
        fitted.reconstruct(panel, [days[[2]], pd.DatetimeIndex(["2024-01-05"])])


@pytest.mark.usefixtures("no_stacking")
def test_wrong_embeddings_are_refused(fitted, panel):
    with pytest.raises(ValueError, match="X has 5 features, but PolyODETransformer embeds in 26"):
        fitted.inverse_transform(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="one-dimensional and not empty"):
        fitted.inverse_transform(fitted.transform(panel), times=[])
    hidden = small(embedding="hidden").fit(panel)
    with pytest.raises(ValueError, match=r"embedding='hidden' holds no coefficients"):
        hidden.inverse_transform(hidden.transform(panel))
    assert hidden.reconstruct(panel).shape == (12,)  # which has no need of the embedding


def test_columns_of_embeddings_are_matched_by_name(fitted, panel):
    names = fitted.get_feature_names_out()
    frame = pd.DataFrame(fitted.transform(panel), index=IDS, columns=names)
    expected = fitted.inverse_transform(frame.to_numpy())
    for X in (frame, frame[names[::-1]], pl.DataFrame(frame)[names[::-1].tolist()]):
        back = fitted.inverse_transform(X)
        np.testing.assert_array_equal(back.values, expected.values)
        assert back.ids.tolist() == (IDS if isinstance(X, pd.DataFrame) else list(range(12)))
    counted = fitted.inverse_transform(frame.set_axis(range(len(names)), axis=1))
    np.testing.assert_array_equal(counted.values, expected.values)
    with pytest.raises(ValueError, match=r"lacks the features \['a_c0'\] .*names should match"):
        fitted.inverse_transform(frame.rename(columns={"a_c0": "z"}))


def test_distance_of_embeddings_is_distance_of_histories(fitted, panel):
    coefficients = fitted.transform(panel)[:, :12]
    x, w = np.polynomial.legendre.leggauss(20)
    times = (x - 1) / 2 * fitted.window_
    back = fitted.inverse_transform(fitted.transform(panel), times=times)
    histories = (back.values - fitted.scaler_.mean) / fitted.scaler_.scale
    histories = histories.reshape(12, 20, 2)
    squares = ((histories[0] - histories[1]) ** 2).sum(axis=1) @ w / 2
    assert np.sqrt(squares) == pytest.approx(np.linalg.norm(coefficients[0] - coefficients[1]))


@pytest.mark.usefixtures("no_stacking")
def test_observations_of_a_real_system_come_back():
    data = make_ode_system("damped_pendulum", 12, rate=0.15, random_state=0)
    transformer = small(n_coefficients=12, max_epochs=10).fit(data.panel)
    back = transformer.reconstruct(data.panel)
    pairs = zip(data.panel, back, strict=True)
    errors = [
        one.values[np.isin(one.times, two.times)] - two.values[np.isin(two.times, one.times)]
        for one, two in pairs
    ]
    assert np.mean(np.concatenate(errors) ** 2) < 0.1 * data.panel.values.var()
