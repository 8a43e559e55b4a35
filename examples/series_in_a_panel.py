"""
Series in a panel
=================

What a panel holds: series with times of their own and of different lengths, whose channels are
observed apart. Nothing is put on a grid or filled in.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import Panel
from skpolyode.datasets import make_lorenz63, make_ode_system, make_synthetic

rng = np.random.default_rng(0)

# %%
# Three people, and two channels that were measured at different moments. :doc:`/data_formats` has
# the formats that are read.

people = []
for length in (16, 11, 7):
    hours = np.sort(rng.uniform(0, 3 * length, 2 * length))
    rate = 65 + 8 * np.sin(hours / 6 + rng.uniform(0, 6)) + rng.normal(0, 1, len(hours))
    values = np.column_stack([rate, 180 - rate])
    values[np.arange(len(hours)), rng.integers(0, 2, len(hours))] = np.nan  # one of both at a time
    people.append((hours, values))
names = ["heart rate", "pressure"]
panel = Panel.from_series(people, channel_names=names, ids=["ann", "bob", "eve"])
print(panel)
figure, axes = plt.subplots(2, 1, figsize=(10, 4), sharex=True, layout="constrained")
panel.plot(axes)
axes[1].set_xlabel("hours")
plt.show()

# %%
# Simulated series, one of each kind: points are observed, the grey line is the true course.
# :doc:`/datasets` says how they are made.

sets = {
    "make_synthetic": make_synthetic(3, rate=1.0, random_state=1),
    "make_lorenz63": make_lorenz63(3, random_state=0),
    "make_ode_system, prey": make_ode_system("lotka_volterra", 3, random_state=0),
    "make_ode_system, with noise": make_ode_system("van_der_pol", 3, noise=0.3, random_state=0),
}
figure, axes = plt.subplots(2, 2, figsize=(10, 4.5), layout="constrained")
for ax, (name, data) in zip(axes.flat, sets.items(), strict=True):
    truth, (times, values) = data.truth, data.panel[0]
    ax.plot(truth.times, truth.values[0][:, truth.observed][:, 0], color="0.8", lw=5)
    ax.plot(times, values[:, 0], "ko", ms=4)
    ax.set_title(name, fontsize=10)
plt.show()

# %%
# Stays in a hospital, as the recipe of :doc:`/classification` reads them: some channels are hardly
# ever measured, and slopes tell how a stay will end.

figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharex=True, layout="constrained")
channels = (("heart rate", 85, 0.8, 12), ("lactate", 2, 0.05, 4), ("temperature", 37, 0.0, 7))
for ax, (name, level, slope, n_rows) in zip(axes, channels, strict=True):
    for k in range(10):
        died = k < 3
        hours = np.sort(rng.uniform(0, 48, n_rows))
        values = level + slope * died * hours + 0.05 * level * rng.normal(size=n_rows)
        label = {0: "died", 3: "went home"}.get(k)
        ax.plot(hours, values, ".-", color="C3" if died else "0.7", lw=1, label=label)
    ax.set_title(name, fontsize=10)
    ax.set_xlabel("hours")
axes[0].legend(frameon=False)
plt.show()
