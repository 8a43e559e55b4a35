"""Forecasters under known inputs: X in sktime's calls, and inputs of panels."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest

from skpolyode import Inputs, Panel, PolyODETransformer, S4Transformer, load
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts

N, LENGTH, AHEAD = 12, 26, 6
HOURS = pd.date_range("2024-01-01", periods=LENGTH + AHEAD, freq="h")


def driven(seed=0):
    """Series that follow X, which switches at random, and X itself, further ahead."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.choice([-1.0, 1.0], (N, LENGTH + AHEAD)), 1, axis=1)
    y = np.zeros(x.shape)
    for k in range(1, y.shape[1]):
        y[:, k] = 0.6 * y[:, k - 1] + (x[:, k] + x[:, k - 1]) / 2
    index = pd.MultiIndex.from_product([range(N), HOURS], names=["who", "when"])
    frames = [pd.DataFrame({name: v.ravel()}, index=index) for name, v in (("y", y), ("x", x))]
    known = index.get_level_values(1) < HOURS[LENGTH]
    return frames[0][known], frames[1], frames[0][~known], known


Y, X, LATER, KNOWN = driven()
SMALL = PolyODETransformer(n_coefficients=4, hidden_size=8, horizon=1, max_epochs=12)
STEPS = list(range(1, AHEAD + 1))


@pytest.fixture(scope="module")
def forecaster():
    return PolyODEForecaster(SMALL, random_state=0).fit(Y, X=X[KNOWN])


def test_future_x_changes_forecasts_for_the_better(forecaster):
    found = forecaster.predict(STEPS, X=X[~KNOWN])
    with pytest.warns(
        UserWarning, match=r"known after the last observation: .* Give inputs=, or X= in"
    ):
        alone = forecaster.predict(STEPS)
    errors = [np.sqrt(np.mean((p.to_numpy() - LATER.to_numpy()) ** 2)) for p in (found, alone)]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("known", [1, 3, 5])
def test_x_that_ends_before_the_horizon_warns(forecaster, known):
    """It is held from there, which is a forecast under other inputs."""
    hours = LATER.index.get_level_values(1)
    short = X[~KNOWN][hours < HOURS[LENGTH + known]]
    with pytest.warns(
        UserWarning,
        match=r"of 12 series, .* inputs end too early: .* X= in methods of sktime up to",
    ):
        forecaster.predict(STEPS, X=short)
    forecaster.predict(STEPS[:known], X=short)  # without a warning


def test_x_may_have_rows_of_other_times(forecaster):
    expected = forecaster.predict(STEPS[:3], X=X[~KNOWN])
    # All of it, the known part again; and points on the same lines.
    assert forecaster.predict(STEPS[:3], X=X).equals(expected)
    between = X[~KNOWN].groupby(level=0).shift(-1).add(X[~KNOWN]).div(2).dropna()
    times = between.index.get_level_values(1) + pd.Timedelta("30min")
    between.index = pd.MultiIndex.from_arrays([between.index.get_level_values(0), times])
    finer = pd.concat([X[~KNOWN], between.rename_axis(X.index.names)]).sort_index()
    assert np.allclose(forecaster.predict(STEPS[:3], X=finer), expected, atol=1e-3)


def test_panels_answer_as_frames_do(forecaster):
    rows = [X.loc[who] for who in range(N)]
    inputs = Inputs(Panel.from_frames(rows, channel_names=["x"]), "linear")
    panel = Panel.from_frames([Y.loc[who] for who in range(N)], inputs=inputs)
    expected = forecaster.predict(STEPS, X=X[~KNOWN]).to_numpy()
    ahead = HOURS[LENGTH:]
    assert np.allclose(forecaster.forecast(panel, ahead).values, expected, atol=1e-6)
    paths = forecaster.sample_paths(panel, ahead, random_state=0)  # futures under the same inputs
    assert np.allclose(paths.forecast.values, expected, atol=1e-6)
    past = Panel.from_frames([own[: HOURS[LENGTH - 1]] for own in rows], channel_names=["x"])
    known = Panel.from_frames(panel.to_frames(), inputs=Inputs(past, "linear"))
    with pytest.warns(UserWarning, match=r"known after the last observation: .* Give inputs=, or"):
        forecaster.forecast(known, ahead)
    lower, upper = forecaster.forecast_interval(known, ahead, inputs=inputs)
    assert (lower.values < expected + 1e-6).all()
    assert (upper.values > expected - 1e-6).all()


def test_scores_of_many_metrics_warn_once(forecaster):
    """Forecasts and quantiles are of one look at the series."""
    few = Panel.from_frames([X.loc[who][:3] for who in range(N)], channel_names=["x"])
    rows = [Y.loc[who] for who in range(N)]
    panel = Panel.from_frames(rows, inputs=Inputs(few, "linear"))
    with pytest.warns(UserWarning, match="known after the last") as caught:
        both = evaluate_forecasts(forecaster, panel, metrics=["mse", "coverage"])
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="known after the last"):
        alone = evaluate_forecasts(forecaster, panel)
    assert both[both["metric"] == "mse"]["value"].item() == alone["value"][0]


def test_updates_keep_x_and_files_take_it_again(forecaster, tmp_path):
    new = LATER.index.get_level_values(1) < HOURS[LENGTH + 2]
    forecaster = copy.deepcopy(forecaster)
    forecaster.update(LATER[new], X=X[~KNOWN][new], update_params=False)
    expected = forecaster.predict([1, 2], X=X[~KNOWN])
    forecaster.save(tmp_path / "forecaster.safetensors")
    same = load(tmp_path / "forecaster.safetensors").fit(pd.concat([Y, LATER[new]]), X=X)
    assert same.predict([1, 2]).equals(expected)
    assert np.isfinite(same.predict_residuals().to_numpy()).all()


def test_transformers_without_inputs_do_not_take_x():
    forecaster = PolyODEForecaster(S4Transformer(max_epochs=1, hidden_size=4))
    assert not forecaster.get_tag("capability:exogenous")
    assert PolyODEForecaster().get_tag("capability:exogenous")


def test_instances_without_x_are_refused():
    with pytest.raises(ValueError, match=r"X has no rows of the instances \[11\]"):
        PolyODEForecaster(SMALL).fit(Y, X=X[X.index.get_level_values(0) < 11])
