"""Means, integrals and slopes of paths against quadrature, closed forms and each other."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.interpolate import CubicSpline, PchipInterpolator
from scipy.special import ndtri

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    Panel,
    PolyODETransformer,
    load,
)
from skpolyode.embedders import ChannelScaler, Units
from skpolyode.embedders.paths import PathQuery
from skpolyode.ensemble.path_errors import Correlation, Course, Gaps, SizeLaw
from skpolyode.ensemble.paths import PathErrors
from skpolyode.questions.path import edges, mixed_quantiles

START = pd.Timestamp("2024-03-01", tz="Europe/Berlin")


def waves(n_series: int, seed: int, n_rows: int = 20) -> list[tuple[np.ndarray, np.ndarray]]:
    """Two channels at irregular times; a fifth of the inner cells is missing."""
    rng, series = np.random.default_rng(seed), []
    for _ in range(n_series):
        t = np.cumsum(0.1 + rng.exponential(0.4, n_rows)).round(3)
        x = np.stack([3 + np.sin(t + rng.uniform(0, 6)), np.cos(1.3 * t)], axis=1)
        x[1:-1][rng.random((n_rows - 2, 2)) < 0.2] = np.nan
        series.append((t, x))
    return series


SERIES = waves(12, seed=0)


@pytest.fixture(scope="module")
def model() -> PolyODETransformer:
    options = {"n_coefficients": 4, "max_epochs": 2, "random_state": 0}
    return PolyODETransformer(observations="exact", **options).fit(SERIES)


def dated(series: list) -> Panel:
    hours = [(START + pd.to_timedelta(t, unit="h"), x) for t, x in series]
    return Panel.from_series(hours, time_unit="h")


def pieces_of(model, series: list, start: float, end: float) -> np.ndarray:
    own = edges(model.embedder_, Panel.from_series(series))[0]
    return np.concatenate([[start], own[(own > start) & (own < end)], [end]])


PATHS = {
    "pchip": InterpolationTransformer(kind="pchip"),
    "cubic": InterpolationTransformer(kind="cubic"),
    "linear": HiPPOTransformer(),
    "steps": HiPPOTransformer(hold="previous"),
    "learned": None,
}


@pytest.mark.parametrize("name", PATHS)
def test_an_integral_is_that_of_the_path_that_interpolate_answers(name, model):
    own = model if name == "learned" else PATHS[name].fit(SERIES)
    start, end = 1.7, 3.1

    def path(t: float) -> float:
        return own.interpolate(SERIES[:1], [t]).values[0, 1]

    borders = pieces_of(own, SERIES[:1], start, end)
    parts = [quad(path, a, b, epsabs=1e-12)[0] for a, b in pairwise(borders)]
    value = own.integral(SERIES[:1], start, end)["value"].iloc[1]
    assert_allclose(value, sum(parts), atol=1e-10, rtol=0)


def test_integrals_add_up_and_an_average_is_one_over_its_length(model):
    whole, first, second = (
        model.integral(SERIES, *ends, "start")["value"] for ends in ((0, 4), (0, 1.5), (1.5, 4))
    )
    assert_allclose(first + second, whole, atol=1e-12)
    assert_allclose(model.average(SERIES, 0, 4, "start")["value"], whole / 4)
    default = model.average(SERIES)
    ends = [t[0] for t, _ in SERIES], [t[-1] for t, _ in SERIES]
    pd.testing.assert_frame_equal(model.average(SERIES, *ends), default)


def test_a_baseline_answers_without_an_interval_and_holds_its_last_value():
    line = InterpolationTransformer().fit(SERIES)
    series = [([0.0, 2.0], [1.0, 3.0])]
    single = InterpolationTransformer().fit(series)
    assert list(line.average(SERIES).columns) == ["value"]
    assert_allclose(single.integral(series, 1.0, 4.0)["value"], 2.5 + 6.0)


def test_intervals_hold_the_value_and_are_wider_ahead(model):
    past, ahead = (model.average(SERIES, *x, "end") for x in ((-2.0, 0.0), (0.0, 2.0)))
    for table in (past, ahead):
        assert (table["lower"] < table["value"]).all()
        assert (table["value"] < table["upper"]).all()
    wide = [(table["upper"] - table["lower"]).mean() for table in (past, ahead)]
    assert wide[0] < wide[1]
    half = model.average(SERIES, -2.0, 0.0, "end", coverage=0.5)
    ratio = (half["upper"] - half["lower"]) / (past["upper"] - past["lower"])
    assert_allclose(ratio, ndtri(0.75) / ndtri(0.95))
    assert_allclose(past["upper"] - past["value"], past["value"] - past["lower"])


def test_a_window_that_spans_the_end_is_the_sum_of_its_parts(model):
    both = model.integral(SERIES, -1.0, 1.5, "end")
    parts = [model.integral(SERIES, *ends, "end") for ends in ((-1.0, 0.0), (0.0, 1.5))]
    assert_allclose(both["value"], parts[0]["value"] + parts[1]["value"], rtol=1e-6)
    widths = [(x["upper"] - x["lower"]).to_numpy() for x in (both, *parts)]
    assert (widths[0] > 0.98 * np.maximum(*widths[1:])).all()  # they are quantiles of samples
    assert (widths[0] < 1.01 * (widths[1] + widths[2])).all()
    grid = np.linspace(0, 1.5, 31)
    sampled = model.sample_paths(SERIES, grid, "end", n_samples=500, random_state=0)
    means = np.mean([sampled.integral(j) for j in (0, 1)], axis=2).T.ravel()
    assert_allclose(parts[1]["value"], means, atol=0.1)  # of other samples
    both, past = (model.integral(SERIES, -4.0, end, "end") for end in (0.02, 0.0))
    widths = [(x["upper"] - x["lower"]).to_numpy() for x in (both, past)]
    assert (widths[0] > 0.9 * widths[1]).all()


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99, 0.999])
def test_errors_of_the_past_and_sampled_futures_add_up_at_any_coverage(model, coverage):
    past, both = (model.integral(SERIES, -4.0, end, "end", coverage) for end in (0.0, 1e-9))
    assert_allclose(both, past, rtol=1e-3)
    rng, shares = np.random.default_rng(0), np.array([1 - coverage, 1 + coverage]) / 2
    samples, std = np.exp(rng.normal(size=(2, 500))), np.array([0.2, 2.0])
    found = mixed_quantiles(samples, std, shares)
    drawn = samples[:, rng.integers(500, size=10**6)] + std[:, None] * rng.normal(size=10**6)
    assert_allclose((drawn[..., None] < found[:, None]).mean(axis=1), [shares] * 2, atol=2e-3)
    tails = (drawn[..., None] < found[:, None]) == (shares < 0.5)
    assert_allclose(tails.mean(axis=1), (1 - coverage) / 2, rtol=0.15)
    assert_allclose(mixed_quantiles(samples, 0 * std, shares).T, np.quantile(samples, shares, 1))


def test_alone_and_in_batch_dated_and_saved_alike(model, tmp_path):
    asked = -2.0, 1.0, "end"
    expected = model.average(SERIES, *asked).to_numpy()
    alone = [model.average(SERIES[k : k + 1], *asked).to_numpy() for k in (2, 5)]
    assert_allclose(np.concatenate(alone), expected[[4, 5, 10, 11]], rtol=1e-9)
    model.save(tmp_path / "model.skpolyode")
    again = load(tmp_path / "model.skpolyode")
    assert_allclose(again.average(SERIES, *asked).to_numpy(), expected, rtol=1e-12)
    slopes = model.derivative(SERIES, [-1.0, 0.0, 0.7], relative_to="end").values
    stds = model.derivative_std(SERIES, [-1.0, 0.0, 0.7], "end").values
    assert (stds > 0).all()
    assert_allclose(again.derivative_std(SERIES, [-1.0, 0.0, 0.7], "end").values, stds)
    options = {"n_coefficients": 4, "max_epochs": 2, "random_state": 0, "observations": "exact"}
    of_dates = PolyODETransformer(**options).fit(dated(SERIES))
    moments = [START + pd.Timedelta(hours=t[-1] - 2.0) for t, _ in SERIES]
    found = of_dates.average(dated(SERIES), moments, None)
    assert_allclose(found, model.average(SERIES, -2.0, 0.0, "end"), rtol=1e-5, atol=1e-5)
    durations = of_dates.average(dated(SERIES), "-2h", "1h", "end")
    assert_allclose(durations, expected, atol=5e-3)  # the fits differ by rounding
    asked = pd.to_timedelta([-1.0, 0.0, 0.7], unit="h")
    found = of_dates.derivative(dated(SERIES), asked, relative_to="end").values
    assert_allclose(found, slopes, atol=5e-3)


def test_empty_windows_and_early_ones_are_named(model):
    with pytest.raises(
        ValueError, match=r"start of the window of series 0.* after its end.* exchange"
    ):
        model.average(SERIES, 3.0, 3.0)
    with pytest.raises(ValueError, match=r"after its end .* is then the last"):
        model.average(SERIES, 1.0, 0.0, "end")
    with pytest.raises(ValueError, match=r"window of series 0.* before its first observation"):
        model.integral(SERIES, -1.0, 2.0)
    with pytest.raises(ValueError, match="start must be one time, or one for each"):
        model.integral(SERIES, [[1.0, 2.0]] * 12, 3.0)
    with pytest.raises(ValueError, match="coverage"):
        model.average(SERIES, coverage=1.2)
    assert not hasattr(LegendreFitTransformer(), "average")


@pytest.mark.parametrize(("kind", "rival"), [("pchip", PchipInterpolator), ("cubic", CubicSpline)])
def test_slopes_of_curves_are_those_of_scipy(kind, rival):
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0, 9, 15))
    x = rng.normal(size=15)
    curve = rival(t, x, **({"bc_type": "natural"} if kind == "cubic" else {}))
    own = InterpolationTransformer(kind=kind).fit([(t, x)])
    at = np.concatenate([t[:-1], rng.uniform(t[0], t[-1], 20)])
    for order in (1, 2, 3):
        found = own.derivative([(t, x)], at, order=order).values[:, 0]
        assert_allclose(found, curve.derivative(order)(at), rtol=1e-7, atol=1e-7)
    last = own.derivative([(t, x)], [t[-1], t[-1] + 1.0]).values[:, 0]
    assert_allclose(last, [curve.derivative()(t[-1]), 0.0], atol=1e-7)


def test_slopes_of_a_learned_path_are_its_field(model):
    panel = Panel.from_series([(t[:6], x[:6]) for t, x in SERIES])
    t = panel.times[panel.offsets[:-1]] + 0.05  # in the first gap: no bridge but to the next rows
    h = 1e-5
    sides = [model.interpolate(panel, [[own] for own in t + s]).values for s in (-h, h)]
    found = model.derivative(panel, [[own] for own in t]).values
    assert_allclose(found, (sides[1] - sides[0]) / (2 * h), atol=1e-6)
    second = model.derivative(panel, [[own] for own in t], order=2).values
    slopes = [model.derivative(panel, [[own] for own in t + s]).values for s in (-h, h)]
    assert_allclose(second, (slopes[1] - slopes[0]) / (2 * h), atol=1e-4)


def test_a_path_is_level_where_a_limit_cuts_it():
    t, x = np.arange(6.0), np.array([0.0, 0.0, 1.0, 0.0, 0.0, 1.0])
    curve = CubicSpline(t, x, bc_type="natural")
    model, at = InterpolationTransformer(kind="cubic").fit([(t, x)]), [0.4, 1.5, 3.5]
    assert (curve(at) < 0).tolist() == [True, False, True]
    found = model.derivative([(t, x)], at).values[:, 0]
    assert_allclose(found, [0.0, curve.derivative()(1.5), 0.0], atol=1e-9)


def test_slopes_soon_after_a_last_observation_are_those_of_the_next_step(model):
    """The forecast leaves it at once; the channel that goes on has the slope of its path.

    That path bends at the next row, before the step ends.
    """
    t, x = SERIES[0][0], SERIES[0][1].copy()
    row = 5 + np.diff(t[5:-5]).argmin()
    x[row], x[row + 1 :, 1] = [2.0, 0.0], np.nan
    unit, last = model.embedder_.units.time_scale, t[row]
    at, step = last + 0.004 * unit, unit * min(model.embedder_.model.step_size, 1.0)
    assert t[row + 1] < at + step / 2
    nodes, weights = np.polynomial.legendre.leggauss(10)
    times = at + step * (1 + nodes) / 2
    path = model.interpolate([(t, x)], times).values[:, 1]
    cubic = np.polynomial.Polynomial.fit(times, path, 3, w=np.sqrt(weights)).deriv()(at)
    near = model.interpolate([(t, x)], at + 1e-3 * unit * np.array([-1, 1])).values[:, 0]
    found = model.derivative([(t, x)], [at]).values[0]
    assert_allclose(found[0], np.diff(near)[0] / (2e-3 * unit), rtol=1e-5)
    assert_allclose(found[1], cubic, rtol=1e-3)


def test_pieces_ahead_are_whole_steps_and_end_where_a_path_becomes_constant(model):
    embedder = model.embedder_
    unit, (step, most) = embedder.units[1], (embedder.model.step_size, embedder.model.max_gap)
    panel = Panel.from_series([([0.0, 0.4 * step * unit], [[1.0, 1.0], [2.0, 2.0]])])
    ahead = edges(embedder, panel, panel.end + 2.5 * step * unit)[0] - panel.end
    assert_allclose(ahead[ahead >= 0] / (step * unit), [0, 1, 2], rtol=1e-5)
    ahead = edges(embedder, panel, panel.end + 10 * most * unit)[0] - panel.end
    assert_allclose(ahead[-1], most * unit, rtol=1e-5)


def test_errors_of_slopes_ahead_are_those_at_the_end_and_of_sampled_slopes(model):
    gap, lead = model.embedder_.units.time_scale, 0.7
    end, ahead = (model.derivative_std(SERIES, [x], "end").values for x in (-1e-6 * gap, lead))
    paths = model.sample_paths(SERIES, [lead, lead + gap], "end", random_state=0).samples
    sampled = (paths[1::2] - paths[::2]).std(axis=1) / gap
    assert_allclose(ahead, np.hypot(end, sampled), rtol=1e-6)


def test_slopes_at_times_close_to_each_other_are_finite():
    t = np.array([0.0, 1.0, 1.0 + 1e-7, 2.0, 3.0])
    curve = InterpolationTransformer(kind="cubic").fit([(t, t**2)])
    found = curve.derivative([(t, t**2)], [1.0, 1.0 + 5e-8, 1.0 + 1e-7]).values[:, 0]
    assert_allclose(found, 2.0, atol=0.2)


def test_units_of_slopes_are_those_of_values_by_time():
    t, x = SERIES[0][0], SERIES[0][1][:, :1]
    t, x = t[~np.isnan(x[:, 0])], x[~np.isnan(x[:, 0])]
    one = InterpolationTransformer(kind="cubic").fit([(t, x)])
    other = InterpolationTransformer(kind="cubic").fit([(60 * t, 10 * x)])
    found = other.derivative([(60 * t, 10 * x)]).values
    assert_allclose(found, one.derivative([(t, x)]).values * 10 / 60, atol=1e-9)


def test_orders_that_a_path_has_not_and_early_times_are_named(model):
    for own, order, most in (
        (InterpolationTransformer().fit(SERIES), 2, 1),
        (HiPPOTransformer(hold="previous").fit(SERIES), 1, 0),
        (model, 3, 2),
    ):
        with pytest.raises(ValueError, match=f"order={order} asks .* which are {most}: ask for"):
            own.derivative(SERIES, order=order)
    with pytest.raises(ValueError, match="order must be an int of at least 1, got 0"):
        model.derivative(SERIES, order=0)
    with pytest.raises(ValueError, match=r"series 0: .* before its first observation"):
        model.derivative(SERIES, [-5.0])


def test_an_empty_series_has_no_answer(model):
    panel = Panel.from_series([*SERIES[:2], ([0.0], [[np.nan, np.nan]])], empty="keep")
    table = model.average(panel, -1.0, 0.0, "end")
    assert table.isna().all(axis=1).tolist() == [False] * 4 + [True] * 2


def test_errors_of_a_brownian_bridge_integrate_to_its_variance():
    """The integral of a bridge over a gap of length L has the variance L**3 / 12."""
    x, w = np.polynomial.legendre.leggauss(60)
    since = 1 + x  # a gap of length 2
    until = 2 - since
    std = 0.1 * np.sqrt(1 / (1 / since + 1 / until))
    columns = std, np.log(since / until), 0 * x, 0 * x
    course = Course(*(own[:, None] for own in columns))
    found = Correlation().of_integrals(course, w, np.array([0, 60]))
    assert_allclose(found, 0.1 * np.sqrt(2**3 / 12), rtol=0.01)
    twice = Course(*(np.concatenate([y, y]) for y in course[:4]))
    twice = twice._replace(gap=np.repeat([1, 2], 60)[:, None])
    found = Correlation().of_integrals(twice, np.append(w, w), np.array([0, 120]))
    assert_allclose(found, 0.1 * np.sqrt(2 * 2**3 / 12), rtol=0.01)


def test_noise_of_an_observation_is_alike_on_both_sides_of_it():
    """Of variance 1 - c, the more the closer to it; within a gap it is left out.

    With a standard deviation a sqrt(t (2 - t) / 2) each side has the integral a pi / sqrt(32).
    """
    x, w = np.polynomial.legendre.leggauss(60)
    since, until = np.tile(1 + x, 2), np.tile(1 - x, 2)
    std = 0.1 * np.sqrt(since * until / 2)
    columns = std, np.log(since / until), 0 * since, np.repeat([1, 2], 60)
    course, half = Course(*(own[:, None] for own in columns)), Correlation(1.0, 0.6)
    found = half.of_integrals(course, np.append(w, w), np.array([0, 120]))
    variance = 0.6 * 2 * 2**3 / 12 + 0.4 * 2 * np.pi**2 / 32
    assert_allclose(found, 0.1 * np.sqrt(variance), rtol=0.01)
    apart = half.of_integrals(course, np.append(w, w), np.array([0, 60, 120]))
    assert_allclose(apart, 0.1 * np.sqrt(0.6 * 2**3 / 12), rtol=0.01)  # of two series


@pytest.mark.parametrize("unit", [1.0, 0.25])
def test_errors_of_slopes_are_per_unit_of_the_users_time(unit):
    """In the middle of a gap of length L a bridge has s = a sqrt(L / 4), and s' = 4 s / L.

    At a fifth of the gap the size changes, too: by its logarithmic slope, (1 - 2 u) / 2.
    """
    embedder = SimpleNamespace(units=Units(ChannelScaler(np.zeros(1), np.ones(1)), unit))
    embedder.filters, ones = False, np.ones(1)
    law = SizeLaw(np.log(0.1) * ones, 30 * ones, -30 * ones, np.array([0.5, 0.0, 0.0, 0.0, 0.0]))
    errors = PathErrors(0 * ones, ones, ones, law=law, correlation=Correlation())
    panel = Panel.from_series([([0.0, 3.0, 8.0], [0.0, 1.0, 2.0])])
    asked = PathQuery.of(panel, np.array([1.5, 5.5, 0.6]), np.array([0, 3]))
    gaps = Gaps.of(asked, unit)
    std = np.sqrt(law.squares(gaps.predictors)[0])
    length = np.array([[3.0], [5.0]])
    assert_allclose(std[:2], 0.1 * np.sqrt(length / unit / 4))
    found = errors.correlation.of_slopes(errors._course(embedder, asked, gaps, std))
    assert_allclose(found[:2], 0.4 * np.sqrt(length / unit / 4) / length)
    size, rate = 0.1 * np.sqrt(3 / unit * 0.16), 1 / (3 * 0.16)
    assert_allclose(found[2:], size * rate * np.sqrt(1 + 0.3**2))


def test_errors_of_a_fit_without_enough_rows_are_named():
    short = [(t[:2], x[:2]) for t, x in SERIES[:3]]
    model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(short)
    for ask in (model.average, model.derivative_std):
        with pytest.raises(ValueError, match="the errors of paths are not known"):
            ask(short)
