"""What each epoch of a fit goes through, and the file that an interrupted fit goes on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from numbers import Integral
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from skpolyode.embedders.holdout import FitOptions, Split
from skpolyode.embedders.inputs import InputEncoder
from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.static import StaticEncoder
from skpolyode.models import Packed, SequenceModel
from skpolyode.panel import Panel
from skpolyode.panel.inputs import on_clock_of
from skpolyode.training import Checkpoint
from skpolyode.training.losses import with_weights
from skpolyode.training.tasks import SubsampledTask

LARGEST_EPOCH = 32_000  # intervals: sixty minibatches, behind which stored states are not too old
# Settings that an interrupted training need not share with the one that goes on.
_UNSHARED = ("checkpoint_dir", "device", "verbose")
_VALIDATED = 1 / 4  # of as many intervals, where not all serve


def make_task(
    new_task: Callable[[SequenceModel, Packed, torch.Tensor], Any],
    embedder: ModelEmbedder,
    split: Split,
    largest: int | None,
    generator: torch.Generator,
) -> Any:
    """Training on series: on all of them in each epoch, or on a random part.

    Parameters
    ----------
    new_task : callable
        From model, data and which of its series only validate.
    embedder : ModelEmbedder
    split : Split
        If nothing is held out, some of what is learned from serves both.
    largest : int or None
        Intervals of an epoch, at most: of more, each epoch draws a part of the series. None draws
        none.
    generator : torch.Generator
        Not used unless parts are drawn.
    """
    panel, held_out, weights = split
    device, learned = embedder.device, np.flatnonzero(~held_out & (panel.lengths > 1))
    n_intervals = int((panel.lengths[learned] - 1).sum())

    def packed(series: np.ndarray | slice) -> Packed:
        data = embedder.pack(panel[series], torch.float32)
        return data if weights is None else with_weights(data, torch.from_numpy(weights[series]))

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


def check_repeatable(random_state: Any) -> None:
    """Raise a ValueError if a training that goes on after a crash would draw other numbers."""
    if not isinstance(random_state, Integral):
        raise ValueError(
            f"checkpoint_dir needs an int as random_state, got {random_state!r}: with an int "
            "a resumed training draws the same numbers."
        )


def find_checkpoint(
    folder: str | os.PathLike[str] | None,
    panel: Panel,
    options: FitOptions,
    settings: Mapping[str, Any],
    start: ModelEmbedder,
) -> Checkpoint | None:
    """File that keeps the state of one training of a model.

    Its name follows from all that the training depends on: data, settings, and the weights and
    units that it starts from, which after a warm start are those of an earlier fit. None without a
    folder.
    """
    if folder is None:
        return None
    check_repeatable(settings["random_state"])
    settings = {name: value for name, value in settings.items() if name not in _UNSHARED}
    weights = [p.detach().cpu().numpy() for p in start.model.parameters()]
    past = start.past and (type(start.past.memory).__name__, start.past.window)
    learned = weights, start.units, past, start.static
    given = {name: value for name, value in options._asdict().items() if value is not None}
    if options.validation is not None:
        given["validation"] = _content(options.validation)
    content = *_content(panel), settings | given, learned
    return Checkpoint(Path(folder) / f"fit-{joblib.hash(content)}.safetensors")


def _content(panel: Panel) -> tuple[Any, ...]:
    beside = () if panel.errors is None else (panel.errors,)
    if (inputs := on_clock_of(panel)) is not None:
        rows = inputs.panel
        beside += rows.times, rows.values, rows.offsets, inputs.names, inputs.kinds
    return panel.times, panel.values, panel.offsets, panel.static, *beside


def encoders_of(panel: Panel, *, inputs: bool = True) -> dict[str, Any]:
    """How a new model reads static covariates and, if it does, inputs; for `ModelEmbedder`."""
    own = InputEncoder.of_panel(panel) if inputs else None
    return {"static": StaticEncoder.of_panel(panel), "inputs": own}
