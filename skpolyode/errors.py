"""One error for all the faults of an input.

An input of a thousand series rarely has one fault only. `Faults` collects what the checks find and
raises a single `ValueError` that lists the first few faults, their total, and what to do about
each kind, so that one run shows everything there is to repair.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from numbers import Real
from typing import TypeVar

import numpy as np

__all__ = ["FaultKind", "Faults"]

Item = TypeVar("Item")


class ParameterError(ValueError):
    """A parameter that does not suit the data, found where the class that has it is not known."""


@contextmanager
def naming_owner(owner: object) -> Iterator[None]:
    """Let a `ParameterError` name the class that has the parameter.

    Parameters
    ----------
    owner : object
        The estimator that the user called.

    Raises
    ------
    ValueError
        In place of the error.

    Examples
    --------
    >>> from skpolyode.errors import ParameterError, naming_owner
    >>> with naming_owner([]):
    ...     raise ParameterError("size must be positive, got 0.")
    Traceback (most recent call last):
    ValueError: list: size must be positive, got 0.
    """
    try:
        yield
    except ParameterError as error:
        raise ValueError(f"{type(owner).__name__}: {error}") from None


def plain_repr(label: object) -> str:
    """Write a value as its user would, in a line; numpy's repr of its scalars names their type.

    Parameters
    ----------
    label : object
        An id, a name or a value.

    Returns
    -------
    str
        Its `repr`, or that of the Python object that a numpy scalar stands for. Of a long one, the
        beginning.

    Examples
    --------
    >>> import numpy as np
    >>> from skpolyode.errors import plain_repr
    >>> plain_repr(np.int64(30)), plain_repr(np.str_("p07")), plain_repr(30)
    ('30', "'p07'", '30')
    """
    if isinstance(label, np.datetime64 | np.timedelta64):  # as nanoseconds they are bare integers
        return repr(str(label))
    text = repr(label.item() if isinstance(label, np.generic) else label)
    return text if len(text) <= 80 else f"{' '.join(text[:80].split())} ..."


def check_switch(name: str, value: object) -> None:
    """Raise a TypeError unless a switch is on or off: all else would count as on.

    Parameters
    ----------
    name : str
        How the user calls it.
    value : object
        What was given.

    Raises
    ------
    TypeError
        If it is neither True nor False.

    Examples
    --------
    >>> from skpolyode.errors import check_switch
    >>> check_switch("combine", 0.5)
    Traceback (most recent call last):
    TypeError: combine must be True or False, got 0.5.
    """
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {plain_repr(value)}.")


def check_share(name: str, value: object) -> None:
    """Raise an error unless a value is one number between 0 and 1.

    Parameters
    ----------
    name : str
        How the user calls it.
    value : object
        What was given.

    Raises
    ------
    TypeError
        If it is no number, but perhaps a list of some.
    ValueError
        If it is 0 or less, or 1 or more.

    Examples
    --------
    >>> from skpolyode.errors import check_share
    >>> check_share("coverage", [0.5, 0.9])
    Traceback (most recent call last):
    TypeError: coverage must be one number between 0 and 1, got [0.5, 0.9]: call it for each.
    """
    if not isinstance(value, Real):
        remedy = ": call it for each" if np.ndim(value) else ""
        given = plain_repr(value)
        raise TypeError(f"{name} must be one number between 0 and 1, got {given}{remedy}.")
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, got {plain_repr(value)}.")


def check_shares(name: str, values: object) -> None:
    """Raise an error unless values are a list of numbers between 0 and 1.

    Parameters
    ----------
    name : str
        How the user calls them.
    values : object
        What was given.

    Raises
    ------
    TypeError
        If they are no list, or of something else than numbers.
    ValueError
        If there are none, or one does not lie between 0 and 1.

    Examples
    --------
    >>> from skpolyode.errors import check_shares
    >>> check_shares("alpha", 0.5)
    Traceback (most recent call last):
    TypeError: alpha must be a list, such as [0.05, 0.95], got 0.5.
    """
    if np.ndim(values) != 1:
        raise TypeError(f"{name} must be a list, such as [0.05, 0.95], got {plain_repr(values)}.")
    if not len(values):
        raise ValueError(f"{name} must hold a number at least, such as [0.05, 0.95].")
    for value in values:
        check_share(name, value)


def require(package: str, extra: str, what: str) -> None:
    """Say how to install a package that only a part of this one needs.

    Parameters
    ----------
    package : str
        The package that is imported.
    extra : str
        The extra of skpolyode that installs it.
    what : str
        What needs it.

    Raises
    ------
    ImportError
        If the package cannot be imported.

    Examples
    --------
    >>> from skpolyode.errors import require
    >>> require("numpy_of_mars", "mars", "The martian reader")
    Traceback (most recent call last):
    ImportError: The martian reader needs numpy_of_mars: pip install 'skpolyode[mars]'.
    """
    try:
        import_module(package)
    except ImportError as error:
        remedy = f"pip install 'skpolyode[{extra}]'"
        raise ImportError(f"{what} needs {package}: {remedy}.") from error


@dataclass(frozen=True)
class FaultKind:
    """A kind of fault and its remedy.

    Parameters
    ----------
    title : str
        What is wrong, in a few words ("times out of order").
    remedy : str
        What the user can do about it ("pass sort=True").

    Examples
    --------
    >>> from skpolyode.errors import FaultKind
    >>> FaultKind("times out of order", "pass sort=True").title
    'times out of order'
    """

    title: str
    remedy: str


@dataclass(eq=False, repr=False)
class Faults:
    """Collector of the faults of one input.

    Parameters
    ----------
    name : str, default="X"
        The word by which the user knows the input; starts the message.
    ids : ndarray of shape (n_series,) or None, default=None
        Ids of the series. With them a fault names its series by position and id, without them by
        position only.
    channel_names : sequence of str or None, default=None
        Names of the channels. None: x0, x1, ...
    maker : str or None, default=None
        The method of `Panel` that was called, which takes the place of ``{maker}`` in remedies.
    positions : int ndarray of shape (n_series,) or None, default=None
        Where the series of the input stand among those of the user, which have the ids. None: they
        are the same.
    remedies : mapping of FaultKind to str or None, default=None
        Remedies in place of those of the kinds.
    also : str, default=""
        What follows each remedy.

    Examples
    --------
    >>> from skpolyode.errors import FaultKind, Faults
    >>> faults = Faults("X")
    >>> unsorted = FaultKind("times out of order", "pass sort=True")
    >>> faults.add(unsorted, [f"{faults.series(3)}: time 1.0 follows 2.0"])
    >>> bool(faults)
    True
    >>> faults.raise_if_any()
    Traceback (most recent call last):
        ...
    ValueError: X: series 3: time 1.0 follows 2.0. Remedy: pass sort=True.
    """

    name: str = "X"
    ids: np.ndarray | None = None
    channel_names: Sequence[str] | None = None
    maker: str | None = None
    positions: np.ndarray | None = None
    remedies: Mapping[FaultKind, str] | None = None
    also: str = ""
    _lines: dict[FaultKind, list[str]] = field(default_factory=dict, init=False)
    _totals: Counter[FaultKind] = field(default_factory=Counter, init=False)
    limit = 10

    def __bool__(self) -> bool:
        """Whether anything was found."""
        return bool(self._totals)

    @property
    def total(self) -> int:
        """Number of faults found so far."""
        return self._totals.total()

    def series(self, position: int) -> str:
        """Name one series by its position and, where it has one, its id.

        Parameters
        ----------
        position : int
            Place of the series in the input, from 0.

        Returns
        -------
        str
            For example ``series 3 (id 'p07')``.
        """
        position = position if self.positions is None else int(self.positions[position])
        if self.ids is None or not 0 <= position < len(self.ids):
            return f"series {position}"
        return f"series {position} (id {plain_repr(self.ids[position])})"

    def channel(self, index: int) -> str:
        """Name one channel.

        Parameters
        ----------
        index : int
            Place of the channel, from 0.

        Returns
        -------
        str
            For example ``channel 'hr'``.
        """
        names = self.channel_names
        name = f"x{index}" if names is None or index >= len(names) else names[index]
        return f"channel {str(name)!r}"

    def add(self, kind: FaultKind, lines: Sequence[str], total: int | None = None) -> None:
        """Note faults of one kind.

        Parameters
        ----------
        kind : FaultKind
            The kind.
        lines : sequence of str
            One line a fault: where it is and what was found. Only the first `limit` are kept, so
            callers that find many need not write more.
        total : int or None, default=None
            How many faults there are, when `lines` holds only the first ones.
        """
        count = len(lines) if total is None else total
        if count:
            kept = self._lines.setdefault(kind, [])
            kept.extend(lines[: self.limit - len(kept)])
            self._totals[kind] += count

    def add_each(
        self, kind: FaultKind, found: Sequence[Item] | np.ndarray, line: Callable[[Item], str]
    ) -> None:
        """Note one fault of a kind for each item that was found to be wrong.

        Parameters
        ----------
        kind : FaultKind
            The kind.
        found : sequence or ndarray
            Wrong items, such as the positions of rows or series.
        line : callable
            Writes the line about one item. It is called for the first `limit` items only.
        """
        self.add(kind, [line(item) for item in found[: self.limit]], len(found))

    def raise_if_any(self) -> None:
        """Raise one `ValueError` with all that was found; do nothing when nothing was.

        Raises
        ------
        ValueError
            If any fault was added.
        """
        if self._totals:
            raise ValueError(self._message())

    def warn_if_any(self, stacklevel: int = 2) -> None:
        """Warn once of all that was found; do nothing when nothing was.

        Parameters
        ----------
        stacklevel : int, default=2
            As of `warnings.warn`, counted from the caller.
        """
        if self._totals:
            warnings.warn(self._message(), stacklevel=stacklevel + 1)

    def _remedy(self, kind: FaultKind) -> str:
        remedy = (self.remedies or {}).get(kind, kind.remedy) + self.also
        return remedy.replace("{maker}", self.maker or "Panel, Panel.from_series, ...")

    def _message(self) -> str:
        if self.total == 1:
            ((kind, lines),) = self._lines.items()
            return f"{self.name}: {lines[0]}. Remedy: {self._remedy(kind)}."
        shown: list[str] = []
        for later, lines in zip(range(len(self._lines))[::-1], self._lines.values(), strict=True):
            room = self.limit - len(shown)
            shown += lines[: max(room - later, min(room, 1))]  # one of each kind, while they fit
        text = [f"{self.name} has {self.total} faults:", *(f"  {line}" for line in shown)]
        if more := self.total - len(shown):
            text.append(f"  ... and {more} more, {self.total} in all")
        text.append("Remedies:")
        text += [f"  {kind.title} ({n}): {self._remedy(kind)}" for kind, n in self._totals.items()]
        return "\n".join(text)
