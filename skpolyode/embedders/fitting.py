"""The series that a fit trains on and those that it holds out, by epoch, and their encoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.fit_report import FitReport
from skpolyode.models import Packed, SequenceModel
from skpolyode.panel import Panel
from skpolyode.panel.select import take, window_bounds
from skpolyode.training.tasks import SubsampledTask

LARGEST_EPOCH = 32_000  # intervals: sixty minibatches, in which stored states stay recent enough
_VALIDATED = 1 / 4  # share of this number that validates, if not all held-out series do
FEWEST_TO_SPLIT = 5  # with fewer series, none is held out for validation


class Split(NamedTuple):
    """Series, with a mask of those that only validate."""

    panel: Panel
    held_out: np.ndarray  # bool (B,)

    @property
    def trained(self) -> Panel:
        """Training series."""
        return self.panel[~self.held_out]

    @property
    def tested(self) -> Panel:
        """Series that validate; the training series if none are held out."""
        return self.panel[self.held_out] if self.held_out.any() else self.panel

    def cut(self, length: int) -> Self:
        """The split with long series cut into windows of `length` rows."""
        series, *bounds = window_bounds(self.panel.offsets, length, overlap=length // 8)
        if len(series) == self.panel.n_series:
            return self
        return type(self)(take(self.panel, series, *bounds), self.held_out[series])

    def of(self, series: np.ndarray) -> Self:
        """The split of the selected series."""
        return type(self)(self.panel[series], self.held_out[series])


def with_validation(panel: Panel, validation: Panel, groups: np.ndarray | None) -> Split:
    """Series that train, and those of a panel `validation` that only validate.

    All rows of both panels hold an observation. A ValueError if there are `groups`, too.
    """
    if groups is not None:
        raise ValueError(
            "groups says which series are held out together, but nothing is held out with "
            "validation=...: give one of the two."
        )
    if not (validation.lengths > 1).any():
        raise ValueError(
            "validation has no series with two observations or more: there is nothing to "
            "forecast. Give others, or leave it out."
        )
    names, has = ([] if part.static is None else list(part.static) for part in (panel, validation))
    if missing := [name for name in names if name not in has]:
        raise ValueError(
            f"validation lacks the static covariates {missing} that X has; it has {has}. Give "
            "them in its `static`, NaN where not known."
        )
    static = validation.static[names] if names else None
    clock = validation.rows.times._replace(tz=panel.tz)  # in any time zone
    others = Panel.from_rows(replace(validation.rows, times=clock, static=static))
    joint = Panel.concat([panel, others], ids=np.arange(len(panel) + len(others))).since_start()
    return Split(joint, np.arange(joint.n_series) >= panel.n_series)


def hold_out(
    panel: Panel,
    fraction: float | None,
    random_state: np.random.RandomState,
    longest: int,
    groups: np.ndarray | None = None,
) -> Split:
    """Draw the series that only validate, before anything is learned or cut.

    They are a share of the series with two rows or more. If these are too few, the last rows of
    long series validate instead, as separate series. A few rows before them are left out, since
    adjacent rows are nearly equal. No row both trains and validates.

    Parameters
    ----------
    panel : Panel
        Panel without empty rows.
    fraction : float or None
        Share to hold out; None holds out nothing.
    random_state : RandomState
    longest : int
        Most rows that training does not cut. A series is long if it has at least one and a half
        times as many.
    groups : ndarray of shape (panel.n_series,) or None, default=None
        Labels; series of one label are held out together, however few they are.

    Returns
    -------
    Split
        The series, or the beginnings and the ends of long ones.
    """
    held_out = np.zeros(panel.n_series, dtype=bool)
    whole = Split(panel, held_out)
    usable = np.flatnonzero(panel.lengths > 1)
    if fraction is None:
        return whole
    if groups is not None:
        # Hold out as many whole groups as give this share of the series.
        labels, codes = np.unique(groups, return_inverse=True)
        sizes = np.bincount(codes[usable], minlength=len(labels))
        drawn = random_state.permutation(np.flatnonzero(sizes))
        if len(drawn) < 2:
            raise ValueError(
                f"groups holds out whole groups of series, but {len(drawn)} of {len(labels)} has "
                "observations to forecast: give two groups or more, or validation_fraction=None."
            )
        # The number closest to the share, but at least one, and not all.
        shares = np.cumsum(sizes[drawn]) / sizes.sum()
        n_drawn = min(int(np.argmin(np.abs(shares - fraction))) + 1, len(drawn) - 1)
        return whole._replace(held_out=np.isin(codes, drawn[:n_drawn]))
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
    return Split(take(panel, series, starts[kept], stops[kept]), held_out)


def judging_part(split: Split, groups: np.ndarray | None) -> tuple[Split, Split]:
    """Split the held-out series: one half stops training, the other one evaluates forecasts.

    The error that stopped training is biased low, since it selected the best epoch. With fewer than
    20 held-out series all of them do both. Series of one group stay together.

    Returns
    -------
    Split, Split
        The series without those that only evaluate, and the series with these held out.
    """
    held = np.flatnonzero(split.held_out)
    if len(held) < 20:
        return split, split
    order = np.unique(held if groups is None else groups[held], return_inverse=True)[1]
    judges, stops = held[order % 2 == 1], held[order % 2 == 0]
    if not len(judges):  # all in one group
        return split, split
    every = np.arange(split.panel.n_series)
    return split.of(np.setdiff1d(every, judges)), split.of(np.setdiff1d(every, stops))


def report_hold_out(report: FitReport, stopping: Split, judging: Split) -> None:
    """Report which series train, which stop training, and which evaluate forecasts."""
    n_stop, n_judge = int(stopping.held_out.sum()), int(judging.held_out.sum())
    if not n_stop:
        outcome = "no series is held out: training errors stand in"
    elif stopping is judging:
        outcome = f"{n_stop} held-out series stop training and judge forecasts"
    else:
        outcome = f"{n_stop} held-out series stop training, {n_judge} others judge forecasts"
    n_trained = len(stopping.held_out) - n_stop
    report.add("hold-out", outcome, n_trained, trained=n_trained)


def make_task(
    new_task: Callable[[SequenceModel, Packed, Tensor], Any],
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

    def read(positions: np.ndarray) -> tuple[Packed, Tensor]:
        rows = np.append(scored, learned[positions])
        return packed(rows), torch.arange(len(rows), device=device) < len(scored)

    return SubsampledTask(
        partial(new_task, embedder.model),
        read,
        n_series=len(learned),
        n_drawn=round(len(learned) * largest / n_intervals) or 1,
        seed=seed,
    )
