"""Turbofan engines and battery cells that wear out: forecasts beside least squares on a window.

    python -m benchmarks.degradation --data FOLDER [--only s11 "s11, mean of 5" ...] [--seeds 1]

FOLDER holds `fd001.parquet` (NASA C-MAPSS FD001: unit, cycle and sensors, one row a cycle) and
`battery.parquet` (NASA cells: cell, cycle, capacity). Engines 1 to 60 train and windows of the
others are asked: 30 rows are known, or the whole history up to there, and up to 40 cycles ahead are
forecast. Of fourteen sensors, the first 70 engines train. With "cells hidden" 60 % of the cells are
not observed, in training and in what is known.

Prints root mean squared errors by lead, in the units of s11 or in standard deviations of the
training part, and seconds of the processor. "least squares" is a ridge regression for each lead: on
the 30 last values of a channel, or on "means": last value, mean and means with exponential weights
of 1 to 32 cycles of all channels.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from benchmarks.lines import heading, line
from skpolyode import PolyODETransformer

KNOWN, LEADS, EVERY = 30, (1, 2, 4, 5, 8, 10, 20, 40), 3
DECAYS = 2.0 ** np.arange(6)
STRENGTH = 1e-3  # of the ridge, a share of the number of windows
HIDDEN = 0.6


class Case(NamedTuple):
    """Series (L, D) at even times, in order; the first ones train."""

    series: list[np.ndarray]
    n_train: int
    leads: tuple[int, ...] = LEADS
    in_deviations: bool = False


Forecast = Callable[[list[np.ndarray]], np.ndarray]  # from known rows to (n, J, D)


def engines(folder: Path, channels: list[str] | None, smooth: int = 1) -> list[np.ndarray]:
    """Values of each engine, means of the last `smooth` cycles; None takes all sensors."""
    table = pd.read_parquet(folder / "fd001.parquet")
    channels = channels or [name for name in table if name.startswith("s")]
    groups = (own[channels] for _, own in table.groupby("unit"))
    return [own.rolling(smooth, min_periods=1).mean().to_numpy(float) for own in groups]


def cells(folder: Path) -> list[np.ndarray]:
    """Capacities of each cell by cycle."""
    table = pd.read_parquet(folder / "battery.parquet")
    return [own[["capacity"]].to_numpy(float) for _, own in table.groupby("cell")]


def hidden(series: list[np.ndarray]) -> list[np.ndarray]:
    """The same with 60 % of the cells not observed; each first row stays."""
    rng = np.random.default_rng(0)
    masks = [rng.random(x.shape) < HIDDEN for x in series]
    for mask in masks:
        mask[0] = False
    return [np.where(mask, np.nan, x) for x, mask in zip(series, masks, strict=True)]


CASES: dict[str, Callable[[Path], Case]] = {
    "s11, mean of 5": lambda folder: Case(engines(folder, ["s11"], smooth=5), 60),
    "s11": lambda folder: Case(engines(folder, ["s11"]), 60),
    "s11, cells hidden": lambda folder: Case(hidden(engines(folder, ["s11"])), 60),
    "14 sensors": lambda folder: Case(engines(folder, None), 70, LEADS[:6], in_deviations=True),
    "14 sensors, cells hidden": lambda folder: Case(
        hidden(engines(folder, None)), 70, LEADS[:6], in_deviations=True
    ),
    "battery": lambda folder: Case(cells(folder), 2, LEADS[:7]),
}


def windows(series: list[np.ndarray], leads: tuple[int, ...], every: int) -> tuple[list, ...]:
    """Whole histories that are known, the number of their rows, and what follows (J, D)."""
    histories, ahead = [], []
    for values in series:
        for end in range(KNOWN, len(values) - max(leads) + 1, every):
            histories.append(values[:end])
            ahead.append(values[[end + lead - 1 for lead in leads]])
    return histories, ahead


def filled(values: np.ndarray) -> np.ndarray:
    """Missing cells are the last value before them, or else the first one."""
    return pd.DataFrame(values).ffill().bfill().to_numpy()


def last_values(histories: list[np.ndarray]) -> np.ndarray:
    """Features (n, D, 30) of a channel: its last values."""
    return np.stack([filled(x)[-KNOWN:].T for x in histories])


def means(histories: list[np.ndarray]) -> np.ndarray:
    """Features (n, D, 8 D) of all channels: last value, mean, and exponential means."""
    rows = []
    for x in histories:
        weights = np.exp(-np.arange(len(x))[::-1, None] / DECAYS)  # (L, K)
        seen = ~np.isnan(x)
        sums, total = weights.T @ np.where(seen, x, 0.0), weights.T @ seen
        own = [filled(x)[-1], np.nanmean(x, axis=0), *(sums / np.maximum(total, 1e-12))]
        rows.append(np.ravel(own))
    return np.repeat(np.stack(rows)[:, None], histories[0].shape[1], axis=1)


def least_squares(features: Callable[[list], np.ndarray], case: Case, whole: bool) -> Forecast:
    """Ridge regressions of the change after the last value, of each channel and lead."""
    histories, ahead = windows(case.series[: case.n_train], case.leads, 1)
    known = histories if whole else [x[-KNOWN:] for x in histories]
    x, change = features(known), np.stack(ahead) - last_of(histories)[:, None]
    centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-12
    found = []
    for j in range(x.shape[1]):
        design = np.column_stack([(x[:, j] - centre[j]) / scale[j], np.ones(len(x))])
        own = []
        for y in change[:, :, j].T:
            seen = ~np.isnan(y)
            a, y = design[seen], y[seen]
            gram = a.T @ a + STRENGTH * len(a) * np.eye(a.shape[1])
            own.append(np.linalg.solve(gram, a.T @ y))
        found.append(np.stack(own, axis=1))

    def forecast(known: list[np.ndarray]) -> np.ndarray:
        x = (features(known) - centre) / scale
        parts = [np.column_stack([x[:, j], np.ones(len(x))]) @ w for j, w in enumerate(found)]
        return last_of(known)[:, None] + np.stack(parts, axis=2)

    return forecast


def last_of(histories: list[np.ndarray]) -> np.ndarray:
    return np.stack([filled(x)[-1] for x in histories])


def polyode(case: Case, seed: int) -> dict[str, Forecast]:
    """The default transformer: its combined forecast, and the run alone."""
    train = [(np.arange(len(x)) * 1.0, x) for x in case.series[: case.n_train]]
    model = PolyODETransformer(random_state=seed).fit(train)

    def forecast(known: list[np.ndarray], combine: bool) -> np.ndarray:
        asked = [(np.arange(len(x)) * 1.0, x) for x in known]
        times = np.array(case.leads) * 1.0
        flat = model.forecast(asked, times, relative_to="end", combine=combine).values
        return flat.reshape(len(known), len(times), -1)

    names = {"PolyODETransformer()": True, "its run alone": False}
    return {name: lambda known, c=combine: forecast(known, c) for name, combine in names.items()}


def rows_of(case: Case, seed: int) -> list[tuple[str, dict[str, np.ndarray], float]]:
    """Name, errors (J,) with 30 rows and with the whole history known, and seconds of each row."""
    histories, ahead = windows(case.series[case.n_train :], case.leads, EVERY)
    parts = {"30 rows": [x[-KNOWN:] for x in histories], "history": histories}
    scale = np.ones(case.series[0].shape[1])
    if case.in_deviations:
        scale = np.nanstd(np.concatenate(case.series[: case.n_train]), axis=0)
    result = []

    def add(name: str, make: Callable[[str], Forecast], seconds: float = 0.0) -> None:
        errors = {}
        for part, known in parts.items():
            start = time.process_time()
            wrong = (make(part)(known) - np.stack(ahead)) / scale
            seconds += time.process_time() - start
            errors[part] = np.sqrt(np.nanmean(wrong**2, axis=(0, 2)))
        result.append((name, errors, seconds))

    add("last value", lambda _: lambda known: last_of(known)[:, None])
    for name, features in (("30 values", last_values), ("means", means)):
        fit = lambda part, own=features: least_squares(own, case, part == "history")  # noqa: E731
        add(f"least squares, {name}", fit)
    start = time.process_time()
    forecasts = polyode(case, seed)
    trained = time.process_time() - start
    for name, forecast in forecasts.items():
        add(name, lambda _, own=forecast: own, trained)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.only:
        case = CASES[name](args.data)
        for seed in args.seeds:
            titles = [f"{name}, known", "model", *(f"{lead}" for lead in case.leads), "seconds"]
            print("\n".join(heading(titles)))
            found = rows_of(case, seed)
            for part in ("30 rows", "history"):
                for model, errors, seconds in found:
                    shown = [f"{error:.4f}" for error in errors[part]]
                    print(line([part, model, *shown, f"{seconds:.0f}"]), flush=True)
            print()


if __name__ == "__main__":
    main()
