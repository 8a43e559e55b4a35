"""The ridge regression on what is known: what it finds, and that it is the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble import ridge
from skpolyode.ensemble.backtest import nearness
from skpolyode.ensemble.member import Asked, Lesson, RollingOrigins
from skpolyode.ensemble.ridge import DirectRidge
from tests.ensemble.cases import no_inputs, part_of, rows_of, single

LEADS = np.array([1.0, 2.0, 4.0])


def pushed(n_series: int, seed: int, n_rows: int = 12, spread: float = 1.0) -> Panel:
    """The second channel stands still, each at a level of its own, and pushes the first."""
    rng, series = np.random.default_rng(seed), []
    for _ in range(n_series):
        t = np.cumsum(rng.choice([0.5, 1.0, 1.5], n_rows)) * spread
        push = np.full(n_rows, rng.standard_normal())
        x = rng.standard_normal() + push * t / spread + 0.1 * rng.standard_normal(n_rows).cumsum()
        series.append((t, np.column_stack([x, push])))
    return Panel.from_series(series)


def ridge_sample(panel: Panel, known: int = 3) -> RollingOrigins:
    """The rows that follow the first ones, up to the longest lead, from these."""
    first, series = panel.offsets[:-1], np.repeat(np.arange(panel.n_series), panel.lengths)
    since = panel.times - panel.times[first][series]
    origins = first + known - 1
    lead = since - since[origins][series]
    asked = (lead > 0) & (lead <= LEADS[-1])
    cells, rows = rows_of(since, panel.values, panel.offsets), np.flatnonzero(asked)
    where = np.arange(panel.n_series), origins, rows, series[rows], series[rows]
    what = panel.times[rows], since[rows], panel.values[rows], no_inputs(len(rows))
    return RollingOrigins(panel, cells, *where, *what)


def all_learned(sample: RollingOrigins, leads: np.ndarray, base: np.ndarray) -> list[DirectRidge]:
    return DirectRidge.learn(Lesson(sample, [()], leads, base))


def learned(sample: RollingOrigins, leads: np.ndarray = LEADS) -> DirectRidge | None:
    """With forecasts of the mixed model that are no better than the last value."""
    return next(iter(all_learned(sample, leads, sample.records.last)), None)


def asked_of(sample: RollingOrigins, longest: float = LEADS[-1]) -> Asked:
    return Asked(sample.elapsed, sample.driven, sample.records, longest, sample.records.last)


def answers(own: DirectRidge, sample: RollingOrigins) -> np.ndarray:
    before = own.known_at(sample.cells, sample.origins)[sample.origin]
    return own.forecast(before, asked_of(sample))


def features_of(
    sample: RollingOrigins, with_products: bool, longest: float, with_changes: bool = False
) -> ridge._Features:
    known = DirectRidge.known_at(sample.cells, sample.origins)[sample.origin]
    return ridge._Features.of(asked_of(sample, longest), known, with_products, with_changes)


def test_what_other_channels_say_is_found():
    own, test = learned(ridge_sample(pushed(200, 0))), ridge_sample(pushed(50, 1))
    wrong = answers(own, test) - test.actual
    last = test.records.last - test.actual
    assert np.mean(wrong[:, 0] ** 2) < 0.02 * np.mean(last[:, 0] ** 2)
    assert np.abs(wrong[:, 1]).max() < 1e-6


@pytest.mark.parametrize("strength", [10.0, 100.0])
def test_it_is_a_ridge_regression_at_each_lead(strength, monkeypatch):
    """On its features, of the errors of the best simple forecast."""
    monkeypatch.setattr(ridge, "_SETTINGS", ridge.RidgeSettings(strengths=(strength,)))
    rng, panel = np.random.default_rng(0), pushed(200, 2, n_rows=4)
    sample = ridge_sample(panel)
    sample = replace(sample, actual=sample.actual + rng.standard_normal(sample.actual.shape))
    own = learned(sample, LEADS[:1])
    found = answers(own, sample)[:, 0]

    features = features_of(sample, own.with_products, LEADS[0], own.with_changes)
    x, naive = features.of_channel(0, np.ones(len(sample.elapsed), dtype=bool))
    x, base = ridge._standardised(x, own.centre[0], own.scale[0], 0), naive[:, own.bases[0, 0]]
    oracle = Ridge(alpha=strength, fit_intercept=False)
    expected = base + oracle.fit(x, sample.actual[:, 0] - base).predict(x)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_strength_is_that_of_the_least_error_in_cross_validation(monkeypatch):
    """Against a loop that fits each fold's complement by itself."""
    rng, panel = np.random.default_rng(3), pushed(40, 2, n_rows=4)
    sample = ridge_sample(panel)
    actual = sample.actual + rng.standard_normal(sample.actual.shape)
    sample = replace(sample, actual=np.where([True, False], actual, np.nan))
    folds, known = sample.series % 5, np.ones(len(sample.series), dtype=bool)
    errors = {}
    for with_products, with_changes in product((False, True), repeat=2):
        features = features_of(sample, with_products, LEADS[0], with_changes)
        x, naive = features.of_channel(0, known)
        x = np.column_stack([np.clip((x - x.mean(0)) / np.maximum(x.std(0), 1e-9), -5, 5), known])
        x[:, :-1] *= features.of_channel(0, known)[0].std(axis=0) > 1e-6
        wrong = sample.actual[:, 0, None] - naive
        for strength in (0.1, 1.0, 10.0, 100.0, 1000.0):
            left = np.empty(len(x))
            for k in range(5):
                out = folds == k
                base = (wrong[~out] ** 2).sum(axis=0).argmin()
                model = Ridge(alpha=strength, fit_intercept=False).fit(x[~out], wrong[~out, base])
                left[out] = wrong[out, base] - model.predict(x[out])
            errors[with_products, with_changes, strength] = np.mean(left**2)
    products, changes, strength = min(errors, key=errors.get)
    own = learned(sample, LEADS[:1])
    assert own.strength == strength
    monkeypatch.setattr(ridge, "_SETTINGS", ridge.RidgeSettings(strengths=(strength,)))
    assert (own.with_products, own.with_changes) == (products, changes)
    again = learned(sample, LEADS[:1])
    np.testing.assert_allclose(again.coefficients, own.coefficients)

    # Each fold is forecast by what the others tell of the same features.
    folded = all_learned(sample, LEADS[:1], sample.records.last)[1:]
    assert len(folded) == 5
    features = features_of(sample, products, LEADS[0], changes)
    x, naive = features.of_channel(0, known)
    x, naive = ridge._standardised(x, own.centre[0], own.scale[0], 0), naive[:, own.bases[0, 0]]
    for k, other in enumerate(folded):
        oracle = Ridge(alpha=strength, fit_intercept=False)
        oracle.fit(x[folds != k], (sample.actual[:, 0] - naive)[folds != k])
        np.testing.assert_allclose(other.coefficients[0, 0], oracle.coef_, atol=1e-8)


def moving_averages(n_series: int, seed: int, n_rows: int = 60) -> tuple[Panel, np.ndarray]:
    """Means of the five last draws of noise, and the draws (n_series, n_rows + 4)."""
    noise = np.random.default_rng(seed).standard_normal((n_series, n_rows + 4))
    means = np.lib.stride_tricks.sliding_window_view(noise, 5, axis=1).mean(axis=2)
    return Panel.from_series([(np.arange(n_rows) * 1.0, x) for x in means]), noise


def test_what_leaves_a_moving_average_is_known():
    """The changes 5, 10, 15 and 20 rows ago tell of the draw that leaves it next.

    Who knows all draws has half of the error of the last value; means that forget leave .9 of it.
    """
    own = learned(ridge_sample(moving_averages(300, 0)[0], known=40))
    assert own.with_changes
    panel, noise = moving_averages(300, 1)
    test = ridge_sample(panel, known=40)
    wrong = (answers(own, test) - test.actual)[test.elapsed == 40, 0]
    last = (test.records.last - test.actual)[test.elapsed == 40, 0]
    least = noise[:, 44] / 5  # of all draws before are known
    assert np.mean(wrong**2) < 0.65 * np.mean(last**2)
    assert np.mean(wrong**2) < 1.3 * np.mean(least**2)


def test_latest_changes_grow_row_by_row():
    """With gaps in channels, from the first row on, as all of a series gives them at once."""
    rng, n_rows = np.random.default_rng(0), 30
    panel = pushed(3, 0, n_rows=n_rows)
    values = np.where(rng.random(panel.values.shape) < 0.4, np.nan, panel.values)
    driven = rng.standard_normal((len(values), 1))
    rows = rows_of(panel.times, values, panel.offsets)._replace(driven=driven)
    none = np.zeros(0)
    own = DirectRidge(none, none, none, none, none, True, True, 1.0, n_driven=1)
    known = own.start(3, 2)
    for k in range(n_rows):
        places = panel.offsets[:-1] + k
        known = own.updated(known, single(rows, places))
        np.testing.assert_array_equal(known, own.known_at(rows, places))
    seen = values[:n_rows, 0][~np.isnan(values[:n_rows, 0])][::-1]
    expected = np.append(seen, [seen[-1]] * 21)[:21]
    np.testing.assert_array_equal(known[0, 0, 1:], expected)
    one_row = rows_of(np.zeros(1), np.array([[2.0, np.nan]]), np.array([0, 1]))
    known = own.known_at(one_row, np.zeros(1, dtype=int))[0]
    np.testing.assert_array_equal(known[0, -21:], 2.0)
    assert np.isnan(known[1, -21:]).all()


def test_each_lead_is_of_the_knots_around_it():
    np.testing.assert_allclose(
        nearness(np.array([0.1, 1.0, 1.25, 9.0]), LEADS),
        [[1, 0, 0], [1, 0, 0], [27 / 32, 5 / 32, 0], [0, 0, 1]],
    )


def test_what_was_not_observed_is_not_forecast():
    panel = pushed(60, 0)
    own, test = learned(ridge_sample(panel)), ridge_sample(pushed(20, 1))
    hidden = np.where([False, True], np.nan, test.cells.values)
    found = answers(own, replace(test, cells=test.cells._replace(values=hidden)))
    assert np.isfinite(found[:, 0]).all()
    assert np.isnan(found[:, 1]).all()


def test_rare_impulses_count_in_full():
    rng, sample = np.random.default_rng(0), ridge_sample(pushed(400, 0))
    size = len(sample.elapsed)
    driven = np.where(rng.random(size) < 0.02, rng.uniform(1.0, 4.0, size), 0.0)[:, None]
    cells = sample.cells._replace(driven=np.zeros((len(sample.cells.times), 1)))
    actual = sample.records.last + driven
    sample = replace(sample, cells=cells, driven=driven, actual=actual)
    own, some = learned(sample), driven[:, 0] > 0
    found = answers(own, sample)
    for rise in (found - sample.records.last)[some].T:
        np.testing.assert_allclose(rise, driven[some, 0], rtol=0.1)


def test_without_anything_to_learn_from_there_is_none():
    sample = ridge_sample(pushed(20, 0))
    assert learned(part_of(sample, sample.series < 0)) is None
    assert learned(replace(sample, actual=sample.records.last)) is None
    assert learned(replace(sample, actual=np.full_like(sample.actual, np.nan))) is None


def test_many_channels_are_forecast_from_their_own():
    rng = np.random.default_rng(0)
    panel = pushed(30, 0)
    values = np.hstack([panel.values, rng.normal(size=(panel.n_observations, 60))])
    wide = Panel(panel.times, values, panel.offsets)
    own = learned(ridge_sample(wide))
    assert own.coefficients.shape[-1] < 30


def test_it_answers_before_other_channels_were_last_observed():
    own, test = learned(ridge_sample(pushed(60, 0))), ridge_sample(pushed(20, 1))
    early = replace(test, elapsed=np.full(len(test.elapsed), -5.0))
    features = features_of(early, False, 4.0)
    assert not features.since.any()
    assert not features.elapsed.any()
    assert np.isfinite(answers(own, early)).all()


def test_beyond_the_longest_lead_of_training_nothing_goes_on():
    """Leads stop; only how long the series has lasted may still count."""
    sample = ridge_sample(pushed(20, 0))
    found = [
        features_of(replace(sample, elapsed=2.0 + 1.5 * np.full(len(sample.elapsed), own)), True, 4)
        for own in (6.0, 1e6)
    ]
    np.testing.assert_array_equal(found[0].since, 4.0)
    for name in ("since", "simple", "levels", "shared"):
        np.testing.assert_array_equal(getattr(found[1], name), getattr(found[0], name))
    far = ridge._standardised(np.array([[1e9, -1e9]]), np.zeros(2), np.ones(2), 0)
    assert far.tolist() == [[5.0, -5.0, 1.0]]


def test_forecasts_of_the_mixed_model_are_taken_where_they_are_better():
    """The best of all simple forecasts is corrected."""
    sample = ridge_sample(pushed(60, 0))
    mixed = np.where(np.isnan(sample.actual), 0.0, sample.actual)
    own = all_learned(sample, LEADS, mixed)[0]
    assert (own.bases[0] == ridge._MIXED).all()
    known = own.known_at(sample.cells, sample.origins)[sample.origin]
    found = own.forecast(known, asked_of(sample)._replace(base=mixed))
    np.testing.assert_allclose(found, mixed, atol=1e-6)


@pytest.mark.parametrize("spread", [1.0, 3600.0])
def test_transformers_streams_and_files_have_it(spread, tmp_path):
    train, test = (pushed(n, seed, spread=spread) for n, seed in ((60, 0), (5, 1)))
    model = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1)
    model.set_params(random_state=0).fit(train)
    stacking = model.embedder_.stacking
    assert "ridge" in stacking.each
    ends = [times[-1] for times, _ in test]
    asked = [[end, end + 0.7 * spread, end + 4 * spread] for end in ends]
    found = model.forecast(test, asked).values.reshape(5, 3, 2)
    last = test.values[test.offsets[1:] - 1]
    np.testing.assert_allclose(found[:, 0], last, atol=1e-6)
    rise = found[:, 2, 0] - last[:, 0]
    assert np.abs(rise - 4 * last[:, 1]).max() < 1.5  # the untrained model stands still
    model.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        again.forecast(test, asked).values, model.forecast(test, asked).values
    )
    stream = model.stream(5)
    for i, (times, values) in enumerate(test):
        stream.update(times, values, series=np.full(len(times), i))
    np.testing.assert_allclose(stream.forecast(asked).values.reshape(5, 3, 2), found, atol=1e-7)
