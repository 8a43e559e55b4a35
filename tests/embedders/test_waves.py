"""Waves of each series' own: what they find, and how paths lean on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skpolyode import Panel
from skpolyode.embedders import ChannelScaler, ModelEmbedder, Units
from skpolyode.embedders import smoother as module
from skpolyode.embedders.paths import PathQuery
from skpolyode.embedders.smoother import waves_at
from tests.models import cases

SCALER = ChannelScaler(np.array([3.0, -1.0]), np.array([2.0, 0.5]))
PERIODS = [1.3, 2.9, 4.4]
N_ROWS, SPAN = 40, 15.0


def clean(period: float, times: np.ndarray) -> np.ndarray:
    """Two channels of two and three harmonics."""
    angle = 2 * np.pi * times / period
    first = 3 + np.sin(angle) + 0.5 * np.cos(2 * angle + 1)
    return np.stack([first, 4 * np.cos(angle - 0.4) - np.sin(3 * angle)], axis=1)


def panel(noise=0.0, known=False, missing=0.3) -> Panel:
    """Series of these periods at irregular times, whose channels are observed apart."""
    rng, series, errors = np.random.default_rng(0), [], []
    for period in PERIODS:
        times = np.sort(rng.uniform(0, SPAN, N_ROWS))
        values, sigma = clean(period, times), noise * 10 ** rng.uniform(-1, 1, (N_ROWS, 2))
        values += sigma * rng.normal(size=values.shape)
        hidden = rng.random(values.shape) < missing
        hidden[hidden.all(axis=1)] = False
        hidden[[0, -1]] = False
        series.append((times, np.where(hidden, np.nan, values)))
        errors.append(np.where(hidden, np.nan, sigma))
    return Panel.from_series(series, errors=errors if known else None)


def queried(own: Panel, n_times=50) -> tuple[PathQuery, np.ndarray, np.ndarray]:
    times = np.concatenate([np.linspace(*own.times[[a, b - 1]], n_times) for a, b in ends(own)])
    offsets = n_times * np.arange(own.n_series + 1)
    return PathQuery.of(own, times, offsets), times, offsets


def ends(own: Panel) -> list[tuple[int, int]]:
    return list(zip(own.offsets[:-1], own.offsets[1:], strict=True))


def truth(times: np.ndarray) -> np.ndarray:
    parts = zip(PERIODS, np.split(times, len(PERIODS)), strict=True)
    return np.concatenate([clean(*part) for part in parts])


def waves(own: Panel) -> np.ndarray:
    return SCALER.inverse(waves_at(queried(own)[0], SCALER)[0])


def test_harmonics_of_each_period_are_found_between_rows():
    own = panel()
    found, at_rows = waves_at(queried(own)[0], SCALER)
    wanted = truth(queried(own)[1])
    assert (np.abs(SCALER.inverse(found) - wanted) < 0.1 * wanted.std(axis=0)).all()
    off = SCALER.inverse(at_rows) - own.values
    assert (np.nanmax(np.abs(off), axis=0) < 0.1 * wanted.std(axis=0)).all()


def test_known_errors_weight_observations():
    told, untold = panel(0.3, known=True), panel(0.3)
    wanted = truth(queried(told)[1])
    errors = [np.sqrt(np.mean((waves(own) - wanted) ** 2)) for own in (told, untold)]
    assert errors[0] < 0.5 * errors[1]
    unknown = Panel(
        told.times, told.values, told.offsets, errors=np.full(told.values.shape, np.nan)
    )
    np.testing.assert_allclose(waves(unknown), waves(untold), atol=1e-9)


def test_known_errors_are_in_the_units_of_values():
    """The scale of a channel does not matter, where half of the errors are not known either."""
    told = panel(0.3, known=True)
    errors = np.where(np.arange(len(told.times))[:, None] % 2, np.nan, told.errors)
    mixed = Panel(told.times, told.values, told.offsets, errors=errors)
    asked, other = queried(mixed)[0], ChannelScaler(np.array([7.0, 0.0]), np.array([0.1, 30.0]))
    found = other.inverse(waves_at(asked, other)[0])
    np.testing.assert_allclose(found, waves(mixed), rtol=0, atol=1e-5)
    # Errors of a standard deviation of the channel are those that are taken for unknown ones.
    values = [x - np.nanmean(x, axis=0) for _, x in told]
    same = [np.nanstd(x, axis=0) + 0 * x for x in values]
    errors = np.where(np.isnan(errors), np.concatenate(same), errors)
    filled = Panel(told.times, told.values, told.offsets, errors=errors)
    np.testing.assert_allclose(waves(mixed), waves(filled), rtol=0, atol=1e-5)


def test_noise_and_constants_have_no_wave():
    times = np.sort(np.random.default_rng(1).uniform(0, 10, (2, 60)))
    values = np.random.default_rng(2).normal(size=(2, 60))
    found = waves(Panel.from_series([(times[0], np.stack([values[0], np.ones(60)], axis=1))]))
    assert found[:, 0].std() < 0.3 * values[0].std()
    np.testing.assert_allclose(found[:, 1], 1.0, atol=1e-6)


def test_channels_with_few_values_have_none():
    own = panel()
    values = own.values.copy()
    late = values[own.offsets[1] : own.offsets[2], 1]
    late[np.flatnonzero(~np.isnan(late))[5:]] = np.nan
    few = waves(own.like(own.times, values, own.offsets))
    assert np.isnan(few[50:100, 1]).all()
    kept = np.ones(few.shape, dtype=bool)
    kept[50:100, 1] = False
    assert np.isfinite(few[kept]).all()


@pytest.mark.parametrize("n_rows", [6, 7, 9, 11, 12, 13])
def test_waves_do_not_begin_at_a_number_of_rows(n_rows):
    """A sine is found from any number of rows that tells it from others, and a constant exactly."""
    times = np.linspace(0.0, 3.0, n_rows)
    sine = np.stack([3 + np.sin(2 * np.pi * times / 1.9), np.full(n_rows, -1.0)], axis=1)
    own = Panel.from_series([(times, sine)])
    asked = PathQuery.of(own, np.linspace(0, 3, 31), np.array([0, 31]))
    found = SCALER.inverse(waves_at(asked, SCALER)[0])
    assert np.abs(found[:, 0] - 3 - np.sin(2 * np.pi * asked.times / 1.9)).max() < 0.2
    np.testing.assert_allclose(found[:, 1], -1.0, atol=1e-6)


@pytest.mark.parametrize("n_rows", [400, 401, 900])
def test_long_series_have_waves_of_parts(n_rows):
    """One wave of all parts is found; where the period changes, each half has its own."""
    times = np.linspace(0, n_rows / 8, n_rows)
    asked = PathQuery.of(Panel.from_series([(times, clean(2.0, times))]), times, [0, n_rows])
    found, at_rows = waves_at(asked, SCALER)
    wanted = clean(2.0, times)
    assert (np.abs(SCALER.inverse(found) - wanted) < 0.1 * wanted.std(axis=0)).all()
    np.testing.assert_array_equal(found, at_rows)


def test_waves_of_parts_are_joined_without_jumps():
    times = np.linspace(0, 100, 800)
    values = np.where((times < 50)[:, None], clean(2.0, times), clean(3.1, times))
    values[400:600, 1] = np.nan  # a part in which one channel is not observed
    own = Panel.from_series([(times, values)])
    at = np.sort(np.concatenate([times[:-1] + 0.06, times[:-1] + 0.06 + 1e-9]))
    found = SCALER.inverse(waves_at(PathQuery.of(own, at, [0, len(at)]), SCALER)[0])
    assert np.isfinite(found).all()
    assert np.abs(found[1::2] - found[::2]).max() < 1e-6
    for early, period in ((True, 2.0), (False, 3.1)):
        some = (at < 25) if early else (at > 90)
        assert np.abs(found - clean(period, at))[some, 0].max() < 0.1


def test_memory_is_bounded_by_chunks(monkeypatch):
    own = panel()
    wanted = waves(own)
    largest, harmonics = [], module._harmonics
    monkeypatch.setattr(module, "CHUNK_TIMES", 16)
    monkeypatch.setattr(
        module, "_harmonics", lambda t, turns: largest.append(len(t)) or harmonics(t, turns)
    )
    np.testing.assert_allclose(waves(own), wanted, rtol=0, atol=1e-12)
    assert max(largest) == N_ROWS  # rows of a part, of which there are at most 400


@pytest.mark.parametrize(("factor", "shift"), [(60.0, 0.0), (1.0, 1e6)])
def test_units_of_time_do_not_matter(factor, shift):
    own = panel(0.1)
    other = own.like(own.times * factor + shift, own.values, own.offsets)
    np.testing.assert_allclose(waves(other), waves(own), atol=1e-4)


def test_times_of_a_series_may_be_in_any_order():
    own = panel()
    _, times, offsets = queried(own)
    order = np.concatenate([k + np.random.default_rng(k).permutation(50) for k in offsets[:-1]])
    model = leaning()
    found, shuffled = (model.path_values(own, t, offsets) for t in (times, times[order]))
    np.testing.assert_allclose(shuffled, found[order], rtol=0, atol=1e-9)


def leaning(shares=(1.0, 1.0), **options) -> ModelEmbedder:
    model = cases.make_model(step_size=0.2, **options)
    return ModelEmbedder(model, Units(SCALER, 1.0), waves=np.array(shares))


@pytest.mark.parametrize("gain", [None, cases.some_gain()])
def test_paths_go_part_of_the_way_to_waves(gain):
    own = panel()
    asked, *at = queried(own)
    paths = [leaning((share, 0.0), gain=gain).path_values(own, *at) for share in (0.0, 0.5, 1.0)]
    between = asked.following[:, 0] >= 0
    np.testing.assert_allclose(paths[0][:, 0] + paths[2][:, 0], 2 * paths[1][:, 0], atol=1e-9)
    assert (paths[0][~between] == paths[2][~between]).all()  # forecasts
    assert (paths[0][:, 1] == paths[2][:, 1]).all()
    errors = [np.mean((path - truth(at[0]))[between, 0] ** 2) for path in paths]
    assert errors[2] < 0.01 * errors[0]
    plain = replace(leaning(gain=gain), waves=None)
    assert (plain.path_values(own, *at) == paths[0]).all()


@pytest.mark.parametrize("gain", [None, cases.some_gain()])
def test_waves_add_no_jumps_and_exact_paths_pass_through_observations(gain):
    own, jumps = panel(0.1), []
    for shares in ((1.0, 1.0), (0.0, 0.0)):
        model = leaning(shares, gain=gain)
        shifts = (-1e-9, 0.0, 1e-9)
        left, at, right = (model.path_values(own, own.times + s, own.offsets) for s in shifts)
        seen = ~np.isnan(own.values)
        if gain is None:
            assert (at[seen] == own.values[seen]).all()
        seen[own.offsets[:-1]] = False
        jumps.append(np.stack([left - at, right - at])[:, seen])
    np.testing.assert_allclose(*jumps, rtol=0, atol=1e-6)
