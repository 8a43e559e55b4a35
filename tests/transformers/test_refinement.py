"""What neighbours and other channels add to the paths of PanelImputer."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

import skpolyode
from skpolyode import InterpolationTransformer, Panel, PanelImputer
from skpolyode.panel.select import hide_cells
from skpolyode.transformers import imputer as of_imputer
from skpolyode.transformers.imputer import _Features, learn_refinement
from tests.quick import no_stacking
from tests.transformers.data import small


def twins(n_series=40, n_rows=20, seed=0, kept=0.8):
    """Two channels of white noise that are nearly equal, and a third one alone; what is hidden."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_series * n_rows, 1))
    values = np.hstack([common, common + 0.1 * rng.normal(size=common.shape), common * 0])
    values[:, 2] = rng.normal(size=len(common))
    times = np.concatenate([np.sort(rng.uniform(0, 10, n_rows)) for _ in range(n_series)])
    panel = Panel(times, values, np.arange(n_series + 1) * n_rows, channel_names=["a", "b", "c"])
    hidden = rng.random(values.shape) > kept
    hidden[:, 2] &= ~hidden[:, :2].any(axis=1)
    hidden[:, 0] &= ~hidden[:, 1]
    return hide_cells(panel, hidden), np.where(hidden, values, np.nan)


def lines(refine=True):
    return PanelImputer(InterpolationTransformer(), refine=refine)


@pytest.fixture(scope="module")
def refined():
    """Of a trained transformer, as it is by default."""
    with no_stacking():
        return PanelImputer(small(n_coefficients=3, max_epochs=1)).fit(twins()[0])


def error(filled, truth):
    return np.nanmean((filled.values - truth) ** 2, axis=0)


def test_a_channel_is_read_from_another_one_of_its_row():
    panel, truth = twins()
    before = error(lines(refine=False).fit_transform(panel), truth)
    after = error(lines().fit_transform(panel), truth)
    assert (after[:2] < 0.1 * before[:2]).all()
    # Nothing tells white noise: its mean errs least, by 1, and lines by 1.5 or more.
    assert 0.8 < after[2] < 0.9 * before[2]


def test_what_was_observed_stays():
    panel, _ = twins()
    filled = lines().fit_transform(panel)
    seen = ~np.isnan(panel.values)
    np.testing.assert_array_equal(filled.values[seen], panel.values[seen])
    assert not np.isnan(filled.values).any()


def test_a_path_that_needs_no_correction_stays():
    rng = np.random.default_rng(0)
    times = np.concatenate([np.sort(rng.uniform(0, 10, 20)) for _ in range(30)])
    values = np.column_stack([times, -2 * times]) + np.repeat(rng.normal(size=(30, 2)), 20, axis=0)
    panel = Panel(times, values, np.arange(31) * 20)
    imputer = lines().fit(panel)
    assert not imputer.refinement_.coefficients.any()


def test_few_cells_teach_nothing():
    panel, _ = twins(n_series=4)
    assert not lines().fit(panel).refinement_.coefficients.any()


@pytest.mark.usefixtures("no_stacking")
def test_only_trained_transformers_are_refined_by_default(refined):
    panel, truth = twins()
    assert lines(refine="auto").fit(panel).refinement_ is None
    learned = small(n_coefficients=3, max_epochs=1)
    plain = PanelImputer(learned, refine=False).fit_transform(panel)
    assert (error(refined.transform(panel), truth)[:2] < 0.2 * error(plain, truth)[:2]).all()


def test_series_are_filled_one_by_one():
    panel, _ = twins()
    imputer = lines().fit(panel)
    whole = imputer.transform(panel)
    for k in (0, 7):
        np.testing.assert_allclose(imputer.transform(panel[[k]]).values, whole[k].values)


def test_what_is_done_at_once_does_not_matter(monkeypatch):
    panel, _ = twins()
    imputer = lines().fit(panel)
    whole = imputer.transform(panel).values
    monkeypatch.setattr(of_imputer, "_MOST_CELLS", 150)  # two or three series
    np.testing.assert_allclose(imputer.transform(panel).values, whole)


def test_what_is_around_a_cell():
    nan = np.nan
    x = np.array([[3.0, nan], [nan, nan], [5.0, nan], [10.0, nan], [7.0, nan], [nan, 2.0]])
    panel = Panel(np.array([0.0, 1, 3, 4, 0, 2]), x, [0, 4, 6])
    path = np.array([[3.0, 2], [4, 2], [5, 4], [10, 4], [7, 2], [7, 2]])
    mean, scale = np.array([6.0, 2.0]), np.array([2.0, 1.0])
    own = _Features(panel, path, mean, scale, gap=1.0)
    values, distances, mean = own._around(0)
    # Before: one, two; behind: one, two. The mean is that of the other values of the series.
    np.testing.assert_array_equal(values[1], [3, nan, 5, 10])
    np.testing.assert_array_equal(distances[1], [1, 1e6, 2, 3])
    np.testing.assert_array_equal(
        values[[2, 3, 5]], [[3, nan, 10, nan], [5, 3, nan, nan], [7, nan, nan, nan]]
    )
    np.testing.assert_array_equal(mean, [7.5, 6, 6.5, 4, nan, 7])
    np.testing.assert_array_equal(own._around(1)[2], [nan] * 4 + [2, nan])
    # Of two neighbours each counts by how near it is; one alone is held.
    np.testing.assert_allclose(own.lines[:4, 0], [5, 11 / 3, 3 + 7 * 3 / 4, 5])
    np.testing.assert_allclose(own.off[:, 2, 0], [(5 - 8.25) / 2, (5 - 6.5) / 2])
    # For the second channel: its path, 1, the path of the first one, if above the mean, and slope.
    np.testing.assert_allclose(
        own.of_others(1)[[0, 1, 3, 4]],
        [
            [0, 1, -1.5, 0, 0.5],
            [0, 1, -1, 0, 1 / 3],
            [2, 1, 2, 2, 2.5],
            [0, 1, 0.5, 0.5, 0],
        ],
    )
    assert own.unseen[:4, 1].all()
    assert not own.unseen[:4, 0].any()


def curve(n_series=40, n_rows=20, seed=0):
    """Two channels, the second one a bent function of the first, never seen by the last series."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n_series * n_rows, 1))
    values = np.hstack([values, 3 * values + 5 * values.clip(0)])
    times = np.concatenate([np.sort(rng.uniform(0, 10, n_rows)) for _ in range(n_series)])
    panel = Panel(times, values, np.arange(n_series + 1) * n_rows)
    hidden = np.zeros(values.shape, dtype=bool)
    hidden[-n_rows:, 1] = True
    return hide_cells(panel, hidden), np.where(hidden, values, np.nan)


@pytest.mark.parametrize("others_lack_it", [True, False])
def test_a_channel_that_a_series_never_observes_is_read_from_others(others_lack_it):
    """By a function of them, whether series of `fit` lack the channel or not."""
    panel, truth = curve()
    imputer = lines().fit(panel if others_lack_it else panel[:-1])
    cells = ~np.isnan(truth)
    filled = imputer.transform(panel)
    assert np.square((filled.values - truth)[cells]).mean() < 0.05 * truth[cells].var()
    np.testing.assert_allclose(imputer.transform(panel[[-1]]).values, filled[-1].values)


def test_a_path_that_knows_a_hidden_channel_is_kept():
    """The path follows the second channel, of which the first one is a noisy reading."""
    rng = np.random.default_rng(0)
    times = np.concatenate([np.sort(rng.uniform(0, 10, 20)) for _ in range(40)])
    known = np.sin(times)
    values = np.column_stack([known + rng.normal(size=known.shape), known])
    panel = Panel(times, values, np.arange(41) * 20)
    own = learn_refinement(panel, lambda _: values)
    hidden = hide_cells(panel, np.broadcast_to([False, True], values.shape))
    assert own.unseen[1].any()
    np.testing.assert_allclose(own.correction(hidden, values)[:, 1], 0, atol=1e-6)


def test_other_channels_that_tell_nothing_leave_the_path():
    rng = np.random.default_rng(0)
    times = np.concatenate([np.sort(rng.uniform(0, 10, 20)) for _ in range(40)])
    panel = Panel(times, rng.normal(size=(800, 2)), np.arange(41) * 20)
    assert not lines().fit(panel).refinement_.unseen.any()


def test_units_do_not_matter():
    panel, _ = twins()
    other = Panel(panel.times * 3600, panel.values * [1e3, 1, 1e-3], panel.offsets)
    plain, scaled = (lines().fit_transform(x).values for x in (panel, other))
    np.testing.assert_allclose(scaled / [1e3, 1, 1e-3], plain, rtol=1e-6)


def test_tables_are_corrected_between_the_first_and_the_last_row():
    """Behind the last one forecasts stay: nothing was learned there."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 12, 1))
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, [0, 8]], X[:, 9:] = 0.5, np.nan
    plain, refined = (lines(refine).fit_transform(X) for refine in (False, True))
    np.testing.assert_array_equal(plain[:, 9:], refined[:, 9:])
    inside = np.isnan(X[:, :9])
    assert np.square(refined[:, :9][inside]).mean() < 0.8 * np.square(plain[:, :9][inside]).mean()


@pytest.mark.filterwarnings("ignore:.*far from")
def test_a_faulty_reading_corrects_nothing(refined):
    panel, _ = twins()
    assert refined.refinement_.coefficients[0].any()
    row = int(np.flatnonzero(np.isnan(panel.values[:, 0]))[0])
    outlying = panel.values.copy()
    outlying[row, 1] = 1e6
    spoilt = refined.transform(
        Panel(panel.times, outlying, panel.offsets, channel_names=list("abc"))
    )
    assert abs(spoilt.values[row, 0]) < 5


def test_it_is_saved(tmp_path):
    panel, _ = twins()
    imputer = lines().fit(panel)
    imputer.save(tmp_path / "imputer")
    again = skpolyode.load(tmp_path / "imputer")
    np.testing.assert_array_equal(again.transform(panel).values, imputer.transform(panel).values)


def test_a_cell_is_not_read_for_its_own_correction():
    panel, _ = twins()
    own = learn_refinement(panel, lambda x: np.zeros(x.values.shape))
    path = np.zeros(panel.values.shape)
    row = panel.lengths[0] // 2
    changed = panel.values.copy()
    changed[row, 0] += 5.0
    other = panel.like(panel.times, changed, panel.offsets)
    moved = own.correction(other, path) != own.correction(panel, path)
    assert own.coefficients[0].any()
    assert not moved[row, 0]
    assert moved[row, 1]


@pytest.mark.parametrize(
    "config", [{"enable_metadata_routing": True}, {"transform_output": "pandas"}]
)
def test_options_of_scikit_learn_do_not_change_what_is_learned(config):
    panel, _ = twins()
    expected = lines().fit_transform(panel).values
    with sklearn.config_context(**config):
        np.testing.assert_array_equal(lines().fit_transform(panel).values, expected)
