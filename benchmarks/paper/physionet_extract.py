"""The ten variables of the paper's table on MIMIC-III, from stays that anybody may download."""

from __future__ import annotations

from os import PathLike

import numpy as np
import pandas as pd
from sklearn.utils import Bunch, check_random_state

from benchmarks.paper.mimic_extract import MIMIC_VARIABLES, N_HOURS, channelwise
from skpolyode.datasets import load_physionet2012
from skpolyode.panel import Panel

# In the order of MIMIC_VARIABLES. Of pressures the first one that was measured in an hour counts:
# invasive ones before those of a cuff.
SOURCES = (
    *(("HR",), ("MAP", "NIMAP"), ("DiasABP", "NIDiasABP"), ("SaO2",), ("RespRate",)),
    *(("Glucose",), ("BUN",), ("WBC",), ("Temp",), ("Creatinine",)),
)
OUTLYING = 0.001  # share of the values of the training part, at either end, that are clipped


def load_physionet_vitals(
    path: str | PathLike[str], *, random_state: int | np.random.RandomState | None = None
) -> Bunch:
    """Load hourly means of the first 24 hours of the stays of PhysioNet 2012, set a.

    Everything is as in :func:`load_mimic_extract`, whose choices are the paper's: ten variables,
    death in hospital as the label, and 70 / 10 / 20 % of the stays for training, validation and
    test. All stays are of 48 hours or more. Values outside the 0.1 % and 99.9 % quantiles of the
    training part, among which are typing errors, are set to these.

    Parameters
    ----------
    path : str or path-like
        Folder with ``set-a`` and ``Outcomes-a.txt``, as
        :func:`skpolyode.datasets.load_physionet2012` reads it. Both are at
        https://physionet.org/content/challenge-2012.
    random_state : int, RandomState instance or None, default=None
        Decides the split.

    Returns
    -------
    Bunch
        ``panel``, ``y``, ``groups``, ``split``, ``center`` and ``scale``, as of
        :func:`load_mimic_extract`.

    Raises
    ------
    FileNotFoundError
        If the folder of the set or its outcome file is not there.
    """
    data = load_physionet2012(path, subset="a")
    hours = _hourly(data.panel)
    stays = hours.index.get_level_values("stay").to_numpy()
    kept, starts = np.unique(stays, return_index=True)
    n_train, n_validation = round(0.7 * len(kept)), round(0.1 * len(kept))
    counts = [n_train, n_validation, len(kept) - n_train - n_validation]
    parts = np.repeat(["train", "validation", "test"], counts)
    split = check_random_state(random_state).permutation(parts)
    in_training = np.repeat(split == "train", np.diff([*starts, len(stays)]))
    values = hours.to_numpy()
    seen = values[in_training]
    low, high = np.nanquantile(seen, [OUTLYING, 1 - OUTLYING], axis=0)
    values, seen = values.clip(low, high), seen.clip(low, high)
    panel = Panel(
        hours.index.get_level_values("hour").to_numpy(dtype=np.float64),
        values,
        np.append(starts, len(stays)),
        ids=data.panel.ids[kept],
        channel_names=MIMIC_VARIABLES,
    )
    return Bunch(
        panel=panel,
        y=data.y[kept],
        groups=data.panel.ids[kept],
        split=split,
        center=channelwise(np.mean, seen),
        scale=channelwise(np.std, seen),
    )


def _hourly(panel: Panel) -> pd.DataFrame:
    """Means by stay (a position in the panel) and hour of the first day, where any was measured."""
    names = [name for sources in SOURCES for name in sources]
    known = panel.select_channels(names)
    table = pd.DataFrame(known.values, columns=names)
    table["stay"] = np.repeat(np.arange(panel.n_series), panel.lengths)
    table["hour"] = np.floor(panel.times).astype(int)
    means = table[table["hour"] < N_HOURS].groupby(["stay", "hour"]).mean()
    columns = {
        name: means[list(sources)].bfill(axis=1).iloc[:, 0]
        for name, sources in zip(MIMIC_VARIABLES, SOURCES, strict=True)
    }
    return pd.DataFrame(columns).dropna(how="all")
