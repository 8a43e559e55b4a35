"""
Classes of irregular series
===========================

Two kinds of oscillators, observed at random moments. The second kind swings a little faster, which
no single reading shows. A classifier reads the embedding, one row of features for each series.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.metrics import RocCurveDisplay
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from skpolyode import Panel, PolyODETransformer, SummaryStatsTransformer

rng = np.random.default_rng(0)
labels = np.arange(160) % 2
series = []
for label in labels:
    times = np.sort(rng.uniform(0, 10, rng.integers(12, 24)))
    angle = (1.5 + 0.3 * label) * times + rng.uniform(0, 6)
    values = np.stack([np.sin(angle), np.cos(angle)], axis=1) * rng.uniform(0.7, 1.3)
    values[rng.random(values.shape) < 0.3] = np.nan
    series.append((times, values))
panel = Panel.from_series(series, empty="keep")
train, test = slice(0, 100), slice(100, None)

# %%
# Left: two series of each class. Middle: the embeddings of all, by their first two principal
# components. Right: how well series that were not in `fit` are told apart.

learned = PolyODETransformer(
    n_coefficients=16, embedding="coefficients", max_epochs=12, random_state=0
)
figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for k in range(4):
    times, values = panel[k]
    axes[0].plot(times, values[:, 0] - 2.5 * k, "o-", ms=4, lw=0.5, color=f"C{labels[k]}")
axes[0].set(title="first channel of four series", xlabel="time", yticks=[])
for name, features in {"PolyODE": learned, "summary statistics": SummaryStatsTransformer()}.items():
    model = make_pipeline(features, SVC(C=10)).fit(panel[train], labels[train])
    RocCurveDisplay.from_estimator(model, panel[test], labels[test], name=name, ax=axes[2])
axes[2].set_title("new series")
points = PCA(2).fit_transform(learned.fit_transform(panel))
axes[1].scatter(*points.T, c=[f"C{label}" for label in labels], s=20)
axes[1].set(title="embeddings", xlabel="first component", ylabel="second component")
plt.show()
