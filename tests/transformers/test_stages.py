"""Stages of a fit: who judges what, how sure an error is, and what the report tells of it."""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import skpolyode
from skpolyode import HiPPOTransformer, ODERNNTransformer, Panel, PolyODETransformer
from skpolyode.embedders.fitting import Split, judging_part
from skpolyode.fit_report import Decision, FitReport
from skpolyode.panel.select import keep_rows
from skpolyode.transformers.stages import LearnWaves, _ratio
from tests.transformers.data import short_oscillators, small

pytestmark = pytest.mark.usefixtures("whole_fits")
SERIES = short_oscillators(12)


@pytest.fixture(scope="module")
def fitted():
    return small().fit(SERIES)


def split_of(n_series: int, n_held_out: int) -> Split:
    panel = Panel.from_series([([0.0, 1.0], [float(k), 1.0]) for k in range(n_series)])
    return Split(panel, np.arange(n_series) >= n_series - n_held_out)


def first_values(split: Split, held_out: bool) -> set[float]:
    """Which series they are, by their first values."""
    panel = split.panel[split.held_out] if held_out else split.trained
    return set(panel.values[panel.offsets[:-1], 0].tolist())


def test_who_stops_training_does_not_judge():
    stops, judges = judging_part(split_of(100, 30), None)
    assert first_values(stops, False) == first_values(judges, False) == set(range(70))
    assert len(first_values(stops, True)) == len(first_values(judges, True)) == 15
    assert first_values(stops, True) | first_values(judges, True) == set(range(70, 100))


def test_few_do_both():
    split = split_of(100, 19)
    assert judging_part(split, None) == (split, split)


def test_groups_judge_together():
    groups = np.arange(100) // 7
    stops, judges = judging_part(split_of(100, 30), groups)
    own = [{groups[int(k)] for k in first_values(part, True)} for part in (stops, judges)]
    assert own[0]
    assert own[1]
    assert not own[0] & own[1]
    one = np.zeros(100, dtype=int)
    split = split_of(100, 30)
    assert judging_part(split, one) == (split, split)


def test_standard_error_of_equal_groups_is_that_of_their_means():
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(40, 5))
    mean, se = _ratio(cells.sum(axis=1), np.full(40, 5))
    means = cells.mean(axis=1)
    assert mean == pytest.approx(means.mean())
    assert se == pytest.approx(means.std(ddof=1) / np.sqrt(40))


def test_standard_error_covers_the_mean_of_unequal_groups():
    rng, inside = np.random.default_rng(1), 0
    for _ in range(300):
        counts = rng.integers(1, 20, size=60)
        sums = counts * (2.0 + rng.normal(size=60)) + rng.normal(size=60)
        mean, se = _ratio(sums, counts)
        inside += abs(mean - 2.0) < 1.96 * se
    assert 0.9 < inside / 300 < 0.99


def test_report_tells_what_fit_decided(fitted):
    report = fitted.fit_report_
    stages = [decision.stage for decision in report.decisions]
    assert stages == [
        *("data", "window", "dynamics", "hold-out", "training", "noise"),
        *("error", "step size", "waves", "beginnings", "stacking"),
    ]
    assert report["data"].n_series == 12
    assert report["training"].figures["validation_error"] == fitted.validation_error_
    assert report["training"].seconds > 0
    assert report["step size"].figures["step_halving_error"] == fitted.step_halving_error_
    assert sum(report["stacking"].figures.values()) == pytest.approx(1, abs=0.05)
    lines = str(report).splitlines()
    assert lines[0].split() == ["stage", "decision", "figures", "series", "seconds"]
    assert [line.split("  ")[0] for line in lines[1:]] == stages
    with pytest.raises(KeyError, match="the stages are"):
        report["nothing"]


def test_report_is_shown_in_notebooks_and_saved(fitted, tmp_path):
    html = fitted._repr_mimebundle_()["text/html"]
    assert "What fit decided" in html
    assert "held-out series stop training" in html
    assert fitted._repr_html_().count("What fit decided") == 1
    assert "What fit decided" not in small()._repr_html_()
    fitted.save(tmp_path / "model.safetensors")
    again = skpolyode.load(tmp_path / "model.safetensors")
    assert all(type(decision) is Decision for decision in again.fit_report_.decisions)
    assert str(again.fit_report_) == str(fitted.fit_report_)


def test_a_notebook_shows_what_is_known_and_waits_for_nothing():
    model = small().fit(SERIES)
    assert "forecasts combine" not in model._repr_mimebundle_()["text/html"]
    assert not model.embedder_.stacking.is_learned
    model.forecast(SERIES, [9.0])
    assert model.embedder_.stacking.is_learned
    assert "forecasts combine" in str(model.fit_report_)
    assert "forecasts combine" in model._repr_mimebundle_()["text/html"]


def test_errors_of_paths_wait_and_are_the_same_whoever_asks():
    """A fit, embeddings and forecasts do without it; gradients may be off when it is learned."""
    one, other = (small(observations="noisy").fit(SERIES) for _ in range(2))
    one.transform(SERIES)
    one.forecast_interval(SERIES, [9.0])
    assert not one.embedder_.path_errors.is_learned
    with torch.inference_mode():
        found = one.interpolate_std(SERIES, [1.5])
    assert_array_equal(found.values, other.interpolate_std(SERIES, [1.5]).values)


def test_other_transformers_report_as_well():
    assert HiPPOTransformer().fit(SERIES).fit_report_["window"].figures
    report = ODERNNTransformer(hidden_size=4, max_epochs=1, random_state=0).fit(SERIES).fit_report_
    assert "filter" not in [decision.stage for decision in report.decisions]
    assert report["stacking"].outcome.startswith("forecasts combine")


def test_errors_of_few_series_are_known_to_be_unsure(fitted):
    """One held-out series says nothing of others, and of many the truth is within the bounds."""
    assert fitted.validation_error_se_ > 0  # between the rows of the only one
    half = small(validation_fraction=0.5).fit(SERIES)
    error = half.fit_report_["error"].figures
    assert error["error"] == pytest.approx(half.validation_error_, rel=1e-3)
    assert 0 < half.validation_error_se_ < half.validation_error_
    assert np.isnan(small(validation_fraction=None).fit(SERIES).validation_error_se_)


def test_a_low_error_by_luck_is_told():
    """White noise whose held-out series happen to be quiet: no better than the mean of these."""
    rng = np.random.default_rng(0)
    noise = [(np.arange(12.0), rng.normal(size=12)) for _ in range(30)]
    with pytest.warns(ConvergenceWarning, match=r"not sure that anything .*on 3 held-out series"):
        model = small(max_epochs=10).fit(noise)
    assert model.fit_report_["error"].outcome == "forecasts are not surely better than the mean"


def test_stages_are_left_out_by_name():
    model = small().fit_stages(SERIES, skip=["stacking", "step size"])
    assert model.embedder_.stacking is None
    assert not hasattr(model, "step_halving_error_")
    with pytest.raises(ValueError, match=r"skip holds \['stack'\]; the stages are \['training'"):
        small().fit_stages(SERIES, skip=["stack"])


def test_one_labelled_bar_counts_all_stages(capsys):
    small(verbose=1).fit(SERIES)
    shown = capsys.readouterr().err
    assert shown.index("training") < shown.index("step size") < shown.index("stacking")
    assert "validation_error" in shown
    assert "100%" in shown.split("\r")[-1]


def own_periods(n_series: int = 30, n_rows: int = 30) -> Panel:
    rng = np.random.default_rng(0)
    times = np.sort(rng.uniform(0, 12, (n_series, n_rows)))
    angle = 2 * np.pi * times / rng.uniform(1.2, 4, (n_series, 1))
    return Panel.from_series(list(zip(times, np.sin(angle) + 0.5 * np.cos(2 * angle), strict=True)))


def walks(n_series: int = 30, n_rows: int = 30) -> Panel:
    steps = np.random.default_rng(0).normal(size=(n_series, n_rows))
    return Panel.from_series([(np.arange(n_rows), x.cumsum()) for x in steps])


@pytest.fixture(scope="module")
def hardly_trained():
    return small(max_epochs=1).fit(own_periods())


def leaning(model: PolyODETransformer, panel: Panel) -> np.ndarray:
    """Shares of the way to waves that are learned; 0 where there are none."""
    known = {"windows": Split(panel, np.zeros(len(panel), dtype=bool)), "report": FitReport([])}
    state = SimpleNamespace(embedder=replace(model.embedder_, waves=None), **known)
    LearnWaves().run(state)
    shares = np.zeros(1) if state.embedder.waves is None else state.embedder.waves
    (decision,) = state.report.decisions
    assert decision.stage == "waves"
    assert decision.figures["channels"] == (shares > 0).sum()
    assert ("no waves" in decision.outcome) == (not shares.any())
    return shares


def test_paths_lean_on_waves_where_series_have_periods_of_their_own(hardly_trained):
    assert any(isinstance(stage, LearnWaves) for stage in PolyODETransformer.stages)
    assert leaning(hardly_trained, own_periods()) > 0.8
    assert leaning(small(max_epochs=1).fit(walks()), walks()) == 0


def test_waves_are_looked_at_after_any_training(hardly_trained):
    assert hardly_trained.embedder_.waves > 0.8
    assert hardly_trained.fit_report_["waves"].figures["channels"] == 1
    few = small(max_epochs=1).fit([([0.0, 1.0], [0.0, 1.0]), ([0.0], [1.0])])
    assert few.fit_report_["waves"].outcome == "paths use no waves"


def test_leaning_paths_fill_gaps_better_and_are_saved(hardly_trained, tmp_path):
    panel, model = own_periods(), copy.copy(hardly_trained)
    hidden = np.arange(panel.n_observations) % 5 == 2
    known, asked = keep_rows(panel, ~hidden), keep_rows(panel, hidden)
    at = np.split(asked.times, asked.offsets[1:-1])
    model.embedder_ = replace(model.embedder_, waves=None)
    plain = model.interpolate(known, at).values
    model.embedder_ = replace(model.embedder_, waves=np.ones(1))
    path = model.interpolate(known, at).values
    assert np.mean((path - asked.values) ** 2) < 0.1 * np.mean((plain - asked.values) ** 2)
    model.save(tmp_path / "model")
    assert (skpolyode.load(tmp_path / "model").interpolate(known, at).values == path).all()
    assert model.embedder_.with_own_model().waves is None  # which may be trained anew
