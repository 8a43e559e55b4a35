"""Forecast the prey of a predator it never sees, at irregular times, with intervals.

    python examples/forecast_intervals.py --output demo_output

Each series is one population of prey, counted some thirty times at random moments. Predators are
never counted, and every population has growth and death rates of its own. One model learns from
160 populations; it then continues others from two thirds of their counts, and says how far off
it may be.

Writes forecast_intervals.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from skpolyode.datasets import make_ode_system
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel import Panel

matplotlib.use("Agg")
import matplotlib.pyplot as plt

N_TRAIN, N_SHOWN = 160, 4
LEVELS = (0.9, 0.5)


def draw(model: PolyODEForecaster, panel: Panel, truth: np.ndarray, grid: np.ndarray) -> plt.Figure:
    """Past, future and forecast of the first series; `truth` is what no one measured."""
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 6), sharex=True, sharey=True, layout="constrained"
    )
    for k, ax in enumerate(axes.flat):
        times, values = panel[k]
        n_known = 2 * len(times) // 3
        past = [(times[:n_known], values[:n_known])]
        cutoff = times[n_known - 1]
        ahead = np.concatenate([[cutoff], grid[grid > cutoff]])
        ax.plot(grid, truth[k], color="0.75", label="truth")
        for level, shade in zip(LEVELS, (0.2, 0.35), strict=True):
            alpha = [(1 - level) / 2, (1 + level) / 2]
            low, high = (
                model.forecast_quantiles(past, ahead[1:], alpha)[a].values[:, 0] for a in alpha
            )
            label = f"{100 * level:.0f} % interval"
            ax.fill_between(ahead[1:], low, high, color="C0", alpha=shade, lw=0, label=label)
        ax.plot(
            ahead[1:], model.forecast(past, ahead[1:]).values[:, 0], color="C0", label="forecast"
        )
        ax.plot(times[:n_known], values[:n_known, 0], "k.", label="counted")
        ax.plot(times[n_known:], values[n_known:, 0], "o", mfc="w", mec="k", ms=4, label="to come")
        ax.axvline(cutoff, color="0.5", lw=0.8, ls=":")
        ax.set_title(f"population {k + 1}", fontsize=10)
    for ax in axes[1]:
        ax.set_xlabel("time")
    for ax in axes[:, 0]:
        ax.set_ylabel("prey")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    data = make_ode_system("lotka_volterra", N_TRAIN + 80, random_state=0)
    model = PolyODEForecaster(random_state=0).pretrain(data.panel[:N_TRAIN])
    others = data.panel[N_TRAIN:]
    metrics = ["mse", "mae", "coverage"]
    print(evaluate_forecasts(model, others, cutoff=2 / 3, horizon=[1.0, 3.0, 7.0], metrics=metrics))
    truth = data.truth.values[N_TRAIN:, :, data.truth.observed][:, :, 0]
    figure = draw(model, others[:N_SHOWN], truth, data.truth.times)
    figure.savefig(folder / "forecast_intervals.png", dpi=120)


if __name__ == "__main__":
    main()
