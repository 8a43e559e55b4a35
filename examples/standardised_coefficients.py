"""
Never standardise single coefficients
=====================================

The coefficients of a channel share one scale, on which the distance of two embeddings is the
distance of two histories. JapaneseVowels, with half of the cells hidden: a support vector machine
reads the coefficients of straight lines, as they are and each divided by its standard deviation.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skpolyode import InterpolationTransformer
from skpolyode.datasets import drop_cells, load_japanese_vowels

train, test = (load_japanese_vowels(part) for part in ("train", "test"))
seen, new = (drop_cells(data.panel, 0.5, random_state=0)[0] for data in (train, test))
lines = InterpolationTransformer(n_coefficients=16, window=16.0)
models = {
    "as they are": make_pipeline(lines, SVC(C=10)),
    "standardised": make_pipeline(lines, StandardScaler(), SVC(C=10)),
}
scores = {name: model.fit(seen, train.y).score(new, test.y) for name, model in models.items()}
print({name: round(score, 3) for name, score in scores.items()})

# %%
# High degrees are small because they matter little. Standardised, they count as much as the mean,
# and their noise with them.

features = models["as they are"][0].transform(seen).reshape(len(seen), seen.n_channels, -1)
spread = features.std(axis=0).mean(axis=0)
figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
ax.bar(np.arange(len(spread)), spread, color="C0", label="as they are")
ax.axhline(1, color="C3", label="standardised")
ax.set(xlabel="degree of the polynomial", ylabel="standard deviation of the coefficient")
ax.legend(frameon=False)
ax.set_title(
    f"accuracy {scores['as they are']:.2f} as they are, {scores['standardised']:.2f} standardised"
)
plt.show()
