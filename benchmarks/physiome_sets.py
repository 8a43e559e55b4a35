"""Physiome-ODE: fifty systems of biology, sampled irregularly, with published errors."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections import Counter
from os import PathLike
from pathlib import Path
from types import ModuleType

import joblib
import numpy as np
import pandas as pd
from scipy.integrate import ode
from sklearn.utils import Bunch

from skpolyode.panel import Panel

_N_ROWS = 100  # of a simulated series; all but the last are used
_SEEN = 0.5  # share of the time that is observed
_NOISE = 0.05
_KEPT = 0.2  # share of the cells
_N_ASKED = 10  # channels, those of largest score
_LARGEST = 10.0  # standard deviations; a series that goes further is left out
_DIVERGED = 1e15
_TRIES = 10
_PARTS = {"train": 0.7, "validation": 0.2, "test": 0.1}


def load_physiome(
    folder: str | PathLike[str],
    name: str,
    *,
    repository: str | PathLike[str] | None = None,
    fold: int = 0,
    n_series: int = 2000,
    n_jobs: int | None = None,
) -> Bunch:
    """Load a set of the benchmark Physiome-ODE from a folder, or make it from its equations.

    A set holds series of one physiological model with random initial values and constants. Each has
    99 rows at the times 0 to 98 / 99, standardised, with noise of .05, and a fifth of its cells is
    observed. Forecasting methods see the rows before .5 and forecast the observed cells of later
    rows, which are only of the ten channels that are hardest to forecast.

    Parameters
    ----------
    folder : str or path-like
        Holds ``NAME.parquet`` of each set (``NAME-fold1.parquet`` of the second fold, ...): a long
        table with the columns `id`, `row`, `channel`, `value` and `part`. Sets that are made are
        written there.
    name : str
        Name of the set, such as "LEN01".
    repository : str, path-like or None, default=None
        Your copy of the benchmark's repository, from which a set that `folder` lacks is made. Its
        Python files are executed. The largest models take a second a series and more.
    fold : int, default=0
        Number of the fold: the seed of the noise, the observed cells and the split.
    n_series : int, default=2000
        Number of series to make. A set that is read from a file has all of its series.
    n_jobs : int or None, default=None
        Processes that simulate, as in joblib.

    Returns
    -------
    Bunch
        ``panel`` (:class:`~skpolyode.panel.Panel`) and ``split`` (str ndarray: "train",
        "validation" or "test", 70, 20 and 10 % of the series).

    Raises
    ------
    FileNotFoundError
        If the folder lacks the set and no repository is given.
    ValueError
        If the repository has no such set, or a model cannot be integrated.

    Notes
    -----
    Series n is drawn and integrated as the benchmark does, by the seed n. Its folds depend on the
    order of files on a disk; ours are drawn anew, so that errors can be compared with published
    ones up to the differences of folds.

    References
    ----------
    C. Klötergens, V. K. Yalavarthi, M. Stubbemann and L. Schmidt-Thieme, "Physiome-ODE: a benchmark
    for irregularly sampled multivariate time series forecasting based on biological ODEs", ICLR
    2025.
    """
    folder = Path(folder)
    file = folder / (f"{name}-fold{fold}.parquet" if fold else f"{name}.parquet")
    if not file.is_file():
        if repository is None:
            raise FileNotFoundError(
                f"no file {str(file)!r}: pass the path of a copy of the benchmark's repository, "
                "from which the set can be made, as repository."
            )
        repository = Path(repository)
        system = _systems(repository).get(name)
        if system is None:
            raise ValueError(f"{repository} has no set {name!r}; see resources/Top50_final.csv.")
        clean_file = folder / f"{name}-{n_series}.npy"
        if not clean_file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            model = repository / "models" / system["domain"] / system["model"] / "model.py"
            parts = np.array_split(np.arange(n_series), max(1, n_series // 50))
            jobs = (joblib.delayed(_series_of)(model, system, part, n_series) for part in parts)
            clean = np.concatenate(joblib.Parallel(n_jobs)(jobs))  # (n_series, 100, D)
            np.save(clean_file, clean.astype(np.float32))
        scores = np.array(json.loads(system["channel_scores"]))
        asked = np.argsort(scores)[-_N_ASKED:]
        _sampled(np.load(clean_file), asked, np.random.default_rng(fold)).to_parquet(file)
    long = pd.read_parquet(file)
    parts = long.groupby("id")["part"].first().astype(str).replace("valid", "validation")
    long = long.assign(time=long["row"] / (_N_ROWS - 1), value=long["value"].astype(np.float64))
    long = long.sort_values(["id", "row"])
    panel = Panel.from_long(long, id="id", time="time", channel="channel", value="value")
    return Bunch(panel=panel, split=parts[panel.ids].to_numpy(dtype=str))


def _systems(repository: Path) -> dict[str, pd.Series]:
    """Systems of the benchmark by the names of their sets: three letters and a number."""
    file = repository / "resources" / "Top50_final.csv"
    if not file.is_file():
        raise FileNotFoundError(f"no file {str(file)!r}: is {repository} a copy of the benchmark?")
    seen, systems = Counter[str](), {}
    for _, system in pd.read_csv(file).iterrows():
        letters = system["model"].split("_")[0][:3].upper()
        seen[letters] += 1
        systems[f"{letters}{seen[letters]:02d}"] = system
    return systems


def _series_of(file: Path, system: pd.Series, numbers: np.ndarray, n_series: int) -> np.ndarray:
    """Some of the clean series (len(numbers), 100, D), of the model in a file."""
    spec = importlib.util.spec_from_file_location("physiome_model", file)
    model = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(model)
    return np.stack([_one_series(model, system, int(n), n_series) for n in numbers])


def _one_series(model: ModuleType, system: pd.Series, number: int, n_series: int) -> np.ndarray:
    """A series (100, D) of one draw, from a random moment of twice as many rows on."""
    times = np.linspace(0.0, system["T"], 2 * _N_ROWS)
    for attempt in range(_TRIES):
        rng = np.random.RandomState(number + attempt * n_series)
        starts, constants = model.initConsts()
        drawn = [
            [rng.uniform(x * (1 - spread), x * (1 + spread)) for x in values]
            for values, spread in (
                (starts, system["d_states"]),
                (constants, system["d_constants"]),
            )
        ]
        states = _integrated(model, *drawn, times)
        if states is None:
            continue
        first = rng.randint(0, _N_ROWS)
        rows = states[first : first + _N_ROWS]
        if np.isfinite(rows).all() and np.abs(rows).max() <= _DIVERGED:
            return rows
    raise ValueError(f"series {number} of {system['model']} could not be integrated.")


def _integrated(
    model: ModuleType, start: list[float], constants: list[float], times: np.ndarray
) -> np.ndarray | None:
    """States (len(times), D), zero after the solver gave up; None if it, or the model, failed."""
    solver = ode(model.computeRates)
    solver.set_integrator("lsoda", atol=1e-6, rtol=1e-6, max_step=1)
    solver.set_initial_value(start, times[0]).set_f_params(constants)
    states = np.zeros((len(times), len(start)))
    states[0] = start
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for k, time in enumerate(times[1:], start=1):
                if not solver.successful():
                    break
                states[k] = solver.integrate(time)
    except Exception:  # of equations that are not ours: roots of negative numbers, overflows, ...
        return None
    return states


def _sampled(clean: np.ndarray, asked: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
    """Long table of what is kept of clean series (B, 100, D), standardised and with noise."""
    values = clean[:, : _N_ROWS - 1].astype(np.float64)
    values = (values - values.mean(axis=(0, 1))) / values.std(axis=(0, 1))
    values = values[(np.abs(values) <= _LARGEST).all(axis=(1, 2))]
    n, n_rows, n_channels = values.shape
    values += _NOISE * rng.standard_normal(values.shape)
    kept = rng.random(values.shape) < _KEPT
    later = np.arange(n_rows) / (_N_ROWS - 1) > _SEEN
    kept &= ~later[:, None] | np.isin(np.arange(n_channels), asked)
    ends = np.round(np.cumsum(list(_PARTS.values())) * n).astype(int)
    part = np.repeat(list(_PARTS), np.diff(ends, prepend=0))[rng.permutation(n)]
    series, row, channel = np.nonzero(kept)
    columns = {"id": series, "row": row, "channel": channel, "value": values[kept]}
    return pd.DataFrame(columns | {"part": part[series]})
