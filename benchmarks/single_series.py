"""`PolyODEForecaster()` on single short series, beside the best simple rival in hindsight.

    python -m benchmarks.single_series                         # all: a quarter of an hour
    python -m benchmarks.single_series --only walk nile        # some
    python -m benchmarks.single_series --folds 2 --jobs 2

Series are simulated (two seeds; some once more with 30 % of the rows dropped) or come with sktime
and statsmodels, which has to be installed. Airline, lynx and uschange are not among them: they are
reported by `python -m benchmarks.real`, and nothing is chosen by them.

Trained on the first 50, 60, ..., 90 %, asked from each row of the next tenth. A cell is the squared
error over that of the best of the rivals at these rows ahead, and which it is: last value, mean so
far, drift, seasonal naive, and exponential smoothing with a damped trend (and a season;
statsmodels, fitted anew at each origin). Rivals know the season, PolyODE has to find it, and they
see the rows that were dropped as lines between their neighbours. The last column is the share of
values inside the interval of 90 %.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import joblib
import numpy as np
import torch

from benchmarks.lines import heading, line
from skpolyode import Panel
from skpolyode.forecasting import PolyODEForecaster

GROUPS = {"1": (1, 1), "2 to 4": (2, 4), "5 to 12": (5, 12)}
AHEAD = np.arange(1, 13)
ROWS = 120
DROPPED = 0.3
SEASON = 12


class Single(NamedTuple):
    """A series on whole numbers; NaN where a row was dropped."""

    values: np.ndarray
    season: int  # of rows; 1 if none


def autoregressive(share: float, steps: np.ndarray) -> np.ndarray:
    values = steps.copy()
    for k in range(1, len(values)):
        values[k] += share * values[k - 1]
    return values


def cycle(rng: np.random.Generator) -> np.ndarray:
    """A damped oscillation of nine rows that is kicked along."""
    turn, states = 0.97 * np.exp(2j * np.pi / 9), np.zeros(ROWS, dtype=complex)
    for k in range(1, ROWS):
        states[k] = turn * states[k - 1] + complex(*rng.standard_normal(2))
    return states.real


def simulated(seed: int) -> dict[str, Single]:
    rng, t = np.random.default_rng(seed), np.arange(ROWS)
    wave = np.sin(2 * np.pi * t / SEASON) + 0.5 * np.cos(4 * np.pi * t / SEASON + 1)
    signals: dict[str, tuple[Callable[[np.ndarray], np.ndarray], int]] = {
        "noise": (lambda e: e, 1),
        "walk": (np.cumsum, 1),
        "AR(1) 0.5": (lambda e: autoregressive(0.5, e), 1),
        "AR(1) 0.9": (lambda e: autoregressive(0.9, e), 1),
        "trend": (lambda e: 0.05 * t + e, 1),
        "damped trend": (lambda e: 10 * (1 - np.exp(-t / 30)) + e / 2, 1),
        "season": (lambda e: 2 * wave + e, SEASON),
        "trend and season": (lambda e: 0.05 * t + 2 * wave + e, SEASON),
        "walk and season": (lambda e: np.cumsum(e) + 3 * wave, SEASON),
        "multiplied season": (lambda e: np.exp(3 + 0.015 * t + 0.3 * wave + 0.08 * e), SEASON),
        "cycle": (lambda _: cycle(rng), 9),
    }
    found = {}
    for name, (signal, season) in signals.items():
        values = np.asarray(signal(rng.standard_normal(ROWS)), dtype=np.float64)
        found[f"{name}, {seed}"] = Single(values, season)
        if name not in ("noise", "trend", "AR(1) 0.5"):
            dropped = np.where(rng.random(ROWS) < DROPPED, np.nan, values)
            found[f"{name}, {seed}, irregular"] = Single(dropped, season)
    return found


def real() -> dict[str, Single]:
    import sktime.datasets
    from statsmodels import datasets

    def table(name: str):
        return getattr(datasets, name).load_pandas().data

    macro, rates, danish = table("macrodata"), table("interest_inflation"), table("danish_data")
    months = table("elnino").drop(columns="YEAR").to_numpy().ravel()
    co2 = table("co2")["co2"].resample("MS").mean()
    found = {
        "shampoo": (sktime.datasets.load_shampoo_sales(), 12),
        "PBS": (sktime.datasets.load_PBS_dataset(), 12),
        "nile": (table("nile")["volume"], 1),
        "sunspots": (table("sunspots")["SUNACTIVITY"].iloc[-150:], 11),
        "co2": (co2.iloc[-150:], 12),
        "elnino": (months[-150:], 12),
        "inflation": (rates["Dp"], 4),
        "bond rate": (rates["R"], 1),
        "danish money": (danish["lrm"], 1),
        "GDP": (macro["realgdp"].iloc[-150:], 4),
        "US inflation": (macro["infl"].iloc[-150:], 4),
        "unemployment": (macro["unemp"].iloc[-150:], 4),
        "T-bill rate": (macro["tbilrate"].iloc[-150:], 4),
    }
    return {
        name: Single(np.asarray(x, dtype=np.float64).ravel(), season)
        for name, (x, season) in found.items()
    }


def rivals(past: np.ndarray, season: int) -> dict[str, np.ndarray]:
    """Forecasts (12,) from rows without gaps."""
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    last, n = past[-1], len(past)
    found = {"last": np.full(12, last), "mean": np.full(12, past.mean())}
    found["drift"] = last + AHEAD * (last - past[0]) / max(n - 1, 1)
    options = {}
    if season > 1:
        found["seasonal"] = past[n - 1 + AHEAD - season * -(-AHEAD // season)]
    if 1 < season <= n // 2:
        options = {"seasonal": "add", "seasonal_periods": season}
    model = ExponentialSmoothing(
        past, trend="add", damped_trend=True, initialization_method="estimated", **options
    )
    return found | {"smoothing": np.asarray(model.fit().forecast(12))}


def of_fold(series: Single, start: int, stop: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Squared errors (O, 12) of each method, and whether values are inside the interval (O, 12)."""
    rows = np.flatnonzero(~np.isnan(series.values))
    values = series.values[rows]

    def panel(n: int) -> Panel:
        return Panel(rows[:n].astype(np.float64), values[:n, None], [0, n])

    def whole(last: int) -> np.ndarray:
        return np.interp(np.arange(rows[0], rows[last] + 1), rows, values)

    model = PolyODEForecaster(random_state=0).pretrain(panel(start))
    pasts = [panel(last + 1)[0] for last in range(start - 1, stop - 1)]
    asked = rows[start - 1 : stop - 1, None] + AHEAD
    found = model.forecast_quantiles(pasts, list(asked.astype(float)), [0.05, 0.5, 0.95])
    low, mean, high = (own.values.reshape(asked.shape) for own in found.values())
    padded = np.append(series.values, np.full(len(AHEAD), np.nan))
    truth = padded[asked]
    inside = np.where(np.isnan(truth), np.nan, (low <= truth) & (truth <= high))
    errors = {"PolyODE": (mean - truth) ** 2}
    others = [rivals(whole(last), series.season) for last in range(start - 1, stop - 1)]
    for name in others[0]:
        errors[name] = (np.stack([own[name] for own in others]) - truth) ** 2
    return errors, inside


def compared(series: Single, n_folds: int) -> tuple[dict[str, tuple[float, str]], float]:
    """For each group of leads the error over the best rival's and which it is; coverage."""
    torch.set_num_threads(1)
    n_rows = int((~np.isnan(series.values)).sum())
    cuts = (n_rows * np.linspace(0.5, 1.0, 6)).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = [of_fold(series, *fold) for fold in list(pairwise(cuts))[-n_folds:]]
    errors = {name: np.concatenate([e[name] for e, _ in folds]) for name in folds[0][0]}
    cells = {}
    for group, (low, high) in GROUPS.items():
        means = {name: np.nanmean(e[:, low - 1 : high]) for name, e in errors.items()}
        mine = means.pop("PolyODE")
        best = min(means, key=means.get)
        cells[group] = float(mine / means[best]), best
    return cells, float(np.nanmean(np.concatenate([inside for _, inside in folds])))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", metavar="SERIES", default=[""], help="starts of names")
    parser.add_argument("--folds", type=int, choices=range(1, 6), default=5)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    kinds = {"simulated": simulated(0) | simulated(1), "real": real()}
    if not any(name.startswith(tuple(args.only)) for every in kinds.values() for name in every):
        parser.error(f"no series is called {args.only}: choose of {[*map(list, kinds.values())]}")
    for kind, every in kinds.items():
        chosen = {n: s for n, s in every.items() if n.startswith(tuple(args.only))}
        if not chosen:
            continue
        jobs = (joblib.delayed(compared)(series, args.folds) for series in chosen.values())
        found = joblib.Parallel(args.jobs, return_as="generator")(jobs)
        print(*heading([kind, *(f"{g} rows" for g in GROUPS), "coverage"]), sep="\n")
        ratios, coverages = [], []
        for name, (cells, coverage) in zip(chosen, found, strict=True):
            shown = [f"{ratio:.2f} {best}" for ratio, best in cells.values()]
            print(line([name, *shown, f"{coverage:.2f}"]), flush=True)
            ratios.append([ratio for ratio, _ in cells.values()])
            coverages.append(coverage)
        columns = np.array(ratios).T
        for name, of in (("worst", np.max), ("median", np.median)):
            print(line([f"**{name}**", *(f"{of(c):.2f}" for c in columns), ""]))
        near = [f"{np.mean(c <= 1.05):.2f}" for c in columns]
        print(line(["**share up to 1.05**", *near, f"{np.mean(coverages):.2f} (mean)"]) + "\n")


if __name__ == "__main__":
    main()
