"""
The risk along time
===================

One label a series, and a probability of it at each observation, from what was known then.

Half of the series rise slowly under noise. At first nothing tells them from the others.
"""

import numpy as np

from skpolyode import HiPPOTransformer, PolyODEClassifier
from skpolyode.plotting import RiskDisplay

rng = np.random.default_rng(0)
y = np.tile(["level", "rising"], 60)
times = [np.sort(rng.uniform(0, 24, rng.integers(12, 20))) for _ in y]
slopes = np.where(y == "rising", 0.15, 0.0)
series = [(t, b * t + rng.normal(0, 0.6, len(t))) for t, b in zip(times, slopes, strict=True)]

# %%
# With `n_cuts` one head learns from each series at several ages.

options = {"features": "coefficients", "n_cuts": 8, "random_state": 0}
model = PolyODEClassifier(HiPPOTransformer(n_coefficients=4), **options)
model.fit(series[:80], y[:80])

# %%
# The probability of "rising" is drawn: of two classes, the second one in the order of `classes_`.

display = RiskDisplay.from_estimator(model, series[80:], series=1)

# %%
# Since when the first series are clear:

print(model.decided_at(series[80:86], confidence=0.8))
