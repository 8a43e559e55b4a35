"""The series of each epoch of a fit, and the encoders of static covariates and inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from skpolyode.embedders.holdout import Split
from skpolyode.embedders.inputs import InputEncoder
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.static import StaticEncoder
from skpolyode.models import Packed, SequenceModel
from skpolyode.panel import Panel
from skpolyode.training.tasks import SubsampledTask

LARGEST_EPOCH = 32_000  # intervals: sixty minibatches, in which stored states stay recent enough
_VALIDATED = 1 / 4  # share of this number that validates, if not all held-out series do


def make_task(
    new_task: Callable[[SequenceModel, Packed, torch.Tensor], Any],
    embedder: ModelEmbedder,
    split: Split,
    largest: int | None,
    generator: torch.Generator,
) -> Any:
    """Training task on all series in each epoch, or on a random sample of them.

    Parameters
    ----------
    new_task : callable
        Makes a task from the model, data and a mask of the series that only validate.
    embedder : ModelEmbedder
    split : Split
        If nothing is held out, a part of the training series validates as well.
    largest : int or None
        Most intervals of an epoch: with more, each epoch draws a sample of the series. None: all
        series.
    generator : torch.Generator
        Draws samples.
    """
    panel, held_out = split
    device, learned = embedder.device, np.flatnonzero(~held_out & (panel.lengths > 1))
    n_intervals = int((panel.lengths[learned] - 1).sum())

    def packed(series: np.ndarray | slice) -> Packed:
        return embedder.pack(panel[series], torch.float32)

    if largest is None or n_intervals <= largest:
        data = packed(slice(None))
        return new_task(embedder.model, data, torch.from_numpy(held_out).to(device))
    seed = int(torch.randint(2**31, (), generator=generator))
    scored = np.flatnonzero(held_out) if held_out.any() else learned
    scored = np.random.default_rng(seed).permutation(scored)
    counts = np.cumsum(panel.lengths[scored] - 1)
    scored = scored[: 1 + np.searchsorted(counts, _VALIDATED * largest)]

    def read(positions: np.ndarray) -> tuple[Packed, torch.Tensor]:
        rows = np.append(scored, learned[positions])
        return packed(rows), torch.arange(len(rows), device=device) < len(scored)

    return SubsampledTask(
        partial(new_task, embedder.model),
        read,
        n_series=len(learned),
        n_drawn=round(len(learned) * largest / n_intervals) or 1,
        seed=seed,
    )


def encoders_of(panel: Panel, *, inputs: bool = True) -> dict[str, Any]:
    """Encoders of static covariates and, if used, of inputs; arguments of `ModelEmbedder`."""
    encoder = InputEncoder.of_panel(panel) if inputs else None
    return {"static": StaticEncoder.of_panel(panel), "inputs": encoder}
