"""Records of the PhysioNet challenge 2012, in small and made up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skpolyode.datasets import load_physionet2012, real

FIRST = """Time,Parameter,Value
00:00,RecordID,132539
00:00,Age,54
00:00,Gender,0
00:00,Height,-1
00:00,ICUType,4
00:00,Weight,-1
00:07,GCS,15
00:07,HR,73
00:37,HR,77
00:37,HR,79
01:30,Weight,80.5
01:30,DiasABP,-1
01:30,NIDiasABP,60
01:30,NIDiasABP,-1
01:30,Temp,-1.5
47:50,pH,7.25
"""
SECOND = """Time,Parameter,Value
00:00,RecordID,132540
00:00,Age,76
00:00,Gender,1
00:00,Height,175.3
00:00,ICUType,2
00:00,Weight,76
00:42,,0
48:00,NISysABP,105
48:00,K,
"""
EMPTY = """Time,Parameter,Value
00:00,RecordID,140501
00:00,Age,75
00:00,Gender,-1
00:00,Height,-1
00:00,ICUType,3
00:00,Weight,-1
"""
OUTCOMES = """RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death
132540,16,8,8,-1,0
132539,6,1,5,4,1
140501,12,4,9,-1,0
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "set-a").mkdir()
    for name, text in (("132539", FIRST), ("132540", SECOND), ("140501", EMPTY)):
        (tmp_path / "set-a" / f"{name}.txt").write_text(text)
    (tmp_path / "Outcomes-a.txt").write_text(OUTCOMES)
    return tmp_path


def cells(series, names):
    """Observed cells as {(time, name): value}."""
    found = {}
    for row, channel in np.argwhere(np.isfinite(series.values)):
        minute = round(series.times[row] * 60)
        found[f"{minute // 60:02d}:{minute % 60:02d}", names[channel]] = series.values[row, channel]
    return found


def test_series(folder):
    panel = load_physionet2012(folder).panel
    assert panel.n_channels == 37
    assert_array_equal(panel.ids, [132539, 132540])
    assert cells(panel[0], panel.channel_names) == {
        ("00:07", "GCS"): 15.0,
        ("00:07", "HR"): 73.0,
        ("00:37", "HR"): 78.0,
        ("01:30", "Weight"): 80.5,
        ("01:30", "NIDiasABP"): 60.0,  # the mean of what is known
        ("01:30", "Temp"): -1.5,
        ("47:50", "pH"): 7.25,
    }
    assert cells(panel[1], panel.channel_names) == {
        ("00:00", "Weight"): 76.0,
        ("48:00", "NISysABP"): 105.0,
    }
    assert_allclose(panel[0].times, [7 / 60, 37 / 60, 1.5, 47 + 50 / 60])


def test_labels_static_and_skipped_records(folder):
    data = load_physionet2012(str(folder), subset="a")
    assert_array_equal(data.y, [1, 0])
    assert_array_equal(data.outcomes["SOFA"], [1, 8])
    assert_array_equal(data.skipped, [140501])
    static = data.panel.static
    assert list(static.columns) == ["Age", "Gender", "Height", "ICUType"]
    assert_array_equal(static.to_numpy(), [[54, 0, np.nan, 4], [76, 1, 175.3, 2]])


def test_variables_are_those_of_the_challenge():
    assert len(set(real.PHYSIONET_VARIABLES)) == 37


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("132539", "", r"132539\.txt must start with the line 'Time,Parameter,Value', got ''"),
        ("132539", FIRST[5:], "must start with the line 'Time,Parameter,Value', got 'Parameter,"),
        ("132539", FIRST[:-9], r"132539\.txt, line 17 must have 3 fields, got '47:50'; is the fi"),
        ("132539", FIRST[:21], "second line that its RecordID is 132539; is the file truncated"),
        ("132541", FIRST, r"132541\.txt must say on its second line that its RecordID is 132541"),
        ("notes", FIRST, r"notes\.txt must be named after its record number"),
        ("132539", FIRST.replace("GCS", "GSC"), "132539 has an unknown variable in .*07,GSC,15'"),
        ("132539", FIRST.replace("47:50", "47.50"), "132539 has a time that is not HH:MM .*'47.5"),
        ("132539", FIRST.replace("7.25", "high"), "132539 has no number in .*'47:50,pH,high' .1 "),
    ],
)
def test_files_that_break_the_format(folder, name, text, message):
    (folder / "set-a" / f"{name}.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_physionet2012(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OUTCOMES.replace("In-hospital_death", "death"), r"lacks the columns \['In-hospital_deat"),
        (OUTCOMES[: OUTCOMES.index("132539")], "no outcome for 2 records, the first is 132539"),
        (OUTCOMES[:-7], "must hold 0 and 1 only; is it truncated"),
        (OUTCOMES + "132539,6,1,5,4,0\n", "record 132539 occurs more than once"),
    ],
)
def test_outcomes_that_break_the_format(folder, text, message):
    (folder / "Outcomes-a.txt").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_physionet2012(folder)


def test_no_measurement_at_all(folder):
    for name in ("132539", "132540"):
        (folder / "set-a" / f"{name}.txt").unlink()
    with pytest.raises(ValueError, match="the records hold no measurement at all"):
        load_physionet2012(folder)


def test_missing_paths(folder):
    with pytest.raises(FileNotFoundError, match=r"no folder .*set-b': unpack"):
        load_physionet2012(folder, subset="b")
    (folder / "set-b").mkdir()
    with pytest.raises(ValueError, match=r"set-b' holds no record \(no file ends in \.txt\)"):
        load_physionet2012(folder, subset="b")
    (folder / "Outcomes-a.txt").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file .*Outcomes-a\.txt': download"):
        load_physionet2012(folder)


def test_unknown_subset(folder):
    with pytest.raises(ValueError, match="subset must be 'a', 'b' or 'c', got 'A'"):
        load_physionet2012(folder, subset="A")
