"""When turbofan engines will cross a line: windows of crossing times beside simple answers.

    python -m benchmarks.crossings --data FOLDER [--only "s11, mean of 5" ...] [--seed 0]
    python -m benchmarks.crossings --data FOLDER --picture FILE     # of a fleet, and no table

FOLDER holds `fd001.parquet` (NASA C-MAPSS FD001: unit, cycle and sensors, one row a cycle). The
line is the median of s11 (mean of five cycles) 15 cycles before the end of engines 1 to 60, which
train. Of the others every window of 30 known rows is asked that is below the line and has 40 more
rows, whether and when it reaches the line within these 40 cycles. With "cells hidden" 60 % of the
cells are not observed, in training and in what is known. With "14 sensors" all of them, with their
noise, are further channels.

Prints the scores of `evaluate_crossings`, in cycles, for answers without and with sampled paths;
those of crossing_times also with all rows known before, which simple answers do not use. Last,
Brier scores of 30 known rows by horizon, and how often what was said to be likely so much happened.
"least squares" is a ridge regression on the 30 last values. "and residual paths": of engines 46 to
60, which are then not trained on, 200 paths of its errors where its forecast ended nearby. APDTFlow
is run by `benchmarks.peers_code.crossings`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.crossing_scores import scores
from benchmarks.degradation import KNOWN, Case, engines, filled, hidden, last_values, least_squares
from benchmarks.lines import heading, line
from skpolyode import PolyODETransformer
from skpolyode.futures.continued import Window, first_crossings

N_TRAIN, N_CALIBRATING, AHEAD, BEFORE_END, N_PATHS = 60, 15, 40, 15, 200
N_DRAWN = 8  # engines
LEADS = tuple(range(1, AHEAD + 1))
CASES = ("s11, mean of 5", "s11, cells hidden", "14 sensors")


class Windows(NamedTuple):
    """What is known (30, D) of windows, and when they cross."""

    known: list[np.ndarray]
    crossing: np.ndarray  # cycles after the last known row; inf if not within 40
    history: list[np.ndarray]  # all rows up to the last known one


def windows(series: list[np.ndarray], smooth: list[np.ndarray], threshold: float) -> Windows:
    """All windows whose last smooth value is below the line."""
    known, crossing, history = [], [], []
    for values, x in zip(series, smooth, strict=True):
        for end in range(KNOWN, len(x) - AHEAD + 1):
            if x[end - 1] < threshold:
                beyond = np.flatnonzero(x[end : end + AHEAD] >= threshold)
                crossing.append(beyond[0] + 1.0 if len(beyond) else np.inf)
                known.append(values[end - KNOWN : end])
                history.append(values[:end])
    return Windows(known, np.array(crossing), history)


def of_courses(courses: np.ndarray, last: np.ndarray, threshold: float) -> np.ndarray:
    """Crossings (n, S) of courses (n, S, 40) that start at the last values (n,)."""
    start = np.broadcast_to(last[:, None, None], (*courses.shape[:2], 1))
    heights = np.concatenate([start, courses], axis=2) - threshold
    leads = np.arange(AHEAD + 1.0)
    return np.stack([first_crossings(leads, own.T) for own in heights])


def simple_answers(
    series: list[np.ndarray], asked: Windows, threshold: float
) -> dict[str, np.ndarray]:
    """Crossings (n, S) that simple methods sample; S = 1 of those that know no errors."""
    known = [filled(x[:, :1]) for x in asked.known]
    last, t = np.array([x[-1, 0] for x in known]), np.arange(KNOWN) - KNOWN + 1.0
    slopes = np.array([np.polyfit(t, x[:, 0], 1) for x in known])
    rising = slopes[:, 1:] + slopes[:, :1] * np.array(LEADS)
    case = Case([x[:, :1] for x in series[:N_TRAIN]], N_TRAIN, LEADS)
    means = least_squares(last_values, case, whole=False)(known)[..., 0]
    courses = {
        "last value": np.repeat(last[:, None], AHEAD, axis=1),
        "line through the window": rising,
        "least squares": means,
        "least squares and residual paths": with_residuals(case, known),
    }
    courses = {name: x[:, None] if x.ndim == 2 else x for name, x in courses.items()}
    return {name: of_courses(x, last, threshold) for name, x in courses.items()}


def with_residuals(case: Case, known: list[np.ndarray]) -> np.ndarray:
    """Courses (n, 200, 40): forecasts and paths of errors at forecasts that ended nearby."""
    fewer = case._replace(n_train=N_TRAIN - N_CALIBRATING)
    forecast, held = least_squares(last_values, fewer, whole=False), case.series[fewer.n_train :]
    held = [filled(x) for x in held]
    own = [(x[e - KNOWN : e], x[e : e + AHEAD, 0]) for x in held for e in _ends(x)]
    means = forecast([x for x, _ in own])[..., 0]
    errors, asked = np.stack([y for _, y in own]) - means, forecast(known)[..., 0]
    nearest = [np.argsort(np.abs(means[:, -1] - x))[:N_PATHS] for x in asked[:, -1]]
    return asked[:, None] + errors[np.stack(nearest)]


def _ends(x: np.ndarray) -> range:
    return range(KNOWN, len(x) - AHEAD + 1)


def row_of(name: str, crossings: np.ndarray, asked: Windows) -> str:
    """Scores of sampled crossings (n, S)."""
    return shown(name, Window.of(np.where(crossings <= AHEAD, crossings, np.inf), 0.9), asked)


def shown(name: str, window: Window, asked: Windows) -> str:
    times = (np.minimum(np.ceil(x), AHEAD) for x in window[1:])
    found = scores(window.probability, *times, asked.crossing, horizon=AHEAD)
    return line([name, *(f"{x:.3f}" for x in found["value"])])


HORIZONS = (10, 20, 40)  # cycles
PROBABILITIES = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 1.0)


def reliability(model: PolyODETransformer, asked: Windows, threshold: float) -> Iterator[str]:
    """Brier scores by horizon, of 30 known rows, and how often what is likely so much happened."""
    known = [(np.arange(1.0 - len(x), 1.0), x) for x in asked.known]
    yield "\n".join(heading(["within", "probability", "windows", "said", "happened", "Brier"]))
    for horizon in HORIZONS:
        table = model.crossing_times(known, threshold, float(horizon), channel=0)
        said, crossed = table["probability"].to_numpy(), asked.crossing <= horizon
        brier = f"{np.mean((said - crossed) ** 2):.3f}"
        for low, high in pairwise(PROBABILITIES):
            own = (low <= said) & ((said < high) | (high == 1.0))
            if own.any():
                rates = f"{said[own].mean():.2f}", f"{crossed[own].mean():.2f}"
                about = f"{low:.2f} to {high:.2f}", str(own.sum())
                yield line([str(horizon), *about, *rates, brier])


def polyode(
    series: list[np.ndarray], asked: Windows, threshold: float, **options: object
) -> list[str]:
    """The default transformer: its sampled paths, and its forecast alone."""
    start = time.process_time()
    train = [(np.arange(len(x)) * 1.0, x) for x in series[:N_TRAIN]]
    model = PolyODETransformer(**options).fit(train)
    trained = time.process_time() - start
    rows = {}
    for what, own in (("30 rows", asked.known), ("all rows before", asked.history)):
        start = time.process_time()
        known = [(np.arange(1.0 - len(x), 1.0), x) for x in own]
        table = model.crossing_times(known, threshold, float(AHEAD), channel=0)
        since = (np.maximum(table[name], 0.0) for name in ("earliest", "median", "latest"))
        window = Window(table["probability"].to_numpy(), *(x.to_numpy() for x in since))
        seconds = time.process_time() - start
        rows[f"crossing_times, {what} ({trained:.0f} s to fit, {seconds:.0f} s to answer)"] = window
    known = [(np.arange(1.0 - KNOWN, 1.0), x) for x in asked.known]
    mean = model.forecast(known, np.array(LEADS) * 1.0).values[:, 0].reshape(len(known), 1, AHEAD)
    last = np.array([filled(x[:, :1])[-1, 0] for x in asked.known])
    first = row_of("PolyODETransformer(), its forecast", of_courses(mean, last, threshold), asked)
    found = [first, *(shown(name, window, asked) for name, window in rows.items())]
    return [*found, "", *reliability(model, asked, threshold)]


def draw_fleet(smooth: list[np.ndarray], threshold: float, file: Path, **options: object) -> None:
    """Every fifth engine that did not train, known up to half to nine tenths of its life.

    In the order of the earliest time from now on, with what came.
    """
    import matplotlib.pyplot as plt

    from skpolyode.plotting import CrossingDisplay

    every = [(np.arange(len(x)) * 1.0, x) for x in smooth]
    train, others = every[:N_TRAIN], every[N_TRAIN::5]
    shares = np.linspace(0.9, 0.5, N_DRAWN)
    n_known = [int(share * len(t)) for (t, _), share in zip(others, shares, strict=True)]
    others = [(t - t[n - 1], x) for (t, x), n in zip(others, n_known, strict=True)]
    fleet = [(t[t <= 0], x[t <= 0]) for t, x in others]
    model = PolyODETransformer(**options).fit(train)
    asked = fleet, threshold, float(AHEAD), "end"
    order = np.argsort(model.crossing_times(*asked)["earliest"])
    shape = {"sharex": True, "sharey": True, "figsize": (11, 4.5), "layout": "tight"}
    figure, axes = plt.subplots(2, N_DRAWN // 2, **shape)
    for ax, k in zip(axes.flat, order, strict=True):
        CrossingDisplay.from_estimator(model, *asked, series=k, ax=ax)
        t, x = others[k]
        ax.plot(t[t >= 0], x[t >= 0], color="k", linewidth=1.0, zorder=4)
        ax.set(xlim=(-AHEAD, AHEAD), ylabel="", xlabel="cycles from now")
        ax.set_title(f"engine {N_TRAIN + 5 * k + 1}: {ax.get_title()}", fontsize=9)
    axes[0, 0].set_ylabel("s11, mean of 5")
    figure.savefig(file, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--picture", type=Path, help="file for a picture of a fleet")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    args = parser.parse_args()
    torch.set_num_threads(1)
    smooth = engines(args.data, ["s11"], smooth=5)
    threshold = float(np.median([x[-1 - BEFORE_END, 0] for x in smooth[:N_TRAIN]]))
    options = {"random_state": args.seed, "max_epochs": args.epochs or "auto"}
    if args.picture:
        return draw_fleet(smooth, threshold, args.picture, **options)
    for name in args.only:
        series = smooth
        if name == "s11, cells hidden":
            series = hidden(smooth)
        elif name == "14 sensors":
            series = [np.hstack(x) for x in zip(smooth, engines(args.data, None), strict=True)]
        asked = windows(series[N_TRAIN:], [x[:, 0] for x in smooth[N_TRAIN:]], threshold)
        n_events = int(np.isfinite(asked.crossing).sum())
        print(f"\n{name}: {len(asked.known)} windows, {n_events} cross\n")
        titles = ["answer", "timing error", "caught", "false alarms", "coverage", "Brier", "order"]
        print("\n".join(heading(titles)))
        for method, crossings in simple_answers(series, asked, threshold).items():
            print(row_of(method, crossings, asked), flush=True)
        print("\n".join(polyode(series, asked, threshold, **options)), flush=True)


if __name__ == "__main__":
    main()
