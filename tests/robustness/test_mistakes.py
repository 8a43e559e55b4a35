"""Likely mistakes: what each message has to name, so that it says what to do."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from skpolyode import (
    GRUODEBayesTransformer,
    HiPPOTransformer,
    Panel,
    PastDecoder,
    PolyODEClassifier,
    PolyODETransformer,
    Resampler,
    SummaryStatsTransformer,
)
from skpolyode.errors import plain_repr
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel.query import read_cutoff
from skpolyode.parquet import sample_dataset

rng = np.random.default_rng(0)
SERIES = [(np.sort(rng.uniform(0, 6, 12)), rng.normal(size=12)) for _ in range(8)]
ONE_ROW_EACH = [([float(k)], [1.0]) for k in range(4)]
SMALL = {"n_coefficients": 4, "max_epochs": 2, "random_state": 0}


def small(**parameters):
    return PolyODETransformer(**(SMALL | parameters))


@pytest.fixture(scope="module")
def model():
    return small().fit(SERIES)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"window": pd.Timedelta("5h")}, "window must .*the times are plain numbers: give a num"),
        ({"context": np.timedelta64(5, "h")}, "context must .*plain numbers: give a number"),
        ({"step_size": "long"}, "step_size must be a positive length .*got 'long'"),
        ({"window": 1e300}, r"window=1e\+300 is .* times as long as the longest series, of length"),
        ({"context": 1e-300}, "context=1e-300 is .* times as long .*or 'auto'"),
        ({"n_coefficients": 5000}, "n_coefficients=5000 is too large: .* 256 here.* has 12 rows"),
        ({"device": torch.device("cpu")}, "'device' .*pass its name, device='cpu'"),
        ({"hidden_layer_sizes": 0}, "'hidden_layer_sizes' .*Got 0"),
        ({"horizon": 0}, r"'horizon' .* int in the range \[1, inf\) or a str among {'auto'}"),
        ({"horizon": "far"}, "'horizon' .* Got 'far'"),
        ({"max_epochs": "all"}, "'max_epochs' .* Got 'all'"),
        ({"observations": "noise"}, "'observations' .* among .*'noisy'.* Got 'noise'"),
    ],
)
def test_parameters_name_what_they_may_be(wrong, message):
    with pytest.raises(ValueError, match=message):
        small(**wrong).fit(SERIES)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2, 3], r"one entry for each of the 8 series, got an array of shape \(3,\)"),
        ("patient", "one entry for each of the 8 series, got 'patient'"),
        ([0, 1, None, 0, 1, None, 0, 1], r"series 2 has no label \(2 such series\): give it one"),
        ([7] * 8, "give two groups or more, or validation_fraction=None"),
    ],
)
def test_groups(groups, message):
    with pytest.raises(ValueError, match=message):
        small().fit(SERIES, groups=groups)


@pytest.mark.parametrize("row", [np.arange(5.0), [1.0, 2.0, 4.0]])
def test_one_row_of_numbers_is_a_series(row):
    with pytest.raises(ValueError, match=r"Reshape your data: \[X\] is one series"):
        small().fit(row)


def test_a_classifier_that_lacks_labels_names_itself():
    with pytest.raises(ValueError, match="PolyODEClassifier requires y to be passed"):
        PolyODEClassifier().fit(SERIES)


def test_times_of_forecasts(model):
    with pytest.raises(ValueError, match=r'before its last .*relative_to="end".*reconstruct'):
        model.forecast(SERIES, [1.0])
    for ask in (model.forecast, model.reconstruct, model.interpolate):
        with pytest.raises(ValueError, match='relative_to must be "start", "end" or None'):
            ask(SERIES, [1.0], relative_to="middle")
    for forecast in (
        lambda **how: model.forecast(SERIES, [9.0], **how),
        lambda **how: model.stream(SERIES).forecast([9.0], **how),
    ):
        with pytest.raises(TypeError, match=r"combine must be True or False, got 0\.5"):
            forecast(combine=0.5)


def test_noise_needs_forecasts():
    with pytest.raises(ValueError, match=r"no series has two rows .* take observations='exact'"):
        small(observations="noisy").fit(ONE_ROW_EACH)


def test_what_an_estimator_does_not_have_says_where_it_is():
    decoder = PastDecoder(FrozenEstimator(PolyODETransformer()))
    with pytest.raises(NotFittedError, match="PolyODETransformer instance is not fitted"):
        decoder.fit(SERIES)
    with pytest.raises(NotFittedError, match="PastDecoder instance is not fitted"):
        decoder.reconstruct(SERIES)
    with pytest.raises(AttributeError) as error:
        SummaryStatsTransformer().fit(SERIES).reconstruct(SERIES)
    assert "PastDecoder" in str(error.value.__cause__)
    with pytest.raises(ValueError, match=r"'n_points' .* int in the range"):
        Resampler(HiPPOTransformer(), n_points=0).fit(SERIES)


def test_forecasters():
    panel = Panel.from_series(SERIES)
    forecaster = PolyODEForecaster(small(), random_state=0)
    with pytest.raises(TypeError, match=r"y is a list, a type.* use pretrain\(y\)"):
        forecaster.fit(SERIES)
    with pytest.raises(ValueError, match=r"y: expected .* a list of \(times, values\)"):
        forecaster.pretrain(["a", "b"])
    forecaster.pretrain(SERIES)
    again = PolyODEForecaster(small(), random_state=0).pretrain(panel)
    assert again.forecast(panel, [9.0]).equals(forecaster.forecast(SERIES, [9.0]))
    with pytest.raises(TypeError, match=r"alpha must be a list, .* got 0\.5"):
        forecaster.forecast_quantiles(panel, [9.0], 0.5)
    with pytest.raises(TypeError, match=r"must have a method forecast\(panel, times\), but HiPPO"):
        evaluate_forecasts(HiPPOTransformer(), panel, cutoff=0.5)
    with pytest.raises(TypeError, match="cutoff must be a share or times, got 'half'"):
        evaluate_forecasts(forecaster, panel, cutoff="half")


@pytest.mark.parametrize("cutoff", [1.5, 1, [1.5, 1.5], pd.Timedelta("5h"), "soon"])
def test_a_cutoff_that_is_no_share_of_datetimes(cutoff):
    """It has no `relative_to`, which other times have."""
    panel = Panel.from_series([(pd.date_range("2024-01-01", periods=6), np.arange(6.0))] * 2)
    with pytest.raises((TypeError, ValueError), match=r"cutoff.*a share .* between 0 and 1") as why:
        read_cutoff(panel, cutoff)
    assert "relative_to" not in str(why.value)
    share = read_cutoff(panel, 0.5)
    np.testing.assert_array_equal(share, panel.start + 0.5 * (panel.end - panel.start))


def test_what_is_long_is_shown_by_its_beginning(model):
    """One line of a message is enough for the values, next to the remedy."""
    days = pd.date_range("2024-01-01", periods=90)
    for call in (
        lambda: model.crossing_times(SERIES, 0.0, days),
        lambda: model.forecast(SERIES, list(map(str, days)), "end"),
        lambda: model.forecast_interval(SERIES, [1.0], days, "end"),
        lambda: model.stream(SERIES).forecast([1.0], days, "end"),
        lambda: model.stream(SERIES, keep=days),
        lambda: HiPPOTransformer().fit(Panel.from_series(SERIES, ids=[[1]] * 90)),
    ):
        with pytest.raises((TypeError, ValueError), match=r" \.\.\.") as why:
            call()
        assert len(str(why.value)) < 300
        assert "\n" not in str(why.value)
    assert plain_repr("p" * 78) == repr("p" * 78)


def test_a_panel_of_datetimes_is_forecast_as_a_table():
    days = pd.date_range("2024-01-01", periods=12)
    panel = Panel.from_series([(days[k:], SERIES[k][1][k:]) for k in range(3)], ids=list("cab"))
    forecaster = PolyODEForecaster(small(), random_state=0)
    with pytest.raises(TypeError, match=r"fit\(y\.to_sktime\(\)\), or pretrain\(y\)"):
        forecaster.fit(panel)
    ahead = forecaster.fit(panel.to_sktime()).predict([pd.Timedelta("1D")])
    assert ahead.index.tolist() == [(id, pd.Timestamp("2024-01-13")) for id in "abc"]
    transformer, later, before = forecaster.transformer_, "2024-01-15 06:00", "2024-01-08 06:00"
    for ask, text in (
        (transformer.forecast, later),
        (transformer.interpolate, before),
        (transformer.reconstruct, before),
        (forecaster.forecast, later),
        (forecaster.interpolate, before),
        (lambda X, when: forecaster.forecast_interval(X, when)[0], later),
        (lambda X, when: forecaster.interpolate_interval(X, when)[0], before),
        (lambda X, when: forecaster.sample_paths(X, when, random_state=0).forecast, later),
        (lambda X, when: transformer.stream(X).forecast(when), later),
    ):
        assert ask(panel, text).equals(ask(panel, pd.Timestamp(text)))
        assert ask(panel, [text]).equals(ask(panel, [pd.Timestamp(text)]))
    crossings = [
        forecaster.crossing_times(panel, 1.0, until, channel=0)
        for until in (later, [later] * 3, pd.Timestamp(later))
    ]
    for table in crossings[1:]:
        pd.testing.assert_frame_equal(table, crossings[0])


def test_scores_leave_out_series_without_observations(model):
    kept = Panel.from_series([*SERIES[:2], ([0.0], [np.nan]), SERIES[2]], empty="keep")
    for cutoff in (0.5, 3.0, [3.0] * 4):
        own = [3.0] * 3 if isinstance(cutoff, list) else cutoff
        expected = evaluate_forecasts(model, SERIES[:3], cutoff=own)
        pd.testing.assert_frame_equal(evaluate_forecasts(model, kept, cutoff=cutoff), expected)


def test_no_such_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no '.*lost.parquet': pass a Parquet"):
        sample_dataset(tmp_path / "lost.parquet")


TOO_LARGE = 10**400


@pytest.mark.parametrize(
    "X",
    [
        [[1, TOO_LARGE], [1, 2]],
        [[[1], [TOO_LARGE]], [[1], [2]]],
        pd.DataFrame({"t0": [1, TOO_LARGE], "t1": [1, 2]}, dtype=object),
        [([0, 1], [1, TOO_LARGE])],
    ],
)
def test_integers_that_no_number_holds(X):
    with pytest.raises(ValueError, match=r"too large for a number|not a number") as caught:
        HiPPOTransformer().fit(X)
    assert len(str(caught.value)) < 400
    stream = HiPPOTransformer().fit(SERIES).stream()
    with pytest.raises(ValueError, match=r"update: .*channel 'x0', time 0: not a number"):
        stream.update([0.0], [TOO_LARGE])
    with pytest.raises(TypeError, match=r"times must be numbers.{,250}$"):
        stream.update([TOO_LARGE], [1.0])


def test_one_hidden_layer_may_be_a_number():
    one, other = (small(hidden_layer_sizes=sizes).fit(SERIES) for sizes in (8, (8,)))
    np.testing.assert_array_equal(one.transform(SERIES), other.transform(SERIES))


@pytest.mark.parametrize(
    ("cls", "name", "match"),
    [
        (
            PolyODETransformer,
            "n_coefs",
            "PolyODETransformer has no .* did you mean 'n_coefficients'",
        ),
        (GRUODEBayesTransformer, "hiden_size", "GRUODEBayesT.* mean 'hidden_size'"),
        (HiPPOTransformer, "n_coefs", "HiPPOTransformer has no .* did you mean 'n_coefficients'"),
        (
            PolyODEClassifier,
            "xyz",
            r"PolyODEClassifier has no parameter 'xyz'; .*\['transformer', 'fea",
        ),
    ],
)
def test_a_parameter_that_is_not_there(cls, name, match):
    with pytest.raises(TypeError, match=match):
        cls(**{name: 3})


def test_a_file_that_looks_like_a_pickle(model, tmp_path):
    with pytest.raises(ValueError, match=r"call it '.*e\.safetensors', or write \.pkl with joblib"):
        model.save(tmp_path / "e.pkl")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"joblib\.dump"):
        model.stream(2).save(str(tmp_path / "e.JOBLIB"))
