from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from skpolyode import HiPPOTransformer, PolyODEClassifier
from skpolyode.plotting import RiskDisplay

SERIES = [
    (np.arange(5.0), np.outer(np.arange(5.0), [slope, 1.0])) for slope in np.linspace(-1, 1, 12)
]


@pytest.fixture(scope="module")
def model():
    options = {"features": "coefficients", "n_cuts": 3, "random_state": 0}
    model = PolyODEClassifier(HiPPOTransformer(n_coefficients=3), **options)
    return model.fit(SERIES, np.repeat(["down", "up"], 6))


def test_lines_are_the_path_and_the_observations(model):
    display = RiskDisplay.from_estimator(model, SERIES, series=9)
    display.figure_.canvas.draw()
    (line,) = display.probability_lines_
    path = model.predict_proba_path(SERIES[9:10])
    assert line.get_label() == "up"
    np.testing.assert_array_equal(line.get_ydata(), path.values[:, 1])
    np.testing.assert_array_equal(line.get_xdata(), SERIES[9][0])
    assert [own.get_ydata()[4] for own in display.observed_lines_] == list(SERIES[9][1][4])
    assert len(display.axes_) == 3
    one = RiskDisplay.from_estimator(model, SERIES, series=9, channel=1)
    assert [own.get_ydata()[4] for own in one.observed_lines_] == [4.0]


def test_many_classes_datetimes_and_given_axes():
    times = pd.date_range("2026-01-01", periods=3, freq="h", tz="Europe/Berlin")
    _, axes = plt.subplots(2)
    names = {"classes": ["a", "b", "c"], "channel_names": ["hr"]}
    display = RiskDisplay(times, np.eye(3), values=np.ones((3, 1)), **names).plot(axes)
    assert [own.get_label() for own in display.probability_lines_] == ["a", "b", "c"]
    assert display.axes_[1].get_xlabel() == "time (Europe/Berlin)"


def test_classes_and_channels_are_shown_by_their_names(close_figures):
    """As they are, not as formulas, and those with a leading underscore in the legend, too."""
    names = {"classes": ["_a", "$$", ""], "channel_names": [r"US$ in $\x"]}
    display = RiskDisplay(np.arange(3.0), np.eye(3), values=np.ones((3, 1)), **names).plot()
    display.figure_.canvas.draw()
    shown = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert shown == [" _a", r"\$\$", " "]
    assert display.axes_[1].get_ylabel() == r"US\$ in \$\x"


def test_a_classifier_without_a_path_is_refused(model):
    with pytest.raises(TypeError, match="predict_proba_path"):
        RiskDisplay.from_estimator(PolyODEClassifier(), SERIES)
