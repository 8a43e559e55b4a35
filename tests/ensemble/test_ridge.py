"""The regression on simple forecasts: what it finds, and that it is the same everywhere."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.ensemble.naive import records_at
from skpolyode.ensemble.ridge import DirectRidge, Sample, nearness

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
    return Sample(records, since[asked], panel.values[asked])


def test_what_other_channels_say_is_found():
    own = DirectRidge.learn(
        LEADS, ridge_sample(pushed(200, 0)), test := ridge_sample(pushed(50, 1))
    )
    wrong = own.at(test.records, test.elapsed) - test.actual
    last = test.records[:, :, 11] - test.actual
    assert np.mean(wrong[:, 0] ** 2) < 0.02 * np.mean(last[:, 0] ** 2)
    assert np.abs(wrong[:, 1]).max() < 1e-6


def test_it_is_a_ridge_regression_at_each_lead():
    """On what it knows, of what is left by the best simple forecast."""
    rng, panel = np.random.default_rng(0), pushed(40, 2, n_rows=4)
    sample = ridge_sample(panel)
    sample = sample._replace(actual=sample.actual + rng.standard_normal(sample.actual.shape))
    every = DirectRidge._of_strengths(LEADS[:1], sample, False)
    for strength, own in zip((10, 100, 1000), every, strict=True):
        found = own.at(sample.records, sample.elapsed)[:, 0]

        x, simple = _design(own, sample)
        ridge = Ridge(alpha=strength, fit_intercept=False)
        base = simple[:, own.bases[0, 0]]
        expected = base + ridge.fit(x, sample.actual[:, 0] - base).predict(x)
        np.testing.assert_allclose(found, expected, atol=1e-8)


def _design(own: DirectRidge, sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    from skpolyode.ensemble.ridge import _Known, _standardised

    what = _Known.of(sample.records, sample.elapsed, own.with_products, own.leads[-1])
    x, simple = what.of_channel(0, np.ones(len(sample.elapsed), dtype=bool))
    return _standardised(x, own.centre[0], own.scale[0]), simple


def test_each_lead_is_of_the_knots_around_it():
    np.testing.assert_allclose(
        nearness(np.array([0.1, 1.0, 1.25, 9.0]), LEADS),
        [[1, 0, 0], [1, 0, 0], [0.75, 0.25, 0], [0, 0, 1]],
    )


def test_what_was_not_observed_is_not_forecast():
    panel = pushed(60, 0)
    own = DirectRidge.learn(LEADS, ridge_sample(panel), test := ridge_sample(pushed(20, 1)))
    records = test.records.copy()
    records[:, 1] = 0.0
    found = own.at(records, test.elapsed)
    assert np.isfinite(found).all()
    assert not found[:, 1].any()


def test_without_anything_to_learn_from_there_is_none():
    sample = ridge_sample(pushed(20, 0))
    none = Sample(*(part[:0] for part in sample))
    assert DirectRidge.learn(LEADS, none, sample) is None
    assert DirectRidge.learn(LEADS, sample, none) is None
    constant = sample._replace(actual=sample.records[:, :, 11])
    assert DirectRidge.learn(LEADS, constant, constant) is None


def test_many_channels_are_forecast_from_their_own():
    rng = np.random.default_rng(0)
    panel = pushed(30, 0)
    values = np.hstack([panel.values, rng.normal(size=(panel.n_observations, 60))])
    wide = Panel(panel.times, values, panel.offsets)
    own = DirectRidge.learn(LEADS, ridge_sample(wide), ridge_sample(wide))
    assert own.coefficients.shape[-1] < 20


def test_it_answers_before_other_channels_were_last_observed():
    own = DirectRidge.learn(LEADS, ridge_sample(pushed(60, 0)), test := ridge_sample(pushed(20, 1)))
    assert np.isfinite(own.at(test.records, np.full(len(test.elapsed), -5.0))).all()


def test_forecasts_at_many_times_are_those_at_each():
    own = DirectRidge.learn(LEADS, ridge_sample(pushed(60, 0)), test := ridge_sample(pushed(20, 1)))
    elapsed = test.elapsed[:, None] + [0.0, 0.5, 30.0]
    found = own.at_times(test.records, elapsed)
    for k in range(3):
        np.testing.assert_array_equal(found[:, k], own.at(test.records, elapsed[:, k]))


@pytest.mark.parametrize("spread", [1.0, 3600.0])
def test_transformers_streams_and_files_have_it(spread, tmp_path):
    train, test = (pushed(n, seed, spread=spread) for n, seed in ((60, 0), (5, 1)))
    model = PolyODETransformer(n_coefficients=4, hidden_layer_sizes=(4,), max_epochs=1)
    model.set_params(random_state=0).fit(train)
    stacking = model.embedder_.stacking
    assert stacking.regression is not None
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
