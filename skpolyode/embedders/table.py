"""Observations inside series that are hidden, to judge paths through the others.

Errors and beginnings are learned from runs of one to four rows, from runs of the values of single
channels, and from beginnings of channels, which in half of the series are whole channels. Errors
outside of series are learned from series that are cut. For waves, and where a filter is compared
with an exact model, every fourth row is hidden: in longer gaps waves err more, and dynamics decide
more than the noise. `benchmarks/NOTES.md`, "What is hidden", has the measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from skpolyode.embedders.model import ModelEmbedder
from skpolyode.embedders.paths import PathQuery
from skpolyode.panel import Panel, offsets_from
from skpolyode.panel.select import hide_cells, observed_part, series_of_rows

KINDS = ROWS, VALUES, BEGINNINGS = "rows", "values", "beginnings"  # errors are learned from
STARTS, ENDS = "starts", "ends"  # outside of series
SPACED, SINGLE = "spaced", "single"


@dataclass(frozen=True)
class TableSettings:
    """Which cells are hidden, and in how many rows."""

    n_rows: int = 6000  # enough to learn from
    n_copies: int = 5  # of few series, with other cells hidden in each
    period: int = 25
    hidden: tuple[int, ...] = (3, 7, 8, 12, 13, 14, 18, 19, 20, 21)  # positions in each period
    spacing: int = 4  # from one hidden row to the next, if they are spaced


SETTINGS = TableSettings()


def hidden_cells(panel: Panel, kind: str, rng: np.random.RandomState) -> np.ndarray:
    """Mask (P, D) of the cells to hide.

    - "rows": runs of rows, neither the first nor the last one of a series.
    - "spaced": every fourth row, but for these two; nothing is drawn.
    - "single": the same from a row that is drawn.
    - "values": runs of single channels, not their last value. Each row keeps a value.
    - "starts", "ends": the first or the last rows. Each series keeps a row.
    - "beginnings": the first values, in half of the series all, of a random channel. Each series
      keeps a value.
    """
    observed, first, series = ~np.isnan(panel.values), panel.offsets[:-1], series_of_rows(panel)
    of_rows = kind not in (VALUES, BEGINNINGS)
    counted = np.ones((len(observed), 1), dtype=bool) if of_rows else observed
    place = np.cumsum(counted, axis=0) - counted
    place = place - place[first][series]
    total = np.add.reduceat(counted, first, axis=0, dtype=np.int64)
    if kind in (BEGINNINGS, STARTS, ENDS):
        lots = np.where(total > 0, rng.random_sample(total.shape), -1.0)
        drawn = np.arange(total.shape[1]) == lots.argmax(axis=1)[:, None]
        longest = 1.0 if of_rows else 2.0  # which is all in half of the series
        share = np.minimum(longest * rng.random_sample((panel.n_series, 1)), 1.0)
        most = total - (total == total.sum(axis=1, keepdims=True))
        place = total[series] - 1 - place if kind == ENDS else place
        return observed & (place < np.where(drawn, np.ceil(share * most), 0)[series])
    shifted = place
    if kind != SPACED:
        shifted = place + rng.randint(SETTINGS.period, size=total.shape)[series]
    if kind in (SPACED, SINGLE):
        hidden = shifted % SETTINGS.spacing == 2
    else:
        hidden = np.isin(shifted % SETTINGS.period, SETTINGS.hidden)
    hidden = hidden & observed & (place >= of_rows) & (place < total[series] - 1)
    return hidden & (of_rows or (observed & ~hidden).any(axis=1, keepdims=True))


class Table(NamedTuple):
    """Series with hidden cells, and their Q rows with such cells."""

    at: tuple[Panel, np.ndarray, np.ndarray]  # copies without these cells; times and offsets of Q
    query: PathQuery  # the same
    actual: np.ndarray  # float64 (Q, D): hidden values, else NaN
    row: np.ndarray  # int64 (Q,): of the panel that was copied
    series: np.ndarray  # int64 (Q,): of that panel
    kind: np.ndarray  # str (Q,)

    @classmethod
    def of(cls, panel: Panel, *kinds: str) -> Self:
        """Hide cells of each kind in turn, in several copies of the series if rows are few."""
        often, rng = SETTINGS.n_rows // panel.n_observations, np.random.RandomState(0)
        n = 1 if SPACED in kinds else int(np.clip(often, 1, SETTINGS.n_copies))
        each, copies = (panel[np.tile(np.arange(len(panel)), k)] for k in (n, n * len(kinds)))
        hidden = np.concatenate([hidden_cells(each, kind, rng) for kind in kinds])
        judged, rest = hidden.any(axis=1), observed_part(hide_cells(copies, hidden))
        at = rest, copies.times[judged], offsets_from(judged)[copies.offsets]
        row = np.tile(np.arange(panel.n_observations), n * len(kinds))[judged]
        actual = np.where(hidden, copies.values, np.nan)[judged]
        kind = np.repeat(kinds, each.n_observations)[judged]
        return cls(at, PathQuery.of(*at), actual, row, series_of_rows(panel)[row], kind)

    def errors(self, model: ModelEmbedder) -> np.ndarray:
        """Hidden values less those of the path (Q, D), in standard deviations; else NaN."""
        scaler = model.units.scaler
        return scaler.read(self.actual) - scaler.transform(model.path_values(*self.at))

    def by_series(self, gains: np.ndarray) -> np.ndarray:
        """Sums (n_series, D) of columns (Q, D) over the rows of each series; NaN counts as 0."""
        return np.stack([np.bincount(self.series, x) for x in np.nan_to_num(gains).T], axis=1)
