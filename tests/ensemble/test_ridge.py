"""The ridge regression on naive forecasts: what it finds, and that it is the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble import ridge
from skpolyode.ensemble.backtest import Sample, nearness
from skpolyode.ensemble.naive import Records, records_at
from skpolyode.ensemble.ridge import DirectRidge
from tests.closeness import assert_same_but_for_rounding

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


def ridge_sample(panel: Panel, known: int = 3) -> Sample:
    """The rows that follow the first ones, up to the longest lead, from these."""
    first, series = panel.offsets[:-1], np.repeat(np.arange(panel.n_series), panel.lengths)
    since = panel.times - panel.times[first][series]
    last = first[series] + known - 1
    lead = since - since[last]
    asked = (lead > 0) & (lead <= LEADS[-1])
    records = records_at(since, panel.values, panel.offsets, last[asked])
    return Sample(records, since[asked], panel.values[asked], series[asked])


def test_what_other_channels_say_is_found():
    own, test = DirectRidge.learn(LEADS, ridge_sample(pushed(200, 0))), ridge_sample(pushed(50, 1))
    wrong = own.at(test.records, test.elapsed) - test.actual
    last = test.records.last - test.actual
    assert np.mean(wrong[:, 0] ** 2) < 0.02 * np.mean(last[:, 0] ** 2)
    assert np.abs(wrong[:, 1]).max() < 1e-6


@pytest.mark.parametrize("strength", [10.0, 100.0])
def test_it_is_a_ridge_regression_at_each_lead(strength, monkeypatch):
    """On its features, of the errors of the best naive forecast."""
    monkeypatch.setattr(ridge, "_SETTINGS", ridge.RidgeSettings(strengths=(strength,)))
    rng, panel = np.random.default_rng(0), pushed(200, 2, n_rows=4)
    sample = ridge_sample(panel)
    sample = sample._replace(actual=sample.actual + rng.standard_normal(sample.actual.shape))
    own = DirectRidge.learn(LEADS[:1], sample)
    found = own.at(sample.records, sample.elapsed)[:, 0]

    features = ridge._Features.of(sample.records, sample.elapsed, own.with_products, LEADS[0])
    x, naive = features.of_channel(0, np.ones(len(sample.elapsed), dtype=bool))
    x, base = ridge._standardised(x, own.centre[0], own.scale[0]), naive[:, own.bases[0, 0]]
    oracle = Ridge(alpha=strength, fit_intercept=False)
    expected = base + oracle.fit(x, sample.actual[:, 0] - base).predict(x)
    np.testing.assert_allclose(found, expected, atol=1e-8)


def test_strength_is_that_of_the_least_error_in_cross_validation(monkeypatch):
    """Against a loop that fits each fold's complement by itself."""
    rng, panel = np.random.default_rng(3), pushed(40, 2, n_rows=4)
    sample = ridge_sample(panel)
    sample = sample._replace(actual=sample.actual + rng.standard_normal(sample.actual.shape))
    sample = sample._replace(actual=np.where([True, False], sample.actual, np.nan))
    folds, known = sample.series % 5, np.ones(len(sample.series), dtype=bool)
    errors = {}
    for with_products in (False, True):
        features = ridge._Features.of(sample.records, sample.elapsed, with_products, LEADS[0])
        x, naive = features.of_channel(0, known)
        x = np.column_stack([np.clip((x - x.mean(0)) / np.maximum(x.std(0), 1e-9), -5, 5), known])
        x[:, :-1] *= features.of_channel(0, known)[0].std(axis=0) > 1e-6
        wrong = sample.actual[:, 0, None] - naive
        for strength in (10.0, 100.0, 1000.0):
            left = np.empty(len(x))
            for k in range(5):
                out = folds == k
                base = (wrong[~out] ** 2).sum(axis=0).argmin()
                model = Ridge(alpha=strength, fit_intercept=False).fit(x[~out], wrong[~out, base])
                left[out] = wrong[out, base] - model.predict(x[out])
            errors[with_products, strength] = np.mean(left**2)
    products, strength = min(errors, key=errors.get)
    own = DirectRidge.learn(LEADS[:1], sample)
    monkeypatch.setattr(ridge, "_SETTINGS", ridge.RidgeSettings(strengths=(strength,)))
    assert own.with_products == products
    again = DirectRidge.learn(LEADS[:1], sample)
    np.testing.assert_allclose(again.coefficients, own.coefficients)


def test_each_lead_is_of_the_knots_around_it():
    np.testing.assert_allclose(
        nearness(np.array([0.1, 1.0, 1.25, 9.0]), LEADS),
        [[1, 0, 0], [1, 0, 0], [0.75, 0.25, 0], [0, 0, 1]],
    )


def test_what_was_not_observed_is_not_forecast():
    panel = pushed(60, 0)
    own, test = DirectRidge.learn(LEADS, ridge_sample(panel)), ridge_sample(pushed(20, 1))
    records = test.records.pack()
    records[:, 1] = 0.0
    found = own.at(Records.unpack(records), test.elapsed)
    assert np.isfinite(found).all()
    assert not found[:, 1].any()


def test_without_anything_to_learn_from_there_is_none():
    sample = ridge_sample(pushed(20, 0))
    assert DirectRidge.learn(LEADS, sample.of(sample.series < 0)) is None
    constant = sample._replace(actual=sample.records.last)
    assert DirectRidge.learn(LEADS, constant) is None
    unknown = sample._replace(actual=np.full_like(sample.actual, np.nan))
    assert DirectRidge.learn(LEADS, unknown) is None


def test_many_channels_are_forecast_from_their_own():
    rng = np.random.default_rng(0)
    panel = pushed(30, 0)
    values = np.hstack([panel.values, rng.normal(size=(panel.n_observations, 60))])
    wide = Panel(panel.times, values, panel.offsets)
    own = DirectRidge.learn(LEADS, ridge_sample(wide))
    assert own.coefficients.shape[-1] < 20


def test_it_answers_before_other_channels_were_last_observed():
    own, test = DirectRidge.learn(LEADS, ridge_sample(pushed(60, 0))), ridge_sample(pushed(20, 1))
    assert np.isfinite(own.at(test.records, np.full(len(test.elapsed), -5.0))).all()


def test_forecasts_at_many_times_are_those_at_each():
    own, test = DirectRidge.learn(LEADS, ridge_sample(pushed(60, 0))), ridge_sample(pushed(20, 1))
    elapsed = test.elapsed[:, None] + [0.0, 0.5, 30.0]
    found = own.at_times(test.records, elapsed)
    for k in range(3):
        assert_same_but_for_rounding(found[:, k], own.at(test.records, elapsed[:, k]))


@pytest.mark.parametrize("spread", [1.0, 3600.0])
def test_transformers_streams_and_files_have_it(spread, tmp_path):
    train, test = (pushed(n, seed, spread=spread) for n, seed in ((60, 0), (5, 1)))
    model = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1)
    model.set_params(random_state=0).fit(train)
    stacking = model.embedder_.stacking
    assert stacking.ridge is not None
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
