"""
Siblings between observations
=============================

What neural models expect of the next seconds, from the same observations of Van der Pol's
oscillator. All of them were trained to forecast. They differ in how their state moves while nothing
is observed.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import LinODENetTransformer, ODERNNTransformer, PolyODETransformer
from skpolyode.datasets import make_ode_system

N_TRAIN, N_TEST, N_EPOCHS = 30, 10, 6

data = make_ode_system("van_der_pol", N_TRAIN + N_TEST, random_state=0)
train, others = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
kinds = (PolyODETransformer, ODERNNTransformer, LinODENetTransformer)
models = [kind(max_epochs=N_EPOCHS, random_state=0).fit(train) for kind in kinds]

# %%
# Errors one step ahead on new series, in variances:

for model in models:
    print(f"{type(model).__name__}: {-model.score(others):.3f}")

# %%
# Free runs of one series from half of its time on. The grey line is the true course.

times, values = others[0]
n_known = len(times) // 2
known = [(times[:n_known], values[:n_known])]
ahead = np.linspace(times[n_known - 1], times[n_known - 1] + 5, 80)
truth = data.truth.values[N_TRAIN][:, data.truth.observed]
figure, axes = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
for ax, model in zip(axes, models, strict=True):
    ax.plot(data.truth.times, truth[:, 0], color="0.8", lw=6)
    ax.plot(ahead, model.forecast(known, ahead, combine=False).values[:, 0], "C0", lw=2)
    ax.plot(times[:n_known], values[:n_known, 0], "ko", ms=4)
    ax.plot(times[n_known:], values[n_known:, 0], "ko", ms=4, mfc="none")
    ax.set_title(type(model).__name__, fontsize=10)
    ax.set_xlabel("time")
axes[0].set_ylabel(others.channel_names[0])
plt.show()
