"""
The past of a chaotic series, reconstructed from its embedding
==============================================================

PolyODE is trained on 200 irregularly observed trajectories of the Lorenz (1963) attractor, of
which two of three states are seen. Of a new trajectory it keeps only what ``transform`` returns,
32 coefficients a channel. From those the last five time units are reconstructed: at the times
that were observed, and between them, where only the true course tells whether it is right.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import Panel, PolyODETransformer
from skpolyode.datasets import make_lorenz63
from skpolyode.plotting import CoefficientDisplay, ReconstructionDisplay

N_TRAIN, N_TEST, N_EPOCHS = 200, 40, 10
WINDOW = 5.0

data = make_lorenz63(N_TRAIN + N_TEST, random_state=0)
train, test = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
model = PolyODETransformer(window=WINDOW, max_epochs=N_EPOCHS, random_state=0).fit(train)

# %%
# Errors
# ------
# Mean squared errors over the last five time units of new series, in units of the variance: at
# observed times, and on the fine grid of the truth between them.

ends = np.repeat(test.times[test.offsets[1:] - 1], test.lengths)
seen = test.values[test.times >= ends - WINDOW]
error = (model.reconstruct(test).values - seen) ** 2
print("observed:       x {:.4f}, y {:.4f}".format(*error.mean(axis=0)))

grid, pasts = data.truth.times, []
for (times, _), states in zip(test, data.truth.values[N_TRAIN:], strict=True):
    inside = (grid <= times[-1]) & (grid >= max(times[0], times[-1] - WINDOW))
    pasts.append((grid[inside], states[inside][:, data.truth.observed]))
truth = Panel.from_series(pasts, channel_names=test.channel_names)
error = (model.reconstruct(test, [times for times, _ in pasts]).values - truth.values) ** 2
print("never observed: x {:.4f}, y {:.4f}".format(*error.mean(axis=0)))

# %%
# One series
# ----------
# Left: the coefficients. Right: the blue line is computed from them alone, without the
# observations; the broad grey line is the true course.

figure, axes = plt.subplots(
    2, 2, figsize=(11, 5), width_ratios=(2, 5), sharex="col", layout="constrained"
)
course = grid, data.truth.values[N_TRAIN][:, data.truth.observed]
CoefficientDisplay.from_estimator(model, test, series=0, ax=axes[:, 0])
past = ReconstructionDisplay.from_estimator(model, test, series=0, truth=course, ax=axes[:, 1])
axes[0, 0].set_title("Embedding: 32 coefficients a channel", fontsize=10)
axes[0, 1].set_title("Reconstructed: the last five time units", fontsize=10)
for ax in axes[0]:
    ax.set_xlabel("")
for ax, name in zip(axes[:, 1], test.channel_names, strict=True):
    ax.set_ylabel(f"{name} (standard deviations)")
handles, labels = past.axes_[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# What happened here: the path that the network drove through the observations was projected onto
# polynomials as it went along. ``interpolate`` gives the path itself, which is closer still.
