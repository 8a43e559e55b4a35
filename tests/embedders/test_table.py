"""Cells that are hidden, and the rows to judge what is made of the others."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skpolyode import InterpolationTransformer, Panel
from skpolyode.embedders.table import (
    BEGINNINGS,
    ENDS,
    KINDS,
    ROWS,
    SINGLE,
    SPACED,
    STARTS,
    VALUES,
    Table,
    hidden_cells,
)

pytestmark = pytest.mark.usefixtures("whole_fits")


def walks(n_series: int, n_rows: int) -> Panel:
    x = np.random.default_rng(0).normal(size=(n_series, n_rows, 1)).cumsum(axis=1)
    return Panel.from_array(x)


def test_rows_of_each_series_end_in_observations_and_few_series_are_hidden_more_often():
    panel = walks(3, 50)
    table = Table.of(panel, ROWS)
    assert len(table.at[0]) == 15
    assert_array_equal(table.at[0].end, np.tile(panel.end, 5))
    assert_array_equal(table.at[0].start, np.tile(panel.start, 5))
    by_row = np.bincount(table.row, minlength=150).reshape(3, 50)
    assert by_row[:, 1:-1].mean() == pytest.approx(2.0, abs=0.2)  # ten of 25 rows, in five copies
    assert_array_equal(table.actual, panel.values[table.row])
    assert_array_equal(table.series, table.row // 50)
    assert_array_equal(table.at[1], panel.times[table.row])
    assert len(Table.of(walks(61, 100), ROWS).at[0]) == 61
    assert len(Table.of(panel, SPACED).at[0]) == 3


def test_values_leave_each_row_a_value_and_each_channel_its_last():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((30, 40, 3)) < 0.6, 1.0, np.nan)
    panel, seen = Panel.from_array(values, empty="keep"), ~np.isnan(values)
    hidden = hidden_cells(panel, VALUES, np.random.RandomState(0)).reshape(seen.shape)
    assert not (hidden & ~seen).any()
    assert ((seen & ~hidden).any(axis=2) == seen.any(axis=2)).all()
    last = seen & (seen[:, ::-1].cumsum(axis=1)[:, ::-1] == 1)
    assert not (hidden & last).any()
    assert (hidden & seen & (seen.cumsum(axis=1) == 1)).any()  # but not always its first


def test_hidden_beginnings_leave_each_series_an_observation():
    rng = np.random.RandomState(0)
    which = rng.randint(3, size=(40, 6))  # both channels, or one of them
    which[:3] = 1  # series of a single channel
    values = np.where(np.stack([which == 2, which == 1], axis=2), np.nan, 1.0)
    hidden = hidden_cells(Panel.from_array(values), BEGINNINGS, rng).reshape(values.shape)
    seen = ~np.isnan(values)
    assert (hidden.any(axis=1).sum(axis=1) == 1).all()  # one channel of each series
    assert (seen & ~hidden).any(axis=(1, 2)).all()
    later = np.maximum.accumulate(seen & ~hidden, axis=1)  # none is hidden after one that is not
    assert not (hidden & later).any()
    assert not (hidden & ~seen).any()
    whole = (hidden == seen).all(axis=1).any(axis=1)
    assert 0.3 < whole.mean() < 0.8


def test_series_are_cut_on_either_side():
    panel = Panel.from_array(np.random.default_rng(0).normal(size=(40, 9, 2)))
    kept = [
        ~hidden_cells(panel, kind, np.random.RandomState(0)).reshape(40, 9, 2)
        for kind in (STARTS, ENDS)
    ]
    for own in kept:
        assert_array_equal(own[..., 0], own[..., 1])
        assert len(np.unique(own.sum(axis=1))) == 8
    assert (np.diff(kept[0][..., 0].astype(int), axis=1) >= 0).all()
    assert (np.diff(kept[1][..., 0].astype(int), axis=1) <= 0).all()


def test_every_fourth_row_is_hidden_inside_series():
    panel = walks(3, 11)
    table = Table.of(panel, SPACED)
    assert_array_equal(table.row % 11, [2, 6] * 3)
    table = Table.of(panel, SINGLE)  # in copies, from rows that are drawn
    assert_array_equal(np.unique(table.row % 11), np.arange(1, 10))
    steps = np.diff(table.row)
    assert (steps[np.diff(table.query.series) == 0] == 4).all()


def test_kinds_follow_each_other():
    panel = Panel.from_array(np.random.default_rng(0).normal(size=(6, 30, 2)))
    table = Table.of(panel, *KINDS)
    assert len(table.at[0]) == 3 * 5 * 6
    rows = Table.of(panel, ROWS)
    assert_array_equal(table.actual[table.kind == ROWS], rows.actual)
    assert list(dict.fromkeys(table.kind.tolist())) == [*KINDS]
    hidden = np.isfinite(table.actual)
    assert hidden[table.kind == ROWS].all()
    assert (hidden[table.kind == VALUES].sum(axis=1) == 1).all()
    assert_array_equal(table.actual[hidden], panel.values[table.row][hidden])
    assert_array_equal(table.series, table.row // 30)


@pytest.mark.parametrize("kind", [*KINDS, SPACED, SINGLE])
def test_errors_are_those_of_the_path(kind):
    rng = np.random.default_rng(0)
    values = np.stack([np.arange(240.0).reshape(8, 30), rng.normal(size=(8, 30))], axis=2)
    panel = Panel.from_array(values)
    model = InterpolationTransformer().fit(panel).embedder_
    table = Table.of(panel, kind)
    errors = table.errors(model)
    expected = (table.actual - model.path_values(*table.at)) / model.units.scaler.scale
    np.testing.assert_allclose(errors, expected, atol=1e-9)
    known = np.isfinite(errors)
    assert known.any()
    if kind in (ROWS, SPACED, SINGLE):  # the first channel is a line, which lines cross
        np.testing.assert_allclose(errors[:, 0], 0.0, atol=1e-9)
    squares = table.by_series(errors**2)
    np.testing.assert_allclose(squares.sum(axis=0), np.nansum(errors**2, axis=0))
