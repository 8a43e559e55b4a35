"""Rebuild the same past from the embeddings of four methods.

    python examples/reverse_reconstruction_by_method.py --output demo_output

All four keep 32 coefficients a channel, so what differs is what they assume between observations:
HiPPO holds each value, interpolation draws a line to the next, least squares assumes no path at
all, and PolyODE follows dynamics that it has learnt from other series. At the observations they
are all good; in between only one can know.

Writes reverse_reconstruction_by_method.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from sklearn.utils import Bunch

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    PolyODETransformer,
)
from skpolyode.datasets import make_lorenz63
from skpolyode.plotting import ReconstructionDisplay
from skpolyode.transformers.base import SeriesTransformer

N_TRAIN, N_TEST = 300, 100
WINDOW, N_EPOCHS = 5.0, 25


def methods() -> dict[str, SeriesTransformer]:
    """What is compared, by the name it has in the figure."""
    return {
        "HiPPO, values held": HiPPOTransformer(hold="previous", window=WINDOW),
        "linear interpolation": InterpolationTransformer(kind="linear", window=WINDOW),
        "Legendre fit": LegendreFitTransformer(window=WINDOW),
        "PolyODE": PolyODETransformer(window=WINDOW, max_epochs=N_EPOCHS, random_state=0),
    }


def held_out_errors(model: SeriesTransformer, data: Bunch) -> np.ndarray:
    """Squared errors (test series, channel), on a grid over the window of each series."""
    means = []
    for series in range(N_TRAIN, N_TRAIN + N_TEST):
        one, grid = data.panel[[series]], data.truth.times
        start, end = one.times[[0, -1]]
        inside = (grid <= end) & (grid >= max(start, end - WINDOW))
        answer = model.reconstruct(one, grid[inside]).values
        truth = data.truth.values[series][inside][:, data.truth.observed]
        means.append(((answer - truth) ** 2).mean(axis=0))
    return np.array(means)


def draw(models: dict[str, SeriesTransformer], data: Bunch, series: int) -> Figure:
    """One row a method, one column a channel."""
    shape = len(models), data.panel.n_channels
    figure, axes = plt.subplots(
        *shape, figsize=(10, 8), sharex=True, sharey=True, layout="constrained"
    )
    truth = data.truth.times, data.truth.values[series][:, data.truth.observed]
    for row, (method, model) in zip(axes, models.items(), strict=True):
        ReconstructionDisplay.from_estimator(model, data.panel, series=series, truth=truth, ax=row)
        row[0].set_title(method, loc="left", fontsize=10)
    axes[0, 0].set_xlim(data.panel[series].times[-1] - 1.2 * WINDOW, None)
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    figure.supylabel("standard deviations of the attractor", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    data = make_lorenz63(N_TRAIN + N_TEST, random_state=0)
    print(f"{'squared errors between observations':40s}", *data.panel.channel_names, sep="\t")
    models = methods()
    for name, model in models.items():
        by_series = held_out_errors(model.fit(data.panel[:N_TRAIN]), data)
        for what, values in (
            ("mean", by_series.mean(axis=0)),
            ("median", np.median(by_series, axis=0)),
        ):
            print(f"{name + ', ' + what:40s}", *(f"{e:.4f}" for e in values), sep="\t", flush=True)
    figure = draw(models, data, series=N_TRAIN)
    figure.savefig(folder / "reverse_reconstruction_by_method.png", dpi=72)


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write a file, open no window
    main()
