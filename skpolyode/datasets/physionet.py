"""The freely available intensive care records of the PhysioNet challenge of 2012."""

from __future__ import annotations

import io
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skpolyode.panel import Panel

PHYSIONET_VARIABLES = (
    *("Albumin", "ALP", "ALT", "AST", "Bilirubin", "BUN", "Cholesterol", "Creatinine"),
    *("DiasABP", "FiO2", "GCS", "Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "MAP"),
    *("MechVent", "Mg", "NIDiasABP", "NIMAP", "NISysABP", "Na", "PaCO2", "PaO2", "Platelets"),
    *("RespRate", "SaO2", "SysABP", "Temp", "TroponinI", "TroponinT", "Urine", "WBC", "Weight"),
    "pH",
)
_DESCRIPTORS = ("Age", "Gender", "Height", "ICUType")
_LABEL = "In-hospital_death"


def load_physionet2012(path: str | PathLike[str], subset: str = "a") -> Bunch:
    """Load one set of the PhysioNet/Computing in Cardiology Challenge 2012.

    The first 48 hours in intensive care of 4000 patients: 37 variables measured at different times,
    and in-hospital mortality. Download and unpack the challenge's files first; this function
    downloads nothing.

    Parameters
    ----------
    path : str or path-like
        Folder that holds the folders ``set-a``, ... with one text file for each patient, and the
        files ``Outcomes-a.txt``, ...
    subset : {"a", "b", "c"}, default="a"
        Set to load.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 37 channels; ids are record numbers; times
        in hours since admission; ``panel.static`` holds age, gender, height and kind of unit),
        ``y`` (int ndarray, 1 = died in hospital), ``outcomes`` (DataFrame, all columns of the
        outcome file, one row a series) and ``skipped`` (int ndarray, the records without any
        measurement, which are left out).

    Raises
    ------
    FileNotFoundError
        If the folder of the set or its outcome file does not exist.
    ValueError
        If a file breaks the format: wrong header, incomplete line, unknown variable, a time that
        is not ``HH:MM``, a value that is not a number, a record without outcome.

    Notes
    -----
    The code -1 means unknown, for every variable, and becomes NaN. Among measurements it occurs in
    ``Weight`` and, in set c, in 224 diastolic pressures. Several values of a variable in the same
    minute are averaged. Values are not cleaned otherwise; the data contain typing errors such as a
    pH of 735.

    References
    ----------
    I. Silva et al., "Predicting in-hospital mortality of ICU patients: the PhysioNet/Computing in
    Cardiology Challenge 2012", Computing in Cardiology 39 (2012).

    Examples
    --------
    The data do not come with the package, so this example only shows the call.

    >>> from skpolyode.datasets import load_physionet2012
    >>> data = load_physionet2012("challenge-2012", subset="a")  # doctest: +SKIP
    >>> data.panel.n_channels  # doctest: +SKIP
    37
    """
    if subset not in ("a", "b", "c"):
        raise ValueError(f"subset must be 'a', 'b' or 'c', got {subset!r}.")
    folder, outcome_file = Path(path) / f"set-{subset}", Path(path) / f"Outcomes-{subset}.txt"
    records = _read_records(folder)
    outcomes = _read_outcomes(outcome_file)
    records = records.assign(value=records["value"].mask(records["value"] == -1))
    described = records["parameter"].isin(_DESCRIPTORS)
    static = records[described].pivot_table(
        index="record", columns="parameter", values="value", aggfunc="first"
    )
    measured = records[~described].dropna(subset="value")
    if measured.empty:
        raise ValueError("the records hold no measurement at all; are the files complete?")
    every = records["record"].unique()
    if len(missing := every[~np.isin(every, outcomes.index)]):
        raise ValueError(
            f"{outcome_file} has no outcome for {len(missing)} records, the first is {missing[0]}."
        )
    table = measured.pivot_table(
        index=["record", "minute"], columns="parameter", values="value", aggfunc="mean"
    ).reindex(columns=list(PHYSIONET_VARIABLES))
    record = table.index.get_level_values("record").to_numpy()
    ids, starts = np.unique(record, return_index=True)
    outcomes = outcomes.loc[ids]
    panel = Panel(
        table.index.get_level_values("minute").to_numpy() / 60.0,
        table.to_numpy(dtype=np.float64),
        np.append(starts, len(record)),
        ids=ids,
        channel_names=PHYSIONET_VARIABLES,
        static=static.reindex(index=ids, columns=list(_DESCRIPTORS)),
    )
    return Bunch(
        panel=panel,
        y=outcomes[_LABEL].to_numpy(dtype=np.int64),
        outcomes=outcomes,
        skipped=np.setdiff1d(every, ids),
    )


def _read_records(folder: Path) -> pd.DataFrame:
    """Read all lines of all files: columns record, minute, parameter, value."""
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder {str(folder)!r}: unpack the challenge's sets there.")
    files = sorted(folder.glob("*.txt"))
    if not files:
        raise ValueError(f"folder {str(folder)!r} holds no record (no file ends in .txt).")
    # One table from the start is faster than checking and joining 4000 small ones.
    text = "\n".join(line for file in files for line in _lines(file))
    records = pd.read_csv(
        io.StringIO(text),
        header=None,
        names=["record", "time", "parameter", "value"],
        dtype={"record": np.int64, "time": str, "parameter": str, "value": str},
        keep_default_na=False,
    )
    # Sets b and c hold a few lines that name no variable.
    records = records[~records["parameter"].isin(["", "RecordID"])]
    place, clocks = pd.factorize(records["time"])
    fields = pd.Series(clocks, dtype=str).str.extract(r"^(\d{2,3}):([0-5]\d)$").astype(np.float64)
    minutes = (60.0 * fields[0] + fields[1]).to_numpy()  # NaN where a time is not HH:MM
    minute = pd.Series(minutes[place], index=records.index)
    value = pd.to_numeric(records["value"].replace("", "nan"), errors="coerce")
    unknown = ~records["parameter"].isin([*PHYSIONET_VARIABLES, *_DESCRIPTORS])
    _refuse(records, minute.isna(), "a time that is not HH:MM")
    _refuse(records, unknown, "an unknown variable")
    _refuse(records, value.isna() & ~records["value"].isin(["", "nan", "NaN"]), "no number")
    return records.assign(minute=minute, value=value).drop(columns="time")


def _lines(file: Path) -> list[str]:
    """Lines of one file, each with the record number in front."""
    header, *lines = file.read_text(encoding="ascii", errors="replace").splitlines() or [""]
    if header.strip() != (expected := "Time,Parameter,Value"):
        raise ValueError(f"{file} must start with the line {expected!r}, got {header!r}.")
    record = file.stem
    if not record.isdigit():
        raise ValueError(f"{file} must be named after its record number, such as 132539.txt.")
    for number, line in enumerate(lines, start=2):
        if line.count(",") != 2:
            raise ValueError(
                f"{file}, line {number} must have 3 fields, got {line!r}; is the file truncated?"
            )
    if f"00:00,RecordID,{record}" not in lines[:1]:
        raise ValueError(
            f"{file} must say on its second line that its RecordID is {record}; is the file "
            "truncated or renamed?"
        )
    return [f"{record},{line}" for line in lines]


def _refuse(records: pd.DataFrame, wrong: pd.Series, what: str) -> None:
    if wrong.any():
        first = records[wrong].iloc[0]
        raise ValueError(
            f"record {first['record']} has {what} in the line "
            f"'{first['time']},{first['parameter']},{first['value']}' ({int(wrong.sum())} such "
            "lines in all)."
        )


def _read_outcomes(file: Path) -> pd.DataFrame:
    if not file.is_file():
        raise FileNotFoundError(f"no file {str(file)!r}: download the outcomes of the same set.")
    outcomes = pd.read_csv(file)
    if missing := [name for name in ("RecordID", _LABEL) if name not in outcomes.columns]:
        raise ValueError(f"{file} lacks the columns {missing}; it has {list(outcomes.columns)}.")
    if not outcomes[_LABEL].isin([0, 1]).all():
        raise ValueError(f"column {_LABEL!r} of {file} must hold 0 and 1 only; is it truncated?")
    outcomes = outcomes.set_index("RecordID")
    if len(repeated := outcomes.index[outcomes.index.duplicated()]):
        raise ValueError(f"{file}: record {repeated[0]} occurs more than once.")
    return outcomes
