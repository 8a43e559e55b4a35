"""The first look of the README: gaps of readings filled in, beside straight lines."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skpolyode import InterpolationTransformer, Panel, PanelImputer, PolyODETransformer

# 60 buoys, read 18 times each at random moments of two days; every second one swings faster.
rng = np.random.default_rng(1)
buoy, hours = np.repeat(np.arange(60), 18), np.sort(rng.uniform(0, 48, (60, 18))).ravel()
fast, phase = np.arange(60) % 2, rng.random(60)


def truth(buoy, hours):
    angle = 2 * np.pi * (hours / (14 - 4 * fast[buoy]) + phase[buoy])
    return np.column_stack([np.sin(angle), np.cos(angle)])


swings = truth(buoy, hours)
failed = rng.random(swings.shape) < 0.3
table = pd.DataFrame(swings, columns=["height", "tilt"]).mask(failed)
table["buoy"], table["time"] = buoy, pd.Timestamp("2026-03-01") + pd.to_timedelta(hours, unit="h")

panel = Panel.from_long(table, id="buoy", time="time", time_unit="h")
print(panel)
learned = PolyODETransformer(n_coefficients=16, max_epochs=4, random_state=0)
for model in (InterpolationTransformer(), learned):
    complete = PanelImputer(model).fit_transform(panel)
    error = np.mean((complete.values - swings)[failed] ** 2)
    print(f"{type(model).__name__}: mean squared error {error:.3f}")
