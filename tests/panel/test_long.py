from __future__ import annotations

import datetime
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import skpolyode
from skpolyode import HiPPOTransformer
from skpolyode.panel import Panel
from tests.panel.strategies import pairs

NAN = np.nan


def wide() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "who": ["b", "a", "b", "a", "b"],
            "t": [0.0, 0.5, 1.0, 2.5, 4.0],
            "hr": [61.0, 70.0, NAN, 71.0, 64.0],
            "bp": [1, 2, 3, 4, 5],
            "sex": ["f", "m", "f", "m", "f"],
        }
    )


def test_series_come_in_the_order_of_first_appearance():
    panel = Panel.from_long(wide(), id="who", time="t", values=["hr", "bp"])
    assert panel.ids.tolist() == ["b", "a"]
    assert panel.times.tolist() == [0.0, 1.0, 4.0, 0.5, 2.5]
    np.testing.assert_array_equal(panel.values[:, 0], [61.0, NAN, 64.0, 70.0, 71.0])
    assert panel.values[:, 1].tolist() == [1.0, 3.0, 5.0, 2.0, 4.0]
    assert panel.channel_names == ("hr", "bp")


def test_values_default_to_all_other_columns():
    panel = Panel.from_long(wide(), id="who", time="t", static=["sex"])
    assert panel.channel_names == ("hr", "bp")
    assert panel.static.index.tolist() == ["b", "a"]
    assert panel.static["sex"].tolist() == ["f", "m"]
    one = Panel.from_long(wide(), id="who", time="t", values="bp", static="sex")
    assert one.channel_names == ("bp",)


def test_static_may_be_a_table():
    table = pd.DataFrame({"age": [30, 40]}, index=["a", "b"])
    panel = Panel.from_long(wide(), id="who", time="t", values="bp", static=table)
    assert panel.static["age"].tolist() == [40, 30]


@pytest.mark.parametrize("kind", ["object", "category", "int", "datetime", "float"])
def test_kinds_of_ids(kind):
    table = wide()
    new = {
        "object": table["who"].astype(object),
        "category": pd.Categorical(table["who"], categories=["a", "b", "c"]),
        "int": table["who"].map({"a": 7, "b": -2}),
        "datetime": pd.to_datetime(table["who"].map({"a": "2024-01-01", "b": "2023-01-01"})),
        "float": table["who"].map({"a": 0.5, "b": 1.5}),
    }[kind]
    table["who"] = new
    panel = Panel.from_long(table, id="who", time="t", values="bp")
    assert list(pd.Index(panel.ids)) == list(pd.Series(new).unique())
    assert panel.lengths.tolist() == [3, 2]


def cells() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "cell": ["b", "a", "a", "b", "a"],
            "cycle": [2, 2, 1, 2, 1],
            "t": [0.0, 0.0, 0.0, 1.0, 2.0],
            "volt": [1.0, 2.0, 3.0, 4.0, 5.0],
        }
    )


KEYS = ["cell", "cycle"]


@pytest.mark.parametrize(
    "make",
    [
        lambda table: table,
        lambda table: table.set_index(KEYS),
        lambda table: table.set_index([*KEYS, "t"]),
        lambda table: table.astype({"cell": "category"}),
        pl.from_pandas,
        pa.Table.from_pandas,
    ],
)
@pytest.mark.parametrize("ids", [KEYS, tuple(KEYS)])
def test_ids_of_several_columns_are_tuples(make, ids):
    panel = Panel.from_long(make(cells()), id=ids, time="t", values="volt")
    assert panel.ids.tolist() == [("b", 2), ("a", 2), ("a", 1)]
    assert panel.values[:, 0].tolist() == [1, 4, 2, 3, 5]
    assert panel.select_ids([("a", 1)]).times.tolist() == [0, 2]


def test_ids_of_several_columns_go_everywhere(tmp_path):
    panel = Panel.from_long(cells(), id=KEYS, time="t")
    table = panel.to_long(id=KEYS, time="t")
    assert table.columns.tolist() == [*KEYS, "t", "volt"]
    table.to_parquet(tmp_path / "table.parquet")
    table = pd.read_parquet(tmp_path / "table.parquet")
    assert Panel.from_long(table, id=KEYS, time="t").equals(panel)
    assert Panel.from_long(panel.to_long(), id="id", time="time").equals(panel)
    assert Panel.from_sktime(panel.to_sktime()).equals(panel)
    assert Panel.concat([panel[:1], panel[1:]]).equals(panel)
    assert pickle.loads(pickle.dumps(panel)).equals(panel)
    others = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 2)])
    static = pd.DataFrame({"age": [1, 2, 3]}, index=others)
    fitted = HiPPOTransformer(n_coefficients=2).fit(panel)
    aged = Panel.from_long(cells(), id=KEYS, time="t", static=static)
    assert aged.static["age"].tolist() == [3, 2, 1]
    labels = pd.Series([0, 1, 1], index=others)
    with pytest.raises(ValueError, match=r"another order: \('a', 1\) is at position 0"):
        fitted.fit(panel, labels)
    fitted.fit(panel, labels.loc[panel.ids])
    doses = pd.DataFrame({"cell": ["a"], "cycle": [1], "t": [0.5], "dose": [9.0]})
    driven = Panel.from_long(cells(), id=KEYS, time="t", inputs=doses)
    assert driven.inputs.panel.lengths.tolist() == [0, 0, 1]
    assert Panel.from_long(cells(), id=KEYS, time="t", inputs=doses[:0]).inputs.names == ("dose",)
    stream = fitted.stream(panel)
    stream.save(tmp_path / "stream")
    again = skpolyode.load(tmp_path / "stream").update(9.0, [1.0], 2)
    np.testing.assert_array_equal(again.embedding(), stream.update(9.0, [1.0], 2).embedding())


def test_a_missing_part_of_an_id_is_no_id():
    table = cells()
    table.loc[3, "cell"] = None
    with pytest.raises(ValueError, match=r"df: 1 row\(s\) have no id, the first is row 3"):
        Panel.from_long(table, id=KEYS, time="t")


def test_columns_of_keys_that_do_not_fit():
    with pytest.raises(ValueError, match="df has no column 'cycles'"):
        Panel.from_long(cells(), id=["cell", "cycles"], time="t")
    for time in (["t", "cycle"], ("t", "cycle")):
        message = r"time must be the name of one column, got .* table\.assign\(time=table\['t'\]"
        with pytest.raises(TypeError, match=message):
            Panel.from_long(cells(), id="cell", time=time)
    assert Panel.from_long(cells(), id=["volt"], time="t", values="cycle").ids.tolist() == [
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    ]
    panel = Panel.from_long(cells(), id=KEYS, time="t")
    with pytest.raises(ValueError, match=r"names no parts of ids such as \('b', 2\)"):
        panel.to_long(id=["a", "b", "c"])
    with pytest.raises(ValueError, match="names no parts of ids such as 'ab'"):
        Panel.from_series([([0.0], [1.0])], ids=["ab"]).to_long(id=["a", "b"])
    with pytest.raises(ValueError, match="a channel has the name 'volt' of a column"):
        panel.to_long(id=["cell", "volt"])


def test_polars():
    table = pl.DataFrame(wide().to_dict("list"))
    expected = Panel.from_long(wide(), id="who", time="t", static=["sex"])
    panel = Panel.from_long(table, id="who", time="t", static=["sex"])
    np.testing.assert_array_equal(panel.values, expected.values)
    assert panel.ids.tolist() == ["b", "a"]
    assert panel.static["sex"].tolist() == ["f", "m"]
    with_null = pl.DataFrame({"i": [1, 1], "t": [0, 1], "x": [None, 2]})
    assert np.isnan(Panel.from_long(with_null, id="i", time="t").values[0, 0])
    with pytest.raises(TypeError, match=r"must be a pandas or polars DataFrame, got .*LazyFrame"):
        Panel.from_long(table.lazy(), id="who", time="t")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_polars_datetimes(zone):
    days = pd.DatetimeIndex(["2024-01-01 10:00", "2024-07-01 10:00"], tz=zone)
    column = pl.Series(days.tz_localize(None).to_list()).dt.replace_time_zone(zone)
    table = pl.DataFrame({"i": [1, 1], "t": column, "x": [1.0, 2.0]})
    panel = Panel.from_long(table, id="i", time="t")
    assert panel.tz == zone
    assert panel.user_times().equals(days.as_unit("us"))


def tidy() -> pd.DataFrame:
    rows = [
        ("b", 4.0, "hr", 64.0),
        ("a", 0.5, "bp", 2.0),
        ("b", 0.0, "hr", 61.0),
        ("b", 0.0, "bp", 1.0),
        ("a", 2.5, "hr", NAN),
    ]
    return pd.DataFrame(rows, columns=["who", "t", "what", "x"])


def from_tidy(table, **options) -> Panel:
    return Panel.from_long(table, id="who", time="t", channel="what", value="x", **options)


def test_one_observation_a_row_in_any_order():
    panel = from_tidy(tidy())
    assert panel.ids.tolist() == ["b", "a"]
    assert panel.channel_names == ("bp", "hr")
    assert panel.times.tolist() == [0.0, 4.0, 0.5, 2.5]
    np.testing.assert_array_equal(panel.values, [[1.0, 61.0], [NAN, 64.0], [2.0, NAN], [NAN, NAN]])


@given(pairs(), st.randoms(use_true_random=False))
def test_melting_and_shuffling_is_undone(series, random):
    panel = Panel.from_series(series)
    melted = panel.to_long().melt(id_vars=["id", "time"], var_name="what", value_name="x")
    order = random.sample(range(len(melted)), len(melted))
    table = melted.iloc[order]
    again = Panel.from_long(table, id="id", time="time", channel="what", value="x")
    part = again[np.argsort(again.ids)]
    columns = [again.channel_names.index(name) for name in panel.channel_names]
    np.testing.assert_array_equal(part.times, panel.times)
    np.testing.assert_array_equal(part.offsets, panel.offsets)
    np.testing.assert_array_equal(part.values[:, columns], panel.values)


@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter_when_sorted(series, random):
    table = Panel.from_series(series).to_long()
    shuffled = table.iloc[random.sample(range(len(table)), len(table))]
    panel = Panel.from_long(shuffled, id="id", time="time", sort=True)
    order = np.argsort(panel.ids)
    assert panel[order].equals(Panel.from_series(series))


@pytest.mark.parametrize(("how", "expected"), [("mean", 3.0), ("first", 1.0), ("last", 5.0)])
def test_repeated_observations(how, expected):
    table = pd.DataFrame(
        {"who": 1, "t": 0.0, "what": ["u", "u", "u", "v"], "x": [1.0, NAN, 5.0, 9.0]}
    )
    panel = from_tidy(table, duplicates=how)
    assert panel.values.tolist() == [[expected, 9.0]]
    with pytest.raises(ValueError, match=r"df has 2 faults") as caught:
        from_tidy(table)
    assert "series 0 (id 1), time 0: channel 'u' occurs again" in str(caught.value)


def test_faults_name_series_channel_and_time():
    table = wide().assign(bp=["low", 2, 3, 4, 5])
    with pytest.raises(
        ValueError, match=r"series 0 \(id 'b'\), channel 'bp', time 0: not a number"
    ):
        Panel.from_long(table, id="who", time="t", values="bp")
    with pytest.raises(ValueError, match=r"series 1 \(id 'a'\), channel 'x', time 0.5: not a num"):
        from_tidy(tidy().astype({"x": object}).replace({"x": {2.0: "two"}}))
    with pytest.raises(
        ValueError, match=r"series 1 \(id 'a'\): static column 'bp' varies"
    ) as caught:
        Panel.from_long(wide(), id="who", time="t", values="hr", static=["sex", "bp"])
    assert "static columns that vary (2)" in str(caught.value)
    assert "'sex'" not in str(caught.value)


def test_missing_ids_and_channels():
    table = wide()
    table.loc[[1, 3], "who"] = None
    with pytest.raises(ValueError, match=r"df: 2 row\(s\) have no id, the first is row 1"):
        Panel.from_long(table, id="who", time="t", values="bp")
    table = tidy()
    table.loc[1, "what"] = None
    with pytest.raises(ValueError, match=r"'a'\), time 0.5: the column 'what' is empty there"):
        from_tidy(table)


def test_columns_must_exist():
    with pytest.raises(ValueError, match=r"df has no column 'when'; its columns are \['who'"):
        Panel.from_long(wide(), id="who", time="when")
    with pytest.raises(ValueError, match="df has no column 'age'"):
        Panel.from_long(wide(), id="who", time="t", static=["age"])
    twice = pd.DataFrame([[1, 0, 5, 6]], columns=["who", "t", "x", "x"])
    with pytest.raises(ValueError, match="column 'x' occurs more than once"):
        Panel.from_long(twice, id="who", time="t")


@pytest.mark.parametrize(
    "columns",
    [{"channel": "what"}, {"value": "x"}, {"values": "x", "channel": "what", "value": "x"}],
)
def test_two_layouts_cannot_be_mixed(columns):
    with pytest.raises(TypeError, match="pass either values=, or channel= and value= together"):
        Panel.from_long(tidy(), id="who", time="t", **columns)


@pytest.mark.parametrize("df", [{"who": [1]}, [1, 2], np.zeros((2, 2))])
def test_only_tables_are_read(df):
    with pytest.raises(TypeError, match="df must be a pandas or polars DataFrame"):
        Panel.from_long(df, id="who", time="t")


def test_the_table_is_left_alone():
    table = wide()
    Panel.from_long(table, id="who", time="t", static=["sex"])
    pd.testing.assert_frame_equal(table, wide())


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_channels_that_are_numbers_are_named_as_numbers(frame):
    table = frame({"id": [1, 1], "t": [0.0, 0.0], "code": [7, 7], "v": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"series 0 \(id 1\), time 0: channel 7 occurs again"):
        Panel.from_long(table, id="id", time="t", channel="code", value="v")


def test_many_series_need_more_than_sixteen_bits():
    n = 70_000
    table = pd.DataFrame({"i": np.tile(np.arange(n), 2), "t": np.repeat([0.0, 1.0], n)})
    panel = Panel.from_long(table.assign(x=np.arange(2 * n)), id="i", time="t")
    assert panel.n_series == n
    np.testing.assert_array_equal(panel.values[::2, 0], np.arange(n))
    np.testing.assert_array_equal(panel.values[1::2, 0], np.arange(n) + n)


def test_datetimes_of_several_offsets_are_told():
    zones = [datetime.timezone(datetime.timedelta(hours=h)) for h in (0, 1)]
    days = [datetime.datetime(2024, 1, 1, tzinfo=zone) for zone in zones]
    table = pd.DataFrame(
        {"id": [1, 1], "day": pd.Series(days[::-1], dtype=object), "x": [1.0, 2.0]}
    )
    message = r"df: column 'day': .*of one UTC offset, got several; .*utc=True\)"
    with pytest.raises(TypeError, match=message):
        Panel.from_long(table, id="id", time="day")
    with pytest.raises(TypeError, match=r"series 0: times must be .* one UTC offset"):
        Panel.from_series([(days[::-1], [1.0, 2.0])])
    # Read as UTC, the one without a zone would be another moment, without a word.
    for without in (days[0].replace(tzinfo=None), pd.Timestamp("2024-01-01")):
        with pytest.raises(TypeError, match=r"some without a time zone; .* tz_localize first"):
            Panel.from_series([([without, days[1]], [1.0, 2.0])])
    table["day"] = pd.to_datetime(table["day"], utc=True)
    assert Panel.from_long(table, id="id", time="day").lengths.tolist() == [2]


def test_columns_of_several_levels_are_told():
    table = pd.DataFrame({("id", ""): [1, 1], ("t", ""): [0.0, 1.0], ("hr", "mean"): [60, 61]})
    with pytest.raises(ValueError, match=r"df has columns of 2 levels, such as \('hr', 'mean'\)"):
        Panel.from_long(table, id="id", time="t")
    df = table
    flat = df.set_axis(["_".join(filter(None, map(str, c))) for c in df.columns], axis=1)
    assert Panel.from_long(flat, id="id", time="t").channel_names == ("hr_mean",)


def test_lists_in_a_static_column_are_told():
    table = pd.DataFrame({"id": [1], "t": [0.0], "x": [1.0], "codes": [["a", "b"]]})
    with pytest.raises(TypeError, match=r"df: static column 'codes': unhashable .*each item"):
        Panel.from_long(table, id="id", time="t", static=["codes"])
