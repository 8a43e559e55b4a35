"""
A stream of observations
========================

Observations of a pendulum come in one after the other. A stream takes each in at a constant cost,
and answers at any moment: here with its forecast of the next seconds.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import PolyODETransformer
from skpolyode.datasets import make_ode_system

data = make_ode_system("damped_pendulum", 90, random_state=0)
train, others = data.panel[:80], data.panel[80:]
model = PolyODETransformer(n_coefficients=16, max_epochs=12, random_state=0).fit(train)

# %%
# The grey line is the true course. Each picture shows the observations so far (filled points),
# those to come (hollow points), and the forecast of this moment.

times, values = others[0]
truth = data.truth.values[80][:, data.truth.observed]
moments = np.linspace(0, len(times), 5).astype(int)[1:4]
figure, axes = plt.subplots(len(moments), 1, figsize=(10, 6), sharex=True, layout="constrained")
stream, taken = model.stream(1), 0
for ax, moment in zip(axes, moments, strict=True):
    for k in range(taken, moment):
        stream.update(times[k], values[k])
    taken = moment
    ahead = np.linspace(0, times[-1] - times[moment - 1], 80)
    forecast = stream.forecast(ahead, relative_to="end")
    ax.plot(data.truth.times, truth[:, 0], color="0.8", lw=6)
    ax.plot(times[:moment], values[:moment, 0], "ko", ms=5)
    ax.plot(times[moment:], values[moment:, 0], "ko", ms=5, mfc="none")
    ax.plot(forecast.times, forecast.values[:, 0], "C0", lw=2)
    ax.set_title(f"after {moment} observations", loc="left", fontsize=10)
axes[-1].set_xlabel("time")
figure.supylabel(others.channel_names[0], fontsize=10)
plt.show()
