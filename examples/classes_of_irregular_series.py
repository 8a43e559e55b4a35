"""
Classes of irregular series
===========================

Two kinds of oscillators, observed at random moments. The second kind swings a little faster, which
no single reading shows. A classifier reads the embedding, one row of features for each series.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import RocCurveDisplay
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from skpolyode import Panel, PolyODETransformer, SummaryStatsTransformer

rng = np.random.default_rng(0)
labels = np.arange(130) % 2
series = []
for label in labels:
    times = np.sort(rng.uniform(0, 10, rng.integers(12, 24)))
    angle = (1.5 + 0.3 * label) * times + rng.uniform(0, 6)
    values = np.stack([np.sin(angle), np.cos(angle)], axis=1) * rng.uniform(0.7, 1.3)
    values[rng.random(values.shape) < 0.3] = np.nan
    series.append((times, values))
panel = Panel.from_series(series, empty="keep")
train, test = slice(0, 80), slice(80, None)

# %%
# Left: the first channel of two series of each class. Middle: scores of the classifier for series
# that were not in `fit`. Right: how well they are told apart, beside summary statistics.

learned = PolyODETransformer(
    n_coefficients=16, embedding="coefficients", max_epochs=10, random_state=0
)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for k in range(4):
    times, values = panel[k]
    axes[0].plot(times, values[:, 0] - 2.5 * k, "o", ms=4, color=f"C{labels[k]}")
axes[0].set(title="four series", xlabel="time", yticks=[])
for name, features in {"PolyODE": learned, "summary statistics": SummaryStatsTransformer()}.items():
    model = make_pipeline(features, SVC(C=10)).fit(panel[train], labels[train])
    RocCurveDisplay.from_estimator(model, panel[test], labels[test], name=name, ax=axes[2])
    if features is learned:
        scores = model.decision_function(panel[test])
axes[1].hist([scores[labels[test] == k] for k in (0, 1)], bins=12, label=["slow", "fast"])
axes[1].set(title="scores of new series", xlabel="score", ylabel="number of series")
axes[1].legend(frameon=False)
axes[2].set_title("new series")
plt.show()
