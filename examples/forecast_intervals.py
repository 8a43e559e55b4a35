"""
Forecasts with intervals
========================

Each series is one population of prey, counted some thirty times at random moments. Predators are
never counted, and every population has growth and death rates of its own. One model learns from
100 populations. It then continues others from the counts of two thirds of their time, with
intervals.
"""

from __future__ import annotations

import matplotlib.pyplot as plt

from skpolyode import PolyODEForecaster, PolyODETransformer, evaluate_forecasts
from skpolyode.datasets import make_ode_system
from skpolyode.plotting import ForecastDisplay, ReliabilityDisplay

N_TRAIN, N_TEST, N_EPOCHS = 100, 40, 12
CUTOFF = 2 / 3  # of each population's time

data = make_ode_system("lotka_volterra", N_TRAIN + N_TEST, random_state=0)
train, others = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
transformer = PolyODETransformer(max_epochs=N_EPOCHS)
model = PolyODEForecaster(transformer, random_state=0).pretrain(train)

# %%
# Errors, and the share of counts inside the intervals of 90 %, by how far ahead they were.

metrics, leads = ["mse", "mae", "coverage"], [1.0, 3.0, 7.0]
print(evaluate_forecasts(model, others, cutoff=CUTOFF, horizon=leads, metrics=metrics))

# %%
# Four of the populations. Hollow points are the counts that the model did not know, the broad grey
# line is the true course.

figure, axes = plt.subplots(2, 2, figsize=(10, 6), sharex=True, sharey=True, layout="constrained")
prey = data.truth.values[N_TRAIN:, :, data.truth.observed]
for k, ax in enumerate(axes.flat):
    course = data.truth.times, prey[k]
    ForecastDisplay.from_estimator(
        model, others, series=k, cutoff=CUTOFF, coverage=(0.9, 0.5), truth=course, ax=ax
    )
    ax.set_title(f"population {k + 1}", fontsize=10)
    ax.label_outer()
handles, labels = axes[0, 0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
figure.suptitle("Predators are never seen, yet the forecasts follow the waves of the prey")
plt.show()

# %%
# Do they keep what they promise? At all levels, of all the counts that came:

ReliabilityDisplay.from_estimator(model, others, cutoff=CUTOFF)
plt.show()

# %%
# What happened here: the intervals come from the errors of forecasts of held-out populations with
# the same lead, scaled by how much each population varies. See :doc:`/intervals`.
