"""
Weights of forecasts
====================

``forecast`` combines the free run of the model with simple forecasts, by weights that held-out data
decide for each channel and lead. Here are the weights on two sets: a system with a law of motion,
and random walks, which have none.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_ode_system

N_TRAIN, N_EPOCHS = 30, 6

rng = np.random.default_rng(0)
walks = []
for _ in range(N_TRAIN):
    times = np.sort(rng.uniform(0, 20, 30))
    walks.append((times, (rng.normal(size=30) * np.sqrt(np.diff(times, prepend=0))).cumsum()))
sets = {"van der Pol": make_ode_system("van_der_pol", N_TRAIN, random_state=0).panel}
sets["random walks"] = walks

# %%
# Weights by lead, stacked on each other. What is left up to one is the weight of the mean in
# training.

figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True, layout="constrained")
for ax, (name, series) in zip(axes, sets.items(), strict=True):
    model = PolyODETransformer(n_coefficients=16, max_epochs=N_EPOCHS, random_state=0).fit(series)
    stacking = model.embedder_.stacking
    leads = stacking.leads * model.time_scale_
    print(name, {key: round(weight, 2) for key, weight in stacking.mean_weights.items()})
    ax.stackplot(leads, *stacking.weights[0].T, labels=stacking.names, alpha=0.8)
    ax.set(title=name, xlabel="lead", xscale="log", xlim=(leads[0], leads[-1]), ylim=(0, 1))
axes[0].set_ylabel("weight")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside upper center", ncols=5, frameon=False)
plt.show()
