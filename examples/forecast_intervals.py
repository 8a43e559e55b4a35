"""Forecast the prey of a predator it never sees, at irregular times, with intervals.

    python examples/forecast_intervals.py --output demo_output

Each series is one population of prey, counted some thirty times at random moments. Predators are
never counted, and every population has growth and death rates of its own. One model learns from
160 populations; it then continues others from what was counted in two thirds of their time, and
says how far off it may be.

Writes forecast_intervals.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from skpolyode.datasets import Truth, make_ode_system
from skpolyode.forecasting import PolyODEForecaster, evaluate_forecasts
from skpolyode.panel import Panel
from skpolyode.plotting import ForecastDisplay

N_TRAIN = 160
CUTOFF = 2 / 3  # of each population's time
LEVELS = (0.9, 0.5)


def draw(model: PolyODEForecaster, panel: Panel, truth: Truth) -> Figure:
    """Past, future and forecast of the first series; `truth` is what no one measured."""
    figure, axes = plt.subplots(
        2, 2, figsize=(10, 6), sharex=True, sharey=True, layout="constrained"
    )
    prey = truth.values[N_TRAIN:, :, truth.observed]
    for k, ax in enumerate(axes.flat):
        known = truth.times, prey[k]
        ForecastDisplay.from_estimator(
            model, panel, series=k, cutoff=CUTOFF, coverage=LEVELS, truth=known, ax=ax
        )
        ax.set_title(f"population {k + 1}", fontsize=10)
        ax.label_outer()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False)
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
    leads = [1.0, 3.0, 7.0]
    print(evaluate_forecasts(model, others, cutoff=CUTOFF, horizon=leads, metrics=metrics))
    figure = draw(model, others, data.truth)
    figure.savefig(folder / "forecast_intervals.png", dpi=84)


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write a file, open no window
    main()
