"""What all embedders share: their interface, the readout of a memory, and batches of series.

Consecutive series run on threads, and long series are cut into parts that run in parallel.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch

from skpolyode.embedders.encoders import InputEncoder
from skpolyode.memory import Memory
from skpolyode.panel import Panel, offsets_from, series_index
from skpolyode.panel.query import name_query, refuse_early
from skpolyode.panel.select import context_starts, observed_part, series_chunks, take
from skpolyode.panel.units import Units
from skpolyode.saving.codec import register_as, saved
from skpolyode.threads import learning, one_thread

CHUNK_ROWS = 32_000  # per chunk of a thread: bounds memory
CHUNK_TIMES = 4096  # per chunk, each with a state or coefficients: bounds memory
UNLIKE_FIT = 20
"""Times the typical gap of `fit` (a day is 24 hours), or the longest lead of its backtests."""
_GRID_POINTS = 101  # over a whole window
_BEFORE_END = (
    'its last observation ({} such times). relative_to="end" counts times from there, from 0 on. '
    "interpolate and reconstruct read the past."
)


class Embedder(ABC):
    """Features of checked panels, in the units that were learned.

    All rows of the panels hold an observation (`Panel.is_observed`): others are dropped on input.

    Estimators create one in `fit`; streams, displays and forecasters use it. Only a fit trains the
    model of an embedder, and only `to` moves it; everything else makes a new embedder.

    Attributes
    ----------
    units : Units
        Conversion between the user's units and the model's.
    past : MemoryReadout or None
        Converts coefficients to series; None without coefficients.
    inputs : InputEncoder or None
        Encodes inputs; None if the embedder uses none.

    Examples
    --------
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = HiPPOTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> embedder.features(panel).shape, embedder.coefficients(panel).shape
    ((2, 4), (2, 1, 4))
    """

    units: Units
    past: MemoryReadout | None
    inputs: InputEncoder | None = None
    device = torch.device("cpu")
    """Device of the computations."""
    forecasts = filters = False
    """Whether it continues series after their ends, and whether its path treats values as noisy."""
    calibration: Any = None
    """Errors of forecasts, if there are any and they are known."""
    n_slopes: int | None = None
    """Number of derivatives that `path_values` has, by its `order`; None: it takes no order."""

    @abstractmethod
    def features(self, panel: Panel) -> np.ndarray:
        """Features (B, F) of each series, at its last observation."""

    def coefficients(self, panel: Panel) -> np.ndarray:
        """Coefficients (B, D, N) of standardised channels, if the embedder has any."""
        raise NotImplementedError(f"{type(self).__name__} has no coefficients.")

    def path_values(self, panel: Panel, times: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Values (Q, D) of the path through all observations, if the embedder follows one.

        Parameters
        ----------
        panel : Panel
            The series.
        times : float64 ndarray of shape (Q,)
            Times in any order; before the first observation of a series, its path is constant.
        offsets : int64 ndarray of shape (B + 1,)
            Where the times of each series start and those of the last one end.
        """
        raise NotImplementedError(f"{type(self).__name__} follows no path.")

    def conditioned(self, panel: Panel) -> Self:
        """The embedder for several questions about some series, which may keep what they share."""
        return self


Known = dict[str, np.ndarray]
"""State of a combiner for n series: arrays (n, ...) by name, which only the combiner reads.

It only depends on the rows of each series; updates row by row, in a stream, give the same as all
rows at once. Arrays keep their types and, except for n, their shapes.
"""


def take_known(known: Known, series: Any) -> Known:
    """State of a combiner for the series of an index or a mask."""
    return {name: part[series] for name, part in known.items()}


Others = tuple[Known, np.ndarray | float]
"""Forecasts by models of whole series, by name, and the unit of the errors of all."""


class Lazy:
    """Something that is learned when it is first asked for, or saved.

    Parameters
    ----------
    learn : callable
        Learns it. It is dropped afterwards, with all that it has kept until then.
    """

    _lock: ClassVar[threading.RLock] = threading.RLock()  # one may ask for another

    def __init__(self, learn: Callable[[], Any]) -> None:
        self._learn: Callable[[], Any] | None = learn

    @property
    def learned(self) -> Any:
        """What has been learned."""
        if self._learn is not None:
            with Lazy._lock, one_thread(), learning():  # as in a fit
                if self._learn is not None:
                    self._learned = self._learn()
                    self._learn = None  # last: other threads read without the lock
        return self._learned

    @property
    def is_learned(self) -> bool:
        """Whether it has been learned."""
        return self._learn is None

    def __getattr__(self, name: str) -> Any:
        """As of what has been learned."""
        if name.startswith("_"):  # a copy asks before there is anything
            raise AttributeError(name)
        return getattr(self.learned, name)

    def __getstate__(self) -> dict[str, Any]:
        """Keep only what has been learned."""
        return {"_learn": None, "_learned": self.learned}


register_as(Lazy, lambda lazy: lazy.learned)


@saved(window="positive inf", units="D")
@dataclass(frozen=True, eq=False)
class MemoryReadout:
    """Converts coefficients to series.

    Parameters
    ----------
    memory : Memory
        In float64, on the CPU, in the model's units.
    window : float
        Length of the remembered past, in the units of `times`; for a memory of the whole history,
        that of the longest training series.
    units : Units
        Units of the coefficients and of the memory.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode import HiPPOTransformer, Panel
    >>> panel = Panel.from_series([([0.0, 0.4, 2.0], [1.0, 2.0, 0.0]), ([0.0, 2.0], [0.0, 1.0])])
    >>> embedder = HiPPOTransformer(n_coefficients=4, window=2.0).fit(panel).embedder_
    >>> past, coefficients = embedder.past, embedder.coefficients(panel)
    >>> signal = past.read(coefficients, np.array([[0.0], [0.0]]), np.array([2.0, 2.0]))
    >>> signal.shape, past.reach > 1.9
    ((2, 1, 1), True)
    """

    memory: Memory
    window: float
    units: Units

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients per channel."""
        return self.memory.n_coefficients

    @property
    def reach(self) -> float:
        """Largest age that can be read, in the units of `times`; may be infinite."""
        return self.memory.reach(self.window)

    @property
    def context(self) -> float:
        """Length of the past that a state depends on, in the units of `times`."""
        return self.memory.context * self.window

    @property
    def features(self) -> list[str]:
        """Names of the features of a series besides its coefficients."""
        return ["duration"] if self.memory.whole_history else []

    def with_duration(self, features: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Features (B, F), with the length of each history in windows appended if it is needed."""
        if not self.memory.whole_history:
            return features
        return np.column_stack([features, (end - start) / self.window])

    def check_ages(self, ages: np.ndarray, name: Callable[[int], str]) -> None:
        """Raise a ValueError that names the first age beyond the memory, if there is any."""
        late, early = ages < 0, ages > self.reach
        outside = late | early | ~np.isfinite(ages)
        if not outside.any():
            return
        first = int(np.flatnonzero(outside)[0])
        remedy = (
            "times after the last observation are for forecast"
            if late[first]
            else f"the memory reaches back window_={self.window:g}; fit with a longer window"
        )
        raise ValueError(
            f"{name(first)} relative to the last observation is outside "
            f"[-{self.window:g}, 0] ({int(outside.sum())} such times); {remedy}."
        )

    def ages_at(self, times: np.ndarray | None, shape: tuple[int, ...] | None) -> np.ndarray:
        """Ages (Q,) at relative times; None: those of an array of a `shape`, else of a grid."""
        if times is not None:
            ages = -times
        elif shape is None:
            ages = np.linspace(self.window, 0.0, _GRID_POINTS)
        else:
            ages = np.arange(shape[0] - 1, -1, -1, dtype=np.float64)
            if ages[0] > self.reach:
                raise ValueError(
                    f"the memory reaches back window_={self.window:g}, but the fitted series are "
                    f"{ages[0]:g} long: pass times within [-{self.window:g}, 0], or fit with "
                    f"window={ages[0]:g}."
                )
        self.check_ages(ages, lambda first: f"times: {-ages[first]:g}")
        return ages

    def own_times(self, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
        """Times of the rows of a panel within the memory, and their offsets (B + 1,)."""
        ages = np.repeat(observed_part(panel).end, panel.lengths) - panel.times
        kept = (ages >= 0) & (ages <= self.reach)
        return panel.times[kept], offsets_from(kept)[panel.offsets]

    def read(self, coefficients: np.ndarray, ages: np.ndarray, durations: np.ndarray) -> np.ndarray:
        """Signal (B, Q, D) in the user's units.

        Parameters
        ----------
        coefficients : float64 ndarray of shape (B, D, N)
        ages : float64 ndarray of shape (B, Q)
            Time before that of the coefficients, in the units of `times`.
        durations : float64 ndarray of shape (B,)
            Lengths of the histories.
        """
        unit = self.units.time_scale
        signal = self.memory.reconstruct(
            torch.from_numpy(np.ascontiguousarray(coefficients)),
            torch.from_numpy(ages / unit),
            torch.from_numpy(durations / unit),
        )
        return self.units.scaler.inverse(signal.numpy())

    def read_features(self, features: np.ndarray, n_channels: int, ages: np.ndarray) -> np.ndarray:
        """Signal (B, Q, D) at ages (Q,), from features (B, F) that start with coefficients."""
        shape = len(features), n_channels, self.n_coefficients
        coefficients = features[:, : shape[1] * shape[2]].reshape(shape)
        durations = features[:, -1] * self.window  # used by a measure of the whole history
        return self.read(coefficients, np.tile(ages, (len(features), 1)), durations)

    def read_past(
        self,
        coefficients: np.ndarray,
        panel: Panel,
        times: np.ndarray,
        offsets: np.ndarray,
        ends: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Signal (Q, D) at times (Q,) of series, by offsets, from coefficients (B, D, N).

        `ends` (B,) are the first and last observations; None: those of the panel. Raises a
        ValueError that names the series if a time is beyond the memory.
        """
        series = series_index(offsets)
        start, end = (panel.start, panel.end) if ends is None else ends
        ages, durations = end[series] - times, (end - start)[series]
        self.check_ages(
            ages, lambda first: name_query(panel, series[first], times[first], -ages[first])
        )
        found = np.empty((len(times), coefficients.shape[1]))
        for first in range(0, len(times), CHUNK_TIMES):
            part = slice(first, first + CHUNK_TIMES)
            chunk = coefficients[series[part]], ages[part, None], durations[part]
            found[part] = self.read(*chunk)[:, 0]
        return found


def map_chunks(embed: Callable[[Panel], Any], panel: Panel) -> list:
    """Results of `embed` for consecutive series; see `map_slices`."""
    return map_slices(lambda part: embed(panel[part]), panel.lengths)


def map_slices(work: Callable[[slice], Any], lengths: np.ndarray) -> list:
    """Results of `work` for slices of series of these lengths, on the threads that torch may use.

    The chunks do not depend on the number of threads, and neither does the result. Torch operations
    are single-threaded in each thread: they are many and small, and a second thread inside them
    would mostly wait for the first (very long on a busy machine).
    """
    return map_threads(work, list(series_chunks(lengths, CHUNK_ROWS)))


def map_threads(work: Callable[[Any], Any], parts: Sequence[Any]) -> list:
    """Results of `work` for each part, on the threads that torch may use; see `map_slices`."""
    n_threads = min(torch.get_num_threads(), len(parts))
    with one_thread():
        if n_threads < 2:
            return [work(part) for part in parts]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(work, parts))


def lead_batches(
    panel: Panel, times: np.ndarray, offsets: np.ndarray, end: np.ndarray
) -> Iterator[tuple[slice, slice, np.ndarray, np.ndarray]]:
    """Split forecasts of many series into batches of bounded size.

    Parameters
    ----------
    panel : Panel
        The series, or a panel with the same labels.
    times : float64 ndarray of shape (Q,)
        Times from the last observation on, of all series one after the other.
    offsets : int64 ndarray of shape (B + 1,)
        Where the times of each series start and those of the last one end.
    end : float64 ndarray of shape (B,)
        Time of the last observation of each series.

    Yields
    ------
    series : slice
        Consecutive series.
    rows : slice
        Rows of these series among all Q.
    leads : float64 ndarray of shape (b, q)
        Times since the last observations, zero where padded.
    asked : bool ndarray of shape (b, q)
        False where padded.

    Raises
    ------
    ValueError
        If a time is before the last observation of its series.
    """
    refuse_early(panel, times, offsets, end, _BEFORE_END)
    counts = np.diff(offsets)
    leads = times - np.repeat(end, counts)
    for part in series_chunks(np.maximum(panel.lengths, counts), CHUNK_ROWS):
        rows = slice(offsets[part.start], offsets[part.stop])
        asked = np.arange(max(counts[part].max(), 1)) < counts[part, None]
        padded = np.zeros(asked.shape)
        padded[asked] = leads[rows]
        yield part, rows, padded, asked


class Parts(NamedTuple):
    """Series cut into parts that run in parallel, each after a warm-up that sets its state."""

    panel: Panel  # K parts as series, each with the rows of its warm-up
    start: np.ndarray  # int64 (K,): first row of the warm-up, among all rows of the uncut panel
    bounds: np.ndarray  # int64 (K + 1,): first row of each part after its warm-up, and the end
    later: np.ndarray  # int64: the parts that are not the first of their series


def cut(panel: Panel, reach: float, n_rows: int) -> Parts:
    """Cut long series into parts of about `n_rows` rows, and a warm-up as long as `reach`.

    Parameters
    ----------
    panel : Panel
        Panel without empty rows.
    reach : float
        Length of the past that a state depends on, in the units of `times`. Series of up to twice
        this length are not cut.
    n_rows : int
    """
    first, lengths = panel.offsets[:-1], panel.lengths
    is_long = panel.end - panel.start > 2 * reach
    n_parts = np.where(is_long, np.maximum(lengths // n_rows, 1), 1)
    series = np.repeat(np.arange(panel.n_series), n_parts)
    place = np.arange(len(series)) - offsets_from(n_parts)[series]
    bounds = first[series] + place * lengths[series] // n_parts[series]
    start, bounds = bounds.copy(), np.append(bounds, panel.n_observations)
    later = np.flatnonzero(place)
    if len(later):
        start[later] = context_starts(panel, bounds[later] - 1, reach)
    return Parts(take(panel, series, start, bounds[1:]), start, bounds, later)
