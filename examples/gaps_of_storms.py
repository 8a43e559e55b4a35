"""A loss: between sparse positions of real storms, a cubic spline is nearer than PolyODE.

Positions of 151 Atlantic storms (the package has them). Seven of ten rows are hidden, so that a day
may lie between two that are left. PolyODE learns from the first hundred storms and fills in the
hidden positions of the others, beside three kinds of interpolation, which learn nothing. Tracks of
storms bend slowly: the positions on either side say nearly all about a gap.

It prints a table and writes it with a figure to a folder:

    python examples/gaps_of_storms.py --output demo_output
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from skpolyode import InterpolationTransformer, Panel, PolyODETransformer
from skpolyode.datasets import drop_times, load_storms

N_TRAIN, HIDDEN_SHARE, LEAST = 100, 0.7, 6
KM = 111.2  # of a degree of latitude
STYLES = {
    "PolyODE": {"color": "C0", "marker": "x", "markersize": 5, "linewidth": 1.5},
    "cubic spline": {"color": "C3", "marker": "+", "markersize": 6, "linewidth": 1.5},
}


def fit(train: Panel) -> dict[str, PolyODETransformer | InterpolationTransformer]:
    """Models of the path between positions, with default settings."""
    models = {
        "cubic spline": InterpolationTransformer(kind="cubic"),
        "PCHIP": InterpolationTransformer(kind="pchip"),
        "straight lines": InterpolationTransformer(),
        "PolyODE": PolyODETransformer(random_state=0),
    }
    return {name: model.fit(train) for name, model in models.items()}


def between(seen: Panel, hidden: Panel) -> Panel:
    """Hidden rows between the first and the last row that is left of each storm."""
    series = []
    for (left, _), (times, values) in zip(seen.to_series(), hidden.to_series(), strict=True):
        inside = (times > left[0]) & (times < left[-1])
        series.append((times[inside], values[inside]))
    return Panel.from_series(series, ids=seen.ids, time_unit="h", empty="keep")


def positions(model: PolyODETransformer, seen: Panel, hidden: Panel) -> list[np.ndarray]:
    """Latitudes and longitudes at the hidden times of each storm."""
    answer = model.interpolate(seen, [times for times, _ in hidden.to_series()])
    return np.split(answer.values[:, :2], hidden.offsets[1:-1])


def distances(guess: list[np.ndarray], hidden: Panel) -> list[np.ndarray]:
    """Kilometres from the true positions."""
    found = []
    for estimate, (_, values) in zip(guess, hidden, strict=True):
        north, east = (estimate - values[:, :2]).T
        found.append(KM * np.hypot(north, east * np.cos(np.radians(values[:, 0]))))
    return found


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def draw(
    seen: Panel, hidden: Panel, guesses: dict[str, list[np.ndarray]], titles: list[str]
) -> Figure:
    """Left: both methods, storm by storm. Others: storms whose distance to PolyODE is usual."""
    enough = np.flatnonzero((seen.lengths >= LEAST) & (hidden.lengths > 0))
    away = {
        name: np.array([root_mean_square(distances(guesses[name], hidden)[i]) for i in enough])
        for name in STYLES
    }
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    x, y = away["cubic spline"], away["PolyODE"]
    top = 1.05 * max(x.max(), y.max())
    axes[0].plot([0, top], [0, top], color="0.6", linewidth=1)
    axes[0].plot(x, y, "o", color="C0")
    axes[0].set(xlabel="distance of the cubic spline (km)", ylabel="distance of PolyODE (km)")
    axes[0].set(title=f"PolyODE is farther in {np.sum(y > x)} of {len(x)} storms", aspect="equal")
    middle = len(enough) // 2
    for ax, storm in zip(axes[1:], enough[np.argsort(y)[[middle - 1, middle]]], strict=True):
        truth, left = hidden[storm].values, seen[storm].values
        for name, style in STYLES.items():
            for k, ends in enumerate(zip(truth[:, :2], guesses[name][storm], strict=True)):
                north, east = np.transpose(ends)
                label = f"{name}, to the truth" if k == 0 else None
                ax.plot(east, north, markevery=[1], label=label, **style)
        ax.plot(truth[:, 1], truth[:, 0], "o", color="0.4", mfc="none", ms=5, label="truth, hidden")
        ax.plot(left[:, 1], left[:, 0], "ko", ms=5, label="seen")
        ax.set(title=titles[storm], xlabel="longitude (degrees)", ylabel="latitude (degrees)")
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure


def main() -> None:
    """Hide positions, train, fill in; write the figure and the table."""
    parser = argparse.ArgumentParser(description="Gaps in the tracks of storms.")
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    start, storms = time.perf_counter(), load_storms()
    seen, hidden = drop_times(storms.panel, HIDDEN_SHARE, random_state=0)
    models, seen = fit(seen[:N_TRAIN]), seen[N_TRAIN:]
    hidden = between(seen, hidden[N_TRAIN:])
    guesses = {name: positions(model, seen, hidden) for name, model in models.items()}
    away = {
        name: root_mean_square(np.concatenate(distances(guess, hidden)))
        for name, guess in guesses.items()
    }
    names = storms.frame.groupby("storm")["name"].first()[seen.ids]
    titles = [
        f"{name}, {times[0].year}" for name, (times, _) in zip(names, seen.to_series(), strict=True)
    ]
    figure = draw(seen, hidden, guesses, titles)
    figure.suptitle(
        f"A loss: PolyODE is {away['PolyODE']:.0f} km from hidden positions of storms; "
        f"a cubic spline, which learns nothing, {away['cubic spline']:.0f} km"
    )
    figure.savefig(folder / "storms.png", dpi=120)
    title = "Gaps of storms, a loss: root mean squared distance to hidden positions, in km"
    table = pd.Series(away).round(0).astype(int).to_string()
    print(f"{title}\n\n{table}\n")
    (folder / "storms.txt").write_text(f"{title}\n\n{table}\n", encoding="utf-8")
    print(f"{time.perf_counter() - start:.0f} seconds; storms.png is in {folder}")


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write files, open no windows
    main()
