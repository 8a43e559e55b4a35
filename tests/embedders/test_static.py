"""Static covariates as numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skpolyode import Panel
from skpolyode.embedders.encoders import StaticEncoder


def panel(static: pd.DataFrame) -> Panel:
    ids = list("abcd")[: len(static)]
    series = [([0.0, 1.0], [1.0, 2.0])] * len(static)
    return Panel.from_series(series, ids=ids, static=static.set_axis(ids))


FRAME = pd.DataFrame({"age": [20.0, 40.0, np.nan, 60.0], "sex": ["f", "m", None, "f"]})


def test_numbers_are_standardised_and_the_rest_become_indicators():
    encoder = StaticEncoder.of(FRAME)
    s = np.sqrt(1.5)
    expected = [[-s, 1, 0], [0, 0, 1], [0, 0, 0], [s, 1, 0]]
    np.testing.assert_allclose(encoder.transform(panel(FRAME)), expected)
    assert encoder.n_features == 3


def test_what_fit_did_not_see_has_no_indicator():
    encoder = StaticEncoder.of(FRAME)
    other = pd.DataFrame({"sex": ["x", "m"], "age": [np.nan, 40.0], "more": [1, 2]})
    np.testing.assert_allclose(encoder.transform(panel(other)), [[0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("dtype", ["string", "object", "category"])
@pytest.mark.parametrize("missing", [pd.NA, None, np.nan])
def test_missing_categories_of_every_kind(dtype, missing):
    plain, frame = FRAME[["sex"]], pd.DataFrame({"sex": ["f", "m", missing, "f"]}, dtype=dtype)
    expected = StaticEncoder.of(plain).transform(panel(plain))
    np.testing.assert_array_equal(StaticEncoder.of(frame).transform(panel(frame)), expected)
    np.testing.assert_array_equal(StaticEncoder.of(plain).transform(panel(frame)), expected)


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "object"])
def test_missing_numbers_of_every_kind(dtype):
    frame = pd.DataFrame({"age": pd.array([20, 40, pd.NA, 60], dtype=dtype)})
    encoded = StaticEncoder.of(frame).transform(panel(frame))
    assert np.isfinite(encoded).all()
    assert (encoded[2] == 0).all()


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, 1.7e308])
def test_infinite_numbers_are_named(wrong):
    frame = FRAME.assign(age=[20.0, 40.0, wrong, 60.0]).set_index(pd.Index(list("abcd")))
    message = rf"series 2 \(id 'c'\), static covariate 'age': {wrong:g}.*replace them by NaN"
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        StaticEncoder.of(frame)
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        StaticEncoder.of(FRAME).transform(panel(frame))


def test_columns_that_are_missing_are_named():
    with pytest.raises(ValueError, match=r"lacks the static covariates \['age'\]"):
        StaticEncoder.of(FRAME).transform(panel(FRAME[["sex"]]))


DAYS = pd.to_datetime(["2024-01-01", "2024-01-02", None, "2024-01-03"])
AS_NUMBERS = [1.0, 2.0, np.nan, 3.0]


@pytest.mark.parametrize(
    "dates",
    [
        DAYS,
        DAYS.tz_localize("UTC"),
        DAYS - pd.Timestamp("1990-01-01"),
        pd.Series([None if day is pd.NaT else day.date() for day in DAYS], dtype=object),
        pd.Series([np.nan if day is pd.NaT else day.to_pydatetime() for day in DAYS], dtype=object),
        DAYS.to_period("D"),
    ],
    ids=lambda dates: str(dates.dtype),
)
def test_datetimes_and_timedeltas_are_numbers(dates):
    frame = pd.DataFrame({"born": dates})
    encoder = StaticEncoder.of(frame)
    assert encoder.names == ["born"]
    plain = pd.DataFrame({"born": AS_NUMBERS})
    expected = StaticEncoder.of(plain).transform(panel(plain))
    np.testing.assert_allclose(encoder.transform(panel(frame)), expected, atol=1e-9)
    assert (encoder.transform(panel(frame.iloc[[2]])) == 0).all()
    message = r"static covariate 'born': got 1.0 \(float\), where fit had (datetime|timedelta)s"
    with pytest.raises(ValueError, match=message):
        encoder.transform(panel(plain))


def test_covariates_of_another_kind_than_in_fit_are_named():
    encoder = StaticEncoder.of(FRAME)
    for column, got in (
        (["20", "unknown", "40"], r"'20' \(str\), where .*Remedies:.*pandas\.to_numeric"),
        ([20, "unknown", None], r"'unknown' \(str\), where fit had numbers"),
        (DAYS[[0, 2, 1]], r"Timestamp.* \(Timestamp\), where fit had numbers"),
    ):
        frame = FRAME[:3].assign(age=column)
        with pytest.raises(ValueError, match=r"(?s)static covariate 'age': got " + got):
            encoder.transform(panel(frame))
    frame = FRAME.assign(age=pd.Series([20, 40.0, None, 60], dtype=object))
    np.testing.assert_array_equal(encoder.transform(panel(frame)), encoder.transform(panel(FRAME)))


@pytest.mark.parametrize(
    ("known", "given"),
    [("12", [1, 2]), ([True, False], "10"), ("ab", [0.5, np.nan]), ([1, 2], "12"), ("ab", [True])],
)
def test_categories_of_another_type_than_in_fit_are_refused(known, given):
    """None of them would be known, and a model would go on without the covariate."""
    encoder = StaticEncoder.of(pd.DataFrame({"code": pd.Categorical(list(known))}))
    frame = pd.DataFrame({"code": pd.Series(list(given), dtype=object)})
    got = rf"static covariate 'code': got .*{given[0]}.*, where fit had .*Remed.*astype"
    for other in (frame, frame.astype("category")):
        with pytest.raises(ValueError, match="(?s)" + got):
            encoder.transform(panel(other))


@pytest.mark.parametrize(
    ("known", "given"),
    [([1, 2], [2.0, np.nan]), ([1, 2], np.array([2, 1], "i2")), ("ab", np.array(["b", "x"]))],
)
def test_equal_categories_are_one_whatever_holds_them(known, given):
    encoder = StaticEncoder.of(pd.DataFrame({"code": pd.Categorical(list(known))}))
    for dtype in (None, object, "category"):
        found = encoder.transform(panel(pd.DataFrame({"code": pd.Series(given, dtype=dtype)})))
        np.testing.assert_array_equal(found[0], [0, 1])


def test_names_that_would_be_the_same_are_told_apart():
    frame = pd.DataFrame({"sex_f": [1.0, 2.0], "sex": ["f", "m"], "sex_f_": ["", "x"]})
    encoder = StaticEncoder.of(frame)
    assert encoder.names == ["sex_f", "sex_f_", "sex_m", "sex_f__", "sex_f__x"]
    assert encoder.n_features == encoder.transform(panel(frame)).shape[1]


def test_what_is_no_category_is_named():
    frame = FRAME.assign(codes=["a", ["b", "c"], None, "d"]).set_axis(list("abcd"))
    message = r"series 1 \(id 'b'\), static covariate 'codes': got \['b', 'c'\] \(list\).*each item"
    with pytest.raises(ValueError, match=message):
        StaticEncoder.of(frame)


@pytest.mark.parametrize("per_person", [1, 2])
def test_ids_among_the_covariates_are_told(per_person):
    names = pd.DataFrame({"name": [f"p{k // per_person}" for k in range(20)]})
    message = rf"'name' has {20 // per_person} values in 20 series, as ids have.*groups"
    with pytest.warns(UserWarning, match=message):
        StaticEncoder.of(names)
    with pytest.warns(UserWarning, match=message):
        StaticEncoder.of(pd.concat([names, pd.DataFrame({"name": [None] * 9})]))
    StaticEncoder.of(names[:19])
    StaticEncoder.of(pd.DataFrame({"ward": [f"w{k // 3}" for k in range(60)]}))
