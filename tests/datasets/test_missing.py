"""Random missingness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from skpolyode.datasets import drop_cells, drop_times, make_lorenz63, make_lorenz96
from skpolyode.panel import Panel

DROPS = [drop_cells, drop_times]


def random_panel(seed, n_series, n_channels=3):
    """Ragged series in which every one has at least one observed cell."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, n_series)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    times = np.concatenate([np.cumsum(rng.exponential(size=length)) for length in lengths])
    values = rng.normal(size=(offsets[-1], n_channels))
    hidden = rng.random(values.shape) < 0.4
    hidden[offsets[:-1], rng.integers(0, n_channels, n_series)] = False
    return Panel(times, np.where(hidden, np.nan, values), offsets, ids=np.arange(n_series) + 100)


def observed_per_series(panel):
    before = np.append(0, np.cumsum((~np.isnan(panel.values)).sum(axis=1)))
    return np.diff(before[panel.offsets])


def rows_per_series(panel):
    before = np.append(0, np.cumsum((~np.isnan(panel.values)).any(axis=1)))
    return np.diff(before[panel.offsets])


SETTINGS = {
    "seed": st.integers(0, 10_000),
    "n_series": st.integers(1, 8),
    "fraction": st.floats(0.0, 1.0),
    "min_observed": st.integers(1, 4),
}


@given(**SETTINGS)
def test_cells_are_parted_and_every_series_keeps_its_minimum(
    seed, n_series, fraction, min_observed
):
    panel = random_panel(seed, n_series)
    kept, dropped = drop_cells(panel, fraction, seed, min_observed=min_observed)
    together = np.where(np.isnan(kept.values), dropped.values, kept.values)
    assert_array_equal(together, panel.values)
    assert not (np.isfinite(kept.values) & np.isfinite(dropped.values)).any()
    for part in (kept, dropped):
        assert_array_equal(part.times, panel.times)
        assert_array_equal(part.offsets, panel.offsets)
        assert_array_equal(part.ids, panel.ids)
    minimum = np.minimum(observed_per_series(panel), min_observed)
    assert (observed_per_series(kept) >= minimum).all()


@given(**SETTINGS)
def test_rows_are_parted_and_every_series_keeps_its_minimum(seed, n_series, fraction, min_observed):
    panel = random_panel(seed, n_series)
    kept, dropped = drop_times(panel, fraction, seed, min_observed=min_observed)
    assert_array_equal(kept.lengths + dropped.lengths, panel.lengths)
    assert_array_equal(kept.ids, panel.ids)
    assert (rows_per_series(kept) >= np.minimum(rows_per_series(panel), min_observed)).all()
    for whole, *parts in zip(panel, kept, dropped, strict=True):
        times = np.concatenate([part.times for part in parts])
        order = np.argsort(times)
        assert_array_equal(times[order], whole.times)
        assert_array_equal(np.concatenate([part.values for part in parts])[order], whole.values)


@pytest.mark.parametrize("drop", DROPS)
def test_fraction_is_the_share_that_is_dropped(drop):
    panel = make_lorenz63(500, random_state=0).panel
    _, dropped = drop(panel, 0.3, random_state=0)
    n_cells = np.isfinite(panel.values).sum()
    assert_allclose(np.isfinite(dropped.values).sum() / n_cells, 0.3, atol=0.01)


def test_share_does_not_depend_on_channel_or_place():
    panel = make_lorenz63(2000, protocol="paper-code", random_state=0).panel
    kept, _ = drop_cells(panel, 0.5, random_state=0)
    observed = np.isfinite(kept.values)
    assert_allclose(observed.mean(axis=0), 0.5, atol=0.01)
    assert_allclose(observed[panel.offsets[:-1]].mean(), 0.5, atol=0.03)
    assert_allclose(observed[panel.offsets[1:] - 1].mean(), 0.5, atol=0.03)


@pytest.mark.parametrize("drop", DROPS)
def test_larger_fractions_drop_more_of_the_same(drop):
    panel = make_lorenz63(30, random_state=0).panel
    before = set()
    for fraction in (0.2, 0.5, 0.8):
        _, dropped = drop(panel, fraction, random_state=3)
        now = set(dropped.values[np.isfinite(dropped.values)])
        assert before < now
        before = now


@pytest.mark.parametrize("drop", DROPS)
def test_extremes(drop):
    panel = random_panel(0, 20)
    kept, _ = drop(panel, 0.0, random_state=0)
    assert_array_equal(kept.values, panel.values)
    kept, _ = drop(panel, 1.0, random_state=0)
    count = observed_per_series if drop is drop_cells else rows_per_series
    assert_array_equal(count(kept), 1)


@pytest.mark.parametrize("drop", DROPS)
def test_same_seed_same_choice(drop):
    panel = make_lorenz96(10, random_state=0).panel
    first, again, other = (drop(panel, 0.5, random_state=seed)[0] for seed in (0, 0, 1))
    assert_array_equal(first.values, again.values)
    assert not np.array_equal(
        np.nan_to_num(first.values), np.nan_to_num(other.values)[: len(first)]
    )


@pytest.mark.parametrize("drop", DROPS)
def test_labels_travel_and_the_input_stays(drop):
    panel = random_panel(0, 5)
    before = panel.values.copy()
    for part in drop(panel, 0.5, random_state=0):
        assert_array_equal(part.ids, panel.ids)
        assert part.channel_names == panel.channel_names
    assert_array_equal(panel.values, before)


@pytest.mark.parametrize("drop", DROPS)
def test_what_is_a_panel_to_estimators_is_one_here(drop):
    panel = Panel.from_series(random_panel(0, 4).to_series())
    for found, expected in zip(
        drop(panel.to_series(), 0.3, random_state=0), drop(panel, 0.3, random_state=0), strict=True
    ):
        assert found.equals(expected)
    with pytest.raises(TypeError, match="panel must be a collection of series"):
        drop("panel", 0.3)


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("fraction", [-0.1, 1.5, np.nan, "half"])
def test_fraction_out_of_range(drop, fraction):
    with pytest.raises(ValueError, match=r"fraction must be in \[0, 1\], got "):
        drop(random_panel(0, 2), fraction)


@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("min_observed", [0, 1.5])
def test_minimum_out_of_range(drop, min_observed):
    with pytest.raises(ValueError, match="min_observed must be an integer of at least 1"):
        drop(random_panel(0, 2), 0.5, min_observed=min_observed)
