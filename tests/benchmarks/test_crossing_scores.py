"""evaluate_crossings: who is scored, and metrics, checked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks.crossing_scores import crossing_outcomes, evaluate_crossings, weights_of
from skpolyode import Panel, PolyODETransformer
from tests.forecasting.conftest import waves


class Oracle:
    """Says that series rise by one in each unit of time, up to `late` later; sure below five."""

    def __init__(self, late: float = 0.0) -> None:
        self.late = late

    def crossing_times(self, panel, threshold, until, relative_to, *, channel, direction, coverage):
        assert (relative_to, direction, coverage) == ("end", "above", 0.9)
        end, last = panel.times[panel.offsets[1:] - 1], panel.values[panel.offsets[1:] - 1, channel]
        own = threshold - last + self.late
        columns = {"earliest": own - 0.5, "median": own, "latest": own + 0.5}
        found = {name: end + np.minimum(x, until) for name, x in columns.items()}
        return pd.DataFrame({"probability": np.where(own <= until, 0.9, 0.2)} | found)


@pytest.fixture
def rising() -> Panel:
    """Rises of one, a rise of one that is seen for a short time, one of nothing, one above."""
    t = np.arange(21.0)
    series = [(t, t), (t, t - 3), (t, t - 20), (t[:13], t[:13] - 20), (t, 0 * t + 2), (t, t + 9)]
    return Panel.from_series([(own, np.column_stack([0 * own, x])) for own, x in series])


def crossings(model: object, panel: Panel, **options: object) -> dict[str, tuple[float, int]]:
    asked = {"threshold": 12.5, "horizon": 6.0, "cutoff": [10.0] * len(panel), "channel": "x1"}
    table = evaluate_crossings(model, panel, **asked | options)
    return {name: (value, n) for name, value, n in table.itertuples(index=False)}


def test_crossings_of_an_oracle_are_right(rising):
    found = crossings(Oracle(), rising)  # two cross, two do not, one is not known, one is above
    assert found["timing_error"] == (0.0, 2)
    assert found["caught"] == found["coverage"] == (1.0, 2)
    assert found["false_alarms"] == (0.0, 2)
    assert found["brier"] == (pytest.approx((2 * 0.1**2 + 2 * 0.2**2) / 4), 4)
    assert found["concordance"] == (1.0, 5)  # the first before three others, the second before two


@pytest.mark.parametrize("horizon", [-2.0, [1.0, 2.0], "soon"])
def test_the_horizon_of_crossings_is_one_length(rising, horizon):
    with pytest.raises(ValueError, match="horizon must be a positive length of time"):
        crossings(Oracle(), rising, horizon=horizon)


def test_crossings_that_come_early_or_are_missed(rising):
    found = crossings(Oracle(late=1.0), rising)  # the second is taken for one that never crosses
    assert found["timing_error"] == ((1.0 + 0.5) / 2, 2)
    assert found["caught"] == (0.5, 2)
    assert found["coverage"] == (0.0, 2)


def followed(lengths: list[float]) -> Panel:
    """Rises of one that cross 12.5 after .5 to 9.5, each followed for every one of some lengths."""
    pairs = [(crossing, length) for crossing in np.arange(0.5, 10) for length in lengths]
    series = [([0.0, 10.0, 10.0 + own], at) for at, own in pairs]
    return Panel.from_series([(np.array(t), np.array(t) + 2.5 - at) for t, at in series])


def test_series_that_end_early_bias_no_score():
    """Where ends have nothing to do with crossings, Kaplan and Meier are exact on such a grid."""
    asked = {"channel": 0, "threshold": 12.5}
    expected = crossings(Oracle(late=1.0), followed([12.0]), **asked)
    found = crossings(Oracle(late=1.0), followed([0.25, 1.0, 2.5, 4.75, 12.0]), **asked)
    assert found["brier"][1] < 50
    for name, (value, _) in expected.items():
        assert found[name][0] == pytest.approx(value, abs=1e-12)


def test_what_stands_for_series_that_end_early():
    """Two of four are followed to the end; who crosses before anyone is lost stands for itself."""
    actual, ends = np.array([1.0, 3.0, np.inf, np.inf, 2.0]), np.array([4, 4, 5, 2, np.nan])
    np.testing.assert_allclose(weights_of(actual, ends, 5.0), [1, 1.5, 1.5, 0, 0])
    np.testing.assert_array_equal(weights_of(actual, ends, 6.0), 0)  # no one tells of the rest


def test_crossings_are_scored_in_datetimes(rising):
    start = pd.Timestamp("2024-01-01", tz="Europe/Berlin")
    series = [(start + pd.to_timedelta(t, unit="h"), x) for t, x in rising.to_series()]
    dated = Panel.from_series(series, time_unit="h")

    class Dated(Oracle):
        def crossing_times(self, panel, *asked, **options):
            table = super().crossing_times(panel, *asked, **options)
            for name in ("earliest", "median", "latest"):
                blank = np.zeros((len(table), panel.n_channels))
                own = panel.like(table[name].to_numpy(), blank, np.arange(len(table) + 1))
                table[name] = own.user_times()
            return table

    asked = {"horizon": "6h", "cutoff": start + pd.Timedelta("10h")}
    for name, (value, n) in crossings(Dated(late=1.0), dated, **asked).items():
        expected = crossings(Oracle(late=1.0), rising)[name]
        assert (pytest.approx(value, abs=1e-6), n) == expected


def test_crossings_of_a_transformer_that_is_not_trained():
    small = PolyODETransformer(n_coefficients=4, max_epochs=1, random_state=0)
    found = crossings(small, waves(20, seed=0), channel=0, threshold=0.5, cutoff=0.6, horizon=2.0)
    assert 0 <= found["brier"][0] < 0.3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 100.0}, "no series can be scored.*a shorter horizon"),
        ({"direction": "up"}, "direction must be"),
        ({"channel": "u"}, "channel must be one of"),
    ],
)
def test_crossings_that_cannot_be_scored_are_refused(rising, options, message):
    with pytest.raises(ValueError, match=message):
        crossings(Oracle(), rising[2:5], **options)


def test_a_line_of_crossings_that_are_scored_is_one_number(rising):
    with pytest.raises(TypeError, match="threshold must be one number, got '12'"):
        crossings(Oracle(), rising, threshold="12")


def test_outcomes_are_what_is_scored(rising):
    """Of each series that counts: what was said of it, and when it crossed."""
    asked = {"threshold": 12.5, "horizon": 6.0, "cutoff": [10.0] * len(rising), "channel": "x1"}
    found = crossing_outcomes(Oracle(), rising, **asked)
    assert found["actual"].tolist() == [2.5, 5.5, np.inf, np.inf]
    assert found["weight"].tolist() == [1.25] * 4  # one that ended early is not known
    assert found["median"].tolist() == [2.5, 5.5, 6.0, 6.0]
    brier = ((found["probability"] - (found["actual"] < np.inf)) ** 2).mean()
    assert brier == pytest.approx(crossings(Oracle(), rising)["brier"][0])
