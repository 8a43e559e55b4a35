"""Answers along time: each from what was known then, by one head over all ages."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skpolyode import (
    HiPPOTransformer,
    Inputs,
    InterpolationTransformer,
    Panel,
    PolyODEClassifier,
    PolyODERegressor,
    PolyODETransformer,
)
from skpolyode.heads.base import _rows_until
from tests.closeness import assert_same_but_for_rounding

N = 24


def ramps(n_rows=7, seed=0):
    """Levels that part slowly: the label is the sign of the slope."""
    rng = np.random.default_rng(seed)
    y = np.tile(["down", "up"], N // 2)
    slopes = np.where(y == "up", 1.0, -1.0) * rng.uniform(0.5, 1.5, N)
    times = [np.sort(rng.uniform(0, 6, n_rows)) for _ in y]
    return (
        [(t, slope * t + rng.normal(0, 1, n_rows)) for t, slope in zip(times, slopes, strict=True)],
        y,
        slopes,
    )


SERIES, Y, SLOPES = ramps()
STATIC = pd.DataFrame({"age": np.arange(N) % 3})


@pytest.fixture(scope="module")
def model():
    panel = Panel.from_series(SERIES, static=STATIC)
    options = {"features": "coefficients", "n_cuts": 4, "random_state": 0}
    return PolyODEClassifier(HiPPOTransformer(n_coefficients=4), **options).fit(panel, Y)


def panel_of(series):
    return Panel.from_series(series, static=STATIC.iloc[: len(series)].reset_index(drop=True))


@pytest.fixture(autouse=True)
def quiet(recwarn):
    import warnings

    warnings.filterwarnings("ignore", ".*static covariates")


def test_later_rows_do_not_change_earlier_answers(model):
    changed = [(t, np.append(x[:4], -9.0 * x[4:])) for t, x in SERIES[:6]]
    ended = [(t[:4], x[:4]) for t, x in SERIES[:6]]
    path, other, cut = (model.predict_proba_path(panel_of(s)) for s in (SERIES[:6], changed, ended))
    rows = [p.values.reshape(6, -1, 2)[:, :4] for p in (path, other, cut)]
    assert_array_equal(rows[0], rows[1])
    assert_same_but_for_rounding(rows[0], rows[2])
    assert not np.allclose(path.values, other.values)


def test_answers_are_those_of_the_series_so_far_and_stay_between_observations(model):
    t, _ = SERIES[0]
    asked = [t[0] - 1, t[2], (t[2] + t[3]) / 2, t[3], t[-1] + 5]
    path = model.predict_proba_path(panel_of(SERIES[:1]), asked)
    own = model.predict_proba_path(panel_of(SERIES[:1])).values
    expected = np.vstack([model.class_prior_, own[[2, 2, 3, -1]]])
    assert_array_equal(path.values, expected)
    assert path.channel_names == ("down", "up")
    assert_allclose(path.values.sum(axis=1), 1.0, rtol=1e-12)
    relative = model.predict_proba_path(panel_of(SERIES[:1]), np.array(asked) - t[0], "start")
    assert_array_equal(relative.values, path.values)


def test_probabilities_become_clear_along_time(model):
    path = model.predict_proba_path(panel_of(SERIES)).values.reshape(N, -1, 2)
    true = np.where(Y == "up", path[..., 1].T, path[..., 0].T)
    assert true[-1].mean() > true[0].mean() + 0.1
    assert (true[-1] > 0.5).mean() > 0.9


def test_answers_do_not_depend_on_batch_mates_or_the_origin_of_times(model):
    path = model.predict_proba_path(panel_of(SERIES[:5])).values.reshape(5, -1, 2)
    alone = Panel.from_series(SERIES[3:4], static=STATIC.iloc[3:4].reset_index(drop=True))
    assert_same_but_for_rounding(model.predict_proba_path(alone).values, path[3])
    moved = panel_of([(t + 64.0, x) for t, x in SERIES[:5]])
    assert_allclose(model.predict_proba_path(moved).values.reshape(path.shape), path, atol=1e-9)


def test_streams_give_the_same_numbers_after_each_update(model):
    panel = panel_of(SERIES[:3])
    path = model.predict_proba_path(panel).values.reshape(3, -1, 2)
    stream = model.transformer_.stream(3, static=panel.static)
    for k in range(7):
        stream.update([t[k] for t, _ in SERIES[:3]], [x[k] for _, x in SERIES[:3]])
        now = model.predict_proba_path(stream)
        assert_same_but_for_rounding(now.values, path[:, k])
        assert_array_equal(now.times, [t[k] for t, _ in SERIES[:3]])
    with pytest.raises(ValueError, match="leave times out"):
        model.predict_proba_path(stream, [3.0])


def test_series_are_decided_when_a_class_is_first_probable_enough(model):
    path, table = model.predict_proba_path(panel_of(SERIES)), None
    table = model.decided_at(panel_of(SERIES), confidence=0.8)
    assert table.columns.tolist() == ["series", "class", "time"]
    for k, (t, _) in enumerate(SERIES):
        p = path.values[path.offsets[k] : path.offsets[k + 1]]
        reached = np.flatnonzero(p.max(axis=1) >= 0.8)
        if len(reached):
            assert table["time"][k] == t[reached[0]]
            assert table["class"][k] == model.classes_[p[reached[0]].argmax()]
        else:
            assert table["class"][k] is None
            assert np.isnan(table["time"][k])
    only = model.decided_at(panel_of(SERIES), {"up": 0.6})
    assert set(only["class"]) == {"up", None}


@pytest.mark.parametrize(
    ("confidence", "match"),
    [
        ({"left": 0.5}, "'left', which was not in fit.*'down', 'up'"),
        (1.5, "1.5"),
        ("high", "'high'"),
    ],
)
def test_wrong_confidences_are_named(model, confidence, match):
    with pytest.raises(ValueError, match=match):
        model.decided_at(panel_of(SERIES), confidence)


def test_without_cuts_there_is_no_path():
    with pytest.raises(AttributeError) as raised:
        PolyODEClassifier().predict_proba_path  # noqa: B018
    assert "n_cuts=8" in str(raised.value.__cause__)
    assert not hasattr(PolyODERegressor(), "predict_path")


def test_each_series_counts_once():
    seen = []

    class Watched(LogisticRegression):
        def fit(self, X, y, sample_weight=None):
            seen.append((len(X), sample_weight))
            return super().fit(X, y, sample_weight)

    weights = np.linspace(1, 2, N)
    options = {"features": "coefficients", "head": Watched(), "n_cuts": 4, "random_state": 0}
    model = PolyODEClassifier(HiPPOTransformer(n_coefficients=2), **options)
    model.fit(SERIES, Y, sample_weight=weights)
    n_rows, own = next((n, w) for n, w in seen if n == 4 * N)
    assert n_rows == 4 * N
    assert_allclose(own.reshape(N, 4), np.tile(weights[:, None] / weights.max(), 4))


def test_heads_without_weights_learn_from_equally_many_cuts():
    options = {"features": "coefficients", "head": KNeighborsClassifier(3), "n_cuts": 3}
    model = PolyODEClassifier(HiPPOTransformer(n_coefficients=2), **options, random_state=0)
    assert model.fit(SERIES, Y).predict_proba_path(SERIES[:1]).lengths.tolist() == [7]


def test_predictions_are_followed():
    options = {"features": "coefficients", "n_cuts": 4, "random_state": 0}
    model = PolyODERegressor(HiPPOTransformer(n_coefficients=3), **options)
    one = model.fit(SERIES, SLOPES)
    path = one.predict_path(SERIES)
    assert path.channel_names == ("y",)
    error = np.abs(path.values.reshape(N, -1) - SLOPES[:, None]).mean(axis=0)
    assert error[-1] < error[0]
    before = one.predict_path(SERIES[:1], [-1.0])
    assert before.values.item() == one.target_mean_


def test_datetimes_trees_and_pickles():
    index = [pd.Timestamp("2026-01-01") + pd.to_timedelta(t, "h") for t, _ in SERIES]
    frames = [pd.Series(x, i) for i, (_, x) in zip(index, SERIES, strict=True)]
    head = ExtraTreesClassifier(20, random_state=0)
    options = {"features": "summary", "head": head, "n_cuts": 3, "random_state": 0}
    model = PolyODEClassifier(InterpolationTransformer(), **options)
    first = pickle.loads(pickle.dumps(model.fit(frames, Y))).predict_proba_path(frames[:3])
    assert first.channel_names == ("down", "up")
    assert first.user_times()[0] == index[0][0]
    table = model.decided_at(frames[:3], 0.55)
    assert table["time"].dtype.kind == "M"
    plain = model.fit(SERIES, Y).predict_proba_path(SERIES[:3])
    assert_allclose(plain.values, first.values, atol=1e-6)


def test_series_without_observations_get_the_shares_of_classes(model):
    series = [SERIES[0], (np.array([1.0]), np.array([np.nan]))]
    panel = Panel.from_series(series, static=STATIC.iloc[:2], empty="keep")
    path = model.predict_proba_path(panel, [2.0, 5.0])
    assert_array_equal(path.values[2:], np.tile(model.class_prior_, (2, 1)))
    assert model.predict_proba_path(panel).lengths.tolist() == [7, 0]
    assert model.decided_at(panel)["class"].tolist()[1] is None


def test_rows_until_a_time_are_counted():
    panel = Panel.from_series([([0.0, 1.0], [1.0, 1.0]), ([0.0, 2.0, 3.0], np.ones(3))])
    found = _rows_until(panel, np.array([-1.0, 1.0, 5.0, 2.5]), np.array([0, 2, 4]))
    assert_array_equal(found, [0, 2, 5, 4])


KINDS = {"dose": "impulse", "ward": "hold", "rate": "linear"}
LABELS = np.arange(12) % 2


def driven(is_large, is_datetime, late=9.5, until=np.inf):
    """Noise up to 10, and inputs of all kinds, whose rows from `late` on depend on the label."""
    rng = np.random.default_rng(1)
    times = [np.sort(np.append(rng.uniform(0, 10, 5), [0.0, 4.0, 10.0])) for _ in is_large]
    series = [(t, rng.normal(size=8)) for t in times]
    given = np.array([4.0, 4.5, late, 12.0])
    inputs = [(given, np.outer([1.0, 2.0, x, x], np.ones(3))) for x in np.where(is_large, 5.0, 1.0)]
    parts = [[(t[t <= until], x[t <= until]) for t, x in part] for part in (series, inputs)]
    if is_datetime:
        start = pd.Timestamp("2026-03-28 22:00", tz="Europe/Berlin")
        parts = [[(start + pd.to_timedelta(t, "h"), x) for t, x in part] for part in parts]
    unit = {"time_unit": "h" if is_datetime else None}
    rows = Panel.from_series(parts[1], channel_names=list(KINDS), empty="keep", **unit)
    return Panel.from_series(parts[0], inputs=Inputs(rows, KINDS), **unit)


@pytest.fixture(scope="module", params=[False, True], ids=["numbers", "datetimes"])
def is_datetime(request):
    return request.param


@pytest.fixture(scope="module")
def driven_transformer(is_datetime):
    settings = {"n_coefficients": 3, "hidden_size": 4, "max_epochs": 4, "learning_rate_init": 0.03}
    model = PolyODETransformer(**settings, random_state=0)
    return FrozenEstimator(model.fit(driven(LABELS, is_datetime)))


@pytest.fixture(scope="module", params=["coefficients", "path", "clock"])
def risk(request, driven_transformer, is_datetime):
    head = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    options = {"features": request.param, "n_cuts": 3, "head": head}
    model = PolyODEClassifier(driven_transformer, **options, random_state=0)
    return model.fit(driven(LABELS, is_datetime), LABELS)


def leads(hours, is_datetime):
    return pd.to_timedelta(hours, "h") if is_datetime else hours


def test_later_inputs_do_not_change_earlier_answers(risk, is_datetime):
    asked = leads([4.0, 5.0, 9.4], is_datetime), "start"
    panel, other = (driven(y, is_datetime) for y in (LABELS, 1 - LABELS))
    path = risk.predict_proba_path(panel, *asked).values
    assert_array_equal(path, risk.predict_proba_path(other, *asked).values)
    assert_same_but_for_rounding(path[3:6], risk.predict_proba_path(other[1:2], *asked).values)
    ends = [risk.predict_proba_path(each).values[7::8] for each in (panel, other)]
    if risk.features_ != "coefficients":  # the last observation replaces what inputs did
        assert not np.allclose(*ends)


@pytest.mark.parametrize("hours", [4.0, 5.0, 9.6])
def test_answers_are_those_of_the_observations_and_inputs_so_far(risk, is_datetime, hours):
    asked = leads([hours], is_datetime), "start"
    path = risk.predict_proba_path(driven(LABELS, is_datetime), *asked)
    last = driven(LABELS, is_datetime, until=hours).since_start().end
    for k in range(3):
        cut = driven(LABELS, is_datetime, until=last[k] + 1e-6)[k : k + 1]
        assert_same_but_for_rounding(path.values[k], risk.predict_proba_path(cut).values[-1])


def test_heads_along_time_do_not_learn_from_later_inputs(risk, is_datetime):
    if risk.features_ == "path":
        pytest.skip("MiniRocket takes thresholds from whole series, without their labels")
    one, two = (
        clone(risk).fit(driven(y, is_datetime, late=10.5), LABELS) for y in (LABELS, 1 - LABELS)
    )
    panel = driven(LABELS, is_datetime)
    paths = [each.predict_proba_path(panel).values for each in (one, two)]
    assert_array_equal(*paths)
    assert one.decided_at(panel, 0.6).equals(two.decided_at(panel, 0.6))


def test_predictions_along_time_do_not_read_later_inputs(risk, is_datetime):
    options = {"features": "clock", "n_cuts": 3, "random_state": 0}
    model = PolyODERegressor(risk.transformer, **options)
    model.fit(driven(LABELS, is_datetime), LABELS + 1.0)
    asked = leads([5.0], is_datetime), "start"
    paths = [model.predict_path(driven(y, is_datetime), *asked) for y in (LABELS, 1 - LABELS)]
    assert_array_equal(*(path.values for path in paths))


def test_streams_under_linear_inputs_are_refused(risk, is_datetime):
    if risk.features_ == "coefficients":
        stream = risk.transformer_.stream(driven(LABELS, is_datetime))
        with pytest.raises(ValueError, match="kind 'linear'"):
            risk.predict_proba_path(stream)
