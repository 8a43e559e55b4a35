"""The paper's table on open data: hourly means of the first day, from files as they are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.paper import mimic
from benchmarks.paper.mimic_cells import PHYSIONET
from benchmarks.paper.physionet_extract import load_physionet_vitals

OTHERS = ("NIDiasABP", "SaO2", "RespRate", "Glucose", "BUN", "WBC", "Creatinine")


def write_stays(folder: Path, n_stays: int = 20) -> None:
    (folder / "set-a").mkdir(parents=True)
    outcomes = ["RecordID,In-hospital_death"]
    for stay in range(100, 100 + n_stays):
        lines = ["Time,Parameter,Value", f"00:00,RecordID,{stay}", "00:00,Age,60"]
        for hour in range(0, 40, 1 + stay % 3):
            lines += [f"{hour:02d}:10,HR,{stay}", f"{hour:02d}:50,HR,{stay + 2}"]
            lines += [f"{hour:02d}:20,NIMAP,{70 + hour}", f"{hour:02d}:20,Temp,{36 + hour % 3}"]
        lines += ["05:30,MAP,90", "05:30,Na,140", "05:40,NIMAP,80"]
        if stay != 101:
            lines += [f"07:00,{name},{stay % 7 + 3}" for name in OTHERS]
        (folder / "set-a" / f"{stay}.txt").write_text("\n".join(lines))
        outcomes.append(f"{stay},{stay % 2}")
    (folder / "Outcomes-a.txt").write_text("\n".join(outcomes))


def test_hours_are_means_and_invasive_pressures_count_first(tmp_path):
    write_stays(tmp_path)
    data = load_physionet_vitals(tmp_path, random_state=0)
    stay = data.panel[1]  # 101: every third hour
    assert stay.times.tolist() == [0, 3, 5, 6, 9, 12, 15, 18, 21]
    heart, pressure = stay.values[:, 0], stay.values[:, 1]
    at = dict(zip(stay.times, pressure, strict=True))
    assert at[5.0] == 90.0  # of the arterial line, not of the cuff
    assert np.nanmax(np.abs(heart - 102)) < 1e-9
    assert np.isnan(stay.values[:, 3]).all()  # never measured


def test_parts_are_disjoint_shares_of_the_stays(tmp_path):
    write_stays(tmp_path)
    data = load_physionet_vitals(tmp_path, random_state=1)
    assert {part: int((data.split == part).sum()) for part in np.unique(data.split)} == {
        "train": 14,
        "validation": 2,
        "test": 4,
    }
    assert data.y.tolist() == [stay % 2 for stay in data.panel.ids]
    other = load_physionet_vitals(tmp_path, random_state=2)
    assert (data.split != other.split).any()


def test_the_table_is_printed_from_a_folder(tmp_path, monkeypatch, capsys):
    write_stays(tmp_path / "data")
    arguments = ["--path", str(tmp_path / "data"), "--output", str(tmp_path / "out")]
    rows = ["--quick", "--rows", "HiPPO legt", "last value"]
    monkeypatch.setattr("sys.argv", ["physionet", *arguments, *rows])
    mimic.main(PHYSIONET, "Table.", "folder")
    printed = capsys.readouterr().out
    assert "HiPPO legt" in printed
    assert "paper:" not in printed


def test_a_folder_without_the_archive_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"set-a.*unpack the challenge's sets there"):
        load_physionet_vitals(tmp_path)
