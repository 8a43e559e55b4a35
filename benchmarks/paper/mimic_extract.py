"""MIMIC-III as MIMIC-Extract writes it: hourly vitals and laboratory values of intensive care."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.utils import Bunch, check_random_state

from skpolyode.panel import Panel

MIMIC_VARIABLES = (
    *("heart rate", "mean blood pressure", "diastolic blood pressure", "oxygen saturation"),
    *("respiratory rate", "glucose", "blood urea nitrogen", "white blood cell count"),
    *("temperature", "creatinine"),
)
_STAY = ["subject_id", "hadm_id", "icustay_id"]
_TABLES = {"vitals_labs": [*_STAY, "hours_in"], "patients": _STAY}
N_HOURS = 24
_MIN_HOURS = 30  # a stay counts if it is longer: the day that is read, a gap, and the outcome


def load_mimic_extract(
    path: str | PathLike[str],
    *,
    random_state: int | np.random.RandomState | None = None,
) -> Bunch:
    """Load the first 24 hours of MIMIC-III intensive care stays from a MIMIC-Extract file.

    Reads the file ``all_hourly_data.h5`` that you make, or obtain, under the data use agreement
    of MIMIC-III. The choices are those of the PolyODE paper: ten variables, hours 0 to 23 after
    admission, stays of more than 30 hours, in-hospital mortality as the label, and 70 / 10 / 20 %
    of the subjects for training, validation and test.

    Parameters
    ----------
    path : str or path-like
        The HDF5 file, written with grouping by ``LEVEL2`` (MIMIC-Extract's default). Its tables
        ``vitals_labs`` and ``patients`` are read; the first needs several GB of memory.
    random_state : int, RandomState instance or None, default=None
        Decides the split. Pass an int for reproducible parts.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel` of 10 channels; ids are ``icustay_id``; times
        in hours since admission; values are hourly means in clinical units, not observed where
        the hour has no measurement), ``y`` (int ndarray, 1 = died in hospital), ``groups``
        (ndarray, the subject of each stay, for grouped splits), ``split`` (str ndarray,
        ``"train"``, ``"validation"`` or ``"test"``; no subject is in two parts), ``center`` and
        ``scale`` (ndarrays of shape (10,): mean and standard deviation of the observed values of
        the training part, by which the paper standardises).

    Raises
    ------
    ImportError
        If PyTables, which reads HDF5, is not installed.
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is no readable HDF5, or a table, an index level, a variable or a column is
        missing.

    Notes
    -----
    Stays without any of the ten variables in the first 24 hours are left out.

    References
    ----------
    S. Wang et al., "MIMIC-Extract: a data extraction, preprocessing, and representation pipeline
    for MIMIC-III", CHIL (2020).
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f"no file {str(path)!r}: pass the path of MIMIC-Extract's all_hourly_data.h5."
        )
    tables = _read_tables(path)
    for name, levels in _TABLES.items():
        found = list(tables[name].index.names)
        if found != levels:
            raise ValueError(f"table {name!r} must be indexed by {levels}, got {found}.")
    vitals, patients = _select(tables["vitals_labs"], tables["patients"])
    stay = patients.index.get_indexer(vitals.index.droplevel("hours_in"))
    hours = vitals.index.get_level_values("hours_in").to_numpy(dtype=np.float64)
    order = np.lexsort((hours, stay))
    panel = Panel(
        hours[order],
        vitals.to_numpy(dtype=np.float64)[order],
        np.searchsorted(stay[order], np.arange(len(patients) + 1)),
        ids=patients.index.get_level_values("icustay_id").to_numpy(),
        channel_names=MIMIC_VARIABLES,
    )
    groups = patients.index.get_level_values("subject_id").to_numpy()
    subjects, subject = np.unique(groups, return_inverse=True)
    n_train, n_validation = round(0.7 * len(subjects)), round(0.1 * len(subjects))
    counts = [n_train, n_validation, len(subjects) - n_train - n_validation]
    parts = np.repeat(["train", "validation", "test"], counts)
    split = check_random_state(random_state).permutation(parts)[subject]
    seen = panel.values[(split == "train")[stay[order]]]
    return Bunch(
        panel=panel,
        y=patients["mort_hosp"].to_numpy(dtype=np.int64),
        groups=groups,
        split=split,
        center=channelwise(np.mean, seen),
        scale=channelwise(np.std, seen),
    )


def _read_tables(path: Path) -> dict[str, pd.DataFrame]:
    try:
        from tables.exceptions import HDF5ExtError
    except ImportError as error:
        raise ImportError(
            "load_mimic_extract reads HDF5 and needs PyTables, which is not a dependency of "
            "skpolyode: pip install tables"
        ) from error
    try:
        with pd.HDFStore(path, mode="r") as store:
            keys = [key.lstrip("/") for key in store.keys()]  # noqa: SIM118 (not a mapping)
            if missing := [name for name in _TABLES if name not in keys]:
                raise ValueError(f"{path} lacks the tables {missing}; it has {sorted(keys)}.")
            return {name: store[name] for name in _TABLES}
    except (HDF5ExtError, OSError) as error:
        raise ValueError(
            f"{path} is not a readable HDF5 file; is it truncated or of another format?"
        ) from error


def _select(vitals: pd.DataFrame, patients: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Hourly means with at least one measurement, and the stays, long enough, that have any."""
    if missing := [name for name in ("mort_hosp", "max_hours") if name not in patients.columns]:
        raise ValueError(
            f"table 'patients' lacks the columns {missing}; it has {list(patients.columns)}."
        )
    if not patients.index.is_unique:
        raise ValueError("table 'patients' must have one row for each stay, got repeated stays.")
    patients = patients[patients["max_hours"] > _MIN_HOURS]
    if not patients["mort_hosp"].isin([0, 1]).all():
        raise ValueError("column 'mort_hosp' of table 'patients' must hold 0 and 1 only.")
    patients = patients.sort_index()
    if vitals.columns.nlevels != 2:
        raise ValueError(
            "the columns of table 'vitals_labs' must have the two levels LEVEL2 and aggregation, "
            f"got {vitals.columns.nlevels}: run MIMIC-Extract with grouping by LEVEL2."
        )
    needed = [(name, kind) for name in MIMIC_VARIABLES for kind in ("mean", "count")]
    if missing := [column for column in needed if column not in vitals.columns]:
        raise ValueError(f"table 'vitals_labs' lacks the columns {missing}.")
    hours = vitals.index.get_level_values("hours_in")
    stays = vitals.index.droplevel("hours_in")
    vitals = vitals[(hours >= 0) & (hours < N_HOURS) & stays.isin(patients.index)]
    means = vitals[[(name, "mean") for name in MIMIC_VARIABLES]]
    counts = vitals[[(name, "count") for name in MIMIC_VARIABLES]]
    means = means.where(counts.to_numpy() > 0).dropna(how="all")
    if means.empty:
        raise ValueError(
            f"no stay of more than {_MIN_HOURS} hours has a measurement of {MIMIC_VARIABLES} in "
            f"its first {N_HOURS} hours: is this file complete?"
        )
    return means, patients[patients.index.isin(means.index.droplevel("hours_in"))]


def channelwise(statistic: Callable[[np.ndarray], float], values: np.ndarray) -> np.ndarray:
    """Statistic of the observed values of each channel; NaN where there are none."""
    observed = (column[~np.isnan(column)] for column in values.T)
    return np.array([statistic(column) if len(column) else np.nan for column in observed])
