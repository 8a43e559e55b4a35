"""Parts of training that know panels: who is held out, and what an interrupted fit goes on from."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import joblib
import numpy as np
import pandas as pd
import torch

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.models import Packed, SequenceModel
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import observed_part, take, window_bounds
from skpolyode.training import Checkpoint
from skpolyode.training.losses import with_weights
from skpolyode.training.tasks import SubsampledTask

__all__ = [
    "FEWEST_TO_SPLIT",
    "LARGEST_EPOCH",
    "FitOptions",
    "Split",
    "find_checkpoint",
    "hold_out",
    "make_task",
    "split_series",
]

FEWEST_TO_SPLIT = 5  # series; fewer cannot spare one for validation
LARGEST_EPOCH = 32_000  # intervals: sixty minibatches, behind which stored states are not too old
_VALIDATED = 1 / 4  # of as many intervals, where not all serve


class FitOptions(NamedTuple):
    """What `fit` is told besides the series."""

    groups: np.ndarray | None = None  # (B,), labels of the series
    sample_weight: np.ndarray | None = None  # float64 (B,), how much each of them counts
    validation: Panel | None = None  # other series, which validate in place of some of them


class Split(NamedTuple):
    """Series of which some only validate."""

    panel: Panel
    held_out: np.ndarray  # bool (B,)
    weights: np.ndarray | None = None  # float64 (B,), how much each counts

    @classmethod
    def given(cls, panel: Panel, validation: Panel, weights: np.ndarray | None) -> Self:
        """Series that train and others that validate, all of which count the same.

        Neither has a row that holds no observation.
        """
        if not (validation.lengths > 1).any():
            raise ValueError(
                "validation has no series with two observations or more: there is nothing to "
                "forecast. Give others, or leave it out."
            )
        parts = panel, validation
        static = [_static_of(part, panel) for part in parts]
        joint = Panel(
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.values for part in parts]),
            offsets_from(np.concatenate([part.lengths for part in parts])),
            channel_names=panel.channel_names,
            static=None if static[0] is None else pd.concat(static, ignore_index=True),
            time_unit=panel.time_unit,
        )
        if weights is not None:
            weights = np.append(weights, np.ones(validation.n_series))
        return cls(joint, np.arange(joint.n_series) >= panel.n_series, weights)

    @property
    def trained(self) -> Panel:
        """Series that are learned from."""
        return self.panel[~self.held_out]

    @property
    def tested(self) -> Panel:
        """Series that validate; without any, those that are learned from stand in."""
        return self.panel[self.held_out] if self.held_out.any() else self.panel

    def cut(self, length: int) -> Self:
        """The same with long series in windows of so many rows."""
        series, *bounds = window_bounds(self.panel.offsets, length, overlap=length // 8)
        if len(series) == self.panel.n_series:
            return self
        return self._of(take(self.panel, series, *bounds), series, self.held_out[series])

    def of(self, series: np.ndarray) -> Self:
        """The same with some of the series."""
        return self._of(self.panel[series], series, self.held_out[series])

    def _of(self, panel: Panel, series: np.ndarray, held_out: np.ndarray) -> Self:
        """Parts of the series, with their weights."""
        weights = None if self.weights is None else self.weights[series]
        return type(self)(panel, held_out, weights)


def _static_of(validation: Panel, panel: Panel) -> pd.DataFrame | None:
    """Those static covariates that the series of training have."""
    if panel.static is None:
        return None
    own = [] if validation.static is None else list(validation.static)
    if missing := [name for name in panel.static if name not in own]:
        raise ValueError(
            f"validation lacks the static covariates {missing} that X has; it has {own}. Give "
            "them in its `static`, NaN where not known."
        )
    return validation.static[list(panel.static)]


def split_series(
    panel: Panel,
    told: FitOptions,
    fraction: float | None,
    random_state: np.random.RandomState,
    longest: int,
) -> Split:
    """Series that were told to validate, or some of all of them, as `hold_out` draws them."""
    groups, weights, validation = told
    if weights is not None and (weights == weights[0]).all():
        weights = None
    if validation is None:
        return hold_out(panel, fraction, random_state, longest, groups, weights)
    if groups is not None:
        raise ValueError(
            "groups says which series are held out together, but nothing is held out with "
            "validation=...: give one of the two."
        )
    return Split.given(panel, observed_part(validation), weights)


def hold_out(
    panel: Panel,
    fraction: float | None,
    random_state: np.random.RandomState,
    longest: int,
    groups: np.ndarray | None = None,
    weights: np.ndarray | None = None,
) -> Split:
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
    weights : float64 ndarray of shape (panel.n_series,) or None, default=None
        How much each series counts, which does not matter here.

    Returns
    -------
    Split
        The series, or what is left of them with their ends between them.
    """
    held_out = np.zeros(panel.n_series, dtype=bool)
    whole = Split(panel, held_out, weights)
    usable = np.flatnonzero(panel.lengths > 1)
    if fraction is None:
        return whole
    if groups is not None:
        return whole._replace(held_out=_whole_groups(groups, usable, fraction, random_state))
    if len(usable) >= FEWEST_TO_SPLIT:
        n_held_out = min(max(round(fraction * len(usable)), 1), len(usable) - 1)
        held_out[random_state.permutation(usable)[:n_held_out]] = True
        return whole
    between = longest // 8
    lengths = np.where(panel.lengths >= 1.5 * longest, panel.lengths, 0)
    tails = np.clip(np.round(fraction * lengths), 2, lengths - between - longest // 2)
    tails = np.where(lengths, tails, 0).astype(np.int64)
    starts = np.stack([panel.offsets[:-1], panel.offsets[1:] - tails], axis=1)
    stops = np.stack([starts[:, 1] - np.where(tails, between, 0), panel.offsets[1:]], axis=1)
    kept = starts < stops  # (B, 2): beginning and end of each series
    series, held_out = np.nonzero(kept)[0], np.broadcast_to([False, True], kept.shape)[kept]
    return whole._of(take(panel, series, starts[kept], stops[kept]), series, held_out)


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
    split: Split,
    largest: int | None,
    generator: torch.Generator,
) -> Any:
    """Training on series: on all of them in each epoch, or on parts that are drawn.

    Parameters
    ----------
    new_task : callable
        From model, data and which of its series only validate.
    embedder : ModelEmbedder
    split : Split
        If nothing is held out, some of what is learned from serves both.
    largest : int or None
        Intervals of an epoch, at most, from which on parts are drawn; None draws none.
    generator : torch.Generator
        Not used unless parts are drawn.
    """
    panel, held_out, weights = split
    device, learned = embedder.device, np.flatnonzero(~held_out & (panel.lengths > 1))
    n_intervals = int((panel.lengths[learned] - 1).sum())
    if largest is None or n_intervals <= largest:
        data = _packed(embedder, panel, weights)
        return new_task(embedder.model, data, torch.from_numpy(held_out).to(device))
    seed = int(torch.randint(2**31, (), generator=generator))
    scored = np.flatnonzero(held_out) if held_out.any() else learned
    scored = np.random.default_rng(seed).permutation(scored)
    counts = np.cumsum(panel.lengths[scored] - 1)
    scored = scored[: 1 + np.searchsorted(counts, _VALIDATED * largest)]

    def read(positions: np.ndarray) -> tuple[Packed, torch.Tensor]:
        rows = np.append(scored, learned[positions])
        part = _packed(embedder, panel[rows], None if weights is None else weights[rows])
        return part, torch.arange(len(rows), device=device) < len(scored)

    return SubsampledTask(
        partial(new_task, embedder.model),
        read,
        n_series=len(learned),
        n_drawn=round(len(learned) * largest / n_intervals) or 1,
        seed=seed,
    )


def _packed(embedder: ModelEmbedder, panel: Panel, weights: np.ndarray | None) -> Packed:
    data = embedder.pack(panel, torch.float32)
    return data if weights is None else with_weights(data, torch.from_numpy(weights))


def find_checkpoint(
    folder: str | os.PathLike[str],
    panel: Panel,
    told: FitOptions,
    settings: Mapping[str, Any],
    start: ModelEmbedder,
) -> Checkpoint:
    """Where the training of a model on a panel is kept: a file of its own.

    Its name follows from all that the training depends on: data, settings, and the weights and
    units that it starts from, which after a warm start are those of an earlier fit.
    """
    weights = [p.detach().cpu().numpy() for p in start.model.parameters()]
    past = start.past and (type(start.past.memory).__name__, start.past.window)
    learned = weights, start.units, past, start.static
    given = {name: value for name, value in told._asdict().items() if value is not None}
    if told.validation is not None:
        given["validation"] = _content(told.validation)
    content = *_content(panel), dict(settings) | given, learned
    return Checkpoint(Path(folder) / f"fit-{joblib.hash(content)}.safetensors")


def _content(panel: Panel) -> tuple[Any, ...]:
    return panel.times, panel.values, panel.offsets, panel.static
