"""Regular single series and hourly loads: statsforecast beside forecasters of this package.

    python -m benchmarks.peers_code.single                                 # half an hour
    python -m benchmarks.peers_code.single --only airline --rows AutoETS

Airline, lynx and uschange come with sktime: trained on the first 50, 60, ..., 90 %, asked from each
row of the next tenth, as in `benchmarks.real`; models of statsforecast are fitted anew at each of
these rows, to each channel. Loads are those of `benchmarks.seasons` (five buildings, three weeks,
the last 48 hours are asked) with a day and a week, smooth or sharp at midnight, and "daily" ones
with a day alone; a seed is a draw of them. statsforecast is told the lengths of seasons, ours finds
them unless its row says "told". Errors are squares in variances of the training part.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.peers_code.rows import Adapter, Command, Run, main
from benchmarks.real.forecasts import scored
from benchmarks.real.part import Scores
from benchmarks.real.questions import after
from benchmarks.real.sets import SETS, Fold, Task, variances
from benchmarks.seasons import AHEAD, HOURS, N_BUILDINGS, buildings
from skpolyode import Panel

LOADS = {"daily": [24], "smooth": [24, 168], "sharp": [24, 168]}
N_FOLDS = 5


class Single(NamedTuple):
    tasks: list[Task]
    folds: list[Fold]
    seasons: list[int]  # in rows


def daily_loads(rng: np.random.Generator) -> np.ndarray:
    """Loads (5, 504) with the peak of `buildings`, the same on all days."""
    peak, size, base = rng.uniform([10, 0.7, 1], [16, 1.4, 3], (N_BUILDINGS, 3)).T[:, :, None]
    day = np.exp(2 * (np.cos(2 * np.pi * (HOURS % 24 - peak) / 24) - 1))
    return base + size * (day + 0.1 * rng.standard_normal(day.shape))


def load(name: str, folder: Path, seed: int) -> Single:
    if name not in LOADS:
        own = SETS[name]
        return Single(own.tasks, list(own.folds(folder, N_FOLDS)), [own.season])
    rng = np.random.default_rng(seed)
    x = daily_loads(rng) if name == "daily" else buildings(name, rng)
    train, whole = (
        Panel.from_series([(HOURS[:n], own[:n]) for own in x]) for n in (len(HOURS) - AHEAD, None)
    )
    task = Task("48 h", after(HOURS[-AHEAD - 1]), {"48 h": variances})
    return Single([task], [Fold(train, whole)], LOADS[name])


def measure(adapter: Adapter, data: Single, run: Run) -> Scores:
    found = [scored(data.tasks, adapter(data, run), fold) for fold in data.folds]
    names = [score for task in data.tasks for score in task.scores]
    return {name: float(np.mean([own[name] for own in found])) for name in names}


ADAPTERS = {
    "PolyODEForecaster()": "ours:forecaster",
    "PolyODEForecaster(period=...), told": "ours:told_forecaster",
    "StructuralForecaster()": "ours:structural",
    "StructuralForecaster(period=...), told": "ours:told_structural",
    "AutoETS": "nixtla:ets",
    "AutoARIMA": "nixtla:arima",
    "MSTL": "nixtla:mstl",
    "seasonal naive": "nixtla:naive",
}
COMMAND = Command(
    "benchmarks.peers_code.single",
    __doc__,
    load,
    measure,
    {
        "airline": list(ADAPTERS),
        "lynx": list(ADAPTERS),
        "uschange": list(ADAPTERS),
        **{name: [row for row in ADAPTERS if row != "AutoARIMA"] for name in LOADS},
    },
    ADAPTERS,
)

if __name__ == "__main__":
    main(COMMAND)
