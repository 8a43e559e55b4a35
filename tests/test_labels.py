"""Channels and series go by their labels: another order is matched by name, or refused."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    Panel,
    PanelImputer,
    PastDecoder,
    PolyODEClassifier,
    PolyODERegressor,
    Resampler,
)
from skpolyode.forecasting import evaluate_forecasts
from skpolyode.panel import query_times
from skpolyode.panel.selection import align_to_fit
from skpolyode.plotting import (
    CoefficientDisplay,
    ForecastDisplay,
    ReconstructionDisplay,
    ReliabilityDisplay,
)
from tests.transformers.data import oscillators, small

NAMES = ["a", "b"]
LABELS = np.arange(12) % 2


@pytest.fixture(scope="module")
def panel():
    """Two channels of very different values, not always observed together."""
    series = [(t, x + np.array([0.0, 10.0])) for t, x in oscillators(12)]
    return Panel.from_series(series, channel_names=NAMES)


@pytest.fixture(scope="module")
def swapped(panel):
    return panel.select_channels(NAMES[::-1])


@pytest.fixture(scope="module")
def fitted(panel):
    return InterpolationTransformer(n_coefficients=6).fit(panel)


@pytest.fixture(scope="module")
def forecasting(panel):
    return small().fit(panel)


def imputed(embedder, panel):
    return PanelImputer(embedder).fit(panel).transform(panel).select_channels(NAMES).values


def resampled(embedder, panel):
    return Resampler(embedder, n_points=5).fit(panel).transform(panel)


def decoded(embedder, panel):
    decoder = PastDecoder(embedder, max_epochs=2, random_state=0).fit(panel)
    return decoder.reconstruct(panel, [-1.0, 0.0], "end").select_channels(NAMES).values


def classified(embedder, panel):
    model = PolyODEClassifier(embedder, features="path", random_state=0).fit(panel, LABELS)
    return model.predict_proba(panel)


WRAPPERS = [imputed, resampled, decoded, classified]


@pytest.mark.parametrize("wrapped", WRAPPERS)
def test_a_frozen_embedder_gets_its_own_channels(wrapped, fitted, panel, swapped):
    frozen = FrozenEstimator(fitted)
    np.testing.assert_allclose(wrapped(frozen, swapped), wrapped(frozen, panel), rtol=1e-12)


@pytest.mark.parametrize("wrapped", WRAPPERS)
def test_a_frozen_embedder_refuses_what_it_was_not_fitted_on(wrapped, fitted, panel):
    frozen = FrozenEstimator(fitted)
    others = Panel(panel.times, panel.values, panel.offsets, channel_names=["a", "q"])
    with pytest.raises(ValueError, match=r"\['a', 'q'\].*InterpolationTransformer was fitted on"):
        wrapped(frozen, others)
    fewer = panel.select_channels(["a"])
    with pytest.raises(ValueError, match="InterpolationTransformer was fitted on"):
        wrapped(frozen, fewer)
    dated = Panel.from_series([(pd.to_datetime(t, unit="s"), x) for t, x in panel])
    with pytest.raises(ValueError, match="datetimes"):
        wrapped(frozen, dated)


def test_a_wrapper_of_unnamed_channels_knows_the_names_of_its_embedder(fitted, panel, swapped):
    bare = Panel(panel.times, panel.values, panel.offsets)
    resampler = Resampler(FrozenEstimator(fitted), n_points=5).fit(bare)
    np.testing.assert_array_equal(resampler.transform(swapped), resampler.transform(bare))


def test_forecasts_are_scored_against_their_own_channels(forecasting, panel, swapped):
    tables = [
        evaluate_forecasts(forecasting, own, metrics=["mse"]).set_index("channel")["value"]
        for own in (panel, swapped)
    ]
    pd.testing.assert_series_equal(*tables, check_like=True)


@pytest.mark.parametrize("display", [ForecastDisplay, ReconstructionDisplay])
def test_displays_draw_a_channel_beside_itself(display, forecasting, panel, swapped):
    truth = [0.5, 1.0], [[0.0, 1.0], [2.0, 3.0]]
    with mpl.rc_context({"backend": "agg"}):
        one = display.from_estimator(forecasting, panel, channel="a", truth=truth)
        mirrored = truth[0], np.asarray(truth[1])[:, ::-1]
        other = display.from_estimator(forecasting, swapped, channel="a", truth=mirrored)
    for lines in zip(one.axes_[0].lines, other.axes_[0].lines, strict=True):
        np.testing.assert_allclose(*(line.get_ydata() for line in lines))
    plt.close("all")


def test_coefficients_are_those_of_the_channel(panel, swapped):
    embedder = HiPPOTransformer(n_coefficients=4).fit(panel)
    with mpl.rc_context({"backend": "agg"}):
        shown = [
            CoefficientDisplay.from_estimator(embedder, own, channel="b").coefficients
            for own in (panel, swapped)
        ]
    np.testing.assert_allclose(*shown)
    plt.close("all")


class Bands:
    """Around 0 in channel a and around 10 in channel b, whatever came before."""

    channel_names_, has_channel_names_ = tuple(NAMES), True

    def forecast_quantiles(self, y, times, alpha, relative_to=None):
        flat, offsets = query_times(y, times)
        known, middle = align_to_fit(y, self), np.tile([0.0, 10.0], (len(flat), 1))
        return {a: known.like(flat, middle + 4 * (a - 0.5), offsets) for a in alpha}


def test_coverage_is_that_of_the_channel(panel, swapped):
    with mpl.rc_context({"backend": "agg"}):
        shown = [
            ReliabilityDisplay.from_estimator(Bands(), own, channel="b").coverage
            for own in (panel, swapped)
        ]
    np.testing.assert_allclose(*shown)
    assert np.max(shown[0]) > 0
    plt.close("all")


def targets(ids):
    return pd.Series(np.arange(len(ids)) % 2, index=ids)


def test_targets_whose_index_has_the_ids_in_another_order_are_refused(panel):
    ids = [f"p{k}" for k in range(panel.n_series)][::-1]
    named = Panel(panel.times, panel.values, panel.offsets, ids=ids)
    embedder = HiPPOTransformer(n_coefficients=4)
    model = PolyODEClassifier(embedder, features="coefficients", random_state=0)
    y = targets(sorted(ids))
    with pytest.raises(ValueError, match=r"index of y .*'p0' is at position 0, where X has 'p11'"):
        model.fit(named, y)
    expected = model.fit(named, y.loc[named.ids]).predict(named)
    np.testing.assert_array_equal(model.fit(named, y.loc[ids].to_numpy()).predict(named), expected)
    model.fit(named, y.reset_index(drop=True))  # an index that is not of ids means nothing


def test_cutoffs_go_by_position_too(forecasting, panel):
    ids = [f"p{k}" for k in range(panel.n_series)][::-1]
    named = Panel(panel.times, panel.values, panel.offsets, ids=ids)
    sorted_ids = targets(sorted(ids)) + 1.0
    with pytest.raises(ValueError, match="index of cutoff holds the ids"):
        evaluate_forecasts(forecasting, named, cutoff=sorted_ids)


@pytest.fixture(scope="module")
def shuffled(panel):
    """The ids are whole numbers, in no order; those of a new panel only count its series."""
    return panel[np.random.default_rng(0).permutation(panel.n_series)]


SORTED = targets(range(12))
ORDERS = {"shuffled": SORTED, "counted": SORTED.sample(frac=1, random_state=0)}
DOORS = {
    "fit": lambda model, panel, y: model.fit(panel, y),
    "folds": lambda model, panel, y: cross_val_score(model, panel, y, cv=2, error_score="raise"),
    "score": lambda model, panel, y: model.fit(panel, y.to_numpy()).score(panel, y),
    "weights of score": lambda model, panel, y: model.fit(panel, LABELS).score(panel, LABELS, y),
}


@pytest.mark.parametrize("door", list(DOORS))
@pytest.mark.parametrize(
    ("head", "order"),
    [
        (PolyODEClassifier, "shuffled"),
        (PolyODEClassifier, "counted"),
        (PolyODERegressor, "shuffled"),
    ],
)
def test_heads_refuse_targets_in_another_order_at_every_door(panel, shuffled, head, door, order):
    model = head(HiPPOTransformer(n_coefficients=4), features="coefficients", random_state=0)
    X = panel if order == "counted" else shuffled
    with pytest.raises(ValueError, match=r"ids of the series in another order: \d+ is at position"):
        DOORS[door](model, X, ORDERS[order])
    DOORS[door](model, X, ORDERS[order].loc[X.ids])


@pytest.mark.parametrize("make", [HiPPOTransformer, lambda: Resampler(HiPPOTransformer()), small])
def test_pipelines_refuse_targets_in_another_order(shuffled, make):
    flat = make_pipeline(make(), LogisticRegression())
    with pytest.raises(ValueError, match="index of y holds the ids"):
        flat.fit(shuffled, SORTED)
    with pytest.raises(ValueError, match="index of y holds the ids"):  # of some of the series
        flat.fit(shuffled[:6], SORTED[:6])


OTHER_TYPES = {
    "text of numbers": (np.arange(12)[::-1], str),
    "text of floats": (np.arange(12.0)[::-1], lambda k: f"{k:.1f}"),
    "numbers of text": (np.arange(12)[::-1].astype(str), int),
    "numbers of padded text": ([f"{k:03d}" for k in range(12)][::-1], int),
    "numbers beyond 2**53": (2**53 + np.arange(12)[::-1], str),
    "text of bytes": ([f"p{k}".encode() for k in range(12)][::-1], bytes.decode),
}
OTHER_DOORS = DOORS | {
    "weights": lambda model, panel, y: model.fit(panel, LABELS, sample_weight=y + 1.0),
    "groups": lambda model, panel, y: model.fit(panel, LABELS, groups=y),
    "pipeline": lambda _, panel, y: make_pipeline(
        HiPPOTransformer(n_coefficients=4), LogisticRegression()
    ).fit(panel, y),
    "mask": lambda _, panel, y: panel[y > 0],
    "times": lambda _, panel, y: query_times(panel, y),
}


@pytest.mark.parametrize("door", OTHER_DOORS)
def test_ids_of_another_type_are_ids(panel, door):
    """Joined by position, the labels of all series would be those of others."""
    model = PolyODEClassifier(HiPPOTransformer(n_coefficients=4), features="coefficients", cv=2)
    for name, (ids, other) in OTHER_TYPES.items():
        named = Panel(panel.times, panel.values, panel.offsets, ids=ids)
        order = np.random.default_rng(0).permutation(12)  # folds of it share some ids
        turned = pd.Series(LABELS, index=[other(ids[k]) for k in order])
        with pytest.raises(ValueError, match=r"index of \w+ holds the ids of the series"):
            OTHER_DOORS[door](model, named, turned)
        if name == "numbers of text" and door not in ("folds", "times"):
            OTHER_DOORS[door](model, named, turned.iloc[np.argsort(order)])


def test_the_remedy_for_ids_of_another_type_is_code_that_runs(panel):
    for ids, other in ([range(12)[::-1], str], [[f"{k}" for k in range(12)][::-1], int]):
        named = Panel(panel.times, panel.values, panel.offsets, ids=ids)
        y = pd.Series(LABELS, index=[other(k) for k in ids[::-1]])
        with pytest.raises(ValueError, match=r"Pass .*, or y\.to_numpy") as raised:
            HiPPOTransformer(n_coefficients=4).fit(named, y)
        remedy = str(raised.value).split("Pass ")[1].split(", or")[0]
        repaired = eval(remedy, {"y": y, "panel": named})
        assert repaired.tolist() == LABELS[::-1].tolist()


def test_an_index_beside_series_without_ids_means_nothing():
    """As scikit-learn has it: lists are split together with targets of any index."""
    X, _, y, _ = train_test_split(oscillators(12), SORTED, random_state=0)
    pipeline = make_pipeline(HiPPOTransformer(n_coefficients=4), LogisticRegression())
    np.testing.assert_array_equal(
        pipeline.fit(X, y).predict(X), pipeline.fit(X, y.to_numpy()).predict(X)
    )


def test_features_of_a_frame_have_its_index(panel):
    """A ColumnTransformer joins columns by their index."""
    named = Panel(panel.times, panel.values, panel.offsets, ids=[f"p{k}" for k in range(12)])
    table = pd.DataFrame({"series": np.asarray(named), "age": np.arange(12.0)})
    features = HiPPOTransformer(n_coefficients=4)
    columns = make_column_transformer((features, ["series"]), ("passthrough", ["age"]))
    columns = columns.set_output(transform="pandas").fit(table)
    expected = HiPPOTransformer(n_coefficients=4).fit(named).transform(named)
    for chosen in (np.arange(12), np.arange(12)[::-1], [3, 3, 1]):
        found = columns.transform(table.iloc[chosen])
        assert found.index.tolist() == list(chosen)
        np.testing.assert_array_equal(found.iloc[:, -1], table["age"].iloc[chosen])
        np.testing.assert_allclose(found.to_numpy()[:, :-1], expected[chosen])
    # Targets go with the rows of the frame, whatever the ids inside are.
    make_pipeline(columns, LogisticRegression()).fit(table.iloc[::-1], SORTED.iloc[::-1])
    with pytest.raises(ValueError, match="index of y holds the ids"):
        make_pipeline(columns, LogisticRegression()).fit(table.iloc[::-1], SORTED)


def test_static_rows_beside_series_without_ids_are_not_put_in_another_order(panel):
    static = pd.DataFrame({"age": np.arange(12.0)})
    pairs = panel.to_series()
    with pytest.raises(ValueError, match="numbers of the series in another order"):
        Panel.from_series(pairs, static=static.iloc[::-1])
    with pytest.raises(ValueError, match="numbers of the series in another order"):
        Panel.from_series(pairs, static=static.iloc[::-1].set_axis(list(map(str, range(12)[::-1]))))
    found = Panel.from_series(pairs, static=static.iloc[::-1].to_numpy()).static
    assert found[0].tolist() == list(range(12))[::-1]
    named = Panel.from_series(pairs, static=static, ids=np.arange(12)[::-1])
    assert named.static["age"].tolist() == list(range(12))[::-1]


def test_errors_in_another_order_are_refused():
    table = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    with pytest.raises(ValueError, match="errors have another index than values"):
        Panel.from_array(table, errors=table.iloc[::-1])
    with pytest.raises(ValueError, match="errors have another index than values"):
        Panel.from_array(table, errors=table.iloc[::-1].set_axis(["2", "1", "0"]))


def test_rows_of_a_stream_in_another_order_are_refused(forecasting, shuffled):
    stream = forecasting.stream(shuffled)
    rows = pd.DataFrame(
        np.tile(np.nanmean(shuffled.values, axis=0), (12, 1)), columns=NAMES
    )  # the series 0, 1, ...
    with pytest.raises(ValueError, match=r"index of values holds the ids"):
        stream.update(10.0, rows)
    with pytest.raises(ValueError, match=r"index of values holds the ids"):
        stream.update(10.0, rows.set_axis(rows.index.astype(str)))
    stream.update(10.0, rows.loc[shuffled.ids])


def test_a_mask_in_another_order_selects_nothing_by_position(shuffled):
    mask = pd.Series(np.arange(12) < 3, index=shuffled.ids)
    other = mask.sort_index()
    assert list(shuffled[mask].ids) == list(shuffled.ids[:3])
    with pytest.raises(ValueError, match=r"index of mask holds the ids .* mask\.loc\[panel\.ids\]"):
        shuffled[other]
    assert list(shuffled[other.to_numpy()].ids) == list(shuffled.ids[other.to_numpy()])


def test_times_by_ids_are_not_read_as_times_for_all(shuffled):
    times = pd.Series(np.arange(12.0), index=shuffled.ids)
    with pytest.raises(ValueError, match="index of times holds the ids of the series"):
        query_times(shuffled, times)
    one_each, offsets = query_times(shuffled, [[t] for t in times.loc[shuffled.ids]])
    assert one_each.tolist() == list(range(12)) == offsets[:-1].tolist()
    assert len(query_times(shuffled, times.to_numpy())[0]) == 144
    assert len(query_times(shuffled, pd.Series([1.0, 2.0], index=["p", "q"]))[0]) == 24
