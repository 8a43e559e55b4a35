"""
What is remembered, and how certain it is
=========================================

The experiment of the paper on uncertainty. What an embedding says of the past is off by two errors:
that of the path, whose standard deviation follows the distance to observations, and that of the
coefficients, which is known. A model that only knows how certain it is at the last moment has one
number. Both are compared with the errors of the past of 128 new series, at times at which nothing
was observed.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import spearmanr

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_lorenz63

N_TRAIN, N_TEST, N_EPOCHS = 160, 128, 12
PAPER = {"of the past": 0.56, "last": 0.11}  # Pearson's correlation in its figure 6

data = make_lorenz63(N_TRAIN + N_TEST, rate=0.3, random_state=0)
train, test = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
model = PolyODETransformer(max_epochs=N_EPOCHS, observations="exact", random_state=0)
model.fit(train)

# %%
# Errors and standard deviations
# ------------------------------
# At the times of a grid between the first and the last observation of each series, in standard
# deviations of the channel. The one of the last moment is that of a forecast over a typical gap.

grid, states = data.truth.times, data.truth.values[N_TRAIN:][:, :, data.truth.observed]
inside = [(grid > times[0]) & (grid < times[-1]) for times, _ in test]
asked = [grid[own] for own in inside]
truth = np.concatenate([own[where] for own, where in zip(states, inside, strict=True)])
scale = model.scaler_.scale
past, path, std = (
    ask(test, asked).values for ask in (model.reconstruct, model.interpolate, model.interpolate_std)
)
error = np.abs(past - truth) / scale
ahead = model.interpolate_std(test, [model.time_scale_], relative_to="end").values
spreads = {
    "of the past": np.hypot(std, past - path) / scale,
    "last": np.repeat(ahead, [len(times) for times in asked], axis=0) / scale,
}
for name, spread in spreads.items():
    pearson = np.corrcoef(spread.ravel(), error.ravel())[0, 1]
    ranks = spearmanr(spread.ravel(), error.ravel()).statistic
    print(f"{name}: Pearson {pearson:.2f} (paper {PAPER[name]:.2f}), Spearman {ranks:.2f}")

# %%
# The scatter
# -----------

figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
titles = {
    "of the past": "at each time of the past",
    "last": "standard deviation of the last moment",
}
for ax, (name, spread) in zip(axes, spreads.items(), strict=True):
    ax.loglog(spread.ravel(), error.ravel(), ".", markersize=1.5, alpha=0.15, rasterized=True)
    ax.plot([1e-3, 3], [1e-3, 3], color="0.5", linewidth=1)
    ax.set(xlabel=titles[name], ylim=(1e-4, 10))
axes[0].set_ylabel("absolute error of the past")
figure.suptitle("in standard deviations of the channel; on the line they are equal", fontsize=9)
plt.show()

# %%
# What happened here: the path is uncertain in long gaps, and its standard deviation says where
# these were. How uncertain the last moment is does not depend on gaps long ago.
