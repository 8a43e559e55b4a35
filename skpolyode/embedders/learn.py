"""Parts of training that know panels: who is held out, and what an interrupted fit goes on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.models import DrawnTask, Packed, SequenceModel
from skpolyode.panel import Panel
from skpolyode.panel.select import take
from skpolyode.training import Checkpoint

__all__ = ["FEWEST_TO_SPLIT", "LARGEST_EPOCH", "find_checkpoint", "hold_out", "make_task"]

FEWEST_TO_SPLIT = 5  # series; fewer cannot spare one for validation
LARGEST_EPOCH = 32_000  # intervals: sixty minibatches, behind which stored states are not too old
_VALIDATED = 1 / 4  # of as many intervals, where not all serve


def hold_out(
    panel: Panel,
    fraction: float | None,
    random_state: np.random.RandomState,
    longest: int,
    groups: np.ndarray | None = None,
) -> tuple[Panel, np.ndarray]:
    """Draw what only validates, before anything is learned or cut: no row serves both.

    That is a share of the series with something to forecast. Where there are too few of them, it
    is the last rows of the long ones, which become series of their own; some rows before these
    are left out, since neighbours nearly repeat each other.

    Parameters
    ----------
    panel : Panel
        Without rows that hold no observation.
    fraction : float or None
        Share that is held out; None holds out nothing.
    random_state : RandomState
    longest : int
        Rows that training goes through as a whole. A series is long from one and a half times
        this on.
    groups : ndarray of shape (panel.n_series,) or None, default=None
        Labels; series of one label are held out together, however few there are.

    Returns
    -------
    panel : Panel
        The series, or what is left of them with their ends between them.
    held_out : bool ndarray of shape (panel.n_series,)
    """
    held_out = np.zeros(panel.n_series, dtype=bool)
    usable = np.flatnonzero(panel.lengths > 1)
    if fraction is None:
        return panel, held_out
    if groups is not None:
        return panel, _whole_groups(groups, usable, fraction, random_state)
    if len(usable) >= FEWEST_TO_SPLIT:
        n_held_out = min(max(round(fraction * len(usable)), 1), len(usable) - 1)
        held_out[random_state.permutation(usable)[:n_held_out]] = True
        return panel, held_out
    between = longest // 8
    lengths = np.where(panel.lengths >= 1.5 * longest, panel.lengths, 0)
    tails = np.clip(np.round(fraction * lengths), 2, lengths - between - longest // 2)
    tails = np.where(lengths, tails, 0).astype(np.int64)
    starts = np.stack([panel.offsets[:-1], panel.offsets[1:] - tails], axis=1)
    stops = np.stack([starts[:, 1] - np.where(tails, between, 0), panel.offsets[1:]], axis=1)
    kept = starts < stops  # (B, 2): beginning and end of each series
    held_out = np.broadcast_to([False, True], kept.shape)[kept]
    return take(panel, np.nonzero(kept)[0], starts[kept], stops[kept]), held_out


def _whole_groups(
    groups: np.ndarray,
    usable: np.ndarray,
    fraction: float,
    random_state: np.random.RandomState,
) -> np.ndarray:
    """Mark the series (B,) of a share of the groups, as many as hold out that share of series."""
    labels, codes = np.unique(groups, return_inverse=True)
    sizes = np.bincount(codes[usable], minlength=len(labels))
    drawn = random_state.permutation(np.flatnonzero(sizes))
    if len(drawn) < 2:
        raise ValueError(
            f"groups holds out whole groups of series, but {len(drawn)} of {len(labels)} has "
            "anything to forecast: give two groups or more, or validation_fraction=None."
        )
    # The one that brings the share nearest; at least one, and at least one is left.
    shares = np.cumsum(sizes[drawn]) / sizes.sum()
    n_drawn = min(int(np.argmin(np.abs(shares - fraction))) + 1, len(drawn) - 1)
    return np.isin(codes, drawn[:n_drawn])


def make_task(
    new_task: Callable[[SequenceModel, Packed, torch.Tensor], Any],
    embedder: ModelEmbedder,
    panel: Panel,
    held_out: np.ndarray,
    largest: int | None,
    generator: torch.Generator,
) -> Any:
    """Training on a panel: on all of it in each epoch, or on parts that are drawn.

    Parameters
    ----------
    new_task : callable
        From model, data and which of its series only validate.
    embedder : ModelEmbedder
    panel : Panel
    held_out : bool ndarray of shape (panel.n_series,)
        If there are none, some of the others serve both.
    largest : int or None
        Intervals of an epoch, at most, from which on parts are drawn; None draws none.
    generator : torch.Generator
        Not used unless parts are drawn.
    """
    device, learned = embedder.device, np.flatnonzero(~held_out & (panel.lengths > 1))
    n_intervals = int((panel.lengths[learned] - 1).sum())
    if largest is None or n_intervals <= largest:
        data = embedder.pack(panel, torch.float32)
        return new_task(embedder.model, data, torch.from_numpy(held_out).to(device))
    seed = int(torch.randint(2**31, (), generator=generator))
    scored = np.flatnonzero(held_out) if held_out.any() else learned
    scored = np.random.default_rng(seed).permutation(scored)
    counts = np.cumsum(panel.lengths[scored] - 1)
    scored = scored[: 1 + np.searchsorted(counts, _VALIDATED * largest)]

    def read(positions: np.ndarray) -> tuple[Packed, torch.Tensor]:
        part = panel[np.append(scored, learned[positions])]
        validates = torch.arange(part.n_series, device=device) < len(scored)
        return embedder.pack(part, torch.float32), validates

    return DrawnTask(
        partial(new_task, embedder.model),
        read,
        n_series=len(learned),
        n_drawn=round(len(learned) * largest / n_intervals) or 1,
        seed=seed,
    )


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
