"""
MiniRocket on irregular series
==============================

MiniRocket wants regular series: all channels, the same times for all. ``Resampler`` gives it those,
from sparse samples of the Lorenz (1963) attractor whose times differ from series to series. The
label is the sign, at one moment of the clock, of a state that is never observed. How well it can be
told depends on what the resampler follows between observations: lines, or learned dynamics.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

from skpolyode import InterpolationTransformer, PolyODETransformer, Resampler
from skpolyode.datasets import make_lorenz63
from skpolyode.heads import MiniRocket

N_SERIES, N_EPOCHS = 400, 10

data = make_lorenz63(N_SERIES, random_state=0)
train, test = (data.split == part for part in ("train", "test"))
clock = np.linspace(0, 10, 100)
paths = {
    "lines": InterpolationTransformer(kind="linear"),
    "learned": PolyODETransformer(max_epochs=N_EPOCHS, random_state=0),
}

# %%
# A chain for each path, judged on series that it has not seen by the area under the ROC curve:

chains = {}
for name, path in paths.items():
    chain = chains[name] = make_pipeline(
        Resampler(path, grid=clock, relative_to=None),
        MiniRocket(random_state=0),
        RidgeClassifierCV(np.logspace(-3, 3, 10)),
    )
    chain.fit(data.panel[train], data.y[train])
    scores = chain.decision_function(data.panel[test])
    print(f"{name:8s} AUC {roc_auc_score(data.y[test], scores):.3f}")

# %%
# What MiniRocket saw of one series, beside what really happened:

one = np.flatnonzero(test)[0]
series, course = data.panel[[one]], data.truth.values[one][:, data.truth.observed]
figure, axes = plt.subplots(2, 1, figsize=(10, 5), sharex=True, layout="constrained")
for j, ax in enumerate(axes):
    ax.plot(data.truth.times, course[:, j], color="0.8", lw=5, label="truth")
    for name, chain in chains.items():
        ax.plot(clock, chain[0].transform(series)[0, j], label=f"{name}, on the grid")
    ax.plot(series.times, series.values[:, j], "k.", label="observed")
    ax.set_ylabel(data.panel.channel_names[j])
axes[1].set_xlabel("time")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False)
plt.show()

# %%
# What lies beyond the last observation is forecast, or held by lines. Any transformer of regular
# series may take MiniRocket's place; on dense series lines do as well
# (:doc:`/benchmarks`).
