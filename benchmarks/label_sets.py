"""Series with labels: stays, storms, patients, engines, speakers, shapes and simulated systems."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

from benchmarks.degradation import engines
from benchmarks.real.sets import SETS, load_challenge
from skpolyode import Panel
from skpolyode.datasets import (
    drop_cells,
    load_japanese_vowels,
    make_lorenz63,
    make_lorenz96,
    make_synthetic,
)
from skpolyode.panel.select import keep_rows, take

HURRICANE = 64.0  # knots
WINDOW = 24.0  # hours of a storm that are known
YEAR = 365.25  # days
NEAR, CUTS, EARLIEST = 30, 3, 60  # engines: cycles to the end, windows of each, cycles before


class Labelled(NamedTuple):
    panel: Panel  # with static covariates, if any
    y: np.ndarray  # classes, or numbers
    groups: np.ndarray | None = None

    def at(self, part: np.ndarray) -> Labelled:
        groups = None if self.groups is None else self.groups[part]
        return Labelled(self.panel[part], self.y[part], groups)


class Fold(NamedTuple):
    train: Labelled
    test: Labelled


def with_static(panel: Panel, static: pd.DataFrame) -> Panel:
    return Panel(
        panel.times,
        panel.values,
        panel.offsets,
        ids=panel.ids,
        channel_names=panel.channel_names,
        static=static.loc[panel.ids],
    )


def physionet(folder: Path) -> Labelled:
    """Set a of the challenge: who dies in hospital, from the first 48 hours on the ward."""
    data = load_challenge(folder)
    return Labelled(data.panel, data.y)


def eicu(folder: Path) -> Labelled:
    """Who dies, from ten variables of the first day."""
    panel, table = SETS["eicu"].load(folder), pd.read_parquet(folder / "eicu_mort_y.parquet")
    panel = with_static(panel, table[["age", "sex", "height", "weight"]])
    return Labelled(panel, table["y"].loc[panel.ids].to_numpy())


def storms(folder: Path) -> Labelled:
    """Whether a storm will be a hurricane, from its first day.

    The label is read off the wind itself. So only the rows of the first 24 hours are used, and
    storms that were hurricanes by then, or were over, are left out.
    """
    panel = SETS["storms"].load(folder)
    table = pd.read_parquet(folder / "storms_y.parquet").loc[panel.ids, ["month", "year"]]
    wind = panel.values[:, panel.channel_names.index("wind")]
    early, strong = panel.times <= WINDOW, wind >= HURRICANE
    starts = panel.offsets[:-1]
    already, ever, later = (
        np.logical_or.reduceat(rows, starts) for rows in (strong & early, strong, ~early)
    )
    kept = np.flatnonzero(~already & later)
    panel = keep_rows(with_static(panel, table[["month"]]), early)[kept]
    return Labelled(panel, ever[kept].astype(int))


def strongest_wind(folder: Path) -> Labelled:
    """The strongest wind that a storm will have, from its first day."""
    labelled = storms(folder)
    table = pd.read_parquet(folder / "storms_y.parquet")
    return Labelled(labelled.panel, table["maxwind"].loc[labelled.panel.ids].to_numpy(float))


def cirrhosis(folder: Path) -> Labelled:
    """Who dies in the two years after the second year, of those whose two years are known."""
    panel = SETS["pbcseq"].load(folder)
    table = pd.read_parquet(folder / "pbcseq_y.parquet").loc[panel.ids]
    alive, dies = table["futime"] > 2 * YEAR, table["status"] == 2
    soon = table["futime"] <= 4 * YEAR
    kept = np.flatnonzero(alive & (dies | ~soon))
    panel = with_static(panel, table[["age", "sex", "trt"]])
    panel = keep_rows(panel, panel.times <= 2 * YEAR)[kept]
    return Labelled(panel, (dies & soon).to_numpy()[kept].astype(int))


def remaining_life(folder: Path) -> Labelled:
    """Cycles that an engine of FD001 still runs, from what 14 sensors showed until then."""
    series = engines(folder / "turbofan", channels=None)
    panel = Panel.from_series([(np.arange(len(x), dtype=float), x) for x in series])
    rng, each = np.random.default_rng(0), np.repeat(np.arange(len(series)), CUTS)
    length = panel.lengths[each]
    stop = (EARLIEST + rng.random(len(each)) * (length - EARLIEST)).astype(int)
    start = panel.offsets[each]
    return Labelled(take(panel, each, start, start + stop), (length - stop).astype(float), each)


def failing(folder: Path) -> Labelled:
    """Whether an engine of FD001 fails within 30 cycles."""
    labelled = remaining_life(folder)
    return labelled._replace(y=(labelled.y <= NEAR).astype(int))


def vowels(_: Path) -> Labelled:
    parts = [load_japanese_vowels(part) for part in ("train", "test")]
    series = [(own.times, own.values) for part in parts for own in part.panel]
    return Labelled(Panel.from_series(series), np.concatenate([part.y for part in parts]))


def of_sktime(loader: str, _: Path) -> Labelled:
    import sktime.datasets

    X, y = getattr(sktime.datasets, loader)(return_X_y=True, return_type="numpy3D")
    return Labelled(Panel.from_sktime(X), np.asarray(y))


def simulated(make: Callable, rate: float, n_series: int, _: Path) -> Labelled:
    """The paper's systems; the label is the sign of a state at time 6 that is not observed."""
    data = make(n_series, rate=rate, random_state=0)
    return Labelled(data.panel, data.y)


def periods(_: Path) -> Labelled:
    """300 noisy oscillations of any phase; a third have a period of 1 in place of 1.25."""
    rng, series = np.random.default_rng(0), []
    y = np.arange(300) % 3 == 0
    for quick in y:
        times = np.sort(rng.uniform(0, 10, rng.integers(30, 60)))
        angle = 2 * np.pi * times / (1.0 if quick else 1.25) + rng.uniform(0, 2 * np.pi)
        values = np.sin(angle) + 0.5 * rng.standard_normal(len(times))
        series.append((times, values + rng.normal()))
    return Labelled(Panel.from_series(series), y.astype(int))


def hidden(load: Callable[[Path], Labelled], share: float, folder: Path) -> Labelled:
    """The same without a share of the cells."""
    labelled = load(folder)
    return labelled._replace(panel=drop_cells(labelled.panel, share, random_state=0)[0])


gun_point = partial(of_sktime, "load_gunpoint")
power = partial(of_sktime, "load_italy_power_demand")
CLASSES: dict[str, Callable[[Path], Labelled]] = {
    "eICU, death": eicu,
    "PhysioNet 2012 a, death": physionet,
    "storms, hurricane later": storms,
    "pbcseq, death in two years": cirrhosis,
    "FD001, fails in 30 cycles": failing,
    "JapaneseVowels, half": partial(hidden, vowels, 0.5),
    "ItalyPowerDemand": power,
    "ItalyPowerDemand, half": partial(hidden, power, 0.5),
    "GunPoint, 70 % dropped": partial(hidden, gun_point, 0.7),
    "ArrowHead, half": partial(hidden, partial(of_sktime, "load_arrow_head"), 0.5),
    "BasicMotions, 70 % dropped": partial(hidden, partial(of_sktime, "load_basic_motions"), 0.7),
    "Synthetic": partial(simulated, make_synthetic, 0.7, 500),
    "Lorenz63": partial(simulated, make_lorenz63, 0.3, 1000),
    "Lorenz96": partial(simulated, make_lorenz96, 0.3, 500),
    "period": periods,
}
NUMBERS: dict[str, Callable[[Path], Labelled]] = {
    "storms, strongest wind": strongest_wind,
    "FD001, remaining life": remaining_life,
}


def folds(name: str, folder: Path) -> Iterator[Fold]:
    """Five folds, in which classes are equally frequent; a group is tested as one."""
    labelled = (CLASSES | NUMBERS)[name](folder)
    deal = {"n_splits": 5, "shuffle": True, "random_state": 0}
    kind = KFold(**deal) if name in NUMBERS else StratifiedKFold(**deal)
    if labelled.groups is not None:
        kind = StratifiedGroupKFold(**deal)
    strata = labelled.y > np.median(labelled.y) if name in NUMBERS else labelled.y
    for train, test in kind.split(strata, strata, labelled.groups):
        yield Fold(labelled.at(train), labelled.at(test))
