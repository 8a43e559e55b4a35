"""The first look of the README: gaps of irregular series, filled by two models."""

from __future__ import annotations

import numpy as np

from skpolyode import InterpolationTransformer, Panel, PanelImputer, PolyODETransformer

rng = np.random.default_rng(1)
hours, fast = np.sort(rng.uniform(0, 48, (60, 18))), np.arange(60) % 2
angle = 2 * np.pi * (hours / (14 - 4 * fast[:, None]) + rng.random((60, 1)))
swings = np.stack([np.sin(angle), np.cos(angle)], axis=2)  # (buoy, time, channel)
failed = rng.random(swings.shape) < 0.3
panel = Panel.from_series(zip(hours, np.where(failed, np.nan, swings), strict=True))
print(panel)
learned = PolyODETransformer(n_coefficients=16, max_epochs=4, random_state=0)
for model in (InterpolationTransformer(), learned):
    complete = PanelImputer(model).fit_transform(panel)
    error = np.mean((complete.values.reshape(swings.shape) - swings)[failed] ** 2)
    print(f"{type(model).__name__}: mean squared error {error:.3f}")
