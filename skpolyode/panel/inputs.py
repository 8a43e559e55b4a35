"""Inputs: exogenous variables of series, at separate times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skpolyode.errors import FaultKind, Faults, plain_repr
from skpolyode.panel.cells import Times
from skpolyode.panel.rows import merge_duplicates, sort_rows

KINDS = ("hold", "linear", "impulse")
"""Meanings of the rows of a channel; see :class:`Inputs`."""

_OTHER_SERIES = FaultKind(
    "inputs of other series",
    "give each series its inputs by its id, or one series of inputs for each in their order; one "
    "without any row is built with empty='keep'",
)
_OTHER_CLOCK = FaultKind(
    "inputs on another clock", "give inputs and series one time_unit, and both or none a time zone"
)


class Inputs:
    """Exogenous variables: known causes that act on series, such as doses, meals or weather.

    Each series has rows of inputs at separate times: before, between and after its observations.
    Forecasts use the rows after the last observation as future inputs.

    Parameters
    ----------
    panel : Panel
        The rows, a channel for each input. Every constructor of a panel checks units, time zones,
        order and duplicates; with ``empty="keep"`` series may have no rows. Where a channel is NaN
        it has no row. Inputs belong to the series with the same id or, without ids, in the same
        position.
    kinds : str, sequence of str or mapping of str to str, default="hold"
        Meaning of the rows of each channel. Channels that a mapping does not name are of the kind
        "hold".

        - "hold": the channel keeps the value of a row until its next row.
        - "linear": straight lines join the rows; after the last row the channel keeps its value.
        - "impulse": each row is an amount at one moment, such as a dose.

        Before its first row a channel of the kinds "hold" and "linear" has its mean value in `fit`.

    Attributes
    ----------
    names : tuple of str
        Names of the channels.
    kinds : tuple of str
        Kind of each channel.

    Raises
    ------
    ValueError
        If a kind is not known, or `kinds` names a channel that does not exist.

    See Also
    --------
    Panel : Holds them in `inputs`.

    Examples
    --------
    Two patients, of whom the second got no dose:

    >>> from skpolyode import Inputs, Panel
    >>> doses = Panel.from_series(
    ...     [([0.0, 6.5], [100.0, 50.0]), ([], [])], channel_names=["dose"], empty="keep"
    ... )
    >>> readings = [([1.0, 4.0, 9.0], [3.0, 2.0, 4.0]), ([1.5, 2.0], [0.1, 0.0])]
    >>> panel = Panel.from_series(readings, inputs=Inputs(doses, kinds="impulse"))
    >>> panel.inputs.names, panel.inputs.kinds, panel[:1].inputs.panel.values.ravel().tolist()
    (('dose',), ('impulse',), [100.0, 50.0])
    """

    __slots__ = ("kinds", "series", "stored")

    def __init__(self, panel: Any, kinds: Any = "hold") -> None:
        if not hasattr(panel, "rows"):
            raise TypeError(
                "Inputs are made of a Panel, such as Panel.from_series([(times, values), ...]), "
                f"got {type(panel)}."
            )
        # Series of `stored` for each series with these inputs: a selection copies no rows.
        self.stored, self.series = panel, np.arange(panel.n_series)
        if isinstance(kinds, Mapping):
            if unknown := [name for name in kinds if name not in self.names]:
                raise ValueError(
                    f"kinds names {unknown}, but the inputs have the channels {self.names}."
                )
            kinds = [kinds.get(name, "hold") for name in self.names]
        one_each = isinstance(kinds, Iterable) and not isinstance(kinds, str)
        found = tuple(kinds) if one_each else (kinds,) * len(self.names)
        if len(found) != len(self.names) or any(kind not in KINDS for kind in found):
            raise ValueError(
                f"kinds must give each of the channels {self.names} one of {KINDS}, got {kinds!r}."
            )
        self.kinds = found

    def __repr__(self) -> str:
        return f"Inputs({self.panel!r}, {dict(zip(self.names, self.kinds, strict=True))})"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the channels."""
        return self.stored.channel_names

    @property
    def panel(self) -> Any:
        """The rows: one series of inputs per series. The ids are those given, or positions."""
        if np.array_equal(self.series, np.arange(self.stored.n_series)):
            return self.stored
        part = self.stored[self.series]
        return part.from_rows(_unlabelled(part.rows))

    def at(self, series: Any) -> Inputs:
        """Return the inputs of the series that a numpy index selects."""
        part = Inputs(self.stored, self.kinds)
        part.series = self.series[series]
        return part

    def select(self, names: Sequence[str]) -> Inputs:
        """Inputs with the named channels, in this order."""
        kinds = dict(zip(self.names, self.kinds, strict=True))
        chosen = [kinds[name] for name in names]
        return Inputs(self.stored.select_channels(names), chosen).at(self.series)

    def equals(self, other: object) -> bool:
        """Whether other inputs have the same rows, channels and kinds."""
        if not isinstance(other, Inputs) or self.kinds != other.kinds:
            return False
        return _unlabelled(self.panel.rows).equals(_unlabelled(other.panel.rows))

    def updated(self, later: Inputs) -> Inputs:
        """Inputs with further rows of the same series, which replace others at equal times.

        The further rows may lack channels. An impulse that is given again counts once; another
        amount at its moment is an error.
        """
        old, new = (dict(zip(x.names, x.kinds, strict=True)) for x in (self, later))
        if not new.items() <= old.items():
            raise ValueError(
                f"the new inputs are {new}, the earlier ones {old}: give the same names and kinds."
            )
        one, two = self.panel, _in_channels(later, self.names)
        n = one.n_series
        joint = type(one).concat([one, two], ids=range(2 * n))
        rows = joint[np.arange(2 * n).reshape(2, n).T.ravel()].rows  # parts of a series together
        rows = sort_rows(_unlabelled(replace(rows, offsets=rows.offsets[::2])))
        first, last = (merge_duplicates(rows, how) for how in ("first", "last"))
        a, b = first.values, last.values
        twice = (a != b) & (a != 0) & ~np.isnan(a) & (np.array(self.kinds) == "impulse")
        if twice.any():
            row, k = np.argwhere(twice)[0]
            raise ValueError(
                f"inputs: series {last.series_of(row)}, channel {self.names[k]!r}, time "
                f"{last.format(row)} has two amounts, {a[row, k]:g} and {b[row, k]:g}: give "
                'one row with the sum (Panel.from_series(..., duplicates="sum")), or other times.'
            )
        return Inputs(one.from_rows(last), self.kinds)

    def joined(self, other: Inputs) -> Inputs:
        """Inputs of the same series with the channels of both."""
        if twice := sorted({*self.names} & {*other.names}):
            raise ValueError(f"two inputs have the channels {twice}: give them unique names.")
        wide = _in_channels(self, self.names + other.names)
        return Inputs(wide, self.kinds + other.kinds).updated(other)


def _in_channels(inputs: Inputs, names: tuple[str, ...]) -> Any:
    """Rows of inputs with these channels; NaN in those that the inputs lack."""
    panel = inputs.panel
    values = np.full((len(panel.values), len(names)), np.nan)
    values[:, [names.index(name) for name in inputs.names]] = panel.values
    return panel.from_rows(replace(panel.rows, values=values, channel_names=names))


def _unlabelled(rows: Any) -> Any:
    """Rows of series that are identified by position."""
    ids = np.arange(len(rows.offsets) - 1)
    return replace(rows, ids=ids, has_ids=False, static=None, keeps_empty=True)


def fit_inputs(inputs: Any, ids: np.ndarray, times: Times, faults: Faults) -> Inputs | None:
    """Inputs of each series, in the order of the ids; those of a panel are of the kind "hold".

    None if they do not fit, which is a fault.
    """
    if not isinstance(inputs, Inputs):
        if not hasattr(inputs, "rows"):
            raise TypeError(
                "inputs must be Inputs(panel, kinds), or a Panel (its channels are held), got "
                f"{type(inputs)}."
            )
        inputs = Inputs(inputs)
    stored, rows = inputs.panel, inputs.panel.rows
    ours, its = ((clock.unit, clock.tz is None) for clock in (times, rows.times))
    if len(stored.times) and ours != its:
        clocks = f"times of series are {times.clock}, those of inputs {rows.times.clock}"
        faults.add(_OTHER_CLOCK, [clocks])
    index, known = (pd.Index(labels, tupleize_cols=False) for labels in (ids, stored.ids))
    strange = known[~known.isin(index)]
    if len(known) == len(index) and (known.equals(index) or not rows.has_ids):
        places = np.arange(len(known))
    elif len(strange) or not known.is_unique:
        first = ", ".join(plain_repr(label) for label in strange[:3])
        found = f"{len(strange)} ids of inputs are those of no series ({first})"
        faults.add(_OTHER_SERIES, [found if len(strange) else "ids of inputs occur twice"])
        return None
    else:
        places = known.get_indexer(index)
    # One more series, without rows, for series without inputs.
    rows = replace(rows, offsets=np.append(rows.offsets, rows.offsets[-1]), beside={})
    fitted = Inputs(stored.from_rows(_unlabelled(rows)), inputs.kinds)
    return fitted.at(np.where(places < 0, len(known), places))


def on_clock_of(panel: Any) -> Inputs | None:
    """Inputs of a panel, with times that count from the same origin as those of the panel."""
    rows, inputs = panel.rows, panel.inputs
    if inputs is None or (rows.origin is None and inputs.stored.tz is None):
        return inputs
    driving = inputs.panel.rows
    times = driving.times._replace(tz=None, ticks=None)
    if rows.origin is not None:
        counts = rows.since_origin(driving.times, np.repeat(rows.origin, driving.lengths))
        times = times._replace(counts=counts)
    return Inputs(panel.from_rows(_unlabelled(replace(driving, times=times))), inputs.kinds)


def without_later(panel: Any) -> Any:
    """Panel without the rows of inputs after the last row of their series."""
    if (inputs := panel.inputs) is None:
        return panel
    stored, known = inputs.panel, on_clock_of(panel).panel
    kept = stored.rows.keep(known.times <= np.repeat(panel.end, known.lengths))
    rows = replace(panel.rows, inputs=Inputs(stored.from_rows(kept), inputs.kinds))
    return panel.from_rows(rows, panel.is_checked, panel.is_observed)


def join_inputs(given: Sequence[Inputs | None]) -> Inputs | None:
    """Inputs of concatenated panels, which all have the same channels; None if none has any."""
    if all(inputs is None for inputs in given):
        return None
    kinds = [None if x is None else dict(zip(x.names, x.kinds, strict=True)) for x in given]
    if different := [position for position, each in enumerate(kinds) if each != kinds[0]]:
        raise ValueError(
            f"panel {different[0]} has the inputs {kinds[different[0]]}, panel 0 {kinds[0]}; give "
            "all of them the same."
        )
    parts = [inputs.select(given[0].names).panel for inputs in given]
    n_series = sum(part.n_series for part in parts)
    return Inputs(type(parts[0]).concat(parts, ids=range(n_series)), given[0].kinds)
