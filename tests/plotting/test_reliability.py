from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.stats import norm

from skpolyode import HiPPOTransformer, Panel
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.plotting import ReliabilityDisplay
from tests.transformers.data import oscillators, small

LEVELS = (0.2, 0.5, 0.9)


def test_intervals_of_the_right_law_are_kept() -> None:
    """And those of half the scale hold what half the quantile holds."""
    x = np.random.default_rng(0).standard_normal((20_000, 2))
    x[::2, 1] = np.nan
    z = {level: norm.ppf((1 + level) / 2) * np.array([1.0, 0.5]) for level in LEVELS}
    intervals = {
        level: (np.zeros_like(x) - own, np.zeros_like(x) + own) for level, own in z.items()
    }
    display = ReliabilityDisplay.from_predictions(x, intervals, channel_names=["_a", "$$"])
    wanted = [[level, 2 * norm.cdf(z[level][1]) - 1] for level in LEVELS]
    np.testing.assert_allclose(display.coverage, wanted, atol=0.015)
    for j, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xdata(), LEVELS)
        np.testing.assert_array_equal(line.get_ydata(), display.coverage[:, j])
    assert [own.get_text() for own in display.ax_.get_legend().get_texts()] == [
        "calibrated",
        " _a",
        r"\$\$",
    ]
    display.figure_.canvas.draw()


def test_a_forecaster_is_asked_for_the_ends_of_series() -> None:
    X = oscillators(20)
    model = PolyODEForecaster(small(), random_state=0).pretrain(Panel.from_series(X[:15]))
    ax = Figure().add_subplot()
    display = ReliabilityDisplay.from_estimator(
        model, X[15:], cutoff=0.5, levels=LEVELS, channel="x1", ax=ax, line_kw={"c": "C3"}
    )
    assert plt.get_fignums() == []
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.lines_[0].get_color() == "C3"
    inside, count = np.zeros(3), 0
    for t, x in X[15:]:
        past = t <= t[0] + 0.5 * (t[-1] - t[0])
        for k, level in enumerate(LEVELS):
            lower, upper = model.forecast_interval([(t[past], x[past])], t[~past], level)
            own = x[~past, 1]
            inside[k] += ((lower.values[:, 1] <= own) & (own <= upper.values[:, 1])).sum()
        count += np.isfinite(x[~past, 1]).sum()
    np.testing.assert_allclose(display.coverage[:, 0], inside / count)
    assert (np.diff(display.coverage[:, 0]) >= 0).all()


def test_likely_mistakes() -> None:
    x = np.zeros(3)
    with pytest.raises(ValueError, match=r"levels must lie between 0 and 1, got 90"):
        ReliabilityDisplay.from_predictions(x, {90: (x, x)})
    with pytest.raises(ValueError, match="levels must hold a number at least"):
        ReliabilityDisplay.from_predictions(x, {})
    with pytest.raises(ValueError, match=r"of shape \(3, 1\), but the ends .* level 0.5"):
        ReliabilityDisplay.from_predictions(x, {0.5: (x[:2], x)})
    series = Panel.from_series(oscillators(3))
    with pytest.raises(TypeError, match="forecast_quantiles"):
        ReliabilityDisplay.from_estimator(HiPPOTransformer().fit(series), series)
