"""From one long table of irregular, partly missing readings to a classifier and a forecast."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from skpolyode import Panel, PolyODETransformer

# Forty buoys, read at random moments of two days; every second one swings faster.
rng = np.random.default_rng(0)
buoy, hours = np.repeat(np.arange(40), 18), rng.uniform(0, 48, 720)
fast = np.arange(40) % 2
angle = 2 * np.pi * (hours / (14 - 4 * fast[buoy]) + rng.random(40)[buoy])
table = pd.DataFrame({"buoy": buoy, "height": np.sin(angle), "tilt": np.cos(angle)})
table[["height", "tilt"]] = table[["height", "tilt"]].mask(rng.random((720, 2)) < 0.3)
table["time"] = pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")

panel = Panel.from_long(table, id="buoy", time="time", time_unit="h", sort=True)
embedder = PolyODETransformer(n_coefficients=16, max_epochs=10, random_state=0)
model = make_pipeline(embedder, SVC())
print(cross_val_score(model, panel, fast, cv=3))  # which ones swing faster?

features = embedder.fit_transform(panel)  # one row a buoy
past = embedder.reconstruct(panel)  # all channels at all times, from the embedding
future = embedder.forecast(panel, pd.to_datetime(["2026-03-03 02:00", "2026-03-03 04:00"]))
print(features.shape, past, future.to_long().head(), sep="\n")
