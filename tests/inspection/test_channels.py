"""channel_errors: whose readings mislead the forecasts of the others."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from skpolyode import HiPPOTransformer, Panel
from skpolyode.inspection import channel_errors
from skpolyode.panel import as_panel


class MeanOfOthers:
    """Forecasts each channel by the mean of the others at the same time."""

    scaler_ = SimpleNamespace(scale=np.array([1.0, 2.0, 1.0]))

    def residuals(self, X):
        panel = as_panel(X)
        values = panel.values
        rest = [
            np.nanmean(
                np.column_stack([np.delete(values, j, axis=1), np.zeros(len(values))]), axis=1
            )
            for j in range(3)
        ]
        return panel.like(panel.times, values - np.transpose(rest), panel.offsets)


HEALTHY = np.array([[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]])


def table_of(*series):
    return channel_errors(
        MeanOfOthers(), Panel.from_series([(np.arange(len(x)), x) for x in series])
    )


def test_errors_of_the_channel_and_of_the_others():
    first = table_of(HEALTHY).set_index("channel")
    # At time 1 all are 3, and expected are the means of (3, 3, 0), or of (3, 0) without one.
    error = 1.0 / np.sqrt(2) / MeanOfOthers.scaler_.scale
    np.testing.assert_allclose(first["error"], error)
    np.testing.assert_allclose(first["usual"], error)
    others = [np.sqrt(np.mean(np.delete(error, j) ** 2)) for j in range(3)]
    np.testing.assert_allclose(first["others"], others)
    np.testing.assert_allclose(first["others_without"], 1.5 * np.array(others))
    assert first["repeats"].tolist() == [0.0] * 3


def test_a_channel_without_which_the_others_are_forecast_better_is_found():
    broken = HEALTHY + np.array([0.0, 40.0, 0.0])
    table = table_of(HEALTHY, HEALTHY, broken)
    gain = (table["others"] / table["others_without"]).to_numpy().reshape(3, 3)
    assert np.argmax(gain[2]) == 1
    assert gain[2, 1] > 5 > 1 > gain[:2].max()
    assert table["usual"].nunique() == 2  # by channel, of the healthy majority


def test_repeats_are_of_readings_and_end_with_their_series():
    stuck = np.array(
        [[1.0, 5.0, np.nan], [np.nan, 5.0, np.nan], [1.0, 5.0, 2.0], [4.0, 6.0, np.nan]]
    )
    table = table_of(stuck, stuck[::-1])
    first, second = table["repeats"].to_numpy().reshape(2, 3)
    np.testing.assert_allclose(first, [0.5, 2 / 3, np.nan])
    np.testing.assert_allclose(second, first)


def test_ids_and_channels_are_told():
    panel = Panel.from_series([([0.0, 1.0], HEALTHY)], ids=["a"], channel_names=["x", "y", "z"])
    table = channel_errors(MeanOfOthers(), panel)
    assert table[["series", "id", "channel"]].to_numpy().tolist() == [
        [0, "a", name] for name in "xyz"
    ]
    with pytest.raises(TypeError, match="method residuals, which HiPPOTransformer does not have"):
        channel_errors(HiPPOTransformer(), panel)
