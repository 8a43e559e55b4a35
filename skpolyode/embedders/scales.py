"""How far off the path of a filter may be."""

from __future__ import annotations

import numpy as np
import torch

from skpolyode.embedders.between import ask, leads
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.panel import Panel

__all__ = ["path_scales"]


def path_scales(
    embedder: ModelEmbedder, panel: Panel, times: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """Standard deviations (Q, D) of the signal around `path_values`, in the user's units.

    Parameters
    ----------
    embedder : ModelEmbedder
        With a scale.
    panel : Panel
    times : float64 ndarray of shape (Q,)
        Of all series, one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start.
    """
    assert embedder.scale is not None
    units, known = embedder.units, embedder.units.scaler.observed
    asked = ask(panel, times, offsets)
    before, after = leads(asked, units.time_scale)
    rows, index = np.unique(asked.row, return_inverse=True)
    z = embedder.states_at(asked.seen, rows)["z"].float()[index]
    with torch.no_grad():
        now, then = (
            embedder.scale(z, torch.from_numpy(lead).to(z.device)).double().cpu().numpy()
            for lead in (before, before + np.where(np.isinf(after), 0.0, after))
        )
    # Of a signal with independent increments, given one more observation at the end.
    then = np.maximum(then, now) + embedder.scale.noise.double().cpu().numpy()
    variance = now - np.where(np.isinf(after), 0.0, now**2 / np.maximum(then, 1e-300))
    scale = np.sqrt(np.maximum(variance, 0.0)) * units.scaler.scale
    return scale if known is None else np.where(known, scale, units.scaler.scale)
