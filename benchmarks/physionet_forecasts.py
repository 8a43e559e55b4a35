"""Forecasts of 12 000 intensive care stays (PhysioNet 2012), in two published protocols.

    python -m benchmarks.physionet_forecasts --data FOLDER                       # hours
    python -m benchmarks.physionet_forecasts --data FOLDER --splits 1 --only "24 to 24 h"
    python -m benchmarks.physionet_forecasts --data FOLDER --stays 1500 --rows PolyODE

FOLDER holds `physionet2012_all_long.parquet`: id, time in hours, channel and value of all stays of
sets a, b and c, with the descriptors Age, Gender, Height and ICUType at time 0.

- 24 to 24 h (t-PatchGNN's): a day is seen, the observations of the next are asked. Values are
  scaled to [0, 1] by the extremes of train and validation; 60 / 20 / 20 % of the stays. Squared
  errors (in thousandths) and absolute ones (in hundredths) are means over variables of means over
  cells.
- 36 h to 3 rows (GraFITi's): 36 hours are seen, the next three moments of observation are asked.
  Variables are standardised by the training part; 70 / 20 / 10 % of the stays. Squared errors are
  means over all cells.

Published numbers are of one split each, or of five that cannot be had; one split's error differs
from another's by more than published methods differ. So several splits are drawn here, and methods
are compared on the same. Descriptors are static covariates of PolyODE; published methods have them
as channels. With `--out` a result is kept in a file and not computed again.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.lines import heading, line
from benchmarks.real.forecasts import Fitted, Transformer
from benchmarks.real.part import Scores, kept
from benchmarks.real.questions import Ask, Questions, Seen, after, seen
from benchmarks.real.rivals import PANEL_RIVALS
from benchmarks.units import Units
from skpolyode import Panel
from skpolyode.panel.select import series_of_rows

DESCRIPTORS = ["Age", "Gender", "Height", "ICUType"]
PUBLISHED = {
    "24 to 24 h": {
        "MSE": {
            **{"VIMTS": 4.81, "GraFITi": 4.89, "t-PatchGNN": 4.98, "GRU-D": 5.59},
            **{"latent ODE": 6.05, "mTAND": 6.23, "Neural Flow": 7.20, "CRU": 8.56},
        },
        "MAE": {
            **{"VIMTS": 3.54, "GraFITi": 3.65, "t-PatchGNN": 3.72, "GRU-D": 4.08},
            **{"latent ODE": 4.23, "mTAND": 4.51, "Neural Flow": 4.67, "CRU": 5.16},
        },
    },
    "36 h to 3 rows": {
        "MSE": {
            **{"GraFITi": 0.286, "LinODENet": 0.299, "mTAN": 0.315, "Neural Flow": 0.326},
            **{"GRU-ODE-Bayes": 0.329, "CRU": 0.379},
        }
    },
}


def ranges(train: Panel, validation: Panel) -> np.ndarray:
    """From the least to the largest value (D,) of each variable."""
    values = np.concatenate([train.values, validation.values])
    return np.nanmax(values, axis=0) - np.nanmin(values, axis=0)


def deviations(train: Panel, _: Panel) -> np.ndarray:
    return np.nanstd(train.values, axis=0)


def mean_of_variables(power: int, unit: float) -> Callable[[np.ndarray], float]:
    """Mean over the variables that are asked for of the mean error of each."""

    def of(errors: np.ndarray) -> float:
        asked = ~np.isnan(errors).all(axis=0)
        return float(np.nanmean(np.abs(errors[:, asked]) ** power, axis=0).mean() / unit)

    return of


def mean_of_cells(errors: np.ndarray) -> float:
    return float(np.nanmean(errors**2))


def next_three_after(cut: float) -> Ask:
    """The first three rows after a time, from those up to it."""

    def ask(panel: Panel) -> Questions:
        questions = after(cut)(panel)
        first = np.full(panel.n_series, panel.n_observations)
        series = series_of_rows(panel)[questions.target]
        np.minimum.at(first, series, questions.target)
        return questions.at(questions.target - first[series] < 3)

    return ask


class Protocol(NamedTuple):
    ask: Ask
    shares: tuple[float, float]  # of the stays: train, validation
    unit: Callable[[Panel, Panel], np.ndarray]  # of errors (D,), from train and validation
    scores: dict[str, Callable[[np.ndarray], float]]


PROTOCOLS = {
    "24 to 24 h": Protocol(
        after(24.0),
        (0.6, 0.2),
        ranges,
        {"MSE": mean_of_variables(2, 1e-3), "MAE": mean_of_variables(1, 1e-2)},
    ),
    "36 h to 3 rows": Protocol(
        next_three_after(36.0), (0.7, 0.2), deviations, {"MSE": mean_of_cells}
    ),
}


class Split(NamedTuple):
    """Stays in standard deviations of the training part."""

    train: Panel
    validation: Panel
    test: Panel
    ask: Ask
    unit: np.ndarray  # (D,) of errors, in these deviations


def six_numbers(own: Seen) -> np.ndarray:
    """Last and second last value, mean, count, age of the last one, and a constant."""
    columns = [*own.values[:, :2].T, own.mean, np.log1p(own.count), np.log1p(own.ages[:, 0])]
    table = np.stack(columns, axis=1)
    table[:, 1] = np.where(np.isnan(table[:, 1]), table[:, 0], table[:, 1])
    return np.column_stack([table, np.ones(len(table))])


def least_squares(training: Questions, test: Questions) -> np.ndarray:
    """Least squares on `six_numbers`, for each variable; a mean where it was not seen."""
    result = np.zeros(test.truth.shape)
    for j in range(test.panel.n_channels):
        own, truth = six_numbers(seen(training, j)), training.truth[:, j]
        asked = six_numbers(seen(test, j))
        for is_known in (True, False):
            rows = (~np.isnan(own[:, 0]) == is_known) & ~np.isnan(truth)
            at = ~np.isnan(asked[:, 0]) == is_known
            if not rows.any():
                continue
            result[at, j] = truth[rows].mean()
            if is_known:
                result[at, j] = asked[at] @ np.linalg.lstsq(own[rows], truth[rows], rcond=None)[0]
    return result


METHODS: dict[str, Callable[[], Any]] = {
    "PolyODE": Transformer,
    "least squares": partial(Fitted, least_squares),
    "boosting": partial(Fitted, PANEL_RIVALS["boosting, causal features"]),
    "last value": partial(Fitted, PANEL_RIVALS["last value"]),
    "own mean": partial(Fitted, PANEL_RIVALS["own mean"]),
}


def read(folder: Path, n_stays: int | None) -> Panel:
    """Stays, with what describes a patient as static covariates; -1 there means not known."""
    long = pd.read_parquet(folder / "physionet2012_all_long.parquet")
    long = long.astype({"time": np.float64, "value": np.float64, "channel": str})
    if n_stays is not None:
        long = long[long["id"] < n_stays]
    describes = long["channel"].isin(DESCRIPTORS)
    own = long[describes].drop_duplicates(["id", "channel"])
    static = own.pivot(index="id", columns="channel", values="value")
    static = static.where(static >= 0).reindex(np.sort(long["id"].unique()))
    static["ICUType"] = static["ICUType"].map("type {:.0f}".format)
    rows = long[~describes].sort_values(["id", "time"])
    static = static.loc[rows["id"].unique()]
    names = {column: column for column in ("id", "time", "channel", "value")}
    return Panel.from_long(rows, **names, static=static)


def split_of(protocol: Protocol, panel: Panel, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(panel.n_series)
    cuts = np.round(np.cumsum(protocol.shares) * len(order)).astype(int)
    train, validation, test = (panel[np.sort(part)] for part in np.split(order, cuts))
    units, unit = Units.of(train), protocol.unit(train, validation)
    parts = map(units.standardised, (train, validation, test))
    return Split(*parts, protocol.ask, np.where(unit > 0, unit, 1.0) / units.scale)


def measure(name: str, split: Split, rows: list[str]) -> dict[str, Scores]:
    test, found = split.ask(split.test), {}
    for row in rows:
        start = time.process_time()
        model = METHODS[row]()
        model.fit(split.train, split.validation)
        errors = (model.answer(split.ask(split.train), test).mean - test.truth) / split.unit
        found[row] = {k: score(errors) for k, score in PROTOCOLS[name].scores.items()}
        found[row]["CPU s"] = time.process_time() - start
    return found


def report(name: str, found: pd.DataFrame) -> list[str]:
    """Lines of a table: mean and standard deviation over the splits, then what is published."""
    columns = [*PROTOCOLS[name].scores, "CPU s"]
    lines = heading([name, *columns])
    for row, own in found.groupby("row", sort=False):
        cells = [f"{own[c].mean():.3f} ± {own[c].std(ddof=0):.3f}" for c in columns[:-1]]
        lines.append(line([row, *cells, f"{own['CPU s'].mean():.0f}"]))
    for method in PUBLISHED[name]["MSE"]:
        cells = [f"{PUBLISHED[name][c][method]:g}" for c in columns[:-1]]
        lines.append(line([f"{method}, published", *cells, ""]))
    table = found.pivot(index="fold", columns="row", values="MSE")
    if {"PolyODE", "least squares"} <= set(table):
        wins = int((table["PolyODE"] < table["least squares"]).sum())
        lines += ["", f"PolyODE is better than least squares on {wins} of {len(table)} splits."]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with the table")
    parser.add_argument(
        "--only", nargs="+", metavar="PROTOCOL", choices=PROTOCOLS, default=list(PROTOCOLS)
    )
    parser.add_argument("--rows", nargs="+", metavar="ROW", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--stays", type=int, help="the first of them, for a quick look")
    parser.add_argument("--out", type=Path, help="folder of finished results")
    args = parser.parse_args()
    panel = read(args.data, args.stays)
    for name in args.only:
        splits = (split_of(PROTOCOLS[name], panel, seed) for seed in range(args.splits))
        scores = (kept(measure, name, *x, args.rows, args.out) for x in enumerate(splits))
        found = pd.DataFrame(itertools.chain(*scores))
        print("\n".join(report(name, found)), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
