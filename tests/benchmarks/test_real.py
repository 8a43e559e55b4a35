"""The benchmark on real sets asks for what is not known, and scores it as it says."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from benchmarks import label_sets, wards
from benchmarks.real import __main__ as program
from benchmarks.real import forecasts, hidden, rivals
from benchmarks.real.part import losses, shown, table_of
from benchmarks.real.questions import after, ahead, next_rows, one_step, seen
from benchmarks.real.sets import SETS, Answer, kilometres, knots, rolling, variances
from benchmarks.units import Units
from skpolyode import Panel

ASKED = [one_step, after(2.0), ahead(1.0, 2.0, every=1.0), next_rows(3)]


@pytest.fixture
def panel() -> Panel:
    rng = np.random.default_rng(0)
    series = []
    for _ in range(12):
        times = np.unique(rng.integers(0, 12, 9) / 2)
        values = rng.normal(size=(len(times), 3))
        values[rng.random(values.shape) < 0.4] = np.nan
        values[:, 0] = 2 * times + rng.normal()  # moves as it always has
        series.append((times, values))
    return Panel.from_series(series)


@pytest.mark.parametrize("ask", ASKED)
def test_targets_are_later_rows_of_the_same_series(panel, ask):
    questions = ask(panel)
    assert len(questions.origin) > 10
    assert (questions.leads > 0).all()
    series = np.repeat(np.arange(panel.n_series), panel.lengths)
    assert_array_equal(series[questions.origin], series[questions.target])
    known, order, times = questions.histories()
    assert_array_equal(np.sort(order), np.arange(len(order)))
    assert_array_equal(np.concatenate(times), panel.times[questions.target][order])
    ends = known.times[known.offsets[1:] - 1]
    leads = [own - end for own, end in zip(times, ends, strict=True)]
    assert_allclose(np.concatenate(leads), questions.leads[order])


def test_what_is_asked(panel):
    assert len(one_step(panel).target) == panel.n_observations - panel.n_series
    questions = after(2.0)(panel)
    assert (panel.times[questions.target] > 2.0).all()
    assert (panel.times[questions.origin] <= 2.0).all()
    questions = ahead(1.0, 2.0, every=1.0)(panel)
    assert set(questions.leads) == {1.0, 2.0}
    assert set(panel.times[questions.origin] % 1.0) == {0.0}


def test_seen_is_what_a_loop_finds(panel):
    questions = next_rows(2)(panel)
    for j in range(panel.n_channels):
        found = seen(questions, j)
        for q, (origin, target) in enumerate(zip(questions.origin, questions.target, strict=True)):
            start = panel.offsets[np.searchsorted(panel.offsets, origin, side="right") - 1]
            rows = [r for r in range(start, origin + 1) if not np.isnan(panel.values[r, j])]
            assert found.count[q] == len(rows)
            for back, row in enumerate(rows[:-4:-1]):
                assert found.values[q, back] == panel.values[row, j]
                assert_allclose(found.ages[q, back], panel.times[target] - panel.times[row])
            assert np.isnan(found.values[q, len(rows) :]).all()
            if rows:
                assert_allclose(found.mean[q], panel.values[rows, j].mean())


QUICK = {**rivals.PANEL_RIVALS, "GRU": partial(rivals.gru, n_epochs=2)}


@pytest.mark.parametrize("rival", QUICK.values(), ids=QUICK)
def test_no_rival_sees_the_future(panel, rival):
    questions = next_rows(2)(panel)
    forecast = rival(questions, questions)
    assert np.isfinite(forecast).all()
    one = questions.at(questions.origin == questions.origin[len(questions.origin) // 2])
    later = panel.values.copy()
    later[one.origin[0] + 1 :] += 100.0
    changed = one._replace(panel=panel.like(panel.times, later, panel.offsets))
    assert_allclose(rival(questions, changed), rival(questions, one), rtol=1e-5)


@pytest.mark.parametrize("name", ["constant motion", "boosting, causal features"])
def test_motion_is_continued(panel, name):
    questions = next_rows(3)(panel)
    forecast = rivals.PANEL_RIVALS[name](questions, questions)
    assert_allclose(forecast[:, 0], questions.truth[:, 0], atol=1e-8)


def test_seasons_are_repeated():
    values = np.tile([1.0, 5.0, 2.0], 8)
    panel = Panel(np.arange(24.0), values[:, None], [0, 24])
    questions = next_rows(7)(panel)
    questions = questions.at(questions.origin > 9)
    assert_array_equal(rivals.seasonal_naive(3)(questions, questions), questions.truth)


def test_origins_roll():
    panel = Panel(np.arange(40.0), np.arange(40.0)[:, None], [0, 40])
    folds = list(rolling(panel, 5))
    assert [fold.train.n_observations for fold in folds] == [36, 32, 28, 24, 20]
    asked = [fold.questions(next_rows(3), panel).origin for fold in folds]
    assert_array_equal(np.unique(np.concatenate(asked)), np.arange(19, 39))
    assert next(rolling(panel, 1)).train.n_observations == 36


def test_models_have_the_values_as_they_are_and_errors_are_in_deviations():
    """Centred values are not positive, so that nothing could model their logarithms."""
    rows, tasks = np.arange(300.0), SETS["airline"].tasks
    grown = np.exp(0.01 * rows)
    fold = next(rolling(Panel(rows, grown[:, None], [0, 300]), 1))

    class Growth:
        def fit(self, panel):
            self.rate = np.diff(np.log(panel.values[:, 0])).mean()

        def answer(self, _, test):
            start = test.panel.values[test.origin]
            mean = start * np.exp(self.rate * test.leads)[:, None]
            return Answer(mean, mean - 1, mean + 1)

    found = forecasts.scored(tasks, Growth(), fold)
    assert_allclose([found[name] for name in tasks[0].scores], 0.0, atol=1e-20)
    assert_allclose(found["width, 1 to 24 rows"], 2 / grown[:270].std())
    last = forecasts.scored(tasks, forecasts.models("airline")["last value"](), fold)
    steps = [grown[269 + k :] - grown[269:-k] for k in (1, 2, 3)]
    assert_allclose(last["1 to 3 rows"], np.mean(np.concatenate(steps) ** 2) / grown[:270].var())


def test_errors_have_the_units_of_their_names():
    units = Units(np.array([20.0, -50.0, 60.0, 990.0]), np.array([10.0, 20.0, 30.0, 40.0]))
    # A degree of latitude, one of longitude on the equator and at 60 degrees; 15 and 6 knots.
    truth = np.array([[0.0, 0.0, 50.0, 990], [0.0, 10.0, 50.0, 990], [60.0, 10.0, 50.0, 990]])
    told = truth + np.array([[1.0, 0, 15.0, 0], [0, 1.0, -6.0, 0], [0, 1.0, 0, 0]])
    panel = Panel(np.arange(3.0), (truth - units.mean) / units.scale, [0, 3])
    for row, distance, wind in ((0, 111.19, 15.0), (1, 111.19, 6.0), (2, 55.6, 0.0)):
        questions = one_step(panel)._replace(origin=np.array([row]), target=np.array([row]))
        answer = Answer(((told - units.mean) / units.scale)[[row]])
        assert_allclose(kilometres(questions, answer, units), distance, rtol=1e-3)
        assert_allclose(knots(questions, answer, units), wind, atol=1e-12)
        squares = ((told - truth) / units.scale)[row] ** 2
        assert_allclose(variances(questions, answer, units), squares.mean())


@pytest.mark.parametrize("whole_rows", [False, True])
def test_hidden_cells_are_apart(panel, whole_rows):
    known, truth = hidden.hide(panel, 0.5, whole_rows)
    assert not (~np.isnan(known.values) & ~np.isnan(truth)).any()
    assert_array_equal(np.where(np.isnan(truth), known.values, truth), panel.values)
    gone = ~np.isnan(truth).all(axis=1)
    if whole_rows:
        assert np.isnan(known.values[gone]).all()
    assert not gone[[*panel.offsets[:-1], *(panel.offsets[1:] - 1)]].any()
    inner = panel.n_observations - 2 * panel.n_series
    assert 0.2 < (~np.isnan(truth)).any(axis=1).sum() / inner < 1


def write_storms(folder, n_storms: int = 20) -> None:
    """Storms with fast strong ones and slow weak ones, in the layout of the tables."""
    rng, rows, static = np.random.default_rng(0), [], []
    for k in range(n_storms):
        strong = k % 2 == 0
        for time in np.arange(0.0, 60.0, 6.0):
            wind = 30 + time * (1.0 if strong else 0.1) + rng.normal()
            track = {"lat": 10 + 0.1 * time + k, "long": -40 - 0.2 * time, "wind": wind}
            for channel, value in (track | {"pressure": 1000 - wind}).items():
                rows.append((f"storm{k}", time, channel, value))
        static.append((f"storm{k}", 1, 8, 2000))
    pd.DataFrame(rows, columns=["id", "time", "channel", "value"]).to_parquet(
        folder / "storms_long.parquet"
    )
    columns = ["id", "y", "month", "year"]
    pd.DataFrame(static, columns=columns).set_index("id").to_parquet(folder / "storms_y.parquet")


def test_hurricanes_are_told_by_their_first_day(tmp_path):
    write_storms(tmp_path)
    panel, y, _ = label_sets.storms(tmp_path)
    assert panel.times.max() == 24.0
    assert panel.values[:, 2].max() < label_sets.HURRICANE
    assert_array_equal(y, np.arange(20) % 2 == 0)
    assert list(panel.static.columns) == ["month"]


def test_program_prints_tables_and_losses(tmp_path, monkeypatch, capsys):
    write_storms(tmp_path)
    rows = ["last value", "constant motion", "linear", "last carried"]
    options = ["--data", tmp_path, "--only", "storms", "--folds", "2", "--out", tmp_path / "out"]
    arguments = ["real", *map(str, options), "--rows", *rows]
    for _ in range(2):  # the second time from files
        monkeypatch.setattr("sys.argv", arguments)
        program.main()
        tables = capsys.readouterr().out
        for row in rows:
            assert f"\n| {row} |" in tables
        assert "| storms | one step | 12 h, km |" in tables
        assert "| storms, 70 % of rows | hidden cells |" in tables
    file = tmp_path / "out" / "storms-last value-1.json"
    assert json.loads(file.read_text())["one step"] > 0


def test_losses_are_told():
    found = pd.DataFrame(
        {
            "set": "wages",
            "row": ["PolyODETransformer()", "PolyODETransformer()", "a", "a", "b", "b"],
            "fold": [0, 1] * 3,
            "one step": [3.0, 1.0, 1.0, 2.0, 9.0, 9.0],
            "other": [1.0, 1.0, 2.0, 2.0, 2.0, 2.0],
            "coverage, one step": [0.9, 0.8] + [np.nan] * 4,
            "CPU s": 1.0,
        }
    )
    (line,) = losses(forecasts.PART, found, "PolyODETransformer()")
    assert line == (
        "wages, one step: PolyODETransformer() loses to a (2.00 against 1.50, 1.33 times; "
        "in 1 of 2 folds)"
    )
    lines = table_of(forecasts.PART, found)
    assert lines[3] == "| a | **1.50** | 2.00 | 1.0 |"
    assert lines[-1].endswith("PolyODETransformer(): coverage, one step 0.850.")
    assert [shown(x) for x in (0.0145, 145.2, 1.095, 0.0)] == ["0.0145", "145", "1.09", "0"]


def test_wards_are_as_sparse_as_they_say():
    panel = wards.make_ward(60, np.random.default_rng(0))
    observed = ~np.isnan(panel.values)
    assert panel.n_channels == 37
    assert 0.12 < observed.mean() < 0.2
    moments = [own(panel.values, axis=0) for own in (np.nanmean, np.nanstd)]
    squares = []
    for _, values in panel:
        last = moments[0].copy()
        for k, row in enumerate(values):
            known = ~np.isnan(row)
            squares.extend(((row - last) / moments[1])[known] ** 2 if k else [])
            last[known] = row[known]
    assert_allclose(wards.last_value_error(panel, *moments), np.mean(squares))


def test_all_sets_can_be_asked_for():
    assert set(program.SETS) == set(SETS)
    assert {row for own in program.PARTS.values() for row in own.own} <= set(program.ROWS)
