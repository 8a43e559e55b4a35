"""Every neural transformer as the model of the forecaster, by being registered."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import skpolyode
from skpolyode import HiPPOTransformer, Panel, PolyODETransformer
from skpolyode.forecasting import PolyODEForecaster
from skpolyode.transformers.neural import NeuralTransformer
from tests.forecasting.conftest import START, frame, waves
from tests.transformers.registry import all_transformers
from tests.transformers.toy import ToyTransformer

HOUR = pd.Timedelta(hours=1)
TRANSFORMERS: dict[str, NeuralTransformer] = {
    "legs": PolyODETransformer(
        n_coefficients=3, measure="legs", hidden_layer_sizes=(4,), max_epochs=1
    ),
    "ToyTransformer": ToyTransformer(max_epochs=2),
    **{
        name: transformer
        for name, transformer in all_transformers().items()
        if isinstance(transformer, NeuralTransformer)
    },
}
UNFORGETTING = ["ToyTransformer"]


@pytest.fixture(scope="module")
def panel() -> Panel:
    return waves(10, seed=0, fewest=14)


@pytest.fixture(scope="module")
def pretrained(panel) -> dict[str, PolyODEForecaster]:
    """One for each transformer, trained when it is first asked for; clone it before fitting."""

    class Pretrained(dict):
        def __missing__(self, name: str) -> PolyODEForecaster:
            forecaster = PolyODEForecaster(TRANSFORMERS[name], random_state=0)
            return self.setdefault(name, forecaster.pretrain(frame(panel)))

    return Pretrained()


@pytest.mark.parametrize("name", TRANSFORMERS)
class TestEveryTransformer:
    def test_it_is_cloned_and_seeded(self, pretrained, name):
        forecaster, transformer = pretrained[name], TRANSFORMERS[name]
        assert not hasattr(transformer, "embedder_")
        trained = forecaster.transformer_
        assert type(trained) is type(transformer)
        own = {"random_state": trained.random_state, "validation_fraction": 0.2}
        assert trained.get_params() == transformer.get_params() | own
        assert trained.random_state == int(np.random.RandomState(0).randint(2**31 - 1))

    def test_sktime_calls(self, pretrained, panel, name):
        y = frame(panel[:2])
        forecaster = pretrained[name].clone().fit(y)
        ahead = [HOUR / 2, 2 * HOUR]
        expected = pd.concat(
            {who: own.index[-1][1] + pd.Series(ahead) for who, own in y.groupby("who")}
        )
        answer = forecaster.predict(ahead)
        assert answer.index.get_level_values("when").tolist() == expected.tolist()
        assert np.isfinite(answer).all(axis=None)
        interval = forecaster.predict_interval(ahead, coverage=[0.5, 0.9])
        assert np.isfinite(interval).all(axis=None)
        for channel in ("u", "v"):
            own = interval[channel]
            assert (own[0.9, "lower"] < own[0.5, "lower"]).all()
            assert (own[0.5, "lower"] < answer[channel]).all()
            assert (answer[channel] < own[0.5, "upper"]).all()
            assert (own[0.5, "upper"] < own[0.9, "upper"]).all()

    def test_in_sample_answers_know_what_was_before(self, pretrained, panel, name):
        y = frame(panel[:1]).loc[0]
        forecaster = pretrained[name].clone().fit(y)
        answer = forecaster.predict(y.index[[8, 15]])
        for k, row in enumerate((8, 15)):
            before = pretrained[name].clone().fit(y.iloc[:row]).predict(y.index[[row]])
            np.testing.assert_allclose(answer.iloc[k], before.iloc[0], rtol=1e-9)
        residuals = forecaster.predict_residuals()
        assert residuals.isna().equals(y.isna())

    def test_quantiles_of_series_that_were_not_fitted(self, pretrained, name):
        others = waves(3, seed=4)
        seconds = Panel(others.times * 3600, others.values, others.offsets, time_unit="s")
        later = pd.to_datetime([50_000, 60_000], unit="s")
        answer = pretrained[name].forecast(seconds, later)
        quantiles = pretrained[name].forecast_quantiles(seconds, later, [0.1, 0.5, 0.9])
        np.testing.assert_array_equal(quantiles[0.5].values, answer.values)
        assert (quantiles[0.1].values < quantiles[0.5].values).all()
        assert (quantiles[0.5].values < quantiles[0.9].values).all()
        one = pretrained[name].forecast(seconds[1:2], later[:1])
        np.testing.assert_allclose(one.values[0], answer.values[2], rtol=1e-9)

    def test_file(self, pretrained, panel, name, tmp_path):
        y, fh = frame(panel[:2]), [HOUR, 5 * HOUR]
        forecaster = pretrained[name].clone().fit(y, fh=fh)
        forecaster.save(tmp_path / "model.safetensors")
        again = skpolyode.load(tmp_path / "model.safetensors").fit(y, fh=fh)
        assert repr(again.get_params()) == repr(forecaster.get_params())
        for method in ("predict", "predict_interval"):
            old, new = (getattr(own, method)() for own in (forecaster, again))
            pd.testing.assert_frame_equal(new, old, check_exact=True)


def test_between_observations_the_next_one_is_known(pretrained, panel):
    y = frame(panel[:1]).loc[0]
    row = 9
    middle = (y.index[row] + (y.index[row + 1] - y.index[row]) / 2).round("us")
    for name in ("ToyTransformer", "PolyODETransformer"):
        whole = pretrained[name].clone().fit(y).predict(pd.DatetimeIndex([middle]))
        before = pretrained[name].clone().fit(y.iloc[: row + 1]).predict(pd.DatetimeIndex([middle]))
        assert not np.allclose(whole, before, rtol=1e-3)


@pytest.mark.parametrize("name", UNFORGETTING)
def test_what_forgets_nothing_is_run_from_the_start(pretrained, name):
    """Forecasts are those of the transformer itself, on series longer than any of training."""
    t = np.arange(0.0, 60.0, 0.5)
    index = START + pd.to_timedelta(t, unit="h")
    y = pd.DataFrame({"u": np.sin(t), "v": 3 + 2 * np.cos(t)}, index=index)
    forecaster = pretrained[name].clone().fit(y)
    ahead = index[-1] + pd.TimedeltaIndex([HOUR, 3 * HOUR])
    panel = Panel.from_frames([y])
    own = forecaster.transformer_.forecast(panel, [ahead]).values
    np.testing.assert_allclose(forecaster.predict(ahead), own, rtol=1e-9)


def test_between_observations_the_answer_is_the_learned_path(pretrained, panel):
    y = frame(panel[:1]).loc[0]
    forecaster = pretrained["legs"].clone().fit(y)
    middle = (y.index[-2] + (y.index[-1] - y.index[-2]) / 2).round("us")
    answer = forecaster.predict(pd.DatetimeIndex([middle]))
    context = Panel.from_frames([y])
    expected = forecaster.transformer_.interpolate(context, [[middle]])
    np.testing.assert_allclose(answer, expected.values, rtol=1e-9)


@pytest.mark.parametrize("n_series", [3, 12])
def test_the_transformer_knows_all_that_the_forecaster_does(n_series):
    """Weights, intervals and structural models are learned when they are first asked for."""
    panel = waves(n_series, seed=2)
    forecaster = PolyODEForecaster(TRANSFORMERS["legs"], random_state=0).pretrain(panel)
    transformer, embedder = forecaster.transformer_, forecaster.transformer_.embedder_
    assert not embedder.stacking.is_learned
    assert not forecaster.calibration_.is_learned
    assert forecaster.calibration_ is embedder.calibration
    for method in ("forecast_interval", "interpolate_interval"):
        ends = [
            getattr(model, method)(panel, [0.5, 4.0], relative_to="end")
            for model in (forecaster, transformer)
        ]
        for own, other in zip(*ends, strict=True):
            np.testing.assert_array_equal(own.values, other.values)
    assert (forecaster.structural_ is None) == (n_series == 12)
    stream, ahead = transformer.stream(panel), ([0.5, 4.0], None, "end")
    if n_series == 12:
        deviations = transformer.interpolate_std(panel, ahead[0], relative_to="end").values
        np.testing.assert_allclose(stream.forecast_std(*ahead).values, deviations, rtol=1e-6)
        return
    for ask in (stream.forecast_std, stream.sample_paths):
        with pytest.raises(ValueError, match="ask the PolyODEForecaster itself"):
            ask(ahead[0], relative_to="end")


def test_channels_keep_their_names_in_the_transformer(panel):
    y, transformer = frame(panel), TRANSFORMERS["legs"]
    named, numbered = (
        PolyODEForecaster(transformer, random_state=0).fit(y.set_axis(columns, axis=1))
        for columns in (["u", "v"], [0, 1])
    )
    np.testing.assert_array_equal(named.predict([HOUR]), numbered.predict([HOUR]))
    assert named.transformer_.channel_names_ == named.channel_names_ == ("u", "v")
    assert named.has_channel_names_
    assert not numbered.has_channel_names_
    panels = [Panel.from_sktime(y[order]) for order in (["u", "v"], ["v", "u"])]
    for model in (named, named.transformer_):
        found = [model.forecast(own, [HOUR], relative_to="end").values for own in panels]
        np.testing.assert_array_equal(*found)


# Parameters


def test_parameters_of_the_transformer_are_reached():
    forecaster = PolyODEForecaster(PolyODETransformer(n_coefficients=3))
    assert forecaster.get_params()["transformer__n_coefficients"] == 3
    forecaster.set_params(transformer__n_coefficients=5)
    assert forecaster.transformer.n_coefficients == 5
    copy = forecaster.clone()
    assert copy.transformer is not forecaster.transformer
    assert copy.transformer.n_coefficients == 5


def test_the_transformer_by_default_is_that_of_everyone(panel, monkeypatch):
    seen = []
    monkeypatch.setattr(
        PolyODETransformer,
        "_fit",
        lambda self, *_, **__: seen.append(self.get_params()) or 1 / 0,
    )
    with pytest.raises(ZeroDivisionError):
        PolyODEForecaster(random_state=0).pretrain(panel)
    random_state, share = seen[0]["random_state"], PolyODEForecaster().calibration_fraction
    expected = PolyODETransformer(random_state=random_state, validation_fraction=share)
    assert seen[0] == expected.get_params()


def test_without_a_seed_that_of_the_transformer_counts():
    panel = waves(10, seed=0, fewest=5)
    transformer = PolyODETransformer(
        n_coefficients=2, hidden_layer_sizes=(4,), max_epochs=1, random_state=7
    )
    own = PolyODEForecaster(transformer).pretrain(panel)
    given = PolyODEForecaster(clone(transformer).set_params(random_state=None), random_state=7)
    np.testing.assert_array_equal(
        own.forecast(panel, [13.0]).values, given.pretrain(panel).forecast(panel, [13.0]).values
    )


@pytest.mark.parametrize("transformer", [HiPPOTransformer(), PolyODETransformer, "polyode"])
def test_what_cannot_forecast_is_refused(panel, transformer):
    with pytest.raises(TypeError, match="transformer must be one that learns to forecast"):
        PolyODEForecaster(transformer).pretrain(panel)
