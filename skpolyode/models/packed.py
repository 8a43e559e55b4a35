"""Ragged series as time-major rows: what every sequential model runs on.

Row order within a block of series: the first observations of all, then all second observations,
and so on, longest series first. A step is then one contiguous slice, never larger than the one
before: no padding is stored, and no Python work is done per observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from skpolyode.panel.select import last_seen_rows
from skpolyode.saving.codec import saved


@saved
class InputSizes(NamedTuple):
    """How many inputs of each kind act on a model."""

    n_hold: int = 0
    n_linear: int = 0
    n_impulse: int = 0

    @property
    def n_levels(self) -> int:
        """Those that have a value at any moment."""
        return self.n_hold + self.n_linear

    @property
    def n_state(self) -> int:
        """Coordinates of a state that follow them: values, and slopes of those that are linear."""
        return self.n_levels + self.n_linear

    @property
    def slices(self) -> tuple[slice, slice, slice]:
        """Columns of `Packed.inputs`: linear values, their slopes, and impulses."""
        levels, state = self.n_levels, self.n_state
        return slice(self.n_hold, levels), slice(levels, state), slice(state, None)


class Driven(NamedTuple):
    """Inputs at P rows: observations, and knots at which only an input changes."""

    columns: np.ndarray  # float64 (P, C): as `Packed.inputs`
    knot: np.ndarray  # bool (P,): as `Packed.knot`


@dataclass(frozen=True)
class Packed:
    """Observations of B series in time-major order, P rows in all.

    Parameters
    ----------
    sizes : list of list of int
        Rows of each step (not increasing), for each block.
    x : Tensor of shape (P, D)
        Standardised values, zero where not observed.
    mask : bool Tensor of shape (P, D)
        What is observed.
    seen : bool Tensor of shape (P, D)
        Whether the channel was observed before in the series.
    gap : float64 Tensor of shape (P,)
        Time since the previous row of the series (zero in its first).
    channel_gap : float64 Tensor of shape (P, D)
        Time since the previous observation of the channel; one where there is none.
    elapsed : float64 Tensor of shape (P,)
        Time since the first observation of the series.
    next : int64 Tensor of shape (P,)
        Next row of the series, or -1.
    series : int64 Tensor of shape (P,)
        Position in the input of the series that the row belongs to.
    static : Tensor of shape (P, S)
        Static covariates of that series.
    error : float64 Tensor of shape (P, D) or None, default=None
        Known standard deviation of each value, NaN where not known; None if none is.
    posterior : float64 Tensor of shape (P, D) or None, default=None
        Variance of the signal after the previous observation of the channel, from a model that uses
        known errors; see :meth:`~skpolyode.models.gain.Gain.follow`.
    precision : float64 Tensor of shape (P, D) or None, default=None
        How much each value counts in training; None if all count the same.
    inputs : Tensor of shape (P, C) or None, default=None
        Inputs from each row on: values of those that hold, values of linear ones, their slopes,
        and amounts of impulses at this moment; None without inputs.
    knot : bool Tensor of shape (P,) or None, default=None
        Rows at which an input changes and nothing is observed. Those before the first observation
        have no time `elapsed`.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.models import pack
    >>> times = np.array([0.0, 1.0, 3.0, 5.0, 5.5])
    >>> values = np.array([[1.0], [2.0], [0.0], [4.0], [3.0]])
    >>> data = pack(times, values, np.array([0, 3, 5]))  # series of three and two rows
    >>> data.series.tolist()
    [0, 1, 0, 1, 0]
    >>> [rows.stop - rows.start for block in data.blocks() for rows in block]
    [2, 2, 1]
    """

    sizes: list[list[int]]
    x: torch.Tensor
    mask: torch.Tensor
    seen: torch.Tensor
    gap: torch.Tensor
    channel_gap: torch.Tensor
    elapsed: torch.Tensor
    next: torch.Tensor
    series: torch.Tensor
    static: torch.Tensor
    error: torch.Tensor | None = None
    posterior: torch.Tensor | None = None
    precision: torch.Tensor | None = None
    inputs: torch.Tensor | None = None
    knot: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self.x)

    @property
    def n_series(self) -> int:
        """How many series there are."""
        return sum(sizes[0] for sizes in self.sizes)

    @property
    def observations(self) -> torch.Tensor:
        """Rows (n,) that are no knots, series after series."""
        order = self.series.argsort(stable=True)
        return order if self.knot is None else order[~self.knot[order]]

    @cached_property
    def unseen(self) -> Packed:
        """The same with inputs, but without observations."""
        return replace(self, x=torch.zeros_like(self.x), mask=torch.zeros_like(self.mask))

    def blocks(self) -> Iterator[list[slice]]:
        """Rows of each step, block by block."""
        start = 0
        for sizes in self.sizes:
            stops = start + np.cumsum(sizes)
            yield [slice(int(b) - n, int(b)) for b, n in zip(stops, sizes, strict=True)]
            start = int(stops[-1])

    def steps(self) -> torch.Tensor:
        """Which observation of its series each row (P,) is, counted from 0."""
        step = torch.empty_like(self.series)
        for block in self.blocks():
            for k, rows in enumerate(block):
                step[rows] = k
        return step

    def to(self, device: torch.device, dtype: torch.dtype) -> Packed:
        """Move to a device, values as `dtype`; times stay float64."""
        columns = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        columns = {name: x.to(device) for name, x in columns.items() if x is not None}
        values = columns.keys() & {"x", "static", "inputs"}
        columns |= {name: columns[name].to(dtype) for name in values}
        return Packed(self.sizes, **columns)


def pack(
    times: np.ndarray,
    values: np.ndarray,
    offsets: np.ndarray,
    *,
    static: np.ndarray | None = None,
    errors: np.ndarray | None = None,
    driven: Driven | None = None,
    block_rows: int = 200_000,
) -> Packed:
    """Pack series that are stored one after the other.

    Parameters
    ----------
    times : float64 ndarray of shape (P,)
        Increasing within each series.
    values : float64 ndarray of shape (P, D)
        Standardised, NaN where not observed.
    offsets : int64 ndarray of shape (B + 1,)
        Where each series starts; none is empty.
    static : float64 ndarray of shape (B, S) or None, default=None
        Static covariates of each series, standardised.
    errors : float64 ndarray of shape (P, D) or None, default=None
        Known standard deviations of the values, standardised, NaN where not known.
    driven : Driven or None, default=None
        Inputs at these rows.
    block_rows : int, default=200_000
        Series are run in blocks of about this many rows: it bounds memory, and is far past the
        size at which matrix products gain from more rows.

    Returns
    -------
    Packed

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.models import pack
    >>> times = np.array([0.0, 1.0, 3.0, 5.0, 5.5])
    >>> values = np.array([[1.0], [2.0], [0.0], [4.0], [3.0]])
    >>> data = pack(times, values, np.array([0, 3, 5]))  # series of three and two rows
    >>> data.elapsed.tolist()
    [0.0, 0.0, 1.0, 0.5, 3.0]
    >>> data.next.tolist()
    [2, 3, 4, -1, -1]
    """
    lengths = np.diff(offsets)  # (B,)
    series = np.repeat(np.arange(len(lengths)), lengths)  # (P,), of each row as it is given
    step = np.arange(len(times)) - offsets[series]  # (P,), place of the row in its series

    # Longest series first, so that the rows of a step are a prefix of those of the step before.
    by_length = np.argsort(-lengths, kind="stable")
    place = np.argsort(by_length)  # (B,), of each series among them (inverse permutation)
    # Blocks are runs of series in that order: of about equal length.
    block = ((np.cumsum(lengths[by_length]) - 1) // block_rows)[place]  # (B,)
    # New order of rows: by block, then step, then place (lexsort's last key counts first).
    order = np.lexsort((place[series], step, block[series]))  # (P,), old row of each new one
    row = np.argsort(order)  # (P,), new row of each old one

    since = elapsed = times - times[offsets[series]]
    if driven is not None:  # inputs may begin before the first observation
        first = np.flatnonzero(~driven.knot)[np.unique(series[~driven.knot], return_index=True)[1]]
        since = times - times[first][series]
        elapsed = np.maximum(since, 0.0)
    is_last = step == lengths[series] - 1
    mask = ~np.isnan(values)
    before = np.roll(last_seen_rows(values, offsets), 1, axis=0)  # (P, D), of earlier rows
    before[step == 0] = -1
    seen, since_seen = before >= 0, elapsed[:, None] - elapsed[before]
    columns = {
        "x": np.where(mask, values, 0.0),
        "mask": mask,
        "seen": seen,
        "gap": np.where(step == 0, 0.0, np.diff(since, prepend=0.0)),
        "channel_gap": np.where(seen, since_seen, 1.0),
        "elapsed": elapsed,
        "next": np.where(is_last, -1, np.append(row[1:], -1)),  # given rows are in time order
        "series": series,
        "static": np.empty((len(times), 0)) if static is None else static[series],
    }
    if errors is not None:
        columns["error"] = errors
    if driven is not None:
        columns |= {"inputs": driven.columns, "knot": driven.knot}
    sizes = [np.bincount(step[block[series] == k]).tolist() for k in np.unique(block)]
    return Packed(sizes, **{name: torch.from_numpy(a[order]) for name, a in columns.items()})
