"""What fit is told of the training, and what it tells: groups, reasons, and that it was in vain."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import make_pipeline

import skpolyode
from skpolyode import Panel, PolyODETransformer
from skpolyode.training import TrainingReport
from skpolyode.training.loop import Judged, warn_if_nothing_was_learned
from skpolyode.transformers import neural
from tests.transformers.data import short_oscillators, small

SERIES = short_oscillators(12)
PATIENTS = np.repeat([3, 1, 2, 7], 3)


@pytest.fixture
def held(monkeypatch):
    """Last times of the series that validated, fit by fit."""
    found, hold_out = [], neural.hold_out

    def spied(panel, *arguments):
        split = hold_out(panel, *arguments)
        found.append([panel[k].times[-1] for k in np.flatnonzero(split.held_out)])
        return split

    monkeypatch.setattr(neural, "hold_out", spied)
    return found


def patients(ends):
    last = [times[-1] for times, _ in SERIES]
    return {int(PATIENTS[last.index(end)]) for end in ends}


@pytest.mark.usefixtures("no_stacking")
def test_groups_validate_together(held):
    small(max_epochs=1, validation_fraction=0.3).fit(SERIES, groups=PATIENTS)
    assert len(held[0]) == 3
    assert len(patients(held[0])) == 1


@pytest.mark.parametrize("groups", [PATIENTS[:5], np.stack([PATIENTS, PATIENTS]), "a patient"])
def test_groups_are_one_label_a_series(groups):
    with pytest.raises(ValueError, match="groups must have one entry for each of the 12 series"):
        small().fit(SERIES, groups=groups)


def test_groups_of_series_without_observations_are_left_out():
    nothing = ([0.0], [[np.nan, np.nan]])
    panel = Panel.from_series([nothing, *SERIES], empty="keep")
    features = small(max_epochs=1).fit(panel, groups=["none", *PATIENTS]).transform(SERIES)
    # numpy sorts labels of text as it sorts these digits.
    expected = small(max_epochs=1).fit(SERIES, groups=PATIENTS.astype(str)).transform(SERIES)
    np.testing.assert_array_equal(features, expected)


@pytest.mark.usefixtures("no_stacking")
def test_groups_are_routed_through_pipelines_and_searches(held):
    labels = np.tile([0, 1], 6)
    with sklearn.config_context(enable_metadata_routing=True):
        embedder = small(max_epochs=1).set_fit_request(groups=True)
        model = make_pipeline(embedder, LogisticRegression(max_iter=1000))
        grid = {"polyodetransformer__n_coefficients": [2, 3]}
        search = GridSearchCV(model, grid, cv=GroupKFold(2), error_score="raise")
        search.fit(Panel.from_series(SERIES), labels, groups=PATIENTS)
    assert len(held) == 5  # two folds of two candidates, and all of the best
    assert all(len(patients(ends)) == 1 and len(ends) == 3 for ends in held)


@pytest.mark.usefixtures("no_stacking")
def test_fit_says_why_it_stopped_and_what_it_kept():
    fitted = small(max_epochs=6).fit(SERIES)
    table = pd.DataFrame(fitted.history_).set_index("epoch")
    assert fitted.stop_reason_ == "all epochs"
    assert fitted.n_epochs_ == 6
    assert table.validation_error[fitted.best_epoch_] == fitted.validation_error_
    with pytest.warns(UserWarning, match="no channel ever changes in fit: PolyODETransformer has"):
        alone = small().fit([([0.0], [[1.0, 2.0]])])
    assert alone.stop_reason_ == "nothing to train on"
    assert alone.best_epoch_ == 0


@pytest.mark.usefixtures("no_stacking")
def test_the_reasons_are_kept_in_a_file(tmp_path):
    fitted = small().fit(SERIES)
    fitted.save(tmp_path / "fitted")
    again = skpolyode.load(tmp_path / "fitted")
    assert (again.stop_reason_, again.best_epoch_) == (fitted.stop_reason_, fitted.best_epoch_)


@pytest.mark.usefixtures("no_stacking")
def test_training_in_vain_is_told():
    rng = np.random.default_rng(1)
    # One group swings five times as far as the other: whichever trains, noise is all there is.
    series = [(np.arange(9.0), rng.normal(scale=1 + 4 * (k < 5), size=9)) for k in range(10)]
    options = {"n_coefficients": 2, "hidden_layer_sizes": (4,), "learning_rate_init": 1e-6}
    vain = PolyODETransformer(**options, max_epochs=10, validation_fraction=0.5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="nothing was learned in 10 epochs") as caught:
        vain.fit(series)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert vain.validation_error_ > 1
    vain.set_params(max_epochs=2).fit(series)  # a try is no reason to warn


def test_held_out_series_that_vary_more_are_compared_with_their_own_mean(recwarn):
    history = [{"epoch": 0, "training_loss": 1.0}]
    report = TrainingReport(history, best_error=1.1, best_epoch=1, reason="all epochs")
    warn_if_nothing_was_learned(report, Judged(1.1, 2.0, 0.1, 6), judges_untrained=True)
    assert not recwarn.list
    figures = r"\(on 6 held-out series their error is 1\.1, that of the mean {}: .* {} ± 0\.1\)"
    for judged, match in (
        (None, r"worse than the mean .*validation_error_=1\.1, that of the mean is 1\)"),
        (Judged(1.1, 0.9, 0.1, 6), "^nothing .* worse than .*" + figures.format(0.9, -0.2)),
        (Judged(1.1, 1.2, 0.1, 6), "^it is not sure .* by chance " + figures.format(1.2, 0.1)),
        (Judged(1.1, np.nan, np.nan, 6), "worse than the mean"),
    ):
        with pytest.warns(ConvergenceWarning, match=match):
            warn_if_nothing_was_learned(report, judged, judges_untrained=True)


@pytest.mark.usefixtures("no_stacking")
def test_weights_that_stay_the_untrained_ones_are_told():
    """Random walks: nothing is better than the last value, which an untrained model forecasts."""
    rng = np.random.default_rng(0)
    walks = [(np.arange(12.0), rng.normal(size=12).cumsum()) for _ in range(10)]
    options = {"n_coefficients": 2, "hidden_layer_sizes": (4,), "random_state": 0}
    model = PolyODETransformer(**options, max_epochs=10, learning_rate_init=1e-30)
    with pytest.warns(ConvergenceWarning, match="no weights forecast better than the untrained"):
        model.fit(walks)
    assert model.best_epoch_ == 0
    assert model.validation_error_ < 1
    still = [(np.arange(9.0), np.full(9, 3.0)) for _ in range(6)]
    with pytest.warns(UserWarning, match="no channel ever changes in fit"):
        PolyODETransformer(**options, max_epochs=10).fit(still)
