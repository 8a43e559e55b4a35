"""What fitting does: units, repetition, continuation, early stopping, learning, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from skpolyode import PolyODETransformer
from skpolyode.models import PolyODE
from skpolyode.training import loop
from skpolyode.transformers import stages
from tests.quick import whole_fits
from tests.transformers.data import short_oscillators, small

SERIES = short_oscillators()


@pytest.fixture(scope="module")
def fitted():
    return small().fit(SERIES)


@pytest.fixture(scope="module")
def learned():
    """Trained long enough to have learnt the oscillator."""
    train = short_oscillators(40, seed=1)
    with whole_fits():
        return small(n_coefficients=8, hidden_layer_sizes=(24,), max_epochs=20).fit(train)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("unit", [0.125, 1024.0])
def test_the_unit_of_time_does_not_matter(fitted, unit):
    """A power of two changes no bit, neither in training nor in the embedding."""
    scaled = [(times * unit, values) for times, values in SERIES]
    other = small().fit(scaled)
    np.testing.assert_allclose(other.transform(scaled), fitted.transform(SERIES), atol=1e-12)
    assert other.window_ == pytest.approx(fitted.window_ * unit)
    assert other.step_size_ == pytest.approx(fitted.step_size_ * unit)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("unit", [1 / 3600, 60.0])
def test_any_unit_of_time_gives_nearly_the_same(fitted, unit):
    scaled = [(times * unit + 5.0, values) for times, values in SERIES]
    Z = small().fit_transform(scaled)
    np.testing.assert_allclose(Z, fitted.transform(SERIES), atol=1e-3)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("scale", [1e-9, 3.7, 1e12])
def test_the_unit_of_values_does_not_matter(fitted, scale):
    scaled = [(times, values * [scale, 1.0] + [0.0, 2.0]) for times, values in SERIES]
    Z = small().fit_transform(scaled)
    np.testing.assert_allclose(Z, fitted.transform(SERIES), atol=1e-3)


@pytest.mark.usefixtures("no_stacking")
def test_a_small_signal_on_a_large_offset_is_a_signal():
    """Readings of a counter, say: variations of 1e-11 of the offset are far above rounding."""
    series = [(times, 1e9 + 0.05 * values[:, :1]) for times, values in SERIES]
    plain = [(times, values[:, :1]) for times, values in SERIES]
    np.testing.assert_allclose(
        small().fit_transform(series), small().fit_transform(plain), atol=1e-2
    )


@pytest.mark.usefixtures("no_stacking")
def test_global_generators_are_not_used():
    np_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()
    small(random_state=3).fit_transform(SERIES)
    np.testing.assert_array_equal(np.random.get_state()[1], np_state)
    assert torch.equal(torch.get_rng_state(), torch_state)
    # and what they hold does not matter
    np.random.seed(5)
    torch.manual_seed(5)
    one = small(random_state=3).fit_transform(SERIES)
    np.random.seed(6)
    torch.manual_seed(6)
    np.testing.assert_array_equal(small(random_state=3).fit_transform(SERIES), one)


@pytest.mark.usefixtures("no_stacking")
def test_number_of_threads_is_restored():
    before = torch.get_num_threads()
    small().fit(SERIES)
    assert torch.get_num_threads() == before


@pytest.mark.usefixtures("no_stacking")
def test_refit_forgets(fitted):
    cold = small().fit(SERIES[:4]).fit(SERIES)
    np.testing.assert_array_equal(cold.transform(SERIES), fitted.transform(SERIES))


@pytest.mark.usefixtures("no_stacking")
def test_early_stopping_holds_series_out():
    transformer = small(validation_fraction=0.25, max_epochs=3).fit(SERIES)
    without = small(validation_fraction=None, max_epochs=3).fit(SERIES)
    assert transformer.validation_error_ != without.validation_error_
    assert transformer.n_epochs_ == without.n_epochs_ == 3
    errors = [entry["validation_error"] for entry in transformer.history_]
    assert len(errors) == 4
    assert transformer.validation_error_ == min(errors)


@pytest.mark.usefixtures("no_stacking")
def test_training_without_effect_says_so():
    transformer = small(learning_rate_init=1e-30, observations="exact", max_epochs=12)
    with pytest.warns(ConvergenceWarning, match="nothing was learned in 12 epochs"):
        transformer.fit(SERIES)
    transformer.set_params(validation_fraction=None, max_epochs=6).fit(SERIES[:4])
    assert transformer.n_epochs_ == 6


@pytest.mark.usefixtures("no_stacking")
def test_divergence_is_a_warning_and_leaves_finite_weights():
    transformer = small(learning_rate_init=1e30, max_epochs=3)
    with pytest.warns(ConvergenceWarning, match=r"rate is 1e\+30: lower learning_rate_init"):
        transformer.fit(SERIES)
    assert np.isfinite(transformer.transform(SERIES)).all()
    assert np.isfinite(transformer.validation_error_)


def interrupt_epoch(monkeypatch, number):
    """Ctrl-C in an epoch of every training from now on."""
    train_epoch = loop._Run._train_epoch

    def interrupted(run, epoch):
        if epoch == number:
            raise KeyboardInterrupt
        return train_epoch(run, epoch)

    monkeypatch.setattr(loop._Run, "_train_epoch", interrupted)


def test_ctrl_c_is_raised_and_leaves_a_usable_estimator(monkeypatch):
    interrupt_epoch(monkeypatch, 2)
    transformer = small(max_epochs=9, validation_fraction=None)
    interrupted = "interrupted in epoch 2; the best weights so far"
    with pytest.raises(KeyboardInterrupt, match=interrupted), whole_fits():
        transformer.fit(SERIES)
    assert transformer.n_epochs_ == 2
    assert len(transformer.history_) == 3
    assert np.isfinite(transformer.step_halving_error_)
    assert np.isfinite(transformer.transform(SERIES)).all()
    assert not transformer.field_.stands_still  # what the coarse first epochs learned is kept


@pytest.mark.usefixtures("no_stacking")
def test_ctrl_c_stops_a_search(monkeypatch):
    """The fold that was being trained is not scored, and no other is."""
    interrupt_epoch(monkeypatch, 1)
    fits = []
    search = GridSearchCV(
        small(validation_fraction=None),
        {"horizon": [1, 2]},
        cv=2,
        scoring=lambda *_: fits.append(1),
    )
    with pytest.raises(KeyboardInterrupt):
        search.fit(SERIES)
    assert not fits


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("horizon", ["auto", 1, 3])
def test_training_learns(horizon):
    transformer = small(horizon=horizon, max_epochs=6, validation_fraction=None).fit(SERIES)
    errors = [entry["validation_error"] for entry in transformer.history_]
    assert min(errors) < 0.8 * errors[0]


def last_value_error(transformer, series):
    """Mean squared error, standardised, of taking the last value of the channel for the next."""
    errors = []
    for _, values in series:
        for column in ((values - transformer.scaler_.mean) / transformer.scaler_.scale).T:
            errors.append(np.diff(column[~np.isnan(column)]))
    return np.mean(np.concatenate(errors) ** 2)


@pytest.mark.usefixtures("no_stacking")
def test_forecasts_beat_the_last_value(learned):
    test = short_oscillators(20, seed=2)
    error = -learned.score(test)
    assert 0 < error < 0.3 * last_value_error(learned, test)
    assert learned.step_halving_error_ < 0.5 * np.sqrt(error)
    assert learned.score(test) > small(max_epochs=1, learning_rate_init=1e-9).fit(test).score(test)


def test_score_is_the_error_of_forecasting_the_next_observation(fitted):
    """Recomputed from the forecasts of every beginning of a series.

    Forecasts read a path of whole steps, scores end with the step: equal to the step's error.
    """
    times, values = SERIES[0][0][:5], np.nan_to_num(SERIES[0][1][:5])
    squares = []
    for n in range(1, 5):
        past = [(times[:n], values[:n])]
        ahead = fitted.forecast(past, [times[n]], combine=False).values[0]
        squares.append(((ahead - values[n]) / fitted.scaler_.scale) ** 2)
    assert fitted.score([(times, values)]) == pytest.approx(-np.mean(squares), rel=1e-5)


def test_nothing_to_forecast_scores_zero(fitted):
    assert fitted.score([(times[:1], values[:1]) for times, values in SERIES]) == 0


def test_series_of_one_observation_are_remembered_as_constants(fitted):
    times, values = SERIES[0][0][:1], np.array([[0.3, -0.4]])
    Z = fitted.transform([(times, values)])[0]
    standardised = (values[0] - fitted.scaler_.mean) / fitted.scaler_.scale
    expected = np.zeros((2, 6))
    expected[:, 0] = standardised
    np.testing.assert_allclose(Z[:12], expected.ravel(), atol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"measure": "nope"}, "'measure' parameter"),
        ({"n_coefficients": 0}, "'n_coefficients' parameter"),
        ({"window": -1.0}, "'window' parameter"),
        ({"step_size": "small"}, "step_size must be a positive length of time.*got 'small'"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
    ],
)
def test_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(SERIES)


def test_verbose_writes_to_stderr(capfd):
    small(verbose=1, max_epochs=1).fit(SERIES)
    captured = capfd.readouterr()
    assert "validation_error" in captured.err
    assert captured.out == ""
    small(max_epochs=1).fit(SERIES)
    assert capfd.readouterr().err == ""


def test_the_step_size_is_examined_on_drawn_series(monkeypatch):
    """Each value is the name of its series; what is drawn does not touch the training."""
    series = [(np.arange(3.0), np.full(3, float(k))) for k in range(90)]
    seen, predictions = [], PolyODE.predictions

    def spied(model, data):
        seen.append(data.x[data.elapsed == 0, 0])
        return predictions(model, data)

    own = [stages.Train(), stages.CheckStepSize()]
    monkeypatch.setattr(PolyODE, "predictions", spied)
    monkeypatch.setattr(PolyODETransformer, "stages", own)
    with whole_fits():
        fits = [small(random_state=seed, max_epochs=1).fit(series) for seed in (0, 0, 1)]
    drawn = [
        set(fits[k].scaler_.inverse(seen[2 * k].numpy()).round().astype(int)) for k in range(3)
    ]
    assert [len(own) for own in drawn] == [32] * 3
    assert drawn[0] == drawn[1] != drawn[2]
    assert max(drawn[0]) > 60
    monkeypatch.setattr(PolyODETransformer, "stages", own[:1])
    np.testing.assert_array_equal(
        small(random_state=0, max_epochs=1).fit_transform(series), fits[0].transform(series)
    )


def test_the_learned_state_carries_what_the_recent_past_does_not_tell():
    """The last value is the first one, three observations before."""
    first = np.random.default_rng(0).choice([-1.0, 1.0], size=160)
    series = [(range(4), [x, 0.0, 0.0, x]) for x in first]
    sizes = {"context": 0.5, "n_coefficients": 4, "hidden_size": 8, "hidden_layer_sizes": 16}
    training = {"observations": "exact", "horizon": 1, "max_epochs": 15, "random_state": 0}
    embedder = PolyODETransformer(**sizes, **training)
    embedder.fit_stages(series[:80], skip=("stacking",))
    assert -embedder.score(series[80:]) < 0.1
