"""
A signal in noisy observations, and how uncertain it is
=======================================================

PolyODE is trained on 40 irregularly observed series of Van der Pol's oscillator, with noise of 0.3
standard deviations on every observation. With ``observations="noisy"`` it filters them. For a new
series it estimates the signal, the standard deviation of the error, and a forecast.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_ode_system

N_TRAIN, N_TEST, N_EPOCHS = 40, 10, 12
NOISE, KNOWN, END = 0.3, 8.0, 10.0

n_series = N_TRAIN + N_TEST
data = make_ode_system("van_der_pol", n_series, rate=0.8, noise=NOISE, random_state=0)


def until(panel: Panel, end: float) -> Panel:
    """The part of each series up to a time."""
    rows = [(times[times <= end], values[times <= end]) for times, values in panel]
    return Panel.from_series(rows, channel_names=panel.channel_names)


model = PolyODETransformer(
    n_coefficients=16, observations="noisy", max_epochs=N_EPOCHS, random_state=0
)
model.fit(until(data.panel[:N_TRAIN], END))
scale = data.truth.values.std(axis=(0, 1))
print("learned noise, expected 0.30: {:.2f}, {:.2f}".format(*(model.noise_ / scale)))

# %%
# Errors
# ------
# New series are known up to time 8. Squared errors against the signal without noise, in variances
# (the noise alone is 0.09), and the share of it within 1.96 standard deviations of the path.

known = until(data.panel[N_TRAIN:], KNOWN)
grid = data.truth.times[data.truth.times <= END]
truth = data.truth.values[N_TRAIN:, : len(grid)]
path, std = (
    f(known, grid).values.reshape(truth.shape) for f in (model.interpolate, model.interpolate_std)
)
error = path - truth
for name, part in ((f"up to {KNOWN}", grid <= KNOWN), ("ahead", grid > KNOWN)):
    square, inside = (error[:, part] / scale) ** 2, np.abs(error[:, part]) < 1.96 * std[:, part]
    print(f"{name}: {square.mean():.4f}, in the band {inside.mean():.2f} (expected 0.95)")

# %%
# What happened here
# ------------------
# The dynamics say where the signal goes. Each observation corrects it by a share that depends on
# the noise, and the noise is learned as well. Behind the dotted line is the forecast.

figure, axes = plt.subplots(2, 1, figsize=(10, 5), sharex=True, layout="constrained")
for j, ax in enumerate(axes):
    ax.plot(grid, truth[0, :, j], color="0.7", lw=4, label="truth")
    low, high = path[0, :, j] - 1.96 * std[0, :, j], path[0, :, j] + 1.96 * std[0, :, j]
    ax.fill_between(grid, low, high, color="C0", alpha=0.25, lw=0, label="95 %")
    ax.plot(grid, path[0, :, j], color="C0", label="PolyODE")
    ax.plot(known[0].times, known[0].values[:, j], "k.", ms=4, label="observed")
    ax.axvline(KNOWN, color="0.5", lw=0.8, ls=":")
    ax.set_ylabel(known.channel_names[j])
axes[1].set_xlabel("time")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()
