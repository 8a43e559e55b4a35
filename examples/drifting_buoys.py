"""Recognise which way eddies turn, and fill gaps, from sparse positions of drifting buoys.

The truth is known here: 300 buoys circle in eddies of any size, at periods of 30 to 50 hours, while
a current carries them away. A satellite reads their positions 16 times in five days, at random
moments. Half of the eddies turn clockwise, which no statistic of a channel shows. PolyODE learns
from 200 buoys without their labels. For the other 100, it

- fills in their positions between the readings, beside three kinds of interpolation;
- says which way they turn, beside the usual features.

It prints two tables and writes them with a figure to a folder:

    python examples/drifting_buoys.py --output demo_output
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
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC

from skpolyode import (
    InterpolationTransformer,
    Panel,
    PolyODETransformer,
    SummaryStatsTransformer,
)

N_BUOYS, N_TRAIN, N_READINGS, HOURS, NOISE = 300, 200, 16, 120, 0.1  # km
KINDS = ("anticlockwise", "clockwise")
GRID = np.arange(0, HOURS + 0.5, 0.5)
CURVES = {
    "PolyODE": {"color": "C0", "linewidth": 2},
    "PCHIP": {"color": "C3", "linewidth": 1.2},
}


def simulate(rng: np.random.Generator) -> tuple[Panel, np.ndarray, np.ndarray]:
    """Readings, the course (buoy, hour, channel) in km, and which way each buoy turns."""
    clockwise = np.arange(N_BUOYS) % 2
    period, radius = rng.uniform(30, 50, (N_BUOYS, 1)), rng.uniform(4, 12, (N_BUOYS, 1))
    phase, current = rng.uniform(0, 2 * np.pi, (N_BUOYS, 1)), rng.normal(0, 0.15, (2, N_BUOYS, 1))
    sign = 1 - 2 * clockwise[:, None]

    def positions(hours: np.ndarray) -> np.ndarray:
        angle = sign * (phase + 2 * np.pi * hours / period)
        circle = radius * np.stack([np.cos(angle), np.sin(angle)])
        return np.moveaxis(circle + current * (hours - HOURS / 2), 0, 2)

    hours = np.sort(rng.uniform(0, HOURS, (N_BUOYS, N_READINGS)))
    readings = positions(hours) + rng.normal(0, NOISE, (N_BUOYS, N_READINGS, 2))
    panel = Panel.from_series(zip(hours, readings, strict=True), channel_names=["east", "north"])
    return panel, positions(np.tile(GRID, (N_BUOYS, 1))), clockwise


def fit(train: Panel) -> dict[str, PolyODETransformer | InterpolationTransformer]:
    """Models of the path between readings."""
    models = {
        "PolyODE": PolyODETransformer(
            n_coefficients=24, embedding="coefficients", max_epochs=10, random_state=0
        ),
        "PCHIP": InterpolationTransformer(kind="pchip"),
        "cubic spline": InterpolationTransformer(kind="cubic"),
        "straight lines": InterpolationTransformer(),
    }
    return {name: model.fit(train) for name, model in models.items()}


def between(panel: Panel) -> np.ndarray:
    """Mask (buoy, time) of the grid between the first and the last reading."""
    return np.array([(times[0] <= GRID) & (times[-1] >= GRID) for times, _ in panel])


def distances(paths: dict[str, np.ndarray], test: Panel, truth: np.ndarray) -> pd.Series:
    """Root mean squared distance to the truth between first and last reading, in km."""
    inside = between(test)
    squares = {name: ((path - truth) ** 2).sum(axis=2)[inside] for name, path in paths.items()}
    return pd.Series({name: np.sqrt(x.mean()) for name, x in squares.items()}, name="distance (km)")


def accuracies(models: dict, train: Panel, test: Panel, kind: np.ndarray) -> pd.Series:
    """Share of the buoys that test whose direction is recognised."""
    polyode, lines, statistics = (
        models["PolyODE"],
        models["straight lines"],
        SummaryStatsTransformer(),
    )

    def on_grid(panel: Panel) -> np.ndarray:
        return lines.interpolate(panel, GRID[::10]).values.reshape(len(panel), -1)

    ways = {
        "PolyODE, support vectors": (polyode.transform, SVC(C=10)),
        "straight lines, support vectors": (on_grid, SVC(C=10)),
        "straight lines, boosted trees": (on_grid, HistGradientBoostingClassifier(random_state=0)),
        "summary statistics, boosted trees": (
            statistics.fit(train).transform,
            HistGradientBoostingClassifier(random_state=0),
        ),
    }
    scores = {
        name: head.fit(features(train), kind[:N_TRAIN]).score(features(test), kind[N_TRAIN:])
        for name, (features, head) in ways.items()
    }
    return pd.Series(scores, name="accuracy")


def draw(
    paths: dict[str, np.ndarray],
    test: Panel,
    truth: np.ndarray,
    kind: np.ndarray,
    scores: tuple[pd.Series, pd.Series],
) -> Figure:
    """Tracks of one buoy of each kind, that of PolyODE's median error, and the accuracies."""
    inside = between(test)
    missed = np.where(inside, ((paths["PolyODE"] - truth) ** 2).sum(axis=2), 0).sum(axis=1)
    missed /= inside.sum(axis=1)
    figure, axes = plt.subplots(
        1, 3, figsize=(13, 4.6), layout="constrained", width_ratios=[3, 3, 2]
    )
    for value, ax in enumerate(axes[:2]):
        ranked = np.flatnonzero(kind == value)[np.argsort(missed[kind == value])]
        who = ranked[len(ranked) // 2]
        shown = inside[who]
        ax.plot(*truth[who, shown].T, color="0.8", linewidth=5, label="truth")
        for name, style in CURVES.items():
            ax.plot(*paths[name][who, shown].T, label=name, **style)
        ax.plot(*test[who].values.T, "ko", markersize=5, label="readings")
        ax.set(title=f"buoy {N_TRAIN + who}, {KINDS[value]}", xlabel="east (km)", aspect="equal")
        ax.set(ylabel="north (km)", adjustable="datalim")
    away, right = scores
    bars = right[::-1]
    colors = [CURVES["PolyODE"]["color"] if "PolyODE" in name else "0.5" for name in bars.index]
    names = [name.replace(", ", ",\n") for name in bars.index]
    drawn = axes[2].barh(names, 100 * bars, color=colors)
    axes[2].bar_label(drawn, fmt="%.0f %%", label_type="center", color="white", weight="bold")
    axes[2].axvline(50, color="black", linestyle=":", linewidth=1, zorder=0)
    axes[2].set(title="direction recognised", xlabel="accuracy (%), dotted: chance", xlim=(0, 105))
    axes[2].set_xticks([0, 50, 100])
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=4, frameon=False
    )
    best, *others = right
    figure.suptitle(
        f"Between readings PolyODE is {away['PolyODE']:.1f} km from the truth, the best "
        f"interpolation {away.drop('PolyODE').min():.1f} km;\nit recognises which way "
        f"{100 * best:.0f} % of the eddies turn, the best other method {100 * max(others):.0f} %"
    )
    return figure


def main() -> None:
    """Simulate, train, fill gaps, classify; write the figure and the tables."""
    parser = argparse.ArgumentParser(description="Eddies from sparse positions of buoys.")
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    panel, course, kind = simulate(np.random.default_rng(0))
    train, test, truth = panel[:N_TRAIN], panel[N_TRAIN:], course[N_TRAIN:]
    models = fit(train)
    paths = {
        name: model.interpolate(test, GRID).values.reshape(truth.shape)
        for name, model in models.items()
    }
    scores = distances(paths, test, truth), accuracies(models, train, test, kind)
    titles = "Buoys: distance to the truth between readings", "Buoys: which way they turn"
    texts = [
        f"{title}\n\n{table.round(2).to_frame()}\n\n"
        for title, table in zip(titles, scores, strict=True)
    ]
    print("".join(texts), end="")
    (folder / "buoys.txt").write_text("".join(texts), encoding="utf-8")
    draw(paths, test, truth, kind[N_TRAIN:], scores).savefig(folder / "buoys.png", dpi=120)
    print(f"{time.perf_counter() - start:.0f} seconds; buoys.png is in {folder}")


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write files, open no windows
    main()
