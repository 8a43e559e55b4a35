"""evaluate_forecasts: cutoffs, leads, masks and metrics, checked by hand."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel import Panel, query_times
from skpolyode.transformers import PolyODETransformer
from tests.forecasting.conftest import waves

NAN = np.nan


class LastPlusLead:
    """Forecast: the last row plus the time since it; a band of one around it."""

    def forecast(self, panel: Panel, times: list[np.ndarray]) -> Panel:
        flat, offsets = query_times(panel, times)
        pairs = zip(panel, np.split(flat, offsets[1:-1]), strict=True)
        values = np.concatenate([v[-1] + (query - t[-1])[:, None] for (t, v), query in pairs])
        return panel.like(flat, values, offsets)

    def forecast_quantiles(self, panel, times, alpha):
        mean = self.forecast(panel, times)
        return {a: mean.like(mean.times, mean.values + 2 * a - 1, mean.offsets) for a in alpha}


@pytest.fixture
def panel() -> Panel:
    first = ([0.0, 4.0, 7.0, 10.0], [[0.0, 0.0], [1.0, 5.0], [4.0, NAN], [9.0, 9.0]])
    second = ([100.0, 101.0, 110.0], [[1.0, 1.0], [2.0, 2.0], [12.0, 3.0]])
    return Panel.from_series([first, second, ([5.0], [[1.0, 1.0]])], channel_names=["u", "v"])


def value(table: pd.DataFrame, **where: object) -> tuple[float, int]:
    chosen = table.loc[(table[list(where)] == pd.Series(where)).all(axis=1)]
    assert len(chosen) == 1
    return chosen["value"].item(), chosen["n"].item()


def test_metrics_by_hand(panel):
    metrics = ["mse", "mae", "coverage", "pinball"]
    table = evaluate_forecasts(LastPlusLead(), panel, cutoff=0.5, metrics=metrics, coverage=0.8)
    # u: series 0 from (4, 1): 4, 7 against 4, 9; series 1 from (101, 2): 11 against 12.
    assert value(table, channel="u", metric="mse") == (pytest.approx(5 / 3), 3)
    assert value(table, channel="u", metric="mae") == (pytest.approx(1.0), 3)
    assert value(table, channel="u", metric="coverage") == (pytest.approx(1 / 3), 3)
    # v: 11 against 9, 11 against 3; the missing value does not count.
    assert value(table, channel="v", metric="mse") == (pytest.approx((4 + 64) / 2), 2)
    errors = np.array([0.0, 2.0, 1.0])
    losses = [
        np.maximum(a * (errors - (2 * a - 1)), (a - 1) * (errors - (2 * a - 1)))
        for a in (0.1, 0.5, 0.9)
    ]
    assert value(table, channel="u", metric="pinball")[0] == pytest.approx(np.mean(losses))


def test_leads_are_scored_apart(panel):
    table = evaluate_forecasts(LastPlusLead(), panel, cutoff=0.5, horizon=[3, 6], metrics=["mse"])
    assert value(table, channel="u", lead=3.0) == (0.0, 1)
    assert value(table, channel="u", lead=6.0) == (4.0, 1)  # lead 9 is past the last limit
    nothing, n = value(table, channel="v", lead=3.0)
    assert np.isnan(nothing)
    assert n == 0


def test_cutoffs_by_time(panel):
    for cutoff in ([4.0, 105.0, 5.0], np.array([6.9, 101.0, 0.0])):
        table = evaluate_forecasts(LastPlusLead(), panel, cutoff=cutoff, metrics=["mse"])
        assert value(table, channel="u")[1] == 3
    one = evaluate_forecasts(LastPlusLead(), panel, cutoff=7.0, metrics=["mse"])
    assert value(one, channel="u") == (4.0, 1)


def test_cutoffs_of_datetimes():
    days = pd.date_range("2024-01-01", periods=6, freq="D")
    panel = Panel.from_frames([pd.DataFrame({"u": np.arange(6.0)}, index=days)], time_unit="D")
    table = evaluate_forecasts(LastPlusLead(), panel, cutoff=pd.Timestamp("2024-01-03"))
    as_text = evaluate_forecasts(LastPlusLead(), panel, cutoff="2024-01-03")
    pd.testing.assert_frame_equal(as_text, table)
    for cutoff in ("half", ["half"] * panel.n_series):
        with pytest.raises(
            ValueError, match=r"^cutoff.*: text must be dates and times .* got 'half'"
        ):
            evaluate_forecasts(LastPlusLead(), panel, cutoff=cutoff)
    assert value(table, metric="mse") == (0.0, 3)


def test_an_untrained_model_is_trained_on_the_past_only():
    panel = waves(12, seed=0, fewest=12)
    transformer = PolyODETransformer(n_coefficients=2, hidden_layer_sizes=(4,), max_epochs=1)
    model = PolyODEForecaster(transformer, random_state=0)
    scores = evaluate_forecasts(model, panel)
    assert model.state == "new"
    # What comes after the cutoffs does not matter to training: other futures, same forecasts.
    half = [(t, np.where((t > t[0] + 0.8 * (t[-1] - t[0]))[:, None], 7.0, x)) for t, x in panel]
    other = evaluate_forecasts(model, half)
    for channel in ("x0", "x1"):
        mine, theirs = (value(s, channel=channel, metric="mse")[0] for s in (scores, other))
        assert mine != theirs
    past = [(t[: len(t) // 2], x[: len(t) // 2]) for t, x in panel]
    trained = model.clone().pretrain(Panel.from_series(past))
    evaluate_forecasts(trained, panel)
    assert trained.state == "pretrained"


def test_transformers_are_scored_with_their_quantiles():
    panel = waves(6, seed=0)
    small = PolyODETransformer(
        n_coefficients=2, hidden_layer_sizes=(4,), max_epochs=1, random_state=0
    )
    assert evaluate_forecasts(small, panel)["value"].notna().all()
    assert not hasattr(small, "field_")
    both = evaluate_forecasts(small, panel, metrics=["mse", "coverage"])
    assert both["value"].between(0, np.inf).all()
    with pytest.raises(ValueError, match=r"\['coverage'\] need quantiles, but SimpleNamespace"):
        evaluate_forecasts(SimpleNamespace(forecast=None), panel, metrics=["coverage"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metrics": ["rmse"]}, r"metrics must be a list of some of \['mse'"),
        ({"metrics": "mse"}, "metrics must be a list"),
        ({"coverage": 1.0}, "coverage must lie between 0 and 1, got 1.0"),
        ({"horizon": [2, 1]}, r"horizon must increase from above zero, got \[2, 1\]"),
        ({"horizon": 0.0}, "horizon must increase from above zero"),
        ({"cutoff": [1.0, 2.0]}, r"one for each of the 3 series, got \[1.0, 2.0\]"),
        ({"cutoff": 1000.0}, "no series has observations both up to its cutoff and after"),
    ],
)
def test_errors(panel, options, message):
    with pytest.raises(ValueError, match=message):
        evaluate_forecasts(LastPlusLead(), panel, **options)


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_series_of_datetimes_are_scored_as_those_of_numbers(zone):
    rng = np.random.default_rng(0)
    hours = pd.date_range("2024-01-01", periods=12, freq="h", tz=zone)
    values = rng.normal(size=(4, 12))
    dated = Panel.from_series([(hours, own) for own in values], time_unit="h")
    plain = Panel.from_series([(np.arange(12.0), own) for own in values])
    model = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(plain)
    again = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0).fit(dated)
    expected = evaluate_forecasts(model, plain, cutoff=0.5)["value"]
    for cutoff in (0.5, hours[5], list(hours[[5] * 4])):
        found = evaluate_forecasts(again, dated, cutoff=cutoff)["value"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
