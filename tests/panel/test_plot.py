"""A quick look at a panel."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from skpolyode.panel import Panel

NAN = np.nan
SERIES = [([0.0, 1.0, 4.0], [[1.0, 5.0], [2.0, NAN], [6.0, 7.0]]), ([2.0], [[NAN, 3.0]])]


pytestmark = pytest.mark.usefixtures("close_figures")


def test_what_is_drawn_are_the_observations():
    axes = Panel.from_series(SERIES, channel_names=["hr", "bp"]).plot()
    assert [own.get_ylabel() for own in axes] == ["hr", "bp"]
    drawn = [[line.get_xydata().tolist() for line in own.lines] for own in axes]
    assert drawn[0] == [[[0, 1], [1, 2], [4, 6]], []]
    assert drawn[1] == [[[0, 5], [4, 7]], [[2, 3]]]


def test_names_are_shown_as_they_are():
    ids, names = ["_one", "$$"], ["_x", "$$"]
    axes = Panel.from_series(SERIES, ids=ids, channel_names=names).plot()
    axes[0].figure.canvas.draw()
    shown = [text.get_text() for text in axes[0].get_legend().get_texts()]
    assert shown == [" _one", r"\$\$"]
    assert [own.get_ylabel() for own in axes] == [" _x", r"\$\$"]


def test_axes_of_yours_and_the_first_series_only():
    panel = Panel.from_series([([0.0, 1.0], [1.0, k]) for k in range(12)])
    own = plt.figure().subplots()
    assert panel.plot(own)[0] is own
    assert len(own.lines) == 10
    assert len(panel.plot(max_series=12)[0].lines) == 12
    with pytest.raises(ValueError, match=r"ax holds 1 axes, but there are 2 channels \(x0, x1\)"):
        Panel.from_series(SERIES).plot(own)


@pytest.mark.parametrize("zone", [None, "America/New_York"])
def test_dates_are_those_of_the_user(zone):
    when = pd.date_range("2024-01-01 22:00", periods=3, freq="h", tz=zone)
    (axes,) = Panel.from_series([(when, [1.0, 2.0, 3.0])]).plot()
    start, stop = (axes.convert_xunits(moment.replace(tzinfo=None)) for moment in when[[0, -1]])
    assert axes.lines[0].get_xdata(orig=False)[[0, -1]].tolist() == [start, stop]
    assert axes.get_xlabel() == ("time" if zone is None else "time (America/New_York)")


def test_a_series_without_rows_is_an_empty_line():
    panel = Panel.from_series([([], np.empty((0, 1))), ([0.0], [1.0])], empty="keep")
    assert [len(line.get_xdata()) for line in panel.plot()[0].lines] == [0, 1]
