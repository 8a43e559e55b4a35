"""
Gaps filled by learned dynamics
===============================

Van der Pol's oscillator, observed some thirty times in eighteen seconds. PolyODE has learned from
other series how it moves, and imputes the values in the gaps. Straight lines know the two
neighbours of a gap only.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from skpolyode import InterpolationTransformer, PolyODETransformer
from skpolyode.datasets import make_ode_system
from skpolyode.plotting import ReliabilityDisplay

data = make_ode_system("van_der_pol", 90, random_state=0)
train, others = data.panel[:70], data.panel[70:]
truth = data.truth.values[70:][:, :, data.truth.observed]
models = {
    "PolyODE": PolyODETransformer(max_epochs=10, random_state=0),
    "straight lines": InterpolationTransformer(),
}

# %%
# Mean squared errors between the observations of new series, in variances of the channels.

for name, model in models.items():
    path = model.fit(train).interpolate(others, data.truth.times).values.reshape(truth.shape)
    error = np.mean((path - truth) ** 2 / truth.var(axis=(0, 1)))
    print(f"{name}: {error:.4f}")

# %%
# One series. The grey line is the true course, points were observed.

figure, axes = plt.subplots(
    len(others.channel_names), 1, figsize=(10, 5), sharex=True, layout="constrained", squeeze=False
)
times, values = others[0]
for channel, ax in enumerate(axes[:, 0]):
    ax.plot(data.truth.times, truth[0, :, channel], color="0.8", lw=6, label="true course")
    for color, (name, model) in zip(("C0", "C3"), models.items(), strict=True):
        path = model.interpolate(others[[0]], data.truth.times).values
        ax.plot(data.truth.times, path[:, channel], color=color, label=name)
    ax.plot(times, values[:, channel], "ko", ms=5, label="observed")
    ax.set(ylabel=others.channel_names[channel], xlim=(times[0], times[-1]))
axes[-1, 0].set_xlabel("time")
handles, labels = axes[0, 0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
figure.suptitle("The learned path follows the turns that straight lines cut off")
plt.show()

# %%
# Do its intervals keep what they promise? At all levels, of the true values between observations:

model, levels = models["PolyODE"], np.linspace(0.1, 0.9, 9)
ends = {p: model.interpolate_interval(others, data.truth.times, coverage=p) for p in levels}
intervals = {p: (lower.values, upper.values) for p, (lower, upper) in ends.items()}
flat = truth.reshape(-1, others.n_channels)
ReliabilityDisplay.from_predictions(flat, intervals, channel_names=others.channel_names)
plt.show()
