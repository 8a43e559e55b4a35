"""A decoder finds in an embedding the past that is there, and leaves the embedder alone."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import StandardScaler

from skpolyode import (
    HiPPOTransformer,
    ODERNNTransformer,
    Panel,
    PastDecoder,
    SummaryStatsTransformer,
)
from skpolyode.siblings import past_decoder
from tests.quick import no_stacking
from tests.transformers.data import oscillators

TRAIN, TEST = oscillators(60, length=6.0), oscillators(20, seed=1, length=6.0)
MEMORY = HiPPOTransformer(n_coefficients=12, window=3.0)
RNN = ODERNNTransformer(hidden_size=4, max_epochs=2, random_state=0)
QUICK = {"n_coefficients": 4, "max_epochs": 2, "random_state": 0}


@pytest.fixture(scope="module", autouse=True)
def quick():
    with no_stacking():
        yield


def error(decoder, channel=0):
    """Of the first channel, in its variance."""
    past = [(t, x) for t, x in TEST]
    found = decoder.reconstruct(past)
    own = np.concatenate([x[t >= t[-1] - decoder.window_] for t, x in past])
    return np.nanmean((found.values - own)[:, channel] ** 2) / np.nanvar(own[:, channel])


def test_what_is_remembered_is_found():
    decoder = PastDecoder(MEMORY, window=3.0, n_coefficients=12, max_epochs=30, random_state=0)
    decoder.fit(TRAIN)
    assert error(decoder) < 0.25
    errors = [entry["validation_error"] for entry in decoder.history_]
    assert decoder.validation_error_ == min(errors) < 0.3 * errors[0]


def test_what_is_forgotten_is_not():
    """A mean and a spread tell little of the way."""
    settings = {"window": 3.0, "n_coefficients": 12, "max_epochs": 30, "random_state": 0}
    remembers, forgets = (
        error(PastDecoder(embedder, **settings).fit(TRAIN))
        for embedder in (MEMORY, SummaryStatsTransformer())
    )
    assert remembers < 0.5 * forgets


def test_the_past_between_observations_is_learned_from_hidden_rows():
    """Lines of seven observations: a decoder of what was seen alone would wave between them."""
    rng = np.random.default_rng(0)
    levels, slopes = rng.normal(size=(2, 60))
    times = [np.sort(rng.uniform(0, 6, 7)) for _ in levels]
    lines = [(t, a + b * t) for t, a, b in zip(times, levels, slopes, strict=True)]
    decoder = PastDecoder(SummaryStatsTransformer(), window=6.0, random_state=0).fit(lines[:40])
    asked = [np.linspace(t[0], t[-1], 20) for t in times[40:]]
    truth = np.concatenate(
        [a + b * t for t, a, b in zip(asked, levels[40:], slopes[40:], strict=True)]
    )
    wrong = decoder.reconstruct(lines[40:], asked).values[:, 0] - truth
    assert np.mean(wrong**2) < 0.01 * np.var(truth)


def test_up_to_half_of_the_rows_are_hidden_but_never_the_last():
    panel = Panel.from_series([(np.arange(200.0), np.arange(200.0))] * 100)
    seen = past_decoder._with_hidden_rows(panel, np.random.RandomState(0))
    assert_array_equal(seen.end, panel.end)
    share = 1 - seen.lengths / 200
    assert share.min() < 0.05
    assert 0.2 < share.mean() < 0.3
    assert 0.45 < share.max() < 0.6


def test_embedding_is_turned_back_as_those_of_other_transformers():
    decoder = PastDecoder(MEMORY, window=3.0, n_coefficients=5, max_epochs=2, random_state=0)
    Z = decoder.fit_transform(TRAIN)
    assert Z.shape == (60, 10)
    assert list(decoder.get_feature_names_out()[[0, -1]]) == ["x0_c0", "x1_c4"]
    back = decoder.inverse_transform(Z[:3], [-2.0, -0.5])
    ends = [t[-1] for t, _ in TRAIN[:3]]
    expected = decoder.reconstruct(TRAIN[:3], [[end - 2.0, end - 0.5] for end in ends])
    np.testing.assert_allclose(back.values, expected.values, atol=1e-9)
    with pytest.raises(ValueError, match="fit with a longer window"):
        decoder.reconstruct(TRAIN[:1], [ends[0] - 3.5])


def test_a_fitted_embedder_is_not_fitted_again():
    embedder = HiPPOTransformer(n_coefficients=4).fit(TRAIN)
    decoder = PastDecoder(FrozenEstimator(embedder), n_coefficients=4, max_epochs=2).fit(TEST)
    assert decoder.embedder_.source is embedder.embedder_
    assert PastDecoder(embedder, max_epochs=2).fit(TEST).transformer_ is not embedder


def test_an_embedder_of_others_is_an_error():
    with pytest.raises(TypeError, match="transformer of series of this package"):
        PastDecoder(StandardScaler()).fit(TRAIN)


@pytest.mark.parametrize("frozen", [False, True])
def test_the_seed_of_the_embedder_is_that_of_the_decoder(frozen):
    embedder = ODERNNTransformer(hidden_size=4, max_epochs=2, random_state=0)
    if frozen:
        embedder = FrozenEstimator(embedder.fit(TRAIN))
    one, two = (
        PastDecoder(embedder, n_coefficients=4, max_epochs=2).fit(TRAIN).transform(TEST)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one, two)


def with_cell(value, error=None):
    """Series of `fit`, with one cell replaced, and perhaps the known error of that cell."""
    series = [(t, x.copy()) for t, x in TRAIN]
    series[3][1][2, 0] = value
    errors = [np.where(np.isnan(x), np.nan, 0.1) for _, x in series]
    errors[3][2, 0] = 0.1 if error is None and not np.isnan(value) else error
    return Panel.from_series(series, errors=None if error is None else errors)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("inner", [MEMORY, RNN], ids=["hippo", "rnn"])
def test_a_cell_far_from_all_others_is_no_target_and_no_observation(inner, frozen):
    with no_stacking():
        inner = FrozenEstimator(clone(inner).fit(TRAIN)) if frozen else inner
        one, two = (PastDecoder(inner, **QUICK) for _ in range(2))
        with pytest.warns(UserWarning, match="series 3.*1000 is far from all others") as warned:
            one.fit(with_cell(1e3))
        assert len(warned) == 1
        two.fit(with_cell(np.nan))
    assert_array_equal(one.transform(TEST), two.transform(TEST))
    with pytest.warns(UserWarning, match="series 3.*1000 is far from all others"):
        found = one.transform(with_cell(1e3))
    assert_array_equal(found, two.transform(with_cell(np.nan)))


def test_around_a_fitted_transformer_its_limits_alone_count():
    with no_stacking():
        inner = clone(RNN).fit([(t, 1e3 * x) for t, x in TRAIN])
    decoder = PastDecoder(FrozenEstimator(inner), **QUICK).fit(with_cell(1e3))  # without a warning
    assert_array_equal(decoder.limits_.highest, inner.limits_.highest)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_cell_with_an_error_above_the_spread_is_no_target(frozen):
    inner = FrozenEstimator(clone(MEMORY).fit(TRAIN)) if frozen else MEMORY
    with pytest.warns(UserWarning, match="known errors of observations"):
        one, two = (
            PastDecoder(inner, **QUICK).fit(panel)
            for panel in (with_cell(7.0, error=1e5), with_cell(np.nan, error=np.nan))
        )
    assert_array_equal(one.transform(TEST), two.transform(TEST))


def test_a_channel_that_was_never_observed_has_no_coefficients():
    series = [(t, np.column_stack([x[:, 0], np.full(len(t), np.nan)])) for t, x in TRAIN]
    with pytest.warns(UserWarning, match="never observed in fit"):
        decoder = PastDecoder(MEMORY, **QUICK).fit(series)
    Z = decoder.transform(TEST)  # in which it is observed
    assert np.abs(Z[:, :4]).min() > 0
    assert_array_equal(Z[:, 4:], 0)


class Recorded(past_decoder.DecodingTask):
    """A task that remembers the last one of its kind."""

    def __post_init__(self):
        super().__post_init__()
        Recorded.last = self


def test_copies_of_a_series_are_on_one_side_of_the_split(monkeypatch):
    """Each series has one value, which shows where its copies are: eight, at four times each."""
    levels = np.arange(40.0)
    series = [(np.arange(6.0), np.full((6, 1), level)) for level in levels]
    monkeypatch.setattr(past_decoder, "DecodingTask", Recorded)
    PastDecoder(SummaryStatsTransformer(), window=2.0, **QUICK).fit(series)
    task = Recorded.last
    assert_array_equal(task.offsets.diff(), np.tile([2, 3, 3, 3], 40 * 8))  # after 2, 3, 5, 6 rows
    trained = task.features[task.items].double()
    spread = trained.std(dim=0, correction=0)
    np.testing.assert_allclose(trained.mean(dim=0), 0, atol=1e-6)
    np.testing.assert_allclose(spread[spread > 1e-9], 1, atol=1e-6)
    level = task.x[task.offsets[:-1], 0].numpy()
    validates = np.zeros(len(level), dtype=bool)
    validates[task.validation] = True
    assert len(np.unique(level[validates])) == 4
    assert len(np.unique(level[task.items])) == 36
    assert not np.isin(level[validates], level[task.items]).any()
