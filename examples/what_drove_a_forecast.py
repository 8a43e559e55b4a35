"""
What drove a forecast
=====================

Each observation is left out once, and its colour tells how much the forecast changes then. The last
observations count most.
"""

from __future__ import annotations

import matplotlib.pyplot as plt

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_ode_system
from skpolyode.inspection import ImportanceDisplay, observation_importance

N_TRAIN, N_TEST, N_EPOCHS = 30, 3, 6

data = make_ode_system("van_der_pol", N_TRAIN + N_TEST, random_state=0)
train, others = data.panel[:N_TRAIN], data.panel[N_TRAIN:]
model = PolyODETransformer(n_coefficients=16, max_epochs=N_EPOCHS, random_state=0).fit(train)

# %%
# By channel, in the mean over new series: how much the forecast of one time unit ahead changes.

table = observation_importance(model, others, times=[1.0], relative_to="end", by="channel")
print(table.groupby("channel")["importance"].mean())

# %%
# The observations of one series:

ImportanceDisplay.from_estimator(model, others, series=0, times=[1.0], relative_to="end")
plt.show()
