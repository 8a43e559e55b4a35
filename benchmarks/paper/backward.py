"""The past as the paper reads it out of neural ODEs: by running their dynamics backward.

From the state at the last observation of a series the learned field is integrated backward in time,
and the forecast of each state on the way is the past. No observation corrects it: the state before
one cannot be had from the state after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from skpolyode.dynamics import STEPPERS, rollout
from skpolyode.panel import Panel, query_times, series_index

LARGEST = 1e6  # standard deviations, at which a run is cut off


class Backward:
    """Reads the past of the series of a fitted transformer, whose model has a vector field."""

    def __init__(self, transformer: Any) -> None:
        self.embedder = transformer.embedder_

    def reconstruct(self, X: Panel, times: Any) -> Panel:
        """Values at past times, as `PolyODETransformer.reconstruct` takes them.

        Each series needs such a time.
        """
        embedder, model = self.embedder, self.embedder.exact
        flat, offsets = query_times(X, times)
        series = series_index(offsets)
        ages = (X.end[series] - flat) / embedder.units.time_scale
        state = embedder.states(X)
        name = "z" if "z" in state else "h"  # of PolyODE, of its siblings
        with torch.no_grad():
            found = run_back(model.field, state[name], series, ages, model.step_size)
            values = model.predict({name: found}).mean.numpy()
        values = np.nan_to_num(values, nan=LARGEST).clip(-LARGEST, LARGEST)
        return X.like(flat, embedder.units.scaler.inverse(values), offsets)


def run_back(
    field: Callable[[torch.Tensor], torch.Tensor],
    states: torch.Tensor,
    series: np.ndarray,
    ages: np.ndarray,
    step_size: float,
) -> torch.Tensor:
    """States (Q, M) at `ages` (Q,) before those (B, M) of the `series` (Q,), which rise."""
    order = np.lexsort((ages, series))
    sooner = np.where(np.diff(series, prepend=-1) > 0, 0.0, np.roll(ages[order], 1))
    gaps, row = torch.from_numpy(ages[order] - sooner), torch.from_numpy(series)
    steps = {"step_size": step_size, "stepper": STEPPERS["rk4"], "recorded": slice(None)}
    found = rollout(lambda z: -field(z), states, row, gaps, **steps)
    return found[torch.from_numpy(order.argsort())]
