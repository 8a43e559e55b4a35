"""Find a signal in noisy observations, and say how far off it may be.

    python examples/noisy_observations.py --output demo_output

PolyODE is trained on 100 irregularly observed series of Van der Pol's oscillator, with noise of
0.3 standard deviations on every observation, and is told that observations are noisy. Of a new
series it gives the path that it believes, a band that holds the signal with probability .95 if
errors are normal, and a forecast.

Writes noisy_observations.png.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from sklearn.utils import Bunch

from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_ode_system

N_TRAIN, N_TEST = 100, 50
NOISE, N_EPOCHS = 0.3, 25
KNOWN = 16.0  # units of time, of 20


def draw(model: PolyODETransformer, data: Bunch, known: Panel, series: int) -> Figure:
    """Observations, band, path and truth of each channel of one series."""
    figure, axes = plt.subplots(2, 1, figsize=(10, 5), sharex=True, layout="constrained")
    grid, one = data.truth.times, known[series - N_TRAIN : series - N_TRAIN + 1]
    path, std = (f(one, grid).values for f in (model.interpolate, model.interpolate_std))
    for j, ax in enumerate(axes):
        ax.plot(grid, data.truth.values[series, :, j], color="0.7", lw=4, label="truth")
        low, high = path[:, j] - 1.96 * std[:, j], path[:, j] + 1.96 * std[:, j]
        ax.fill_between(grid, low, high, color="C0", alpha=0.25, lw=0, label="95 %")
        ax.plot(grid, path[:, j], color="C0", label="PolyODE")
        ax.plot(one.times, one.values[:, j], "k.", ms=4, label="observed")
        ax.axvline(KNOWN, color="0.5", lw=0.8, ls=":")
        ax.set_ylabel(known.channel_names[j])
    axes[1].set_xlabel("time")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("demo_output"))
    folder = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)

    n_series = N_TRAIN + N_TEST
    data = make_ode_system("van_der_pol", n_series, rate=1.0, noise=NOISE, random_state=0)
    model = PolyODETransformer(observations="noisy", max_epochs=N_EPOCHS, random_state=0)
    model.fit(data.panel[:N_TRAIN])
    rows = [(s.times[s.times <= KNOWN], s.values[s.times <= KNOWN]) for s in data.panel[N_TRAIN:]]
    known = Panel.from_series(rows, channel_names=data.panel.channel_names)
    scale = data.truth.values.std(axis=(0, 1))
    print(f"noise of {NOISE:g}; learned, in standard deviations:", end=" ")
    print(", ".join(f"{x:.2f}" for x in model.noise_ / scale))
    inside = data.truth.times <= KNOWN
    path, std = (
        f(known, data.truth.times[inside]).values.reshape(N_TEST, -1, 2)
        for f in (model.interpolate, model.interpolate_std)
    )
    error = path - data.truth.values[N_TRAIN:, inside]
    for j, name in enumerate(known.channel_names):
        wrong, share = error[..., j] / scale[j], np.abs(error[..., j]) < 1.96 * std[..., j]
        print(f"  {name}: squared error {np.mean(wrong**2):.4f},", end=" ")
        print(f"in the band {share.mean():.2f} (expected 0.95)")
    draw(model, data, known, N_TRAIN).savefig(folder / "noisy_observations.png", dpi=90)


if __name__ == "__main__":
    plt.switch_backend("Agg")  # write a file, open no window
    main()
