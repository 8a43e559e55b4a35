"""Parts of training that know panels: who is held out, and what an interrupted fit goes on from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.panel import Panel
from skpolyode.training import Checkpoint

__all__ = ["FEWEST_TO_SPLIT", "find_checkpoint", "hold_out"]

FEWEST_TO_SPLIT = 5  # series; fewer cannot spare one for validation


def hold_out(
    lengths: np.ndarray, fraction: float | None, random_state: np.random.RandomState
) -> torch.Tensor:
    """Draw the series that only validate, among those with something to forecast.

    Parameters
    ----------
    lengths : int64 ndarray of shape (B,)
        Rows of each series.
    fraction : float or None
        Share that is held out; None holds out nothing.
    random_state : RandomState

    Returns
    -------
    bool Tensor of shape (B,)
    """
    held_out = torch.zeros(len(lengths), dtype=torch.bool)
    usable = np.flatnonzero(lengths > 1)
    if fraction is not None and len(usable) >= FEWEST_TO_SPLIT:
        n_held_out = min(max(round(fraction * len(usable)), 1), len(usable) - 1)
        held_out[random_state.permutation(usable)[:n_held_out]] = True
    return held_out


def find_checkpoint(
    folder: str | os.PathLike[str], panel: Panel, settings: Mapping[str, Any], start: ModelEmbedder
) -> Checkpoint:
    """Where the training of a model on a panel is kept: a file of its own.

    Its name follows from all that the training depends on: data, settings, and the weights and
    units that it starts from, which after a warm start are those of an earlier fit.
    """
    weights = [p.detach().cpu().numpy() for p in start.model.parameters()]
    past = start.past and (type(start.past.memory).__name__, start.past.window)
    learned = weights, start.units, past, start.static
    content = panel.times, panel.values, panel.offsets, panel.static, dict(settings), learned
    return Checkpoint(Path(folder) / f"fit-{joblib.hash(content)}.safetensors")
