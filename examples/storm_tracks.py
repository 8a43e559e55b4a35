"""
Where will the storm be?
========================

Positions, winds and pressures of 151 Atlantic storms, most of them every six hours. The model
learns from the first hundred, and forecasts the others from the first half of their life. The usual
reference is a storm that keeps its velocity.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from skpolyode import Panel, PolyODETransformer, evaluate_forecasts
from skpolyode.datasets import load_storms

N_TRAIN, N_SHOWN, LONGEST = 100, 4, 36  # of rows that the pictured storms have at least
COLORS = {"constant velocity": "C1", "PolyODE": "C0"}

storms = load_storms()
train, test = storms.panel[:N_TRAIN], storms.panel[N_TRAIN:]
model = PolyODETransformer(random_state=0).fit(train)


class ConstantVelocity:
    """A storm that keeps its last velocity, its wind and its pressure."""

    def forecast(self, panel, times):
        tracks = []
        for (seen, values), ahead in zip(panel.to_series(), times, strict=True):
            steps = (ahead - seen[-1]) / (seen[-1] - seen[-2])
            change = (values[-1] - values[-2]) * [1, 1, 0, 0]
            tracks.append((ahead, values[-1] + np.outer(steps, change)))
        return Panel.from_series(tracks, channel_names=panel.channel_names, time_unit="h")


# %%
# Mean squared errors of all later observations, by how many hours ahead they were:

forecasters = {"constant velocity": ConstantVelocity(), "PolyODE": model}
question = {"cutoff": 0.5, "horizon": [12, 24, 48, 72], "metrics": ["mse"]}
scores = {
    name: evaluate_forecasts(forecaster, test, **question).set_index(["channel", "lead"])["value"]
    for name, forecaster in forecasters.items()
}
print(pd.DataFrame(scores).assign(ratio=lambda x: x["PolyODE"] / x["constant velocity"]).round(2))
coverage = evaluate_forecasts(model, test, cutoff=0.5, horizon=[24, 72], metrics=["coverage"])
print(coverage.pivot(index="channel", columns="lead", values="value").round(2))

# %%
# The last four long storms, from the middle of their tracks. Thin lines are sampled trajectories.

figure, axes = plt.subplots(1, N_SHOWN, figsize=(12, 3.6), layout="constrained")
names = storms.frame.groupby("storm")["name"].first()
shown = test[test.lengths >= LONGEST][-N_SHOWN:]
for ax, storm, (times, track) in zip(axes, shown.ids, shown.to_series(), strict=True):
    middle = len(times) // 2
    past = Panel.from_series([(times[:middle], track[:middle])], time_unit="h")
    ahead = times[middle:][times[middle:] <= times[middle - 1] + pd.Timedelta(hours=72)]
    truth = track[middle : middle + len(ahead)]
    samples = model.sample_paths(past, ahead, n_samples=20, random_state=len(track)).values[0]
    start = track[None, middle - 1 : middle].repeat(len(samples), axis=0)
    samples = np.concatenate([start, samples], axis=1)
    ax.plot(samples[..., 1].T, samples[..., 0].T, color="C0", lw=0.7, alpha=0.4)
    for forecaster, color, label in (
        (ConstantVelocity(), "C1", "constant velocity"),
        (model, "C0", "PolyODE"),
    ):
        values = np.vstack([track[middle - 1], forecaster.forecast(past, [ahead]).values])
        ax.plot(values[:, 1], values[:, 0], color=color, lw=2, label=label)
    ax.plot(track[:middle, 1], track[:middle, 0], ".-", color="black", label="observed")
    ax.plot(truth[:, 1], truth[:, 0], "o", mfc="none", color="black", ms=4, label="actual")
    ax.set(title=f"{names[storm]}, {times[0].year}", xlabel="longitude")
axes[0].set_ylabel("latitude")
handles, labels = axes[0].get_legend_handles_labels()
figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
figure.suptitle("Three days of four Atlantic storms (thin lines: sampled trajectories)")
plt.show()
