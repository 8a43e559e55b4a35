"""
The same past by four methods
=============================

All four keep 32 coefficients a channel. They differ in what they assume between observations: HiPPO
holds each value, interpolation draws a line to the next, least squares assumes no path at all, and
PolyODE follows dynamics that it has learned from other series. All but the first are close at the
observations. In between only PolyODE has information.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpolyode import (
    HiPPOTransformer,
    InterpolationTransformer,
    LegendreFitTransformer,
    PolyODETransformer,
)
from skpolyode.datasets import make_lorenz63
from skpolyode.plotting import ReconstructionDisplay

N_TRAIN, N_TEST, N_EPOCHS = 200, 40, 12
WINDOW = 5.0

data = make_lorenz63(N_TRAIN + N_TEST, random_state=0)
train, test = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
truth = data.truth.values[N_TRAIN:, :, data.truth.observed]
models = {
    "HiPPO, values held": HiPPOTransformer(hold="previous", window=WINDOW),
    "linear interpolation": InterpolationTransformer(kind="linear", window=WINDOW),
    "Legendre fit": LegendreFitTransformer(window=WINDOW),
    "PolyODE": PolyODETransformer(window=WINDOW, max_epochs=N_EPOCHS, random_state=0),
}
for model in models.values():
    model.fit(train)

# %%
# Errors between observations
# ---------------------------
# Mean squared errors of new series on a grid over their last window, in units of the variance.


def errors_between(model):
    """Errors (series, channel)."""
    found = []
    for (times, _), one, states in zip(test, range(N_TEST), truth, strict=True):
        grid = data.truth.times
        inside = (grid <= times[-1]) & (grid >= max(times[0], times[-1] - WINDOW))
        answer = model.reconstruct(test[[one]], grid[inside]).values
        found.append(((answer - states[inside]) ** 2).mean(axis=0))
    return np.array(found)


rows = {}
for name, model in models.items():
    errors = errors_between(model)
    rows[name] = [*errors.mean(axis=0), *np.median(errors, axis=0)]
columns = pd.MultiIndex.from_product([["mean", "median"], test.channel_names])
print(pd.DataFrame.from_dict(rows, orient="index", columns=columns).round(4))

# %%
# One series
# ----------

figure, axes = plt.subplots(
    len(models), 2, figsize=(10, 8), sharex=True, sharey=True, layout="constrained"
)
course = data.truth.times, truth[0]
for row, (name, model) in zip(axes, models.items(), strict=True):
    ReconstructionDisplay.from_estimator(model, test, series=0, truth=course, ax=row)
    row[0].set_title(name, loc="left", fontsize=10)
axes[0, 0].set_xlim(test[0].times[-1] - 1.2 * WINDOW, None)
for ax in axes[:-1].flat:
    ax.set_xlabel("")
figure.supylabel("standard deviations of the attractor", fontsize=10)
handles, labels = axes[0, 0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# What happened here: the three above know one series. PolyODE has seen how 200 others move, and
# follows the turns that are not observed.
