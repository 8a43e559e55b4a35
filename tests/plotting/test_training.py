from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

import skpolyode
from skpolyode import HiPPOTransformer, PastDecoder, PolyODEForecaster
from skpolyode.plotting import TrainingDisplay
from tests.quick import early_noise_tests
from tests.transformers.data import oscillators, small

SERIES = oscillators(8)


def points(line) -> list[list[float]]:
    return np.asarray(line.get_xydata()).tolist()


@pytest.fixture(scope="module")
def fitted():
    return small(max_epochs=4).fit(SERIES)


def test_it_draws_the_history_and_the_weights_that_were_kept(fitted) -> None:
    display = TrainingDisplay.from_estimator(fitted)
    history = fitted.history_
    assert points(display.error_line_) == [[h["epoch"], h["validation_error"]] for h in history]
    *losses, last = display.loss_line_.get_ydata()
    assert losses == [h["training_loss"] for h in history[:-1]]
    assert np.isnan(last)  # of the last weights only the error is known
    assert points(display.best_line_) == [[fitted.best_epoch_, fitted.validation_error_]]
    assert display.axes_[0].get_yscale() == "log"
    assert display.axes_[-1].get_xlabel() == "epoch"
    assert display.stage_lines_ == []
    labels = {text.get_text() for text in display.axes_[0].get_legend().get_texts()}
    assert labels == {"validation error", "training loss", "kept"}


def test_axes_of_yours_and_lines_of_your_style(fitted) -> None:
    ax = Figure().add_subplot()
    display = TrainingDisplay.from_estimator(fitted, ax=ax, line_kw={"c": "C3", "lw": 3})
    assert plt.get_fignums() == []
    assert display.axes_.tolist() == [ax]
    assert display.figure_ is ax.figure
    assert ax.get_legend() is None
    assert (display.error_line_.get_color(), display.error_line_.get_linewidth()) == ("C3", 3)


def test_a_file_holds_all_that_is_drawn(fitted, tmp_path) -> None:
    fitted.save(tmp_path / "model.safetensors")
    again = TrainingDisplay.from_estimator(skpolyode.load(tmp_path / "model.safetensors"))
    assert points(again.error_line_) == points(TrainingDisplay.from_estimator(fitted).error_line_)
    assert again.best_epoch == fitted.best_epoch_


@pytest.mark.usefixtures("no_stacking")
def test_stages_start_where_the_report_says() -> None:
    noise = np.random.default_rng(0).normal(scale=0.5, size=(200, 2))
    noisy = [(t, x + noise[: len(t)]) for t, x in oscillators(8, rate=5.0)]  # not too short
    with early_noise_tests(2):
        for n_epochs, stages in ((4, {"training": 0, "noise": 1}), (2, {"training": 0})):
            model = small(max_epochs=n_epochs).fit(noisy)
            assert TrainingDisplay.from_estimator(model).stages == stages


HISTORY = [
    {"epoch": 0, "validation_error": 1.0, "training_loss": 0.9, "learning_rate": 0.01},
    {"epoch": 1, "validation_error": 0.5, "training_loss": 0.6, "learning_rate": 0.02},
    {"epoch": 2, "validation_error": 0.6, "training_loss": 0.4, "learning_rate": 0.01},
    {"epoch": 3, "validation_error": 0.4},
]


def test_learning_rates_that_are_known_have_their_own_axes() -> None:
    display = TrainingDisplay(HISTORY, stages={"training": 0, "filter": 2}).plot()
    errors, rates = display.axes_
    assert points(display.rate_line_)[:3] == [[0, 0.01], [1, 0.02], [2, 0.01]]
    assert display.rate_line_.axes is rates
    assert rates.get_ylabel() == "learning rate"
    assert [line.get_xdata()[0] for line in display.stage_lines_] == [2, 2]
    assert [line.axes for line in display.stage_lines_] == [errors, rates]
    assert [(own.get_text(), own.get_position()[0]) for own in errors.texts] == [
        ("training", 0),
        ("filter", 2),
    ]
    assert display.best_line_ is None


def test_an_error_of_zero_is_drawn_on_a_linear_scale() -> None:
    display = TrainingDisplay([{"epoch": 0, "validation_error": 0.0}]).plot()
    assert display.axes_[0].get_yscale() == "linear"
    assert len(display.axes_) == 1


def test_a_decoder_has_a_training_too(fitted) -> None:
    decoder = PastDecoder(fitted, max_epochs=2).fit(SERIES)
    display = TrainingDisplay.from_estimator(decoder)
    assert len(points(display.error_line_)) == 3
    assert display.best_line_ is None


def test_likely_mistakes() -> None:
    with pytest.raises(NotFittedError):
        TrainingDisplay.from_estimator(small())
    message = r"trained in epochs, .* which {} does not .* of a forecaster its transformer_"
    for other in (HiPPOTransformer().fit(SERIES), PolyODEForecaster()):  # sktime's has no tags
        with pytest.raises(TypeError, match=message.format(type(other).__name__)):
            TrainingDisplay.from_estimator(other)
