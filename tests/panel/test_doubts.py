"""Row numbers, labels and errors of other columns do not become channels in silence."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest

from skpolyode.panel import Panel, as_panel
from skpolyode.parquet import sample_dataset

N_SERIES, LENGTH = 12, 5
COUNTS = r"channel '{}': whole numbers that rise along the table.* channel_names= to "
STAYS = r"channel '{}': constant within every series.* static=, .* as y, .* channel_names= to "


@pytest.fixture
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "who": np.repeat([f"p{k:02}" for k in range(N_SERIES)], LENGTH),
            "t": np.tile(np.arange(LENGTH) * 1.5, N_SERIES),
            "x": rng.normal(size=N_SERIES * LENGTH),
        }
    )


def from_long(table, **options):
    return Panel.from_long(table, id="who", time="t", **options)


def from_polars(table, path):
    return from_long(pl.DataFrame(table.to_dict("list")))


def frames_of(table):
    return {key: frame.set_index("t").drop(columns="who") for key, frame in table.groupby("who")}


def from_parquet(table, path):
    table.sort_values(["who", "t"]).to_parquet(path / "series.parquet", index=False)
    return sample_dataset(path / "series.parquet", id="who", time="t")


def from_inputs(table, path):
    return from_long(table[["who", "t", "x"]], inputs=table)


DOORS = {
    "long": lambda table, path: from_long(table),
    "dates": lambda table, path: from_long(table.assign(t=pd.to_datetime(table["t"], unit="D"))),
    "polars": from_polars,
    "frames": lambda table, path: Panel.from_frames(frames_of(table)),
    "dict": lambda table, path: as_panel(frames_of(table)),
    "list": lambda table, path: as_panel(list(frames_of(table).values())),
    "sktime": lambda table, path: Panel.from_sktime(table.set_index(["who", "t"])),
    "parquet": from_parquet,
    "inputs": from_inputs,
}
door = pytest.mark.parametrize("read", DOORS.values(), ids=DOORS)


@door
@pytest.mark.parametrize("name", ["Unnamed: 0", "level_0", "level_1", "__index_level_0__"])
def test_names_of_row_numbers_are_refused(read, name, table, tmp_path):
    counted = table.assign(**{name: np.arange(len(table))[::-1]})
    with pytest.raises(ValueError, match=rf"has the columns \['{name}'\].*leave them out; or name"):
        read(counted, tmp_path)


@door
@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("index", range(60)),
        ("row", range(7, 67)),
        ("row", np.arange(60) * 11),  # most rows were filtered
        ("index", np.random.default_rng(0).permutation(60)),
    ],
)
def test_row_numbers_are_told(read, name, numbers, table, tmp_path):
    with pytest.warns(UserWarning, match=COUNTS.format(name)):
        read(table.assign(**{name: numbers}), tmp_path)


@door
@pytest.mark.parametrize("kind", [int, float, bool])
def test_labels_are_told(read, kind, table, tmp_path):
    labelled = table.assign(label=(np.arange(60) // LENGTH % 2).astype(kind))
    with pytest.warns(UserWarning, match=STAYS.format("label")):
        read(labelled, tmp_path)


def test_rows_in_the_order_of_time_are_counted_too(table):
    counted = table.sort_values("t", kind="stable", ignore_index=True).reset_index(names="row")
    with pytest.warns(UserWarning, match=COUNTS.format("row")):
        assert from_long(counted).n_channels == 2
    with pytest.warns(UserWarning, match=COUNTS.format("index")):  # one series alone
        Panel.from_long(table.assign(index=range(60), who=0), id="who", time="t", sort=True,
                        duplicates="mean")  # fmt: skip


def test_the_remedies_help(table, tmp_path):
    doubtful = table.assign(label=np.arange(60) // LENGTH % 2, row=range(60), x_error=0.1)
    doubtful["Unnamed: 0"] = range(60)
    columns = doubtful.columns[2:].to_list()
    assert from_long(doubtful, values=columns).n_channels == 5
    assert from_long(doubtful, channel_names=columns).channel_names == tuple(columns)
    assert Panel.from_frames(frames_of(doubtful), channel_names=columns).n_channels == 5
    doubtful.to_parquet(tmp_path / "series.parquet", index=False)
    named = sample_dataset(tmp_path / "series.parquet", id="who", time="t", channels=columns)
    assert named.n_channels == 5
    panel = from_long(doubtful[["who", "t", "x", "label"]], static=["label"])
    assert panel.static["label"].tolist() == [0, 1] * 6


@pytest.mark.parametrize("melted", [False, True])
def test_columns_of_errors_are_read_back_or_refused(melted):
    panel = Panel.from_series(
        [([0.0, 1.0], [[1.0, 2.0], [3.0, np.nan]])],
        errors=[[[0.1, 0.2], [0.3, np.nan]]],
        channel_names=["a", "b"],
    )
    table, how = panel.to_long(), {}
    error = {"a": "a_error", "b": "b_error"}
    assert Panel.from_long(table, id="id", time="time", error=error).equals(panel)
    if melted:
        table = table.melt(["id", "time"], var_name="what", value_name="v")
        how = {"channel": "what", "value": "v"}
    message = r"df has the columns \['a_error', 'b_error'\].*error=\{'a': 'a_error', 'b': 'b_error'"
    with pytest.raises(ValueError, match=message):
        Panel.from_long(table, id="id", time="time", **how)
    one = {"a": "a_error"}
    if not melted:
        with pytest.raises(ValueError, match=r"has the columns \['b_error'\]"):
            Panel.from_long(table, id="id", time="time", error=one)
    frames = [pd.DataFrame({"a": [1.0], "a_error": [0.1]})]
    for read in (as_panel, Panel.from_frames, Panel.from_sktime):
        with pytest.raises(ValueError, match=r"has the columns \['a_error'\].* errors= of frames"):
            read(frames)
    # Errors of nothing are a channel.
    assert as_panel([pd.DataFrame({"a": [1.0], "fit_error": [0.1]})]).n_channels == 2


FINE = {
    "switched once": lambda table: table.assign(on=(np.arange(60) == 7) * 1.0),
    "observed once a series": lambda table: table.assign(
        weight=np.where(np.arange(60) % LENGTH == 0, np.arange(60) // LENGTH, np.nan)
    ),
    "the same everywhere": lambda table: table.assign(unit=1.0),
    "no other channel": lambda table: table.assign(x=np.arange(60) // LENGTH),
    "counts alone": lambda table: table.assign(x=np.arange(60)),
    "series of one row": lambda table: table[::LENGTH].assign(k=np.arange(N_SERIES), on=[0, 1] * 6),
    "few series": lambda table: table[: 9 * LENGTH].assign(on=np.arange(45) // LENGTH % 2),
    "short series": lambda table: table[table["t"] < 5].assign(on=np.repeat(range(12), 4) % 3 / 2)[
        lambda rows: rows["t"] < 4
    ],
    "few rows": lambda table: table[:8].assign(k=range(8)),
    "one series": lambda table: table[:LENGTH].assign(steps=range(LENGTH)),
    "one long series": lambda table: table.assign(who="a", t=np.arange(60.0), steps=range(60)),
    "counts in each series": lambda table: table.assign(visit=np.tile(range(LENGTH), N_SERIES)),
    "readings of odometers": lambda table: table.assign(
        km=np.tile(np.arange(LENGTH) * 40, N_SERIES) + np.repeat(np.arange(12)[::-1], LENGTH) * 900
    ),
    "ranks": lambda table: table.assign(rank=np.random.default_rng(0).permutation(60)),
    "small whole numbers": lambda table: table.assign(index=np.arange(60) % 11),
    "fractions that rise": lambda table: table.assign(k=np.arange(60) / 4),
}


@pytest.mark.parametrize("case", FINE)
def test_what_may_be_a_channel_is_read_in_silence(case, table):
    fine = FINE[case](table)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_long(fine).channel_names == tuple(fine.columns[2:])


def test_infinite_values_are_faults(table):
    with pytest.raises(ValueError, match="must not be infinity"):
        from_long(table.assign(k=[*range(58), np.inf, 3]))


def test_equal_doses_of_a_patient_are_no_label(table):
    doses = table[["who", "t"]].assign(dose=np.arange(60) // LENGTH * 10.0, rate=table["x"])
    series = table[["who", "t", "x"]]
    for kinds in ("impulse", ["impulse", "hold"], {"dose": "impulse"}):
        assert from_long(series, inputs=doses, kinds=kinds).inputs.names == ("dose", "rate")
    with pytest.warns(UserWarning, match=STAYS.format("dose")):
        from_long(series, inputs=doses)
    with pytest.warns(UserWarning, match=r"inputs: " + COUNTS.format("index")):
        from_long(series, inputs=doses.drop(columns="rate").reset_index(), kinds="impulse")
