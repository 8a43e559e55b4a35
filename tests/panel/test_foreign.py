"""Objects of xarray, astropy and pint: what numpy would drop of them is kept, or refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpolyode import HiPPOTransformer, Panel, PolyODEClassifier
from skpolyode.panel import as_panel

TIMES, VALUES = np.arange(4.0), np.array([[1.0, 4.0, 2.0, 8.0], [3.0, 5.0, 1.0, 7.0]])


class Plain:
    """An object that numpy reads as an array."""

    def __init__(self, values, **attributes):
        self.values = np.asarray(values)
        vars(self).update(attributes)

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.values.dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return self.values[key]

    @property
    def shape(self):
        return self.values.shape

    @property
    def ndim(self):
        return self.values.ndim


class DataArray(Plain):
    def __init__(self, values):
        values = np.asarray(values)
        super().__init__(values, dims=("id", "time")[-values.ndim :], coords={"time": TIMES})

    def to_numpy(self):
        return self.values


class Dataset(dict):
    dims = coords = ()


class Quantity(Plain):
    def __init__(self, values, unit):
        super().__init__(values, unit=unit, value=values)

    def to(self, unit):
        return Quantity(self.values, unit)


class OfPint(Plain):
    def __init__(self, values, units):
        super().__init__(values, units=units, magnitude=values)

    def to(self, units):
        return OfPint(self.values, units)


class Time(Plain):
    scale = "utc"

    def to_value(self, kind):
        return self.values


class Table(Plain):
    colnames = ("id", "time", "flux")

    def to_pandas(self):
        return pd.DataFrame({"id": [0, 0], "time": [0.0, 1.0], "flux": [1.0, 2.0]})


class Masked(np.ndarray):
    """Values with a mask that numpy does not know."""

    def __new__(cls, values, mask):
        found = np.asarray(values).view(cls)
        found.mask = np.asarray(mask)
        return found

    def __getitem__(self, key):
        found = super().__getitem__(key)
        return Masked(found, self.mask[key]) if isinstance(found, Masked) else found

    @property
    def unmasked(self):
        return np.asarray(self)


LABELLED = DataArray(VALUES)
LONG = r"from_long\({}\.to_dataframe\(\)\.reset_index\(\), id=\.\.\., time=\.\.\.\)"


@pytest.mark.parametrize(
    ("X", "name"),
    [
        (LABELLED, "X"),
        (DataArray(VALUES.T), "X"),
        (DataArray(VALUES[:, :, None].repeat(8, axis=2)), "X"),
        (Dataset(hr=LABELLED), "X"),
        ([DataArray(VALUES[0]), DataArray(VALUES[1])], "x"),
        ([DataArray(VALUES.T), DataArray(VALUES.T)], "x"),
        ({"a": DataArray(VALUES[0]), "b": DataArray(VALUES[1])}, "x"),
        ([Dataset(hr=LABELLED)], "x"),
        ([(TIMES, DataArray(VALUES[0]))], "x"),
        ([(DataArray(TIMES), VALUES[0])], "x"),
        ([(TIMES, [DataArray(VALUES[0, :1])] * 4)], "x"),
    ],
)
def test_labels_are_not_dropped(X, name):
    for read in (as_panel, HiPPOTransformer(n_coefficients=2).fit):
        with pytest.raises(TypeError, match=f"^X.*(DataArray|Dataset).*{LONG.format(name)}"):
            read(X)


def doors(given):
    """Every other door through which an object passes."""
    panel = Panel.from_array(VALUES)
    fitted = HiPPOTransformer(n_coefficients=2).fit(panel)
    return [
        lambda: Panel.from_array(VALUES, times=given),
        lambda: Panel.from_array(VALUES, errors=given),
        lambda: Panel.from_array(VALUES, static=given),
        lambda: Panel(given, VALUES[0], [0, 4]),
        lambda: Panel.from_series([(TIMES, VALUES[0])], errors=[given]),
        lambda: Panel.from_series({"a": (TIMES, given)}),
        lambda: Panel.from_frames([given]),
        lambda: Panel.from_sktime(given),
        lambda: Panel.from_long(given, id="id", time="time"),
        lambda: fitted.reconstruct(panel, given),
        lambda: fitted.stream(1).update(given, VALUES[0], [0] * 4),
        lambda: fitted.stream(1).update(TIMES, given, [0] * 4),
        lambda: PolyODEClassifier(fitted).fit(Panel.from_array([VALUES[0]] * 4), given),
    ]


@pytest.mark.parametrize("door", range(13))
@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        (DataArray(TIMES), r"or \w+\.to_numpy\(\) for bare numbers"),
        (Quantity(TIMES, "km"), r"numbers of one unit for all series, \w+\.to\('km'\)\.value"),
        (OfPint(TIMES, "hour"), r"one unit for all series, \w+\.to\('hour'\)\.magnitude"),
        (Time(TIMES), r"\w+\.to_value\('datetime64'\)"),
        (Table(TIMES), r"\w+\.to_pandas\(\), or Panel\.from_long\(\w+\.to_pandas\(\), id=\.\.\."),
    ],
)
def test_every_door_names_the_remedy(given, remedy, door):
    with pytest.raises(TypeError, match=remedy):
        doors(given)[door]()


def test_quantities_of_two_units_are_no_numbers():
    with pytest.raises(TypeError, match=r"series 0: only the numbers of a Quantity.*to\('m'\)"):
        as_panel([(TIMES, Quantity(VALUES[0], "m")), (TIMES, Quantity(VALUES[1], "km"))])
    with pytest.raises(TypeError, match=r"series 1: only the numbers of a Quantity.*to\('km'\)"):
        as_panel([(TIMES, VALUES[0]), (TIMES, Quantity(VALUES[1], "km"))])
    with pytest.raises(TypeError, match=r"series 0: only the numbers of a Quantity.*to\('m'\)"):
        as_panel([(TIMES, [Quantity([x], "m") for x in VALUES[0]])])
    for unit in ("", "dimensionless", None):
        assert_array_equal(as_panel([(TIMES, Quantity(TIMES, unit))]).values[:, 0], TIMES)


def test_columns_may_have_the_names_of_attributes():
    frame = pd.DataFrame({"unit": VALUES[0], "to": VALUES[1]}, index=TIMES)
    assert as_panel([frame]).channel_names == ("unit", "to")
    frame = pd.DataFrame({"dims": VALUES[0], "coords": VALUES[1]}, index=TIMES)
    assert as_panel([frame]).channel_names == ("dims", "coords")
    assert as_panel([(pd.DatetimeIndex(TIMES.astype("M8[s]")), TIMES)]).is_datetime


@pytest.mark.parametrize("make", [Masked, np.ma.array])
def test_masks_of_any_kind_are_kept(make):
    mask = np.array([False, True, False, False])
    one, two = make(VALUES[0], mask=mask), make(VALUES[1], mask=~mask)
    expected = [1, np.nan, 2, 8, np.nan, 5, np.nan, np.nan]
    table = make(VALUES, mask=[mask, ~mask])
    pairs = [(TIMES, one), (TIMES, two)]
    for X in (
        table,
        list(table),
        pairs,
        {"a": pairs[0], "b": pairs[1]},
        [one, two],
    ):
        assert_array_equal(as_panel(X).values.ravel(), expected)
    errors = Panel.from_series([(TIMES, VALUES[0])], errors=[one]).errors
    assert_array_equal(errors.ravel(), expected[:4])
    with pytest.raises(ValueError, match="row 1, missing time"):
        as_panel([(make(TIMES, mask=mask), VALUES[0])])
    fitted = HiPPOTransformer(n_coefficients=2).fit(table)
    assert_array_equal(fitted.transform(table), fitted.transform(np.reshape(expected, (2, 4))))
    stream = fitted.stream(1).update(TIMES, one, [0] * 4)
    assert_allclose(stream.embedding(), fitted.transform(table)[:1])


def test_masked_dates_in_a_list_are_missing():
    days = np.ma.array(np.array(["2024-01-01", "2024-01-02"], "M8[s]"), mask=[False, True])
    with pytest.raises(ValueError, match="row 1, missing time"):
        as_panel([(list(days), [1.0, 2.0])])


def test_xarray_itself():
    xarray = pytest.importorskip("xarray")
    coords = {"id": ["a", "b"], "time": TIMES**2}
    array = xarray.DataArray(VALUES, dims=("id", "time"), coords=coords, name="hr")
    for X in (array, array.T, array.to_dataset(), [array[0], array[1]], [(array.time, array[0])]):
        with pytest.raises(TypeError, match=r"from_long\([xX]\.to_dataframe\(\)\.reset_index\(\)"):
            as_panel(X)
    panel = Panel.from_long(array.to_dataframe().reset_index(), id="id", time="time")
    assert panel.ids.tolist() == ["a", "b"]
    assert_array_equal(panel.times[:4], TIMES**2)


def test_astropy_itself():
    units = pytest.importorskip("astropy.units")
    table, time = pytest.importorskip("astropy.table"), pytest.importorskip("astropy.time")
    masks = pytest.importorskip("astropy.utils.masked")
    metres, mask = VALUES[0] * units.m, [False, True, False, False]
    for pair in ((TIMES, metres), (TIMES * units.h, VALUES[0])):
        with pytest.raises(TypeError, match="one unit for all series"):
            as_panel([pair, (TIMES, VALUES[1] / 1000 * units.km)])
    flux = masks.Masked(metres, mask=mask).to("m").value
    assert_array_equal(as_panel([(TIMES, flux)]).values[:, 0], [1, np.nan, 2, 8])
    days = time.Time(TIMES + 60000, format="mjd")
    with pytest.raises(TypeError, match=r"x\.to_value\('datetime64'\)"):
        as_panel([(days, VALUES[0])])
    assert as_panel([(days.to_value("datetime64"), VALUES[0])]).is_datetime
    rows = table.Table({"id": [0, 0, 1, 1], "time": TIMES, "flux": metres}, masked=True)
    rows["flux"].mask[1] = True
    with pytest.raises(TypeError, match=r"Panel\.from_long\(df\.to_pandas\(\)"):
        Panel.from_long(rows, id="id", time="time")
    panel = Panel.from_long(rows.to_pandas(), id="id", time="time")
    assert_array_equal(panel.values[:, 0], [1, np.nan, 2, 8])
