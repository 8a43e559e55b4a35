"""The quick start of the README: which of these buoys swing faster?"""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from skpolyode import HiPPOTransformer, Panel, PolyODETransformer

# 150 buoys, read at random moments of two days; every second one swings faster.
rng = np.random.default_rng(0)
buoy, hours = np.repeat(np.arange(150), 18), rng.uniform(0, 48, 2700)
fast = np.arange(150) % 2
angle = 2 * np.pi * (hours / (14 - 4 * fast[buoy]) + rng.random(150)[buoy])
table = pd.DataFrame({"buoy": buoy, "height": np.sin(angle), "tilt": np.cos(angle)})
table[["height", "tilt"]] = table[["height", "tilt"]].mask(rng.random((2700, 2)) < 0.3)
table["time"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")

panel = Panel.from_long(table, id="buoy", time="time", time_unit="h", sort=True)
learned = PolyODETransformer(n_coefficients=16, max_epochs=10, random_state=0)
for transformer in (HiPPOTransformer(n_coefficients=16), learned):
    model = make_pipeline(transformer, SVC())
    print(type(transformer).__name__, cross_val_score(model, panel, fast, cv=3).mean().round(2))
