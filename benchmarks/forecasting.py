"""Forecasts of PolyODE against simple rivals, on dynamics and on real single series.

    python -m benchmarks.forecasting                          # all, three seeds: half an hour
    python -m benchmarks.forecasting --sets pendulum airline  # some
    python -m benchmarks.forecasting --seeds 0                # one seed: ten minutes

Prints a table in variances of the training data: the squared error at leads of about 1, 3 and 10
mean gaps, from a cutoff at 60 % of each series, and the squared error and the coverage of the 90 %
interval over the last 20 %, as means over the seeds (of the series or of the dropped rows, and of
the model), with the best rival in brackets. Then it says where PolyODE loses. The errors of all
rivals go to stderr.

"Dynamics" are series with initial conditions of their own: one model is trained on three quarters
of them and continues the others. The real ones are single series with 30 % of the rows dropped;
each model is fitted to the part before the cutoff.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sktime.datasets import load_airline, load_lynx, load_uschange
from sktime.forecasting.naive import NaiveForecaster
from sktime.forecasting.trend import PolynomialTrendForecaster

from benchmarks.lines import heading, line
from benchmarks.real.rivals import smoother
from benchmarks.units import Units, gaps
from skpolyode.datasets import (
    drop_times,
    make_lorenz63,
    make_lorenz96,
    make_ode_system,
    make_synthetic,
)
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel import Panel, offsets_from

N_SERIES = 600
LEADS = {1: (0.5, 1.5), 3: (2.0, 4.0), 10: (7.0, 13.0)}  # mean gaps: name, from, to


class LastValue:
    """Hold the last observation of each channel."""

    def forecast(self, panel: Panel, times: list[np.ndarray]) -> Panel:
        return answered(panel, times, lambda t, v, query: np.full(len(query), v[-1]))


class Mean:
    """The mean of each series' past."""

    def forecast(self, panel: Panel, times: list[np.ndarray]) -> Panel:
        return answered(panel, times, lambda t, v, query: np.full(len(query), v.mean()))


class Linear:
    """Extrapolate the line through the last two observations."""

    def forecast(self, panel: Panel, times: list[np.ndarray]) -> Panel:
        def line(t: np.ndarray, v: np.ndarray, query: np.ndarray) -> np.ndarray:
            slope = 0.0 if len(t) < 2 else (v[-1] - v[-2]) / (t[-1] - t[-2])
            return v[-1] + slope * (query - t[-1])

        return answered(panel, times, line)


class OnGrid:
    """A forecaster of sktime on series interpolated to an even grid of steps of one mean gap."""

    def __init__(self, forecaster: Any, gap: float) -> None:
        self.forecaster = forecaster
        self.gap = gap

    def forecast(self, panel: Panel, times: list[np.ndarray]) -> Panel:
        def on_grid(t: np.ndarray, v: np.ndarray, query: np.ndarray) -> np.ndarray:
            n_back = int((t[-1] - t[0]) / self.gap)
            grid = t[-1] - self.gap * np.arange(n_back, -1, -1)
            if len(grid) < 4:
                return np.full(len(query), v[-1])
            steps = (query - t[-1]) / self.gap
            ahead = np.arange(1, int(np.ceil(steps.max())) + 1)
            y = pd.Series(np.interp(grid, t, v))
            path = self.forecaster.clone().fit(y).predict(ahead).to_numpy().ravel()
            return np.interp(steps, [0, *ahead], [v[-1], *path])

        return answered(panel, times, on_grid)


def answered(panel: Panel, times: list[np.ndarray], rule: Callable[..., np.ndarray]) -> Panel:
    """Apply a rule for one channel, from its observed times and values to those asked."""
    values = []
    for (own_times, own_values), query in zip(panel, times, strict=True):
        columns = []
        for column in own_values.T:
            known = ~np.isnan(column)
            if known.any():
                columns.append(rule(own_times[known], column[known], query))
            else:
                columns.append(np.zeros(len(query)))
        values.append(np.stack(columns, axis=1))
    offsets = offsets_from([len(query) for query in times])
    return panel.like(np.concatenate(times), np.concatenate(values), offsets)


def rivals(gap: float, season: int) -> dict[str, Any]:
    models = {"last value": LastValue(), "mean": Mean(), "linear": Linear()}
    models["naive drift"] = OnGrid(NaiveForecaster(strategy="drift", window_length=4), gap)
    models["quadratic trend"] = OnGrid(PolynomialTrendForecaster(degree=2), gap)
    if season > 1:
        models["seasonal naive"] = OnGrid(NaiveForecaster(strategy="last", sp=season), gap)
    if find_spec("statsmodels"):
        models["exponential smoothing"] = OnGrid(smoother(season), gap)
    return models


Split = Callable[[int], tuple[Panel | None, Panel]]  # from a seed to training and test series


def dynamics(make: Callable[..., Any], *args: Any, **options: Any) -> Split:
    def split(seed: int) -> tuple[Panel, Panel]:
        data = make(*args, n_series=N_SERIES, random_state=seed, **options)
        training = data.split != "test"
        return data.panel[training], data.panel[~training]

    return split


def single(load: Callable[[], Any]) -> Split:
    """One real series on its row numbers, with 30 % of the rows dropped."""

    def split(seed: int) -> tuple[None, Panel]:
        values = np.asarray(load(), dtype=np.float64)
        values = values.reshape(len(values), -1)
        panel = Panel(np.arange(float(len(values))), values, [0, len(values)])
        return None, drop_times(panel, 0.3, random_state=seed)[0]

    return split


def uschange() -> np.ndarray:
    y, X = load_uschange()
    return pd.concat([y, X], axis=1).to_numpy(dtype=np.float64)


SETS: dict[str, Split] = {
    "lorenz63 0.3": dynamics(make_lorenz63, rate=0.3),
    "lorenz63 0.5": dynamics(make_lorenz63, rate=0.5),
    "lorenz96 0.3": dynamics(make_lorenz96, rate=0.3),
    "lorenz96 0.5": dynamics(make_lorenz96, rate=0.5),
    "synthetic": dynamics(make_synthetic, rate=0.7),
    "pendulum": dynamics(make_ode_system, "damped_pendulum"),
    "lotka volterra": dynamics(make_ode_system, "lotka_volterra"),
    "airline": single(load_airline),
    "lynx": single(load_lynx),
    "uschange": single(uschange),
}
SEASONS = {"airline": 12, "lynx": 10, "uschange": 4}


def pooled(table: pd.DataFrame) -> float:
    """Mean over channels, weighted by what was observed."""
    known = table[table["n"] > 0]
    return float(np.average(known["value"], weights=known["n"])) if len(known) else np.nan


def scores(model: Any, panel: Panel, gap: float) -> dict[str, float]:
    limits = sorted({edge for ends in LEADS.values() for edge in ends})
    table = evaluate_forecasts(
        model, panel, cutoff=0.6, horizon=gap * np.array(limits), metrics=["mse"]
    )
    row = {
        f"{lead} gaps": pooled(table[np.isclose(table["lead"], gap * end)])
        for lead, (_, end) in LEADS.items()
    }
    metrics = ["mse", "coverage"] if hasattr(model, "forecast_quantiles") else ["mse"]
    table = evaluate_forecasts(model, panel, cutoff=0.8, metrics=metrics)
    row["last 20 %"] = pooled(table[table["metric"] == "mse"])
    row["coverage"] = pooled(table[table["metric"] == "coverage"])
    return row


def run(name: str, seeds: list[int]) -> pd.DataFrame:
    """Mean scores of all models on one set, one row a model."""
    tables = [run_seed(name, seed) for seed in seeds]
    mean = (  # what is NaN in a seed is left out
        pd.concat(tables).groupby(level=0, sort=False).mean()
    )
    coverage = ", ".join(f"{table.loc['PolyODE', 'coverage']:.3f}" for table in tables)
    print(f"{mean.round(4).to_string()}\ncoverage by seed: {coverage}\n", file=sys.stderr)
    return mean


def run_seed(name: str, seed: int) -> pd.DataFrame:
    train, test = SETS[name](seed)
    reference = test if train is None else train
    gap, units = float(gaps(reference).mean()), Units.of(reference)
    if train is None:  # positive values stay positive, so that logarithms can be modelled
        units = units._replace(mean=np.zeros_like(units.mean))
    test = units.standardised(test)
    start = time.perf_counter()
    model = PolyODEForecaster(random_state=seed)
    if train is not None:
        model.pretrain(units.standardised(train))
    models = {"PolyODE": model, **rivals(gap, SEASONS.get(name, 1))}
    rows = {}
    for key, own in models.items():
        rows[key] = scores(own, test, gap)
        if own is model:
            print(f"{name}, seed {seed}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return pd.DataFrame.from_dict(rows, orient="index")


def losses(name: str, table: pd.DataFrame) -> list[str]:
    """Where a rival's squared error is smaller."""
    found = []
    for column in table.columns.drop("coverage"):
        best = table[column].drop("PolyODE").idxmin()
        if table.loc[best, column] < table.loc["PolyODE", column]:
            pair = f"{table.loc['PolyODE', column]:.3g} against {table.loc[best, column]:.3g}"
            found.append(f"- {name}, {column}: PolyODE loses to {best} ({pair})")
    return found


def row(name: str, table: pd.DataFrame) -> str:
    """PolyODE's errors with the best of the rivals, and its coverage."""
    own, others = table.loc["PolyODE"], table.drop("PolyODE").min()
    errors = table.columns.drop("coverage")
    cells = ["" if np.isnan(own[c]) else f"{own[c]:.2g} ({others[c]:.2g})" for c in errors]
    return line([name, *cells, f"{own['coverage']:.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of the rivals' optimisers
    tables = {name: run(name, args.seeds) for name in args.sets}
    lines = heading(["set", *tables[args.sets[0]].columns])
    lines += [row(name, table) for name, table in tables.items()]
    print("\n".join(lines), end="\n\n")
    lost = [loss for name, table in tables.items() for loss in losses(name, table)]
    print("\n".join(lost) or "PolyODE is best everywhere.")


if __name__ == "__main__":
    main()
