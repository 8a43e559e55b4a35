"""Panels become what peers read and come back; rows of peers are kept, ordered and told apart."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks.peers_code import rows
from benchmarks.peers_code.grids import at_rows, even_grid, grid_of, on_grid, padded
from benchmarks.peers_code.hidden_cells import Hidden
from benchmarks.peers_code.labels import Labelled
from benchmarks.peers_code.neighbours import around, least_squares, own_channel
from skpolyode import Panel

FOLDER = Path(rows.__file__).parent
COMMANDS = ("hidden_cells", "labels", "single", "light_curves", "crossings")


@pytest.fixture
def panel() -> Panel:
    """Thirty series at some of eight hours; a third of the cells is missing."""
    rng = np.random.default_rng(0)
    series = []
    for _ in range(30):
        times = np.sort(rng.choice(8, rng.integers(3, 8), replace=False)).astype(float)
        values = rng.normal(size=(len(times), 2))
        values[rng.random(values.shape) < 0.3] = np.nan
        values[:, 0][np.isnan(values).all(axis=1)] = 0.0
        series.append((times, values))
    return Panel.from_series(series)


def test_values_on_their_grid_come_back(panel):
    grid = grid_of(panel[:10], panel[10:])
    assert_array_equal(grid, np.arange(8.0))
    array = on_grid(panel, grid)
    assert array.shape == (30, 8, 2)
    assert_array_equal(at_rows(array, panel, grid), panel.values)
    assert (~np.isnan(array)).sum() == (~np.isnan(panel.values)).sum()  # and nowhere else
    array[np.isnan(array)] = 7.0  # what a peer fills in is found where it was asked
    assert (at_rows(array, panel, grid)[np.isnan(panel.values)] == 7.0).all()


def test_times_go_to_the_nearest_step_and_rows_that_meet_have_their_mean():
    values = np.array([[1.0, np.nan], [3.0, 5.0], [9.0, np.nan]])
    panel = Panel(np.array([0.1, 0.9, 3.8]), values, [0, 3])
    grid = even_grid(Panel(np.array([0.0, 4.0]), np.zeros((2, 1)), [0, 2]), 3)
    assert_array_equal(grid, [0.0, 2.0, 4.0])
    array = on_grid(panel, grid)[0]
    assert_array_equal(array, [[2.0, 5.0], [np.nan, np.nan], [9.0, np.nan]])


def test_padding_repeats_last_rows_of_time_values_and_counts():
    first = np.array([[1.0, np.nan], [2.0, 4.0], [np.nan, 5.0]])
    series = [(np.array([0.0, 1.0, 3.0]), first), (np.array([2.0]), np.array([[6.0, np.nan]]))]
    long, short = padded(Panel.from_series(series))
    nan = np.nan
    expected = [[0, 1, nan, 1, 0], [1, 2, 4, 2, 1], [3, nan, 5, 2, 2]]
    assert_array_equal(long, expected)
    assert_array_equal(short, [[2, 6, nan, 1, 0]] * 3)


def test_series_to_stop_by_are_apart_and_hide_more(panel):
    train, holed, whole = Hidden(panel, panel, panel.values).parts()
    assert (len(train), len(whole)) == (24, 6)
    assert_array_equal(np.concatenate([train.values, whole.values]), panel.values)
    hidden = np.isnan(holed.values) & ~np.isnan(whole.values)
    assert hidden.any()
    assert_array_equal(holed.values[~hidden], whole.values[~hidden])
    y = np.arange(30) % 3 == 0
    fitting, stopping = Labelled(panel, y, panel, y).parts(0)
    assert_array_equal(np.sort([*fitting, *stopping]), np.arange(30))
    assert y[stopping].sum() == 2


def test_neighbours_are_what_a_loop_finds(panel):
    for channel in range(2):
        values, distances, mean = around(panel, channel)
        for row in range(panel.n_observations):
            own = np.searchsorted(panel.offsets, row, side="right") - 1
            rows = range(panel.offsets[own], panel.offsets[own + 1])
            known = [r for r in rows if r != row and not np.isnan(panel.values[r, channel])]
            before, after = [r for r in known if r < row][::-1], [r for r in known if r > row]
            for found, near in ((0, before[:2]), (2, after[:2])):
                columns = slice(found, found + len(near))
                assert_array_equal(values[row, columns], panel.values[near, channel])
                assert_array_equal(
                    distances[row, columns], np.abs(panel.times[near] - panel.times[row])
                )
                assert np.isnan(values[row, found + len(near) : found + 2]).all()
            expected = np.mean(panel.values[known, channel]) if known else 0.0
            assert_allclose(mean[row], expected, atol=1e-12)


def test_least_squares_find_a_channel_that_follows_another():
    rng = np.random.default_rng(0)
    first = rng.normal(size=(40, 8))
    values = np.stack([first, 2 * first + 1], axis=2)
    hidden = rng.random((40, 8)) < 0.2
    hidden[:, [0, -1]] = False
    known = np.where(hidden[..., None] & [False, True], np.nan, values)
    panels = [Panel.from_series([(np.arange(8.0), x) for x in own]) for own in (known, values)]
    data = Hidden(panels[0], panels[0], np.where(hidden.reshape(-1, 1), panels[1].values, np.nan))
    error = np.nanmean((least_squares(data, None) - data.truth)[:, 1] ** 2)
    assert error < 0.25 * np.nanmean((own_channel(data, None) - data.truth)[:, 1] ** 2)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_row_has_an_adapter_with_the_lines_that_a_user_writes(name):
    command = importlib.import_module(f"benchmarks.peers_code.{name}").COMMAND
    assert command.module == f"benchmarks.peers_code.{name}"
    assert {row for own in command.sets.values() for row in own} == set(command.adapters)
    for adapter in command.adapters.values():
        module, function = adapter.split(":")
        tree = ast.parse((FOLDER / f"{module}.py").read_text("utf-8"))
        found = [node for node in tree.body if getattr(node, "name", None) == function]
        assert ">>> " in ast.get_docstring(found[0]), adapter


def test_training_is_stopped_at_its_limit():
    run = rows.Run(seed=0, minutes=1e-4)
    with run.training():
        while True:
            pass
    assert run.stopped
    quick = rows.Run(seed=0, minutes=10)
    with quick.training():
        pass
    assert not quick.stopped
    with pytest.raises(KeyboardInterrupt), quick.training():  # of a user, who means it
        raise KeyboardInterrupt


def twice(data, run):
    """Two lines.

    >>> a = 1
    >>> b = [a,
    ...      a]
    """
    return 2.0 * data + run.seed


def broken(data, run):
    raise ValueError("no more than\nten channels")


@pytest.fixture
def command(monkeypatch):
    """A table whose rows run in this process, one of which is not installed."""
    monkeypatch.setattr(rows, "in_a_process", rows.measured)
    monkeypatch.setattr(rows, "peak_mib", lambda: 100.0)
    monkeypatch.setitem(rows.sys.modules, "benchmarks.peers_code.made_up", FakeModule)
    adapters = {"twice": "made_up:twice", "broken": "made_up:broken", "missing": "no_such:thing"}
    return rows.Command(
        "made_up",
        "",
        load=lambda name, folder, seed: float(len(name)),
        measure=lambda adapter, data, run: {"error": adapter(data, run)},
        sets={"ab": list(adapters)},
        adapters=adapters,
    )


class FakeModule:
    twice, broken = staticmethod(twice), staticmethod(broken)


def test_program_keeps_rows_and_names_what_did_not_run(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["made_up", "--seeds", "0", "1", "--out", str(tmp_path)])
    rows.main(command)
    printed = capsys.readouterr().out
    assert "| ab | error | CPU s | peak MiB | lines |" in printed
    row = next(line for line in printed.splitlines() if line.startswith("| twice |"))
    assert row.startswith("| twice | 4.50 (4.00 to 5.00) |")
    assert row.endswith("| 100 | 3 |")
    assert "Not run: broken (ValueError: no more than)." in printed
    assert "Not run: missing (ModuleNotFoundError: No module named" in printed
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "ab-twice-0.json",
        "ab-twice-1.json",
    ]
    monkeypatch.setattr(rows, "in_a_process", lambda *_: {"reason": "asked again"})
    rows.main(command)
    printed = capsys.readouterr().out
    assert "| twice | 4.50 (4.00 to 5.00) |" in printed  # from the files
    assert "Not run: broken (asked again)." in printed


def test_best_rows_come_first_and_stops_are_told(command):
    found = pd.DataFrame(
        [
            {"row": "a", "error": 2.0, "CPU s": 1.0, "MiB": 5.0, "lines": 3, "stopped": 4.0},
            {"row": "b", "error": 1.0, "CPU s": 1.0, "MiB": 5.0, "lines": 4, "stopped": 0.0},
        ]
    )
    lines = rows.table(command, "ab", found)
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| b", "| a, stopped at 4 min"]
    lines = rows.table(command._replace(larger_is_better=True), "ab", found)
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| a, stopped at 4 min", "| b"]
    nothing = pd.DataFrame([{"row": "a", "reason": "not installed"}])
    for own in (command, command._replace(larger_is_better=True)):
        assert rows.table(own, "ab", nothing)[2:] == ["\nNot run: a (not installed)."]
