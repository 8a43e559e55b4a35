"""Questions about a panel as tables of equal length, which networks read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.real.questions import Questions
from skpolyode.panel.select import series_of_rows


class Padded(NamedTuple):
    """Rows that are known or asked for, of series that are asked about; the longest has L rows."""

    times: Tensor  # (B, L), 0 where a series has ended
    values: Tensor  # (B, L, D), NaN where nothing was measured
    number: Tensor  # (B, L) of the question that asks for a row, -1 of other rows
    lengths: Tensor  # (B,)

    @classmethod
    def of(cls, questions: Questions, device: str = "cpu") -> Padded:
        """Only for questions that all start from the same row of a series."""
        panel, (series, last) = questions.panel, _origins(questions)
        number = np.full(panel.n_observations, -1)
        number[questions.target] = np.arange(len(questions.target))
        end = np.full(panel.n_series, -1)
        end[series] = last
        place = np.full(panel.n_series, -1)
        place[series] = np.arange(len(series))
        of_row = series_of_rows(panel)
        rows = np.flatnonzero((np.arange(panel.n_observations) <= end[of_row]) | (number >= 0))
        lengths = np.bincount(place[of_row[rows]], minlength=len(series))
        step = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        shape, at = (len(series), lengths.max()), (place[of_row[rows]], step)
        times = np.zeros(shape, dtype=np.float32)
        values = np.full((*shape, panel.n_channels), np.nan, dtype=np.float32)
        numbers = np.full(shape, -1)
        times[at], values[at], numbers[at] = panel.times[rows], panel.values[rows], number[rows]
        columns = (torch.from_numpy(column) for column in (times, values, numbers, lengths))
        return cls(*(column.to(device) for column in columns))

    @property
    def asked(self) -> Tensor:
        """(B, L) rows that are asked for; they are the last ones of a series."""
        return self.number >= 0

    @property
    def seen(self) -> Tensor:
        """(B, L, D) cells that are known."""
        return ~self.values.isnan() & ~self.asked[:, :, None]

    @property
    def targets(self) -> Tensor:
        """(B, L, D) cells whose values are asked for, and known to who scores."""
        return ~self.values.isnan() & self.asked[:, :, None]

    def at(self, series: Tensor) -> Padded:
        """Some of the series, no longer than they need be."""
        stop = int(self.lengths[series].max())
        long = (column[series, :stop] for column in (self.times, self.values, self.number))
        return Padded(*long, self.lengths[series])


def _origins(questions: Questions) -> tuple[np.ndarray, np.ndarray]:
    """Series that are asked about, and the last known row of each."""
    pairs = np.stack([series_of_rows(questions.panel)[questions.origin], questions.origin])
    series, last = np.unique(pairs, axis=1)
    if len(np.unique(series)) < len(series):
        raise ValueError("peers answer questions from one moment of a series, and there are more.")
    return series, last
