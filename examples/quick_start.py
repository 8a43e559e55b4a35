"""The first look of the README: gaps of readings filled in, beside straight lines."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skpolyode import InterpolationTransformer, Panel, PanelImputer, PolyODETransformer

# 60 buoys, read 18 times each at random moments of two days; a third of the readings failed.
rng = np.random.default_rng(0)
buoy, hours = np.repeat(np.arange(60), 18), rng.uniform(0, 48, 1080)
fast, phase = np.arange(60) % 2, rng.random(60)  # every second one swings faster


def truth(buoy, hours):
    angle = 2 * np.pi * (hours / (14 - 4 * fast[buoy]) + phase[buoy])
    return pd.DataFrame({"height": np.sin(angle), "tilt": np.cos(angle)})


table = truth(buoy, hours).mask(rng.random((1080, 2)) < 0.3)
table["buoy"], table["time"] = buoy, pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")

panel = Panel.from_long(table, id="buoy", time="time", time_unit="h", sort=True)
print(panel)
swings = truth(buoy, hours).iloc[table.sort_values(["buoy", "time"]).index].to_numpy()
learned = PolyODETransformer(n_coefficients=16, max_epochs=4, random_state=0)
for model in (InterpolationTransformer(), learned):
    complete = PanelImputer(model).fit_transform(panel)
    error = np.mean((complete.values - swings)[np.isnan(panel.values)] ** 2)
    print(f"{type(model).__name__}: mean squared error {error:.3f}")
