"""Errors of paths against the laws of Brownian motion, and what they are learned from."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import skpolyode
from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PolyODEForecaster,
    PolyODETransformer,
)
from skpolyode.embedders import ChannelScaler, Units
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.table import TableSettings
from skpolyode.ensemble import path_errors, paths
from skpolyode.ensemble.path_errors import Correlation, Course, Gaps, SizeLaw
from skpolyode.ensemble.paths import PathErrors
from tests.questions.test_slopes import check_slopes, ended


@dataclass(frozen=True)
class Lines:
    """Straight lines between observations, which for Brownian motion are the expected path."""

    units: Units
    filters: bool = False
    forecasts: bool = True

    def conditioned(self, panel: Panel) -> Lines:
        return self

    def residuals(self, panel: Panel) -> list[np.ndarray]:
        return [np.ones(panel.values.shape)]

    def standardised(self, panel: Panel) -> SimpleNamespace:
        return SimpleNamespace(values=self.units.scaler.transform(panel.values))

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        found = np.zeros((len(times), panel.n_channels))
        for k, (t, x) in enumerate(panel):
            asked = slice(*offsets[k : k + 2])
            for j, column in enumerate(x.T):
                seen = ~np.isnan(column)
                if seen.any():
                    found[asked, j] = np.interp(times[asked], t[seen], column[seen])
        return found


def lines(unit: float = 1.0, scale: tuple[float, ...] = (1.0,)) -> Lines:
    return Lines(Units(ChannelScaler(np.zeros(len(scale)), np.array(scale)), unit))


def motions(n_series: int, n_rows: int, size: float = 0.1, noise: float = 0.0) -> list:
    """Brownian motions of variance ``size**2`` per unit of time, in gaps of 0.5 to 1.5."""
    rng, series = np.random.default_rng(0), []
    for _ in range(n_series):
        gaps = rng.uniform(0.5, 1.5, n_rows)
        x = (size * np.sqrt(gaps) * rng.normal(size=n_rows)).cumsum()
        series.append((gaps.cumsum(), x + noise * rng.normal(size=n_rows)))
    return series


def learned(model: Lines, panel: Panel, is_new: Any = True) -> PathErrors:
    return PathErrors.learn(model, panel, np.broadcast_to(is_new, panel.times.shape))


def stds(errors: PathErrors, model: Lines, panel: Panel, times: list[float]) -> np.ndarray:
    """Standard deviations (Q, D) of a panel of one series, in the user's units."""
    asked = PathQuery.of(panel, np.array(times), np.array([0, len(times)]))
    found = errors.on_path(model, asked)
    about = found["distance"], 0.9, found["predictors"]
    widths = errors.by_side(found["side"], lambda own: own.calibration.half_widths(*about))
    return model.units.scaler.scale * found["expected"] * widths / 1.645


@pytest.mark.parametrize(("unit", "scale"), [(1.0, 1.0), (0.25, 4.0)])
def test_the_law_of_brownian_motion_is_learned(unit, scale):
    """In a gap of length 4 its bridge has the deviation 0.1, in one of 1 half of that.

    Before its first row it grows as that of the motion, backwards.
    """
    model = lines(unit, (scale,))
    found = learned(model, Panel.from_series(motions(60, 500)))
    assert_allclose(found.law.exponents[:2], [0.5, 0.0], atol=0.06)
    assert_allclose([found.correlation.rate, found.correlation.shared], 1.0, rtol=0.15)
    own = Panel.from_series([([0.0, 4.0, 5.0, 9.0], [0.0, 0.0, 0.0, 0.1])])
    wanted = 0.1 * np.array([np.sqrt(3) / 2, 1.0, 0.5, np.sqrt(0.19 / 4) * 2])
    assert_allclose(stds(found, model, own, [1.0, 2.0, 4.5, 8.8])[:, 0], wanted, rtol=0.12)
    before = stds(found, model, own, [-9.0, -4.0, -1.0])[:, 0]
    assert_allclose(before / before[-1], [3.0, 2.0, 1.0], rtol=0.1)
    noisy = learned(lines(), Panel.from_series(motions(60, 100, 0.03, 0.1)))
    assert noisy.correlation.shared < 0.48  # noise is of single observations, as most of an error
    assert stds(noisy, lines(), own, [1e-3, 4.5]).min() > 0.09  # beside an observation, too


def test_a_channel_of_which_little_is_known_has_errors_like_the_others():
    (t, x), *_ = motions(1, 1000)
    other = np.where(np.arange(1000) < 6, 3 * x, np.nan)
    panel = Panel.from_series([(t, np.stack([x, other], axis=1))])
    found = learned(lines(scale=(1.0, 1.0)), panel)
    assert found.law.near[0] <= found.law.near[1] < found.law.near[0] + np.log(3)


def test_too_few_hidden_rows_teach_nothing():
    (t, x), *_ = motions(1, 100)
    assert learned(lines(), Panel.from_series([(t[:9], x[:9])])).law is None
    assert learned(lines(), Panel.from_series([(t[:25], x[:25])])).law is not None


def test_steps_over_longer_gaps_say_nothing_of_the_errors():
    """Series that are seen half as often are as volatile."""
    panel = Panel.from_series(motions(60, 100))
    found = learned(lines(), panel)
    sparse = Panel.from_series([(t[::2], x[::2]) for t, x in panel])
    predictors = [
        found._of_equal_gaps(lines(), own, paths._predictors(lines(), own))[..., 1].mean()
        for own in (panel, sparse)
    ]
    assert_allclose(*predictors, atol=0.1)  # not 0.35


def test_held_out_series_come_first(monkeypatch):
    """The others, which the model knows, fill up the rows."""
    monkeypatch.setattr(paths, "TABLE", TableSettings(n_rows=400))
    known, other = motions(4, 100, size=0.01), motions(4, 100, size=0.2)
    late = paths.lazy_path_errors(lines(), Panel.from_series(other), Panel.from_series(known))
    own = Panel.from_series([([0.0, 1.0], [0.0, 0.0])])
    assert_allclose(stds(late.learned, lines(), own, [0.5]), 0.1, rtol=0.2)


def bridge(n_channels: int = 1, size: float = 0.1) -> PathErrors:
    """Errors of Brownian bridges."""
    ones = np.ones(n_channels)
    law = SizeLaw(np.log(size) * ones, 30 * ones, -30 * ones, np.array([0.5, 0.0, 0.0, 0.0, 0.0]))
    return PathErrors(0 * ones, ones, ones, law=law, correlation=Correlation())


def course(panel: Panel, times: list[float], errors: PathErrors | None = None) -> Course:
    errors = errors or bridge(panel.n_channels)
    asked = PathQuery.of(panel, np.array(times), np.array([0, len(times)]))
    gaps = Gaps.of(asked, 1.0, nearest=path_errors.SETTINGS.nearest)
    grown, floor, _ = errors.law.squares(gaps.predictors)
    return errors._course(lines(), asked, gaps, np.sqrt(grown + floor))


def test_slopes_beside_observations_are_those_a_twentieth_of_the_gap_away():
    found = course(Panel.from_series([([0.0, 4.0], [0.0, 1.0])]), [0.0, 0.2, 1.0, 3.99])
    size, distance = found.std[:, 0], np.array([0.2, 0.2, 1.0, 0.2])
    assert_allclose(size, 0.1 * np.sqrt(distance * (4 - distance) / 4), rtol=0.02)
    slopes = Correlation().of_slopes(found)[:, 0]
    assert_allclose(slopes[0], slopes[1], rtol=0.03)
    # In the middle of a gap of length L a bridge has s = a sqrt(L / 4), and s' = 4 s / L.
    middle = course(Panel.from_series([([0.0, 4.0], [0.0, 1.0])]), [2.0])
    assert_allclose(Correlation().of_slopes(middle), 0.1, rtol=1e-6)


def test_where_a_channel_was_never_observed_errors_are_the_largest():
    panel, own = Panel.from_series([([0.0, 1.0], [[0.0, np.nan], [1.0, np.nan]])]), bridge(2)
    both = replace(own, law=replace(own.law, most=np.log(np.full(2, 0.7))))
    assert_allclose(course(panel, [0.5], both).std, [[0.05, 0.7]], rtol=0.01)


def test_the_integral_of_a_bridge_has_its_variance():
    """Over a gap of length L it is ``a**2 L**3 / 12``."""
    x, w = np.polynomial.legendre.leggauss(200)
    panel = Panel.from_series([([0.0, 2.0], [0.0, 0.0])])
    sums = Correlation().of_integrals(course(panel, (1 + x).tolist()), w, np.array([0, 200]))
    assert_allclose(sums, 0.1 * np.sqrt(8 / 12), rtol=0.02)


@pytest.fixture(scope="module")
def model() -> PolyODETransformer:
    small = {"n_coefficients": 3, "max_epochs": 2, "random_state": 0}
    panel = Panel.from_series([(t, x / 4) for t, x in ended(12, seed=0)])
    limits = {"x0": (0.49, 1.01), "x1": (-0.26, 0.26)}
    return PolyODETransformer(**small).fit(panel.with_limits(limits))


def test_slopes_and_integrals_of_paths_with_waves(model):
    panel = Panel.from_series([(t, x / 4) for t, x in ended(3, seed=1)])
    wavy = replace(model.embedder_, waves=np.ones(2))
    own = PolyODETransformer().__class__(**model.get_params())
    vars(own).update(vars(model) | {"embedder_": wavy})
    times = panel.start[:, None] + np.linspace(0.05, 0.6, 20) * (panel.end - panel.start)[:, None]
    assert not np.allclose(
        own.interpolate(panel, [*times]).values, model.interpolate(panel, [*times]).values
    )
    check_slopes(own, panel, times)


def test_limits_of_integrals_are_those_of_each_window(model):
    panel = Panel.from_series([(t, x / 4) for t, x in ended(3, seed=1)])
    start, length = panel.end - 0.2, np.array([0.3, 1.0, 4.0])
    found = model.integral(panel, start, start + length, coverage=0.999)
    bounds = np.array([[0.49, 1.01], [-0.26, 0.26]]) * length[:, None, None]
    ends = found[["lower", "upper"]].to_numpy().reshape(3, 2, 2)
    assert (ends[..., 0] >= bounds[..., 0] - 1e-9).all()
    assert (ends[..., 1] <= bounds[..., 1] + 1e-9).all()


def test_noise_of_an_observation_counts_by_how_near_it_is():
    """With s = a, two gaps of length 2, and windows [1, 2] and [2, 2.5] beside one observation.

    Its share of an error is t / 2 before it, and 1 - t / 2 after: 3/4 and 7/16 in all.
    """
    x, w = np.polynomial.legendre.leggauss(60)
    times, weights = np.append(1.5 + x / 2, 2.25 + x / 4), np.append(w / 2, w / 4)
    panel = Panel.from_series([([0.0, 2.0, 4.0], [0.0, 0.0, 0.0])])
    even = course(panel, times.tolist())._replace(std=np.full((120, 1), 0.1))
    found = Correlation(0.0, 0.3).of_integrals(even, weights, np.array([0, 120]))
    variance = 0.3 * (1 + 0.25) + 0.7 * 2 * 3 / 4 * 7 / 16
    assert_allclose(found, 0.1 * np.sqrt(variance), rtol=0.01)


def test_correlations_are_of_enough_pairs_of_one_gap_and_one_series():
    rng = np.random.default_rng(0)
    scores, zeros = rng.standard_normal((61, 1)), np.zeros((61, 1))
    course = Course(zeros, zeros, zeros, zeros)
    assert Correlation.learn(scores, course, np.arange(61)) == Correlation()
    apart = course._replace(gap=np.arange(61.0)[:, None])
    assert Correlation.learn(scores, apart, np.zeros(61)) == Correlation()
    assert Correlation.learn(scores, course, np.zeros(61)) != Correlation()


def sines(n_series: int, seed: int, noise: float = 0.0) -> tuple[Panel, list, np.ndarray]:
    """Two channels observed apart; times between their rows, and what was true there."""
    rng, series, asked, truth = np.random.default_rng(seed), [], [], []
    for phase in rng.uniform(0, 2 * np.pi, n_series):
        t = np.sort(rng.choice(200, 25, replace=False)) / 10
        at = np.setdiff1d(np.arange(round(10 * t[0]), round(10 * t[-1])), np.round(10 * t)) / 10
        x, own = (np.stack([np.sin(u + phase), np.cos(u + phase)], axis=1) for u in (t, at))
        x += noise * rng.standard_normal(x.shape)
        some = (rng.random(x.shape) < 0.7) | np.isin(np.arange(25), [0, 24])[:, None]
        x[~some & some.any(axis=1, keepdims=True)] = np.nan
        series.append((t, x))
        asked.append(at)
        truth.append(own)
    return Panel.from_series(series), asked, np.concatenate(truth)


def by_thirds(inside: np.ndarray, panel: Panel, asked: list) -> np.ndarray:
    """Shares (3,) that are inside, by thirds of the distance to the nearest observation."""
    distance = [
        np.stack([np.abs(np.subtract.outer(at, t[np.isfinite(own)])).min(axis=1) for own in x.T], 1)
        for (t, x), at in zip(panel, asked, strict=True)
    ]
    part = np.argsort(np.argsort(np.concatenate(distance), axis=None)) * 3 // inside.size
    return np.array([inside.ravel()[part == k].mean() for k in range(3)])


@pytest.fixture(scope="module", params=["transformer", "forecaster"])
def of_sines(request) -> PolyODETransformer | PolyODEForecaster:
    model = PolyODETransformer(max_epochs=4, random_state=0)
    panel = sines(24, 0)[0]
    if request.param == "transformer":
        return model.fit(panel)
    return PolyODEForecaster(model, random_state=0).pretrain(panel)


def test_widths_follow_the_distance_to_observations_with_few_series(of_sines):
    """Of one width for all, those of 50 % held 1.0 of the nearest third."""
    panel, asked, truth = sines(40, 1)
    for coverage in (0.5, 0.9):
        lower, upper = of_sines.interpolate_interval(panel, asked, coverage=coverage)
        inside = (lower.values <= truth) & (truth <= upper.values)
        assert_allclose(by_thirds(inside, panel, asked), coverage, atol=0.2)


def test_a_standard_deviation_and_an_interval_are_one_answer(of_sines, tmp_path):
    """In numbers and datetimes, alone and in a batch, in memory and in a file."""
    model = getattr(of_sines, "transformer_", of_sines)
    if not isinstance(of_sines, PolyODETransformer):
        pytest.skip("a forecaster has no standard deviation of paths")
    panel, asked, _ = sines(5, 1)
    std = model.interpolate_std(panel, asked).values
    lower, upper = model.interpolate_interval(panel, asked, coverage=0.9)
    assert_allclose((upper.values - lower.values) / 2, 1.6449 * std, rtol=1e-3)
    alone = model.interpolate_std(panel[[3]], [asked[3]]).values
    start = sum(len(own) for own in asked[:3])
    assert_allclose(alone, std[start : start + len(asked[3])], rtol=1e-6)
    model.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.interpolate_std(panel, asked).values, std)
    half = [(end.values - std) for end in again.interpolate_interval(panel, asked, coverage=0.9)]
    np.testing.assert_array_equal(half[0], lower.values - std)


@pytest.fixture(scope="module")
def filtering() -> PolyODETransformer:
    model = PolyODETransformer(max_epochs=6, random_state=0, observations="noisy")
    return model.fit(sines(30, 0, noise=0.2)[0])


def test_a_deviation_of_a_filter_is_that_of_an_interval_without_the_noise(filtering):
    model, (panel, asked, truth) = filtering, sines(40, 1, noise=0.2)
    lower, upper = model.interpolate_interval(panel, asked, coverage=0.9)
    std = model.interpolate_std(panel, asked).values
    total = np.sqrt(std**2 + model.noise_**2)
    half = (upper.values - lower.values) / 2
    assert_allclose(np.median(half / total), 1.645, rtol=0.05)
    inside = np.abs(model.interpolate(panel, asked).values - truth) <= 1.645 * std
    assert 0.75 < inside.mean() < 0.98
    ends = [0.0, 0.5, 2.0]
    ahead = model.interpolate_std(panel, ends, relative_to="end").values
    found = model.stream(panel).forecast_std(ends, relative_to="end").values
    assert_allclose(found, ahead, rtol=1e-6)
    assert (ahead > 0).all()


def test_at_noisy_observations_the_deviation_is_what_the_filter_leaves(filtering):
    """Errors at hidden rows, mostly noise, do not say what is left where a row is known."""
    model, (noisy, *_), (clean, *_) = filtering, sines(40, 1, noise=0.2), sines(40, 1)
    assert_allclose(noisy.times, clean.times)
    std, seen = model.interpolate_std(noisy).values, ~np.isnan(noisy.values)
    inside = np.abs(model.interpolate(noisy).values - clean.values) <= 2 * std
    assert 0.75 < inside[seen].mean() < 0.995
    beside = model.interpolate_std(noisy, [t + 1e-9 for t, _ in noisy]).values
    assert 0.7 < np.median(beside[seen] / std[seen]) < 2.5


@pytest.mark.parametrize("error", [0.05, 0.2, 0.6])
def test_known_errors_of_the_last_observation_count_in_streams_too(error):
    rng = np.random.default_rng(0)
    series = motions(20, 15, noise=0.2)
    told = [rng.choice([0.05, 0.2, 0.5], size=np.shape(x)) for _, x in series]
    model = PolyODETransformer(max_epochs=2, n_coefficients=4, random_state=0)
    model.fit(Panel.from_series(series, errors=told))
    asked = Panel.from_series(series[:3], errors=[np.full_like(x, error) for x in told[:3]])
    ends = [0.0, 1e-6, 0.5]
    batch = model.interpolate_std(asked, ends, relative_to="end").values
    assert_allclose(model.stream(asked).forecast_std(ends, relative_to="end").values, batch, 1e-5)
    assert 0.4 * error < batch[0, 0] <= error * (1 + 1e-6)


def test_slopes_of_a_channel_that_was_never_observed_are_not_sure():
    each = np.sort(np.random.default_rng(0).uniform(0, 10, (20, 14)), axis=1)
    series = [(t, np.stack([np.sin(t + k), np.cos(t + k)], axis=1)) for k, t in enumerate(each)]
    options = {"max_epochs": 2, "n_coefficients": 4, "random_state": 0}
    model = PolyODETransformer(**options, observations="exact").fit(series)
    alone = [(t, np.where([True, False], x, np.nan)) for t, x in series[:3]]
    assert (model.derivative_std(alone, [4.0, 6.0]).values[:, 1] > 0.05).all()


def test_corrected_values_have_a_row_for_each_time(of_sines):
    panel, *_ = sines(3, 1)
    path = getattr(of_sines, "transformer_", of_sines).path(panel)
    around = path.value([2.0, 3.0])
    with pytest.raises(ValueError, match="a row for each of the times"):
        path.interval([2.0], around=around)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("observations", ["exact", "noisy"])
def test_of_a_channel_that_fit_never_observed_only_exact_observations_are_sure(observations):
    """Elsewhere its path ignores them, so that they make nothing surer, near or far."""
    series = ended(12, seed=0)
    unseen = [(t, np.where([True, False], x, np.nan)) for t, x in series]
    options = {"max_epochs": 1, "n_coefficients": 3, "random_state": 0}
    model = PolyODETransformer(**options, observations=observations).fit(unseen)
    panel = Panel.from_series([(t, 100 * x) for t, x in series[:3]])
    path, asked = model.path(panel), [0.5 * (t[1:] + t[:-1]) for t, _ in panel]
    for own, times in ((path, None), (path, asked), (path, [t[-1:] + 0.5 for t, _ in panel])):
        std = own.std(times).values[:, 1]
        lower, upper = own.interval(times, 0.9)
        half = (upper.values - lower.values)[:, 1] / 2
        if observations == "exact":
            assert_allclose(std, half / 1.6449, rtol=1e-3)
        seen = ~np.isnan(panel.values[:, 1]) if times is None else np.zeros(len(std), dtype=bool)
        assert ((std == 0) == (seen & (observations == "exact"))).all()
        assert (half[std > 0] > 0.9).all()
    ahead = model.stream(panel).forecast_std([0.0, 0.5], relative_to="end").values[:, 1]
    assert (ahead > 0.5).all()
    lower, upper = model.forecast_interval(panel, [0.0, 0.5], relative_to="end")
    assert (upper.values - lower.values)[:, 1].min() > 1.8
    assert (path.slope_std(asked).values[:, 1] > 0.05).all()
    past = path.integral(-1.0, 0.0, "end").xs("x1", level="channel")
    assert (past["upper"] - past["lower"] > 0.5).all()


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize(
    "model", [HiPPOTransformer(), InterpolationTransformer(kind="cubic")], ids=["lines", "cubic"]
)
def test_paths_that_nothing_trained_have_errors_too(model, noise, tmp_path):
    """In a batch and alone, in numbers and datetimes, in memory and in a file."""
    train, (panel, asked, truth) = sines(30, 0, noise)[0], sines(40, 1, noise)
    path = model.fit(train).path(panel)
    std = path.std(asked).values
    for coverage, most in ((0.5, 0.8), (0.9, 0.99)):  # cubics gain much by the hidden rows
        lower, upper = path.interval(asked, coverage)
        inside = (lower.values <= truth) & (truth <= upper.values)
        assert coverage - 0.05 < inside.mean() < most
    wrong = np.abs(path.value(asked).values - truth)
    kept = (wrong > 1e-9) & (std > 0)
    assert np.corrcoef(np.log(std[kept]), np.log(wrong[kept]))[0, 1] > (0.3 if noise else 0.7)
    assert (path.std().values[~np.isnan(panel.values)] == 0).all()
    model.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.path(panel).std(asked).values, std)
    alone = model.path(panel[[3]]).std([asked[3]]).values
    start = sum(len(own) for own in asked[:3])
    assert_allclose(alone, std[start : start + len(asked[3])], rtol=1e-9)
    first = pd.Timestamp("2024-03-01")
    series = [[(first + pd.to_timedelta(t, "D"), x) for t, x in own] for own in (train, panel)]
    days = [Panel.from_series(own) for own in series]
    dated = clone(model).fit(days[0]).path(days[1])
    leads = [pd.to_timedelta(t - own[0], "D") for t, (own, _) in zip(asked, panel, strict=True)]
    # Bins of equal distances differ by rounding.
    assert_allclose(dated.std(leads, "start").values, std, rtol=0.02)


@pytest.mark.filterwarnings("ignore:the channels .* were never observed:UserWarning")
@pytest.mark.parametrize("model", [HiPPOTransformer(), InterpolationTransformer(kind="cubic")])
def test_nothing_is_sure_of_a_channel_that_only_the_series_asked_for_lack(model):
    """A law whose sizes fall with the length of a gap would be surest of endless ones."""
    rng, times = np.random.default_rng(0), np.arange(20.0)
    walks = [np.cumsum(rng.normal(size=(20, 2)), axis=0) for _ in range(12)]
    model.fit([(times, np.where([True, False], x, np.nan)) for x in walks])
    std = model.path([(times, x) for x in walks]).std([3.5, 10.0], "start").values
    assert (std[::2, 1] > 0.5).all()


def test_a_path_that_nothing_trained_keeps_few_series_alive():
    panel = Panel.from_array(np.random.default_rng(0).normal(size=(3000, 10, 1)))
    cells = weakref.ref(panel.values)
    model = HiPPOTransformer(n_coefficients=2).fit(panel)
    del panel
    gc.collect()
    assert cells() is None
    assert len(model.path([([0.0, 1.0], [0.0, 1.0])]).std([0.5])) == 1


def test_errors_grow_outside_of_observations_of_paths_that_are_not_continued():
    model = InterpolationTransformer().fit(sines(30, 0)[0])
    series = [(np.arange(4.0), [[0.0, 1.0], [0.5, np.nan], [np.nan, 0.0], [1.0, np.nan]])]
    path = model.path(series)
    std = path.std([-1.0, 0.0, 0.5, 1.0, 2.0, 2.5, 3.0, 4.0]).values
    assert (std[[1, 3, 6], 0] == 0).all()
    assert (std[[0, 2, 4, 5, 7], 0] > 0).all()
    assert (np.diff(std[4:, 1]) > 0).all()  # after its last observation
    for times in (-np.arange(5.0), 3.0 + np.arange(5.0)):
        std = path.std(times).values[:, 0]
        assert std[0] == 0 < std[1] < std[2] < std[-1]
    for ask in (path.slope_std, model.path([([0.0], [[1.0, np.nan]])]).slope_std):
        with pytest.raises(ValueError, match="slopes and windows, a transformer that"):
            ask()
    few = InterpolationTransformer().fit(series).path(series)
    with pytest.raises(ValueError, match="at least 60 rows"):
        few.interval()
