"""What goes in and what comes out: every format, names, output containers, scikit-learn's tools."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from skpolyode import Panel, PolyODETransformer
from tests.closeness import assert_same_but_for_rounding
from tests.transformers.data import short_oscillators
from tests.transformers.data import small as usual

small = partial(usual, max_epochs=1)  # nothing here depends on how well is learned
SERIES = short_oscillators()


@pytest.fixture(scope="module")
def fitted():
    return small().fit(SERIES)


def frames(tz=None):
    return [
        pd.DataFrame(
            values,
            index=pd.Timestamp("2024-03-01", tz=tz) + pd.to_timedelta(times, "h"),
            columns=["a", "b"],
        )
        for times, values in SERIES
    ]


@pytest.mark.usefixtures("no_stacking")
def test_panel_and_list_are_the_same(fitted):
    panel = Panel.from_series(SERIES, ids=list("abcdefghijkl"))
    np.testing.assert_array_equal(small().fit(panel).transform(panel), fitted.transform(SERIES))


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("tz", [None, "Europe/Oslo"])
def test_frames_of_datetimes(fitted, tz):
    """In hours instead of numbers: the same up to the rounding of times to microseconds."""
    panel = Panel.from_frames(frames(tz), time_unit="h")
    transformer = small().fit(panel)
    assert transformer.channel_names_ == ("a", "b")
    np.testing.assert_allclose(transformer.transform(panel), fitted.transform(SERIES), atol=1e-4)
    assert transformer.window_ == pytest.approx(fitted.window_, rel=1e-6)
    # without a Panel the unit is the second
    assert small().fit(frames(tz)).window_ == pytest.approx(3600 * fitted.window_, rel=1e-6)


@pytest.mark.usefixtures("no_stacking")
def test_arrays_are_series_on_the_integers():
    rng = np.random.default_rng(0)
    cube = rng.normal(size=(5, 7, 2))
    cube[1, 3] = np.nan
    pairs = [(np.arange(7.0), values) for values in cube]
    pairs[1] = (np.delete(pairs[1][0], 3), np.delete(cube[1], 3, axis=0))
    np.testing.assert_array_equal(small().fit_transform(cube), small().fit_transform(pairs))
    nested = small().fit(cube.tolist())  # lists of lists of rows
    np.testing.assert_array_equal(nested.transform(cube.tolist()), small().fit_transform(cube))
    with pytest.raises(ValueError, match=r"X: expected a 2-D array .* or a 3-D array"):
        small().fit(cube[None])
    with pytest.raises(ValueError, match="X has 0 sample"):
        nested.transform(cube[:0])
    flat = [(times, values[:, :1]) for times, values in pairs]
    np.testing.assert_array_equal(small().fit_transform(cube[..., 0]), small().fit_transform(flat))


@pytest.mark.usefixtures("no_stacking")
def test_number_of_features_seen():
    rng = np.random.default_rng(0)
    assert small().fit(rng.normal(size=(5, 7, 2))).n_features_in_ == 2
    assert small().fit(rng.normal(size=(5, 7))).n_features_in_ == 7
    assert small().fit(SERIES).n_features_in_ == 2
    frame = pd.DataFrame(rng.normal(size=(5, 3)), columns=["t0", "t1", "t2"])
    transformer = small().fit(frame)
    assert transformer.feature_names_in_.tolist() == ["t0", "t1", "t2"]
    assert not hasattr(transformer.fit(SERIES), "feature_names_in_")


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize(
    ("embedding", "n_features"), [("coefficients", 12), ("hidden", 14), ("full", 26)]
)
def test_embeddings(fitted, embedding, n_features):
    transformer = small(embedding=embedding).fit(SERIES)
    Z, full = transformer.transform(SERIES), fitted.transform(SERIES)
    names = transformer.get_feature_names_out()
    assert Z.shape == (12, n_features)
    assert len(set(names)) == n_features
    part = {"coefficients": slice(12), "hidden": slice(12, None), "full": slice(None)}
    assert_same_but_for_rounding(Z, full[:, part[embedding]])
    assert names.tolist() == fitted.get_feature_names_out()[part[embedding]].tolist()


@pytest.mark.usefixtures("no_stacking")
def test_the_learned_state_is_an_embedding(fitted):
    transformer = small(embedding="state").fit(SERIES)
    n_learned = transformer.hidden_size
    names = [f"w{n}" for n in range(n_learned)]
    assert transformer.get_feature_names_out().tolist() == names
    Z = transformer.transform(SERIES)
    z = fitted.embedder_.states(Panel.from_series(SERIES))["z"]
    assert_same_but_for_rounding(Z, z[:, -n_learned:].numpy())
    stream = transformer.stream(len(SERIES))
    for i, (times, values) in enumerate(SERIES):
        stream.update(times, values, [i] * len(times))
    np.testing.assert_allclose(stream.embedding(), Z, atol=1e-10)
    past = transformer.reconstruct(SERIES).values
    np.testing.assert_allclose(past, fitted.reconstruct(SERIES).values, rtol=1e-6, atol=1e-9)
    with pytest.raises(ValueError, match="embedding='state' holds no coefficients"):
        transformer.inverse_transform(Z)


@pytest.mark.usefixtures("no_stacking")
def test_coefficients_and_state_are_an_embedding_that_is_turned_back():
    both, one, other = (
        small(embedding=name).fit(SERIES)
        for name in ("coefficients_state", "coefficients", "state")
    )
    Z, coefficients = both.transform(SERIES), one.transform(SERIES)
    assert_same_but_for_rounding(Z, np.hstack([coefficients, other.transform(SERIES)]))
    names = [*one.get_feature_names_out(), *other.get_feature_names_out()]
    assert both.get_feature_names_out().tolist() == names
    back = both.inverse_transform(Z, [-1.0, 0.0]).values
    np.testing.assert_allclose(
        back, one.inverse_transform(coefficients, [-1.0, 0.0]).values, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("measure", ["legt", "legs"])
def test_a_model_without_a_learned_state_does_not_embed_by_it(measure):
    with pytest.raises(ValueError, match=r"embedding='state' has the learned state.*hidden_size=0"):
        small(embedding="state", hidden_size=0, measure=measure).fit(SERIES)


@pytest.mark.usefixtures("no_stacking")
def test_feature_names_say_channel_and_part():
    names = small(n_coefficients=2).fit(frames()).get_feature_names_out().tolist()
    coefficients = ["a_c0", "a_c1", "b_c0", "b_c1"]
    assert names == [*coefficients, "a_signal", "a_h0", "a_h1", "b_signal", "b_h0", "b_h1"]


def test_the_hidden_signal_is_the_last_value(fitted):
    Z = pd.DataFrame(fitted.transform(SERIES), columns=fitted.get_feature_names_out())
    last = np.array([values[-1, 0] for _, values in SERIES])
    standardised = (last - fitted.scaler_.mean[0]) / fitted.scaler_.scale[0]
    share = np.sqrt(fitted.context_ / fitted.window_)
    np.testing.assert_allclose(Z["x0_signal"], share * standardised, rtol=1e-12)


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize(("kind", "form"), [("pandas", list), ("polars", Panel.from_series)])
def test_set_output(fitted, kind, form):
    X = form(SERIES)
    table = small().set_output(transform=kind).fit(X).transform(X)
    assert type(table).__module__.split(".")[0] == kind
    assert list(table.columns) == fitted.get_feature_names_out().tolist()
    np.testing.assert_array_equal(table.to_numpy(), fitted.transform(SERIES))


@pytest.mark.usefixtures("no_stacking")
@pytest.mark.parametrize("form", [list, Panel.from_series])
def test_grid_search_in_a_pipeline(form):
    X, y = form(SERIES), np.arange(12) % 2
    classifier = LogisticRegression()
    pipeline = Pipeline([("emb", small(max_epochs=1)), ("net", classifier)])
    search = GridSearchCV(pipeline, {"emb__n_coefficients": [2, 4]}, cv=2)
    search.fit(X, y)
    assert search.cv_results_["mean_test_score"].shape == (2,)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.predict(X).shape == (12,)


@pytest.mark.usefixtures("no_stacking")
def test_a_fixed_seed_repeats_bit_by_bit(fitted):
    again = small().fit(SERIES)
    np.testing.assert_array_equal(again.transform(SERIES), fitted.transform(SERIES))
    state = small(random_state=np.random.RandomState(0)).fit(SERIES)
    np.testing.assert_array_equal(state.transform(SERIES), fitted.transform(SERIES))
    other = small(random_state=1).fit(SERIES)
    assert abs(other.transform(SERIES) - fitted.transform(SERIES)).max() > 1e-3


@pytest.mark.usefixtures("no_stacking")
def test_wrong_channels_and_units(fitted):
    named = small().fit(frames())
    other = [frame.rename(columns={"a": "z"}) for frame in frames()]
    with pytest.raises(ValueError, match=r"channels \['z', 'b'\].*fitted on \['a', 'b'\]"):
        named.transform(other)
    with pytest.raises(ValueError, match=r"in plain numbers.*datetimes counted in 's'"):
        named.transform(SERIES)
    with pytest.raises(ValueError, match=r"datetimes counted in 'h'.*in plain numbers"):
        fitted.transform(Panel.from_frames(frames(), time_unit="h"))
    with pytest.raises(
        ValueError, match=r"counted in 'h'.*counted in 's': build X with time_unit='s'"
    ):
        named.transform(Panel.from_frames(frames(), time_unit="h"))


def test_channels_are_taken_by_their_names(fitted_by_name):
    embedder, frames = fitted_by_name
    swapped = [frame[["x0", "x1"]] for frame in frames]
    np.testing.assert_array_equal(embedder.transform(swapped), embedder.transform(frames))
    arrays = [(f.index.to_numpy(), f.to_numpy()) for f in frames]  # without names: by position
    np.testing.assert_array_equal(embedder.transform(arrays), embedder.transform(frames))
    with pytest.raises(ValueError, match=r"has the channels \['x0', 'y'\], but .* fitted on"):
        embedder.transform([frame.rename(columns={"x1": "y"}) for frame in swapped])
    ahead = [embedder.forecast(X, [9.0]) for X in (frames, swapped)]
    assert ahead[0].channel_names == ahead[1].channel_names == ("x1", "x0")
    np.testing.assert_array_equal(ahead[0].values, ahead[1].values)


@pytest.fixture
def fitted_by_name():
    series = short_oscillators(5)
    frames = [pd.DataFrame(x, index=t, columns=["x1", "x0"]) for t, x in series]
    return small().fit(frames), frames


@pytest.mark.usefixtures("no_stacking")
def test_masked_values_are_not_observed():
    embedder = small().fit(np.random.default_rng(0).normal(size=(6, 9)))
    values = np.ma.masked_greater(np.array([[0.1, 0.2, 999.0, 0.3, 0.1, 0.2, 0.5, 0.6, 0.1]]), 9)
    gaps = values.filled(np.nan)
    np.testing.assert_array_equal(embedder.transform(values), embedder.transform(gaps))
    times = np.arange(9.0)
    answers = [embedder.stream().update(times, own).embedding() for own in (values[0], gaps[0])]
    np.testing.assert_array_equal(*answers)


HOURS = [(np.arange(12.0), np.sin(np.arange(12.0) + k)) for k in range(4)]


@pytest.fixture(scope="module")
def of_hours():
    return PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0).fit(HOURS)


@pytest.mark.parametrize("factor", [60.0, 1 / 24])
@pytest.mark.parametrize("answer", ["transform", "interpolate", "score_samples"])
def test_times_in_another_unit_are_noticed(of_hours, factor, answer):
    said = f"gap between rows of X is {factor:.3g}, that of `fit` was 1: .* unit of `fit`"
    with pytest.warns(UserWarning, match=said):
        getattr(of_hours, answer)([(factor * times, values) for times, values in HOURS])


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_sparser_and_denser_rows_are_no_other_unit(of_hours, factor):
    of_hours.transform([(factor * times, values) for times, values in HOURS])


def test_a_few_rows_show_no_unit(of_hours):
    of_hours.transform([(60.0 * times[:3], values[:3]) for times, values in HOURS])


def test_datetimes_have_their_unit():
    def dated(unit):
        return [(pd.Timestamp("2026-03-01") + pd.to_timedelta(t, unit), x) for t, x in HOURS]

    model = PolyODETransformer(n_coefficients=3, max_epochs=1, random_state=0).fit(dated("h"))
    model.transform(dated("min"))
