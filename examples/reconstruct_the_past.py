"""Read the past of a chaotic series back out of its last state.

    python examples/reconstruct_the_past.py --output demo_output

PolyODE is trained on 300 irregularly observed trajectories of the Lorenz (1963) attractor, of
which two of three states are seen. Of a new trajectory it keeps only what `transform` returns, 32
coefficients a channel, and from those the last five time units are read back: at the times that
were observed, and between them, where no one has seen anything and only the true course tells
whether it is right.

Writes reconstruct_the_past.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from sklearn.utils import Bunch

from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63
from skpolyode.plotting import CoefficientDisplay, ReconstructionDisplay

N_TRAIN, N_TEST = 300, 100
WINDOW, N_EPOCHS = 5.0, 25


def true_past(data: Bunch, first: int) -> Panel:
    """The true course of the series from `first` on, on a fine grid over their last window."""
    panel, grid, rows = data.panel[first:], data.truth.times, []
    for (times, _), states in zip(panel, data.truth.values[first:], strict=True):
        inside = (grid <= times[-1]) & (grid >= max(times[0], times[-1] - WINDOW))
        rows.append((grid[inside], states[inside][:, data.truth.observed]))
    return Panel.from_series(rows, channel_names=panel.channel_names)


def errors(model: PolyODETransformer, test: Panel, truth: Panel) -> dict[str, np.ndarray]:
    """Mean squared errors of each channel, at observed times and on the grid between them."""
    own = model.reconstruct(test)
    ends = np.repeat(test.times[test.offsets[1:] - 1], test.lengths)
    seen = test.values[test.times >= ends - WINDOW]
    fine = model.reconstruct(test, [times for times, _ in truth])
    return {
        "observed": ((own.values - seen) ** 2).mean(axis=0),
        "never observed": ((fine.values - truth.values) ** 2).mean(axis=0),
    }


def draw(model: PolyODETransformer, data: Bunch, series: int) -> Figure:
    """What is kept of a series (left), and the past that is read out of it (right)."""
    figure, axes = plt.subplots(
        2, 2, figsize=(11, 5), width_ratios=(2, 5), sharex="col", layout="constrained"
    )
    truth = data.truth.times, data.truth.values[series][:, data.truth.observed]
    CoefficientDisplay.from_estimator(model, data.panel, series=series, ax=axes[:, 0])
    past = ReconstructionDisplay.from_estimator(
        model, data.panel, series=series, truth=truth, ax=axes[:, 1]
    )
    axes[0, 0].set_title("Kept: 32 coefficients a channel", fontsize=10)
    axes[0, 1].set_title("Read out of them: the last five time units", fontsize=10)
    for ax in axes[0]:
        ax.set_xlabel("")
    for ax, name in zip(axes[:, 1], data.panel.channel_names, strict=True):
        ax.set_ylabel(f"{name} (standard deviations)")
    handles, labels = past.axes_[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    data = make_lorenz63(N_TRAIN + N_TEST, random_state=0)
    model = PolyODETransformer(window=WINDOW, max_epochs=N_EPOCHS, random_state=0)
    model.fit(data.panel[:N_TRAIN])
    print(f"mean squared errors over the last {WINDOW:g} time units of {N_TEST} test series")
    for where, error in errors(model, data.panel[N_TRAIN:], true_past(data, N_TRAIN)).items():
        by_channel = zip(data.panel.channel_names, error, strict=True)
        print(f"  at times {where}:", ", ".join(f"{name} {e:.4f}" for name, e in by_channel))
    figure = draw(model, data, series=N_TRAIN)
    figure.savefig(folder / "reconstruct_the_past.png", dpi=90)


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write a file, open no window
    main()
