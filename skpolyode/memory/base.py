"""The memory as models see it, whatever its measure.

It follows piecewise cubic signals as sums of knots. A piecewise cubic is determined by the steps of
its value and of its first three derivatives at its knots; the memory is linear, so its response to
the signal is the sum of its responses to the knots
(:class:`~skpolyode.memory.tables.ResponseTable`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property, lru_cache, partial
from numbers import Integral
from threading import Lock
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from skpolyode.cubic import CubicPath, hermite_derivatives
from skpolyode.memory.tables import (
    CACHED,
    N_ORDERS,
    ResponseTable,
    TransitionTable,
    gauss_nodes,
    split_rows,
)
from skpolyode.saving.codec import register

# In the units of the model: shorter gaps count as this one. A signal that moves within it changes
# nothing to 1e-16, and its third derivatives would overflow.
SHORTEST_GAP = 1e-75

# Pieces whose ages are counted from one moment. Steps of third derivatives grow as 1 / step**3, the
# responses to them as age**3, and cancel: what remains is 1e-16, times the cube of this.
LONGEST_PART = 32


def path_parts(path: CubicPath, horizon: float) -> tuple[Tensor, Tensor, CubicPath]:
    """Cut paths, from their ends, into parts of at most `LONGEST_PART` pieces.

    Parts that ended more than `horizon` ago are forgotten, and left out. Parts without a rest come
    first, in the order of the rows.

    Returns
    -------
    row : int64 Tensor of shape (P,)
        Row that each part belongs to.
    rest : float64 Tensor of shape (P,)
        Time between the end of the part and the end of its row.
    parts : CubicPath
        The parts, one in each of P rows.
    """
    n_parts = (len(path.values) - 2) // LONGEST_PART + 1
    after = LONGEST_PART * torch.arange(n_parts, device=path.step.device)[:, None]  # pieces
    kept = (after < path.n_steps) & (after * path.step <= horizon)  # (parts, B)
    place, row = kept.nonzero(as_tuple=True)
    last = path.n_steps[row] - after[place, 0]
    first = (last - LONGEST_PART).clamp(min=0)
    index = torch.arange(LONGEST_PART + 1, device=row.device)[:, None] + first
    index = torch.minimum(index, last)  # (LONGEST_PART + 1, P)
    step = path.step[row]
    part = CubicPath(path.values[index, row], path.slopes[index, row], step, last - first)
    return row, after[place, 0] * step, part


def path_knots(path: CubicPath, horizon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Knots of a path, as seen from the end of each row.

    Pieces that ended more than `horizon` ago are forgotten and left out; the first remaining piece
    starts the signal. (If they were kept, the large steps of their third derivatives times the cube
    of a long age would cancel to nothing but rounding errors.)

    Returns
    -------
    row : int64 Tensor of shape (P,)
        Row that each knot belongs to.
    age : float64 Tensor of shape (P,)
        Time between the knot and the end of its row.
    steps : float64 Tensor of shape (P, D, 4)
        Steps of the value and of its first three derivatives at the knot.
    """
    step = path.step.clamp(min=SHORTEST_GAP)[:, None]
    y0, y1 = path.values[:-1].double(), path.values[1:].double()
    d0, d1 = path.slopes[:-1].double(), path.slopes[1:].double()
    curve_start, curve_end, jerk = hermite_derivatives((y1 - y0) / step, d0, d1, step)  # (K, B, D)

    index = torch.arange(len(y0), device=step.device)[:, None]
    age_end = (path.n_steps - 1 - index) * path.step
    kept = (index < path.n_steps) & (age_end <= horizon)  # (K, B)
    before = torch.cat([torch.zeros_like(kept[:1]), kept[:-1]])  # the piece before is kept too
    piece, row = kept.nonzero(as_tuple=True)
    inner = before[piece, row][:, None]
    previous = (piece - 1).clamp(min=0)
    steps = torch.stack(
        [
            torch.where(inner, 0.0, y0[piece, row]),
            torch.where(inner, 0.0, d0[piece, row]),
            curve_start[piece, row] - torch.where(inner, curve_end[previous, row], 0.0),
            jerk[piece, row] - torch.where(inner, jerk[previous, row], 0.0),
        ],
        dim=-1,
    )
    return row, (age_end + path.step)[piece, row], steps


_MANY = 16  # channels, above which one linear map for all of them is cheaper
_TABLES = Lock()  # threads that need the same tables wait for the first of them

MOST_COEFFICIENTS = 1024
"""Of a fit, and of a memory in a file: tables are square, so that its size cannot bound them."""


Array = TypeVar("Array", Tensor, np.ndarray)
Time = TypeVar("Time", Tensor, float)


class Memory(ABC):
    """Online projection of a signal's past onto orthogonal polynomials.

    A subclass is a measure: it defines how the coefficients change while the signal is zero
    (:meth:`relative_gap`), how they respond to a knot of the signal (:meth:`respond`), and how they
    are read (:meth:`basis`). This class implements the rest with those three.

    Times are in the units of the model. `elapsed` is the time since the start of the series, at
    the moment of the result; measures with a sliding window ignore it.

    Results are finite for any gap: signals that move within 1e-75 of a unit of time change nothing,
    and knots of third derivatives may be 1e95 old.

    A measure declares its properties by :attr:`context`, :attr:`whole_history` and :meth:`reach`,
    for the class and its instances. Nothing outside this package checks its name.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel, `N`.
    window : float or None, default=None
        Length of the remembered past, if the measure has a window.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.

    Examples
    --------
    The signal was 1 until now, and is 2 for the next 0.5 units of time. The middle of the last unit
    is then at the step:

    >>> import torch
    >>> from skpolyode.memory import MEMORIES
    >>> memory = MEMORIES["legt"](32, window=1.0)
    >>> c = memory.constant(torch.tensor([[1.0]], dtype=torch.float64))
    >>> gap = torch.tensor([0.5], dtype=torch.float64)
    >>> c = memory.hold(c, torch.tensor([[2.0]], dtype=torch.float64), gap, elapsed=gap)
    >>> ages = torch.tensor([[0.25, 0.75]], dtype=torch.float64)
    >>> memory.reconstruct(c, ages, elapsed=gap).round(decimals=1).flatten().tolist()
    [2.0, 1.0]
    """

    # Number of past windows that a state depends on, to 1e-12 with 32 coefficients.
    context: ClassVar[float] = math.inf
    # Whether all of the past is remembered: the measure has no window then, and its coefficients
    # mean nothing without the length of the history.
    whole_history: ClassVar[bool] = False
    # Age beyond which a knot is forgotten to 1e-16 (may be infinite).
    horizon: float

    def __init__(
        self,
        n_coefficients: int,
        window: float | None = None,
        *,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        self.n_coefficients = n_coefficients
        self.window = window
        self.dtype = dtype
        self.device = torch.device(device)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("skpolyode."):
            register(cls, Memory._arguments, cls._from_file)

    @classmethod
    def _from_file(cls, state: dict[str, Any]) -> Self:
        n = state["n_coefficients"]
        if not isinstance(n, Integral) or not 0 < n <= MOST_COEFFICIENTS:
            raise ValueError(f"no memory has {n} coefficients")
        return cls(**state)

    def _arguments(self) -> dict[str, Any]:
        """Arguments of the constructor, except type and device; tables follow from them."""
        return {"n_coefficients": self.n_coefficients, "window": self.window}

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Self:
        """The same measure on another device, or with coefficients of another type."""
        if (torch.device(device), dtype) == (self.device, self.dtype):
            return self
        return type(self)(**self._arguments(), dtype=dtype, device=device)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy without the tables, which all memories of a measure share."""
        arguments = self._arguments() | {"dtype": self.dtype, "device": str(self.device)}
        return partial(type(self), **arguments), ()

    @property
    def transitions(self) -> TransitionTable:
        """Moves coefficients over gaps, in the time of `relative_gap`."""
        return self._own_tables[0]

    @property
    def responses(self) -> ResponseTable:
        """Responds to knots, at the ages of `relative_age`."""
        return self._own_tables[1]

    @cached_property
    def _own_tables(self) -> tuple[TransitionTable, ResponseTable]:
        """Both tables, shared by all memories of a measure; made when they are first needed.

        Else a file of a few bytes could ask for gigabytes.
        """
        with _TABLES:
            return self._tables(self.n_coefficients, self.dtype, self.device)

    @classmethod
    @abstractmethod
    def _tables(
        cls, n_coefficients: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[TransitionTable, ResponseTable]:
        """Tables of the measure, cached."""

    @classmethod
    def reach(cls, window: float) -> float:
        """Largest age at which a memory of `window` can be read (may be infinite).

        Before the start of a whole history its first value can be read.
        """
        # Ages are differences of times, and round.
        return math.inf if cls.whole_history else window * (1 + 1e-9)

    @abstractmethod
    def unit_at(self, elapsed: float) -> float:
        """The measure's unit of time: a share of the window, or the length of the history."""

    @abstractmethod
    def relative_age(self, age: Array, elapsed: Array | float) -> Array:
        """Ages in the measure's unit of time; tensors, or arrays of one series."""

    @abstractmethod
    def relative_gap(self, gap: Time, elapsed: Time) -> Time:
        """Gaps in the time in which the measure forgets evenly; tensors, or one number."""

    def propagate(self, c: Tensor, gap: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients (P, D, N) after `gap` (P,) of a signal that is zero."""
        return self.transitions.apply(c, self.relative_gap(gap, elapsed))

    @abstractmethod
    def respond(self, steps: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients (P, D, N) of knots with `steps` (P, D, Q), `age` (P,) after them."""

    @abstractmethod
    def impulse(self, strength: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients (P, D, N) of clusters of M impulses of `strength` (P, D, M).

        `age` is (P, M) and `elapsed` (P,); a strength is a value times a duration. The impulses
        of a cluster lie within the radius of `responses.impulses`, in the measure's unit of time.
        """

    @staticmethod
    @abstractmethod
    def polynomials(age: np.ndarray, n_coefficients: int) -> np.ndarray:
        """Polynomials (..., N) at an age in the measure's unit of time."""

    def basis(self, age: Tensor, elapsed: Tensor) -> Tensor:
        """Polynomials (..., N) at times `age` (...) before now."""
        relative = self.relative_age(age, elapsed).detach().cpu().numpy()
        return torch.from_numpy(self.polynomials(relative, self.n_coefficients)).to(age.device)

    def constant(self, value: Tensor) -> Tensor:
        """Coefficients (..., N) of a past that was always `value` (...)."""
        c = value.new_zeros(*value.shape, self.n_coefficients, dtype=self.dtype)
        c[..., 0] = value
        return c

    def follow(self, c: Tensor, path: CubicPath, elapsed: Tensor) -> Tensor:
        """Coefficients at the end of a piecewise cubic path, exactly.

        Parameters
        ----------
        c : Tensor of shape (B, D, N)
            Coefficients at the start of the path.
        path : CubicPath
            The signal of each row.
        elapsed : float64 Tensor of shape (B,)
            Time since the start of the series at the end of the path.

        Returns
        -------
        Tensor of shape (B, D, N)
        """
        return self.propagate(c, path.step * path.n_steps, elapsed) + self.driven(path, elapsed)

    def driven(self, path: CubicPath, elapsed: Tensor) -> Tensor:
        """Coefficients (B, D, N) of a path, if the signal before it was zero; see `follow`."""
        n_points, n_rows, n_channels = path.values.shape
        if n_channels > max(_MANY, 2 * n_points):
            # One linear map serves all channels: the coefficients of unit values and slopes.
            units = torch.eye(2 * n_points, dtype=torch.float64, device=path.step.device)
            values, slopes = units[:, None].expand(-1, n_rows, -1).split(n_points)
            responses = self.driven(path._replace(values=values, slopes=slopes), elapsed)
            point = torch.arange(n_points, device=path.step.device)[:, None]
            beyond = (point > path.n_steps).repeat(2, 1)[..., None]
            given = torch.cat([path.values, path.slopes]).masked_fill(beyond, 0.0)
            given = given.permute(1, 2, 0).to(self.dtype)  # (B, D, 2 (K + 1))
            return torch.bmm(given, responses)
        if n_points - 1 > LONGEST_PART:
            row, rest, parts = path_parts(path, self.horizon)
            c = self.driven(parts, elapsed[row] - rest)  # those without a rest are the first
            past = self.propagate(c[n_rows:], rest[n_rows:], elapsed[row[n_rows:]])
            return c[:n_rows].index_add(0, row[n_rows:], past)
        row, age, steps = path_knots(path, self.horizon)
        response = self.respond(steps, age, elapsed[row]).to(self.dtype)
        c = response.new_zeros(n_rows, *response.shape[1:])
        return c.index_add_(0, row, response)

    def driven_on(
        self, path: CubicPath, end: Tensor, gap: Tensor, elapsed: Tensor, max_gap: float
    ) -> Tensor:
        """As `driven`, of paths that end at `max_gap`: later their `end` (B, D) is held.

        `elapsed` (B,) is the time since the start of the series at the end of the `gap` (B,).
        """
        rest = gap - path.step * path.n_steps
        c = self.driven(path, elapsed - rest)
        if (held := gap > max_gap).any():
            after = self.hold(c[held], end[held], rest[held], elapsed[held])
            c = c.index_put((held.nonzero()[:, 0],), after)
        return c

    def hold(self, c: Tensor, value: Tensor, gap: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients (B, D, N) after a `gap` (B,) of the constant signal `value` (B, D)."""
        response = self.respond(value.double()[..., None], gap, elapsed)  # of one step (B, D, 1)
        return self.propagate(c, gap, elapsed) + response.to(self.dtype)

    def bridge(self, rise: Tensor, gap: Tensor, elapsed: Tensor) -> Tensor:
        r"""Coefficients of a ramp from 0, `gap` ago, to `rise` now: ``rise * rho(gap)``.

        Added at an observation with ``rise = x - h0``, it makes the remembered path pass through
        the observation without a step: ``rho(g) = int_0^g exp(A (g-s)) B s/g ds``.

        Parameters
        ----------
        rise : Tensor of shape (B, D)
        gap : float64 Tensor of shape (B, D)
            Time since the previous observation *of that channel*, positive; shorter than 1e-75
            counts as that.
        elapsed : float64 Tensor of shape (B,)

        Returns
        -------
        Tensor of shape (B, D, N)
        """
        gap = gap.clamp(min=SHORTEST_GAP)
        slope = rise.double() / gap
        knots = torch.stack([torch.zeros_like(slope), slope], dim=-1)  # (B, D, 2)
        if (gap == gap[:, :1]).all():  # channels observed together: one look at the table a row
            return self.respond(knots, gap[:, 0], elapsed).to(self.dtype)
        if gap.shape[1] > _MANY:  # most of so many channels are not observed
            at = rise.nonzero(as_tuple=True)
            bridges = self.bridge(rise[at][:, None], gap[at][:, None], elapsed[at[0]])
            return bridges.new_zeros(*gap.shape, self.n_coefficients).index_put(at, bridges[:, 0])
        spread = elapsed[:, None].expand(gap.shape).flatten()  # a row for each channel
        response = self.respond(knots.flatten(0, 1)[:, None], gap.flatten(), spread)
        return response.to(self.dtype).unflatten(0, gap.shape)[:, :, 0]

    def take_in(self, rise: Tensor, seen: Tensor, gap: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients (B, D, N) that observations add, which move the signal by `rise`.

        `rise` (B, D) is zero where nothing was observed. `seen` (B, D) says which channels were
        observed before, and `gap` (B, D) how long ago: a ramp bends the path since then. The first
        observation of a channel shifts its whole past, so that no step from zero is remembered.
        """
        c = self.constant(torch.where(seen, 0.0, rise))
        return c + self.bridge(torch.where(seen, rise, 0.0), gap, elapsed)

    def reconstruct(self, c: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Signal at times `age` before now.

        Parameters
        ----------
        c : Tensor of shape (B, D, N)
        age : float64 Tensor of shape (B, Q)
        elapsed : float64 Tensor of shape (B,)

        Returns
        -------
        Tensor of shape (B, Q, D)
        """
        basis = self.basis(age, elapsed[:, None].expand(age.shape)).to(c.dtype)
        return basis @ c.mT


class InvariantMemory(Memory):
    r"""Memory that weighs the past by age alone, exact over any gap.

    It moves along with time: ``dc/dt = (A c + B f) / unit`` with constant matrices.

    A subclass is a pair of matrices and its polynomials, both in a unit of time of the measure.

    Parameters
    ----------
    n_coefficients : int
        Number of coefficients of a channel.
    window : float
        Length of the remembered past, in the units of the gaps and ages given later.
    dtype : torch.dtype, default=torch.float64
        Type of the coefficients.
    device : str, default="cpu"
        Where the tables live.
    """

    units_per_window = 1.0  # length of a window in the measure's unit of time
    response_spacing: float | None = None  # of the grid in these units; None suits Legendre

    def __init__(
        self,
        n_coefficients: int,
        window: float,
        *,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> None:
        super().__init__(n_coefficients, float(window), dtype=dtype, device=device)
        self.unit = window / self.units_per_window
        units = [self.unit**q for q in range(N_ORDERS)]  # of the steps of q-th derivatives
        self._units = torch.tensor(units, dtype=torch.float64, device=device)

    @property
    def horizon(self) -> float:
        """Age beyond which a knot is forgotten to 1e-16."""
        return self.responses.horizon * self.unit

    @staticmethod
    @abstractmethod
    def matrices(n_coefficients: int) -> tuple[np.ndarray, np.ndarray]:
        """`A` (N, N) and `B` (N,) in the measure's unit of time."""

    @classmethod
    @lru_cache(maxsize=32)
    def _tables(
        cls, n_coefficients: int, dtype: torch.dtype, device: torch.device
    ) -> tuple[TransitionTable, ResponseTable]:
        """Tables in the measure's unit of time: 20 to 100 ms at N = 32."""
        A, B = cls.matrices(n_coefficients)
        responses = ResponseTable.of(A, B, device, cls.response_spacing)
        return TransitionTable(A, dtype, device), responses

    def unit_at(self, elapsed: float) -> float:
        """The measure's unit of time, always the same."""
        return self.unit

    def relative_age(self, age: Array, elapsed: Array | float) -> Array:
        """Ages in the measure's unit of time."""
        return age / self.unit

    def relative_gap(self, gap: Time, elapsed: Time) -> Time:
        """Gaps in the measure's unit of time: ``exp(A gap)`` forgets."""
        return gap / self.unit

    def respond(self, steps: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients of knots, `age` after them; a q-th derivative scales as unit**q."""
        return self.responses.apply(steps * self._units[: steps.shape[-1]], age / self.unit)

    def impulse(self, strength: Tensor, age: Tensor, elapsed: Tensor) -> Tensor:
        """Coefficients of clusters of impulses."""
        return self.responses.impulses.apply(strength / self.unit, age / self.unit)


# Shortest piece that is answered by knots, as a share of the past that counts, by the degree of
# the pieces. Rounding errors grow as 1e-16 / share**degree: a part in 1e10 with these.
_SHORTEST = {0: 0.0, 1: 1e-5, 3: 1 / 160}
_CHUNK = CACHED // 64  # pieces at once: the responses to them stay in the cache


class Pieces(NamedTuple):
    """Polynomial pieces of many signals, which are zero before their first piece.

    The pieces of a row follow one another up to the present: one ends where the next starts.
    """

    row: Tensor  # int64 (P,), not decreasing
    age: Tensor  # float64 (P,): time between the start of the piece and now
    start: Tensor  # float64 (P, D, Q): value and first Q - 1 derivatives at its start
    end: Tensor  # float64 (P, D, Q): the same at its end

    @property
    def last(self) -> Tensor:
        """Whether the piece is the last of its row, bool (P,)."""
        last = torch.ones_like(self.row, dtype=torch.bool)
        last[:-1] = self.row[1:] != self.row[:-1]
        return last

    @property
    def age_end(self) -> Tensor:
        """Time (P,) between the end of the piece and now."""
        return torch.where(self.last, 0.0, self.age.roll(-1))


def remember(memory: Memory, pieces: Pieces, elapsed: Tensor) -> Tensor:
    """Coefficients that a memory holds of signals, after all of their pieces.

    Parameters
    ----------
    memory : Memory
        Remembers the signals.
    pieces : Pieces
        Signals of B rows and D channels.
    elapsed : float64 Tensor of shape (B,)
        Time since the start of each row's history, now.

    Returns
    -------
    float64 Tensor of shape (B, D, N)
    """
    last, age_end = pieces.last, pieces.age_end
    length = pieces.age - age_end
    past = elapsed.clamp(max=memory.horizon)[pieces.row]  # the past that counts
    kept = (age_end <= memory.horizon) & (length > SHORTEST_GAP)
    short = kept & (length < _SHORTEST[pieces.start.shape[2] - 1] * past)
    if (far := length > 1e95).any():  # the cube of a longer age overflows
        pieces, short = _as_lines(pieces, far, age_end, memory.horizon), short & ~far

    total = elapsed.new_zeros(len(elapsed), pieces.start.shape[1], memory.n_coefficients)
    # Knots of the signal that consists of the pieces `whole`, and is zero elsewhere.
    whole = kept & ~short
    begins = torch.where(whole[:, None, None], pieces.start, 0.0)
    ends = torch.where((whole & ~last)[:, None, None], pieces.end, 0.0).roll(1, 0)
    used = (whole | (whole & ~last).roll(1)) & (pieces.age > 0)
    knots = pieces.row[used], pieces.age[used], (begins - ends)[used]
    for row, age, steps in split_rows(_CHUNK, *knots):
        total.index_add_(0, row, memory.respond(steps, age, elapsed[row]))
    if short.any():
        for row, impulses in _respond_to_short(memory, pieces, length, short, elapsed):
            total.index_add_(0, row, impulses)
    return total


def _as_lines(pieces: Pieces, far: Tensor, age_end: Tensor, horizon: float) -> Pieces:
    """The pieces `far` as lines between their ends, from the `horizon` on."""
    age, start, end = pieces.age.clone(), pieces.start.clone(), pieces.end.clone()
    length = age[far] - age_end[far]
    inside = length.clamp(max=horizon)
    age[far] = age_end[far] + inside
    value, rise = end[far][..., :1], end[far][..., :1] - start[far][..., :1]
    slope = rise / length[:, None, None]
    line = torch.cat([value, slope, 0 * slope, 0 * slope], dim=2)[..., : end.shape[2]]
    end[far] = line
    line[..., :1] -= slope * inside[:, None, None]
    start[far] = line
    return Pieces(pieces.row, age, start, end)


def _respond_to_short(
    memory: Memory, pieces: Pieces, length: Tensor, short: Tensor, elapsed: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows (P,) and coefficients (P, D, N) of parts of the pieces `short`, a chunk at a time.

    Each is cut into equal stretches, none too long for a cluster of impulses. A stretch of signal
    is an integral of impulses.
    """
    node, weight = map(torch.from_numpy, gauss_nodes(8))  # exact for a cubic times degree 12
    relative = memory.relative_age(length[short], elapsed[pieces.row[short]])
    counts = (relative / memory.responses.impulses.radius).ceil().long()  # stretches of each piece
    piece = short.nonzero()[:, 0].repeat_interleave(counts)
    first = (counts.cumsum(0) - counts).repeat_interleave(counts)
    place = torch.arange(len(piece), device=piece.device) - first
    widths = (length[short] / counts).repeat_interleave(counts)
    for i, k, h in split_rows(_CHUNK, piece, place, widths):
        row, width = pieces.row[i], h[:, None]
        since = (k * h)[:, None] + node * width  # (P, nodes), from the start of the piece
        powers = [since**q / math.factorial(q) for q in range(pieces.start.shape[2])]
        strength = pieces.start[i] @ torch.stack(powers, dim=1) * (weight * width)[:, None]
        yield row, memory.impulse(strength, pieces.age[i][:, None] - since, elapsed[row])
