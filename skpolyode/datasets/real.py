"""Loaders of real series: storms, sets that come with sktime, records of a PhysioNet challenge."""

from __future__ import annotations

import io
from collections.abc import Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

from skpolyode.errors import require
from skpolyode.panel import Panel

_PARTS = ("train", "test")


def load_japanese_vowels(split: str | None = None) -> Bunch:
    """Load JapaneseVowels: nine speakers saying two vowels, as 12 cepstral coefficients.

    640 series (270 for training, 370 for testing) of 7 to 29 frames. The task is to identify
    the speaker.

    Parameters
    ----------
    split : {"train", "test"} or None, default=None
        Part to load; None loads both, the training part first.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 12 channels; times are frame numbers from
        0), ``y`` (int ndarray, the speaker, 1 to 9) and ``split`` (str ndarray, ``"train"`` or
        ``"test"`` for each series).

    Raises
    ------
    ValueError
        If `split` is none of the values above.
    ImportError
        If sktime, which holds the data, is not installed.

    See Also
    --------
    drop_cells : Hide cells at random, for series that are partly observed.

    References
    ----------
    M. Kudo, J. Toyama and M. Shimbo, "Multidimensional curve classification using passing-through
    regions", Pattern Recognition Letters 20 (1999).

    Examples
    --------
    >>> from skpolyode.datasets import load_japanese_vowels
    >>> data = load_japanese_vowels(split="train")
    >>> data.panel.n_series, data.panel.n_channels, int(data.panel.lengths.max())
    (270, 12, 26)
    """
    return _load("load_japanese_vowels", split, [f"cepstrum_{i}" for i in range(1, 13)])


def load_plaid(split: str | None = None) -> Bunch:
    """Load PLAID: the current drawn by household appliances of eleven kinds.

    1074 univariate series (537 for training, 537 for testing) of 100 to 1344 points. The task is
    to identify the kind of appliance.

    Parameters
    ----------
    split : {"train", "test"} or None, default=None
        Part to load; None loads both, the training part first.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 1 channel; times are sample numbers from 0),
        ``y`` (int ndarray, the kind, 0 to 10) and ``split`` (str ndarray, ``"train"`` or
        ``"test"`` for each series).

    Raises
    ------
    ValueError
        If `split` is none of the values above.
    ImportError
        If sktime, which holds the data, is not installed.

    References
    ----------
    J. Gao, S. Giri, E. C. Kara and M. Berges, "PLAID: a public dataset of high-resolution
    electrical appliance measurements for load identification research", BuildSys (2014).

    Examples
    --------
    >>> from skpolyode.datasets import load_plaid
    >>> data = load_plaid(split="test")
    >>> data.panel.n_series, data.panel.n_channels
    (537, 1)
    """
    return _load("load_plaid", split, ["current"])


def _load(name: str, split: str | None, channel_names: Sequence[str]) -> Bunch:
    if split is not None and split not in _PARTS:
        raise ValueError(f"split must be 'train', 'test' or None, got {split!r}.")
    require("sktime", extra="sktime", what=f"{name}()")
    load = getattr(import_module("sktime.datasets"), name)
    parts = _PARTS if split is None else (split,)
    loaded = [load(split=part, return_X_y=True, return_type="df-list") for part in parts]
    frames = [frame for part_frames, _ in loaded for frame in part_frames]
    panel = Panel.from_frames(frames, channel_names=channel_names)  # times are row numbers from 0
    labels = np.concatenate([part_labels for _, part_labels in loaded])
    of_series = np.repeat(parts, [len(part_frames) for part_frames, _ in loaded])
    return Bunch(panel=panel, y=labels.astype(np.int64), split=of_series)


def load_storms() -> Bunch:
    """Load the tracks of Atlantic tropical storms of ten seasons, 2006 to 2015.

    151 storms with 4 to 96 rows: position, wind and pressure every six hours, and at moments
    between, as when a storm reaches land. The data come with the package.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 4 channels with the storms' identifiers as
        ids; `time_unit` is hours), ``y`` (int ndarray, 1 = hurricane: the wind reached 64 knots),
        and ``frame`` (DataFrame, the table behind the panel: ``storm``, ``name``, ``time`` in UTC,
        ``latitude`` and ``longitude`` in degrees, ``wind`` in knots, ``pressure`` in hPa). Storms
        are in the order of their beginnings.

    References
    ----------
    C. W. Landsea and J. L. Franklin, "Atlantic hurricane database uncertainty and presentation of a
    new database format", Monthly Weather Review 141 (2013). The database, HURDAT2, is a work of the
    National Oceanic and Atmospheric Administration, in the public domain.

    Examples
    --------
    >>> from skpolyode.datasets import load_storms
    >>> data = load_storms()
    >>> data.panel.n_series, data.panel.channel_names
    (151, ('latitude', 'longitude', 'wind', 'pressure'))
    """
    file = Path(__file__).with_name("storms.csv.gz")
    frame = pd.read_csv(file, parse_dates=["time"])
    panel = Panel.from_long(frame.drop(columns="name"), id="storm", time="time", time_unit="h")
    strongest = frame.groupby("storm", sort=False)["wind"].max()
    return Bunch(panel=panel, y=(strongest >= 64).to_numpy(np.int64), frame=frame)


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
