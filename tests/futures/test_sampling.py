"""Sampled futures of fitted transformers and forecasters."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skpolyode import Panel, PolyODETransformer, load
from skpolyode.ensemble import stacking
from skpolyode.ensemble.conformal import Calibration
from skpolyode.ensemble.members import Members
from skpolyode.ensemble.stacking import Backtest
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.futures import SamplePaths
from skpolyode.futures.continued import Ahead
from skpolyode.futures.spread import N_PREDICTORS

START = pd.Timestamp("2024-03-01", tz="Europe/Berlin")
COLUMNS = ["status", "probability", "standard_error", "earliest", "median", "latest"]


def walks(n_series: int, seed: int, n_rows: int = 30) -> Panel:
    """Random walks with drift in two channels at irregular times; a fifth of the cells is missing.

    A third channel is never observed.
    """
    rng, series = np.random.default_rng(seed), []
    for _ in range(n_series):
        t = np.cumsum(0.1 + 0.9 * rng.exponential(size=n_rows)).round(3)
        steps = rng.normal(0.3, 1.0, (n_rows, 2)) * np.sqrt(np.diff(t, prepend=0))[:, None]
        x = np.column_stack([steps.cumsum(axis=0), np.full(n_rows, np.nan)])
        x[1:-1][rng.random((n_rows - 2, 3)) < 0.2] = np.nan
        series.append((t, x))
    return Panel.from_series(series, channel_names=["u", "v", "w"])


def dated(panel: Panel) -> Panel:
    """The same with times in hours."""
    hours = [(START + pd.to_timedelta(t, unit="h"), x) for t, x in panel.to_series()]
    return Panel.from_series(hours, channel_names=panel.channel_names, time_unit="h")


@pytest.fixture(scope="module")
def transformer() -> PolyODETransformer:
    model = PolyODETransformer(n_coefficients=4, max_epochs=2, random_state=0)
    with pytest.warns(UserWarning, match="never observed"):
        return model.fit(walks(24, seed=0))


@pytest.fixture(scope="module")
def forecaster() -> PolyODEForecaster:
    small = PolyODETransformer(n_coefficients=4, max_epochs=2, observations="exact")
    with pytest.warns(UserWarning, match="never observed"):
        return PolyODEForecaster(small, random_state=0).pretrain(walks(24, seed=0))


@pytest.fixture(params=["transformer", "forecaster"])
def model(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def others() -> Panel:
    return walks(5, seed=1)


def test_samples_are_around_the_forecast_and_start_where_it_is_known(model, others):
    times = [0.0, 1e-6, 1.0, 4.0]
    paths = model.sample_paths(others, times, "end", n_samples=300, random_state=0)
    assert paths.values.shape == (5, 300, 4, 3)
    forecast = model.forecast(others, times[1:], "end").values
    later = paths.forecast.values.reshape(5, 4, 3)[:, 1:].reshape(-1, 3)
    np.testing.assert_allclose(later, forecast, atol=1e-5)
    last = others.values[others.offsets[1:] - 1]
    np.testing.assert_allclose(paths.values[:, :, 0, :2], last[:, None, :2].repeat(300, axis=1))
    spread = paths.values.std(axis=1)
    assert (spread[:, 1, :2] < 0.01).all()
    assert (np.diff(spread[..., :2], axis=1) > 0).all()


def test_a_question_follows_the_series_once(model, others, monkeypatch):
    """Forecasts and the errors that are expected of them know the same."""
    model.sample_paths(others, [1.0], "end", n_samples=2)  # learns at first how to combine
    known_at, calls = Members.known_at, []

    def counted(self, *args):
        calls.append(self)
        return known_at(self, *args)

    monkeypatch.setattr(Members, "known_at", counted)
    model.sample_paths(others, [1.0, 4.0], "end", n_samples=10, random_state=0)
    assert len(calls) == 1


def test_samples_and_intervals_agree(model, others):
    times = [1.0, 2.5, 6.0]
    lower, upper = model.forecast_interval(others, times, 0.8, "end")
    samples = model.sample_paths(others, times, "end", n_samples=500, random_state=0).samples
    ends = lower.values[:, None, :2], upper.values[:, None, :2]
    inside = ((ends[0] <= samples[..., :2]) & (samples[..., :2] <= ends[1])).mean(axis=1)
    np.testing.assert_allclose(inside, 0.8, atol=0.04)


def test_intervals_cover_what_comes(model):
    """Of other series, near and far ahead; they are around the forecast, and wider further on."""
    panel = walks(150, seed=5, n_rows=36)
    rows = [np.arange(*ends) for ends in zip(panel.offsets[:-1], panel.offsets[1:], strict=True)]
    known = Panel.from_series(
        [(panel.times[r[:24]], panel.values[r[:24]]) for r in rows], channel_names=["u", "v", "w"]
    )
    times, actual = ([x[r[24:]] for r in rows] for x in (panel.times, panel.values[:, :2]))
    found = model.forecast_quantiles(known, times, [0.05, 0.5, 0.95])
    lower, middle, upper = (own.values[:, :2] for own in found.values())
    actual = np.concatenate(actual)
    inside = ((lower <= actual) & (actual <= upper))[~np.isnan(actual)]
    assert inside.mean() == pytest.approx(0.9, abs=0.05)
    np.testing.assert_allclose(middle, model.forecast(known, times).values[:, :2], rtol=1e-9)
    np.testing.assert_allclose((lower + upper) / 2, middle, atol=1e-9)
    widths = (upper - lower).reshape(150, 12, 2)
    assert (widths[:, -1] > 1.5 * widths[:, 0]).all()


def test_quantiles_start_at_what_is_known_and_are_of_each_series(transformer, others):
    levels, times = [0.05, 0.5, 0.95], [0.0, 1e-6, 2.0]
    whole = transformer.forecast_quantiles(others, times, levels, "end")
    last = others.values[others.offsets[1:] - 1, :2]
    for own in whole.values():
        values = own.values.reshape(5, 3, 3)[..., :2]
        np.testing.assert_allclose(values[:, 0], last, atol=1e-12)
        np.testing.assert_allclose(values[:, 1], last, atol=0.05)
    empty = [*others.to_series()[3:], ([0.0], np.full((1, 3), np.nan))]
    empty = Panel.from_series(empty, channel_names=others.channel_names, empty="keep")
    some = transformer.forecast_quantiles(empty, times, levels, "end")
    for level in levels:
        np.testing.assert_allclose(some[level].values[:6], whole[level].values[9:], atol=1e-9)
        assert np.isnan(some[level].values[6:]).all()
    with pytest.raises(ValueError, match="before its last observation"):
        transformer.forecast_interval(others, [-1.0], relative_to="end")


def test_samples_are_around_what_is_usual_and_intervals_around_means():
    """Errors of 2 in two of ten forecasts and of -0.5 in the others: their median is -0.5."""
    rng, m = np.random.default_rng(0), 2000
    wrong = np.where(rng.random((m, 1)) < 0.2, 2.0, -0.5) + 0.01 * rng.standard_normal((m, 1))
    leads, series = np.ones((m, 1)), np.arange(m) // 4
    predictors, origin = np.zeros((m, 1, N_PREDICTORS)), np.arange(m)
    forecasts = rng.standard_normal((m, 1))
    found = Calibration.learn(leads, wrong, series, leads[:, 0], predictors, origin, forecasts)
    ahead = Ahead(
        np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1, N_PREDICTORS)), np.ones((1, 1))
    )
    samples = found.sample(ahead, found.draw(500, np.random.RandomState(0)), 0)
    assert np.median(samples) == pytest.approx(-0.5, abs=0.05)
    ends = [found.quantile(ahead, alpha).item() for alpha in (0.05, 0.95)]
    np.testing.assert_allclose(ends, [-2.0, 2.0], atol=0.05)
    plain = Calibration.learn(leads, wrong, series, leads[:, 0], predictors, origin)
    assert ends == [plain.quantile(ahead, alpha).item() for alpha in (0.05, 0.95)]


def test_few_series_have_samples_too():
    small = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    few = Panel.from_series([(t, x[:, :2]) for t, x in walks(3, seed=2).to_series()])
    times = [1.0, 2.5]
    model = PolyODEForecaster(small).pretrain(few)
    lower, upper = model.forecast_interval(few, times, 0.8, "end")
    samples = model.sample_paths(few, times, "end", n_samples=500, random_state=0).samples
    inside = (samples >= lower.values[:, None]) & (samples <= upper.values[:, None])
    np.testing.assert_allclose(inside.mean(axis=1), 0.8, atol=0.05)
    samples = model.transformer_.fit(few).sample_paths(few, times, "end").samples
    assert (samples.std(axis=1) > 0).all()


def test_an_answer_depends_on_its_own_series_and_time_only(model, others):
    times, options = [0.5, 1.0, 3.0], {"relative_to": "end", "random_state": 3}
    whole = model.sample_paths(others, times, **options)
    order = [3, 0, 4]
    own = model.sample_paths(others[order], times, **options)
    np.testing.assert_allclose(own.values, whole.values[order], atol=1e-9)
    one = model.sample_paths(others, [1.0], **options).values
    np.testing.assert_allclose(one[:, :, 0], whole.values[:, :, 1], atol=1e-9)
    each = model.sample_paths(others, [[1.0], [0.5, 1.0], [1.0], [1.0], [1.0]], **options)
    np.testing.assert_allclose(each[1], whole[1][:, :2], atol=1e-9)
    table, options = model.crossing_times(others, 5.0, 8.0, "end", channel="u"), {"channel": "u"}
    part = model.crossing_times(others[order], 5.0, 8.0, "end", **options)
    assert list(part["status"]) == list(table["status"].iloc[order])
    np.testing.assert_allclose(part["earliest"], table["earliest"].iloc[order])


def test_crossings_are_those_of_the_samples(model, others):
    last = others.values[others.offsets[1:] - 1, 0]
    end = others.times[others.offsets[1:] - 1]
    line, grid = last.max() + 1.0, np.linspace(0, 8.0, 400)
    table = model.crossing_times(others, line, end + 8.0, channel="u", random_state=0)
    options = {"n_samples": 500, "random_state": 0}
    paths = model.sample_paths(others, grid, "end", **options)
    highest = paths.extremes("above", "u")
    np.testing.assert_allclose(table["probability"], (highest >= line).mean(axis=1), atol=0.04)
    assert list(table.columns) == COLUMNS
    assert not table.isna().to_numpy().any()
    assert list(table["status"]) == [
        "crosses" if p >= 0.5 else "censored" for p in table.probability
    ]
    assert (table["earliest"] <= table["median"]).all()
    assert (table["median"] <= table["latest"]).all()
    censored = (table["status"] == "censored").to_numpy()
    np.testing.assert_array_equal(table["median"][censored], (end + 8.0)[censored])


def test_how_far_one_looks_changes_no_crossing_before(model, others):
    near, far = (
        model.crossing_times(others, 8.0, until, "end", channel="v", coverage=0.5)
        for until in (5.0, 50.0)
    )
    both = near["latest"].to_numpy() < others.times[others.offsets[1:] - 1] + 5.0
    both &= (near["status"] != "already").to_numpy()
    np.testing.assert_array_equal(near["earliest"][both], far["earliest"][both])
    assert (far["probability"] >= near["probability"]).all()


@pytest.mark.parametrize("relative_to", ["end", None])
@pytest.mark.filterwarnings("ignore:times are more than 20 times as far")
def test_who_else_is_asked_and_how_far_changes_nothing(model, others, relative_to):
    """P(crossed by T) never falls with T, also beside a series that is asked about long after."""
    start = 0 if relative_to else others.end
    asked = {"threshold": 8.0, "relative_to": relative_to, "channel": "v"}
    untils = (0.01, 0.3, 5.0, 5.1, 50.0, 5000.0)
    found = [model.crossing_times(others, until=start + u * np.ones(5), **asked) for u in untils]
    said = np.stack([table["probability"] for table in found])
    assert (np.diff(said, axis=0) >= 0).all()
    mixed = start + np.array([5.0, 5000.0, 0.3, 5.1, 5.0])
    for k, row in enumerate((2, 5, 1, 3, 2)):
        beside = model.crossing_times(others, until=mixed, **asked).iloc[k]
        alone = model.crossing_times(others[[k]], until=mixed[[k]], **asked).iloc[0]
        assert alone["status"] == beside["status"] == found[row]["status"].iloc[k]
        for table in (beside, found[row].iloc[k]):
            np.testing.assert_allclose(
                alone[COLUMNS[1:]].astype(float), table[COLUMNS[1:]].astype(float), atol=1e-9
            )


def test_what_was_not_observed_at_the_last_row_has_a_share_of_samples(model, others):
    """Nor is one that was never seen at the line for sure, nor one with a known error."""
    series = [(np.append(t, t[-1] + 2.0), np.vstack([x, x[-1]])) for t, x in others.to_series()]
    hidden = [
        (t, np.where(np.arange(len(t))[:, None] < len(t) - 1, x, [np.nan, x[-1, 1], np.nan]))
        for t, x in series
    ]
    never = [(t, x * [np.nan, 1.0, 1.0]) for t, x in series]
    names, options = others.channel_names, {"n_samples": 500, "random_state": 0}
    known, hidden, never = (
        Panel.from_series(x, channel_names=names) for x in (series, hidden, never)
    )
    line = float(np.median(known.values[known.offsets[1:] - 1, 0]))
    asked = {"threshold": line, "until": 1e-6, "relative_to": "end", "channel": "u"}
    assert set(model.crossing_times(known, **asked)["status"]) == {"already", "censored"}
    for panel in (hidden, never):
        table = model.crossing_times(panel, **asked)
        assert "already" not in set(table["status"])
        now = model.sample_paths(panel, [0.0], "end", **options).extremes("above", "u")
        np.testing.assert_allclose(table["probability"], (now >= line).mean(axis=1), atol=0.01)
        assert ((table["probability"] > 0) & (table["probability"] < 1)).any()
    errors = [np.where(np.isnan(x), np.nan, 0.5) for _, x in series]
    vague = Panel.from_series(series, channel_names=names, errors=errors)
    table = model.crossing_times(vague, **asked)
    assert "already" not in set(table["status"])
    assert ((table["probability"] > 0) & (table["probability"] < 1)).any()


def test_a_generator_draws_too(model, others):
    drawn = [
        model.sample_paths(others, [1.0], "end", n_samples=9, random_state=state).samples
        for state in (np.random.default_rng(0), np.random.default_rng(0), np.random.default_rng(1))
    ]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert (drawn[0] != drawn[2]).any()


def test_samples_take_little_more_than_their_place(transformer):
    """At once in memory are the samples and what few of them need."""
    panel = walks(40, seed=3)
    asked = panel, np.linspace(0.0, 5.0, 100), "end"
    transformer.sample_paths(*asked, n_samples=1)  # what is learned late, and tables
    tracemalloc.start()
    samples = transformer.sample_paths(*asked, n_samples=1000, random_state=0).samples
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * samples.nbytes


def test_a_line_that_is_passed_is_an_answer_of_its_own(model, others):
    end, last = others.times[others.offsets[1:] - 1], others.values[others.offsets[1:] - 1, 0]
    table = model.crossing_times(others, last.min(), 3.0, "end", channel="u")
    assert (table["status"] == "already").all()
    for name in ("earliest", "median", "latest"):
        np.testing.assert_array_equal(table[name], end)
    below = model.crossing_times(
        others, last.min() - 1e-3, 3.0, "end", channel=0, direction="below"
    )
    assert not (below["status"] == "already").any()
    assert below["probability"].iloc[last.argmin()] > 0.3


def test_datetimes_stay_datetimes(transformer, others):
    plain = transformer.crossing_times(others, 6.0, 5.0, "end", channel="u")
    hours = PolyODETransformer(n_coefficients=4, max_epochs=2, random_state=0)
    with pytest.warns(UserWarning, match="never observed"):
        hours.fit(dated(walks(24, seed=0)))
    table = hours.crossing_times(dated(others), 6.0, "5h", "end", channel="u")
    assert table["earliest"].dt.tz is not None
    assert str(table["earliest"].dt.tz) == "Europe/Berlin"
    elapsed = (table["earliest"] - START) / pd.Timedelta("1h")
    np.testing.assert_allclose(elapsed, plain["earliest"], atol=0.3)
    until = START + pd.Timedelta("100h")
    asked = hours.crossing_times(dated(others), 1e1, until, channel="u")
    assert (asked["latest"] <= until).all()


def test_a_file_keeps_the_paths(transformer, others, tmp_path):
    transformer.save(tmp_path / "model.skpolyode")
    read, options = load(tmp_path / "model.skpolyode"), {"random_state": 0}
    first, second = (m.sample_paths(others, [1.0], "end", **options) for m in (transformer, read))
    np.testing.assert_array_equal(first.samples, second.samples)


def test_noisy_observations_are_no_start():
    """A filter knows better than one observation, and what is observed next has noise."""
    rng, t = np.random.default_rng(0), np.arange(20.0)
    panel = Panel.from_series([(t, np.sin(t / 3 + k) + rng.normal(0, 0.3, 20)) for k in range(16)])
    model = PolyODETransformer(n_coefficients=4, max_epochs=1, observations="noisy", random_state=0)
    model.fit(panel)
    paths = model.sample_paths(panel, [0.0, 1.0], "end", random_state=0)
    np.testing.assert_allclose(
        paths.forecast.values, model.forecast(panel, [0.0, 1.0], "end").values
    )
    assert (np.abs(paths.forecast.values[::2] - panel.values[panel.offsets[1:] - 1]) > 0).all()
    assert (paths.samples[::2].std(axis=1) > 0.1).all()
    table = model.crossing_times(panel, 0.0, 1e-6, "end")
    assert "already" not in set(table["status"])
    np.testing.assert_allclose(
        table["probability"], (paths.samples[::2, :, 0] >= 0).mean(axis=1), atol=0.1
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": [4.0] * 3}, r"until must be one time, or one for each of the 5 series, got \[4"),
        ({"until": [[1.0, 2.0], [2.0], []]}, r"one for each of the 5 series, got \[\[1.0, 2.0\]"),
        ({"until": [[4.0, 5.0]] * 5}, "until must be one time, or one for each of the 5 series"),
        ({"until": np.inf}, "until must be finite, got inf"),
        ({"threshold": 1e9}, "threshold=1000000000.0 is far from all values of channel 'u'.*units"),
        ({"threshold": np.nan}, "threshold must be a number, got nan"),
        (
            {"until": 0.0},
            r"until of series 0: .*, 0 before its last observation .5 such.*later",
        ),
        ({"until": -1.0}, r"until of series 0: .*, 1 before its last observation"),
        ({"direction": "over"}, 'direction must be "above" or "below", got \'over\''),
        ({"channel": "w"}, "channel 'w' was never observed in fit.*fit on series that have it"),
        ({"channel": "x"}, r"channel must be one of \['u', 'v', 'w'\].*got 'x'"),
        ({"channel": None}, "channel must be one of"),
        ({"channel": False}, "channel must be one of.*got False"),
        ({"coverage": 90}, "coverage"),
        ({"n_samples": 0}, "n_samples must be an int of at least 1, got 0"),
    ],
)
def test_bad_questions_are_refused(model, others, options, message):
    asked = {"threshold": 3.0, "until": 4.0, "channel": "u", "relative_to": "end"} | options
    with pytest.raises(ValueError, match=message):
        model.crossing_times(others, **asked)


def test_ends_in_another_order_are_refused(model, others):
    named = Panel.from_series(others.to_series(), ids=list("vwxyz"), channel_names=["u", "v", "w"])
    ends = pd.Series([4.0, 5.0, 6.0, 7.0, 8.0], index=named.ids)
    asked = {"threshold": 3.0, "channel": "u", "relative_to": "end"}
    with pytest.raises(ValueError, match=r"index of until holds the ids of the series in another"):
        model.crossing_times(named, until=ends.iloc[::-1], **asked)
    found = model.crossing_times(named, until=ends, **asked)
    assert found.equals(model.crossing_times(named, until=ends.to_numpy(), **asked))


def test_bad_series_and_times_are_refused(model, others):
    with pytest.raises(ValueError, match=r"before its last observation .5 such times.*interpolate"):
        model.sample_paths(others, [-1.0], "end")
    empty = [*others.to_series(), ([0.0], np.full((1, 3), np.nan))]
    empty = Panel.from_series(empty, channel_names=others.channel_names, empty="keep")
    with pytest.raises(ValueError, match=r"series 5 has no observation .1 such series.*leave"):
        model.sample_paths(empty, [1.0], "end")


def test_what_is_no_number_or_not_fitted_is_refused(model, others):
    with pytest.raises(TypeError, match="threshold must be one number, got 'high'"):
        model.crossing_times(others, "high", 4.0, "end", channel="u")
    with pytest.raises(TypeError, match="threshold must be one number, got True"):
        model.crossing_times(others, True, 4.0, "end", channel="u")
    with pytest.raises(TypeError, match="until: give numbers, as the series have; got"):
        model.crossing_times(others, 3.0, "4h", "end", channel="u")
    with pytest.raises(ValueError, match=r"not (been )?fitted"):
        type(model)().crossing_times(others, 3.0, 4.0, "end", channel="u")


def test_levels_of_samples_are_a_list(model, others):
    paths = model.sample_paths(others, [1.0], "end", n_samples=3)
    with pytest.raises(TypeError, match=r"alpha must be a list, such as \[0.05, 0.95\], got 0.5"):
        paths.quantiles(0.5)
    with pytest.raises(ValueError, match="alpha must hold a number at least"):
        paths.quantiles([])


def test_what_knows_no_errors_says_so(forecaster, others):
    whole = forecaster.transformer_.sample_paths(others, [1.0], "end", random_state=0)
    again = forecaster.sample_paths(others, [1.0], "end", random_state=0)
    np.testing.assert_array_equal(whole.samples, again.samples)
    small = PolyODETransformer(n_coefficients=2, max_epochs=1, random_state=0)
    known = others.select_channels(["u", "v"])
    with pytest.raises(ValueError, match="the errors of forecasts are not known"):
        small.fit_stages(known, skip=["stacking"]).sample_paths(known, [1.0], "end")


def test_errors_are_learned_once_when_they_are_asked_for(monkeypatch, tmp_path):
    """A pipeline that embeds, or an imputer, never asks; a pickle or a file holds no backtest."""
    learned = []

    def learn(backtest, unit):
        learned.append(calibrate(backtest, unit))
        return learned[-1]

    calibrate = stacking.calibrate
    monkeypatch.setattr(stacking, "calibrate", learn)
    panel = walks(6, seed=2, n_rows=9).select_channels(["u", "v"])
    options = {"relative_to": "end", "n_samples": 20, "random_state": 0}
    model = PolyODETransformer(n_coefficients=2, max_epochs=1, random_state=0).fit(panel)
    model.transform(panel)
    model.interpolate(panel)
    model.forecast(panel, [1.0], "end")
    assert not learned
    copy = pickle.loads(pickle.dumps(model))
    model.save(tmp_path / "model.safetensors")
    every = model, copy, load(tmp_path / "model.safetensors")
    samples = [own.sample_paths(panel, [0.5, 2.0], **options).samples for own in every]
    assert len(learned) == 1
    assert not any(isinstance(x, Backtest) for x in vars(copy.embedder_.calibration).values())
    model.embedder_ = replace(model.embedder_, calibration=learned[0])  # as if `fit` had done it
    samples.append(model.sample_paths(panel, [0.5, 2.0], **options).samples)
    assert np.ptp(samples[0]) > 0
    for own in samples[1:]:
        np.testing.assert_array_equal(own, samples[0])


def test_means_integrals_and_totals_of_samples():
    """Of lines between the samples: values 0, 2, 6 at the times 0, 1, 3, and twice that."""
    forecast = Panel.from_series([([0.0, 1.0, 3.0], [0.0, 2.0, 6.0]), ([5.0], [4.0])])
    samples = forecast.values[:, None] * np.array([1.0, 2.0])[:, None]
    paths = SamplePaths(forecast, samples)
    np.testing.assert_allclose(paths.integral(), [[9.0, 18.0], [0.0, 0.0]])
    np.testing.assert_allclose(paths.mean(), [[3.0, 6.0], [4.0, 8.0]])
    np.testing.assert_allclose(paths.total([[0.5, 2.0], [5.0]]), [[5.0, 10.0], [4.0, 8.0]])
    np.testing.assert_allclose(paths.total([0.0], relative_to="end"), [[6.0, 12.0], [4.0, 8.0]])
    with pytest.raises(ValueError, match=r"series 1: total.. needs times within"):
        paths.total([3.0])
    back = SamplePaths(
        Panel.from_series([([1.0], [0.0])]).like(
            np.array([2.0, 1.0]), np.zeros((2, 1)), np.array([0, 2])
        ),
        np.zeros((2, 1, 1)),
    )
    for ask in (back.mean, back.integral, lambda: back.total([1.0])):
        with pytest.raises(ValueError, match="need increasing times"):
            ask()
