"""
A training, and three seeds
===========================

How the errors fall during ``fit``, and how much of a forecast is chance: the same series, fitted
with three seeds.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_ode_system
from skpolyode.plotting import TrainingDisplay

N_TRAIN, N_TEST, N_EPOCHS = 30, 10, 6

data = make_ode_system("van_der_pol", N_TRAIN + N_TEST, random_state=0)
train, others = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
settings = {"n_coefficients": 8, "max_epochs": N_EPOCHS}
models = [PolyODETransformer(**settings, random_state=seed).fit(train) for seed in range(3)]

# %%
# The error of held-out series decides which weights are kept (:doc:`/theory`).

TrainingDisplay.from_estimator(models[0])
plt.show()

# %%
# Errors one step ahead on new series, by seed:

print(np.array([-model.score(others) for model in models]).round(3))

# %%
# Forecasts of one series. The same seed gives the same forecast, to the last bit. Another seed
# starts from other weights, and holds out other series (:doc:`/reproducibility`).

times, values = others[0]
n_known = len(times) * 2 // 3
known = [(times[:n_known], values[:n_known])]
ahead = np.linspace(times[n_known - 1], times[-1], 80)
truth = data.truth.values[N_TRAIN][:, data.truth.observed]
figure, ax = plt.subplots(figsize=(10, 3.5), layout="constrained")
ax.plot(data.truth.times, truth[:, 0], color="0.8", lw=6, label="true course")
for seed, model in enumerate(models):
    ax.plot(ahead, model.forecast(known, ahead).values[:, 0], lw=1.5, label=f"seed {seed}")
ax.plot(times[:n_known], values[:n_known, 0], "ko", ms=5, label="observed")
ax.set(xlabel="time", ylabel=others.channel_names[0])
figure.legend(loc="outside upper center", ncols=7, frameon=False)
plt.show()
