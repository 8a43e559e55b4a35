"""How far off the path of a filter may be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from skpolyode.embedders.between import ask, leads
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.models.scale import learn_scale
from skpolyode.panel import Panel

__all__ = ["path_scales", "with_scale"]

_ROWS = 20_000  # that the size of errors is learned from


def with_scale(
    embedder: ModelEmbedder, panel: Panel, random_state: np.random.RandomState
) -> ModelEmbedder:
    """The same embedder, with the size of errors as learned from some of the series."""
    n_series = int(np.searchsorted(np.cumsum(panel.lengths), _ROWS)) + 1
    data = embedder.pack(panel[:n_series], torch.float32)
    generator = torch.Generator().manual_seed(int(random_state.randint(2**31)))
    return replace(embedder, scale=learn_scale(embedder.model, data, generator))


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
