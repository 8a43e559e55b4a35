"""What is left out, and by how much answers change, against closed forms."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from skpolyode import HiPPOTransformer, Panel
from skpolyode.embedders import ChannelScaler
from skpolyode.inspection import (
    ImportanceDisplay,
    importance,
    observation_importance,
)
from tests.transformers.data import oscillators, small

RNG = np.random.default_rng(0)
TIMES = np.sort(RNG.uniform(0, 4, 9))
VALUES = RNG.normal(size=9)
ONE = [(TIMES, VALUES)]


def hats(n_coefficients: int) -> np.ndarray:
    """Orthonormal Legendre coefficients (7, N) of how far each inner value bends the path.

    Without it the path is the line between its neighbours: what goes is a hat over both gaps, as
    high as the value is off that line.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)
    found = []
    for k in range(1, 8):
        (a, b, c), (x, y, z) = TIMES[k - 1 : k + 2], VALUES[k - 1 : k + 2]
        height, total = y - (x + (z - x) * (b - a) / (c - a)), np.zeros(n_coefficients)
        for start, stop, up in ((a, b, True), (b, c, False)):
            u, half = (nodes + 1) / 2, (stop - start) / 2
            t = start + (stop - start) * u
            place = 2 * (t - TIMES[0]) / (TIMES[-1] - TIMES[0]) - 1
            basis = np.polynomial.legendre.legvander(place, n_coefficients - 1)
            basis = basis * np.sqrt(2 * np.arange(n_coefficients) + 1)
            hat = height * (u if up else 1 - u)
            total += (weights * half * hat) @ basis / (TIMES[-1] - TIMES[0])
        found.append(total)
    return np.array(found)


def test_linear_embeddings_have_a_closed_form():
    """The distance of the embeddings is the length of the coefficients of the hat."""
    model = HiPPOTransformer(n_coefficients=6, measure="legs").fit(ONE)
    table = observation_importance(model, ONE)
    wanted = np.linalg.norm(hats(6), axis=1) / model.scaler_.scale
    np.testing.assert_allclose(table["importance"][1:-1], wanted, rtol=1e-9)
    assert table["effect"].isna().all()
    np.testing.assert_array_equal(table["start"], TIMES)


def test_effects_have_a_sign():
    """Of a linear head they are what it makes of the change; the more is left out, the more."""
    panel = Panel.from_series([(TIMES, VALUES + k) for k in range(6)])
    y = RNG.normal(size=6)
    model = make_pipeline(HiPPOTransformer(n_coefficients=6, measure="legs"), Ridge(1e-3)).fit(
        panel, y
    )
    table = observation_importance(model, panel[:1])
    wanted = hats(6) @ model[1].coef_[:6] / model[0].scaler_.scale  # the last is the duration
    np.testing.assert_allclose(table["effect"][1:-1], wanted, atol=1e-9)
    np.testing.assert_allclose(table["importance"], np.abs(table["effect"]))


def test_copies_are_answered_in_any_batches(monkeypatch):
    panel = Panel.from_series(oscillators(5))
    model = HiPPOTransformer(n_coefficients=5).fit(panel)
    whole = observation_importance(model, panel)
    assert len(whole) == np.isfinite(panel.values).sum()
    monkeypatch.setattr(importance, "_CHUNK_ROWS", 60)
    pd.testing.assert_frame_equal(observation_importance(model, panel), whole)


def test_each_part_is_what_is_missing_in_a_series_without_it():
    panel = Panel.from_series(oscillators(3), ids=["a", "b", "c"], channel_names=["u", "v"])
    model = HiPPOTransformer(n_coefficients=5).fit(panel)
    table = observation_importance(model, panel, by="channel")
    assert table[["id", "channel"]].to_numpy().tolist()[:3] == [["a", "u"], ["a", "v"], ["b", "u"]]
    without = Panel(panel.times, panel.values * [1, np.nan], panel.offsets)
    distance = np.linalg.norm(model.transform(panel) - model.transform(without), axis=1)
    np.testing.assert_allclose(table["importance"][1::2], distance)
    stretches = observation_importance(model, panel, by=1.0)
    assert (stretches["end"] - stretches["start"] < 1.0).all()
    own = stretches[stretches["series"] == 1].iloc[1]
    t, x = panel[1]
    kept = (t < own["start"]) | (t > own["end"])
    change = model.transform(panel[[1]]) - model.transform(Panel.from_series([(t[kept], x[kept])]))
    assert own["importance"] == pytest.approx(np.linalg.norm(change))
    assert own["channel"] is None


def test_forecasts_and_probabilities():
    series = oscillators(10)
    model = small(max_epochs=2).fit(series)
    table = observation_importance(model, series[:2], times=[0.5, 1.0], relative_to="end")
    last = table[table["series"] == 0]["importance"].to_numpy()
    (t, x), scale = series[0], model.scaler_.scale
    hidden = x.copy()
    row, column = np.argwhere(np.isfinite(x))[-1]
    hidden[row, column] = np.nan
    at = [t[-1] + 0.5, t[-1] + 1.0]
    change = model.forecast(series[:1], at).values - model.forecast([(t, hidden)], at).values
    assert last[-1] == pytest.approx(np.sqrt(np.mean((change / scale) ** 2)))
    y = np.arange(10) % 2
    head = make_pipeline(HiPPOTransformer(n_coefficients=4), LogisticRegression()).fit(
        Panel.from_series(series), y
    )
    panel = Panel.from_series(series[:2])
    table = observation_importance(head, panel, by="channel")
    p = head.predict_proba(panel)
    without = head.predict_proba(Panel(panel.times, panel.values * [np.nan, 1], panel.offsets))
    best = p.argmax(axis=1)
    wanted = (p - without)[np.arange(2), best]
    np.testing.assert_allclose(table["effect"][::2], wanted, atol=1e-12)


def test_forecasters_are_asked_as_transformers_are():
    """One that continues the last value depends on nothing but the last observation."""

    class Last:
        scaler_ = ChannelScaler(np.zeros(1), np.full(1, 2.0))

        def forecast(self, y, times):
            last = [x[~np.isnan(x)][-1] for _, x in y]
            pairs = zip(times, last, strict=True)
            return Panel.from_series([(t, np.full(len(t), x)) for t, x in pairs])

    table = observation_importance(Last(), ONE, times=[1.0], relative_to="end")
    assert table["effect"][8] == pytest.approx((VALUES[8] - VALUES[7]) / 2)
    assert (table["importance"][:8] == 0).all()


def test_times_are_those_of_the_user():
    days = pd.date_range("2024-01-01", periods=4, tz="Europe/Berlin")
    panel = Panel.from_series([(days, [0.0, 3.0, 1.0, 2.0])], time_unit="D")
    model = HiPPOTransformer(n_coefficients=4).fit(panel)
    table = observation_importance(model, panel, by="36h")
    assert table["start"].tolist() == [days[0], days[2], days[3]]


def test_wrong_questions_are_refused():
    model = HiPPOTransformer(n_coefficients=4).fit(ONE)
    with pytest.raises(ValueError, match="what must be 'auto' or one of"):
        observation_importance(model, ONE, what="gradient")
    with pytest.raises(TypeError, match="a method predict_proba, which HiPPOTransformer"):
        observation_importance(model, ONE, what="probability")
    with pytest.raises(ValueError, match="needs times"):
        observation_importance(model, ONE, what="forecast")
    with pytest.raises(ValueError, match=r"'observation' or 'channel', must be .* 'row'"):
        observation_importance(model, ONE, by="row")
    alone = observation_importance(model, [([0.0], [1.0])])
    assert alone["importance"].isna().tolist() == [True]


def test_the_display_colours_observations():
    panel = Panel.from_series(oscillators(3))
    model = HiPPOTransformer(n_coefficients=4).fit(panel)
    display = ImportanceDisplay.from_estimator(model, panel, series=2)
    assert len(display.axes_) == 2
    table = observation_importance(model, panel[[2]])
    own = table[table["channel"] == "x1"]["importance"]
    np.testing.assert_allclose(display.points_[1].get_array(), own)
    assert display.colorbar_.vmax == pytest.approx(table["importance"].max())
    display.plot(points_kw={"s": 9})
    plt.close("all")


def test_a_display_of_plain_lists():
    display = ImportanceDisplay([0.0, 1.0, 3.0], [[2.0], [np.nan], [1.0]], [[0.5], [0.0], [1.0]])
    line = display.plot().lines_[0]
    np.testing.assert_array_equal(line.get_xydata(), [[0.0, 2.0], [3.0, 1.0]])
    np.testing.assert_array_equal(display.points_[0].get_array(), [0.5, 1.0])
    plt.close("all")


def test_time_is_named_once_below_all_channels():
    times, values = [0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]]
    display = ImportanceDisplay(times, values, values).plot()
    assert [ax.get_xlabel() for ax in display.axes_] == ["", "time"]
    own = plt.subplots(2)[1]
    display.plot(own)
    assert [ax.get_xlabel() for ax in own] == ["time", "time"]
    plt.close("all")
