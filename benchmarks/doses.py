"""Concentrations of real patients under their doses: phenobarbital and quinidine.

    python -m benchmarks.doses --data FOLDER [--seeds 0 1 2] [--only Phenobarb]

FOLDER holds `Phenobarb.csv` (59 newborns, 155 concentrations, 589 doses) and `Quinidine.csv` (136
patients, 361 concentrations, 1028 doses): routine data of hospitals that ship with the R package
nlme, as the collection Rdatasets writes them. A dose that is said to have been repeated at an
interval stands for ten of them, an interval apart.

The patients are dealt into five folds by each seed. Each concentration of a test patient but the
first is forecast from those before it, and from all doses up to its time.

- driven: `PolyODETransformer`, its defaults, given the doses in mg per kg of weight.
- alone: the same one without doses.
- compartment: the pharmacologist's model. The drug is absorbed (quinidine) and eliminated in first
  order; volume and clearance by weight are lognormal. What is common is estimated from the
  training patients, and what is a patient's own from its concentrations so far, at the maximum of
  the posterior.
- last value, and the mean of the training concentrations.

Prints root mean squared errors in mg/l, means over folds and seeds, and seconds of a fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import least_squares
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold

from benchmarks.lines import heading, line
from benchmarks.real.forecasts import ahead
from benchmarks.real.questions import Questions, one_step
from skpolyode import Inputs, Panel, PolyODETransformer

REPEATED = 10
ABSORBED = {"Phenobarb": False, "Quinidine": True}
WEIGHT = {"Phenobarb": "Wt", "Quinidine": "Weight"}


class Patient(NamedTuple):
    t: np.ndarray
    level: np.ndarray  # of the concentration at t
    taken: np.ndarray  # times of the doses
    dose: np.ndarray  # by weight


def patients(folder: Path, name: str) -> list[Patient]:
    table = pd.read_csv(folder / f"{name}.csv")
    interval = table.get("interval", pd.Series(np.nan, table.index))
    found = []
    for _, own in table.assign(interval=interval.fillna(0.0)).groupby("Subject"):
        levels = own[own.conc.notna()].groupby("time").conc.mean()
        doses = own[own.dose.notna()].sort_values("time")
        repeats = [
            (row.time - k * row.interval, row.dose)
            for row in doses.itertuples()
            for k in range(REPEATED if row.interval else 1)
        ]
        taken, dose = np.array(sorted(repeats)).reshape(-1, 2).T
        parts = levels.index.to_numpy(float), levels.to_numpy(), taken
        found.append(Patient(*parts, dose / own[WEIGHT[name]].iloc[0]))
    return [own for own in found if len(own.t)]


def panel_of(some: list[Patient], driven: bool) -> Panel:
    inputs = doses_of(some) if driven else None
    levels = [(own.t, own.level) for own in some]
    return Panel.from_series(levels, channel_names=["level"], inputs=inputs)


def doses_of(some: list[Patient]) -> Inputs:
    rows = []
    for own in some:  # doses of one moment are one
        taken, place = np.unique(own.taken, return_inverse=True)
        rows.append((taken, np.bincount(place, own.dose)))
    return Inputs(Panel.from_series(rows, channel_names=["dose"], empty="keep"), "impulse")


class Compartment:
    """One compartment; a lognormal volume and clearance a patient, as far as they show."""

    def __init__(self, absorbed: bool) -> None:
        self.absorbed = absorbed

    def curve(self, own: Patient, common: np.ndarray, factors: np.ndarray) -> np.ndarray:
        """Concentrations at all times of a patient."""
        volume, clearance = np.exp(common[:2] + factors)
        since = own.t[:, None] - own.taken
        rate, past = clearance / volume, np.maximum(since, 0.0)
        curves = np.exp(-rate * past)
        if self.absorbed:
            absorbed = np.exp(common[2])
            curves = (curves - np.exp(-absorbed * past)) * absorbed / (absorbed - rate + 1e-9)
        return (curves * (since >= 0)) @ own.dose / volume

    def fit(self, train: list[Patient]) -> Compartment:
        """Common parameters and factors in turn; spreads and noise from what is left."""
        self.common, self.spread = np.array([0.0, -4.0, 0.0])[: 2 + self.absorbed], np.full(2, 0.3)
        factors = [np.zeros(2) for _ in train]

        def pooled(common: np.ndarray, factors: list[np.ndarray]) -> np.ndarray:
            pairs = zip(train, factors, strict=True)
            return np.concatenate([own.level - self.curve(own, common, b) for own, b in pairs])

        for _ in range(10):
            fit = least_squares(pooled, self.common, args=(factors,), loss="soft_l1")
            self.common, self.noise = fit.x, np.sqrt(np.mean(pooled(fit.x, factors) ** 2))
            factors = [self.factors(own, len(own.t)) for own in train]
            self.spread = np.clip(np.std(factors, axis=0), 0.05, 1.0)
        return self

    def factors(self, own: Patient, n_known: int) -> np.ndarray:
        """At the maximum of the posterior given the first concentrations."""
        known = own._replace(t=own.t[:n_known], level=own.level[:n_known])

        def left(b: np.ndarray) -> np.ndarray:
            errors = known.level - self.curve(known, self.common, b)
            return np.concatenate([errors / self.noise, b / self.spread])

        return least_squares(left, np.zeros(2)).x

    def answer(self, some: list[Patient]) -> np.ndarray:
        """One concentration ahead."""
        found = []
        for own in some:
            for row in range(1, len(own.t)):
                found.append(self.curve(own, self.common, self.factors(own, row))[row])
        return np.array(found)


def squares(name: str, train: list[Patient], test: list[Patient], seed: int) -> dict[str, tuple]:
    """Mean squared error and seconds of each row."""
    asked = one_step(panel_of(test, driven=True))
    truth = asked.truth[:, 0]
    found = {}
    for row in ("driven", "alone"):
        start = time.perf_counter()
        model = PolyODETransformer(random_state=seed).fit(panel_of(train, row == "driven"))
        seconds = time.perf_counter() - start
        questions = Questions(panel_of(test, row == "driven"), asked.origin, asked.target)
        found[row] = ahead(model, questions)[:, 0], seconds
    start = time.perf_counter()
    expert = Compartment(ABSORBED[name]).fit(train)
    found["compartment"] = expert.answer(test), time.perf_counter() - start
    found["last value"] = asked.panel.values[asked.origin, 0], 0.0
    found["mean"] = np.full(len(truth), np.mean(np.concatenate([own.level for own in train]))), 0.0
    return {row: (np.mean((own - truth) ** 2), own_s) for row, (own, own_s) in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the tables")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", choices=ABSORBED, default=list(ABSORBED))
    args = parser.parse_args()
    print(*heading(["set", "forecast", "root mean squared error, mg/l", "fit, s"]), sep="\n")
    for name in args.only:
        everyone, results = patients(args.data, name), []
        for seed in args.seeds:
            for train, test in KFold(5, shuffle=True, random_state=seed).split(everyone):
                parts = [everyone[k] for k in train], [everyone[k] for k in test]
                results.append(squares(name, *parts, seed))
        for row in results[0]:
            square, seconds = np.mean([own[row] for own in results], axis=0)
            print(line([name, row, f"{np.sqrt(square):.2f}", f"{seconds:.1f}"]), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)  # said of parts with few patients
    warnings.filterwarnings("ignore", message=".*no input is known after")  # there was no dose
    main()
