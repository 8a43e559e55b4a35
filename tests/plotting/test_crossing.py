from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from skpolyode import Panel, PolyODETransformer
from skpolyode.plotting import CrossingDisplay
from tests.transformers.data import oscillators, small


@pytest.fixture(scope="module")
def transformer() -> PolyODETransformer:
    return small().fit(oscillators())


def test_samples_line_and_window_are_those_of_the_transformer(transformer):
    X = oscillators()
    times, values = X[3]
    line, options = float(values[-1, 1]) + 0.3, {"series": 3, "channel": 1, "n_drawn": 20}
    display = CrossingDisplay.from_estimator(transformer, X, line, 2.0, "end", **options)
    display.figure_.canvas.draw()
    row = transformer.crossing_times([X[3]], line, 2.0, "end", channel=1).iloc[0]
    assert display.title == f"{row['status']}, probability {row['probability']:.2f}"
    assert display.window == (row["earliest"], row["median"], row["latest"])
    assert len(display.paths_) == 20
    for path in display.paths_:
        drawn, heights = path.get_data()
        assert (drawn[0], drawn[-1]) == (times[-1], pytest.approx(times[-1] + 2.0))
        assert heights[0] == pytest.approx(values[-1, 1])
    seen = values[~np.isnan(values[:, 1]), 1]
    np.testing.assert_array_equal(display.observed_line_.get_ydata(), seen)
    assert display.threshold_line_.get_ydata()[0] == line
    assert display.median_line_.get_xdata()[0] == row["median"]


def test_samples_start_at_the_last_observation_of_the_channel(transformer):
    times, values = oscillators()[3]
    values = values.copy()
    values[-2:, 1] = np.nan
    display = CrossingDisplay.from_estimator(
        transformer, [(times, values)], 9.0, 2.0, "end", channel=1
    )
    for path in display.paths_:
        assert np.transpose(path.get_data())[0].tolist() == [times[-3], values[-3, 1]]


def test_datetimes_and_given_axes():
    hours = pd.date_range("2024-01-01", periods=30, freq="h", tz="Europe/Berlin")
    rng = np.random.default_rng(0)
    panel = Panel.from_series([(hours, rng.normal(size=30).cumsum()) for _ in range(12)])
    model = small().fit(panel)
    _, ax = plt.subplots()
    display = CrossingDisplay.from_estimator(
        model, panel, 2.0, hours[-1] + pd.Timedelta("6h"), direction="below", ax=ax
    )
    display.figure_.canvas.draw()
    assert display.ax_ is ax
    assert display.times[0] == hours[-1]


def test_what_knows_no_crossings_is_refused():
    with pytest.raises(TypeError, match="CrossingDisplay needs an estimator with a method cross"):
        CrossingDisplay.from_estimator(object(), oscillators(), 1.0, 2.0, "end")
