from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.container import StemContainer
from matplotlib.figure import Figure
from sklearn.exceptions import NotFittedError

from skpolyode import HiPPOTransformer, LegendreFitTransformer, SummaryStatsTransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.plotting import CoefficientDisplay
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import oscillators, small
from tests.transformers.registry import all_transformers

TRANSFORMERS = {
    name: transformer
    for name, transformer in all_transformers().items()
    if transformer.has_coefficients
}


def heights(stems: StemContainer) -> np.ndarray:
    return stems.markerline.get_ydata()


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_stems_are_the_features(name: str) -> None:
    X = oscillators()
    estimator = TRANSFORMERS[name].fit(X)
    display = CoefficientDisplay.from_estimator(estimator, X, series=4)
    features = dict(zip(estimator.get_feature_names_out(), estimator.transform(X)[4], strict=True))
    for channel, stems in zip(("x0", "x1"), display.stems_, strict=True):
        n_coefficients = len(heights(stems))
        np.testing.assert_array_equal(stems.markerline.get_xdata(), np.arange(n_coefficients))
        expected = [features[f"{channel}_c{n}"] for n in range(n_coefficients)]
        np.testing.assert_allclose(heights(stems), expected, atol=1e-12)
        assert f"{channel}_c{n_coefficients}" not in features
    assert [ax.get_ylabel() for ax in display.axes_] == ["x0", "x1"]


def test_cells_that_transform_ignores_are_not_drawn() -> None:
    X = oscillators()
    estimator = TRANSFORMERS["PolyODETransformer"].fit(X)
    times, values = X[4][0], X[4][1].copy()
    values[3, 0] = 1e9
    with pytest.warns(UserWarning, match="far from all others"):
        display = CoefficientDisplay.from_estimator(estimator, [(times, values)])
    values[3, 0] = np.nan
    expected = CoefficientDisplay.from_estimator(estimator, [(times, values)])
    np.testing.assert_array_equal(display.coefficients, expected.coefficients)


def test_parabola_has_three_coefficients() -> None:
    times = np.linspace(-1, 1, 41)
    X = [(times, times**2)]
    estimator = LegendreFitTransformer(n_coefficients=6, alpha=0.0, window=2.0).fit(X)
    display = CoefficientDisplay.from_estimator(estimator, X)
    drawn = heights(display.stems_[0]) * estimator.scaler_.scale[0]
    mean = 1 / 3 - estimator.scaler_.mean[0]
    np.testing.assert_allclose(drawn, [mean, 0, 2 / 3 / np.sqrt(5), 0, 0, 0], atol=1e-12)


def test_hidden_embedding_still_has_coefficients() -> None:
    X = oscillators()
    one, other = (
        CoefficientDisplay.from_estimator(small(embedding=embedding).fit(X), X)
        for embedding in ("hidden", "coefficients")
    )
    assert_same_but_for_rounding(one.coefficients, other.coefficients)


def test_channels_axes_and_keywords() -> None:
    X = oscillators()
    estimator = HiPPOTransformer(n_coefficients=5).fit(X)
    ax = Figure().add_subplot()
    display = CoefficientDisplay.from_estimator(
        estimator, X, channel=1, ax=ax, markerfmt="rs", label="tilt"
    )
    assert plt.get_fignums() == []
    assert display.axes_[0] is ax
    assert display.figure_ is ax.figure
    assert display.stems_[0].markerline.get_marker() == "s"
    assert display.stems_[0].get_label() == "tilt"
    both = CoefficientDisplay.from_estimator(estimator, X)
    np.testing.assert_array_equal(heights(display.stems_[0]), heights(both.stems_[1]))
    assert plt.get_fignums() == [both.figure_.number]
    assert [ax.get_xlabel() for ax in both.axes_] == ["", "coefficient"]
    assert both.axes_[0].get_ylim() == both.axes_[1].get_ylim()


def test_arrays_are_enough() -> None:
    display = CoefficientDisplay([3.0, 2.0, 1.0], channel_names=["a"]).plot()
    assert display.axes_[0].get_ylabel() == "a"
    np.testing.assert_array_equal(heights(display.stems_[0]), [3, 2, 1])


def test_errors_say_what_to_do() -> None:
    X = oscillators()
    estimator = HiPPOTransformer().fit(X)
    with pytest.raises(ValueError, match="series must be a position from 0 to 11"):
        CoefficientDisplay.from_estimator(estimator, X, series=99)
    with pytest.raises(ValueError, match=r"channel must be one of .* got 'z'"):
        CoefficientDisplay.from_estimator(estimator, X, channel="z")
    with pytest.raises(ValueError, match="ax holds 1 axes, but there are 2 channels"):
        CoefficientDisplay.from_estimator(estimator, X, ax=Figure().add_subplot())
    with pytest.raises(TypeError, match="embeds in coefficients, got SummaryStatsTransformer"):
        CoefficientDisplay.from_estimator(SummaryStatsTransformer().fit(X), X)
    with pytest.raises(TypeError, match="of a forecaster its transformer_"):
        CoefficientDisplay.from_estimator(PolyODEForecaster(), X)
    with pytest.raises(NotFittedError):
        CoefficientDisplay.from_estimator(HiPPOTransformer(), X)
